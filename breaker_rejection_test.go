package seawall_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seawall-go/seawall"
)

// What a caller who was turned away is told.

// B50: the error tells the time that is left, not the time gone by, as of the moment when it is asked.
// G128: so does a Snapshot.
func TestRetryAfterIsTheTimeLeft(t *testing.T) {
	onEachClock(t, func(t *testing.T, tl timeline) {
		b := tl.br(t)
		trip(t, b)
		at := tl.Now()
		open := wantRejected(t, b)
		for _, passed := range []time.Duration{0, ns, 3 * time.Second, cooldown - ns, cooldown, cooldown + ns, time.Hour} {
			tl.Advance(at.Add(passed).Sub(tl.Now()))
			left := max(0, cooldown-passed)
			assert.Equal(t, left, open.RetryAfter(), "after %v", passed)
			assert.Equal(t, left, b.Snapshot().RetryAfter, "after %v", passed)
		}
		assert.WithinDuration(t, at.Add(cooldown), open.Until, 0)
	})
}

// B51: the error is found through wrapping.
func TestOpenErrorIsFoundThroughWrapping(t *testing.T) {
	b := br(t, newClock())
	trip(t, b)
	err := do(b, ok)
	for _, err := range []error{err, fmt.Errorf("pay: %w", err), errors.Join(errBoom, err)} {
		require.ErrorIs(t, err, seawall.ErrOpen)
		require.ErrorIs(t, err, seawall.ErrRejected)
		assert.NotErrorIs(t, err, seawall.ErrBulkheadFull)
		var open *seawall.OpenError
		require.ErrorAs(t, err, &open)
		assert.Equal(t, cooldown, open.RetryAfter())
	}
}

// What the error says in each state in which calls are rejected.
func TestOpenErrorSaysWhatIsTheMatter(t *testing.T) {
	clk := newClock()
	b := br(t, clk)
	trip(t, b)
	clk.Advance(5800 * time.Millisecond)
	open := wantRejected(t, b)
	assert.Equal(t, "br", open.Name)
	assert.Equal(t, seawall.Open, open.State)
	assert.Equal(t, seawall.ReasonConsecutiveFailures, open.Reason)
	assert.EqualError(t, open, "seawall: br: circuit open, retry in 4.2s")

	clk.Advance(4200 * time.Millisecond)
	_, err := b.Allow(t.Context())
	require.NoError(t, err)
	open = wantRejected(t, b)
	assert.Equal(t, seawall.HalfOpen, open.State)
	assert.Equal(t, seawall.ReasonCooldownOver, open.Reason)
	assert.WithinDuration(t, clk.Now().Add(cooldown), open.Until, 0)
	assert.EqualError(t, open, "seawall: br: circuit half-open and all probes taken, retry in 10s")

	b.ForceOpen()
	open = wantRejected(t, b)
	assert.Equal(t, seawall.Open, open.State)
	assert.Equal(t, seawall.ReasonForced, open.Reason)
	assert.Zero(t, open.Until)
	assert.Equal(t, cooldown, open.RetryAfter())
	assert.EqualError(t, open, "seawall: br: circuit forced open")
}

// A breaker without a name leaves it out.
func TestOpenErrorWithoutAName(t *testing.T) {
	b, err := seawall.NewBreaker("")
	require.NoError(t, err)
	b.ForceOpen()
	assert.EqualError(t, do(b, ok), "seawall: circuit forced open")
}

// A test of a user's own code may make an OpenError by hand; it goes by package time then.
func TestOpenErrorMadeByHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open := &seawall.OpenError{Name: "payments", State: seawall.Open, Until: time.Now().Add(4 * time.Second)}
		assert.Equal(t, 4*time.Second, open.RetryAfter())
		assert.EqualError(t, open, "seawall: payments: circuit open, retry in 4s")
		time.Sleep(time.Minute)
		assert.Zero(t, open.RetryAfter())
		require.ErrorIs(t, open, seawall.ErrRejected)
		assert.Zero(t, (&seawall.OpenError{}).RetryAfter())
	})
}

// One error serves all who are turned away in a generation; while half-open, all until the next place lapses.
func TestOpenErrorIsMadeOncePerGeneration(t *testing.T) {
	clk := newClock()
	b := br(t, clk)
	trip(t, b)
	open := wantRejected(t, b)
	for range 9 {
		clk.Advance(time.Second)
		assert.Same(t, open, wantRejected(t, b))
	}
	clk.Advance(time.Second)
	require.ErrorIs(t, do(b, bad), errBoom)
	again := wantRejected(t, b)
	assert.NotSame(t, open, again)
	assert.Zero(t, open.RetryAfter(), "the first error still speaks of its own opening")

	clk.Advance(cooldown)
	hung := hold(t, b)
	halfOpen := wantRejected(t, b)
	clk.Advance(cooldown - ns)
	assert.Same(t, halfOpen, wantRejected(t, b))
	assert.Equal(t, ns, halfOpen.RetryAfter())
	clk.Advance(ns)
	_, err := b.Allow(t.Context())
	require.NoError(t, err)
	lapsed := wantRejected(t, b)
	assert.NotSame(t, halfOpen, lapsed)
	assert.Equal(t, cooldown, lapsed.RetryAfter())
	require.Error(t, hung.finish(errBoom)) // Late.
	assert.Same(t, lapsed, wantRejected(t, b))

	b.ForceOpen()
	forced := wantRejected(t, b)
	clk.Advance(time.Hour)
	assert.Same(t, forced, wantRejected(t, b))
}

// Callers who are turned away at the same time get the same error.
func TestOpenErrorIsSharedByCallers(t *testing.T) {
	b := br(t, newClock())
	trip(t, b)
	errs := make(chan error, 100)
	var calls sync.WaitGroup
	for range 100 {
		calls.Go(func() { errs <- do(b, ok) })
	}
	calls.Wait()
	want := wantRejected(t, b)
	for range 100 {
		assert.Same(t, want, <-errs)
	}
}

// A loop that waits for RetryAfter doesn't spin: it is above 0 as long as the call would be rejected, in every
// state, and after that time the call is admitted unless somebody else was quicker.
func TestWaitingForRetryAfterDoesNotSpin(t *testing.T) {
	onEachClock(t, func(t *testing.T, tl timeline) {
		b := tl.br(t, seawall.WithJitter(0.5), seawall.WithBackoff(time.Minute), seawall.WithProbes(2))
		trip(t, b)
		waits := 0
		for range 20 {
			for range 2 {
				_, err := b.Allow(t.Context())
				if open := (*seawall.OpenError)(nil); errors.As(err, &open) {
					waits++
					require.Positive(t, open.RetryAfter())
					require.Equal(t, open.RetryAfter(), b.Snapshot().RetryAfter)
					tl.Advance(open.RetryAfter() - ns)
					require.Equal(t, ns, wantRejected(t, b).RetryAfter())
					tl.Advance(ns)
					_, err = b.Allow(t.Context())
				}
				require.NoError(t, err)
				tl.Advance(time.Second)
			}
		}
		assert.Greater(t, waits, 10)
	})
}

// G150: a rejection carries nobody else's error. B68: nor an earlier rejection: there is nothing to unwrap.
func TestRejectionCarriesNoOtherError(t *testing.T) {
	b, outer := br(t, newClock()), br(t, newClock())
	errs := []error{errors.New("a"), errors.New("b"), errors.New("c")}
	for _, err := range errs {
		require.Same(t, err, do(b, returns(err)))
	}
	for range 1000 {
		rejected := do(seawall.Chain(outer, b), ok)
		for _, err := range errs {
			require.NotErrorIs(t, rejected, err)
		}
		require.NoError(t, errors.Unwrap(rejected))
	}
	wantState(t, outer, seawall.Closed)
}

// Some SDKs retry at once what has a Timeout or Temporary method.
func TestRejectionsLookLikeNoTimeout(t *testing.T) {
	ctx, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	b := br(t, newClock())
	done := b.Do(ctx, ok)
	b.ForceOpen()
	for _, err := range []error{done, do(b, ok), seawall.ErrOpen, seawall.ErrRejected} {
		var timeout interface{ Timeout() bool }
		assert.False(t, errors.As(err, &timeout), "%v", err)
		var temporary interface{ Temporary() bool }
		assert.False(t, errors.As(err, &temporary), "%v", err)
	}
}

// G126: a way out for rejected calls is two lines around Do, and safe since nothing was sent.
func TestFallbackOnRejection(t *testing.T) {
	b := br(t, newClock())
	price := func(fn func(context.Context) (int, error)) (int, error) {
		v, err := seawall.Call(t.Context(), b, fn)
		if errors.Is(err, seawall.ErrRejected) {
			return 42, nil
		}
		return v, err
	}
	fresh := func(context.Context) (int, error) { return 7, nil }
	v, err := price(fresh)
	require.NoError(t, err)
	assert.Equal(t, 7, v)

	_, err = price(func(context.Context) (int, error) { return 0, errBoom })
	require.ErrorIs(t, err, errBoom, "what was run is no case for a fallback")

	b.ForceOpen()
	v, err = price(fresh)
	require.NoError(t, err)
	assert.Equal(t, 42, v)
}

// Neither a call of a closed breaker nor one that is rejected, for whatever reason, allocates anything.
func TestBreakerCallsAllocateNothing(t *testing.T) {
	ctx := t.Context()
	budget := func(what string, most float64, f func()) {
		t.Helper()
		assert.LessOrEqual(t, testing.AllocsPerRun(1000, f), most, what)
	}
	clk := newClock()
	b := br(t, clk, seawall.WithFailureRate(1, never))
	fails := br(t, clk, seawall.WithConsecutiveFailures(never))
	budget("closed, success", 0, func() { _ = b.Do(ctx, ok) })
	budget("closed, failure", 0, func() { _ = fails.Do(ctx, bad) })
	budget("closed, success as time goes by", 0, func() { clk.Advance(time.Second); _ = b.Do(ctx, ok) })
	budget("state", 0, func() { b.State() })
	trip(t, b)
	budget("open", 0, func() { _ = b.Do(ctx, ok) })
	clk.Advance(cooldown)
	_, err := b.Allow(ctx)
	require.NoError(t, err)
	budget("half-open", 0, func() { _ = b.Do(ctx, ok) })
	b.ForceOpen()
	budget("forced", 0, func() { _ = b.Do(ctx, ok) })
	budget("rejected Allow", 0, func() { _, _ = b.Allow(ctx) })
	b.Reset()
	budget("Allow", 2, func() {
		done, _ := b.Allow(ctx)
		done(nil)
	})
}
