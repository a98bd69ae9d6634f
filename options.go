package seawall

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"time"
)

// The bounds of the options' legal ranges.
const (
	maxLimit       = 1 << 20 // slots of a Bulkhead
	maxBuckets     = 1000
	minBucketWidth = time.Millisecond
	maxCountWindow = 1 << 20 // calls
)

// A BreakerOption configures a [Breaker]. If one kind of option is given twice the last one holds, except that
// [WithOnStateChange] adds.
type BreakerOption interface {
	applyBreaker(*breakerConfig) error
}

// A BulkheadOption configures a [Bulkhead]. If one kind of option is given twice the last one holds.
type BulkheadOption interface {
	applyBulkhead(*bulkheadConfig) error
}

// An Option configures a [Breaker] or a [Bulkhead].
type Option interface {
	BreakerOption
	BulkheadOption
}

// A Trip tells a function given to [WithCooldownFunc] about the opening whose cooldown it decides.
type Trip struct {
	Name     string        // the breaker's
	Opens    int           // openings since the breaker was last closed, this one included
	Reason   Reason        // why it opened
	Err      error         // what the deciding call returned
	Cooldown time.Duration // what WithCooldown says
}

// WithFailureRate opens the breaker when the share of failures among the calls in the window reaches rate and there
// are at least minCalls of them. The check is made at each failure; a success never opens a breaker.
// Default 0.5 and 20, unless one of the two rules is given. Range: rate above 0 and at most 1, minCalls at least 1.
func WithFailureRate(rate float64, minCalls int) BreakerOption {
	return breakerOption(func(c *breakerConfig) error {
		c.FailureRate, c.MinCalls = rate, minCalls
		var errs []error
		if !(rate > 0 && rate <= 1) { // Written so as to refuse NaN too.
			errs = append(errs, outOfRange("WithFailureRate", "rate", rate, "above 0 and at most 1"))
		}
		if minCalls < 1 {
			errs = append(errs, outOfRange("WithFailureRate", "minCalls", minCalls, "at least 1"))
		}
		return errors.Join(errs...)
	})
}

// WithConsecutiveFailures opens the breaker at n failures with no success between them, however much time has passed:
// it does not depend on the window. Ignored results neither add to the row nor end it.
// Default 10, unless one of the two rules is given. Range: at least 1.
func WithConsecutiveFailures(n int) BreakerOption {
	return breakerOption(func(c *breakerConfig) error {
		c.ConsecutiveFailures = n
		return atLeast1("WithConsecutiveFailures", "n", n)
	})
}

// WithSlowCallThreshold makes every call that runs longer than d a failure, from that moment on and whether it has
// returned or not; what it returns later changes nothing. So the breaker opens about d after a dependency began to hang,
// even if its callers hang up before they get an answer, and a probe that becomes slow has failed. Running calls are
// looked at when a call arrives or fails, and are found at most d/8 late and never early. Those that become slow within
// d/8 of a success add nothing to the row of [WithConsecutiveFailures]: where some calls go well while others hang, it is
// [WithFailureRate] that opens the breaker. The price is that successes take the lock, and a second reading of the clock
// for each call.
// Default: off. Range: above 0.
func WithSlowCallThreshold(d time.Duration) BreakerOption {
	return breakerOption(func(c *breakerConfig) error {
		c.SlowCallThreshold = d
		return positive("WithSlowCallThreshold", "d", d)
	})
}

// WithWindow sets the rolling time window that the failure rate is taken from: d in all, in buckets parts. The
// window is the current bucket and those before it, so that nothing older than d counts and everything younger than
// d minus one bucket does; a bucket is d/buckets rounded down to the nanosecond. It rolls: the rate is looked at with
// each failure, not once in d.
// Default 10 s in 10 buckets. Range: d/buckets at least 1 ms, buckets from 1 to 1000. Not together with
// [WithCountWindow].
func WithWindow(d time.Duration, buckets int) BreakerOption {
	return breakerOption(func(c *breakerConfig) error {
		c.Window, c.Buckets = d, buckets
		var errs []error
		if buckets < 1 || buckets > maxBuckets {
			errs = append(errs, outOfRange("WithWindow", "buckets", buckets, "from 1 to 1000"))
		}
		if d/time.Duration(max(1, buckets)) < minBucketWidth {
			errs = append(errs, outOfRange("WithWindow", "d", d, "at least 1ms for each bucket"))
		}
		return errors.Join(errs...)
	})
}

// WithCountWindow makes the failure rate that of the last n calls, whenever they were, in place of the time window.
// It takes up to n bytes. If n is less than the 20 calls that the default rate needs, that rate is asked of n calls.
// Default: the time window. Range: from 1 to 1<<20, and at least the minCalls of a [WithFailureRate] that is given. Not
// together with [WithWindow].
func WithCountWindow(n int) BreakerOption {
	return breakerOption(func(c *breakerConfig) error {
		c.CountWindow = n
		if n < 1 || n > maxCountWindow {
			return outOfRange("WithCountWindow", "n", n, "from 1 to 1048576")
		}
		return nil
	})
}

// WithCooldown sets how long the breaker stays open before it lets a probe through.
// Default 5 s. Range: above 0.
func WithCooldown(d time.Duration) BreakerOption {
	return breakerOption(func(c *breakerConfig) error {
		c.Cooldown = d
		return positive("WithCooldown", "d", d)
	})
}

// WithBackoff doubles the cooldown with each opening since the breaker was last closed, up to max.
// Default: it does not grow. Range: max at least the cooldown. Not together with [WithCooldownFunc].
func WithBackoff(max time.Duration) BreakerOption {
	return breakerOption(func(c *breakerConfig) error {
		c.Backoff = max
		return positive("WithBackoff", "max", max)
	})
}

// WithJitter makes each opening last longer by a random share of up to f, so that the probes of many processes do
// not arrive together. 0 means none.
// Default 0. Range: from 0 to 1.
func WithJitter(f float64) BreakerOption {
	return breakerOption(func(c *breakerConfig) error {
		c.Jitter = f
		if !(f >= 0 && f <= 1) { // Written so as to refuse NaN too.
			return outOfRange("WithJitter", "f", f, "from 0 to 1")
		}
		return nil
	})
}

// WithCooldownFunc lets f decide how long the breaker stays open, in place of [WithCooldown] and [WithBackoff].
// f is called each time that a failure opens the breaker, by the goroutine whose call failed and outside of every
// lock; it may call the breaker. Until it returns, the plain cooldown is in force and no state change is reported.
// A result that is not above 0, a panic and runtime.Goexit leave the plain cooldown in force; the latter two go on
// to the caller.
// Default: none. Range: not nil. Not together with [WithBackoff].
func WithCooldownFunc(f func(Trip) time.Duration) BreakerOption {
	return breakerOption(func(c *breakerConfig) error {
		c.cooldown = f
		return notNil("WithCooldownFunc", f == nil)
	})
}

// WithMaxRetryAfter limits how much of the wait is honoured that the error which opens the breaker asks for itself,
// by a method RetryAfter() time.Duration somewhere in its tree. The breaker stays open for that long if it is more
// than the cooldown. 0 means that no such wish is honoured.
// Default 1 min. Range: at least 0.
func WithMaxRetryAfter(d time.Duration) BreakerOption {
	return breakerOption(func(c *breakerConfig) error {
		c.MaxRetryAfter = d
		if d < 0 {
			return outOfRange("WithMaxRetryAfter", "d", d, "at least 0")
		}
		return nil
	})
}

// WithProbes sets how many probes may be in flight at once while the breaker is half-open. It limits how many run at
// a time, not how many there are in all; see [WithProbeSuccesses].
// Default 1. Range: at least 1.
func WithProbes(n int) BreakerOption {
	return breakerOption(func(c *breakerConfig) error {
		c.Probes = n
		return atLeast1("WithProbes", "n", n)
	})
}

// WithProbeSuccesses sets how many probes must succeed to close the breaker. One that fails opens it again.
// Default 1. Range: at least 1.
func WithProbeSuccesses(n int) BreakerOption {
	return breakerOption(func(c *breakerConfig) error {
		c.ProbeSuccesses = n
		return atLeast1("WithProbeSuccesses", "n", n)
	})
}

// WithProbeTimeout sets how long a probe holds its place. Once it has run for d the next caller may become a probe,
// so that a call which hangs cannot keep the breaker half-open for ever. A probe that succeeds after that still
// counts, one that fails does not.
// Default: the cooldown of the last opening, without jitter and without what the error asked for. Range: above 0.
func WithProbeTimeout(d time.Duration) BreakerOption {
	return breakerOption(func(c *breakerConfig) error {
		c.ProbeTimeout = d
		return positive("WithProbeTimeout", "d", d)
	})
}

// WithClassifier sets the function that judges the errors of calls. f is called with the context given to Do or
// Allow and an error that is not nil, by the goroutine that made the call (or called done) and outside of every
// lock; it may call the breaker. It is not asked about errors that [MarkSuccess] or [MarkIgnored] made, nor about
// those that match [ErrRejected]. A panic counts as Failure and goes on to the caller.
// Default [DefaultClassifier]. Range: not nil.
func WithClassifier(f func(ctx context.Context, err error) Outcome) BreakerOption {
	return breakerOption(func(c *breakerConfig) error {
		c.classify = f
		return notNil("WithClassifier", f == nil)
	})
}

// WithOnStateChange adds a function that is called with every state change: each once, in order, one at a time, and
// outside of every lock, so that f may call the breaker. It runs on the goroutine of a call, not always of the one
// that changed the state, and that call waits for it. If f panics, later changes are still reported; the panic goes
// on to that call's caller, and if the call was about to run its function it does not.
// Default: none. Range: not nil.
func WithOnStateChange(f func(StateChange)) BreakerOption {
	return breakerOption(func(c *breakerConfig) error {
		c.events = c.events.with(func(e event) { f(e.StateChange) })
		return notNil("WithOnStateChange", f == nil)
	})
}

// WithMode sets how much the breaker has to say: [Enforce] rejects, [Observe] decides, counts and reports but lets
// every call run, [Off] just runs them. The usual way to bring a breaker into production is to begin with Observe, look
// at what it would have rejected, and then call [Breaker.SetMode].
// Default Enforce. Range: one of the three.
func WithMode(m Mode) BreakerOption {
	return breakerOption(func(c *breakerConfig) error {
		c.Mode = m
		return checkMode("WithMode", m)
	})
}

// WithMaxWait sets how long a call waits for a slot of a [Bulkhead]. 0 means not at all.
// Default: until its context ends. Range: at least 0.
func WithMaxWait(d time.Duration) BulkheadOption {
	return bulkheadOption(func(c *bulkheadConfig) error {
		c.maxWait = d
		if d < 0 {
			return outOfRange("WithMaxWait", "d", d, "at least 0")
		}
		return nil
	})
}

// WithMaxQueue sets how many calls may wait for a slot of a [Bulkhead] at once. 0 means none.
//
// SET ONE WHERE A CONTEXT MAY HAVE NO DEADLINE: without it, and without [WithMaxWait], a dependency that hangs
// collects every goroutine that calls it.
//
// Default: no bound. Range: at least 0.
func WithMaxQueue(n int) BulkheadOption {
	return bulkheadOption(func(c *bulkheadConfig) error {
		c.maxQueue = n
		if n < 0 {
			return outOfRange("WithMaxQueue", "n", n, "at least 0")
		}
		return nil
	})
}

// WithClock makes a [Breaker] or a [Bulkhead] read the time from clock, mostly for tests.
// Default: package time. Range: not nil.
func WithClock(clock Clock) Option { return clockOption{clock} }

type breakerOption func(*breakerConfig) error

func (o breakerOption) applyBreaker(c *breakerConfig) error { return o(c) }

type bulkheadOption func(*bulkheadConfig) error

func (o bulkheadOption) applyBulkhead(c *bulkheadConfig) error { return o(c) }

type clockOption struct{ clock Clock }

func (o clockOption) applyBreaker(c *breakerConfig) error   { c.clock = o.clock; return o.check() }
func (o clockOption) applyBulkhead(c *bulkheadConfig) error { c.clock = o.clock; return o.check() }

// check refuses a nil pointer too: it would panic at the first reading.
func (o clockOption) check() error {
	v := reflect.ValueOf(o.clock)
	return notNil("WithClock", !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil())
}

// breakerConfig is all that the options decide: what can be shown, and the functions.
type breakerConfig struct {
	Settings
	clock    Clock
	classify func(context.Context, error) Outcome
	cooldown func(Trip) time.Duration // nil: Cooldown and Backoff decide
	events   *outbox                  // nil: nobody wants to know
	logger   *slog.Logger             // nil: none
}

func newBreakerConfig(opts []BreakerOption) (breakerConfig, error) {
	c := breakerConfig{
		Settings: Settings{
			Cooldown: 5 * time.Second, MaxRetryAfter: time.Minute,
			Probes: 1, ProbeSuccesses: 1,
		},
		clock:    systemClock{},
		classify: DefaultClassifier,
	}
	var errs []error
	for i, o := range opts {
		if o == nil {
			errs = append(errs, nilOption(i))
		} else if err := o.applyBreaker(&c); err != nil {
			errs = append(errs, err)
		}
	}
	errs = append(errs, c.conflicts())
	c.setDefaults()
	if c.logger != nil {
		c.events = c.events.with(logTo(c.logger))
	}
	return c, errors.Join(errs...)
}

// conflicts reports what is wrong between options that are right each for itself.
func (c *breakerConfig) conflicts() error {
	var errs []error
	if c.Window != 0 && c.CountWindow != 0 {
		errs = append(errs, errors.New("seawall: WithWindow and WithCountWindow: only one of them may be given"))
	}
	if c.CountWindow > 0 && c.MinCalls > c.CountWindow {
		errs = append(errs, outOfRange("WithCountWindow", "n", c.CountWindow,
			fmt.Sprintf("at least the minCalls of %d of WithFailureRate", c.MinCalls)))
	}
	if c.Backoff != 0 && c.cooldown != nil {
		errs = append(errs, errors.New("seawall: WithBackoff and WithCooldownFunc: only one of them may be given"))
	}
	if c.Backoff > 0 && c.Backoff < c.Cooldown {
		errs = append(errs, outOfRange("WithBackoff", "max", c.Backoff, fmt.Sprintf("at least the cooldown of %v", c.Cooldown)))
	}
	return errors.Join(errs...)
}

// setDefaults fills in what depends on which options were given.
func (c *breakerConfig) setDefaults() {
	if c.Window == 0 && c.CountWindow == 0 {
		c.Window, c.Buckets = 10*time.Second, 10
	}
	if c.MinCalls == 0 && c.ConsecutiveFailures == 0 {
		c.FailureRate, c.MinCalls, c.ConsecutiveFailures = 0.5, 20, 10
		if c.CountWindow > 0 {
			c.MinCalls = min(c.MinCalls, c.CountWindow)
		}
	}
}

// cooldownOf returns how long the n-th opening in a row lasts. It compares before it doubles, so nothing overflows.
func (c *breakerConfig) cooldownOf(n int) time.Duration {
	d := c.Cooldown
	for ; n > 1 && d < c.Backoff; n-- {
		d += min(d, c.Backoff-d)
	}
	return d
}

// unbounded is a wait or a queue that WithMaxWait or WithMaxQueue did not limit.
const unbounded = -1

// bulkheadConfig is all that the options decide.
type bulkheadConfig struct {
	clock    Clock
	maxWait  time.Duration
	maxQueue int
}

func newBulkheadConfig(opts []BulkheadOption) (bulkheadConfig, error) {
	c := bulkheadConfig{clock: systemClock{}, maxWait: unbounded, maxQueue: unbounded}
	var errs []error
	for i, o := range opts {
		if o == nil {
			errs = append(errs, nilOption(i))
		} else if err := o.applyBulkhead(&c); err != nil {
			errs = append(errs, err)
		}
	}
	if c.maxWait == 0 { // Nobody ever waits, so the queue has no place.
		c.maxQueue = 0
	}
	return c, errors.Join(errs...)
}

func nilOption(i int) error { return fmt.Errorf("seawall: option %d of the list is nil", i+1) }

// outOfRange says which value of which option is not legal, and what would be.
func outOfRange(option, value string, got any, legal string) error {
	return fmt.Errorf("seawall: %s: %s %v must be %s", option, value, got, legal)
}

func positive(option, value string, d time.Duration) error {
	if d <= 0 {
		return outOfRange(option, value, d, "above 0")
	}
	return nil
}

func atLeast1(option, value string, n int) error {
	if n < 1 {
		return outOfRange(option, value, n, "at least 1")
	}
	return nil
}

func checkMode(where string, m Mode) error {
	if m != Enforce && m != Observe && m != Off {
		return outOfRange(where, "mode", m, "Enforce, Observe or Off")
	}
	return nil
}

func notNil(option string, isNil bool) error {
	if isNil {
		return fmt.Errorf("seawall: %s: the argument must not be nil", option)
	}
	return nil
}
