package seawall_test

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seawall-go/seawall"
)

func ignored(context.Context) error { return seawall.MarkIgnored(errBoom) }

// G05, B05, B06, I4: a probe that hangs loses its place exactly one probe timeout after it began, by default one
// cooldown, and exactly one call takes it.
func TestHungProbeLosesItsPlace(t *testing.T) {
	for name, tt := range map[string]struct {
		opts    []seawall.BreakerOption
		timeout time.Duration
	}{
		"default": {nil, cooldown},
		"shorter": {[]seawall.BreakerOption{seawall.WithProbeTimeout(time.Second)}, time.Second},
		"longer":  {[]seawall.BreakerOption{seawall.WithProbeTimeout(time.Minute)}, time.Minute},
		"least":   {[]seawall.BreakerOption{seawall.WithProbeTimeout(ns)}, ns},
	} {
		t.Run(name, func(t *testing.T) {
			onEachClock(t, func(t *testing.T, tl timeline) {
				b := tl.br(t, tt.opts...)
				half(t, b, tl)
				hung := hold(t, b)
				tl.Advance(tt.timeout - ns)
				for range 50 {
					assert.Equal(t, ns, wantRejected(t, b).RetryAfter())
				}
				assert.Equal(t, 1, b.Snapshot().ProbesInFlight)

				tl.Advance(ns)
				assert.Zero(t, b.Snapshot().ProbesInFlight)
				second := hold(t, b)
				for range 50 {
					wantRejected(t, b)
				}
				assert.Equal(t, 1, b.Snapshot().ProbesInFlight)

				require.NoError(t, second.finish(nil))
				wantState(t, b, seawall.Closed)
				require.ErrorIs(t, hung.finish(errBoom), errBoom)
				wantState(t, b, seawall.Closed)
				assert.EqualValues(t, 1, b.Snapshot().Totals.Late)
			})
		})
	}
}

// G06: the same for a caller of Allow who forgets about done.
func TestForgottenProbeLosesItsPlace(t *testing.T) {
	onEachClock(t, func(t *testing.T, tl timeline) {
		b := tl.br(t)
		half(t, b, tl)
		_, err := b.Allow(t.Context())
		require.NoError(t, err)
		tl.Advance(cooldown - ns)
		_, err = b.Allow(t.Context())
		require.ErrorIs(t, err, seawall.ErrOpen)

		tl.Advance(ns)
		done, err := b.Allow(t.Context())
		require.NoError(t, err)
		done(nil)
		wantState(t, b, seawall.Closed)
	})
}

// A probe that has lost its place: its success still counts toward closing; what else it brings is late, and the
// place of the probe after it is not touched (I6).
func TestResultOfAProbeThatLostItsPlace(t *testing.T) {
	tests := []struct {
		name  string
		age   time.Duration
		end   error
		state seawall.State
		late  uint64
	}{
		{"success in time", cooldown - ns, nil, seawall.Closed, 0},
		{"success too late", cooldown, nil, seawall.Closed, 0},
		{"success much too late", 100 * cooldown, nil, seawall.Closed, 0},
		{"failure in time", cooldown - ns, errBoom, seawall.Open, 0},
		{"failure too late", cooldown, errBoom, seawall.HalfOpen, 1},
		{"ignored in time", cooldown - ns, seawall.MarkIgnored(errBoom), seawall.HalfOpen, 0},
		{"ignored too late", cooldown, seawall.MarkIgnored(errBoom), seawall.HalfOpen, 1},
	}
	for _, tt := range tests {
		for _, replaced := range []bool{false, true} {
			name := tt.name
			if replaced {
				name += ", place taken"
			}
			t.Run(name, func(t *testing.T) {
				clk := newClock()
				b := br(t, clk)
				half(t, b, clk)
				probe := hold(t, b)
				clk.Advance(tt.age)
				inFlight := 0
				if replaced && tt.age >= cooldown {
					_, err := b.Allow(t.Context())
					require.NoError(t, err)
					inFlight = 1
				}
				before := b.Snapshot()

				require.Equal(t, tt.end, probe.finish(tt.end))
				wantState(t, b, tt.state)
				after := b.Snapshot()
				assert.Equal(t, tt.late, after.Totals.Late)
				if tt.late > 0 {
					before.Totals.Late++
					assert.Equal(t, before, after, "a late result changes nothing")
				}
				if tt.state == seawall.HalfOpen {
					assert.Equal(t, inFlight, after.ProbesInFlight)
				}
			})
		}
	}
}

// G01, B03, I1: every way out of fn settles a probe exactly once and gives its place back.
// G10: a panic does so too, since nothing lies between admission and the deferred settling.
func TestEveryWayOutSettlesAProbe(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	tests := []struct {
		name string
		fn   func(context.Context) error
		want seawall.State
	}{
		{"nil", ok, seawall.HalfOpen},
		{"error", bad, seawall.Open},
		{"ignored error", ignored, seawall.HalfOpen},
		{"panic", func(context.Context) error { panic(errBoom) }, seawall.Open},
		{"Goexit", func(context.Context) error { runtime.Goexit(); return nil }, seawall.Open},
		{"cancelled", func(ctx context.Context) error { cancel(); return ctx.Err() }, seawall.HalfOpen},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			clk := newClock()
			b := br(t, clk, seawall.WithProbes(2), seawall.WithProbeSuccesses(2))
			half(t, b, clk)
			onItsOwn(func() {
				defer func() { _ = recover() }()
				_ = b.Do(ctx, tt.fn)
			})
			wantState(t, b, tt.want)
			assert.Zero(t, b.Snapshot().ProbesInFlight)

			// I4: it takes one cooldown at most until calls are admitted again, as many as there are places.
			clk.Advance(cooldown)
			for range 2 {
				_, err := b.Allow(t.Context())
				require.NoError(t, err)
			}
			wantRejected(t, b)
		})
	}
}

// G08: a probe that a policy further in refused has no verdict and gives its place back.
func TestRefusedProbeIsNoVerdict(t *testing.T) {
	clk := newClock()
	b, inner := br(t, clk), bh(t, 1, seawall.WithMaxWait(0))
	policy := seawall.Chain(b, inner)
	half(t, b, clk)
	release, err := inner.Acquire(t.Context())
	require.NoError(t, err)

	require.ErrorIs(t, do(policy, ok), seawall.ErrBulkheadFull)
	wantState(t, b, seawall.HalfOpen)
	assert.Zero(t, b.Snapshot().ProbesInFlight)

	release()
	require.NoError(t, do(policy, ok))
	wantState(t, b, seawall.Closed)
}

// B01, G11: an ignored probe, such as one whose caller hung up, decides nothing; the next call is the next probe at
// once, however often.
func TestIgnoredProbesDecideNothing(t *testing.T) {
	clk := newClock()
	b := br(t, clk)
	half(t, b, clk)
	for i := range 100 {
		if i%2 == 0 {
			require.ErrorIs(t, do(b, ignored), errBoom)
		} else {
			ctx, cancel := context.WithCancel(t.Context())
			require.ErrorIs(t, b.Do(ctx, func(ctx context.Context) error { cancel(); return ctx.Err() }), context.Canceled)
		}
		wantState(t, b, seawall.HalfOpen)
	}
	assert.EqualValues(t, 2, b.Snapshot().Generation)
	assert.EqualValues(t, 100, b.Snapshot().Totals.Ignored)

	wantAdmitted(t, b)
	wantState(t, b, seawall.Closed)
}

// G13, I2: of many calls at once exactly as many run as there are places.
func TestNoMoreProbesThanPlaces(t *testing.T) {
	for _, places := range []int{1, 3, 50} {
		synctest.Test(t, func(t *testing.T) {
			b := newBreaker(t, seawall.WithConsecutiveFailures(3), seawall.WithCooldown(cooldown),
				seawall.WithProbes(places), seawall.WithProbeSuccesses(places))
			trip(t, b)
			time.Sleep(cooldown)
			var rejected atomic.Int32
			var calls sync.WaitGroup
			finish := make(chan error)
			for range 50 {
				calls.Go(func() {
					if err := do(b, func(context.Context) error { return <-finish }); err != nil {
						assert.ErrorIs(t, err, seawall.ErrOpen)
						rejected.Add(1)
					}
				})
			}
			synctest.Wait()
			assert.EqualValues(t, 50-places, rejected.Load())
			assert.Equal(t, places, b.Snapshot().ProbesInFlight)

			for range places {
				finish <- nil
			}
			calls.Wait()
			wantState(t, b, seawall.Closed)
		})
	}
}

// G15: the call that ends the cooldown is itself the first probe, in the same step.
func TestTheCallThatEndsTheCooldownIsAProbe(t *testing.T) {
	clk := newClock()
	b := br(t, clk)
	half(t, b, clk)
	probe := hold(t, b)
	wantRejected(t, b)
	require.NoError(t, probe.finish(nil))
	wantState(t, b, seawall.Closed)
}

// B08: the option limits how many probes run at once, not how many there are. A place is given back when its probe
// ends, although the verdict needs more of them.
func TestProbesLimitsHowManyRunAtOnce(t *testing.T) {
	clk := newClock()
	b := br(t, clk, seawall.WithProbes(2), seawall.WithProbeSuccesses(5))
	half(t, b, clk)
	first, second := hold(t, b), hold(t, b)
	wantRejected(t, b)
	require.NoError(t, first.finish(nil))
	third := hold(t, b)
	wantRejected(t, b)
	require.NoError(t, second.finish(nil))
	require.NoError(t, third.finish(nil))
	assert.Equal(t, 3, b.Snapshot().ProbeSuccesses)

	for range 2 {
		wantState(t, b, seawall.HalfOpen)
		wantAdmitted(t, b)
	}
	wantState(t, b, seawall.Closed)
}

// G18: as many probes as wanted must succeed, and a single one that fails opens the breaker again.
// B11: those of an earlier half-open period don't count.
func TestSuccessesStartFromZeroEachTime(t *testing.T) {
	clk := newClock()
	b := br(t, clk, seawall.WithProbeSuccesses(2))
	half(t, b, clk)
	for range 3 {
		wantAdmitted(t, b)
		wantState(t, b, seawall.HalfOpen)
		assert.Equal(t, 1, b.Snapshot().ProbeSuccesses)
		require.ErrorIs(t, do(b, bad), errBoom)
		wantState(t, b, seawall.Open)
		assert.Zero(t, b.Snapshot().ProbeSuccesses)
		clk.Advance(cooldown)
	}
	wantAdmitted(t, b)
	wantAdmitted(t, b)
	wantState(t, b, seawall.Closed)
}

// G16: a probe that fails starts a full new cooldown, and so for ever.
func TestFailedProbeStartsAFullCooldown(t *testing.T) {
	onEachClock(t, func(t *testing.T, tl timeline) {
		b := tl.br(t)
		half(t, b, tl)
		for range 100 {
			require.ErrorIs(t, do(b, func(context.Context) error {
				tl.Advance(time.Second) // It counts from the end of the probe.
				return errBoom
			}), errBoom)
			assert.Equal(t, cooldown, wantRejected(t, b).RetryAfter())
			tl.Advance(cooldown - ns)
			wantRejected(t, b)
			tl.Advance(ns)
		}
		wantAdmitted(t, b)
		wantState(t, b, seawall.Closed)
	})
}

// B10: probes have a rule of their own: the rate of the closed breaker, met exactly or not, has no say in it.
func TestTheRateDoesNotJudgeProbes(t *testing.T) {
	clk := newClock()
	b := newBreaker(t, seawall.WithFailureRate(0.5, 10), seawall.WithCooldown(cooldown), seawall.WithClock(clk))
	for range 5 {
		require.NoError(t, do(b, ok))
	}
	for range 5 {
		require.ErrorIs(t, do(b, bad), errBoom)
	}
	wantState(t, b, seawall.Open)

	for range 3 {
		clk.Advance(cooldown)
		probe := hold(t, b)
		for range 20 {
			wantRejected(t, b)
		}
		require.ErrorIs(t, probe.finish(errBoom), errBoom)
		wantState(t, b, seawall.Open)
		assert.Equal(t, cooldown, wantRejected(t, b).RetryAfter())
	}
}

// B13: a classifier that panics on a probe makes it a failure; the place comes back, and the panic goes on.
func TestClassifierThatPanicsOnAProbe(t *testing.T) {
	clk := newClock()
	panics := false
	b := br(t, clk, seawall.WithClassifier(func(context.Context, error) seawall.Outcome {
		if panics {
			panic("classifier")
		}
		return seawall.Failure
	}))
	half(t, b, clk)
	panics = true
	assert.PanicsWithValue(t, "classifier", func() { _ = do(b, bad) })
	wantState(t, b, seawall.Open)
	assert.Zero(t, b.Snapshot().ProbesInFlight) // I1

	clk.Advance(cooldown) // I4
	wantAdmitted(t, b)
	wantState(t, b, seawall.Closed)
}

// B15: once the breaker has closed, calls are admitted, and what opened it is forgotten.
func TestAfterClosingOldFailuresAreForgotten(t *testing.T) {
	clk := newClock()
	b := newBreaker(t, seawall.WithFailureRate(0.5, 1), seawall.WithConsecutiveFailures(10), seawall.WithClock(clk))
	require.ErrorIs(t, do(b, bad), errBoom)
	clk.Advance(5 * time.Second) // The window of 10 s would still have it.
	wantAdmitted(t, b)
	wantState(t, b, seawall.Closed)
	s := b.Snapshot()
	assert.Zero(t, s.Calls, "the probe itself isn't in the window either")
	assert.Zero(t, s.ConsecutiveFailures)

	for range 2 {
		require.NoError(t, do(b, ok))
	}
	require.ErrorIs(t, do(b, bad), errBoom)
	wantState(t, b, seawall.Closed) // 1 of 3, not 2 of 3
}

// Places lapse one by one, the oldest first, and each rejection tells when the next one does.
func TestPlacesLapseInOrder(t *testing.T) {
	clk := newClock()
	b := br(t, clk, seawall.WithProbes(3), seawall.WithProbeSuccesses(9))
	half(t, b, clk)
	for range 3 { // At 0, 1 and 2 s.
		_, err := b.Allow(t.Context())
		require.NoError(t, err)
		clk.Advance(time.Second)
	}
	assert.Equal(t, 7*time.Second, wantRejected(t, b).RetryAfter())
	assert.Equal(t, 7*time.Second, b.Snapshot().RetryAfter)

	clk.Advance(7*time.Second - ns)
	assert.Equal(t, 3, b.Snapshot().ProbesInFlight)
	wantRejected(t, b)
	for inFlight := 2; inFlight >= 0; inFlight-- {
		clk.Advance(ns)
		assert.Equal(t, inFlight, b.Snapshot().ProbesInFlight)
		assert.Zero(t, b.Snapshot().RetryAfter)
		clk.Advance(time.Second - ns)
		assert.Equal(t, inFlight, b.Snapshot().ProbesInFlight)
	}
	for range 3 { // I1: all three are free again, and no more than that.
		_, err := b.Allow(t.Context())
		require.NoError(t, err)
	}
	wantRejected(t, b)
}

// A probe gives back its own place and not that of another one, even one that began at the same instant.
func TestAProbeGivesBackItsOwnPlace(t *testing.T) {
	clk := newClock()
	b := br(t, clk, seawall.WithProbes(3))
	half(t, b, clk)
	allow := func() func(error) {
		t.Helper()
		done, err := b.Allow(t.Context())
		require.NoError(t, err)
		return done
	}
	oldest, twin := allow(), allow()
	clk.Advance(time.Second)
	youngest := allow()
	assert.Equal(t, cooldown-time.Second, wantRejected(t, b).RetryAfter())

	twin(seawall.MarkIgnored(errBoom))
	twin(seawall.MarkIgnored(errBoom)) // Counts once.
	assert.Equal(t, 2, b.Snapshot().ProbesInFlight)
	allow()
	assert.Equal(t, cooldown-time.Second, wantRejected(t, b).RetryAfter(), "the oldest still holds its place")

	oldest(seawall.MarkIgnored(errBoom))
	allow()
	assert.Equal(t, cooldown, wantRejected(t, b).RetryAfter(), "the next that lapses is the youngest one")
	youngest(nil)
	wantState(t, b, seawall.Closed)
}
