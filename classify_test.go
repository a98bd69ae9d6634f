package seawall_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seawall-go/seawall"
)

// What counts as what.

// returns is a fn that returns err.
func returns(err error) func(context.Context) error {
	return func(context.Context) error { return err }
}

// outcomeOf lets a closed breaker judge one call and returns what it took it for.
func outcomeOf(t *testing.T, ctx context.Context, b *seawall.Breaker, fn func(context.Context) error) seawall.Outcome {
	t.Helper()
	before := b.Snapshot().Totals
	_ = b.Do(ctx, fn)
	after := b.Snapshot().Totals
	seen := map[seawall.Outcome]uint64{
		seawall.Success: after.Successes - before.Successes,
		seawall.Failure: after.Failures - before.Failures,
		seawall.Ignored: after.Ignored - before.Ignored,
	}
	for outcome, n := range seen {
		if n == 1 {
			require.EqualValues(t, 1, seen[seawall.Success]+seen[seawall.Failure]+seen[seawall.Ignored])
			return outcome
		}
	}
	require.FailNow(t, "the call was not counted")
	return 0
}

// What is decided before any classifier: nil, the marks, and rejections of policies further in. G43: they are found
// however deep they are wrapped.
func TestOutcomeBeforeTheClassifier(t *testing.T) {
	forced := br(t, newClock())
	forced.ForceOpen()
	open := do(forced, ok)
	full := bh(t, 1, seawall.WithMaxWait(0))
	_, err := full.Acquire(t.Context())
	require.NoError(t, err)
	done, cancel := context.WithCancel(t.Context())
	cancel()

	tests := []struct {
		name string
		err  error
		want seawall.Outcome
	}{
		{"nil", nil, seawall.Success},
		{"marked success", seawall.MarkSuccess(errBoom), seawall.Success},
		{"marked ignored", seawall.MarkIgnored(errBoom), seawall.Ignored},
		{"marked nil", seawall.MarkIgnored(nil), seawall.Success},
		{"wrapped mark", fmt.Errorf("x: %w", seawall.MarkIgnored(errBoom)), seawall.Ignored},
		{"joined mark", errors.Join(errBoom, seawall.MarkSuccess(errBoom)), seawall.Success},
		{"the outer one of two marks", seawall.MarkSuccess(fmt.Errorf("x: %w", seawall.MarkIgnored(errBoom))), seawall.Success},
		{"ErrRejected", seawall.ErrRejected, seawall.Ignored},
		{"ErrOpen", seawall.ErrOpen, seawall.Ignored},
		{"ErrBulkheadFull, wrapped", fmt.Errorf("x: %w", seawall.ErrBulkheadFull), seawall.Ignored},
		{"an open breaker's", open, seawall.Ignored},
		{"a full bulkhead's", do(full, ok), seawall.Ignored},
		{"one for a context that was done", full.Do(done, ok), seawall.Ignored},
		{"a mark on a rejection", seawall.MarkSuccess(open), seawall.Success},
		{"ErrSlowCall is no rejection", seawall.ErrSlowCall, seawall.Failure},
		{"any other", errBoom, seawall.Failure},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			asked := false
			b := newBreaker(t, seawall.WithClassifier(func(context.Context, error) seawall.Outcome {
				asked = true
				return seawall.Failure
			}))
			assert.Equal(t, tt.want, outcomeOf(t, t.Context(), b, returns(tt.err)))
			assert.Equal(t, tt.want == seawall.Failure, asked, "the classifier was asked")
		})
	}
}

// A mark has the text of its error and matches what that matches; marking nothing gives nothing.
func TestMarkedErrors(t *testing.T) {
	for _, mark := range []func(error) error{seawall.MarkSuccess, seawall.MarkIgnored} {
		assert.NoError(t, mark(nil))
		marked := mark(askingError{time.Second})
		assert.EqualError(t, marked, "busy")
		var asking askingError
		require.ErrorAs(t, marked, &asking)
		assert.Equal(t, time.Second, asking.wait)
		assert.ErrorIs(t, mark(fmt.Errorf("x: %w", errBoom)), errBoom)
	}
}

// The answer of a classifier counts, and what is no Outcome at all is a failure.
func TestClassifierDecides(t *testing.T) {
	for answer, want := range map[seawall.Outcome]seawall.Outcome{
		seawall.Success: seawall.Success, seawall.Failure: seawall.Failure, seawall.Ignored: seawall.Ignored,
		-1: seawall.Failure, 3: seawall.Failure, 99: seawall.Failure,
	} {
		type key struct{}
		ctx := context.WithValue(t.Context(), key{}, "v")
		b := newBreaker(t, seawall.WithClassifier(func(got context.Context, err error) seawall.Outcome {
			assert.True(t, got == ctx, "it is the caller's context")
			assert.Same(t, errBoom, err)
			return answer
		}))
		assert.Equal(t, want, outcomeOf(t, ctx, b, bad), "the classifier said %v", answer)
	}
}

// A success by the classifier's word ends a row and closes a half-open breaker, as any other.
func TestSuccessByTheClassifier(t *testing.T) {
	clk := newClock()
	notFound := errors.New("not found")
	b := br(t, clk, seawall.WithClassifier(func(ctx context.Context, err error) seawall.Outcome {
		if errors.Is(err, notFound) {
			return seawall.Success
		}
		return seawall.DefaultClassifier(ctx, err)
	}))
	_, _, _, _ = do(b, bad), do(b, bad), do(b, returns(notFound)), do(b, bad)
	wantState(t, b, seawall.Closed)
	b.Reset()
	half(t, b, clk)
	require.ErrorIs(t, do(b, returns(notFound)), notFound)
	wantState(t, b, seawall.Closed)
}

// G45: the classifier is never asked about nil.
func TestClassifierIsNotAskedAboutNil(t *testing.T) {
	b := br(t, newClock(), seawall.WithClassifier(func(_ context.Context, err error) seawall.Outcome {
		_ = err.Error()
		return seawall.Failure
	}))
	require.NoError(t, do(b, ok))
	done, err := b.Allow(t.Context())
	require.NoError(t, err)
	done(nil)
}

// The default: an error is a failure, unless the caller's context was cancelled. G136: it is the context that tells,
// since with a cause the error often says nothing of it. B60: a callee that speaks of cancelling while the caller is
// still there has failed.
func TestDefaultClassifier(t *testing.T) {
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	withCause, cancelCause := context.WithCancelCause(context.Background())
	cancelCause(errBoom)
	expired, stop := context.WithDeadline(context.Background(), time.Unix(0, 0))
	defer stop()
	child, cancelChild := context.WithTimeout(withCause, time.Hour)
	defer cancelChild()
	live := context.Background()
	tests := []struct {
		name string
		ctx  context.Context
		err  error
		want seawall.Outcome
	}{
		{"nil", live, nil, seawall.Success},
		{"nil on a cancelled context", cancelled, nil, seawall.Success},
		{"any error", live, errBoom, seawall.Failure},
		{"deadline", live, context.DeadlineExceeded, seawall.Failure},
		{"deadline of the caller", expired, context.DeadlineExceeded, seawall.Failure},
		{"any error after the caller's deadline", expired, errBoom, seawall.Failure},
		{"the callee says cancelled", live, context.Canceled, seawall.Failure},
		{"cancelled", cancelled, context.Canceled, seawall.Ignored},
		{"cancelled, any error", cancelled, errBoom, seawall.Ignored},
		{"cancelled with a cause", withCause, errBoom, seawall.Ignored},
		{"cancelled further out", child, errBoom, seawall.Ignored},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.want, seawall.DefaultClassifier(tt.ctx, tt.err))
		})
	}
}

// G11, B60, G136: however many callers hang up, with or without a cause, a breaker stays closed and counts nothing.
func TestCallersWhoHangUpDoNotTrip(t *testing.T) {
	b := br(t, newClock())
	for i := range 100 {
		ctx, cancel := context.WithCancelCause(t.Context())
		cause := error(nil)
		if i%2 == 0 {
			cause = errBoom
		}
		require.Error(t, b.Do(ctx, func(ctx context.Context) error {
			cancel(cause)
			return context.Cause(ctx)
		}))
	}
	wantState(t, b, seawall.Closed)
	s := b.Snapshot()
	assert.Zero(t, s.Calls)
	assert.Zero(t, s.ConsecutiveFailures)
	assert.EqualValues(t, 100, s.Totals.Ignored)
}

// With Allow it is the context given to Allow that tells, as it is when the call ends.
func TestAllowLooksAtItsContextInTheEnd(t *testing.T) {
	b := br(t, newClock())
	ctx, cancel := context.WithCancel(t.Context())
	done, err := b.Allow(ctx)
	require.NoError(t, err)
	cancel()
	done(errBoom)
	assert.EqualValues(t, 1, b.Snapshot().Totals.Ignored)
}

// G41, B61: a dependency that only ever times out trips, whether the deadline is the caller's own or a Timeout's.
// G50: a Timeout ends fn's context to the nanosecond and waits for fn.
func TestTimeoutsTrip(t *testing.T) {
	waits := func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	}
	t.Run("caller's deadline", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := timeline{isDefault: true}.br(t)
			for range 3 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				require.ErrorIs(t, b.Do(ctx, waits), context.DeadlineExceeded)
				cancel()
			}
			wantState(t, b, seawall.Open)
		})
	})
	t.Run("a Timeout further in", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := timeline{isDefault: true}.br(t)
			timeout, err := seawall.NewTimeout(time.Second)
			require.NoError(t, err)
			for range 3 {
				start := time.Now()
				require.ErrorIs(t, do(seawall.Chain(b, timeout), func(ctx context.Context) error {
					<-ctx.Done()
					assert.Equal(t, time.Second, time.Since(start))
					time.Sleep(time.Minute) // It takes its time to give up.
					return context.Cause(ctx)
				}), context.DeadlineExceeded)
				assert.Equal(t, time.Second+time.Minute, time.Since(start))
			}
			wantState(t, b, seawall.Open)
		})
	})
}

// G40: a call whose context is done before it begins isn't run, whatever the state, and counts as nothing but
// cancelled. Its error matches what the context says, and ErrRejected.
func TestContextThatIsDoneBefore(t *testing.T) {
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	withCause, cancelCause := context.WithCancelCause(context.Background())
	cancelCause(errBoom)
	expired, stop := context.WithDeadline(context.Background(), time.Unix(0, 0))
	defer stop()
	timedOut, end := context.WithDeadlineCause(context.Background(), time.Unix(0, 0), &seawall.TimeoutError{Timeout: 1})
	defer end()
	tests := []struct {
		name string
		ctx  context.Context
		text string
	}{
		{"cancelled", cancelled, "seawall: br: not run: context canceled"},
		{"with a cause", withCause, "seawall: br: not run: boom"},
		{"deadline", expired, "seawall: br: not run: context deadline exceeded"},
		{"deadline with a cause", timedOut, "seawall: br: not run: seawall: timeout of 1ns passed"},
	}
	clk := newClock()
	for state, b := range inEveryState(t, clk) {
		for _, tt := range tests {
			t.Run(state+" "+tt.name, func(t *testing.T) {
				want := b.Snapshot()
				want.Totals.Cancelled += 2
				var c counter
				doErr := b.Do(tt.ctx, c.fn)
				done, allowErr := b.Allow(tt.ctx)
				assert.Nil(t, done)
				assert.Zero(t, c.count())
				for _, err := range []error{doErr, allowErr} {
					require.ErrorIs(t, err, seawall.ErrRejected)
					assert.ErrorIs(t, err, tt.ctx.Err())
					assert.ErrorIs(t, err, context.Cause(tt.ctx))
					assert.NotErrorIs(t, err, seawall.ErrOpen)
					assert.EqualError(t, err, tt.text)
				}
				assert.Equal(t, want, b.Snapshot())
			})
		}
	}
}

// A context that ends in the middle of the call changes nothing about its success.
func TestSuccessAfterTheContextEnded(t *testing.T) {
	b := br(t, newClock())
	ctx, cancel := context.WithCancel(t.Context())
	assert.Equal(t, seawall.Success, outcomeOf(t, ctx, b, func(context.Context) error { cancel(); return nil }))
}

// G51: a panic is a failure, and so is runtime.Goexit.
func TestPanicsTrip(t *testing.T) {
	var j journal
	b := br(t, newClock(), j.hook())
	for range 3 {
		wantState(t, b, seawall.Closed)
		assert.PanicsWithValue(t, "x", func() { _ = do(b, func(context.Context) error { panic("x") }) })
	}
	wantState(t, b, seawall.Open)
	assert.EqualValues(t, 3, j.last(t).Failures)
}

// B63: rejections of a full bulkhead further in never open a breaker, nor does the breaker fill the bulkhead when it
// is inside; whoever wants them to count can say so.
func TestBulkheadRejectionsDoNotTrip(t *testing.T) {
	b, full := br(t, newClock()), bh(t, 1, seawall.WithMaxWait(0))
	call := hold(t, full)
	for range 50 {
		require.ErrorIs(t, do(seawall.Chain(b, full), ok), seawall.ErrBulkheadFull)
		require.ErrorIs(t, do(seawall.Chain(full, b), ok), seawall.ErrBulkheadFull)
	}
	wantState(t, b, seawall.Closed)
	assert.Zero(t, b.Snapshot().Calls)
	require.NoError(t, call.finish(nil))

	b.ForceOpen()
	for range 50 {
		require.ErrorIs(t, do(seawall.Chain(full, b), ok), seawall.ErrOpen)
	}
	assert.Zero(t, full.Snapshot().InFlight)
}

// B65: a classifier can tell the client's faults from the server's.
func TestClassifierByStatusCode(t *testing.T) {
	b := newBreaker(t, seawall.WithClassifier(func(ctx context.Context, err error) seawall.Outcome {
		if status, found := errors.AsType[answerError](err); found && status < 500 && status != http.StatusTooManyRequests {
			return seawall.Success // The server has answered; the request was wrong.
		}
		return seawall.DefaultClassifier(ctx, err)
	}))
	for status, want := range map[int]seawall.Outcome{
		400: seawall.Success, 403: seawall.Success, 404: seawall.Success, 429: seawall.Failure,
		500: seawall.Failure, 503: seawall.Failure,
	} {
		err := fmt.Errorf("get: %w", answerError(status))
		assert.Equal(t, want, outcomeOf(t, t.Context(), b, returns(err)), "status %d", status)
	}
}

type answerError int

func (s answerError) Error() string { return http.StatusText(int(s)) }

// G140: a probe that its caller's own deadline ended is a failure by default; a classifier can make it neutral.
func TestProbeEndedByItsCallersDeadline(t *testing.T) {
	for want, opts := range map[seawall.State][]seawall.BreakerOption{
		seawall.Open: nil,
		seawall.HalfOpen: {seawall.WithClassifier(func(ctx context.Context, err error) seawall.Outcome {
			if ctx.Err() != nil {
				return seawall.Ignored
			}
			return seawall.DefaultClassifier(ctx, err)
		})},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := timeline{isDefault: true}.br(t, opts...)
			trip(t, b)
			time.Sleep(cooldown)
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
			defer cancel()
			require.ErrorIs(t, b.Do(ctx, func(ctx context.Context) error {
				<-ctx.Done()
				return ctx.Err()
			}), context.DeadlineExceeded)
			wantState(t, b, want)
			if want == seawall.HalfOpen {
				wantAdmitted(t, b)
				wantState(t, b, seawall.Closed)
			}
		})
	}
}
