package seawall

import (
	"context"
	"math/rand/v2"
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

	mu         sync.Mutex    // guards the fields below, and is never held while code of the user's runs
	now        time.Duration // the latest noted reading of the clock, as elapsed time
	at         time.Time     // the same, as the clock gave it
	state      State
	reason     Reason        // of the last edge
	generation uint64        // edges so far
	since      time.Duration // elapsed time at the last edge
	sinceAt    time.Time     // the same, as the clock gave it
	window     window        // counts while closed
	streak     uint64        // failures since the last success, while closed
	opens      int           // openings since last closed
	opening    opening
	probes     probes
	rejection  *OpenError // what callers get at the moment, nil until one needs it
	totals     totals
	history    []Change

	events outbox // has a lock of its own
}

// opening is how long the present open state lasts. What is random in it is drawn once.
type opening struct {
	cooldown time.Duration // in force: plain, grown, or decided by the user's function
	hint     time.Duration // what the error asked for, as far as honoured
	share    float64       // of jitter
}

func (o opening) duration() time.Duration {
	d := max(o.cooldown, o.hint)
	return later(d, time.Duration(float64(d)*o.share))
}

// ticket is what admission hands out and settling takes back.
type ticket struct {
	generation uint64
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
	return &Breaker{
		name:    name,
		config:  config,
		base:    base,
		at:      base,
		sinceAt: base,
		window:  newWindow(config.Window, config.Buckets),
		events:  outbox{hooks: config.hooks},
	}, nil
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
	now := b.peekLocked()
	counts := b.window.at(now)
	return Snapshot{
		Name:                b.name,
		State:               b.stateLocked(now),
		Forced:              b.forcedLocked(),
		Generation:          b.generation,
		Since:               b.sinceAt,
		Reason:              b.reason,
		Calls:               counts.calls,
		Failures:            counts.failures,
		FailureRate:         counts.rate(),
		ConsecutiveFailures: b.streak,
		ProbesInFlight:      b.probes.held(now),
		ProbeSuccesses:      b.probes.successes,
		RetryAfter:          b.retryAfterLocked(now),
		Totals:              b.totals.export(b.state, now-b.since),
	}
}

// ForceOpen opens the breaker until [Breaker.Reset] is called; no probes run meanwhile. On a breaker that is forced
// open already it does nothing.
func (b *Breaker) ForceOpen() {
	b.mustBeMade()
	b.manual(ReasonForced)
}

// Reset closes the breaker whatever its state, with an empty window and a cooldown that has not grown. On a closed
// breaker that holds no counts it does nothing.
func (b *Breaker) Reset() {
	b.mustBeMade()
	b.manual(ReasonReset)
}

func (b *Breaker) manual(why Reason) {
	b.follow(b.forceEdge(why))
}

func (b *Breaker) forceEdge(why Reason) *aftermath {
	b.mu.Lock()
	defer b.mu.Unlock()
	counts := b.countsLocked(b.noteLocked())
	if why == ReasonReset && b.state == Closed && counts == (tally{}) && b.streak == 0 {
		return nil
	}
	return b.edgeLocked(why, counts, verdict{})
}

// enter admits a call or returns why not. What the admission owes to the user's hooks is done before it returns.
func (b *Breaker) enter(ctx context.Context) (ticket, error) {
	if ctx.Err() != nil {
		return ticket{}, b.cancelled(ctx)
	}
	t, after, err := b.admit()
	if after == nil {
		return t, err
	}
	followed := false
	defer func() {
		if !followed { // A hook panicked or called runtime.Goexit: fn won't run, so the place is free again.
			b.settle(t, verdict{outcome: Ignored})
		}
	}()
	b.follow(after)
	followed = true
	return t, err
}

func (b *Breaker) cancelled(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.totals.cancelled++
	return newDoneError(ctx, b.name)
}

// admit decides about a call. The edge from open to half-open and the admission of the first probe are one step.
func (b *Breaker) admit() (ticket, *aftermath, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.state == Closed {
		return ticket{generation: b.generation}, nil, nil
	}
	now := b.noteLocked()
	if wait := b.retryAfterLocked(now); wait > 0 {
		return ticket{}, nil, b.rejectLocked(now, wait)
	}
	var after *aftermath
	if b.state == Open {
		after = b.edgeLocked(ReasonCooldownOver, tally{}, verdict{})
	}
	return ticket{generation: b.generation, probe: b.probes.admit(now)}, after, nil
}

// rejectLocked returns the error for a caller that is turned away. It is made anew only when the answer to "until
// when" is another one.
func (b *Breaker) rejectLocked(now, wait time.Duration) error {
	b.totals.rejected++
	var until time.Duration // stays 0 while forced open, which has no end
	if !b.forcedLocked() {
		until = later(now, wait)
	}
	if b.rejection == nil || b.rejection.until != until {
		b.rejection = &OpenError{Name: b.name, State: b.state, Reason: b.reason, breaker: b, until: until, wait: wait}
		if !b.forcedLocked() {
			b.rejection.Until = b.at.Add(until - b.now)
		}
	}
	return b.rejection
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

func (b *Breaker) settle(t ticket, v verdict) {
	b.follow(b.book(t, v))
}

// book counts a result in the generation that its call began in, and nowhere else.
func (b *Breaker) book(t ticket, v verdict) *aftermath {
	b.mu.Lock()
	defer b.mu.Unlock()
	if t.generation != b.generation {
		b.totals.late++
		return nil
	}
	now := b.noteLocked()
	switch b.state {
	case Closed:
		return b.bookCallLocked(now, v)
	case HalfOpen:
		return b.bookProbeLocked(now, t.probe, v)
	case Open: // No call begins here.
	}
	return nil
}

func (b *Breaker) bookCallLocked(now time.Duration, v verdict) *aftermath {
	b.totals.count(v.outcome)
	switch v.outcome {
	case Success:
		b.window.add(now, tally{calls: 1})
		b.streak = 0
	case Failure:
		b.window.add(now, tally{calls: 1, failures: 1})
		b.streak++
		if why, met := b.ruleMetLocked(); met {
			return b.edgeLocked(why, b.window.sum, v)
		}
	case Ignored: // Says nothing, so it is no call to the window either.
	}
	return nil
}

// ruleMetLocked reports whether a failure that was just booked opens the breaker, and by which rule.
func (b *Breaker) ruleMetLocked() (Reason, bool) {
	c, sum := &b.config, b.window.sum
	if c.MinCalls > 0 && sum.calls >= uint64(c.MinCalls) && sum.rate() >= c.FailureRate {
		return ReasonFailureRate, true
	}
	if c.ConsecutiveFailures > 0 && b.streak >= uint64(c.ConsecutiveFailures) {
		return ReasonConsecutiveFailures, true
	}
	return 0, false
}

func (b *Breaker) bookProbeLocked(now time.Duration, p probe, v verdict) *aftermath {
	lapsed := b.probes.release(p, now)
	if lapsed && v.outcome != Success { // The dying gasp of a probe that hung decides nothing.
		b.totals.late++
		return nil
	}
	b.totals.count(v.outcome)
	switch v.outcome {
	case Success:
		b.probes.successes++
		if b.probes.successes >= b.config.ProbeSuccesses {
			return b.edgeLocked(ReasonProbesSucceeded, b.countsLocked(now), v)
		}
	case Failure:
		counts := b.countsLocked(now)
		counts.add(tally{calls: 1, failures: 1})
		return b.edgeLocked(ReasonProbeFailed, counts, v)
	case Ignored: // The place is free again; the next caller is the next probe.
	}
	return nil
}

// aftermath is what an edge owes to code of the user's once the lock is free.
type aftermath struct {
	message    *message
	generation uint64
	trip       *Trip // to ask the cooldown function about, or nil
}

// edgeLocked takes the breaker to its next state. It is the one door: no other code writes the state, and every edge
// makes a new generation and one event.
func (b *Breaker) edgeLocked(why Reason, counts tally, v verdict) *aftermath {
	from := b.state
	to, ok := next(from, b.forcedLocked(), why)
	if !ok {
		return nil
	}
	b.totals.spent[from] += b.now - b.since
	b.totals.byReason[why]++
	b.state, b.reason, b.since, b.sinceAt = to, why, b.now, b.at
	b.generation++
	b.window.turn(b.now)
	b.window.clear()
	b.streak = 0
	b.probes = probes{}
	b.rejection = nil
	after := &aftermath{generation: b.generation}
	switch to {
	case Closed:
		b.opens = 0
	case Open:
		after.trip = b.openLocked(v)
	case HalfOpen:
		b.probes.max, b.probes.timeout = b.config.Probes, b.probeTimeoutLocked()
	}
	b.recordLocked(from, counts)
	after.message = b.events.put(b.changeLocked(from, counts, v.err), after.trip != nil)
	return after
}

// openLocked sets how long the opening lasts that has just begun. It returns what to ask the user's cooldown
// function about, nil if there is nothing to ask.
func (b *Breaker) openLocked(v verdict) *Trip {
	b.totals.opens++
	if b.forcedLocked() {
		b.opening = opening{cooldown: b.config.Cooldown}
		return nil
	}
	b.opens++
	b.opening = opening{cooldown: b.config.cooldownOf(b.opens), hint: v.hint}
	if b.config.Jitter > 0 {
		b.opening.share = b.config.Jitter * rand.Float64()
	}
	if b.config.cooldown == nil {
		return nil
	}
	return &Trip{Name: b.name, Opens: b.opens, Reason: b.reason, Err: v.err, Cooldown: b.opening.cooldown}
}

func (b *Breaker) probeTimeoutLocked() time.Duration {
	if b.config.ProbeTimeout > 0 {
		return b.config.ProbeTimeout
	}
	return b.opening.cooldown
}

func (b *Breaker) changeLocked(from State, counts tally, err error) StateChange {
	return StateChange{
		Name: b.name, From: from, To: b.state, Reason: b.reason, At: b.at, Generation: b.generation, Err: err,
		Calls: counts.calls, Failures: counts.failures,
	}
}

// historyLength is how many state changes a breaker remembers.
const historyLength = 16

func (b *Breaker) recordLocked(from State, counts tally) {
	if len(b.history) == historyLength {
		b.history = slices.Delete(b.history, 0, 1)
	}
	b.history = append(b.history, Change{
		From: from, To: b.state, Reason: b.reason, At: b.at, Generation: b.generation,
		Calls: counts.calls, Failures: counts.failures,
	})
}

// follow does what an edge owes, under no lock: it asks the cooldown function, then delivers events. Both may panic
// or exit, and neither takes the other along.
func (b *Breaker) follow(after *aftermath) {
	if after == nil {
		return
	}
	defer b.events.deliver()
	if after.trip != nil {
		defer b.events.release(after.message)
		b.setCooldown(after.generation, b.config.cooldown(*after.trip))
	}
}

// setCooldown puts the cooldown function's answer into force, unless it came too late or says nothing.
func (b *Breaker) setCooldown(generation uint64, d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if d > 0 && b.generation == generation {
		b.opening.cooldown = d
		b.rejection = nil
	}
}

// noteLocked reads the clock and notes the reading. Time never runs back: a reading before the latest noted one
// counts as that one.
func (b *Breaker) noteLocked() time.Duration {
	t := b.config.clock.Now()
	if now := b.sinceBase(t); now > b.now {
		b.now, b.at = now, t
	}
	return b.now
}

// peekLocked reads the clock as noteLocked does, and leaves no trace.
func (b *Breaker) peekLocked() time.Duration {
	return max(b.now, b.sinceBase(b.config.clock.Now()))
}

// elapsed is peekLocked for those who don't hold the lock.
func (b *Breaker) elapsed() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.peekLocked()
}

func (b *Breaker) sinceBase(t time.Time) time.Duration { return min(t.Sub(b.base), latest) }

// forcedLocked reports whether the breaker was forced open. Only an edge leaves that state, and it sets the reason.
func (b *Breaker) forcedLocked() bool { return b.reason == ReasonForced }

// stateLocked is the state that a caller would meet at now.
func (b *Breaker) stateLocked(now time.Duration) State {
	if b.state == Open && b.retryAfterLocked(now) == 0 {
		return HalfOpen
	}
	return b.state
}

// retryAfterLocked returns how long after now a call may be admitted, 0 if it would be at now. All comparisons are of
// differences, which can't overflow.
func (b *Breaker) retryAfterLocked(now time.Duration) time.Duration {
	switch {
	case b.state == Closed:
		return 0
	case b.forcedLocked():
		return b.opening.cooldown
	case b.state == Open:
		return max(0, b.opening.duration()-(now-b.since))
	default:
		return b.probes.wait(now)
	}
}

// countsLocked returns the counts that an edge out of the present state would report.
func (b *Breaker) countsLocked(now time.Duration) tally {
	if b.state == HalfOpen {
		return tally{calls: uint64(b.probes.successes)}
	}
	return b.window.at(now)
}

func (b *Breaker) mustBeMade() {
	if b == nil || b.config.clock == nil {
		panic("seawall: use of a Breaker that was not made by NewBreaker")
	}
}
