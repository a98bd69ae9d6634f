package seawall_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seawall-go/seawall"
)

// G148: a breaker that nobody has called yet can be shown; the numbers of the states are fixed.
func TestBreakerIsClosedAtFirst(t *testing.T) {
	clk := newClock()
	b := br(t, clk)

	wantState(t, b, seawall.Closed)
	assert.Equal(t, "br", b.Name())
	assert.Nil(t, b.History())
	snapshot := b.Snapshot()
	assert.Zero(t, snapshot.Generation)
	assert.Equal(t, "none", snapshot.Reason.String())
	assert.Equal(t, clk.Now(), snapshot.Since)
	assert.Equal(t, []int{0, 1, 2}, []int{int(seawall.Closed), int(seawall.Open), int(seawall.HalfOpen)})
}

func TestBreakerTakesAnyName(t *testing.T) {
	for _, name := range []string{"", "payments", "a\nb", "\xff"} {
		b, err := seawall.NewBreaker(name)
		require.NoError(t, err)
		assert.Equal(t, name, b.Name())
		assert.Equal(t, name, b.Snapshot().Name)
	}
}

// The whole round: closed, open, half-open, closed, with the generation, the start and the reason of each state.
func TestBreakerGoesAllTheWayRound(t *testing.T) {
	onEachClock(t, func(t *testing.T, tl timeline) {
		b := tl.br(t)
		wantNow := func(state seawall.State, generation uint64, reason seawall.Reason) {
			t.Helper()
			s := b.Snapshot()
			assert.Equal(t, state.String(), s.State.String())
			assert.Equal(t, generation, s.Generation)
			assert.Equal(t, reason.String(), s.Reason.String())
			assert.WithinDuration(t, tl.Now(), s.Since, 0)
		}

		tl.Advance(time.Minute)
		trip(t, b)
		wantNow(seawall.Open, 1, seawall.ReasonConsecutiveFailures)

		tl.Advance(cooldown)
		require.NoError(t, do(b, func(context.Context) error {
			wantNow(seawall.HalfOpen, 2, seawall.ReasonCooldownOver)
			return nil
		}))
		wantNow(seawall.Closed, 3, seawall.ReasonProbesSucceeded)
		assert.Equal(t, []string{edgeTripped, edgeCooled, edgeClosed}, edgesOf(b))
	})
}

// G70: the breaker is open until one cooldown after the trip less 1 ns, and half-open from then on.
func TestCooldownEndsToTheNanosecond(t *testing.T) {
	onEachClock(t, func(t *testing.T, tl timeline) {
		b := tl.br(t)
		trip(t, b)

		tl.Advance(cooldown - ns)
		wantState(t, b, seawall.Open)
		assert.Equal(t, ns, wantRejected(t, b).RetryAfter())

		tl.Advance(ns)
		wantState(t, b, seawall.HalfOpen)
		wantAdmitted(t, b)
		wantState(t, b, seawall.Closed)
	})
}

// G65: a success ends the row; an ignored result neither adds to it nor ends it.
func TestOnlyARowOfFailuresTrips(t *testing.T) {
	b := br(t, newClock())
	calls := func(fns ...func(context.Context) error) {
		for _, fn := range fns {
			_ = do(b, fn)
		}
	}

	calls(bad, bad, ok, bad, bad)
	wantState(t, b, seawall.Closed)
	assert.EqualValues(t, 2, b.Snapshot().ConsecutiveFailures)

	calls(ok, bad, ignored, bad, ignored)
	wantState(t, b, seawall.Closed)
	assert.EqualValues(t, 2, b.Snapshot().ConsecutiveFailures)

	calls(bad)
	wantState(t, b, seawall.Open)
}

// G63: the share of failures is compared as it is, nowhere rounded, and the least number of calls counts the deciding
// one too.
func TestFailureRateTripsExactlyAtTheRate(t *testing.T) {
	tests := []struct {
		name     string
		rate     float64
		minCalls int
		ok, bad  int // bad ones last
		want     seawall.State
	}{
		{"half, exactly", 0.5, 4, 2, 2, seawall.Open},
		{"half, one call too few", 0.5, 4, 1, 2, seawall.Closed},
		{"half, one failure too few", 0.5, 5, 3, 2, seawall.Closed},
		{"0.4 %, exactly", 0.004, 1000, 996, 4, seawall.Open},
		{"0.4 %, one failure too few", 0.004, 1000, 997, 3, seawall.Closed},
		{"49.5 % are not half", 0.5, 100, 101, 99, seawall.Closed},
		{"a third, exactly", 1.0 / 3, 3, 2, 1, seawall.Open},
		{"57 of 100 at 57 %", 0.57, 100, 43, 57, seawall.Open},
		{"all", 1, 2, 0, 2, seawall.Open},
		{"all but one", 1, 2, 1, 50, seawall.Closed},
		{"the first call", 1, 1, 0, 1, seawall.Open},
		{"the smallest rate", math.SmallestNonzeroFloat64, 1, 9, 1, seawall.Open},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBreaker(t, seawall.WithFailureRate(tt.rate, tt.minCalls), seawall.WithClock(newClock()))
			for range tt.ok {
				require.NoError(t, do(b, ok))
			}
			for range tt.bad - 1 {
				require.ErrorIs(t, do(b, bad), errBoom)
			}
			wantState(t, b, seawall.Closed)

			require.ErrorIs(t, do(b, bad), errBoom)
			wantState(t, b, tt.want)
		})
	}
}

// A success never trips, even when it completes the least number of calls; the next failure does.
func TestASuccessNeverTrips(t *testing.T) {
	b := newBreaker(t, seawall.WithFailureRate(0.5, 4), seawall.WithClock(newClock()))
	for _, fn := range []func(context.Context) error{bad, bad, ok, ok} {
		_ = do(b, fn)
	}
	s := b.Snapshot()
	require.EqualValues(t, 4, s.Calls)
	require.InDelta(t, 0.5, s.FailureRate, 0)
	wantState(t, b, seawall.Closed)

	_ = do(b, bad)
	wantState(t, b, seawall.Open)
}

// Without a rule the two default ones hold: half of at least 20 calls in the window, or 10 failures in a row.
func TestDefaultRules(t *testing.T) {
	t.Run("10 in a row", func(t *testing.T) {
		b := newBreaker(t, seawall.WithClock(newClock()))
		for range 9 {
			_ = do(b, bad)
		}
		wantState(t, b, seawall.Closed)
		_ = do(b, bad)
		assert.Equal(t, []string{edgeTripped}, edgesOf(b))
	})
	t.Run("half of 20", func(t *testing.T) {
		b := newBreaker(t, seawall.WithClock(newClock()))
		for range 9 {
			_, _ = do(b, bad), do(b, ok)
		}
		_ = do(b, ok)
		wantState(t, b, seawall.Closed)
		_ = do(b, bad) // The 10th failure of 20 calls.
		assert.Equal(t, []string{edgeRate}, edgesOf(b))
	})
	t.Run("one rule given replaces both", func(t *testing.T) {
		b := newBreaker(t, seawall.WithConsecutiveFailures(100), seawall.WithClock(newClock()))
		for range 99 {
			_ = do(b, bad)
		}
		wantState(t, b, seawall.Closed)

		b = newBreaker(t, seawall.WithFailureRate(1, 100), seawall.WithClock(newClock()))
		for range 99 {
			_ = do(b, bad)
		}
		wantState(t, b, seawall.Closed)
	})
}

// Both rules work side by side: the one that is met first trips and is the reason, and if one failure meets both it
// is the rate.
func TestTheRuleMetFirstIsTheReason(t *testing.T) {
	tests := []struct {
		name     string
		minCalls int
		want     string
	}{
		{"the row is met first", 4, edgeTripped},
		{"both at once", 3, edgeRate},
		{"the rate is met first", 2, edgeRate},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := br(t, newClock(), seawall.WithFailureRate(1, tt.minCalls))
			for b.State() == seawall.Closed {
				_ = do(b, bad)
			}
			assert.Equal(t, []string{tt.want}, edgesOf(b))
			assert.EqualValues(t, min(3, tt.minCalls), b.History()[0].Failures)
		})
	}
}

// B40: the breaker trips again and again, each time with exactly the configured number of failures.
func TestBreakerTripsTheSameWayEachTime(t *testing.T) {
	clk := newClock()
	b := br(t, clk)
	for range 3 {
		_, _ = do(b, bad), do(b, bad)
		wantState(t, b, seawall.Closed)
		_ = do(b, bad)
		wantState(t, b, seawall.Open)

		clk.Advance(cooldown)
		wantAdmitted(t, b)
		wantState(t, b, seawall.Closed)
	}
}

// I3: an admitted call runs fn once, a rejected one never; at rest every call that ran has one outcome. B86, for the
// breaker alone.
func TestARejectedCallNeverRuns(t *testing.T) {
	clk := newClock()
	b := br(t, clk)
	var good, failing counter
	failing.err = errBoom
	rejected := 0
	for i := range 1000 {
		c := &good
		if i%7 > 2 {
			c = &failing
		}
		before := good.count() + failing.count()
		err := do(b, c.fn)
		ran := good.count() + failing.count() - before
		if errors.Is(err, seawall.ErrRejected) {
			rejected++
			require.Zero(t, ran)
		} else {
			require.Equal(t, 1, ran)
		}
		clk.Advance(time.Second)
	}
	totals := b.Snapshot().Totals
	assert.EqualValues(t, good.count(), totals.Successes)
	assert.EqualValues(t, failing.count(), totals.Failures)
	assert.EqualValues(t, rejected, totals.Rejected)
	assert.NotZero(t, rejected)
}

// I10: fn's error comes back as the same value, also from the call that trips and from a probe.
func TestErrorsComeBackAsTheyWere(t *testing.T) {
	clk := newClock()
	b := br(t, clk)
	for _, want := range []error{
		nil, &uncomparable{}, seawall.MarkIgnored(errBoom), seawall.MarkSuccess(errBoom), seawall.ErrOpen,
		context.Canceled, &uncomparable{}, &uncomparable{}, // The third failure in a row.
	} {
		got := do(b, func(context.Context) error { return want })
		assert.True(t, got == want, "%v came back as %v", want, got) //nolint:errorlint // It must be the very value.
	}
	wantState(t, b, seawall.Open)
	clk.Advance(cooldown)
	probe := &uncomparable{}
	assert.Same(t, probe, do(b, func(context.Context) error { return probe }))
}

// uncomparable is an error that is never equal to another one of its kind.
type uncomparable struct{ _ [1]func() }

func (*uncomparable) Error() string { return "uncomparable" }

// fn gets the very context that Do was given.
func TestContextReachesFnAsItIs(t *testing.T) {
	type key struct{}
	b := br(t, newClock())
	ctx := context.WithValue(t.Context(), key{}, "v")
	require.NoError(t, b.Do(ctx, func(got context.Context) error {
		assert.True(t, got == ctx, "the context was wrapped")
		return nil
	}))
}

// G123: a breaker that is forced open rejects everything until Reset, lets no probe through whatever the time, and
// reports both edges. G80: Reset works although there is no end of the cooldown.
func TestForceOpenHoldsUntilReset(t *testing.T) {
	onEachClock(t, func(t *testing.T, tl timeline) {
		var j journal
		b := tl.br(t, j.hook())
		b.ForceOpen()
		for range 3 {
			wantState(t, b, seawall.Open)
			assert.True(t, b.Snapshot().Forced)
			open := wantRejected(t, b)
			assert.Equal(t, "seawall: br: circuit forced open", open.Error())
			assert.True(t, open.Until.IsZero())
			assert.Equal(t, cooldown, open.RetryAfter())
			assert.Equal(t, cooldown, b.Snapshot().RetryAfter)
			tl.Advance(24 * time.Hour)
		}
		b.ForceOpen() // It is already: nothing happens.

		b.Reset()
		assert.False(t, b.Snapshot().Forced)
		wantAdmitted(t, b)
		assert.Equal(t, []string{"closed → open: forced", "open → closed: reset"}, j.edges())
	})
}

// ForceOpen works in every state; the end of a cooldown and the results of calls no longer matter then.
func TestForceOpenInEveryState(t *testing.T) {
	clk := newClock()
	for from, b := range inEveryState(t, clk) {
		t.Run(from, func(t *testing.T) {
			edges := len(b.History())
			b.ForceOpen()
			wantState(t, b, seawall.Open)
			clk.Advance(100 * cooldown)
			wantRejected(t, b)
			assert.True(t, b.Snapshot().Forced)
			if from == "forced" {
				assert.Len(t, b.History(), edges, "it was forced already")
			} else {
				assert.Len(t, b.History(), edges+1)
			}
		})
	}
}

// G141: Reset ends in closed, with empty counts and one event, from every state.
func TestResetFromEveryState(t *testing.T) {
	clk := newClock()
	for from, b := range inEveryState(t, clk) {
		t.Run(from, func(t *testing.T) {
			edges := len(b.History())
			b.Reset()
			wantState(t, b, seawall.Closed)
			s := b.Snapshot()
			assert.Zero(t, s.Calls)
			assert.Zero(t, s.Failures)
			assert.Zero(t, s.ConsecutiveFailures)
			assert.Zero(t, s.ProbesInFlight)
			assert.Zero(t, s.RetryAfter)
			if from == "closed" {
				assert.Len(t, b.History(), edges, "a closed breaker without counts has nothing to reset")
			} else {
				assert.Len(t, b.History(), edges+1)
			}
			b.Reset() // A second one finds nothing to do.
			assert.Equal(t, s.Generation, b.Snapshot().Generation)

			trip(t, b) // It needs the whole row again.
		})
	}
}

// inEveryState returns a breaker in each state that there is.
func inEveryState(t *testing.T, clk *fakeClock) map[string]*seawall.Breaker {
	t.Helper()
	all := map[string]*seawall.Breaker{}
	for _, name := range []string{
		"closed", "closed with calls", "closed with a failure", "open", "cooled down", "half-open",
		"half-open with a success", "half-open without a place", "forced",
	} {
		all[name] = br(t, clk, seawall.WithProbeSuccesses(2))
	}
	for _, name := range []string{"cooled down", "half-open", "half-open with a success", "half-open without a place"} {
		trip(t, all[name])
	}
	clk.Advance(cooldown)
	require.Error(t, do(all["half-open"], func(context.Context) error { return seawall.MarkIgnored(errBoom) }))
	require.NoError(t, do(all["half-open with a success"], ok))
	_, err := all["half-open without a place"].Allow(t.Context())
	require.NoError(t, err)
	trip(t, all["open"])
	require.NoError(t, do(all["closed with calls"], ok))
	require.ErrorIs(t, do(all["closed with a failure"], bad), errBoom)
	all["forced"].ForceOpen()
	return all
}

// A failure that has left the window still counts in the row, so that there is something to reset.
func TestResetForgetsARowThatTheWindowHasForgotten(t *testing.T) {
	clk := newClock()
	b := br(t, clk)
	_, _ = do(b, bad), do(b, bad)
	clk.Advance(time.Hour)
	require.Zero(t, b.Snapshot().Calls)

	b.Reset()
	assert.Equal(t, []string{"closed → closed: reset"}, edgesOf(b))
	_, _ = do(b, bad), do(b, bad)
	wantState(t, b, seawall.Closed)
}

// Mistakes that no caller could handle panic with a clear text, before anything is counted.
func TestBreakerPanicsOnMisuse(t *testing.T) {
	const notMade = "seawall: use of a Breaker that was not made by NewBreaker"
	var zero seawall.Breaker
	for name, b := range map[string]*seawall.Breaker{"zero": &zero, "nil": nil} {
		for method, call := range everyMethod() {
			t.Run(name+" "+method, func(t *testing.T) {
				assert.PanicsWithValue(t, notMade, func() { call(b) })
			})
		}
	}

	b := br(t, newClock())
	before := b.Snapshot()
	var none context.Context
	assert.PanicsWithValue(t, "seawall: nil Context", func() { _ = b.Do(none, ok) })
	assert.PanicsWithValue(t, "seawall: nil Context", func() { _, _ = b.Allow(none) })
	assert.PanicsWithValue(t, "seawall: nil fn", func() { _ = do(b, nil) })
	assert.Equal(t, before, b.Snapshot())

	trip(t, b) // Nor is it a rejection when the breaker is open.
	assert.PanicsWithValue(t, "seawall: nil fn", func() { _ = do(b, nil) })
	assert.Zero(t, b.Snapshot().Totals.Rejected)
}

// everyMethod has a call of each method of a breaker.
func everyMethod() map[string]func(*seawall.Breaker) {
	return map[string]func(*seawall.Breaker){
		"Do":        func(b *seawall.Breaker) { _ = do(b, ok) },
		"Allow":     func(b *seawall.Breaker) { allowAndReport(b) },
		"Name":      func(b *seawall.Breaker) { b.Name() },
		"State":     func(b *seawall.Breaker) { b.State() },
		"Snapshot":  func(b *seawall.Breaker) { b.Snapshot() },
		"History":   func(b *seawall.Breaker) { b.History() },
		"Settings":  func(b *seawall.Breaker) { b.Settings() },
		"ForceOpen": func(b *seawall.Breaker) { b.ForceOpen() },
		"Reset":     func(b *seawall.Breaker) { b.Reset() },
		"Wait":      func(b *seawall.Breaker) { waitInVain(b) },
		"Mode":      func(b *seawall.Breaker) { b.Mode() },
		"SetMode":   func(b *seawall.Breaker) { _, _ = b.SetMode(seawall.Off), b.SetMode(seawall.Enforce) },
	}
}

// waitInVain has no time to wait.
func waitInVain(b *seawall.Breaker) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, _ = b.Wait(ctx)
}

func allowAndReport(b *seawall.Breaker) {
	if done, err := b.Allow(context.Background()); err == nil {
		done(errBoom)
	}
}
