package proof_test

import (
	"bytes"
	"context"
	"errors"
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

// newBreaker makes a breaker with the settings of small on real time, which in a bubble is the bubble's.
func newBreaker(opts ...seawall.BreakerOption) *seawall.Breaker {
	return seawall.Must(seawall.NewBreaker("", append(options(small()), opts...)...))
}

func trip(t *testing.T, b *seawall.Breaker) {
	t.Helper()
	for range small().ConsecutiveFailures {
		require.ErrorIs(t, b.Do(context.Background(), boom), errBoom)
	}
	require.Equal(t, seawall.Open, b.State())
}

func requireState(t *testing.T, b *seawall.Breaker, state seawall.State, probes int) {
	t.Helper()
	s := b.Snapshot()
	require.Equal(t, state, s.State)
	require.Equal(t, probes, s.ProbesInFlight, "probes in flight")
}

// The whole circle on real time, with both probes hanging and waking up late. Design §3.3, I4, I6.
func TestSyncBreakerOutlivesHungProbes(t *testing.T) {
	for _, last := range []error{nil, errBoom, seawall.MarkIgnored(errBoom)} {
		synctest.Test(t, func(t *testing.T) {
			b, set := newBreaker(), small()
			trip(t, b)
			time.Sleep(set.Cooldown - 1)
			require.ErrorIs(t, b.Do(t.Context(), nothing), seawall.ErrOpen)
			time.Sleep(time.Nanosecond)
			for range set.Probes {
				go func() { _ = b.Do(t.Context(), func(context.Context) error { time.Sleep(time.Minute); return last }) }()
			}
			synctest.Wait()
			requireState(t, b, seawall.HalfOpen, set.Probes)
			err := b.Do(t.Context(), nothing)
			var open *seawall.OpenError
			require.ErrorAs(t, err, &open)
			require.Equal(t, set.ProbeTimeout, open.RetryAfter(), "until the oldest place lapses")
			time.Sleep(open.RetryAfter())
			requireState(t, b, seawall.HalfOpen, 0)
			require.NoError(t, b.Do(t.Context(), nothing), "a new probe")
			requireState(t, b, seawall.HalfOpen, 0)
			time.Sleep(time.Minute) // The hung ones come back.
			synctest.Wait()
			if last == nil {
				requireState(t, b, seawall.Closed, 0)
				require.EqualValues(t, 1, b.Snapshot().Totals.Late, "one closed it, the other came after")
				return
			}
			requireState(t, b, seawall.HalfOpen, 0)
			require.EqualValues(t, 2, b.Snapshot().Totals.Late)
			require.NoError(t, b.Do(t.Context(), nothing))
			requireState(t, b, seawall.Closed, 0)
		})
	}
}

// Every way in which a probe can end gives its place back, at most once, and the next caller is served. B03, I1.
func TestSyncBreakerProbeEndings(t *testing.T) {
	type ending struct {
		fn    func(context.Context, context.CancelFunc) error
		state seawall.State
	}
	for name, e := range map[string]ending{
		"success": {func(context.Context, context.CancelFunc) error { return nil }, seawall.HalfOpen},
		"failure": {func(context.Context, context.CancelFunc) error { return errBoom }, seawall.Open},
		"ignored": {func(context.Context, context.CancelFunc) error { return seawall.MarkIgnored(errBoom) }, seawall.HalfOpen},
		"cancelled": {func(_ context.Context, cancel context.CancelFunc) error {
			cancel()
			return errors.New("something else than the context's error")
		}, seawall.HalfOpen},
		"refused further in": {func(context.Context, context.CancelFunc) error { return seawall.ErrBulkheadFull }, seawall.HalfOpen},
		"deadline": {func(ctx context.Context, _ context.CancelFunc) error {
			ctx, cancel := context.WithTimeout(ctx, time.Millisecond)
			defer cancel()
			<-ctx.Done()
			return ctx.Err()
		}, seawall.Open},
		"panic":  {func(context.Context, context.CancelFunc) error { die("panic"); return nil }, seawall.Open},
		"goexit": {func(context.Context, context.CancelFunc) error { die("goexit"); return nil }, seawall.Open},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, set := newBreaker(), small()
				trip(t, b)
				time.Sleep(set.Cooldown)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				apart(func() { _ = b.Do(ctx, func(ctx context.Context) error { return e.fn(ctx, cancel) }) })
				requireState(t, b, e.state, 0)
				time.Sleep(b.Snapshot().RetryAfter)
				for range set.ProbeSuccesses - b.Snapshot().ProbeSuccesses {
					require.NoError(t, b.Do(t.Context(), nothing))
				}
				requireState(t, b, seawall.Closed, 0)
			})
		})
	}
}

// I2, G13: of many callers at once exactly as many run as there are places.
func TestSyncBreakerAdmitsNoMoreThanProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, set := newBreaker(), small()
		trip(t, b)
		time.Sleep(set.Cooldown)
		var ran, rejected atomic.Int64
		for range 50 {
			go func() {
				if err := b.Do(t.Context(), func(context.Context) error { ran.Add(1); time.Sleep(time.Second); return nil }); err != nil {
					rejected.Add(1)
				}
			}()
		}
		synctest.Wait()
		require.EqualValues(t, set.Probes, ran.Load())
		require.EqualValues(t, 50-set.Probes, rejected.Load())
		time.Sleep(time.Second)
		synctest.Wait()
		requireState(t, b, seawall.Closed, 0)
	})
}

// A loop that waits RetryAfter after each rejection doesn't spin and gets in at the first try after it. Design §5.
func TestSyncBreakerRetryAfterLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, set := newBreaker(seawall.WithJitter(1)), small()
		trip(t, b)
		loop := func() (tries int) {
			for {
				tries++
				err := b.Do(t.Context(), nothing)
				var open *seawall.OpenError
				if !errors.As(err, &open) {
					require.NoError(t, err)
					return tries
				}
				require.Positive(t, open.RetryAfter())
				require.LessOrEqual(t, open.RetryAfter(), 2*set.Cooldown)
				time.Sleep(open.RetryAfter())
			}
		}
		require.Equal(t, 2, loop())
		for range set.Probes { // While half-open with hung probes as well.
			go func() { _ = b.Do(t.Context(), sleeping(time.Hour)) }()
		}
		synctest.Wait()
		require.Equal(t, 2, loop())
		b.ForceOpen() // And forced open it waits a cooldown each time.
		begin := time.Now()
		time.AfterFunc(10*set.Cooldown, b.Reset)
		require.LessOrEqual(t, loop(), 12)
		require.GreaterOrEqual(t, time.Since(begin), 10*set.Cooldown)
		time.Sleep(time.Hour)
	})
}

// Each opening draws its jitter once, within bounds, and different ones draw differently.
func TestSyncBreakerJitter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, set := newBreaker(seawall.WithJitter(0.5)), small()
		seen := map[time.Duration]bool{}
		for range 200 {
			trip(t, b)
			wait := b.Snapshot().RetryAfter
			require.Equal(t, wait, b.Snapshot().RetryAfter)
			require.GreaterOrEqual(t, wait, set.Cooldown)
			require.Less(t, wait, set.Cooldown*3/2)
			seen[wait] = true
			time.Sleep(wait - 1)
			require.ErrorIs(t, b.Do(t.Context(), nothing), seawall.ErrOpen)
			time.Sleep(time.Nanosecond)
			for range set.ProbeSuccesses {
				require.NoError(t, b.Do(t.Context(), nothing))
			}
		}
		require.Greater(t, len(seen), 190)
	})
}

// I8, I10, I11 of the design in one: what fn returns comes back as the very same value through any chain.
func TestSyncBreakerReturnsTheVeryError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker()
		p := seawall.Chain(b, newBulkhead(1), seawall.Must(seawall.NewTimeout(time.Second)))
		for _, r := range results() {
			err := p.Do(t.Context(), func(context.Context) error { return r.err })
			require.True(t, err == r.err, "%v came back as %v", r.err, err) //nolint:errorlint // The very value.
			b.Reset()
		}
	})
}

// spyClock calls a function inside of one of its next looks, after it has looked.
type spyClock struct {
	fakeClock
	looks atomic.Int64
	spyOn int64 // the look
	spy   func()
}

func (c *spyClock) Now() time.Time {
	t := c.fakeClock.Now()
	if c.looks.Add(1) == c.spyOn {
		c.spy()
	}
	return t
}

// I17: what a Snapshot has shown stays true. Whenever a decision looks at the clock, a second passes and somebody else
// asks for a Snapshot. Either he has to wait, since the look was made under the lock, or the decision must not rest on
// it: else it would be dated before what the Snapshot showed, and totals would fall.
func TestSyncDecisionsRestOnLooksUnderTheLock(t *testing.T) {
	ctx := context.Background()
	type decision struct {
		prepare func(*testing.T, *seawall.Breaker, *spyClock)
		decide  func(b *seawall.Breaker, done func(error))
	}
	nothing := func(*testing.T, *seawall.Breaker, *spyClock) {}
	failed := func(t *testing.T, b *seawall.Breaker, _ *spyClock) {
		t.Helper()
		require.ErrorIs(t, b.Do(ctx, boom), errBoom)
	}
	cool := func(t *testing.T, b *seawall.Breaker, clock *spyClock) {
		t.Helper()
		trip(t, b)
		clock.Advance(small().Cooldown)
	}
	halfOpen := func(t *testing.T, b *seawall.Breaker, clock *spyClock) {
		t.Helper()
		cool(t, b, clock)
		_, err := b.Allow(ctx)
		require.NoError(t, err)
	}
	for name, d := range map[string]decision{
		"a success":        {nothing, func(_ *seawall.Breaker, done func(error)) { done(nil) }},
		"a failure":        {failed, func(_ *seawall.Breaker, done func(error)) { done(errBoom) }},
		"force open":       {nothing, func(b *seawall.Breaker, _ func(error)) { b.ForceOpen() }},
		"reset":            {failed, func(b *seawall.Breaker, _ func(error)) { b.Reset() }},
		"the first probe":  {cool, func(b *seawall.Breaker, _ func(error)) { _, _ = b.Allow(ctx) }},
		"the second probe": {halfOpen, func(b *seawall.Breaker, _ func(error)) { _, _ = b.Allow(ctx) }},
		"a failed probe": {halfOpen, func(b *seawall.Breaker, _ func(error)) {
			if done, err := b.Allow(ctx); err == nil {
				done(errBoom)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			shown := 0
			for look := int64(1); ; look++ {
				clock := &spyClock{}
				clock.Advance(time.Hour)
				b := newBreaker(seawall.WithClock(clock))
				done, err := b.Allow(ctx)
				require.NoError(t, err)
				d.prepare(t, b, clock)

				var s seawall.Snapshot
				asked, waited := make(chan struct{}), true
				clock.spyOn = clock.looks.Load() + look
				clock.spy = func() {
					clock.Advance(time.Second)
					id := make(chan string, 1)
					go func() {
						defer close(asked)
						id <- goroutine()
						s = b.Snapshot()
					}()
					waited = blocked(<-id, asked)
				}
				d.decide(b, done)
				if clock.looks.Load() < clock.spyOn {
					break
				}
				<-asked
				if waited {
					continue
				}
				shown++
				now := b.Snapshot()
				require.GreaterOrEqual(t, now.Totals.TimeClosed, s.Totals.TimeClosed)
				require.GreaterOrEqual(t, now.Totals.TimeOpen, s.Totals.TimeOpen)
				require.GreaterOrEqual(t, now.Totals.TimeHalfOpen, s.Totals.TimeHalfOpen)
			}
			t.Logf("a Snapshot got in between at %d looks", shown)
		})
	}
}

// goroutine returns the number of the running goroutine, as stack traces show it.
func goroutine() string {
	buf := make([]byte, 64)
	return string(bytes.Fields(buf[:runtime.Stack(buf, false)])[1])
}

// blocked waits until the goroutine waits for a mutex, and reports false if it is done before.
func blocked(id string, done <-chan struct{}) bool {
	buf := make([]byte, 1<<20)
	waiting := []byte("goroutine " + id + " [sync.Mutex.Lock")
	for {
		select {
		case <-done:
			return false
		default:
			runtime.Gosched()
		}
		if bytes.Contains(buf[:runtime.Stack(buf, true)], waiting) {
			return true
		}
	}
}

// I3, G38: whatever runs at once, each call is counted exactly once.
func TestSyncBreakerCountsEveryCallOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(seawall.WithProbes(3))
		const callers, each = 50, 100
		var ran, rejected, cancelled atomic.Uint64
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		var wg sync.WaitGroup
		for c := range callers {
			wg.Go(func() {
				for i := range each {
					ctx := t.Context()
					if i%17 == 0 {
						ctx = gone
						cancelled.Add(1)
					}
					var err error
					apart(func() {
						err = b.Do(ctx, func(context.Context) error {
							ran.Add(1)
							time.Sleep(time.Duration(1+(c*i)%1500) * time.Millisecond)
							if i%29 == 0 {
								die([]string{"panic", "goexit"}[i%2])
							}
							return results()[(c+i)%len(results())].err
						})
					})
					if errors.Is(err, seawall.ErrOpen) {
						rejected.Add(1)
						time.Sleep(time.Duration(1+c) * 100 * time.Millisecond)
					}
				}
			})
		}
		wg.Wait()
		s := b.Snapshot().Totals
		assert.Equal(t, ran.Load(), s.Successes+s.Failures+s.Ignored+s.Late)
		assert.Equal(t, rejected.Load(), s.Rejected)
		assert.Equal(t, cancelled.Load(), s.Cancelled)
		var edges uint64
		for _, n := range s.ByReason {
			edges += n
		}
		assert.Equal(t, b.Snapshot().Generation, edges)
		figures(t, "%d ran, %d rejected, %d late, %d edges, each counted once", ran.Load(), rejected.Load(), s.Late, edges)
	})
}
