/* The protocol of the breaker, for spin: calls in flight across generations, half-open with N places,
   ignored results, hung probes, and places that lapse (design §3.1 and §3.3).

   Time is abstract: the clock may end the cooldown, or let the place of any probe lapse, at any moment.
   cur[i] says "the call of caller i was admitted in the present generation" and stands for an unbounded
   generation counter; place[i] says "and it holds a place of the half-open state".

   The steps bear the names of the Go functions: admit, book, release, edge (edgeLocked), ForceOpen and
   Reset; lapse is what the code sees when a probe has become older than the probe timeout.

   -DN=places  -DNEED=probe successes that close  -DTRIP=failures in a row that open
   -DC=callers (at most 6)  -DHANG=h (up to h calls never return)
   -DNOIGN     no ignored results
   -DQUICK     only hung calls become older than the probe timeout
   -DMANUAL    an operator calls ForceOpen and Reset
   -DHEAL      from some moment on the dependency is well: every call that returns succeeds

   Faults, one at a time, all of which must be found:
   -DLATE      a result isn't checked for its generation
   -DEXTRA     one probe too many
   -DLEAK      an ignored result keeps its place
   -DNOLAPSE   the place of a hung probe never lapses
   -DKEEP      places survive an edge
   -DTWICE     a late result gives back a place of the present generation
   -DGASP      the failure of a probe whose place has lapsed opens the breaker
   -DHOP       the first call after the cooldown closes the breaker instead of probing            */

#ifndef N
#define N 2
#endif
#ifndef NEED
#define NEED 2
#endif
#ifndef C
#define C 4
#endif
#ifndef HANG
#define HANG 0
#endif
#ifndef TRIP
#define TRIP 2                        /* failures in a row that open it */
#endif

#ifdef EXTRA
#define FREE (used < N + 1)
#else
#define FREE (used < N)
#endif
#ifdef QUICK
#define MAYLAPSE(i) (st == half && place[i] && stuck[i])
#else
#define MAYLAPSE(i) (st == half && place[i])
#endif
#ifdef HEAL
#define WELL well
#else
#define WELL false
#endif

mtype = { closed, open, half, tripped, cooldownOver, probesSucceeded, probeFailed, byHand, byReset };

mtype st = closed;
bool forced = false, cooled = false;
byte used = 0, succ = 0, fails = 0;   /* places taken, probe successes, failures in a row */
byte hung = 0;
bool cur[C], place[C], stuck[C];
bool well = false;
byte live = 0;                        /* ghost: probes of this generation that have neither ended nor lapsed */

#define full (st == half && used >= N)

/* The table of design §3.1, written down a second time so that edge can be held to it. */
#define EDGE(to, why) (                                                                    \
  (why == tripped         && st == closed                      && to == open)   ||         \
  (why == cooldownOver    && st == open && !forced && cooled   && to == half)   ||         \
  (why == probeFailed     && st == half                        && to == open)   ||         \
  (why == probesSucceeded && st == half                        && to == closed) ||         \
  (why == byHand          && !forced                           && to == open)   ||         \
  (why == byReset                                              && to == closed))

inline edge(to, why) {
  assert(EDGE(to, why));
  st = to; forced = (why == byHand); cooled = false; succ = 0; fails = 0; live = 0;
#ifndef KEEP
  used = 0;
#endif
  k = 0;
  do :: k < C -> cur[k] = false; place[k] = false; k++ :: else -> break od;
  k = 0
}

inline admit() {
  d_step {
    ok = false;
    if
    :: st == open && !forced && cooled ->
#ifdef HOP
       edge(closed, cooldownOver)
#else
       edge(half, cooldownOver)
#endif
    :: else
    fi;
    if
    :: st == closed -> ok = true; cur[me] = true
    :: st == half && FREE ->
       ok = true; cur[me] = true; place[me] = true; used++; live++;
       assert(live <= N)              /* never more places than probes */
    :: else
    fi;
    assert(!(ok && st == open))       /* an open breaker admits nobody, a forced one least of all */
  }
}

inline release(r) {
  place[me] = false; live--;
  if
#ifdef LEAK
  :: r == 2
#endif
  :: else -> used--
  fi
}

inline probeSucceeded() {
  succ++;
  if :: succ >= NEED -> edge(closed, probesSucceeded) :: else fi
}

inline book(r) {                    /* 0 success, 1 failure, 2 ignored */
  d_step {
    late = !cur[me] || (st == half && !place[me] && r != 0);
    st0 = st; used0 = used; succ0 = succ; fails0 = fails;
    if
#ifndef LATE
    :: !cur[me] ->
#ifdef TWICE
       if :: st == half && used > 0 -> used-- :: else fi
#else
       skip                           /* of a retired generation: Late */
#endif
#endif
    :: else ->
       if
       :: st == closed && r == 0 -> fails = 0
       :: st == closed && r == 1 -> fails++; if :: fails >= TRIP -> edge(open, tripped) :: else fi
       :: st == half && place[me] ->
          release(r);
          if
          :: r == 0 -> probeSucceeded()
          :: r == 1 -> edge(open, probeFailed)
          :: else
          fi
       :: st == half && !place[me] && r == 0 -> probeSucceeded()  /* lapsed, and well all the same */
#ifdef GASP
       :: st == half && !place[me] && r == 1 -> edge(open, probeFailed)
#endif
       :: else                        /* ignored while closed; failed or ignored after its place lapsed */
       fi
    fi;
    cur[me] = false;
    assert(!late || (st == st0 && used == used0 && succ == succ0 && fails == fails0)); /* late never decides */
    late = false; st0 = closed; used0 = 0; succ0 = 0; fails0 = 0
  }
}

active [C] proctype caller() {
  byte me = _pid, k = 0, used0 = 0, succ0 = 0, fails0 = 0;
  mtype st0 = closed;
  bool ok = false, late = false;
end: do
  :: admit();
     if
     :: !ok
     :: ok -> ok = false;
        if
        :: book(0)
        :: !WELL -> book(1)
#ifndef NOIGN
        :: !WELL -> book(2)
#endif
#if HANG > 0
        :: d_step { hung < HANG && !WELL -> hung++; stuck[me] = true }; end_hung: false
#endif
        fi
     fi
  od
}

inline lapse(i) { place[i] = false; used--; live-- }

active proctype clock() {
end: do
  :: d_step { st == open && !forced && !cooled -> cooled = true }
#ifndef NOLAPSE
  :: d_step { MAYLAPSE(0) -> lapse(0) }
  :: d_step { MAYLAPSE(1) -> lapse(1) }
  :: d_step { MAYLAPSE(2) -> lapse(2) }
#if C > 3
  :: d_step { MAYLAPSE(3) -> lapse(3) }
#endif
#if C > 4
  :: d_step { MAYLAPSE(4) -> lapse(4) }
#endif
#if C > 5
  :: d_step { MAYLAPSE(5) -> lapse(5) }
#endif
#endif
  od
}

active proctype watch() {             /* places are neither lost nor invented */
end: do
  :: d_step { used != live || (st != half && used != 0) -> assert(false) }
  od
}

inline ForceOpen() { d_step { !forced -> edge(open, byHand) } }
inline Reset() { d_step { st != closed || fails > 0 -> edge(closed, byReset) } }

#ifdef MANUAL
active proctype operator() {
  byte k = 0;
end: do
  :: ForceOpen()
  :: Reset()
  od
}
#endif

#ifdef HEAL
active proctype dependency() { well = true }
#endif

ltl nostuck { [] (full -> <> !full) }             /* all places taken: one comes free again */
ltl leaves  { [] (st == half -> <> (st != half)) } /* with -DNOIGN -DQUICK */
ltl reprobe { [] (st == open -> <> (st == half)) } /* an open breaker probes again, whatever happens */
ltl heals   { [] (well -> <> (st == closed)) }     /* with -DHEAL: closes when healthy, slow probes or not */
