package proof_test

import (
	"context"
	"errors"
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

// waiter is a Wait on a goroutine of its own.
type waiter struct {
	cancel context.CancelCauseFunc
	back   chan struct{} // closed when Wait has returned and set the fields below
	done   func(error)
	err    error
	after  time.Duration // how long it took
}

func (w *waiter) passed() bool {
	select {
	case <-w.back:
		return true
	default:
		return false
	}
}

func startWait(ctx context.Context, b *seawall.Breaker) *waiter {
	ctx, cancel := context.WithCancelCause(ctx)
	w, begin := &waiter{cancel: cancel, back: make(chan struct{})}, time.Now()
	go func() {
		defer close(w.back)
		w.done, w.err = b.Wait(ctx)
		w.after = time.Since(begin)
	}()
	synctest.Wait()
	return w
}

func TestSyncWaitPassesAtOnceWhereACallWould(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker()
		w := startWait(t.Context(), b)
		require.True(t, w.passed())
		w.done(errBoom)
		w.done(errBoom)
		require.EqualValues(t, 1, b.Snapshot().Failures, "done works once")
		w.cancel(nil)

		b.ForceOpen()
		require.NoError(t, b.SetMode(seawall.Observe))
		w = startWait(t.Context(), b)
		require.True(t, w.passed())
		require.NoError(t, w.err)
		w.done(nil)
		require.EqualValues(t, 1, b.Snapshot().Totals.WouldReject)
		w.cancel(nil)

		require.NoError(t, b.SetMode(seawall.Off))
		w = startWait(t.Context(), b)
		require.True(t, w.passed())
		w.done(errBoom)
		require.Zero(t, b.Snapshot().Failures)
		w.cancel(nil)
	})
}

// While open all wait for the end of the cooldown, to the nanosecond; then as many pass as there are places.
func TestSyncWaitForTheCooldownAndForPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, set := newBreaker(), small()
		trip(t, b)
		var waiters []*waiter
		for range 5 {
			waiters = append(waiters, startWait(t.Context(), b))
		}
		passed := func() (n int) {
			synctest.Wait()
			for _, w := range waiters {
				n += one(w.passed())
			}
			return n
		}
		time.Sleep(set.Cooldown - 1)
		require.Zero(t, passed())
		time.Sleep(time.Nanosecond)
		require.Equal(t, set.Probes, passed())
		requireState(t, b, seawall.HalfOpen, set.Probes)
		require.Zero(t, b.Snapshot().Totals.Rejected, "who waits isn't rejected")

		end := func(err error) {
			for _, w := range waiters {
				if w.passed() && w.done != nil {
					done := w.done
					w.done = nil
					done(err)
					return
				}
			}
		}
		end(seawall.MarkIgnored(errBoom)) // A place is free, somebody passes at once.
		require.Equal(t, set.Probes+1, passed())
		time.Sleep(set.ProbeTimeout - 1) // The places lapse: the next two pass.
		require.Equal(t, set.Probes+1, passed())
		time.Sleep(time.Nanosecond)
		require.Equal(t, 5, passed())
		end(nil)
		end(nil)
		requireState(t, b, seawall.Closed, 0)
		require.True(t, startWait(t.Context(), b).passed())
	})
}

// An edge that lets calls in wakes all who wait at once, also from forced open, which has no end of its own.
func TestSyncWaitIsWokenByEdges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker()
		for _, wake := range []func(){
			b.Reset,
			func() {
				assert.NoError(t, b.SetMode(seawall.Observe))
				assert.NoError(t, b.SetMode(seawall.Enforce))
				b.Reset()
			},
			func() { assert.NoError(t, b.SetMode(seawall.Off)); assert.NoError(t, b.SetMode(seawall.Enforce)) },
		} {
			b.ForceOpen()
			var waiters []*waiter
			for range 10 {
				waiters = append(waiters, startWait(t.Context(), b))
			}
			time.Sleep(time.Hour)
			for _, w := range waiters {
				require.False(t, w.passed())
			}
			wake()
			synctest.Wait()
			for _, w := range waiters {
				require.True(t, w.passed())
				require.Equal(t, time.Hour, w.after)
				require.NoError(t, w.err)
				w.done(nil)
			}
		}
	})
}

// Who waits is told when the wait has become another one: none in Observe, or what the cooldown function decides.
func TestSyncWaitFollowsWhatChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker()
		b.ForceOpen()
		w := startWait(t.Context(), b)
		time.Sleep(time.Second)
		require.NoError(t, b.SetMode(seawall.Observe))
		synctest.Wait()
		require.True(t, w.passed())
		require.Equal(t, time.Second, w.after)

		for _, decided := range []time.Duration{2 * time.Second, 20 * time.Second} {
			answer := make(chan time.Duration)
			b = newBreaker(seawall.WithCooldownFunc(func(seawall.Trip) time.Duration { return <-answer }))
			go func() {
				for range small().ConsecutiveFailures {
					_ = b.Do(context.Background(), boom)
				}
			}()
			synctest.Wait()
			w = startWait(t.Context(), b)
			answer <- decided
			time.Sleep(decided - 1)
			synctest.Wait()
			require.False(t, w.passed(), "decided %v", decided)
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			require.True(t, w.passed(), "decided %v", decided)
		}
	})
}

func TestSyncWaitEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, errCause := newBreaker(), errors.New("shutting down")
		b.ForceOpen()
		w := startWait(t.Context(), b)
		time.Sleep(time.Second)
		w.cancel(errCause)
		synctest.Wait()
		require.True(t, w.passed())
		require.Equal(t, time.Second, w.after)
		require.Nil(t, w.done)
		for _, target := range []error{seawall.ErrRejected, context.Canceled, errCause} {
			require.ErrorIs(t, w.err, target)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		w = startWait(ctx, newBreaker())
		require.True(t, w.passed())
		require.ErrorIs(t, w.err, context.Canceled, "a context that is done wins over a closed breaker")
	})
}

// Mistakes of the caller's get a clear text, from every method.
func TestSyncBreakerPanicsOnMistakes(t *testing.T) {
	ctx := context.Background()
	for name, f := range map[string]func(*seawall.Breaker){
		"Wait":  func(b *seawall.Breaker) { _, _ = b.Wait(ctx) },
		"Allow": func(b *seawall.Breaker) { _, _ = b.Allow(ctx) },
		"Do":    func(b *seawall.Breaker) { _ = b.Do(ctx, nothing) },
		"Mode":  func(b *seawall.Breaker) { b.Mode() }, "SetMode": func(b *seawall.Breaker) { _ = b.SetMode(seawall.Observe) },
		"State": func(b *seawall.Breaker) { b.State() }, "Snapshot": func(b *seawall.Breaker) { b.Snapshot() },
		"History": func(b *seawall.Breaker) { b.History() }, "Settings": func(b *seawall.Breaker) { b.Settings() },
		"Name": func(b *seawall.Breaker) { _ = b.Name() }, "ForceOpen": func(b *seawall.Breaker) { b.ForceOpen() },
		"Reset": func(b *seawall.Breaker) { b.Reset() },
	} {
		for _, b := range []*seawall.Breaker{nil, {}} {
			require.PanicsWithValue(t, "seawall: use of a Breaker that was not made by NewBreaker", func() { f(b) }, name)
		}
	}
	require.PanicsWithValue(t, "seawall: nil Context", func() { _, _ = newBreaker().Wait(nil) }) //nolint:staticcheck // That is the mistake.
}

// deafClock counts who asks it for a timer, and never rings.
type deafClock struct {
	spyClock
	timers atomic.Int64
}

func (c *deafClock) After(time.Duration) <-chan time.Time {
	c.timers.Add(1)
	return nil
}

// Forced open has no end that a timer could tell, and a cooldown that ended while it was looked at needs none.
func TestSyncWaitAsksForNoTimerInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := &deafClock{}
		b := newBreaker(seawall.WithClock(clock))
		b.ForceOpen()
		w := startWait(t.Context(), b)
		b.Reset()
		synctest.Wait()
		require.True(t, w.passed())
		require.Zero(t, clock.timers.Load())

		trip(t, b)
		clock.spyOn, clock.spy = clock.looks.Load()+1, func() { clock.Advance(small().Cooldown) }
		w = startWait(t.Context(), b)
		require.True(t, w.passed(), "the cooldown ended between the refusal and the question how long to wait")
		require.Zero(t, clock.timers.Load())
	})
}

// Nobody is left behind: whatever happens, all who wait pass once the dependency is well.
func TestSyncWaitLeavesNobodyBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(3, 4))
		b := newBreaker(seawall.WithBackoff(time.Minute), seawall.WithJitter(0.3))
		var mu sync.Mutex
		well, passed, ended := false, 0, 0
		var wg sync.WaitGroup
		const workers = 200
		for range workers {
			work, patience := time.Duration(r.IntN(8000))*time.Millisecond, time.Duration(r.IntN(600))*time.Second
			res := results()[r.IntN(len(results()))]
			impatient := r.IntN(4) == 0
			wg.Go(func() {
				ctx := t.Context()
				if impatient {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, patience)
					defer cancel()
				}
				done, err := b.Wait(ctx)
				mu.Lock()
				good := well
				passed, ended = passed+one(err == nil), ended+one(err != nil)
				mu.Unlock()
				if err != nil {
					return
				}
				time.Sleep(work)
				if good {
					res.err = nil
				}
				done(res.err)
			})
			time.Sleep(time.Duration(r.IntN(3000)) * time.Millisecond)
		}
		mu.Lock()
		well = true
		mu.Unlock()
		wg.Wait()
		require.Equal(t, workers, passed+ended)
		require.Greater(t, b.Snapshot().Generation, uint64(3))
		require.Zero(t, b.Snapshot().Totals.Rejected)
		figures(t, "%d waiters passed, %d gave up, %d edges, nobody left behind", passed, ended, b.Snapshot().Generation)
	})
}
