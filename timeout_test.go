package seawall_test

import (
	"context"
	"errors"
	"math"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seawall-go/seawall"
)

// timeout is a Timeout of d.
func timeout(t testing.TB, d time.Duration) *seawall.Timeout {
	t.Helper()
	to, err := seawall.NewTimeout(d)
	require.NoError(t, err)
	return to
}

// G50: fn's own context ends to the nanosecond when the timeout has passed, and says whose doing it was.
func TestTimeoutEndsTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		err := do(timeout(t, time.Second), func(ctx context.Context) error {
			deadline, found := ctx.Deadline()
			assert.True(t, found)
			assert.Equal(t, start.Add(time.Second), deadline)

			time.Sleep(time.Second - ns)
			synctest.Wait()
			require.NoError(t, ctx.Err())
			<-ctx.Done()
			assert.Equal(t, time.Second, time.Since(start))
			assert.Equal(t, context.DeadlineExceeded, ctx.Err())
			return context.Cause(ctx)
		})
		var passed *seawall.TimeoutError
		require.ErrorAs(t, err, &passed)
		assert.Equal(t, seawall.TimeoutError{Timeout: time.Second}, *passed)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, seawall.ErrRejected)
	})
}

// I10: what fn returns is what Do returns, also after the deadline: nil stays nil, an error is not replaced.
func TestTimeoutReturnsWhatFnReturns(t *testing.T) {
	for name, want := range map[string]error{"nil": nil, "error": errBoom, "the context's own": context.DeadlineExceeded} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				to := timeout(t, time.Second)
				wantSame(t, want, do(to, func(context.Context) error { return want }))
				wantSame(t, want, do(to, func(ctx context.Context) error { <-ctx.Done(); return want }))
			})
		})
	}
}

// I9: a fn that does not heed its context is waited for, not abandoned.
func TestTimeoutWaitsForFn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		require.ErrorIs(t, do(timeout(t, time.Second), func(context.Context) error {
			time.Sleep(time.Hour)
			return errBoom
		}), errBoom)
		assert.Equal(t, time.Hour, time.Since(start))
	})
}

// The earliest deadline holds, and its owner is the cause.
func TestTimeoutOfTimeouts(t *testing.T) {
	ended := func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }
	for name, p := range map[string]func(t *testing.T) seawall.Policy{
		"shorter inside": func(t *testing.T) seawall.Policy {
			return seawall.Chain(timeout(t, time.Minute), timeout(t, time.Second))
		},
		"shorter outside": func(t *testing.T) seawall.Policy {
			return seawall.Chain(timeout(t, time.Second), timeout(t, time.Minute))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				var passed *seawall.TimeoutError
				require.ErrorAs(t, do(p(t), ended), &passed)
				assert.Equal(t, time.Second, passed.Timeout)
				assert.Equal(t, time.Second, time.Since(start))
			})
		})
	}
	t.Run("the caller's", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errBoom)
			defer cancel()
			wantSame(t, errBoom, timeout(t, time.Minute).Do(ctx, ended))
		})
	})
}

// The caller's context shines through: its values, its end and its cause.
func TestTimeoutPassesTheCallersContextOn(t *testing.T) {
	type key struct{}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(context.WithValue(t.Context(), key{}, 1))
		err := timeout(t, time.Hour).Do(ctx, func(inner context.Context) error {
			assert.Equal(t, 1, inner.Value(key{}))
			cancel(errBoom)
			<-inner.Done()
			assert.Equal(t, context.Canceled, inner.Err())
			return context.Cause(inner)
		})
		wantSame(t, errBoom, err)
	})
}

// A Timeout is no guard: it runs fn also on a context that is done.
func TestTimeoutRunsFnOnADoneContext(t *testing.T) {
	var c counter
	require.NoError(t, timeout(t, time.Hour).Do(cancelled(nil), c.fn))
	assert.Equal(t, 1, c.count())
}

// G108: the context ends when fn has, in whatever way, so nothing keeps watching it. That is also the trap: what is
// still bound to it then is lost.
func TestTimeoutEndsTheContextWithFn(t *testing.T) {
	for name, end := range map[string]func() error{
		"nil":    func() error { return nil },
		"error":  func() error { return errBoom },
		"panic":  func() error { panic(errBoom) },
		"Goexit": func() error { runtime.Goexit(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			var kept context.Context //nolint:fatcontext // what outlives fn is the point
			onItsOwn(func() {
				defer func() { _ = recover() }()
				_ = do(timeout(t, time.Hour), func(ctx context.Context) error {
					kept = ctx
					require.NoError(t, ctx.Err())
					return end()
				})
			})
			require.ErrorIs(t, kept.Err(), context.Canceled)
		})
	}
}

// One Timeout serves any number of calls, each with a deadline of its own.
func TestTimeoutServesManyCallsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := timeout(t, time.Second)
		results := make(chan time.Duration, 10)
		for range 10 {
			start := time.Now()
			go func() {
				_ = do(to, func(ctx context.Context) error { <-ctx.Done(); return nil })
				results <- time.Since(start)
			}()
			time.Sleep(100 * time.Millisecond)
		}
		for range 10 {
			assert.Equal(t, time.Second, <-results)
		}
	})
}

// The longest that a Duration can tell is no deadline in the past.
func TestTimeoutMayBeVeryLong(t *testing.T) {
	require.NoError(t, do(timeout(t, math.MaxInt64), func(ctx context.Context) error { return ctx.Err() }))
	synctest.Test(t, func(t *testing.T) {
		require.NoError(t, do(timeout(t, math.MaxInt64), func(ctx context.Context) error {
			time.Sleep(200 * 365 * 24 * time.Hour)
			return ctx.Err()
		}))
	})
}

// A Timeout must be above 0.
func TestNewTimeoutRefusesWhatIsNotLegal(t *testing.T) {
	for d, value := range map[time.Duration]string{0: "0s", -time.Second: "-1s", math.MinInt64: "-2562047h47m16.854775808s"} {
		to, err := seawall.NewTimeout(d)
		require.EqualError(t, err, "seawall: NewTimeout: timeout "+value+" must be above 0")
		assert.Nil(t, to)
	}
	_, err := seawall.NewTimeout(ns)
	require.NoError(t, err)
}

// Mistakes that no caller could handle.
func TestTimeoutPanicsOnMisuse(t *testing.T) {
	to := timeout(t, time.Hour)
	assert.PanicsWithValue(t, "seawall: nil fn", func() { _ = to.Do(t.Context(), nil) })
	assert.PanicsWithValue(t, "seawall: nil Context", func() { _ = to.Do(nil, ok) }) //nolint:staticcheck // a nil ctx is the point
	for name, to := range map[string]*seawall.Timeout{"nil": nil, "zero": {}} {
		assert.PanicsWithValue(t, "seawall: use of a Timeout that was not made by NewTimeout", func() { _ = do(to, ok) }, name)
	}
}

// A TimeoutError stands for context.DeadlineExceeded and for nothing else.
func TestTimeoutErrorMatchesDeadlineExceeded(t *testing.T) {
	err := error(&seawall.TimeoutError{Timeout: 1500 * time.Millisecond})
	require.EqualError(t, err, "seawall: timeout of 1.5s passed")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	for _, target := range []error{context.Canceled, seawall.ErrRejected, seawall.ErrOpen, errBoom} {
		require.NotErrorIs(t, err, target)
	}
	wantNoRetryMethods(t, err)
	assert.NoError(t, errors.Unwrap(err))
}
