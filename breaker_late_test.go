package seawall_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seawall-go/seawall"
)

// Results that arrive after the state in which their call began has ended.

// I6: a late result, whatever it is, changes nothing but the count of late ones: no state, no window, no place.
func TestLateResultsChangeNothing(t *testing.T) {
	states := map[string]func(t *testing.T, b *seawall.Breaker, clk *fakeClock){
		"open": func(t *testing.T, b *seawall.Breaker, _ *fakeClock) { trip(t, b) },
		"cooled down": func(t *testing.T, b *seawall.Breaker, clk *fakeClock) {
			half(t, b, clk)
		},
		"half-open": func(t *testing.T, b *seawall.Breaker, clk *fakeClock) {
			half(t, b, clk)
			wantAdmitted(t, b) // One of two.
			_, err := b.Allow(t.Context())
			require.NoError(t, err)
		},
		"closed again": func(t *testing.T, b *seawall.Breaker, clk *fakeClock) {
			half(t, b, clk)
			wantAdmitted(t, b)
			wantAdmitted(t, b)
			_, _, _ = do(b, ok), do(b, bad), do(b, bad)
		},
		"forced": func(_ *testing.T, b *seawall.Breaker, _ *fakeClock) { b.ForceOpen() },
		"reset": func(t *testing.T, b *seawall.Breaker, _ *fakeClock) {
			_ = do(b, bad)
			b.Reset()
			_, _ = do(b, bad), do(b, bad)
		},
	}
	results := map[string]error{"success": nil, "failure": errBoom, "ignored": seawall.MarkIgnored(errBoom)}
	for in, enter := range states {
		for what, result := range results {
			t.Run(what+" arrives in "+in, func(t *testing.T) {
				clk := newClock()
				b := br(t, clk, seawall.WithProbeSuccesses(2))
				var late []*held
				for range 5 {
					late = append(late, hold(t, b))
				}
				enter(t, b, clk)
				before, history := b.Snapshot(), b.History()

				for _, call := range late {
					require.Equal(t, result, call.finish(result))
				}
				before.Totals.Late += 5
				assert.Equal(t, before, b.Snapshot())
				assert.Equal(t, history, b.History())
			})
		}
	}
}

// G20: a late failure neither opens a half-open breaker again nor frees or takes a place.
func TestLateFailureInHalfOpen(t *testing.T) {
	clk := newClock()
	b := br(t, clk)
	late := hold(t, b)
	half(t, b, clk)
	probe := hold(t, b)
	require.ErrorIs(t, late.finish(errBoom), errBoom)

	wantState(t, b, seawall.HalfOpen)
	assert.Equal(t, 1, b.Snapshot().ProbesInFlight)
	wantRejected(t, b)
	require.NoError(t, probe.finish(nil))
	wantState(t, b, seawall.Closed)
}

// B20: a late success doesn't close an open breaker.
func TestLateSuccessWhileOpen(t *testing.T) {
	clk := newClock()
	b := br(t, clk)
	late := hold(t, b)
	trip(t, b)
	clk.Advance(time.Second)
	open := wantRejected(t, b)
	require.NoError(t, late.finish(nil))

	wantState(t, b, seawall.Open)
	assert.Equal(t, cooldown-time.Second, open.RetryAfter())
	assert.Same(t, open, wantRejected(t, b))
}

// G21, B21: late failures don't move the end of the cooldown and report nothing.
func TestLateFailuresDoNotProlongTheCooldown(t *testing.T) {
	onEachClock(t, func(t *testing.T, tl timeline) {
		var j journal
		b := tl.br(t, j.hook())
		var late []*held
		for range 10 {
			late = append(late, hold(t, b))
		}
		trip(t, b)
		until := wantRejected(t, b).Until
		for _, call := range late {
			tl.Advance(900 * time.Millisecond)
			require.ErrorIs(t, call.finish(errBoom), errBoom)
			assert.Equal(t, until, wantRejected(t, b).Until)
		}
		tl.Advance(time.Second - ns)
		wantRejected(t, b)
		assert.Len(t, j.all(), 1)

		tl.Advance(ns)
		wantAdmitted(t, b)
		assert.Equal(t, []string{edgeTripped, edgeCooled, edgeClosed}, j.edges())
	})
}

// G23: calls that are under way when the breaker trips go on, but they change nothing any more.
func TestCallsUnderWayAtTheTrip(t *testing.T) {
	b := br(t, newClock())
	var calls []*held
	for range 100 {
		calls = append(calls, hold(t, b))
	}
	for _, call := range calls[:3] {
		require.ErrorIs(t, call.finish(errBoom), errBoom)
	}
	wantState(t, b, seawall.Open)
	for i, call := range calls[3:] {
		result := error(nil)
		if i%2 == 0 {
			result = errBoom
		}
		require.Equal(t, result, call.finish(result))
	}
	s := b.Snapshot()
	assert.Equal(t, seawall.Open, s.State)
	assert.EqualValues(t, 1, s.Generation)
	assert.EqualValues(t, 3, s.Totals.Failures)
	assert.EqualValues(t, 97, s.Totals.Late)
}

// B23: late ignored results give back no places, for they never took one.
func TestLateIgnoredResultsFreeNoPlace(t *testing.T) {
	clk := newClock()
	b := br(t, clk)
	var late []*held
	for range 6 {
		late = append(late, hold(t, b))
	}
	half(t, b, clk)
	probe := hold(t, b)
	for _, call := range late[:4] {
		require.Error(t, call.finish(seawall.MarkIgnored(errBoom)))
	}
	assert.Equal(t, 1, b.Snapshot().ProbesInFlight)
	for range 10 {
		wantRejected(t, b)
	}
	require.NoError(t, probe.finish(nil))
	for _, call := range late[4:] {
		require.NoError(t, call.finish(nil))
	}
	assert.EqualValues(t, 6, b.Snapshot().Totals.Late)
}

// B25: with the shortest cooldown there is, the call that tripped isn't its own probe: it returns its own error, the
// next call at the same instant is rejected, and one nanosecond later one is a probe.
func TestShortestCooldown(t *testing.T) {
	onEachClock(t, func(t *testing.T, tl timeline) {
		b := tl.breaker(t, seawall.WithConsecutiveFailures(1), seawall.WithCooldown(ns))
		require.ErrorIs(t, do(b, bad), errBoom)
		assert.Equal(t, ns, wantRejected(t, b).RetryAfter())
		tl.Advance(ns)
		wantAdmitted(t, b)
		wantState(t, b, seawall.Closed)
	})
}

// G138: a straggler that fails after the cooldown is over doesn't count as a probe that failed. Only an arriving
// call makes the breaker half-open.
func TestStragglerAfterTheCooldown(t *testing.T) {
	onEachClock(t, func(t *testing.T, tl timeline) {
		b := tl.br(t)
		straggler := hold(t, b)
		trip(t, b)
		tl.Advance(cooldown)
		require.ErrorIs(t, straggler.finish(errBoom), errBoom)

		wantState(t, b, seawall.HalfOpen)
		assert.Equal(t, []string{edgeTripped}, edgesOf(b))
		wantAdmitted(t, b)
		wantState(t, b, seawall.Closed)
	})
}

// A probe whose half-open period has ended is late, even if the breaker is half-open once more, and doesn't take part
// in the verdict of the new period.
func TestProbeOfAnEarlierHalfOpenPeriod(t *testing.T) {
	for name, result := range map[string]error{"success": nil, "failure": errBoom, "ignored": seawall.MarkIgnored(errBoom)} {
		t.Run(name, func(t *testing.T) {
			clk := newClock()
			b := br(t, clk, seawall.WithProbes(2), seawall.WithProbeSuccesses(2))
			half(t, b, clk)
			old := hold(t, b)
			require.ErrorIs(t, do(b, bad), errBoom)
			clk.Advance(cooldown)
			probe := hold(t, b)

			require.Equal(t, result, old.finish(result))
			s := b.Snapshot()
			assert.Equal(t, seawall.HalfOpen, s.State)
			assert.Equal(t, 1, s.ProbesInFlight)
			assert.Zero(t, s.ProbeSuccesses)
			assert.EqualValues(t, 1, s.Totals.Late)
			require.NoError(t, probe.finish(nil))
		})
	}
}

// The end of a call may be reported from any goroutine; only the first report counts.
func TestDoneCountsOnce(t *testing.T) {
	b := br(t, newClock())
	done, err := b.Allow(t.Context())
	require.NoError(t, err)
	onItsOwn(func() { done(errBoom) })
	for range 5 {
		done(errBoom)
		onItsOwn(func() { done(nil) })
	}
	s := b.Snapshot()
	assert.EqualValues(t, 1, s.Totals.Failures)
	assert.Zero(t, s.Totals.Successes)
	assert.EqualValues(t, 1, s.ConsecutiveFailures)
}

// A call of Allow that nobody reports isn't counted, and doesn't stand in the way of anything while closed.
func TestDoneThatIsNeverCalled(t *testing.T) {
	b := br(t, newClock())
	for range 100 {
		_, err := b.Allow(t.Context())
		require.NoError(t, err)
	}
	assert.Zero(t, b.Snapshot().Calls)
	trip(t, b)
	_, err := b.Allow(t.Context())
	require.ErrorIs(t, err, seawall.ErrOpen)
}

// Allow judges as Do does.
func TestAllowTripsAndCloses(t *testing.T) {
	clk := newClock()
	b := br(t, clk)
	report := func(result error) {
		t.Helper()
		done, err := b.Allow(t.Context())
		require.NoError(t, err)
		done(result)
	}
	report(nil)
	report(seawall.MarkIgnored(errBoom))
	for range 3 {
		report(errBoom)
	}
	clk.Advance(cooldown)
	report(nil)
	assert.Equal(t, []string{edgeTripped, edgeCooled, edgeClosed}, edgesOf(b))
	totals := b.Snapshot().Totals
	assert.EqualValues(t, 2, totals.Successes)
	assert.EqualValues(t, 3, totals.Failures)
	assert.EqualValues(t, 1, totals.Ignored)
}
