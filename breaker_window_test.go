package seawall_test

import (
	"context"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seawall-go/seawall"
)

// What the breaker sees through its window as time goes by, and when time doesn't.

// rated returns a breaker that looks at the failure rate only, and at so high a number of calls that it never opens
// unless a test says otherwise.
func rated(t testing.TB, tl timeline, rate float64, minCalls int, opts ...seawall.BreakerOption) *seawall.Breaker {
	t.Helper()
	return tl.breaker(t, append([]seawall.BreakerOption{seawall.WithFailureRate(rate, minCalls)}, opts...)...)
}

const never = math.MaxInt32 // calls

func counts(b *seawall.Breaker) [2]uint64 {
	s := b.Snapshot()
	return [2]uint64{s.Calls, s.Failures}
}

// G53: a call is booked when it ends, however long it ran: three that each outlive the window trip.
func TestCallsThatOutliveTheWindowCount(t *testing.T) {
	onEachClock(t, func(t *testing.T, tl timeline) {
		b := tl.br(t)
		for i := range 3 {
			wantState(t, b, seawall.Closed)
			require.ErrorIs(t, do(b, func(context.Context) error {
				tl.Advance(15 * time.Second)
				return errBoom
			}), errBoom)
			if i < 2 {
				assert.Equal(t, [2]uint64{1, 1}, counts(b))
			}
		}
		wantState(t, b, seawall.Open)
	})
}

// G55: failures in a row count however far apart they are.
func TestARowIsIndependentOfTheWindow(t *testing.T) {
	onEachClock(t, func(t *testing.T, tl timeline) {
		b := tl.breaker(t, seawall.WithConsecutiveFailures(5))
		for i := range 5 {
			wantState(t, b, seawall.Closed)
			assert.EqualValues(t, i, b.Snapshot().ConsecutiveFailures)
			require.ErrorIs(t, do(b, bad), errBoom)
			tl.Advance(4 * time.Second)
		}
		wantState(t, b, seawall.Open)
		assert.EqualValues(t, 2+1, b.History()[0].Failures, "of which the window still had these")
	})
}

// G56, B48: reading ages the window too, with no call in between.
// G58: nothing older than the window counts, and everything younger than the window less one bucket does.
func TestTheWindowRollsToTheNanosecond(t *testing.T) {
	for name, result := range map[string]error{"failures": errBoom, "successes": nil} {
		t.Run(name, func(t *testing.T) {
			onEachClock(t, func(t *testing.T, tl timeline) {
				b := rated(t, tl, 1, never)
				wantCalls := func(n uint64) {
					t.Helper()
					assert.Equal(t, n, b.Snapshot().Calls)
				}
				call := func() {
					t.Helper()
					require.Equal(t, result, do(b, returns(result)))
				}
				call() // At the very start of a bucket: it lives as long as can be.
				tl.Advance(10*time.Second - ns)
				wantCalls(1)
				tl.Advance(ns)
				wantCalls(0)
				assert.Zero(t, b.Snapshot().FailureRate)

				tl.Advance(time.Second - ns)
				call() // At the very end of one: it lives as short as can be.
				tl.Advance(9 * time.Second)
				wantCalls(1)
				tl.Advance(ns)
				wantCalls(0)

				for range 20 { // With nothing else going on: each in its own bucket.
					tl.Advance(time.Second)
					call()
				}
				wantCalls(10)
				tl.Advance(3 * time.Second)
				wantCalls(7)
			})
		})
	}
}

// B45: the window rolls: the rate is looked at with each failure and over the last 10 s, not once in 10 s.
func TestTheWindowIsARollingOne(t *testing.T) {
	onEachClock(t, func(t *testing.T, tl timeline) {
		b := rated(t, tl, 0.5, 4)
		tl.Advance(time.Second)
		_, _, _ = do(b, ok), do(b, ok), do(b, ok) // At 1 s: no failure.
		tl.Advance(8 * time.Second)
		_, _ = do(b, bad), do(b, bad) // At 9 s: 2 of 5.
		wantState(t, b, seawall.Closed)
		tl.Advance(2 * time.Second)
		_, _ = do(b, ok), do(b, bad) // At 11 s the first three are gone: 3 of 4.
		wantState(t, b, seawall.Open)
		assert.EqualValues(t, 4, b.History()[0].Calls)
		assert.EqualValues(t, 3, b.History()[0].Failures)
	})
}

// B41: a few failures right after the start are no traffic to judge by, and after a burst the rate falls to nothing
// by itself.
func TestColdStartAndIdleness(t *testing.T) {
	onEachClock(t, func(t *testing.T, tl timeline) {
		b := rated(t, tl, 0.5, 20)
		for range 19 {
			require.ErrorIs(t, do(b, bad), errBoom)
			tl.Advance(time.Millisecond)
		}
		wantState(t, b, seawall.Closed)
		assert.InDelta(t, 1, b.Snapshot().FailureRate, 0)
		tl.Advance(10 * time.Second)
		assert.Zero(t, b.Snapshot().FailureRate)
		require.ErrorIs(t, do(b, bad), errBoom)
		wantState(t, b, seawall.Closed)
	})
}

// G60: an idle gap clears every bucket. B43: a gap of a hundred years does so too, and takes no longer.
func TestIdleGapsClearTheWindow(t *testing.T) {
	const year = 365 * 24 * time.Hour
	for _, gap := range []time.Duration{10 * time.Second, 11 * time.Second, time.Hour, 100 * year, 200 * year} {
		t.Run(gap.String(), func(t *testing.T) {
			onEachClock(t, func(t *testing.T, tl timeline) {
				b := rated(t, tl, 1, never)
				for range 10 {
					require.ErrorIs(t, do(b, bad), errBoom)
					tl.Advance(time.Second)
				}
				tl.Advance(gap - time.Second) // Since the last one.
				assert.Equal(t, [2]uint64{}, counts(b))
				require.ErrorIs(t, do(b, bad), errBoom)
				assert.Equal(t, [2]uint64{1, 1}, counts(b))
			})
		})
	}
}

// Behind the end of what elapsed time can say, 292 years after the start, time stands still, and everything that
// doesn't need it goes on.
func TestTheEndOfTime(t *testing.T) {
	clk := newClock()
	b := br(t, clk, seawall.WithProbeSuccesses(2))
	for range 4 {
		clk.Advance(100 * 365 * 24 * time.Hour)
	}
	require.NoError(t, do(b, ok))
	assert.Equal(t, [2]uint64{1, 0}, counts(b))
	clk.Advance(time.Hour)
	assert.Equal(t, [2]uint64{1, 0}, counts(b))

	trip(t, b)
	clk.Advance(100 * 365 * 24 * time.Hour)
	assert.Positive(t, wantRejected(t, b).RetryAfter(), "the cooldown never ends")
	b.ForceOpen()
	wantRejected(t, b)
	b.Reset()
	wantAdmitted(t, b)
	totals := b.Snapshot().Totals
	assert.Positive(t, totals.TimeClosed)
	assert.GreaterOrEqual(t, totals.TimeOpen, time.Duration(0))
}

// G61, B46: of many results that arrive at once, right after an idle gap and while the bucket changes, none is lost.
func TestABurstAfterAnIdleGapIsCountedWhole(t *testing.T) {
	clk := newClock()
	b := newBreaker(t, seawall.WithFailureRate(1, never), seawall.WithClock(clk))
	require.NoError(t, do(b, ok))
	clk.Advance(time.Hour)
	var calls sync.WaitGroup
	for i := range 1000 {
		calls.Go(func() {
			if i%100 == 0 {
				clk.Advance(900 * time.Millisecond) // All in all 9 s: less than the window.
			}
			assert.ErrorIs(t, do(b, bad), errBoom)
		})
	}
	calls.Wait()
	assert.Equal(t, [2]uint64{1000, 1000}, counts(b))
}

// G38: with many callers at once, what they did is counted exactly.
func TestNoResultIsLostUnderLoad(t *testing.T) {
	b := newBreaker(t, seawall.WithFailureRate(1, never), seawall.WithClock(newClock()))
	var calls sync.WaitGroup
	for i := range 100 {
		calls.Go(func() {
			for range 100 {
				switch i % 4 {
				case 0:
					_ = do(b, bad)
				case 1:
					_ = do(b, ignored)
				default:
					_ = do(b, ok)
				}
			}
		})
	}
	calls.Wait()
	s := b.Snapshot()
	assert.Equal(t, [2]uint64{7500, 2500}, counts(b))
	assert.EqualValues(t, 5000, s.Totals.Successes)
	assert.EqualValues(t, 2500, s.Totals.Failures)
	assert.EqualValues(t, 2500, s.Totals.Ignored)
}

// G48: rejections are counted by themselves and never enter the window.
func TestRejectionsDoNotEnterTheWindow(t *testing.T) {
	clk := newClock()
	b := br(t, clk)
	trip(t, b)
	for range 1000 {
		wantRejected(t, b)
		clk.Advance(time.Millisecond)
	}
	s := b.Snapshot()
	assert.EqualValues(t, 1000, s.Totals.Rejected)
	assert.EqualValues(t, 3, s.Totals.Failures)
	assert.Zero(t, s.Calls)

	clk.Advance(cooldown)
	wantAdmitted(t, b)
	assert.Equal(t, [2]uint64{}, counts(b))
}

// G66: a clock that steps back loses no result and takes nothing back: time stands still until it has caught up.
func TestClockThatStepsBack(t *testing.T) {
	for _, back := range []time.Duration{ns, time.Millisecond, time.Hour, 200 * 365 * 24 * time.Hour} {
		t.Run(back.String(), func(t *testing.T) {
			clk := newClock()
			b := br(t, clk, seawall.WithFailureRate(1, 3))
			require.ErrorIs(t, do(b, bad), errBoom)
			clk.Advance(5 * time.Second)
			require.ErrorIs(t, do(b, bad), errBoom)
			at := clk.Now()
			clk.Advance(-back)
			assert.Equal(t, [2]uint64{2, 2}, counts(b))
			require.ErrorIs(t, do(b, bad), errBoom)
			wantState(t, b, seawall.Open)
			assert.Equal(t, at, b.History()[0].At, "it counts as the latest reading")
			assert.Equal(t, cooldown, wantRejected(t, b).RetryAfter())

			clk.Advance(back)
			clk.Advance(cooldown - ns)
			wantRejected(t, b)
			clk.Advance(ns)
			wantAdmitted(t, b)
			totals := b.Snapshot().Totals
			assert.Equal(t, 5*time.Second, totals.TimeClosed)
			assert.Equal(t, cooldown, totals.TimeOpen)
		})
	}
}

// A clock that is behind the instant of the constructor stands still there.
func TestClockBeforeTheStart(t *testing.T) {
	clk := newClock()
	start := clk.Now()
	b := br(t, clk)
	clk.Advance(-time.Hour)
	trip(t, b)
	assert.Equal(t, start, b.History()[0].At)
	assert.Equal(t, cooldown, b.Snapshot().RetryAfter)
	clk.Advance(time.Hour + cooldown - ns)
	wantRejected(t, b)
	clk.Advance(ns)
	wantAdmitted(t, b)
}

// G113: windows of any legal size work, the widest that a Duration can tell included.
func TestExtremeWindows(t *testing.T) {
	for name, opt := range map[string]seawall.BreakerOption{
		"widest":            seawall.WithWindow(math.MaxInt64, 10),
		"widest, 1 bucket":  seawall.WithWindow(math.MaxInt64, 1),
		"widest, 1000":      seawall.WithWindow(math.MaxInt64, 1000),
		"narrowest":         seawall.WithWindow(time.Millisecond, 1),
		"narrowest buckets": seawall.WithWindow(time.Second, 1000),
		"not divisible":     seawall.WithWindow(10*time.Second+ns, 7),
	} {
		t.Run(name, func(t *testing.T) {
			clk := newClock()
			b := newBreaker(t, opt, seawall.WithFailureRate(1, never), seawall.WithClock(clk))
			window := b.Settings().Window
			for range 20 {
				require.ErrorIs(t, do(b, bad), errBoom)
				assert.NotZero(t, b.Snapshot().Failures)
				clk.Advance(window / 2)
				require.NoError(t, do(b, ok))
				clk.Advance(window / 3)
			}
			clk.Advance(window)
			if name[:6] != "widest" { // Where time has come to its end by now.
				assert.Zero(t, b.Snapshot().Calls)
			}
		})
	}
}

// G71, B53: every limit of the breaker is reached by an injected clock alone, here benbjohnson's Mock as it is.
func TestEveryTimeLimitFollowsTheInjectedClock(t *testing.T) {
	mock := clock.NewMock()
	b := newBreaker(t, seawall.WithClock(mock), seawall.WithConsecutiveFailures(3), seawall.WithFailureRate(1, never),
		seawall.WithCooldown(time.Hour), seawall.WithProbeTimeout(2*time.Hour), seawall.WithWindow(3*time.Hour, 3))
	require.ErrorIs(t, do(b, bad), errBoom)
	mock.Add(3 * time.Hour) // The window.
	assert.Zero(t, b.Snapshot().Calls)

	_, _ = do(b, bad), do(b, bad)
	wantState(t, b, seawall.Open)
	mock.Add(time.Hour) // The cooldown.
	probe := hold(t, b)
	wantRejected(t, b)
	mock.Add(2 * time.Hour) // The probe timeout.
	wantAdmitted(t, b)
	require.NoError(t, probe.finish(nil))
	wantState(t, b, seawall.Closed)
}
