package proof_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seawall-go/seawall"
)

// requireOrdered holds events to I5: one for each edge, each from where the one before led to.
func requireOrdered(t *testing.T, events []seawall.StateChange) {
	t.Helper()
	state := seawall.Closed
	for i, e := range events {
		require.EqualValues(t, i+1, e.Generation, "event %d", i)
		require.Equal(t, state, e.From, "event %d", i)
		state = e.To
	}
}

// I5, I16, G28: slow hooks and many callers; every event comes once, in order, and never two at a time.
func TestSyncHooksAreCalledInOrderOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var inside atomic.Int64
		var events, second []seawall.StateChange
		b := newBreaker(
			seawall.WithOnStateChange(func(c seawall.StateChange) {
				assert.EqualValues(t, 1, inside.Add(1), "hooks at once")
				time.Sleep(time.Duration(c.Generation%5) * 500 * time.Millisecond)
				events = append(events, c)
				inside.Add(-1)
			}),
			seawall.WithOnStateChange(func(c seawall.StateChange) {
				assert.EqualValues(t, 1, inside.Add(1), "hooks at once")
				second = append(second, c)
				inside.Add(-1)
			}))
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				for k := range 200 {
					_ = b.Do(t.Context(), func(context.Context) error { return results()[(i+k)%3].err })
					time.Sleep(time.Duration(100+i*37) * time.Millisecond)
					if k%61 == 0 {
						b.Reset()
					}
				}
			})
		}
		wg.Wait()
		require.EqualValues(t, b.Snapshot().Generation, len(events))
		requireOrdered(t, events)
		require.Equal(t, events, second)
		require.Greater(t, len(events), 50)
	})
}

// I8: a hook may call anything, also what changes the state again; what it causes is told after it has returned.
func TestSyncHooksMayCallBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b *seawall.Breaker
		var told []seawall.StateChange
		depth := 0
		b = newBreaker(seawall.WithOnStateChange(func(c seawall.StateChange) {
			depth++
			assert.Equal(t, 1, depth, "hooks don't nest")
			defer func() { depth-- }()
			told = append(told, c)
			b.Snapshot()
			b.History()
			b.State()
			b.Settings()
			switch len(told) {
			case 1: // It has tripped.
				assert.ErrorIs(t, b.Do(t.Context(), nothing), seawall.ErrOpen)
				time.Sleep(small().Cooldown)
				for range small().ProbeSuccesses {
					assert.NoError(t, b.Do(t.Context(), nothing))
				}
				assert.Equal(t, seawall.Closed, b.State())
			case 3:
				b.ForceOpen()
				b.Reset()
			}
		}))
		trip2 := func() {
			for range small().ConsecutiveFailures {
				_ = b.Do(t.Context(), boom)
			}
		}
		trip2()
		requireOrdered(t, told)
		require.Len(t, told, 5)
		require.Equal(t, seawall.Closed, b.State())
	})
}

// G26: a hook that hangs holds up nobody but the call that delivers.
func TestSyncHooksThatHangHoldUpNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		var told []seawall.StateChange
		b := newBreaker(seawall.WithOnStateChange(func(c seawall.StateChange) { <-gate; told = append(told, c) }))
		stuck := make(chan struct{})
		go func() {
			defer close(stuck)
			for range small().ConsecutiveFailures {
				_ = b.Do(context.Background(), boom)
			}
		}()
		synctest.Wait()
		require.Equal(t, seawall.Open, b.State())
		require.ErrorIs(t, b.Do(t.Context(), nothing), seawall.ErrOpen)
		time.Sleep(small().Cooldown)
		for range small().ProbeSuccesses {
			require.NoError(t, b.Do(t.Context(), nothing))
		}
		require.Equal(t, seawall.Closed, b.Snapshot().State)
		require.Len(t, b.History(), 3)
		require.Empty(t, told)
		close(gate)
		<-stuck
		require.Len(t, told, 3)
		requireOrdered(t, told)
	})
}

// A hook that dies takes no place and no later event with it. Design §3.2.
func TestSyncHooksThatDie(t *testing.T) {
	for _, how := range []string{"panic", "goexit"} {
		synctest.Test(t, func(t *testing.T) {
			var told []seawall.StateChange
			var second int
			b := newBreaker(
				seawall.WithOnStateChange(func(c seawall.StateChange) { told = append(told, c); die(how) }),
				seawall.WithOnStateChange(func(seawall.StateChange) { second++ }))
			for range small().ConsecutiveFailures {
				apart(func() { _ = b.Do(t.Context(), boom) })
			}
			requireState(t, b, seawall.Open, 0)
			require.Len(t, told, 1)
			require.Equal(t, 1, second, "the other hook is told all the same")

			time.Sleep(small().Cooldown)
			before := b.Snapshot().Totals
			got := apart(func() {
				_ = b.Do(t.Context(), func(context.Context) error { t.Error("fn ran though the hook died before it"); return nil })
			})
			if how == "panic" {
				require.Equal(t, any(how), got)
			}
			requireState(t, b, seawall.HalfOpen, 0)
			require.Equal(t, before.Ignored+1, b.Snapshot().Totals.Ignored)
			require.Len(t, told, 2)

			for range small().ProbeSuccesses {
				apart(func() { _ = b.Do(t.Context(), nothing) })
			}
			requireState(t, b, seawall.Closed, 0)
			require.Len(t, told, 3)
			require.Equal(t, 3, second)
			requireOrdered(t, told)
		})
	}
}

// B75: an event doesn't depend on the context of the call that caused it.
func TestSyncHooksOutliveTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []seawall.StateChange
		b := newBreaker(seawall.WithOnStateChange(func(c seawall.StateChange) { told = append(told, c) }))
		trip(t, b)
		time.Sleep(small().Cooldown)
		for range small().ProbeSuccesses {
			ctx, cancel := context.WithCancel(t.Context())
			require.NoError(t, b.Do(ctx, func(context.Context) error { cancel(); return nil }))
		}
		require.Len(t, told, 3)
		requireOrdered(t, told)
	})
}

// The cooldown function runs under no lock. Until it has answered the plain cooldown is in force and nothing is told.
func TestSyncCooldownFuncDecidesLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []seawall.StateChange
		var trips []seawall.Trip
		var b *seawall.Breaker
		answer := make(chan time.Duration)
		b = newBreaker(
			seawall.WithOnStateChange(func(c seawall.StateChange) { told = append(told, c) }),
			seawall.WithCooldownFunc(func(trip seawall.Trip) time.Duration {
				b.Snapshot()
				trips = append(trips, trip)
				return <-answer
			}))
		done := make(chan struct{})
		fail := func() {
			defer func() { done <- struct{}{} }()
			for range small().ConsecutiveFailures {
				_ = b.Do(context.Background(), boom)
			}
		}
		go fail()
		synctest.Wait()
		require.Equal(t, small().Cooldown, b.Snapshot().RetryAfter, "the plain one, meanwhile")
		require.Empty(t, told)
		answer <- time.Minute
		<-done
		require.Equal(t, time.Minute, b.Snapshot().RetryAfter)
		require.Len(t, told, 1)
		require.Equal(t, seawall.Trip{
			Opens: 1, Reason: seawall.ReasonConsecutiveFailures, Err: errBoom, Cooldown: small().Cooldown,
		}, trips[0])

		b.Reset()
		go fail()
		synctest.Wait()
		b.Reset() // Its generation is over before the answer comes.
		require.Len(t, told, 2, "nothing overtakes the event that waits")
		answer <- time.Hour
		<-done
		require.Equal(t, seawall.Closed, b.State())
		require.Len(t, told, 4)
		requireOrdered(t, told)

		for _, nonsense := range []time.Duration{0, -1} {
			go fail()
			synctest.Wait()
			answer <- nonsense
			<-done
			require.Equal(t, small().Cooldown, b.Snapshot().RetryAfter)
			b.Reset()
		}
	})
}

func TestSyncCooldownFuncThatDies(t *testing.T) {
	for _, how := range []string{"panic", "goexit"} {
		synctest.Test(t, func(t *testing.T) {
			var told []seawall.StateChange
			b := newBreaker(
				seawall.WithOnStateChange(func(c seawall.StateChange) { told = append(told, c) }),
				seawall.WithCooldownFunc(func(seawall.Trip) time.Duration { die(how); return time.Hour }))
			for range small().ConsecutiveFailures {
				apart(func() { _ = b.Do(t.Context(), boom) })
			}
			requireState(t, b, seawall.Open, 0)
			require.Equal(t, small().Cooldown, b.Snapshot().RetryAfter)
			require.Len(t, told, 1)
			time.Sleep(small().Cooldown)
			for range small().ProbeSuccesses {
				require.NoError(t, b.Do(t.Context(), nothing))
			}
			requireState(t, b, seawall.Closed, 0)
		})
	}
}

// A classifier that dies counts its call as a failure, whatever it would have said, and frees the probe's place.
func TestSyncClassifierThatDies(t *testing.T) {
	for _, how := range []string{"panic", "goexit"} {
		synctest.Test(t, func(t *testing.T) {
			b := newBreaker(seawall.WithClassifier(func(context.Context, error) seawall.Outcome { die(how); return seawall.Ignored }))
			for range small().ConsecutiveFailures {
				apart(func() { _ = b.Do(t.Context(), boom) })
			}
			requireState(t, b, seawall.Open, 0)
			time.Sleep(small().Cooldown)
			got := apart(func() { _ = b.Do(t.Context(), boom) })
			requireState(t, b, seawall.Open, 0)
			if how == "panic" {
				require.Equal(t, any(how), got)
			}
			require.EqualValues(t, small().ConsecutiveFailures+1, b.Snapshot().Totals.Failures)
		})
	}
}

// nosyError has methods that call the breaker and may die: they are code of the user's too.
type nosyError struct {
	b   *seawall.Breaker
	how string
}

func (e *nosyError) meddle() {
	e.b.Snapshot()
	_ = e.b.Do(context.Background(), nothing)
	if e.how != "" {
		die(e.how)
	}
}

func (e *nosyError) Error() string             { e.meddle(); return "nosy" }
func (e *nosyError) Is(error) bool             { e.meddle(); return false }
func (e *nosyError) As(any) bool               { e.meddle(); return false }
func (e *nosyError) Unwrap() error             { e.meddle(); return nil }
func (e *nosyError) RetryAfter() time.Duration { e.meddle(); return time.Minute }

func TestSyncErrorsThatCallBackOrDie(t *testing.T) {
	for _, how := range []string{"", "panic", "goexit"} {
		synctest.Test(t, func(t *testing.T) {
			b := seawall.Must(seawall.NewBreaker("", seawall.WithConsecutiveFailures(1), seawall.WithCooldown(time.Second)))
			apart(func() {
				_ = b.Do(t.Context(), func(context.Context) error { return &nosyError{b, how} })
			})
			requireState(t, b, seawall.Open, 0)
			time.Sleep(time.Minute)
			require.NoError(t, b.Do(t.Context(), nothing))
			requireState(t, b, seawall.Closed, 0)
		})
	}
}

// A caller that asks from inside of fn, on the same breaker, is a call like any other.
func TestSyncBreakerInsideItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker()
		trip(t, b)
		time.Sleep(small().Cooldown)
		require.NoError(t, b.Do(t.Context(), func(ctx context.Context) error {
			return b.Do(ctx, func(ctx context.Context) error {
				err := b.Do(ctx, nothing)
				assert.ErrorIs(t, err, seawall.ErrOpen, "both places are taken by the calls around")
				return nil
			})
		}))
		requireState(t, b, seawall.Closed, 0)
		err := b.Do(t.Context(), func(ctx context.Context) error {
			b.ForceOpen()
			return errors.Join(b.Do(ctx, nothing), errBoom)
		})
		require.ErrorIs(t, err, seawall.ErrOpen)
		require.EqualValues(t, 1, b.Snapshot().Totals.Late, "the outer one came after its generation")
	})
}
