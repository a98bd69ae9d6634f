package seawall_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seawall-go/seawall"
)

// What a threshold is worth: a dependency that hangs, and one that is only slow at times. Both are played in a bubble, on
// the default clock and with the default rules.

// service is a dependency. While it hangs, whoever calls it gets no answer.
type service struct {
	latency func() time.Duration
	hangs   atomic.Bool
	calls   atomic.Int64
	last    atomic.Int64 // the time of the last one
}

func (s *service) call(ctx context.Context) error {
	s.calls.Add(1)
	s.last.Store(time.Now().UnixNano())
	answer := time.After(s.latency())
	if s.hangs.Load() {
		answer = nil
	}
	select {
	case <-answer:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// load makes the given number of calls under b, one in each interval, and none of them waits for another. Each has a
// timeout of 10 s.
func (s *service) load(ctx context.Context, b *seawall.Breaker, interval time.Duration, calls int) {
	for range calls {
		go func() {
			ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
			defer cancel()
			_ = b.Do(ctx, s.call)
		}()
		time.Sleep(interval)
	}
}

// B98: of a dependency that hangs, with 50 calls a second and a timeout of 10 s, a breaker with a threshold cuts its
// callers off within the threshold and a second. One without does when the first calls time out.
func TestHangIsCutOffInTime(t *testing.T) {
	const interval = 20 * time.Millisecond
	for _, threshold := range []time.Duration{100 * time.Millisecond, time.Second, 2 * time.Second, 5 * time.Second, 0} {
		name := "threshold " + threshold.String()
		var opts []seawall.BreakerOption
		if threshold > 0 {
			opts = append(opts, seawall.WithSlowCallThreshold(threshold))
		}
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBreaker(t, opts...)
				s := service{latency: func() time.Duration { return 50 * time.Millisecond }}
				s.load(t.Context(), b, interval, 500)
				wantState(t, b, seawall.Closed)

				s.hangs.Store(true)
				began, before := time.Now(), s.calls.Load()
				for b.State() == seawall.Closed {
					s.load(t.Context(), b, interval, 1)
				}
				opened := b.Snapshot().Since
				cutOff, hung := opened.Sub(began), s.calls.Load()-before
				t.Logf("threshold %v: cut off after %v, %d calls hung", threshold, cutOff, hung)
				if threshold > 0 {
					assert.LessOrEqual(t, cutOff, threshold+time.Second)
					assert.GreaterOrEqual(t, cutOff, threshold)
				} else {
					assert.GreaterOrEqual(t, cutOff, 10*time.Second, "without, for comparison")
				}
				assert.False(t, opened.Before(time.Unix(0, s.last.Load())), "a call after the cut")

				s.load(t.Context(), b, interval, 3000)
				assert.LessOrEqual(t, s.calls.Load()-before-hung, 60/5+int64(1), "probes in the minute after")
				s.hangs.Store(false)
				s.load(t.Context(), b, interval, 1000)
				wantState(t, b, seawall.Closed)
				assert.Zero(t, b.Snapshot().SlowCalls)
				time.Sleep(10 * time.Second)
			})
		})
	}
}

// A slow tail is no hang. A breaker whose dependency is slow in one call of six, by little or by much, does not open, at
// any rate of calls.
func TestSlowTailNeverTrips(t *testing.T) {
	for _, tt := range []struct{ threshold, tail, interval time.Duration }{
		{time.Second, 1001 * time.Millisecond, 20 * time.Millisecond},
		{time.Second, 1001 * time.Millisecond, 2 * time.Millisecond},
		{time.Second, 1200 * time.Millisecond, 20 * time.Millisecond},
		{time.Second, 1200 * time.Millisecond, 2 * time.Millisecond},
		{5 * time.Second, 9 * time.Second, 5 * time.Millisecond},
		{5 * time.Second, time.Hour, 5 * time.Millisecond},
	} {
		for name, slowOne := range map[string]func() func() bool{
			"every sixth": func() func() bool {
				n := 0
				return func() bool { n++; return n%6 == 0 }
			},
			"random": func() func() bool {
				random := rand.New(rand.NewPCG(1, 1))
				return func() bool { return random.IntN(6) == 0 }
			},
		} {
			synctest.Test(t, func(t *testing.T) {
				b := newBreaker(t, seawall.WithSlowCallThreshold(tt.threshold))
				var mu sync.Mutex
				next := slowOne()
				s := service{latency: func() time.Duration {
					mu.Lock()
					defer mu.Unlock()
					if next() {
						return tt.tail
					}
					return 50 * time.Millisecond
				}}
				s.load(t.Context(), b, tt.interval, 3000)
				assert.Empty(t, edgesOf(b), "%s, %+v", name, tt)
				assert.Greater(t, b.Snapshot().Totals.SlowCalls, uint64(250))
				time.Sleep(10 * time.Second)
			})
		}
	}
}

// I3: calls that begin, become slow, end and outlive edges on many goroutines, while the clock runs, each count once.
func TestStressSlowCalls(t *testing.T) {
	clk := newClock()
	b := newBreaker(t, slowCalls(), seawall.WithClock(clk), seawall.WithConsecutiveFailures(8), seawall.WithCooldown(time.Second),
		seawall.WithProbeTimeout(3*time.Second), seawall.WithProbes(3))
	var ran, rejected atomic.Uint64
	var all sync.WaitGroup
	for seed := range uint64(16) {
		all.Go(func() {
			random := rand.New(rand.NewPCG(seed, 2))
			var running []func(error)
			end := func(i int) {
				err := []error{nil, nil, errBoom, seawall.MarkIgnored(errBoom)}[random.IntN(4)]
				running[i](err)
				running[i](nil) // The second time does nothing.
				running = append(running[:i], running[i+1:]...)
			}
			for range 500 {
				switch k := random.IntN(20); {
				case k < 8:
					done, err := b.Allow(t.Context())
					if err != nil {
						rejected.Add(1)
						continue
					}
					ran.Add(1)
					running = append(running, done)
				case k < 16 && len(running) > 0:
					end(random.IntN(len(running)))
				case k == 16:
					clk.Advance(time.Second)
				case k == 17:
					clk.Advance(time.Duration(random.IntN(int(time.Second))))
				case k == 18 && random.IntN(10) == 0:
					b.Reset()
				default:
					s := b.Snapshot()
					wantSound(t, s, 3)
					assert.GreaterOrEqual(t, s.Totals.Failures, s.Totals.SlowCalls)
				}
			}
			for len(running) > 0 {
				end(0)
			}
		})
	}
	all.Wait()
	s := settled(b)
	assert.Equal(t, ran.Load(), s.successes+s.failures+s.ignored+s.late)
	assert.Equal(t, rejected.Load(), b.Snapshot().Totals.Rejected)
	assert.NotZero(t, s.slow)
	assert.NotZero(t, s.late)
	t.Logf("%d calls ran: %+v", ran.Load(), s)

	clk.Advance(time.Hour)
	if err := do(b, ok); err != nil { // A probe that was slow was found.
		require.ErrorIs(t, err, seawall.ErrOpen)
		clk.Advance(time.Second)
	}
	require.NoError(t, do(b, ok), "a place was lost")
}
