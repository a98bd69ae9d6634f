package seawall

import (
	"context"
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
	// A call of a closed Breaker reads no more of it than the first of these, which share a cache line, and of the first
	// generation, which lies beside them: in a crowd of breakers most never have another one. All but current and mode
	// are set once in NewBreaker.
	current    atomic.Pointer[generation] // calls are admitted to it; only an edge replaces it, under mu
	mode       atomic.Int32               // a Mode; written under mu
	systemTime bool                       // the clock is package time
	base       time.Time                  // elapsed time counts from here
	name       string
	_          [8]byte // so that first begins a line
	first      generation
	config     breakerConfig

	mu      sync.Mutex    // guards the fields below, and is never held while code of the user's runs
	now     time.Duration // the latest noted reading of the clock, as elapsed time
	counts  counts        // while closed
	probes  *probes       // while half-open
	opening opening       // the latest
	opens   int           // openings since last closed
	totals  totals        // without the successes of the current generation, which has them
	history []Change      // the last one is the edge that began the current generation
	changed chan struct{} // closed with the next edge or free place, nil if nobody waits for that

	rejectedBefore uint64 // the sum of the two below, as of the latest edge

	rejected, wouldReject atomic.Uint64 // counted without the lock
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
	b := &Breaker{
		name:       name,
		config:     config,
		base:       config.clock.Now(),
		systemTime: config.clock == systemClock{},
		counts:     newCounts(&config),
	}
	b.mode.Store(int32(config.Mode))
	b.beginLocked(&b.first)
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
	t := ticket{generation: b.current.Load()}
	if !t.plain() || ctx.Err() != nil {
		if e := t.generation.rejection.Load(); b.stands(e) && ctx.Err() == nil && b.Mode() == Enforce {
			b.rejected.Add(1) // A thirtieth faster here than further in.
			return e
		}
		if t, err = b.enter(ctx); err != nil {
			return err
		}
	}
	returned := false
	defer func() {
		if returned && err == nil && t.plain() { // Nearly every call: a tenth faster here than further in.
			b.succeed(t.generation)
		} else {
			b.leave(ctx, t, returned, err)
		}
	}()
	err = fn(ctx)
	returned = true
	return err
}

// Allow is the two-step form of [Breaker.Do] for calls that do not fit into one function. It returns a nil error
// and done if the call may be made, and else what Do would return. Call done with the call's error when it has
// ended, from any goroutine; only the first time counts. ctx is the one that the classifier will look at.
//
// A probe whose done is never called loses its place after the probe timeout. A call of a closed breaker whose done
// is never called is not counted, or counts as slow if there is a threshold.
//
// Allow panics if ctx is nil, and on a Breaker that was not made by NewBreaker.
func (b *Breaker) Allow(ctx context.Context) (done func(error), err error) {
	b.mustBeMade()
	checkContext(ctx)
	t, err := b.enter(ctx)
	if err != nil {
		return nil, err
	}
	return b.doneFunc(ctx, t), nil
}

// Wait is [Breaker.Allow] for loops that pull work from a queue and have no caller to reject: it blocks until the call
// is admitted. While the breaker is open it waits for the end of the cooldown, while it is half-open for the place of a
// probe, which the call then holds; as many waiters pass as there are places, in no particular order. It waits on the
// breaker's [Clock].
//
// If ctx is done, or ends while Wait waits, the error matches [ErrRejected], ctx.Err() and context.Cause(ctx).
//
// Wait panics if ctx is nil, and on a Breaker that was not made by NewBreaker.
func (b *Breaker) Wait(ctx context.Context) (done func(error), err error) {
	b.mustBeMade()
	checkContext(ctx)
	for {
		changed := b.nextChange() // Asked for before the attempt, so that no change after it is missed.
		t, rejection, err := b.try(ctx)
		if err != nil {
			return nil, err
		}
		if rejection == nil || b.observes() {
			return b.doneFunc(ctx, t), nil
		}
		var over <-chan time.Time // Forced open ends by an edge alone.
		if !rejection.Until.IsZero() {
			wait := rejection.RetryAfter()
			if wait == 0 {
				continue
			}
			over = b.config.clock.After(wait)
		}
		select {
		case <-changed:
		case <-over:
		case <-ctx.Done():
		}
	}
}

func (b *Breaker) doneFunc(ctx context.Context, t ticket) func(error) {
	var used atomic.Bool
	return func(err error) {
		if !used.Swap(true) {
			b.leave(ctx, t, true, err)
		}
	}
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

// Mode returns the mode in force.
func (b *Breaker) Mode() Mode {
	b.mustBeMade()
	return Mode(b.mode.Load())
}

// ForceOpen opens the breaker until [Breaker.Reset] is called; no probes run meanwhile. On a breaker that is forced
// open already it does nothing.
func (b *Breaker) ForceOpen() {
	b.mustBeMade()
	b.follow(b.interfere(ReasonForced))
}

// Reset closes the breaker whatever its state, with an empty window and a cooldown that has not grown. On a closed
// breaker that holds no counts it does nothing.
func (b *Breaker) Reset() {
	b.mustBeMade()
	b.follow(b.interfere(ReasonReset))
}

// SetMode changes how much the breaker has to say; see [WithMode]. It is safe under load. To or from [Off] the breaker
// begins anew, closed and with an empty window; between [Enforce] and [Observe] it stays as it is. The error names a
// mode that is none of the three.
func (b *Breaker) SetMode(m Mode) error {
	b.mustBeMade()
	if err := checkMode("SetMode", m); err != nil {
		return err
	}
	b.follow(b.switchMode(m))
	return nil
}

func (b *Breaker) mustBeMade() {
	if b == nil || b.current.Load() == nil {
		panic("seawall: use of a Breaker that was not made by NewBreaker")
	}
}
