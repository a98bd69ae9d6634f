package seawall_test

import (
	"context"
	"encoding/json"
	"errors"
	"expvar"
	"fmt"
	"strings"
	"time"

	"github.com/benbjohnson/clock"

	"github.com/seawall-go/seawall"
)

// Constructors report all that is wrong with their options, not only the first thing.
func ExampleNewBreaker() {
	_, err := seawall.NewBreaker("payments",
		seawall.WithFailureRate(50, 20), // a share, not a percentage
		seawall.WithCooldown(0),
	)
	fmt.Println(err)
	// Output:
	// seawall: WithFailureRate: rate 50 must be above 0 and at most 1
	// seawall: WithCooldown: d 0s must be above 0
}

// A breaker that opens after three failures in a row, and no longer runs the function then.
func ExampleBreaker_Do() {
	breaker := seawall.Must(seawall.NewBreaker("payments", seawall.WithConsecutiveFailures(3)))

	for range 4 {
		err := breaker.Do(context.Background(), func(ctx context.Context) error {
			return errors.New("connection refused")
		})
		fmt.Println(breaker.State(), errors.Is(err, seawall.ErrOpen))
	}
	// Output:
	// closed false
	// closed false
	// open false
	// open true
}

// Allow is for a call that begins in one function and ends in another.
func ExampleBreaker_Allow() {
	breaker := seawall.Must(seawall.NewBreaker("feed"))

	done, err := breaker.Allow(context.Background())
	if err != nil {
		fmt.Println("not now:", err)
		return
	}
	stream := make(chan string, 2) // begins here, and ends wherever it is read
	stream <- "first item"
	close(stream)
	for item := range stream {
		fmt.Println(item)
	}
	done(nil)
	done(errors.New("closed twice")) // Only the first time counts.

	totals := breaker.Snapshot().Totals
	fmt.Println(totals.Successes, "success,", totals.Failures, "failures")
	// Output:
	// first item
	// 1 success, 0 failures
}

// An operator can keep a breaker open, for as long as it takes, and close it.
func ExampleBreaker_ForceOpen() {
	breaker := seawall.Must(seawall.NewBreaker("payments"))

	breaker.ForceOpen()
	err := breaker.Do(context.Background(), func(ctx context.Context) error { return nil })
	fmt.Println(err)

	breaker.Reset()
	for _, c := range breaker.History() {
		fmt.Println(c.Generation, c.From, "to", c.To, "-", c.Reason)
	}
	// Output:
	// seawall: payments: circuit forced open
	// 1 closed to open - forced
	// 2 open to closed - reset
}

// A Snapshot is made to be shown: all its fields have names in JSON, and durations are in nanoseconds.
func ExampleBreaker_Snapshot() {
	clk := clock.NewMock() // instead of package time, so that the output is always the same
	clk.Set(time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC))
	breaker := seawall.Must(seawall.NewBreaker("payments", seawall.WithClock(clk)))
	for _, result := range []error{nil, nil, nil, errors.New("connection refused")} {
		_ = breaker.Do(context.Background(), func(ctx context.Context) error { return result })
	}
	clk.Add(2 * time.Second)

	text, err := json.MarshalIndent(breaker.Snapshot(), "", "  ")
	if err != nil {
		fmt.Println(err)
	}
	fmt.Println(string(text))
	// Output:
	// {
	//   "name": "payments",
	//   "state": "closed",
	//   "mode": "enforce",
	//   "forced": false,
	//   "generation": 0,
	//   "since": "2026-03-01T12:00:00Z",
	//   "reason": "none",
	//   "calls": 4,
	//   "failures": 1,
	//   "slow_calls": 0,
	//   "failure_rate": 0.25,
	//   "consecutive_failures": 1,
	//   "probes_in_flight": 0,
	//   "probe_successes": 0,
	//   "retry_after_ns": 0,
	//   "totals": {
	//     "successes": 3,
	//     "failures": 1,
	//     "slow_calls": 0,
	//     "ignored": 0,
	//     "rejected": 0,
	//     "would_reject": 0,
	//     "late": 0,
	//     "cancelled": 0,
	//     "opens": 0,
	//     "by_reason": {},
	//     "time_closed_ns": 2000000000,
	//     "time_open_ns": 0,
	//     "time_half_open_ns": 0
	//   }
	// }
}

// Two lines put a breaker under /debug/vars. seawall does not import expvar itself, which would bring in net/http.
func Example_expvar() {
	breaker := seawall.Must(seawall.NewBreaker("payments"))

	if expvar.Get("payments") == nil { // Publish panics if the name is taken, as it is when this runs a second time.
		expvar.Publish("payments", expvar.Func(func() any { return breaker.Snapshot() }))
	}

	fmt.Println(strings.Contains(expvar.Get("payments").String(), `"state":"closed"`))
	// Output: true
}

// B45: the window rolls. The rate is not looked at once in ten seconds but with each failure, over what the ten
// seconds before it have brought.
func ExampleWithWindow() {
	clk := clock.NewMock()
	breaker := seawall.Must(seawall.NewBreaker("payments",
		seawall.WithFailureRate(0.5, 4), // half of at least 4 calls
		seawall.WithWindow(10*time.Second, 10),
		seawall.WithClock(clk),
	))
	fail := func(n int) {
		for range n {
			_ = breaker.Do(context.Background(), func(ctx context.Context) error { return errors.New("boom") })
		}
	}
	show := func(t string) {
		s := breaker.Snapshot()
		fmt.Printf("t = %s: %d of %d calls failed, %v\n", t, s.Failures, s.Calls, s.State)
	}

	clk.Add(1 * time.Second)
	fail(3)
	show("1 s")
	clk.Add(8 * time.Second)
	show("9 s")
	clk.Add(2 * time.Second) // The failures are 10 seconds old now.
	show("11 s")
	fail(3) // Together with those there would be 6.
	show("11 s")
	fail(1)
	show("11 s")
	fmt.Println(breaker.History()[0].Failures, "failures opened it")
	// Output:
	// t = 1 s: 3 of 3 calls failed, closed
	// t = 9 s: 3 of 3 calls failed, closed
	// t = 11 s: 0 of 0 calls failed, closed
	// t = 11 s: 3 of 3 calls failed, closed
	// t = 11 s: 0 of 0 calls failed, open
	// 4 failures opened it
}

// B98, G125: a dependency that hangs is found while it hangs. Calls that have run for longer than the threshold are
// failures, before they have returned and whatever they return.
func ExampleWithSlowCallThreshold() {
	clk := clock.NewMock()
	breaker := seawall.Must(seawall.NewBreaker("payments",
		seawall.WithConsecutiveFailures(3),
		seawall.WithSlowCallThreshold(2*time.Second),
		seawall.WithClock(clk),
	))

	for range 3 { // Three calls begin, and hang. Allow begins a call as Do does.
		if _, err := breaker.Allow(context.Background()); err != nil {
			fmt.Println(err)
		}
	}
	clk.Add(3 * time.Second)
	err := breaker.Do(context.Background(), func(ctx context.Context) error { return nil })
	fmt.Println(err)
	change := breaker.History()[0]
	fmt.Println(change.Reason, change.Failures)
	// Output:
	// seawall: payments: circuit open, retry in 5s
	// consecutive_failures 3
}

// A breaker is brought into production in three steps: observe, look at what it would have done, enforce.
func ExampleWithMode() {
	breaker := seawall.Must(seawall.NewBreaker("payments",
		seawall.WithConsecutiveFailures(3),
		seawall.WithMode(seawall.Observe),
	))
	call := func() error {
		return breaker.Do(context.Background(), func(ctx context.Context) error { return errors.New("boom") })
	}

	for range 5 {
		_ = call()
	}
	fmt.Println(call(), breaker.State(), breaker.Snapshot().Totals.WouldReject)
	if err := breaker.SetMode(seawall.Enforce); err != nil {
		fmt.Println(err)
	}
	fmt.Println(errors.Is(call(), seawall.ErrOpen), breaker.State())
	// Output:
	// boom open 3
	// true open
}

// Wait is for a loop that pulls work from a queue: while the breaker is open it pulls nothing.
func ExampleBreaker_Wait() {
	breaker := seawall.Must(seawall.NewBreaker("mail"))
	queue := []string{"first", "second"}

	for len(queue) > 0 {
		done, err := breaker.Wait(context.Background())
		if err != nil {
			break // The context has ended.
		}
		fmt.Println("sent:", queue[0])
		queue = queue[1:]
		done(nil)
	}
	// Output:
	// sent: first
	// sent: second
}

// Every change of state is reported once and in order, with the counts that decided.
func ExampleWithOnStateChange() {
	clk := clock.NewMock()
	breaker := seawall.Must(seawall.NewBreaker("payments",
		seawall.WithConsecutiveFailures(3),
		seawall.WithClock(clk),
		seawall.WithOnStateChange(func(c seawall.StateChange) {
			fmt.Printf("%s: %v to %v (%v): %d of %d calls failed\n", c.Name, c.From, c.To, c.Reason, c.Failures, c.Calls)
		}),
	))

	for range 3 {
		_ = breaker.Do(context.Background(), func(ctx context.Context) error { return errors.New("boom") })
	}
	clk.Add(breaker.Settings().Cooldown)
	_ = breaker.Do(context.Background(), func(ctx context.Context) error { return nil })
	// Output:
	// payments: closed to open (consecutive_failures): 3 of 3 calls failed
	// payments: open to half-open (cooldown_over): 0 of 0 calls failed
	// payments: half-open to closed (probes_succeeded): 0 of 1 calls failed
}

// The error that opens a breaker may say itself how long to stay away, by a method RetryAfter.
func ExampleWithMaxRetryAfter() {
	clk := clock.NewMock()
	breaker := seawall.Must(seawall.NewBreaker("payments",
		seawall.WithConsecutiveFailures(1),
		seawall.WithCooldown(5*time.Second),
		seawall.WithMaxRetryAfter(30*time.Second),
		seawall.WithClock(clk),
	))

	_ = breaker.Do(context.Background(), func(ctx context.Context) error { return throttledError{wait: time.Hour} })
	fmt.Println(breaker.Do(context.Background(), func(ctx context.Context) error { return nil }))
	// Output: seawall: payments: circuit open, retry in 30s
}

type throttledError struct{ wait time.Duration }

func (e throttledError) Error() string             { return "too many requests" }
func (e throttledError) RetryAfter() time.Duration { return e.wait }

// "Not found" is an error to the caller, and shows that the dependency works.
func ExampleMarkSuccess() {
	breaker := seawall.Must(seawall.NewBreaker("users"))
	errNotFound := errors.New("no such user")

	var err error
	for range 100 {
		err = breaker.Do(context.Background(), func(ctx context.Context) error {
			return seawall.MarkSuccess(errNotFound)
		})
	}
	fmt.Println(err, errors.Is(err, errNotFound))
	fmt.Println(breaker.State(), breaker.Snapshot().Totals.Successes)
	// Output:
	// no such user true
	// closed 100
}

// A request that could not even be built says nothing about the dependency, neither good nor bad.
func ExampleMarkIgnored() {
	breaker := seawall.Must(seawall.NewBreaker("users"))

	err := breaker.Do(context.Background(), func(ctx context.Context) error {
		return seawall.MarkIgnored(errors.New("the name must not be empty"))
	})
	fmt.Println(err)
	fmt.Println(breaker.Snapshot().Calls, breaker.Snapshot().Totals.Ignored)
	// Output:
	// the name must not be empty
	// 0 1
}

// A full bulkhead refuses at once if no call may wait.
func ExampleBulkhead_Do() {
	bulkhead := seawall.Must(seawall.NewBulkhead("reports", 1, seawall.WithMaxQueue(0)))

	err := bulkhead.Do(context.Background(), func(ctx context.Context) error {
		// One call runs now, so the next one is refused. That also shows that a bulkhead is not re-entrant: if this
		// one had a queue, the call would wait for itself there.
		return bulkhead.Do(ctx, func(ctx context.Context) error { return nil })
	})
	fmt.Println(err)
	fmt.Println(errors.Is(err, seawall.ErrBulkheadFull), errors.Is(err, seawall.ErrRejected))
	// Output:
	// seawall: reports: bulkhead full, limit 1
	// true true
}

// Acquire is for a call that begins in one function and ends in another, such as a download that is read later.
func ExampleBulkhead_Acquire() {
	bulkhead := seawall.Must(seawall.NewBulkhead("downloads", 2))

	release, err := bulkhead.Acquire(context.Background())
	if err != nil {
		fmt.Println("not now:", err)
		return
	}
	fmt.Println(bulkhead.Snapshot().InFlight, "of", bulkhead.Limit())
	release()
	release() // Only the first time counts.
	fmt.Println(bulkhead.Snapshot().InFlight, "of", bulkhead.Limit())
	// Output:
	// 1 of 2
	// 0 of 2
}

// Do waits for its function, which has to heed its context. Why that ended is the context's cause.
func ExampleTimeout_Do() {
	timeout := seawall.Must(seawall.NewTimeout(time.Millisecond))

	err := timeout.Do(context.Background(), func(ctx context.Context) error {
		<-ctx.Done() // as a client does whose server hangs
		return context.Cause(ctx)
	})
	fmt.Println(err)
	fmt.Println(errors.Is(err, context.DeadlineExceeded))
	// Output:
	// seawall: timeout of 1ms passed
	// true
}

// Call returns a value beside the error.
func ExampleCall() {
	breaker := seawall.Must(seawall.NewBreaker("users"))

	name, err := seawall.Call(context.Background(), breaker, func(ctx context.Context) (string, error) {
		return "Ada", nil
	})
	fmt.Println(name, err)
	// Output: Ada <nil>
}

// Must is for guards whose options are constants, above all in package variables.
func ExampleMust() {
	breaker := seawall.Must(seawall.NewBreaker("payments", seawall.WithCooldown(3*time.Second)))

	fmt.Println(breaker.Name(), breaker.Settings().Cooldown)
	// Output: payments 3s
}

// G126: a fallback is two lines. Whatever matches ErrRejected has not reached the dependency.
func Example_fallback() {
	breaker := seawall.Must(seawall.NewBreaker("rates"))
	breaker.ForceOpen() // as if the source of the rates were down

	rate, err := seawall.Call(context.Background(), breaker, func(ctx context.Context) (float64, error) {
		return 1.08, nil
	})
	if errors.Is(err, seawall.ErrRejected) {
		rate, err = 1.07, nil // yesterday's
	}
	fmt.Println(rate, err)
	// Output: 1.07 <nil>
}

// G126: a fallback may also be a policy of its own, around the breaker.
func Example_fallbackPolicy() {
	breaker := seawall.Must(seawall.NewBreaker("log"))
	breaker.ForceOpen()
	fallback := seawall.PolicyFunc(func(ctx context.Context, fn func(context.Context) error) error {
		err := fn(ctx)
		if errors.Is(err, seawall.ErrRejected) {
			fmt.Println("kept for later, since", err)
			return nil
		}
		return err
	})

	err := seawall.Chain(fallback, breaker).Do(context.Background(), func(ctx context.Context) error {
		fmt.Println("sent")
		return nil
	})
	fmt.Println(err)
	// Output:
	// kept for later, since seawall: log: circuit forced open
	// <nil>
}
