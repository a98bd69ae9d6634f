package seawall

import (
	"context"
	"time"
)

// This file is the way of one call through a Breaker: enter, admit, leave, settle.

// ticket is what admission hands out and settling takes back. The zero ticket is that of a call without a vote, which
// the breaker lets run and does not count.
type ticket struct {
	generation *generation
	probe      probe // of a closed breaker it has no id, and since only if calls can be slow
}

// plain reports whether the call takes no lock unless it fails, as nearly all do.
func (t ticket) plain() bool { return t.generation != nil && t.generation.plain }

// enter admits a call or returns why not. What the admission owes to the user's hooks is done before it returns.
func (b *Breaker) enter(ctx context.Context) (ticket, error) {
	t, rejection, err := b.try(ctx)
	if rejection == nil || b.observes() {
		return t, err
	}
	b.rejected.Add(1)
	return ticket{}, rejection
}

// try is enter without the consequences of a rejection.
func (b *Breaker) try(ctx context.Context) (ticket, *OpenError, error) {
	g := b.current.Load()
	if g.off {
		return ticket{}, nil, nil
	}
	if ended := ctx.Err(); ended != nil {
		return ticket{}, nil, b.refuseDone(ctx, ended)
	}
	if g.plain {
		return ticket{generation: g}, nil, nil
	}
	if e := g.rejection.Load(); b.stands(e) {
		return ticket{}, e, nil
	}
	t, rejection, after := b.admit()
	if after != nil {
		b.followOrFree(after, t)
	}
	return t, rejection, nil
}

// stands reports whether the rejection holds that a generation had when it was current, nil being none. It takes no lock:
// the rejection was in force as it was read.
func (b *Breaker) stands(e *OpenError) bool { return e != nil && b.read() < e.until }

// observes reports whether a call that was to be turned away runs all the same, and counts it if so. If the breaker has
// been switched off meanwhile it runs too, and nothing counts.
func (b *Breaker) observes() bool {
	mode := Mode(b.mode.Load())
	if mode == Observe {
		b.wouldReject.Add(1)
	}
	return mode != Enforce
}

// refuseDone turns a call away whose context is done, unless the breaker only observes.
func (b *Breaker) refuseDone(ctx context.Context, ended error) error {
	if b.observes() {
		return nil
	}
	b.mu.Lock()
	b.totals.cancelled++
	b.mu.Unlock() // Before the context is asked for its cause, for that may be code of the user's.
	return newDoneError(b.name, ctx, ended)
}

// admit decides about a call that has to take the lock for it.
func (b *Breaker) admit() (ticket, *OpenError, *aftermath) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.current.Load().withdraw()
	return b.admitLocked(b.peekLocked())
}

// admitLocked decides about a call that may change the state. The edge from open to half-open and the admission of the
// first probe are one step. A rejection does not note the time: then it makes no difference whether it took the lock.
func (b *Breaker) admitLocked(now time.Duration) (ticket, *OpenError, *aftermath) {
	if b.current.Load().off { // Since this call looked.
		return ticket{}, nil, nil
	}
	after := b.openForSlowCallsLocked(now)
	if wait := b.retryAfterLocked(now); wait > 0 {
		return ticket{}, b.rejectionLocked(now, wait), after
	}
	b.now = now
	if b.current.Load().state == Open {
		after = b.edgeLocked(ReasonCooldownOver, tally{}, verdict{})
	}
	g := b.current.Load()
	if g.state == HalfOpen {
		return ticket{generation: g, probe: b.probes.admit(now)}, nil, after
	}
	b.counts.running.begin(now)
	return ticket{generation: g, probe: probe{since: now}}, nil, after
}

// openForSlowCallsLocked makes the edge that is due if calls have become slow while they ran.
func (b *Breaker) openForSlowCallsLocked(now time.Duration) *aftermath {
	if b.config.SlowCallThreshold == 0 {
		return nil
	}
	g := b.current.Load()
	switch g.state {
	case Closed:
		b.now = now
		b.turnIfDueLocked(g, now)
		return b.judgeSlowLocked()
	case HalfOpen:
		if p, slow := b.probes.slow(b.config.SlowCallThreshold, now); slow {
			b.now = now
			g.slow = p.id
			return b.failProbeLocked(g, slowCall())
		}
	case Open: // Nothing runs that counts.
	}
	return nil
}

// retryAfterLocked returns how long after now a call may be admitted, 0 if it would be at now.
func (b *Breaker) retryAfterLocked(now time.Duration) time.Duration {
	g := b.current.Load()
	switch {
	case g.state == Closed:
		return 0
	case g.state == HalfOpen:
		return b.probes.wait(now)
	case g.forced():
		return b.config.Cooldown
	default:
		return max(0, g.rejection.Load().until-now)
	}
}

// stateLocked is the state that a caller would meet at now.
func (b *Breaker) stateLocked(now time.Duration) State {
	state := b.current.Load().state
	if state == Open && b.retryAfterLocked(now) == 0 {
		return HalfOpen
	}
	return state
}

// rejectionLocked returns the error for a caller who has to wait. While half-open it is made anew when the answer to
// "until when" is another one, and is in force until somebody is about to decide.
func (b *Breaker) rejectionLocked(now, wait time.Duration) *OpenError {
	g := b.current.Load()
	if g.state == Open {
		return g.rejection.Load()
	}
	until := later(now, wait)
	if e := b.probes.rejection; e == nil || e.until != until {
		b.probes.rejection = b.newOpenErrorLocked(g, until)
	}
	if b.config.SlowCallThreshold == 0 { // Else each call must look whether a probe has become slow.
		g.rejection.Store(b.probes.rejection)
	}
	return b.probes.rejection
}

func (b *Breaker) newOpenErrorLocked(g *generation, until time.Duration) *OpenError {
	return &OpenError{
		Name: b.name, State: g.state, Reason: g.reason, Until: b.instantAt(until),
		breaker: b, until: until,
	}
}

// verdict is what a call's end means.
type verdict struct {
	outcome Outcome
	slow    bool // it is a failure because it took too long
	err     error
	hint    time.Duration
}

func slowCall() verdict { return verdict{outcome: Failure, slow: true, err: ErrSlowCall} }

// tally is what a failure adds to the counts.
func (v verdict) tally() tally {
	if v.slow {
		return tally{calls: 1, failures: 1, slow: 1}
	}
	return tally{calls: 1, failures: 1}
}

// leave settles a call, however fn ended.
func (b *Breaker) leave(ctx context.Context, t ticket, returned bool, err error) {
	switch {
	case t.generation == nil: // It has no vote.
	case returned && err == nil:
		b.settle(t, verdict{outcome: Success})
	case returned:
		b.leaveWithError(ctx, t, err)
	default:
		b.settle(t, verdict{outcome: Failure, err: errNotReturned})
	}
}

func (b *Breaker) leaveWithError(ctx context.Context, t ticket, err error) {
	v := verdict{outcome: Failure, err: err}
	defer func() { b.settle(t, v) }() // Also if the classifier or a method of err panics: the call is a failure then.
	v.outcome = judge(ctx, err, b.config.classify)
	if v.outcome == Failure {
		v.hint = min(retryAfter(err), b.config.MaxRetryAfter)
	}
}

// settle counts a result in the generation that its call began in, and nowhere else.
func (b *Breaker) settle(t ticket, v verdict) {
	if v.outcome == Success && t.plain() {
		b.succeed(t.generation)
	} else {
		b.follow(b.book(t, v))
	}
}

// succeed counts a success of a plain generation: one reading of the clock, one atomic add, no lock. Without a failure
// rate over time nobody has to know when a success was, and there is no reading either.
func (b *Breaker) succeed(g *generation) {
	if due := time.Duration(g.due.Load()); due != never {
		if now := b.read(); now >= due {
			b.turn(g, now)
		}
	}
	if !g.succeed() {
		b.succeedLate(g)
	}
}

// turn brings the window to now, for a success that found the current bucket ended.
func (b *Breaker) turn(g *generation, now time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if g == b.current.Load() {
		b.turnLocked(g, now, g.successes.Load())
	}
}

// succeedLate counts a success that found its generation sealed: as such if the count was only halted, else as late.
func (b *Breaker) succeedLate(g *generation) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if g != b.current.Load() {
		b.totals.late++
	} else {
		g.succeed()
	}
}

// turnLocked brings the counts of a closed breaker to now.
func (b *Breaker) turnLocked(g *generation, now time.Duration, successes uint64) {
	b.totals.slow(b.counts.turn(now, successes))
	if due := int64(b.counts.due()); due != g.due.Load() { // No write without need, for every call reads that line.
		g.due.Store(due)
	}
}

func (b *Breaker) turnIfDueLocked(g *generation, now time.Duration) {
	if now >= time.Duration(g.due.Load()) {
		b.turnLocked(g, now, g.successes.Load())
	}
}

// haltLocked is turnLocked for a decision. No success can come between the counts it is made on and the edge it makes:
// one that tries finds the count sealed and waits for the lock. If there is no edge, unseal goes on.
func (b *Breaker) haltLocked(g *generation, now time.Duration) { b.turnLocked(g, now, g.seal()) }

// book counts a result under the lock.
func (b *Breaker) book(t ticket, v verdict) *aftermath {
	b.mu.Lock()
	defer b.mu.Unlock()
	if g := b.current.Load(); g != t.generation {
		b.bookLateLocked(t)
	} else if g.state == HalfOpen {
		return b.bookProbeLocked(g, t.probe, v)
	} else {
		return b.bookCallLocked(g, t.probe.since, v)
	}
	return nil
}

// bookLateLocked counts the result of a call whose generation has ended, unless the call became slow before that and
// has been counted then.
func (b *Breaker) bookLateLocked(t ticket) {
	g := t.generation
	if g.state == HalfOpen && t.probe.id == g.slow || g.state == Closed && b.counts.running.before(t.probe.since, g.slow) {
		return
	}
	b.totals.late++
}

func (b *Breaker) bookCallLocked(g *generation, start time.Duration, v verdict) *aftermath {
	if threshold := b.config.SlowCallThreshold; threshold > 0 {
		now := b.noteLocked()
		b.turnIfDueLocked(g, now)
		if !b.counts.running.end(start) { // It was counted when it became slow.
			return b.judgeSlowLocked()
		}
		if now-start >= threshold {
			v = slowCall()
		}
	}
	switch v.outcome {
	case Success: // Those of a plain generation don't come here.
		g.succeed()
		b.counts.running.succeed(b.now)
	case Ignored: // Says nothing, so it is no call to the window either.
		b.totals.ignored++
	case Failure:
		return b.bookFailureLocked(g, v)
	}
	return nil
}

func (b *Breaker) bookFailureLocked(g *generation, v verdict) *aftermath {
	if g.plain { // Else the reading has been noted.
		b.noteLocked()
	}
	b.haltLocked(g, b.now)
	b.totals.fail(v)
	b.counts.fail(v.tally())
	after := b.judgeLocked(v)
	if after == nil {
		g.unseal(b.counts.booked)
	}
	return after
}

// judgeLocked opens the breaker if a rule is met. It is asked after failures only, for no success opens a breaker.
func (b *Breaker) judgeLocked(v verdict) *aftermath {
	b.counts.unjudged = false
	c, window := &b.config, b.counts.window.counts()
	switch {
	case c.MinCalls > 0 && window.calls >= uint64(c.MinCalls) && window.rate() >= c.FailureRate:
		return b.edgeLocked(ReasonFailureRate, window, v)
	case c.ConsecutiveFailures > 0 && b.counts.row >= uint64(c.ConsecutiveFailures):
		return b.edgeLocked(ReasonConsecutiveFailures, window, v)
	default:
		return nil
	}
}

// judgeSlowLocked is judgeLocked for calls that became slow while they ran, if no rule has been asked about them.
func (b *Breaker) judgeSlowLocked() *aftermath {
	if !b.counts.unjudged {
		return nil
	}
	g := b.current.Load()
	b.turnLocked(g, b.now, g.successes.Load()) // They may have been found a while ago.
	return b.judgeLocked(slowCall())
}

func (b *Breaker) bookProbeLocked(g *generation, p probe, v verdict) *aftermath {
	g.withdraw()
	now := b.noteLocked()
	if after := b.openForSlowCallsLocked(now); after != nil {
		b.bookLateLocked(ticket{generation: g, probe: p})
		return after
	}
	lapsed := b.probes.release(p, now)
	b.wakeLocked()
	if threshold := b.config.SlowCallThreshold; threshold > 0 && now-p.since >= threshold {
		v = slowCall()
	}
	if lapsed && v.outcome != Success { // The dying gasp of a probe that hung decides nothing.
		b.totals.late++
		return nil
	}
	switch v.outcome {
	case Success:
		g.succeed()
		if probes := b.tallyLocked(g); probes.calls >= uint64(b.config.ProbeSuccesses) {
			return b.edgeLocked(ReasonProbesSucceeded, probes, v)
		}
	case Failure:
		return b.failProbeLocked(g, v)
	case Ignored: // The place is free again; the next caller is the next probe.
		b.totals.ignored++
	}
	return nil
}

func (b *Breaker) failProbeLocked(g *generation, v verdict) *aftermath {
	b.totals.fail(v)
	probes := b.tallyLocked(g)
	probes.add(v.tally())
	return b.edgeLocked(ReasonProbeFailed, probes, v)
}

// tallyLocked returns the counts that an edge out of the present state reports: those of the window as of its latest
// turn, or of the probes.
func (b *Breaker) tallyLocked(g *generation) tally {
	switch g.state {
	case Closed:
		return b.counts.window.counts()
	case HalfOpen:
		return tally{calls: g.successes.Load()}
	case Open: // Nothing runs that counts.
	}
	return tally{}
}
