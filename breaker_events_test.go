package seawall_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seawall-go/seawall"
)

// What a hook is told, and in which order. What hooks may do is in breaker_hostile_test.go.

// G33, G35: hooks are called for every change as long as the breaker lives, and the last one reported is the state
// that it is in. B66: each change is reported once.
func TestEveryChangeIsReportedOnce(t *testing.T) {
	var j journal
	clk := newClock()
	b := br(t, clk, j.hook())
	var want []string
	for range 5 {
		half(t, b, clk)
		wantAdmitted(t, b)
		want = append(want, edgeTripped, edgeCooled, edgeClosed)
	}
	assert.Equal(t, want, j.edges())
	wantState(t, b, seawall.Closed)
	assert.Equal(t, seawall.Closed, j.last(t).To)

	clk.Advance(time.Hour)
	b.State()
	b.Snapshot()
	require.NoError(t, do(b, ok))
	assert.Len(t, j.all(), 15)
}

// G31: every field of every kind of change. The counts are those that decided: while closed of the window, while
// half-open of the probes.
func TestWhatAChangeSays(t *testing.T) {
	var j journal
	clk := newClock()
	b := newBreaker(t, seawall.WithFailureRate(0.5, 4), seawall.WithCooldown(cooldown), seawall.WithProbeSuccesses(2),
		seawall.WithClock(clk), j.hook())
	start := clk.Now()
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	other := errors.New("other")
	fail := func(err error) { _ = do(b, func(context.Context) error { return err }) }

	fail(other)
	_, _ = do(b, ok), do(b, ignored)
	clk.Advance(time.Second)
	_ = do(b, ok)
	fail(errBoom) // Generation 1.
	clk.Advance(cooldown)
	wantAdmitted(t, b) // 2
	_ = do(b, ignored)
	fail(other) // 3
	clk.Advance(cooldown)
	wantAdmitted(t, b) // 4
	wantAdmitted(t, b) // 5
	_, _ = do(b, ok), do(b, bad)
	b.ForceOpen() // 6
	b.Reset()     // 7
	_ = do(b, ok)
	b.Reset() // 8
	b.ForceOpen()
	b.Reset()
	fail(errBoom)
	clk.Advance(20 * time.Second) // The window forgets it.
	b.ForceOpen()                 // 11

	want := []seawall.StateChange{
		{From: seawall.Closed, To: seawall.Open, Reason: seawall.ReasonFailureRate, At: at(1), Err: errBoom, Calls: 4, Failures: 2},
		{From: seawall.Open, To: seawall.HalfOpen, Reason: seawall.ReasonCooldownOver, At: at(11)},
		{From: seawall.HalfOpen, To: seawall.Open, Reason: seawall.ReasonProbeFailed, At: at(11), Err: other, Calls: 2, Failures: 1},
		{From: seawall.Open, To: seawall.HalfOpen, Reason: seawall.ReasonCooldownOver, At: at(21)},
		{From: seawall.HalfOpen, To: seawall.Closed, Reason: seawall.ReasonProbesSucceeded, At: at(21), Calls: 2},
		{From: seawall.Closed, To: seawall.Open, Reason: seawall.ReasonForced, At: at(21), Calls: 2, Failures: 1},
		{From: seawall.Open, To: seawall.Closed, Reason: seawall.ReasonReset, At: at(21)},
		{From: seawall.Closed, To: seawall.Closed, Reason: seawall.ReasonReset, At: at(21), Calls: 1},
		{From: seawall.Closed, To: seawall.Open, Reason: seawall.ReasonForced, At: at(21)},
		{From: seawall.Open, To: seawall.Closed, Reason: seawall.ReasonReset, At: at(21)},
		{From: seawall.Closed, To: seawall.Open, Reason: seawall.ReasonForced, At: at(41)},
	}
	changes := j.all()
	require.Len(t, changes, len(want))
	for i := range want {
		want[i].Name, want[i].Generation = "br", uint64(i+1)
		assert.Equal(t, want[i], changes[i], "change %d", i+1)
	}
}

// ForceOpen and Reset in a half-open breaker report the probes that had succeeded.
func TestWhatAChangeByHandSaysWhileHalfOpen(t *testing.T) {
	for name, leave := range map[string]func(*seawall.Breaker){
		"forced": (*seawall.Breaker).ForceOpen,
		"reset":  (*seawall.Breaker).Reset,
	} {
		var j journal
		clk := newClock()
		b := br(t, clk, seawall.WithProbeSuccesses(3), j.hook())
		half(t, b, clk)
		wantAdmitted(t, b)
		wantAdmitted(t, b)
		leave(b)
		change := j.last(t)
		assert.Equal(t, name, change.Reason.String())
		assert.EqualValues(t, 2, change.Calls, name)
		assert.Zero(t, change.Failures, name)
	}
}

// A fn that never returned an error has one in the event all the same.
func TestChangeByACallWithoutAResult(t *testing.T) {
	var j journal
	b := newBreaker(t, seawall.WithConsecutiveFailures(1), j.hook())
	assert.Panics(t, func() { _ = do(b, func(context.Context) error { panic("boom") }) })
	assert.EqualError(t, j.last(t).Err, "seawall: fn panicked or called runtime.Goexit")
}

// History has the last 16 changes, oldest first, and is the caller's own copy.
func TestHistoryKeepsTheLast16(t *testing.T) {
	var j journal
	clk := newClock()
	b := br(t, clk, j.hook())
	for i := range 20 {
		clk.Advance(time.Second)
		if i%2 == 0 {
			b.ForceOpen()
		} else {
			b.Reset()
		}
		history := b.History()
		require.Len(t, history, min(i+1, 16))
		for k, change := range history {
			reported := j.all()[i+1-len(history)+k]
			require.Equal(t, seawall.Change{
				From: reported.From, To: reported.To, Reason: reported.Reason, At: reported.At,
				Generation: reported.Generation, Calls: reported.Calls, Failures: reported.Failures,
			}, change)
		}
	}
	mine := b.History()
	mine[0] = seawall.Change{}
	assert.NotEqual(t, mine[0], b.History()[0])
}

// A change in a log is a group of its fields, with the error only if there is one.
func TestChangeAsLogValue(t *testing.T) {
	var out bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&out, nil))
	b := br(t, newClock(), seawall.WithOnStateChange(func(c seawall.StateChange) { logger.Info("change", "breaker", c) }))
	trip(t, b)
	for _, want := range []string{
		"breaker.from=closed", "breaker.to=open", "breaker.reason=consecutive_failures", "breaker.generation=1",
		"breaker.calls=3", "breaker.failures=3", "breaker.err=boom", "=br ",
	} {
		assert.Contains(t, out.String(), want)
	}
	out.Reset()
	b.Reset()
	assert.Contains(t, out.String(), "reason=reset")
	assert.NotContains(t, out.String(), "err=")
}

// Several hooks are called in the order in which they were given, all with one change before any with the next.
func TestHooksAreCalledInOrder(t *testing.T) {
	var calls []string
	note := func(hook string) seawall.BreakerOption {
		return seawall.WithOnStateChange(func(c seawall.StateChange) {
			calls = append(calls, fmt.Sprint(hook, c.Generation))
		})
	}
	clk := newClock()
	b := br(t, clk, note("a"), note("b"), note("c"))
	half(t, b, clk)
	wantAdmitted(t, b)
	assert.Equal(t, []string{"a1", "b1", "c1", "a2", "b2", "c2", "a3", "b3", "c3"}, calls)
}

// B36: a hook that takes its time and calls the breaker sees changes in order, also those that it makes itself, and
// is not called again before it has returned.
func TestHookSeesChangesInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		var b *seawall.Breaker
		running := 0
		b = timeline{isDefault: true}.br(t, seawall.WithOnStateChange(func(c seawall.StateChange) {
			running++
			assert.Equal(t, 1, running, "one at a time")
			time.Sleep(time.Second)
			b.State()
			_ = do(b, ok)
			if c.Reason == seawall.ReasonConsecutiveFailures {
				b.Reset()
				b.ForceOpen()
				b.Reset()
			}
			j.add(c)
			running--
		}))
		trip := func() { _, _, _ = do(b, bad), do(b, bad), do(b, bad) }
		trip()
		assert.Equal(t, []string{
			edgeTripped, "open → closed: reset", "closed → open: forced", "open → closed: reset",
		}, j.edges())
	})
}

// G28, I5: a slow hook doesn't let a change overtake another one, whoever makes it; each From is the To before.
func TestSlowHookKeepsTheOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		b := timeline{isDefault: true}.br(t, seawall.WithOnStateChange(func(c seawall.StateChange) {
			if c.Generation == 1 {
				time.Sleep(time.Hour)
			}
			j.add(c)
		}))
		go func() { _, _, _ = do(b, bad), do(b, bad), do(b, bad) }()
		synctest.Wait()
		require.Equal(t, seawall.Open, b.State())
		var hands sync.WaitGroup
		for range 10 {
			hands.Go(b.ForceOpen)
			hands.Go(b.Reset)
		}
		hands.Wait()
		assert.Empty(t, j.all(), "all wait behind the first one")

		time.Sleep(time.Hour)
		synctest.Wait()
		from, generation := seawall.Closed, uint64(0)
		for _, c := range j.all() {
			assert.Equal(t, from, c.From)
			assert.Equal(t, generation+1, c.Generation)
			from, generation = c.To, c.Generation
		}
		assert.Equal(t, b.Snapshot().Generation, generation)
		assert.Greater(t, generation, uint64(1))
	})
}

// G26: a hook that blocks holds up nobody but the goroutine that it runs on.
func TestBlockedHookHoldsUpNobodyElse(t *testing.T) {
	clk := newClock()
	inside, leave := make(chan struct{}), make(chan struct{})
	first := true
	b := br(t, clk, seawall.WithOnStateChange(func(seawall.StateChange) {
		if first {
			first = false
			close(inside)
			<-leave
		}
	}))
	tripped := make(chan error)
	go func() { _, _ = do(b, bad), do(b, bad); tripped <- do(b, bad) }()
	<-inside

	finishes(t, func() {
		wantRejected(t, b)
		assert.EqualValues(t, 1, b.Snapshot().Totals.Rejected)
		clk.Advance(cooldown)
		wantAdmitted(t, b)
		wantState(t, b, seawall.Closed)
		assert.Len(t, b.History(), 3)
		b.ForceOpen()
		b.Reset()
	})
	close(leave)
	require.ErrorIs(t, <-tripped, errBoom)
}

// Whoever is running the hook delivers what others have changed meanwhile; they don't wait for it.
func TestChangesAreDeliveredByWhoeverIsThere(t *testing.T) {
	var j journal
	inside, leave := make(chan struct{}), make(chan struct{})
	b := br(t, newClock(), seawall.WithOnStateChange(func(c seawall.StateChange) {
		if c.Generation == 1 {
			close(inside)
			<-leave
		}
		j.add(c)
	}))
	forced := make(chan struct{})
	go func() { defer close(forced); b.ForceOpen() }()
	<-inside
	b.Reset() // Returns, although its change isn't delivered yet.
	assert.Empty(t, j.all())
	close(leave)
	<-forced // This one has delivered both.
	assert.Equal(t, []string{"closed → open: forced", "open → closed: reset"}, j.edges())
}

// G30: what a hook was given is its own: nothing that happens later shows in it.
func TestAChangeIsACopy(t *testing.T) {
	var j journal
	clk := newClock()
	b := br(t, clk, seawall.WithFailureRate(1, never), j.hook())
	trip(t, b)
	kept := j.last(t)
	reader := make(chan seawall.StateChange, 1000)
	go func() {
		for range 1000 { // The race detector looks on.
			reader <- kept
		}
		close(reader)
	}()
	clk.Advance(cooldown)
	for range 100 {
		_ = do(b, bad)
		clk.Advance(cooldown)
	}
	for c := range reader {
		require.EqualValues(t, 3, c.Failures)
	}
	assert.Equal(t, kept, j.all()[0])
}

// B26: of many calls that fail at the same time one opens the breaker, and each gets its own error.
func TestManyFailAtTheThreshold(t *testing.T) {
	var j journal
	b := br(t, newClock(), j.hook())
	var calls []*held
	for range 100 {
		calls = append(calls, hold(t, b))
	}
	var ends sync.WaitGroup
	for i, call := range calls {
		ends.Go(func() {
			own := fmt.Errorf("error %d", i)
			assert.Same(t, own, call.finish(own))
		})
	}
	ends.Wait()
	assert.Equal(t, []string{edgeTripped}, j.edges())
	s := b.Snapshot()
	assert.EqualValues(t, 3, s.Totals.Failures)
	assert.EqualValues(t, 97, s.Totals.Late)
}

// B33, G115: the number of failures that trips can't be jumped over.
func TestTheThresholdIsNotJumpedOver(t *testing.T) {
	for range 1000 {
		b := newBreaker(t, seawall.WithConsecutiveFailures(5), seawall.WithClock(bubbleClock{}))
		var calls sync.WaitGroup
		for range 8 {
			calls.Go(func() { _ = do(b, bad) })
		}
		calls.Wait()
		require.Equal(t, seawall.Open, b.State())
		totals := b.Snapshot().Totals
		require.EqualValues(t, 5, totals.Failures)
		require.EqualValues(t, 3, totals.Late+totals.Rejected)
	}
}

// B75: a change is reported although the context of the call that made it is cancelled.
func TestCancelledCallerStillReports(t *testing.T) {
	var j journal
	clk := newClock()
	b := br(t, clk, j.hook())
	half(t, b, clk)
	ctx, cancel := context.WithCancel(t.Context())
	require.NoError(t, b.Do(ctx, func(context.Context) error { cancel(); return nil }))
	assert.Equal(t, seawall.Closed, j.last(t).To)
}

// B31: a hook that makes a bulkhead smaller, which is full, doesn't wait for its calls.
func TestHookMayResizeABulkhead(t *testing.T) {
	inner := bh(t, 5)
	b := br(t, newClock(), seawall.WithOnStateChange(func(seawall.StateChange) {
		assert.NoError(t, inner.SetLimit(1))
	}))
	var calls []*held
	for range 5 {
		calls = append(calls, hold(t, inner))
	}
	finishes(t, func() { _, _, _ = do(b, bad), do(b, bad), do(b, bad) })
	assert.Equal(t, 1, inner.Limit())
	for _, call := range calls {
		require.NoError(t, call.finish(nil))
	}
}
