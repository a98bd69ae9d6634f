package seawall

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A Breaker is a [Policy] that stops calling what keeps failing. It is closed at first: calls run and their results
// are counted. When too many fail it opens and rejects every call with an [*OpenError]. After a cooldown it is
// half-open: it lets a few probes through, closes when enough of them succeed, and opens again when one fails.
//
// Make one with [NewBreaker], one for each dependency that can fail by itself. A Breaker is safe for use by several
// goroutines and must not be copied. It has no goroutine and no timer: there is nothing to close.
type Breaker struct {
	// Set once in NewBreaker.
	name   string
	config breakerConfig
	base   time.Time // elapsed time counts from here

	// current is the generation that calls are admitted to. Only an edge replaces it, under mu.
	current atomic.Pointer[generation]

	mu      sync.Mutex    // guards the fields below, and is never held while code of the user's runs
	now     time.Duration // the latest noted reading of the clock, as elapsed time
	at      time.Time     // the same, as the clock gave it
	since   time.Time     // at, when the current generation began
	counts  counts        // while closed
	probes  probes        // while half-open
	opening opening       // the latest
	opens   int           // openings since last closed
	totals  totals        // without the successes of the current generation, which has them
	history []Change

	rejected atomic.Uint64 // counted without the lock

	events outbox // has a lock of its own
}

// ticket is what admission hands out and settling takes back.
type ticket struct {
	generation *generation
	probe      probe // the zero probe in a closed breaker
}

// verdict is what a call's end means.
type verdict struct {
	outcome Outcome
	err     error
	hint    time.Duration
}

// NewBreaker returns a closed Breaker with the given options; the README has a table of them. The name, which may
// be any, is for errors, events and metrics.
//
// The error, if any, joins one for every option that is not legal and names its value and the legal range.
func NewBreaker(name string, opts ...BreakerOption) (*Breaker, error) {
	config, err := newBreakerConfig(opts)
	if err != nil {
		return nil, err
	}
	base := config.clock.Now()
	b := &Breaker{
		name:   name,
		config: config,
		base:   base,
		at:     base,
		since:  base,
		counts: counts{window: newWindow(config.Window, config.Buckets), timed: config.MinCalls > 0},
		events: outbox{hooks: config.hooks},
	}
	b.beginLocked(&generation{state: Closed})
	return b, nil
}

// Do runs fn and counts its result, or returns without running it: an [*OpenError] if the breaker is open, or
// half-open with all probes taken; if ctx is already done, an error that matches [ErrRejected], ctx.Err() and
// context.Cause(ctx), and counts as nothing but cancelled.
//
// fn runs on this goroutine and gets ctx as it is; no lock is held meanwhile. Do returns fn's error as it came. If
// fn panics or calls runtime.Goexit, the call counts as Failure and the panic or exit goes on.
//
// A result belongs to the state in which its call began. One that arrives after that state has ended is counted as
// late and changes nothing.
//
// Do panics if ctx or fn is nil, and on a Breaker that was not made by NewBreaker.
func (b *Breaker) Do(ctx context.Context, fn func(context.Context) error) (err error) {
	b.mustBeMade()
	checkCall(ctx, fn)
	t, err := b.enter(ctx)
	if err != nil {
		return err
	}
	returned := false
	defer func() { b.leave(ctx, t, returned, err) }()
	err = fn(ctx)
	returned = true
	return err
}

// Allow is the two-step form of [Breaker.Do] for calls that do not fit into one function. It returns a nil error
// and done if the call may be made, and else what Do would return. Call done with the call's error when it has
// ended, from any goroutine; only the first time counts. ctx is the one that the classifier will look at.
//
// A probe whose done is never called loses its place after the probe timeout. A call of a closed breaker whose done
// is never called just is not counted.
//
// Allow panics if ctx is nil, and on a Breaker that was not made by NewBreaker.
func (b *Breaker) Allow(ctx context.Context) (done func(error), err error) {
	b.mustBeMade()
	checkContext(ctx)
	t, err := b.enter(ctx)
	if err != nil {
		return nil, err
	}
	var used atomic.Bool
	return func(err error) {
		if !used.Swap(true) {
			b.leave(ctx, t, true, err)
		}
	}, nil
}

// Name returns the name given to [NewBreaker].
func (b *Breaker) Name() string {
	b.mustBeMade()
	return b.name
}

// State returns what the next caller would meet and changes nothing: once the cooldown is over it is HalfOpen,
// although the breaker stays as it is until a call arrives.
func (b *Breaker) State() State {
	b.mustBeMade()
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.stateLocked(b.peekLocked())
}

// Settings returns the options in force.
func (b *Breaker) Settings() Settings {
	b.mustBeMade()
	return b.config.Settings
}

// History returns the last 16 state changes, oldest first.
func (b *Breaker) History() []Change {
	b.mustBeMade()
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.history)
}

// Snapshot returns a copy of what the breaker knows, as of now, and changes nothing.
func (b *Breaker) Snapshot() Snapshot {
	b.mustBeMade()
	b.mu.Lock()
	defer b.mu.Unlock()
	g, now := b.current.Load(), b.peekLocked()
	s := Snapshot{
		Name:       b.name,
		State:      b.stateLocked(now),
		Forced:     g.forced(),
		Generation: g.number,
		Since:      b.since,
		Reason:     g.reason,
		RetryAfter: b.retryAfterLocked(now),
	}
	successes := g.successes.Load()
	switch g.state {
	case Closed:
		window := b.counts.at(now, successes)
		s.Calls, s.Failures, s.FailureRate = window.calls, window.failures, window.rate()
		s.ConsecutiveFailures = b.counts.consecutive(successes)
	case HalfOpen:
		s.ProbesInFlight, s.ProbeSuccesses = b.probes.held(now), int(successes)
	case Open: // Nothing runs that counts.
	}
	t := b.totals
	t.successes += successes
	t.spent[g.state] += now - g.since
	s.Totals = t.export(b.rejected.Load())
	return s
}

// ForceOpen opens the breaker until [Breaker.Reset] is called; no probes run meanwhile. On a breaker that is forced
// open already it does nothing.
func (b *Breaker) ForceOpen() {
	b.mustBeMade()
	b.follow(b.forceOpen())
}

// Reset closes the breaker whatever its state, with an empty window and a cooldown that has not grown. On a closed
// breaker that holds no counts it does nothing.
func (b *Breaker) Reset() {
	b.mustBeMade()
	b.follow(b.reset())
}

func (b *Breaker) forceOpen() *aftermath {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.edgeLocked(ReasonForced, b.tallyLocked(b.noteLocked()), verdict{})
}

func (b *Breaker) reset() *aftermath {
	b.mu.Lock()
	defer b.mu.Unlock()
	g, window := b.current.Load(), b.tallyLocked(b.noteLocked())
	if g.state == Closed && window == (tally{}) && b.counts.consecutive(g.successes.Load()) == 0 {
		return nil
	}
	return b.edgeLocked(ReasonReset, window, verdict{})
}

// enter admits a call or returns why not. What the admission owes to the user's hooks is done before it returns.
func (b *Breaker) enter(ctx context.Context) (ticket, error) {
	if ctx.Err() != nil {
		return ticket{}, b.cancelled(ctx)
	}
	t, after, err := b.admit()
	if after != nil {
		b.followOrFree(after, t)
	}
	return t, err
}

func (b *Breaker) cancelled(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.totals.cancelled++
	return newDoneError(ctx, b.name)
}

// admit decides about a call. Most calls find the breaker closed, or open for a while yet, and need no lock: what
// they read is true of the generation, and that was the current one when they looked.
func (b *Breaker) admit() (ticket, *aftermath, error) {
	g := b.current.Load()
	switch g.state {
	case Closed:
		return ticket{generation: g}, nil, nil
	case Open:
		if e := g.rejection.Load(); b.read() < e.until {
			b.rejected.Add(1)
			return ticket{}, nil, e
		}
	case HalfOpen: // Places are given under the lock.
	}
	return b.admitProbe()
}

// admitProbe gives a place to a probe if there is one. The edge from open to half-open and the admission of the first
// probe are one step.
func (b *Breaker) admitProbe() (ticket, *aftermath, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.noteLocked()
	if wait := b.retryAfterLocked(now); wait > 0 {
		b.rejected.Add(1)
		return ticket{}, nil, b.rejectionLocked(now, wait)
	}
	var after *aftermath
	if b.current.Load().state == Open {
		after = b.edgeLocked(ReasonCooldownOver, tally{}, verdict{})
	}
	t := ticket{generation: b.current.Load()}
	if t.generation.state == HalfOpen { // It may have been closed by now.
		t.probe = b.probes.admit(now)
	}
	return t, after, nil
}

// rejectionLocked returns the error for a caller who has to wait. It is made anew only when the answer to "until when"
// is another one.
func (b *Breaker) rejectionLocked(now, wait time.Duration) *OpenError {
	g, until := b.current.Load(), later(now, wait)
	e := g.rejection.Load()
	if g.state == HalfOpen && (e == nil || e.until != until) {
		e = b.newOpenErrorLocked(g, until)
		g.rejection.Store(e)
	}
	return e
}

func (b *Breaker) newOpenErrorLocked(g *generation, until time.Duration) *OpenError {
	return &OpenError{
		Name: b.name, State: g.state, Reason: g.reason, Until: b.at.Add(until - b.now),
		breaker: b, until: until,
	}
}

// leave settles a call, however fn ended.
func (b *Breaker) leave(ctx context.Context, t ticket, returned bool, err error) {
	if returned && err == nil {
		b.settle(t, verdict{outcome: Success})
		return
	}
	v := verdict{outcome: Failure, err: errNotReturned}
	defer func() { b.settle(t, v) }() // Also if the classifier or a method of err panics: the call is a failure then.
	if returned {
		v.err = err
		v.outcome = judge(ctx, err, b.config.classify)
		if v.outcome == Failure {
			v.hint = min(retryAfter(err), b.config.MaxRetryAfter)
		}
	}
}

// settle counts a result in the generation that its call began in, and nowhere else.
func (b *Breaker) settle(t ticket, v verdict) {
	if v.outcome == Success && t.generation.state == Closed {
		b.succeed(t.generation)
		return
	}
	b.follow(b.book(t, v))
}

// succeed counts a success of a closed breaker. This is the path of nearly every call: one reading of the clock, one
// atomic add, no lock. Without a failure rate nobody has to know when a success was, and there is no reading either.
func (b *Breaker) succeed(g *generation) {
	if b.counts.timed {
		if now := b.read(); now >= time.Duration(g.bucketEnd.Load()) {
			b.turn(g, now)
		}
	}
	if !g.succeed() {
		b.late()
	}
}

func (b *Breaker) turn(g *generation, now time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if g == b.current.Load() {
		b.turnLocked(g, now)
	}
}

// turnLocked brings the window of a closed breaker to now.
func (b *Breaker) turnLocked(g *generation, now time.Duration) {
	b.counts.turn(now, g.successes.Load())
	g.bucketEnd.Store(int64(b.counts.window.end))
}

func (b *Breaker) late() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.totals.late++
}

// book counts a result that takes the lock.
func (b *Breaker) book(t ticket, v verdict) *aftermath {
	b.mu.Lock()
	defer b.mu.Unlock()
	g := b.current.Load()
	if t.generation != g {
		b.totals.late++
		return nil
	}
	now := b.noteLocked()
	switch g.state {
	case Closed:
		return b.bookCallLocked(g, now, v)
	case HalfOpen:
		return b.bookProbeLocked(g, now, t.probe, v)
	case Open: // No call begins here.
	}
	return nil
}

func (b *Breaker) bookCallLocked(g *generation, now time.Duration, v verdict) *aftermath {
	switch v.outcome {
	case Failure:
		b.totals.failures++
		b.turnLocked(g, now)
		b.counts.fail(g.successes.Load())
		if why, met := b.ruleMetLocked(); met {
			return b.edgeLocked(why, b.counts.window.sum, v)
		}
	case Ignored: // Says nothing, so it is no call to the window either.
		b.totals.ignored++
	case Success: // Took no lock.
	}
	return nil
}

// ruleMetLocked reports whether a failure that was just counted opens the breaker, and by which rule.
func (b *Breaker) ruleMetLocked() (Reason, bool) {
	c, window := &b.config, b.counts.window.sum
	if c.MinCalls > 0 && window.calls >= uint64(c.MinCalls) && window.rate() >= c.FailureRate {
		return ReasonFailureRate, true
	}
	if c.ConsecutiveFailures > 0 && b.counts.row >= uint64(c.ConsecutiveFailures) {
		return ReasonConsecutiveFailures, true
	}
	return 0, false
}

func (b *Breaker) bookProbeLocked(g *generation, now time.Duration, p probe, v verdict) *aftermath {
	lapsed := b.probes.release(p, now)
	if lapsed && v.outcome != Success { // The dying gasp of a probe that hung decides nothing.
		b.totals.late++
		return nil
	}
	switch v.outcome {
	case Success:
		g.succeed()
		if probes := b.tallyLocked(now); probes.calls >= uint64(b.config.ProbeSuccesses) {
			return b.edgeLocked(ReasonProbesSucceeded, probes, v)
		}
	case Failure:
		b.totals.failures++
		probes := b.tallyLocked(now)
		probes.add(tally{calls: 1, failures: 1})
		return b.edgeLocked(ReasonProbeFailed, probes, v)
	case Ignored: // The place is free again; the next caller is the next probe.
		b.totals.ignored++
	}
	return nil
}

// tallyLocked returns the counts that an edge out of the present state reports: those of the window, or of the probes.
func (b *Breaker) tallyLocked(now time.Duration) tally {
	g := b.current.Load()
	if g.state == HalfOpen {
		return tally{calls: g.successes.Load()}
	}
	return b.counts.at(now, g.successes.Load())
}

// read returns the clock's reading as elapsed time.
func (b *Breaker) read() time.Duration {
	if b.config.clock == (systemClock{}) {
		return time.Since(b.base) // Half the price of time.Now: it reads the monotonic clock only.
	}
	return b.sinceBase(b.config.clock.Now())
}

// noteLocked reads the clock for a decision and notes the reading. Time never runs back: a reading before the latest
// noted one counts as that one.
func (b *Breaker) noteLocked() time.Duration {
	t := b.config.clock.Now()
	if now := b.sinceBase(t); now > b.now {
		b.now, b.at = now, t
	}
	return b.now
}

// peekLocked reads the clock as noteLocked does, and leaves no trace.
func (b *Breaker) peekLocked() time.Duration { return max(b.now, b.read()) }

// elapsed is peekLocked for those who don't hold the lock.
func (b *Breaker) elapsed() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.peekLocked()
}

func (b *Breaker) sinceBase(t time.Time) time.Duration { return min(t.Sub(b.base), latest) }

// stateLocked is the state that a caller would meet at now.
func (b *Breaker) stateLocked(now time.Duration) State {
	state := b.current.Load().state
	if state == Open && b.retryAfterLocked(now) == 0 {
		return HalfOpen
	}
	return state
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

func (b *Breaker) mustBeMade() {
	if b == nil || b.current.Load() == nil {
		panic("seawall: use of a Breaker that was not made by NewBreaker")
	}
}
