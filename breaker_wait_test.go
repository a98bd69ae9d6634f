package seawall_test

import (
	"context"
	"errors"
	"math/rand/v2"
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

// Waiting for a place. Every test is played in a bubble, which ends only if no goroutine is left behind.

// inABubble runs a test in a bubble, once with each clock. The Mock of benbjohnson is not among them: it sends with its
// lock held, and hangs if a waiter arms a timer while Add runs another one.
func inABubble(t *testing.T, test func(t *testing.T, tl timeline)) {
	t.Helper()
	t.Run("fake", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			clk := newClock()
			test(t, timeline{Clock: clk, advance: clk.Advance})
		})
	})
	t.Run("default", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			test(t, timeline{Clock: bubbleClock{}, advance: time.Sleep, isDefault: true})
		})
	})
}

// waiter is somebody who waits for a call to be admitted.
type waiter struct {
	over chan struct{}
	done func(error)
	err  error
}

func wait(ctx context.Context, b *seawall.Breaker) *waiter {
	w := &waiter{over: make(chan struct{})}
	go func() {
		defer close(w.over)
		w.done, w.err = b.Wait(ctx)
	}()
	return w
}

func waiters(ctx context.Context, b *seawall.Breaker, n int) []*waiter {
	all := make([]*waiter, n)
	for i := range all {
		all[i] = wait(ctx, b)
	}
	synctest.Wait()
	return all
}

func (w *waiter) waits() bool {
	synctest.Wait()
	select {
	case <-w.over:
		return false
	default:
		return true
	}
}

// admitted returns the waiters that wait no longer and have been admitted.
func admitted(all []*waiter) (in []*waiter) {
	for _, w := range all {
		if !w.waits() && w.err == nil {
			in = append(in, w)
		}
	}
	return in
}

func (w *waiter) wantWaiting(t testing.TB) {
	t.Helper()
	if !w.waits() {
		require.FailNow(t, "it waits no longer", "%v", w.err)
	}
}

// wantIn returns the done of a waiter that must have been admitted.
func (w *waiter) wantIn(t testing.TB) func(error) {
	t.Helper()
	require.False(t, w.waits(), "it still waits")
	require.NoError(t, w.err)
	return w.done
}

// A closed breaker admits at once, and what done is told counts, once.
func TestWaitOnAClosedBreaker(t *testing.T) {
	inABubble(t, func(t *testing.T, tl timeline) {
		b := tl.br(t)
		for _, err := range []error{nil, errBoom, seawall.MarkIgnored(errBoom)} {
			done := wait(t.Context(), b).wantIn(t)
			onItsOwn(func() { done(err) })
			done(nil)
			done(errBoom)
		}
		assert.Equal(t, outcomes{successes: 1, failures: 1, ignored: 1}, settled(b))
	})
}

// While the breaker is open Wait waits, to the nanosecond, until the cooldown is over; then as many pass as there are
// places, and they hold them. Those who wait are not rejected.
func TestWaitOnAnOpenBreaker(t *testing.T) {
	for _, places := range []int{1, 3} {
		inABubble(t, func(t *testing.T, tl timeline) {
			b := tl.br(t, seawall.WithProbes(places), seawall.WithProbeSuccesses(1000), seawall.WithProbeTimeout(time.Hour))
			trip(t, b)
			all := waiters(t.Context(), b, 10)
			tl.Advance(cooldown - ns)
			assert.Empty(t, admitted(all))
			tl.Advance(ns)
			in := admitted(all)
			require.Len(t, in, places)
			assert.Equal(t, places, b.Snapshot().ProbesInFlight)
			wantRejected(t, b)
			assert.EqualValues(t, 1, b.Snapshot().Totals.Rejected)

			b.Reset()
			assert.Len(t, admitted(all), 10)
			assert.EqualValues(t, 1, b.Snapshot().Totals.Rejected)
			assert.Zero(t, b.Snapshot().Totals.WouldReject)
		})
	}
}

// G98: whatever frees a place, the next one gets it at once: a probe that succeeds or is ignored, and one that hangs.
func TestWaitForAPlace(t *testing.T) {
	for name, free := range map[string]func(tl timeline, done func(error)){
		"success": func(_ timeline, done func(error)) { done(nil) },
		"ignored": func(_ timeline, done func(error)) { done(seawall.MarkIgnored(errBoom)) },
		"timeout": func(tl timeline, _ func(error)) { tl.Advance(time.Minute) },
	} {
		t.Run(name, func(t *testing.T) {
			inABubble(t, func(t *testing.T, tl timeline) {
				b := tl.br(t, seawall.WithProbeTimeout(time.Minute), seawall.WithProbeSuccesses(1000))
				half(t, b, tl)
				done := allow(t, b)
				left := waiters(t.Context(), b, 5)
				for len(left) > 0 {
					assert.Empty(t, admitted(left))
					free(tl, done)
					in := admitted(left)
					require.Len(t, in, 1, "one place")
					done = in[0].done
					left = without(left, in[0])
				}
			})
		})
	}
}

func without(all []*waiter, w *waiter) (rest []*waiter) {
	for _, other := range all {
		if other != w {
			rest = append(rest, other)
		}
	}
	return rest
}

// A probe that fails keeps those who wait for another cooldown; the one that closes the breaker lets all of them in.
func TestWaitOverFailedProbes(t *testing.T) {
	inABubble(t, func(t *testing.T, tl timeline) {
		b := tl.br(t)
		trip(t, b)
		left := waiters(t.Context(), b, 5)
		for range 3 {
			tl.Advance(cooldown)
			in := admitted(left)
			require.Len(t, in, 1)
			in[0].done(errBoom)
			left = without(left, in[0])
			assert.Empty(t, admitted(left))
		}
		tl.Advance(cooldown)
		admitted(left)[0].done(nil)
		assert.Len(t, admitted(left), 2)
		wantState(t, b, seawall.Closed)
	})
}

// Whatever lets calls in lets in at once all those who wait.
func TestWhatWakesWaiters(t *testing.T) {
	for name, act := range map[string]func(b *seawall.Breaker){
		"Reset":   (*seawall.Breaker).Reset,
		"Observe": func(b *seawall.Breaker) { _ = b.SetMode(seawall.Observe) },
		"Off":     func(b *seawall.Breaker) { _ = b.SetMode(seawall.Off) },
	} {
		for state, bring := range map[string]func(t *testing.T, b *seawall.Breaker, tl timeline){
			"open":      func(t *testing.T, b *seawall.Breaker, _ timeline) { trip(t, b) },
			"forced":    func(_ *testing.T, b *seawall.Breaker, _ timeline) { b.ForceOpen() },
			"half-open": func(t *testing.T, b *seawall.Breaker, tl timeline) { half(t, b, tl); hang(t, b, 1) },
		} {
			t.Run(name+"/"+state, func(t *testing.T) {
				inABubble(t, func(t *testing.T, tl timeline) {
					b := tl.br(t, seawall.WithProbeTimeout(time.Hour))
					bring(t, b, tl)
					all := waiters(t.Context(), b, 5)
					assert.Empty(t, admitted(all))
					tl.Advance(time.Second)
					assert.Empty(t, admitted(all))
					act(b)
					assert.Len(t, admitted(all), 5)
					if name == "Observe" {
						assert.EqualValues(t, 5, b.Snapshot().Totals.WouldReject)
					}
				})
			})
		}
	}
}

// A forced breaker lets nobody in, however long it takes, until Reset.
func TestWaitOnAForcedBreaker(t *testing.T) {
	inABubble(t, func(t *testing.T, tl timeline) {
		b := tl.br(t)
		trip(t, b)
		w := wait(t.Context(), b)
		w.wantWaiting(t)
		b.ForceOpen()
		for range 20 {
			tl.Advance(cooldown)
			w.wantWaiting(t)
		}
		b.Reset()
		w.wantIn(t)
	})
}

// A context that is done, or ends while Wait waits, ends the wait with an error that tells why, and counts as cancelled.
// It wins over a place that comes at the same time.
func TestWaitEndsWithItsContext(t *testing.T) {
	cause := errors.New("shutting down")
	for name, tt := range map[string]struct {
		start func(ctx context.Context) (context.Context, func())
		is    []error
	}{
		"deadline": {func(ctx context.Context) (context.Context, func()) {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			return ctx, func() { <-ctx.Done(); cancel() }
		}, []error{context.DeadlineExceeded}},
		"cancelled": {func(ctx context.Context) (context.Context, func()) {
			return context.WithCancel(ctx)
		}, []error{context.Canceled}},
		"cancelled with a cause": {func(ctx context.Context) (context.Context, func()) {
			ctx, cancel := context.WithCancelCause(ctx)
			return ctx, func() { cancel(cause) }
		}, []error{context.Canceled, cause}},
	} {
		t.Run(name, func(t *testing.T) {
			inABubble(t, func(t *testing.T, tl timeline) {
				b := tl.br(t)
				trip(t, b)
				ctx, end := tt.start(t.Context())
				inTime := wait(ctx, b)
				inTime.wantWaiting(t)
				end()
				require.False(t, inTime.waits())
				b.Reset()
				tooLate := wait(ctx, b)
				require.False(t, tooLate.waits())
				for _, w := range []*waiter{inTime, tooLate} {
					assert.Nil(t, w.done)
					require.ErrorIs(t, w.err, seawall.ErrRejected)
					require.NotErrorIs(t, w.err, seawall.ErrOpen)
					for _, target := range tt.is {
						require.ErrorIs(t, w.err, target)
					}
				}
				totals := b.Snapshot().Totals
				assert.EqualValues(t, 2, totals.Cancelled)
				assert.Zero(t, totals.Rejected)
			})
		})
	}
}

// A context that has ended by the time a place comes wins, and the place stays free.
func TestWaitWhoseContextEndsAsThePlaceComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clk := newClock()
		b := br(t, clk)
		trip(t, b)
		ctx, cancel := context.WithCancel(t.Context())
		all := waiters(ctx, b, 20)
		cancel()
		clk.Advance(cooldown)
		assert.Empty(t, admitted(all))
		assert.EqualValues(t, 20, b.Snapshot().Totals.Cancelled)
		wantAdmitted(t, b)
	})
}

// An edge that comes while Wait looks at the breaker, after it has seen the old state, is not missed.
func TestWaitMissesNoEdge(t *testing.T) {
	for name, edge := range map[string]func(b *seawall.Breaker){
		"Reset":   (*seawall.Breaker).Reset,
		"Observe": func(b *seawall.Breaker) { _ = b.SetMode(seawall.Observe) },
	} {
		t.Run(name, func(t *testing.T) {
			inABubble(t, func(t *testing.T, tl timeline) {
				b := tl.br(t)
				trip(t, b)
				var once sync.Once
				ctx := switchingContext{t.Context(), func() { once.Do(func() { edge(b) }) }}
				wait(ctx, b).wantIn(t)
			})
		})
	}
}

// The cooldown may end between two looks at the clock.
func TestWaitWhileTheClockRuns(t *testing.T) {
	for rest := range 10 * time.Second / time.Second {
		synctest.Test(t, func(t *testing.T) {
			clk := &runningClock{fakeClock: newClock()}
			b := br(t, clk)
			trip(t, b)
			clk.running.Store(true)
			clk.Advance(cooldown - rest*time.Second)
			w := wait(t.Context(), b)
			if w.waits() {
				clk.Advance(cooldown)
			}
			w.wantIn(t)
		})
	}
}

// runningClock moves on by a second with each reading.
type runningClock struct {
	*fakeClock
	running atomic.Bool
}

func (c *runningClock) Now() time.Time {
	if c.running.Load() {
		c.Advance(time.Second)
	}
	return c.fakeClock.Now()
}

// A cooldown function that answers while somebody waits by the plain cooldown is heeded, be it shorter or longer.
func TestWaitHeedsTheCooldownFunction(t *testing.T) {
	for name, decided := range map[string]time.Duration{"shorter": time.Second, "longer": time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				answer := make(chan struct{})
				b := newBreaker(t, seawall.WithConsecutiveFailures(1), seawall.WithCooldown(time.Minute),
					seawall.WithCooldownFunc(func(seawall.Trip) time.Duration { <-answer; return decided }))
				go func() { _ = do(b, bad) }()
				synctest.Wait()
				w := wait(t.Context(), b)
				w.wantWaiting(t)
				close(answer)
				time.Sleep(decided - ns)
				w.wantWaiting(t)
				time.Sleep(ns)
				w.wantIn(t)(nil)
				wantState(t, b, seawall.Closed)
			})
		})
	}
}

// I1: a hook that panics or exits while Wait lets a probe in frees the place, and the next one gets it.
func TestWaitAndAHookThatPanics(t *testing.T) {
	for name, act := range map[string]func(){"panic": func() { panic(errBoom) }, "Goexit": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			inABubble(t, func(t *testing.T, tl timeline) {
				first := true
				b := tl.br(t, seawall.WithOnStateChange(func(c seawall.StateChange) {
					if c.To == seawall.HalfOpen && first {
						first = false
						act()
					}
				}))
				trip(t, b)
				var recovered any
				var done func(error)
				var err error
				gone := make(chan struct{})
				go func() {
					defer close(gone)
					defer func() { recovered = recover() }()
					done, err = b.Wait(t.Context())
				}()
				synctest.Wait()
				tl.Advance(cooldown)
				<-gone
				if name == "panic" {
					assert.Equal(t, errBoom, recovered)
				}
				require.NoError(t, err)
				assert.Nil(t, done)
				assert.Zero(t, b.Snapshot().ProbesInFlight)
				assert.EqualValues(t, 1, b.Snapshot().Totals.Ignored)
				wait(t.Context(), b).wantIn(t)(nil)
				wantState(t, b, seawall.Closed)
			})
		})
	}
}

// A call that Wait let in is a call like any other: it can be slow, and a probe can lose its place.
func TestCallThatWaited(t *testing.T) {
	inABubble(t, func(t *testing.T, tl timeline) {
		b := tl.br(t, slowCalls())
		trip(t, b)
		w := wait(t.Context(), b)
		w.wantWaiting(t)
		tl.Advance(cooldown)
		done := w.wantIn(t)
		tl.Advance(slow)
		wantRejected(t, b)
		done(nil)
		assert.Equal(t, []string{edgeTripped, edgeCooled, edgeReopened}, edgesOf(b))
		assert.Equal(t, outcomes{failures: 4, slow: 1}, settled(b))
	})
}

// alarmClock counts what is asked of it, and can ring too early.
type alarmClock struct {
	*fakeClock
	readings, alarms atomic.Int64
	early            time.Duration
}

func (c *alarmClock) Now() time.Time {
	c.readings.Add(1)
	return c.fakeClock.Now()
}

func (c *alarmClock) After(d time.Duration) <-chan time.Time {
	c.alarms.Add(1)
	return c.fakeClock.After(max(1, d-c.early))
}

// Wait never spins: it looks at the breaker once before it waits and once when something has changed, however long that
// takes. On a forced breaker, which no time will close, it sets no alarm.
func TestWaitDoesNotSpin(t *testing.T) {
	const waiting = 50
	synctest.Test(t, func(t *testing.T) {
		clk := &alarmClock{fakeClock: newClock()}
		b := br(t, clk, seawall.WithCooldown(time.Hour), seawall.WithProbeTimeout(time.Hour))
		trip(t, b)
		asked := func(what string, readings, alarms int64, f func()) {
			t.Helper()
			clk.readings.Store(0)
			clk.alarms.Store(0)
			f()
			synctest.Wait()
			assert.LessOrEqual(t, clk.readings.Load(), readings, "readings: %s", what)
			assert.LessOrEqual(t, clk.alarms.Load(), alarms, "alarms: %s", what)
		}
		asked("begin to wait", 2*waiting, waiting, func() { waiters(t.Context(), b, waiting) })
		asked("time passes", 0, 0, func() {
			for range 59 {
				clk.Advance(time.Minute)
				synctest.Wait()
			}
		})
		asked("the cooldown is over", 5*waiting, 2*waiting, func() { clk.Advance(time.Minute) })
		asked("time passes, half-open", 0, 0, func() { clk.Advance(time.Minute) })
		asked("forced open", 5*waiting, 0, b.ForceOpen)
		asked("time passes, forced", 0, 0, func() {
			for range 10 {
				clk.Advance(time.Hour)
				synctest.Wait()
			}
		})
		asked("Reset", waiting+2, 0, b.Reset)
	})
}

// An alarm that rings too early is no reason to let somebody in, only to wait for the rest.
func TestWaitWithAnAlarmThatRingsEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clk := &alarmClock{fakeClock: newClock(), early: cooldown / 2}
		b := br(t, clk)
		trip(t, b)
		w := wait(t.Context(), b)
		for range 10 {
			w.wantWaiting(t)
			clk.Advance(cooldown / 10)
		}
		w.wantIn(t)
	})
}

// I2, I3, I9: workers pull a queue empty by way of Wait, while calls fail, hang and are ignored and somebody opens and
// closes the breaker. Nobody is left waiting, no more probes run than there are places, and all calls count once.
func TestStressWait(t *testing.T) {
	for seed := range uint64(10) {
		synctest.Test(t, func(t *testing.T) {
			b := newBreaker(t, seawall.WithConsecutiveFailures(2), seawall.WithCooldown(time.Second), seawall.WithProbes(2),
				seawall.WithProbeSuccesses(3), seawall.WithProbeTimeout(5*time.Second), slowCalls())
			queue := make(chan int, 500)
			for i := range cap(queue) {
				queue <- i
			}
			close(queue)
			var ran, gaveUp atomic.Uint64
			var all sync.WaitGroup
			for worker := range uint64(32) {
				all.Go(func() {
					random := rand.New(rand.NewPCG(seed, worker))
					for range queue {
						if !pull(t, b, random, &ran) {
							gaveUp.Add(1)
						}
					}
				})
			}
			stop := make(chan struct{})
			go func() {
				for {
					select {
					case <-stop:
						return
					case <-time.After(20 * time.Second):
						b.ForceOpen()
						time.Sleep(3 * time.Second)
						b.Reset()
					}
				}
			}()
			all.Wait()
			close(stop)
			time.Sleep(time.Minute)

			s, totals := settled(b), b.Snapshot().Totals
			assert.Equal(t, ran.Load(), s.successes+s.failures+s.ignored+s.late)
			assert.Equal(t, gaveUp.Load(), totals.Cancelled)
			assert.EqualValues(t, 500, ran.Load()+gaveUp.Load())
			assert.Zero(t, totals.Rejected)
			assert.NotZero(t, totals.ByReason[seawall.ReasonCooldownOver])
			b.Reset()
			wantAdmitted(t, b)
		})
	}
}

// pull waits with some patience, makes a call, and reports whether it did.
func pull(t *testing.T, b *seawall.Breaker, random *rand.Rand, ran *atomic.Uint64) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+random.IntN(120))*time.Second)
	defer cancel()
	done, err := b.Wait(ctx)
	if err != nil {
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		return false
	}
	ran.Add(1)
	assert.LessOrEqual(t, b.Snapshot().ProbesInFlight, 2)
	took := time.Duration(random.IntN(1000)) * time.Millisecond
	if random.IntN(20) == 0 {
		took = 10 * time.Second
	}
	time.Sleep(took)
	done([]error{nil, nil, nil, errBoom, seawall.MarkIgnored(errBoom)}[random.IntN(5)])
	return true
}

// Wait panics where Allow does.
func TestWaitPanicsOnANilContext(t *testing.T) {
	b := br(t, newClock())
	var none context.Context
	assert.PanicsWithValue(t, "seawall: nil Context", func() { _, _ = b.Wait(none) })
}
