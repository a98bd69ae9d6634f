package seawall_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seawall-go/seawall"
)

// How long the breaker stays open: plain, growing, with jitter, as long as the error asks for, or as a function says.

// reopen lets the cooldown pass and makes the probe fail.
func reopen(t *testing.T, b *seawall.Breaker, clk mover) {
	t.Helper()
	clk.Advance(b.Snapshot().RetryAfter)
	require.ErrorIs(t, do(b, bad), errBoom)
	require.Equal(t, seawall.Open, b.State())
}

// G121: with back-off the cooldown doubles with each opening up to the maximum and stays there; closing starts again
// from the plain one.
func TestBackoffDoublesUpToTheMaximum(t *testing.T) {
	tests := []struct {
		max  time.Duration
		want []time.Duration
	}{
		{10 * time.Second, []time.Duration{10, 10, 10}},
		{11 * time.Second, []time.Duration{10, 11, 11}},
		{20 * time.Second, []time.Duration{10, 20, 20}},
		{5 * time.Minute, []time.Duration{10, 20, 40, 80, 160, 300, 300}},
	}
	for _, tt := range tests {
		t.Run(tt.max.String(), func(t *testing.T) {
			onEachClock(t, func(t *testing.T, tl timeline) {
				b := tl.br(t, seawall.WithBackoff(tt.max))
				for range 2 {
					trip(t, b)
					for i, want := range tt.want {
						if i > 0 {
							reopen(t, b, tl)
						}
						assert.Equal(t, want*time.Second, b.Snapshot().RetryAfter, "opening %d", i+1)
					}
					for range 100 {
						reopen(t, b, tl)
						require.Equal(t, tt.max, b.Snapshot().RetryAfter)
					}
					tl.Advance(tt.max - ns)
					wantRejected(t, b)
					tl.Advance(ns)
					wantAdmitted(t, b)
				}
			})
		})
	}
}

// Reset forgets how far the cooldown had grown.
func TestResetForgetsTheBackoff(t *testing.T) {
	clk := newClock()
	b := br(t, clk, seawall.WithBackoff(time.Hour))
	trip(t, b)
	reopen(t, b, clk)
	require.Equal(t, 2*cooldown, b.Snapshot().RetryAfter)
	b.Reset()
	trip(t, b)
	assert.Equal(t, cooldown, b.Snapshot().RetryAfter)
}

// Without back-off the cooldown stays the same.
func TestCooldownDoesNotGrowByItself(t *testing.T) {
	clk := newClock()
	b := br(t, clk)
	trip(t, b)
	for range 10 {
		reopen(t, b, clk)
		assert.Equal(t, cooldown, b.Snapshot().RetryAfter)
	}
}

// B56: cooldowns from the shortest to the longest neither overflow nor become 0.
func TestCooldownsDoNotOverflow(t *testing.T) {
	t.Run("from 1 ns to the end of time", func(t *testing.T) {
		clk := newClock()
		b := newBreaker(t, seawall.WithConsecutiveFailures(1), seawall.WithCooldown(ns),
			seawall.WithBackoff(math.MaxInt64), seawall.WithClock(clk))
		require.ErrorIs(t, do(b, bad), errBoom)
		for i := range 62 {
			require.Equal(t, time.Duration(1)<<i, b.Snapshot().RetryAfter)
			reopen(t, b, clk)
		}
		assert.Equal(t, time.Duration(1)<<62, b.Snapshot().RetryAfter)
	})
	t.Run("more than half of the maximum", func(t *testing.T) {
		clk := newClock()
		b := newBreaker(t, seawall.WithConsecutiveFailures(1), seawall.WithCooldown(math.MaxInt64/2+1),
			seawall.WithBackoff(math.MaxInt64), seawall.WithClock(clk))
		require.ErrorIs(t, do(b, bad), errBoom)
		reopen(t, b, clk)
		assert.Equal(t, time.Duration(math.MaxInt64/2), b.Snapshot().RetryAfter, "time ends before this cooldown does")
	})
	t.Run("for ever, with jitter", func(t *testing.T) {
		clk := newClock()
		b := newBreaker(t, seawall.WithConsecutiveFailures(1), seawall.WithCooldown(math.MaxInt64),
			seawall.WithJitter(1), seawall.WithClock(clk))
		clk.Advance(time.Hour)
		require.ErrorIs(t, do(b, bad), errBoom)
		open := wantRejected(t, b)
		assert.Equal(t, time.Duration(math.MaxInt64)-time.Hour, open.RetryAfter(), "the end of time is near")
		for range 5 {
			clk.Advance(200 * 365 * 24 * time.Hour)
			assert.Positive(t, wantRejected(t, b).RetryAfter())
		}
		b.Reset()
		wantAdmitted(t, b)
	})
	t.Run("a probe that may take for ever", func(t *testing.T) {
		clk := newClock()
		b := br(t, clk, seawall.WithProbeTimeout(math.MaxInt64))
		half(t, b, clk)
		probe := hold(t, b)
		clk.Advance(200 * 365 * 24 * time.Hour)
		assert.Positive(t, wantRejected(t, b).RetryAfter())
		require.NoError(t, probe.finish(nil))
		wantState(t, b, seawall.Closed)
	})
}

// Jitter makes each opening last longer by a share of up to f, which is drawn anew for each opening and only once in
// it: however often somebody asks, the end stays where it is.
func TestJitter(t *testing.T) {
	const openings = 300
	for _, f := range []float64{0, 0.25, 1} {
		t.Run(fmt.Sprint(f), func(t *testing.T) {
			clk := newClock()
			b := br(t, clk, seawall.WithJitter(f))
			trip(t, b)
			var seen []time.Duration
			longest := cooldown + time.Duration(f*float64(cooldown))
			for range openings {
				open := wantRejected(t, b)
				total := open.RetryAfter()
				require.GreaterOrEqual(t, total, cooldown)
				require.LessOrEqual(t, total, longest)
				seen = append(seen, total)

				clk.Advance(time.Second)
				require.Same(t, open, wantRejected(t, b))
				require.Equal(t, total-time.Second, open.RetryAfter())
				clk.Advance(total - time.Second - ns)
				require.Same(t, open, wantRejected(t, b))
				clk.Advance(ns)
				require.ErrorIs(t, do(b, bad), errBoom)
			}
			slices.Sort(seen)
			spread := seen[openings-1] - seen[0]
			assert.GreaterOrEqual(t, float64(spread), 0.9*f*float64(cooldown), "the shares fill the range")
			if f > 0 {
				assert.Greater(t, len(slices.Compact(seen)), openings/2, "each opening draws its own share")
			}
		})
	}
}

// askingError asks for a wait.
type askingError struct{ wait time.Duration }

func (e askingError) Error() string             { return "busy" }
func (e askingError) RetryAfter() time.Duration { return e.wait }

// The breaker stays open for as long as the deciding error asks for, if that is more than the cooldown, but for no
// longer than it is allowed to ask for.
func TestRetryAfterHint(t *testing.T) {
	tests := []struct {
		name string
		opts []seawall.BreakerOption
		err  error
		want time.Duration
	}{
		{"more than the cooldown", nil, askingError{30 * time.Second}, 30 * time.Second},
		{"1 ns more", nil, askingError{cooldown + ns}, cooldown + ns},
		{"less than the cooldown", nil, askingError{time.Second}, cooldown},
		{"nothing", nil, askingError{0}, cooldown},
		{"nonsense", nil, askingError{-time.Hour}, cooldown},
		{"up to a minute by default", nil, askingError{time.Hour}, time.Minute},
		{"as long as allowed", []seawall.BreakerOption{seawall.WithMaxRetryAfter(time.Hour)}, askingError{time.Hour}, time.Hour},
		{"1 ns too long", []seawall.BreakerOption{seawall.WithMaxRetryAfter(time.Hour)}, askingError{time.Hour + ns}, time.Hour},
		{"not allowed", []seawall.BreakerOption{seawall.WithMaxRetryAfter(0)}, askingError{time.Hour}, cooldown},
		{"for ever", []seawall.BreakerOption{seawall.WithMaxRetryAfter(math.MaxInt64)}, askingError{math.MaxInt64}, math.MaxInt64},
		{"wrapped", nil, fmt.Errorf("call: %w", askingError{30 * time.Second}), 30 * time.Second},
		{"joined", nil, errors.Join(errBoom, askingError{30 * time.Second}), 30 * time.Second},
		{"back-off is longer", []seawall.BreakerOption{seawall.WithCooldown(30 * time.Second), seawall.WithBackoff(time.Hour)}, askingError{20 * time.Second}, 30 * time.Second},
		{"the function's answer is longer", []seawall.BreakerOption{cooldownOf(40 * time.Second)}, askingError{20 * time.Second}, 40 * time.Second},
		{"the function's answer is shorter", []seawall.BreakerOption{cooldownOf(time.Second)}, askingError{20 * time.Second}, 20 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := br(t, newClock(), tt.opts...)
			for _, err := range []error{askingError{50 * time.Second}, askingError{50 * time.Second}, tt.err} {
				_ = do(b, func(context.Context) error { return err }) // Only the deciding one is asked.
			}
			assert.Equal(t, tt.want, wantRejected(t, b).RetryAfter())
		})
	}
}

func cooldownOf(d time.Duration) seawall.BreakerOption {
	return seawall.WithCooldownFunc(func(seawall.Trip) time.Duration { return d })
}

// A probe that fails may ask for a wait as well. It holds for its opening only, and doesn't double.
func TestRetryAfterHintOfAProbe(t *testing.T) {
	clk := newClock()
	b := br(t, clk, seawall.WithBackoff(time.Hour))
	half(t, b, clk)
	require.Error(t, do(b, func(context.Context) error { return askingError{50 * time.Second} }))
	assert.Equal(t, 50*time.Second, wantRejected(t, b).RetryAfter(), "more than twice the cooldown")
	reopen(t, b, clk)
	assert.Equal(t, 4*cooldown, wantRejected(t, b).RetryAfter())
}

// Jitter comes on top of what the error asks for.
func TestJitterOnTopOfTheHint(t *testing.T) {
	longer := false
	for range 50 {
		b := br(t, newClock(), seawall.WithJitter(1))
		for range 3 {
			_ = do(b, func(context.Context) error { return askingError{time.Minute} })
		}
		wait := b.Snapshot().RetryAfter
		require.GreaterOrEqual(t, wait, time.Minute)
		require.LessOrEqual(t, wait, 2*time.Minute)
		longer = longer || wait > time.Minute+time.Second
	}
	assert.True(t, longer)
}

// Unless told otherwise a probe holds its place for the cooldown of the opening before it: the grown one, or the one
// that the function decided, but without what the error asked for and without jitter.
func TestProbeTimeoutIsTheCooldownInForce(t *testing.T) {
	tests := []struct {
		name string
		opts []seawall.BreakerOption
		want time.Duration
	}{
		{"plain", nil, cooldown},
		{"grown", []seawall.BreakerOption{seawall.WithBackoff(time.Hour)}, 2 * cooldown},
		{"decided by a function", []seawall.BreakerOption{cooldownOf(7 * time.Second)}, 7 * time.Second},
		{"with jitter", []seawall.BreakerOption{seawall.WithJitter(1)}, cooldown},
		{"its own", []seawall.BreakerOption{seawall.WithBackoff(time.Hour), seawall.WithProbeTimeout(3 * time.Second)}, 3 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			clk := newClock()
			b := br(t, clk, tt.opts...)
			trip(t, b)
			clk.Advance(b.Snapshot().RetryAfter)
			require.Error(t, do(b, func(context.Context) error { return askingError{55 * time.Second} }))
			clk.Advance(b.Snapshot().RetryAfter)
			_, err := b.Allow(t.Context())
			require.NoError(t, err)
			assert.Equal(t, tt.want, wantRejected(t, b).RetryAfter())
		})
	}
}

// B55: the cooldown function is told which opening in a row this is, why it opened and what the deciding call
// returned.
func TestCooldownFuncIsToldAboutTheOpening(t *testing.T) {
	var trips []seawall.Trip
	clk := newClock()
	b := br(t, clk, seawall.WithCooldownFunc(func(trip seawall.Trip) time.Duration {
		trips = append(trips, trip)
		return time.Duration(trip.Opens) * time.Minute
	}))
	other := errors.New("other")
	trip(t, b)
	require.Equal(t, time.Minute, b.Snapshot().RetryAfter)
	clk.Advance(time.Minute)
	require.ErrorIs(t, do(b, func(context.Context) error { return other }), other)
	require.Equal(t, 2*time.Minute, b.Snapshot().RetryAfter)
	reopen(t, b, clk)
	require.Equal(t, 3*time.Minute, b.Snapshot().RetryAfter)
	clk.Advance(3*time.Minute - ns)
	wantRejected(t, b)
	clk.Advance(ns)
	wantAdmitted(t, b)
	trip(t, b)
	b.ForceOpen() // Not asked about.
	b.Reset()
	trip(t, b)

	tripped := seawall.Trip{Name: "br", Opens: 1, Reason: seawall.ReasonConsecutiveFailures, Err: errBoom, Cooldown: cooldown}
	assert.Equal(t, []seawall.Trip{
		tripped,
		{Name: "br", Opens: 2, Reason: seawall.ReasonProbeFailed, Err: other, Cooldown: cooldown},
		{Name: "br", Opens: 3, Reason: seawall.ReasonProbeFailed, Err: errBoom, Cooldown: cooldown},
		tripped,
		tripped,
	}, trips)
}

// Whatever the cooldown function does instead of answering, the plain cooldown stays in force, and the state change
// is reported all the same.
func TestCooldownFuncWithoutAnAnswer(t *testing.T) {
	for name, f := range map[string]func(seawall.Trip) time.Duration{
		"zero":     func(seawall.Trip) time.Duration { return 0 },
		"negative": func(seawall.Trip) time.Duration { return math.MinInt64 },
		"panic":    func(seawall.Trip) time.Duration { panic("cooldown") },
		"Goexit":   func(seawall.Trip) time.Duration { runtime.Goexit(); return time.Hour },
	} {
		t.Run(name, func(t *testing.T) {
			var j journal
			clk := newClock()
			b := br(t, clk, seawall.WithCooldownFunc(f), j.hook())
			_, _ = do(b, bad), do(b, bad)
			var recovered any
			onItsOwn(func() {
				defer func() { recovered = recover() }()
				_ = do(b, bad)
			})
			if name == "panic" {
				assert.Equal(t, "cooldown", recovered, "the panic goes on to the caller")
			}
			assert.Equal(t, []string{edgeTripped}, j.edges())
			assert.Equal(t, cooldown, wantRejected(t, b).RetryAfter())
			clk.Advance(cooldown)
			wantAdmitted(t, b)
		})
	}
}

// While the cooldown function is still thinking, the plain cooldown is in force and no event is delivered. An answer
// that comes after the next edge is of no use; the events come in order nevertheless.
func TestCooldownFuncThatIsSlow(t *testing.T) {
	t.Run("answer in time", func(t *testing.T) {
		var j journal
		asked, answer := make(chan struct{}), make(chan time.Duration)
		clk := newClock()
		b := br(t, clk, j.hook(), seawall.WithCooldownFunc(func(seawall.Trip) time.Duration {
			close(asked)
			return <-answer
		}))
		tripped := make(chan struct{})
		go func() { defer close(tripped); trip(t, b) }()
		<-asked
		plain := wantRejected(t, b)
		assert.Equal(t, cooldown, plain.RetryAfter())
		assert.Empty(t, j.all())

		answer <- time.Minute
		<-tripped
		assert.Equal(t, time.Minute, wantRejected(t, b).RetryAfter())
		assert.Equal(t, []string{edgeTripped}, j.edges())
	})
	t.Run("answer too late", func(t *testing.T) {
		var j journal
		asked, answer := make(chan struct{}), make(chan time.Duration)
		first := true
		clk := newClock()
		b := br(t, clk, j.hook(), seawall.WithCooldownFunc(func(seawall.Trip) time.Duration {
			if first {
				first = false
				close(asked)
				return <-answer
			}
			return time.Second
		}))
		tripped := make(chan error)
		go func() { _, _ = do(b, bad), do(b, bad); tripped <- do(b, bad) }()
		<-asked
		clk.Advance(cooldown)
		require.ErrorIs(t, do(b, bad), errBoom) // A probe that fails.
		require.Equal(t, time.Second, wantRejected(t, b).RetryAfter())
		assert.Empty(t, j.all(), "nothing overtakes the first change")

		answer <- time.Minute
		require.ErrorIs(t, <-tripped, errBoom)
		assert.Equal(t, time.Second, wantRejected(t, b).RetryAfter())
		assert.Equal(t, []string{edgeTripped, edgeCooled, edgeReopened}, j.edges())
		clk.Advance(time.Second)
		_, err := b.Allow(t.Context())
		require.NoError(t, err)
		assert.Equal(t, time.Second, wantRejected(t, b).RetryAfter(), "nor does it decide how long a probe has")
	})
	t.Run("function that changes the state itself", func(t *testing.T) {
		var j journal
		var b *seawall.Breaker
		b = br(t, newClock(), j.hook(), seawall.WithCooldownFunc(func(seawall.Trip) time.Duration {
			b.Reset()
			b.ForceOpen()
			return time.Minute
		}))
		_, _, _ = do(b, bad), do(b, bad), do(b, bad)
		assert.True(t, b.Snapshot().Forced)
		assert.Equal(t, cooldown, wantRejected(t, b).RetryAfter())
		assert.Equal(t, []string{edgeTripped, "open → closed: reset", "closed → open: forced"}, j.edges())
	})
}
