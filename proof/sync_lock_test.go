package proof_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seawall-go/seawall"
)

// While somebody holds a breaker's lock, what is said to take none must come through. A Snapshot that hangs in the
// clock holds it.
func TestSyncPlainCallsTakeNoLock(t *testing.T) {
	ctx := context.Background()
	for name, f := range map[string]struct {
		prepare func(b *seawall.Breaker)
		call    func(b *seawall.Breaker) error
		want    error
	}{
		"a success":           {func(*seawall.Breaker) {}, func(b *seawall.Breaker) error { return b.Do(ctx, nothing) }, nil},
		"a marked success":    {func(*seawall.Breaker) {}, func(b *seawall.Breaker) error { return b.Do(ctx, markedSuccess) }, errBoom},
		"a rejection":         {func(b *seawall.Breaker) { trip(t, b) }, func(b *seawall.Breaker) error { return b.Do(ctx, nothing) }, seawall.ErrOpen},
		"a rejection by hand": {func(b *seawall.Breaker) { b.ForceOpen() }, func(b *seawall.Breaker) error { return b.Do(ctx, nothing) }, seawall.ErrOpen},
	} {
		t.Run(name, func(t *testing.T) {
			clock := &spyClock{}
			clock.Advance(time.Hour)
			b := newBreaker(seawall.WithClock(clock))
			f.prepare(b)
			inside, leave, back := make(chan struct{}), make(chan struct{}), make(chan struct{})
			clock.spyOn = clock.looks.Load() + 1
			clock.spy = func() { close(inside); <-leave }
			go func() { defer close(back); b.Snapshot() }()
			<-inside

			id, done := make(chan string, 1), make(chan struct{})
			var err error
			go func() { defer close(done); id <- goroutine(); err = f.call(b) }()
			waits := blocked(<-id, done)
			close(leave)
			<-back
			<-done
			require.False(t, waits, "it waited for the lock")
			require.ErrorIs(t, err, f.want)
		})
	}
}

func markedSuccess(context.Context) error { return seawall.MarkSuccess(errBoom) }

// A marked success is booked where its end lies, like any other.
func TestSyncMarkedSuccessIsBookedInItsBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, set := newBreaker(), small()
		time.Sleep(set.Window)
		require.ErrorIs(t, b.Do(t.Context(), markedSuccess), errBoom)
		time.Sleep(set.Window - set.Window/time.Duration(set.Buckets))
		require.EqualValues(t, 1, b.Snapshot().Calls)
	})
}

// shyError dies when it is asked how long to wait.
type shyError struct{}

func (shyError) Error() string             { return "shy" }
func (shyError) RetryAfter() time.Duration { panic("nobody needs to know") }

// Only an error that counts as failure is asked how long to wait.
func TestSyncOnlyFailuresAreAskedToWait(t *testing.T) {
	b := newBreaker()
	for _, mark := range []func(error) error{seawall.MarkIgnored, seawall.MarkSuccess} {
		require.ErrorIs(t, b.Do(context.Background(), func(context.Context) error { return mark(shyError{}) }), shyError{})
	}
	require.Panics(t, func() {
		_ = b.Do(context.Background(), func(context.Context) error { return fmt.Errorf("x: %w", shyError{}) })
	})
	s := b.Snapshot().Totals
	require.EqualValues(t, []uint64{1, 1, 1}, []uint64{s.Successes, s.Ignored, s.Failures})
}

// A probe that became slow has been counted then. The other probe of its generation is late, and counted once too.
func TestSyncSlowProbeAndItsLateSister(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const slow = 8 * time.Second
		b := seawall.Must(seawall.NewBreaker("", seawall.WithConsecutiveFailures(1), seawall.WithCooldown(100*time.Millisecond),
			seawall.WithProbes(2), seawall.WithProbeSuccesses(2), seawall.WithProbeTimeout(time.Minute), seawall.WithSlowCallThreshold(slow)))
		require.ErrorIs(t, b.Do(t.Context(), boom), errBoom)
		time.Sleep(100 * time.Millisecond)
		for range 2 {
			go func() { _ = b.Do(t.Context(), sleeping(time.Hour)) }()
		}
		synctest.Wait()
		requireState(t, b, seawall.HalfOpen, 2)
		time.Sleep(slow)
		require.ErrorIs(t, b.Do(t.Context(), nothing), seawall.ErrOpen, "it finds that a probe has become slow")
		s := b.Snapshot()
		require.Equal(t, seawall.ReasonProbeFailed, s.Reason)
		require.EqualValues(t, 1, s.Totals.SlowCalls)
		time.Sleep(time.Hour)
		synctest.Wait()
		s = b.Snapshot()
		require.EqualValues(t, 1, s.Totals.Late)
		require.EqualValues(t, 3, s.Totals.Successes+s.Totals.Failures+s.Totals.Ignored+s.Totals.Late, "I3: three calls ran")
	})
}

// A caller who hangs up does not hide a hang: the call was a failure from the moment it became slow. Design §3.6.
func TestSyncSlowCallsOfCallersWhoHangUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(seawall.WithSlowCallThreshold(time.Second))
		for range small().ConsecutiveFailures {
			go func() {
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
				defer cancel()
				_ = b.Do(ctx, func(ctx context.Context) error { <-ctx.Done(); return errors.New("gone") })
			}()
		}
		time.Sleep(time.Second - 1)
		require.NoError(t, b.Do(t.Context(), nothing), "never early")
		require.Zero(t, b.Snapshot().SlowCalls)
		time.Sleep(time.Second/8 + 1)
		require.EqualValues(t, small().ConsecutiveFailures, b.Snapshot().SlowCalls, "at most an eighth late")
		require.ErrorIs(t, b.Do(t.Context(), nothing), seawall.ErrOpen)
		time.Sleep(2 * time.Second)
		s := b.Snapshot().Totals
		require.EqualValues(t, small().ConsecutiveFailures, s.Failures)
		require.EqualValues(t, small().ConsecutiveFailures, s.SlowCalls)
		require.EqualValues(t, 1, s.Successes)
		require.Zero(t, s.Late+s.Ignored, "what a slow call returns later changes nothing")
	})
}

// A call that finds slow ones opens the breaker and is itself rejected. If a hook dies of that edge, the call has no
// place to give back, and the caller sees the hook's own panic.
func TestSyncHookThatDiesOfSlowCalls(t *testing.T) {
	for _, how := range []string{"panic", "goexit"} {
		synctest.Test(t, func(t *testing.T) {
			b := newBreaker(seawall.WithSlowCallThreshold(time.Second), seawall.WithOnStateChange(func(seawall.StateChange) { die(how) }))
			for range small().ConsecutiveFailures {
				go func() { _ = b.Do(t.Context(), sleeping(time.Minute)) }()
			}
			time.Sleep(2 * time.Second)
			got := apart(func() {
				_ = b.Do(t.Context(), func(context.Context) error { t.Error("it was to be rejected"); return nil })
			})
			if how == "panic" {
				require.Equal(t, any(how), got)
			} else {
				require.Nil(t, got)
			}
			requireState(t, b, seawall.Open, 0)
			require.Zero(t, b.Snapshot().Totals.Ignored)
			time.Sleep(time.Minute)
		})
	}
}
