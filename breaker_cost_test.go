package seawall_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seawall-go/seawall"
)

// What a call costs: readings of the clock, and memory.

// meteredClock counts how often it is read.
type meteredClock struct {
	*fakeClock
	readings atomic.Int64
}

func (c *meteredClock) Now() time.Time {
	c.readings.Add(1)
	return c.fakeClock.Now()
}

// A closed breaker reads the clock only as often as somebody has to know what time it is: not at all for a success that
// need not be told in time, never more than twice.
func TestReadingsOfTheClock(t *testing.T) {
	rate, row := seawall.WithFailureRate(1, never), seawall.WithConsecutiveFailures(never)
	last, threshold := seawall.WithCountWindow(1000), slowCalls()
	type opts = []seawall.BreakerOption
	for name, tt := range map[string]struct {
		opts             opts
		success, failure int64
	}{
		"default rules":                   {nil, 1, 1},
		"rate":                            {opts{rate}, 1, 1},
		"consecutive failures":            {opts{row}, 0, 1},
		"count window":                    {opts{last}, 0, 1},
		"count window and rate":           {opts{last, seawall.WithFailureRate(1, 1000)}, 0, 1},
		"observe":                         {opts{seawall.WithMode(seawall.Observe)}, 1, 1},
		"off":                             {opts{seawall.WithMode(seawall.Off)}, 0, 0},
		"threshold":                       {opts{threshold}, 2, 2},
		"threshold, consecutive failures": {opts{threshold, row}, 2, 2},
		"threshold, count window":         {opts{threshold, last}, 2, 2},
		"threshold, off":                  {opts{threshold, seawall.WithMode(seawall.Off)}, 0, 0},
		"other options":                   {opts{seawall.WithJitter(1), seawall.WithProbes(9), seawall.WithBackoff(time.Hour)}, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			clk := &meteredClock{fakeClock: newClock()}
			b := newBreaker(t, append(tt.opts, seawall.WithClock(clk))...)
			for _, step := range []time.Duration{0, ns, time.Second, time.Hour} { // The window turns or doesn't.
				clk.Advance(step)
				assert.Equal(t, tt.success, readings(clk, func() { _ = do(b, ok) }), "success after %v", step)
				assert.Equal(t, tt.failure, readings(clk, func() { _ = do(b, bad) }), "failure after %v", step)
			}
			assert.Empty(t, b.History())
		})
	}
}

func readings(clk *meteredClock, f func()) int64 {
	before := clk.readings.Load()
	f()
	return clk.readings.Load() - before
}

// With a threshold, no call reads the clock more than twice, whether it or another becomes slow, unless it changes the
// state: that is told with the time of day, which takes a reading of its own.
func TestReadingsOfTheClockWithSlowCalls(t *testing.T) {
	clk := &meteredClock{fakeClock: newClock()}
	b := br(t, clk, slowCalls(), seawall.WithConsecutiveFailures(5))
	call := func(what string, most int64, fn func(context.Context) error) {
		t.Helper()
		assert.LessOrEqual(t, readings(clk, func() { _ = do(b, fn) }), most, what)
	}
	hang(t, b, 2)
	clk.Advance(time.Minute)
	call("finds slow calls", 2, ok)
	call("becomes slow", 2, func(context.Context) error { clk.Advance(slow); return nil })
	hang(t, b, 5)
	clk.Advance(time.Minute)
	call("opens", 3, ok) // The event has a time, and so has the rejection.
	call("rejected", 1, ok)
	clk.Advance(cooldown)
	done := allow(t, b)
	call("no place, the first time", 2, ok) // The rejection is made.
	call("no place", 1, ok)
	assert.LessOrEqual(t, readings(clk, func() { done(nil) }), int64(2), "closes")
}

// Neither slow calls nor the other modes nor a count window make a call allocate.
func TestCallsAllocateNothing(t *testing.T) {
	ctx := t.Context()
	clk := newClock()
	budget := func(what string, f func()) {
		t.Helper()
		assert.Zero(t, testing.AllocsPerRun(1000, f), what)
	}
	breaker := func(opts ...seawall.BreakerOption) *seawall.Breaker {
		return newBreaker(t, append(opts, seawall.WithConsecutiveFailures(never), seawall.WithClock(clk))...)
	}

	threshold := breaker(slowCalls())
	budget("threshold, success", func() { clk.Advance(time.Second); _ = threshold.Do(ctx, ok) })
	budget("threshold, failure", func() { clk.Advance(time.Second); _ = threshold.Do(ctx, bad) })
	long := func(context.Context) error { clk.Advance(slow); return nil }
	budget("threshold, slow", func() { _ = threshold.Do(ctx, long) })
	longer := func(context.Context) error { clk.Advance(2 * slow); _ = threshold.Do(ctx, ok); return nil }
	budget("threshold, slow and found by another call", func() { _ = threshold.Do(ctx, longer) })

	last := breaker(seawall.WithCountWindow(100))
	for range 100 {
		_ = last.Do(ctx, bad)
	}
	budget("count window, success", func() { _ = last.Do(ctx, ok) })
	budget("count window, failure", func() { _ = last.Do(ctx, bad) })

	observer := breaker(seawall.WithMode(seawall.Observe))
	budget("observe, closed", func() { _ = observer.Do(ctx, ok) })
	observer.ForceOpen()
	budget("observe, open", func() { _ = observer.Do(ctx, ok) })
	off := breaker(seawall.WithMode(seawall.Off))
	budget("off", func() { _ = off.Do(ctx, bad) })
	require.Zero(t, off.Snapshot().Totals.Failures)
}
