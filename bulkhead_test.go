package seawall_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seawall-go/seawall"
)

// More words, for calls that wait.

const maxWait = 30 * time.Millisecond

// noWait makes a bulkhead reject at once.
func noWait() seawall.BulkheadOption { return seawall.WithMaxWait(0) }

// queued is a call that stands in the queue of a bulkhead.
type queued struct {
	counter
	done chan error
}

// queue starts a call on ctx and returns when it shows in the queue.
func queue(ctx context.Context, t testing.TB, b *seawall.Bulkhead) *queued {
	t.Helper()
	q := &queued{done: make(chan error, 1)}
	want := b.Snapshot().Waiting + 1
	go func() { q.done <- b.Do(ctx, q.fn) }()
	until(t, func() bool { return b.Snapshot().Waiting == want || len(q.done) == 1 })
	q.wantWaiting(t)
	return q
}

// wantFull ends the wait for a call that must have been turned away without being run, and returns the error.
func (q *queued) wantFull(t testing.TB) *seawall.FullError {
	t.Helper()
	err := <-q.done
	require.ErrorIs(t, err, seawall.ErrBulkheadFull)
	require.ErrorIs(t, err, seawall.ErrRejected)
	assert.Zero(t, q.count(), "a rejected call was run")
	var full *seawall.FullError
	require.ErrorAs(t, err, &full)
	return full
}

// wantRun ends the wait for a call that must have got its slot.
func (q *queued) wantRun(t testing.TB) {
	t.Helper()
	require.NoError(t, <-q.done)
	assert.Equal(t, 1, q.count(), "an admitted call runs once")
}

// wantWaiting asserts that a call in the queue is still there.
func (q *queued) wantWaiting(t testing.TB) {
	t.Helper()
	select {
	case err := <-q.done:
		require.FailNow(t, "the call waits no more", "%v", err)
	default:
	}
}

// until lets other goroutines run until cond holds.
func until(t testing.TB, cond func() bool) {
	t.Helper()
	for range 20_000_000 { // Counted, since in a bubble no time would pass.
		if cond() {
			return
		}
		runtime.Gosched()
	}
	require.FailNow(t, "it never happens")
}

// wantRejectedBy makes a call that must be turned away at once without being run, and returns the error.
func wantRejectedBy(t testing.TB, b *seawall.Bulkhead) *seawall.FullError {
	t.Helper()
	q := &queued{done: make(chan error, 1)}
	q.done <- do(b, q.fn)
	return q.wantFull(t)
}

// wantQuiet asserts I1 on a bulkhead whose calls have ended: nothing in flight, nothing waiting, and exactly limit
// calls can be admitted.
func wantQuiet(t testing.TB, b *seawall.Bulkhead, limit int) {
	t.Helper()
	rest := b.Snapshot()
	assert.Equal(t, limit, rest.Limit, "Limit at rest")
	assert.Zero(t, rest.InFlight, "InFlight at rest")
	assert.Zero(t, rest.Waiting, "Waiting at rest")
	for range limit {
		release, err := b.Acquire(context.Background())
		require.NoError(t, err, "Acquire at rest")
		defer release()
	}

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	oneMore := make(chan error, 1)
	go func() {
		_, err := b.Acquire(ctx)
		oneMore <- err
	}()
	until(t, func() bool { return b.Snapshot().Waiting == 1 || len(oneMore) == 1 })
	cancel()
	require.ErrorIs(t, <-oneMore, seawall.ErrBulkheadFull, "one more than the limit")
}

// wantSame asserts I10: the very value, not one that is like it.
func wantSame(t testing.TB, want, got error) {
	t.Helper()
	assert.True(t, any(want) == any(got), "got the error %v, want the very value %v", got, want)
}

// lateCtx is a context whose end shows in Err only, never in Done: to a call in a queue it is one that ends at the
// very instant at which the slot comes.
type lateCtx struct {
	context.Context
	ended atomic.Bool
}

func (c *lateCtx) end() { c.ended.Store(true) }

func (c *lateCtx) Err() error {
	if c.ended.Load() {
		return context.Canceled
	}
	return nil
}

// cancelled returns a context that was cancelled for the given cause, which may be nil.
func cancelled(cause error) context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(cause)
	return ctx
}

// Slots.

// I3, I10: an admitted call runs once, on the caller's own context, and its error comes back as the value it was.
func TestBulkheadRunsFnOnceAndReturnsItsError(t *testing.T) {
	type key struct{}
	ctx := context.WithValue(t.Context(), key{}, 1)
	for _, want := range []error{nil, errBoom, fmt.Errorf("wrapped: %w", errBoom), seawall.ErrOpen, context.Canceled} {
		b := bh(t, 1, noWait())
		ran := 0
		got := b.Do(ctx, func(inner context.Context) error {
			ran++
			assert.Equal(t, ctx, inner)
			return want
		})
		wantSame(t, want, got)
		assert.Equal(t, 1, ran)
		assert.Equal(t, seawall.BulkheadTotals{Admitted: 1}, b.Snapshot().Totals)
	}
}

// I2, I3: beyond the limit calls are rejected; the error says by whom.
func TestBulkheadRefusesWhenFull(t *testing.T) {
	b := bh(t, 2, noWait())
	first, second := hold(t, b), hold(t, b)
	assert.Equal(t, seawall.FullError{Name: "bh", Limit: 2}, *wantRejectedBy(t, b))
	require.NoError(t, first.finish(nil))
	require.NoError(t, do(b, ok))
	require.ErrorIs(t, second.finish(errBoom), errBoom)
	wantTotals(t, b, seawall.BulkheadTotals{Admitted: 3, RejectedFull: 1})
}

// G90: a free slot is taken however short the wait may be.
func TestBulkheadTakesAFreeSlotHoweverShortTheWait(t *testing.T) {
	for name, option := range map[string]seawall.BulkheadOption{
		"no wait":        noWait(),
		"wait of 1 ns":   seawall.WithMaxWait(ns),
		"queue of none":  seawall.WithMaxQueue(0),
		"wait for years": seawall.WithMaxWait(1<<63 - 1),
	} {
		t.Run(name, func(t *testing.T) {
			b := bh(t, 1, option)
			for range 10_000 {
				require.NoError(t, do(b, ok))
			}
			wantTotals(t, b, seawall.BulkheadTotals{Admitted: 10_000})
		})
	}
}

// G91: a context that is done wins over a free slot, every time. Part of G40: the error says why.
func TestBulkheadRefusesADoneContext(t *testing.T) {
	expired, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	for name, test := range map[string]struct {
		ctx     context.Context
		matches []error
	}{
		"cancelled":         {cancelled(nil), []error{context.Canceled}},
		"cancelled for why": {cancelled(errBoom), []error{context.Canceled, errBoom}},
		"expired":           {expired, []error{context.DeadlineExceeded}},
	} {
		t.Run(name, func(t *testing.T) {
			b := bh(t, 1)
			var c counter
			for range 10_000 {
				err := b.Do(test.ctx, c.fn)
				for _, target := range append(test.matches, seawall.ErrRejected) {
					require.ErrorIs(t, err, target)
				}
				require.NotErrorIs(t, err, seawall.ErrBulkheadFull)
			}
			assert.Zero(t, c.count(), "fn was run on a context that was done")
			wantTotals(t, b, seawall.BulkheadTotals{Cancelled: 10_000})
			wantQuiet(t, b, 1)
		})
	}
}

// A done context is looked at first when the bulkhead is full, too: the call does not queue.
func TestBulkheadRefusesADoneContextWhenFull(t *testing.T) {
	b := bh(t, 1)
	h := hold(t, b)
	err := b.Do(cancelled(nil), ok)
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, seawall.ErrBulkheadFull)
	wantTotals(t, b, seawall.BulkheadTotals{Admitted: 1, Cancelled: 1})
	require.NoError(t, h.finish(nil))
}

// G03, G83, I1: whatever way fn ends, the slot comes back, and a panic reaches the caller as it was.
func TestBulkheadFreesTheSlotHoweverFnEnds(t *testing.T) {
	for name, fn := range map[string]func(context.Context) error{
		"nil":    ok,
		"error":  bad,
		"panic":  func(context.Context) error { panic(errBoom) },
		"Goexit": func(context.Context) error { runtime.Goexit(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			b := bh(t, 1)
			var recovered any
			returned := false
			onItsOwn(func() {
				defer func() { recovered = recover() }()
				_ = do(b, fn)
				returned = true
			})
			assert.Equal(t, name == "nil" || name == "error", returned)
			if name == "panic" {
				assert.Equal(t, errBoom, recovered)
			} else {
				assert.Nil(t, recovered)
			}
			wantQuiet(t, b, 1)
		})
	}
}

// G96, B81: a slot is taken until fn has returned, though its context ended long ago.
func TestBulkheadHoldsTheSlotUntilFnReturns(t *testing.T) {
	b := bh(t, 1, noWait())
	ctx, cancel := context.WithCancel(t.Context())
	h := hold(t, seawall.PolicyFunc(func(_ context.Context, fn func(context.Context) error) error { return b.Do(ctx, fn) }))
	cancel()
	for range 100 {
		wantRejectedBy(t, b)
	}
	assert.Equal(t, 1, b.Snapshot().InFlight)
	require.NoError(t, h.finish(nil))
	require.NoError(t, do(b, ok))
}

// G95, I2: of 64 calls at once exactly as many get in as there are slots.
func TestBulkheadNeverExceedsItsLimit(t *testing.T) {
	const limit, calls = 5, 64
	b := bh(t, limit, noWait())
	for range 300 {
		var inside, rejected atomic.Int32
		decided := make(chan struct{})
		var all sync.WaitGroup
		for range calls {
			all.Go(func() {
				err := do(b, func(context.Context) error {
					inside.Add(1)
					<-decided
					return nil
				})
				if err != nil {
					rejected.Add(1)
				}
			})
		}
		until(t, func() bool { return inside.Load()+rejected.Load() == calls })
		require.EqualValues(t, limit, inside.Load())
		close(decided)
		all.Wait()
	}
	wantTotals(t, b, seawall.BulkheadTotals{Admitted: 300 * limit, RejectedFull: 300 * (calls - limit)})
}

// B30, for the bulkhead: as many calls as there are slots are inside of fn at the same time.
func TestBulkheadRunsCallsSideBySide(t *testing.T) {
	b := bh(t, 5)
	var calls []*held
	for range 5 {
		calls = append(calls, hold(t, b)) // Hangs if one has to wait for another.
	}
	assert.Equal(t, 5, b.Snapshot().InFlight)
	for _, h := range calls {
		require.NoError(t, h.finish(nil))
	}
	wantQuiet(t, b, 5)
}

// G143: a call that asks for a second slot is no special case: it is rejected, or waits until its context ends.
func TestBulkheadIsNotReentrant(t *testing.T) {
	again := func(b *seawall.Bulkhead) func(context.Context) error {
		return func(ctx context.Context) error { return b.Do(ctx, ok) }
	}
	t.Run("without waiting", func(t *testing.T) {
		b := bh(t, 1, noWait())
		require.ErrorIs(t, do(b, again(b)), seawall.ErrBulkheadFull)
		wantTotals(t, b, seawall.BulkheadTotals{Admitted: 1, RejectedFull: 1})
	})
	t.Run("with waiting", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := bh(t, 1)
			ctx, cancel := context.WithTimeout(t.Context(), maxWait)
			defer cancel()
			err := b.Do(ctx, again(b))
			require.ErrorIs(t, err, seawall.ErrBulkheadFull)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			wantQuiet(t, b, 1)
		})
	})
	t.Run("with a slot left", func(t *testing.T) {
		b := bh(t, 2)
		require.NoError(t, do(b, again(b)))
		wantQuiet(t, b, 2)
	})
}

// I8: inside of fn every method of the bulkhead may be called.
func TestBulkheadMethodsMayBeCalledInsideFn(t *testing.T) {
	b := bh(t, 1, noWait())
	err := do(b, func(ctx context.Context) error {
		assert.Equal(t, "bh", b.Name())
		assert.Equal(t, 1, b.Limit())
		assert.Equal(t, 1, b.Snapshot().InFlight)
		require.NoError(t, b.SetLimit(2))
		release, err := b.Acquire(ctx)
		require.NoError(t, err)
		release()
		return b.Do(ctx, bad)
	})
	require.ErrorIs(t, err, errBoom)
	wantQuiet(t, b, 2)
}

// Acquire and release.

// I1: release counts once, from whatever goroutine, however often and however many at once.
func TestBulkheadReleaseCountsOnce(t *testing.T) {
	b := bh(t, 2, noWait())
	other := hold(t, b)
	release, err := b.Acquire(t.Context())
	require.NoError(t, err)
	wantRejectedBy(t, b)

	var all sync.WaitGroup
	for range 10 {
		all.Go(release)
	}
	all.Wait()
	release()
	assert.Equal(t, 1, b.Snapshot().InFlight, "the other call's slot was given back too")

	again, err := b.Acquire(t.Context())
	require.NoError(t, err)
	release()
	assert.Equal(t, 2, b.Snapshot().InFlight, "a later call's slot was given back")
	again()
	require.NoError(t, other.finish(nil))
	wantTotals(t, b, seawall.BulkheadTotals{Admitted: 3, RejectedFull: 1})
}

// What Do would reject Acquire rejects, for the same reasons, and there is nothing to release then.
func TestBulkheadAcquireIsRejectedAsDoIs(t *testing.T) {
	b := bh(t, 1, noWait())
	release, err := b.Acquire(cancelled(errBoom))
	require.ErrorIs(t, err, seawall.ErrRejected)
	require.ErrorIs(t, err, errBoom)
	assert.Nil(t, release)

	h := hold(t, b)
	release, err = b.Acquire(t.Context())
	require.ErrorIs(t, err, seawall.ErrBulkheadFull)
	assert.Nil(t, release)
	require.NoError(t, h.finish(nil))
	wantTotals(t, b, seawall.BulkheadTotals{Admitted: 1, RejectedFull: 1, Cancelled: 1})
}

// A call that waits for a slot may get it by Acquire too, and holds it when the one before has gone.
func TestBulkheadAcquireWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bh(t, 1)
		h := hold(t, b)
		var release func()
		go func() { release, _ = b.Acquire(t.Context()) }()
		synctest.Wait()
		assert.Nil(t, release)
		require.NoError(t, h.finish(nil))
		synctest.Wait()
		require.NotNil(t, release)
		assert.Equal(t, 1, b.Snapshot().InFlight)
		release()
		wantQuiet(t, b, 1)
	})
}

// The queue.

// A call waits for as long as MaxWait allows and not a nanosecond longer, on whatever clock. Part of B53: the wait
// heeds the injected clock, as real time hardly passes here.
func TestBulkheadWaitsNoLongerThanMaxWait(t *testing.T) {
	test := func(t *testing.T, b *seawall.Bulkhead, advance func(time.Duration)) {
		t.Helper()
		h := hold(t, b)
		q := queue(t.Context(), t, b)
		advance(maxWait - ns)
		q.wantWaiting(t)
		advance(ns)
		assert.Equal(t, seawall.FullError{Name: "bh", Limit: 1, Waited: maxWait}, *q.wantFull(t))
		require.NoError(t, h.finish(nil))
		wantTotals(t, b, seawall.BulkheadTotals{Admitted: 1, RejectedTimeout: 1, Waited: maxWait})
		wantQuiet(t, b, 1)
	}
	t.Run("fake", func(t *testing.T) {
		clk := newClock()
		test(t, bh(t, 1, seawall.WithMaxWait(maxWait), seawall.WithClock(clk)), clk.Advance)
	})
	t.Run("mock", func(t *testing.T) { // Nothing but the clock has to be given to it.
		mock := clock.NewMock()
		test(t, bh(t, 1, seawall.WithMaxWait(maxWait), seawall.WithClock(mock)), mock.Add)
	})
	t.Run("default", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			test(t, bh(t, 1, seawall.WithMaxWait(maxWait)), func(d time.Duration) { time.Sleep(d); synctest.Wait() })
		})
	})
}

// A slot that comes one nanosecond before the wait is over comes in time.
func TestBulkheadWaiterGetsTheSlotThatComesInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bh(t, 1, seawall.WithMaxWait(maxWait))
		h := hold(t, b)
		q := queue(t.Context(), t, b)
		time.Sleep(maxWait - ns)
		require.NoError(t, h.finish(nil))
		q.wantRun(t)
		wantTotals(t, b, seawall.BulkheadTotals{Admitted: 2, Waited: maxWait - ns})
	})
}

// Without WithMaxWait a call waits for as long as its context lets it.
func TestBulkheadWaitsForEverByDefault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bh(t, 1)
		h := hold(t, b)
		q := queue(t.Context(), t, b)
		time.Sleep(365 * 24 * time.Hour)
		q.wantWaiting(t)
		require.NoError(t, h.finish(nil))
		q.wantRun(t)
	})
}

// B80: the queue has a bound of its own, apart from the limit; who finds it full is rejected at once.
func TestBulkheadRefusesWhenTheQueueIsFull(t *testing.T) {
	b := bh(t, 2, seawall.WithMaxQueue(3))
	running := []*held{hold(t, b), hold(t, b)}
	ctx, cancel := context.WithCancel(t.Context())
	leaver := queue(ctx, t, b)
	waiting := []*queued{queue(t.Context(), t, b), queue(t.Context(), t, b)}

	assert.Equal(t, seawall.FullError{Name: "bh", Limit: 2}, *wantRejectedBy(t, b), "the sixth call")
	cancel()
	leaver.wantFull(t)
	waiting = append(waiting, queue(t.Context(), t, b)) // A place that was left is free again.
	wantRejectedBy(t, b)

	for _, h := range running {
		require.NoError(t, h.finish(nil))
	}
	for _, q := range waiting {
		q.wantRun(t)
	}
	wantQuiet(t, b, 2)
}

// B80: nothing is added to the largest bound that there is.
func TestBulkheadQueueMayBeUnlimited(t *testing.T) {
	const most = int(^uint(0) >> 1)
	b := bh(t, 1, seawall.WithMaxQueue(most))
	assert.Equal(t, most, b.Snapshot().MaxQueue)
	h := hold(t, b)
	q := queue(t.Context(), t, b)
	require.NoError(t, h.finish(nil))
	q.wantRun(t)
}

// Neither bound needs the other: no queue means no wait, and no wait means no queue.
func TestBulkheadDoesNotQueueWhereEitherBoundIsZero(t *testing.T) {
	for name, opts := range map[string][]seawall.BulkheadOption{
		"no wait":                   {noWait()},
		"no queue":                  {seawall.WithMaxQueue(0)},
		"no wait in a queue of 5":   {noWait(), seawall.WithMaxQueue(5)},
		"a wait of 1 h in no queue": {seawall.WithMaxWait(time.Hour), seawall.WithMaxQueue(0)},
	} {
		t.Run(name, func(t *testing.T) {
			b := bh(t, 1, opts...)
			h := hold(t, b)
			assert.Zero(t, wantRejectedBy(t, b).Waited)
			require.NoError(t, h.finish(nil))
			wantTotals(t, b, seawall.BulkheadTotals{Admitted: 1, RejectedFull: 1})
		})
	}
}

// Waiters are served in order of arrival. Each holds the slot until all is looked at, so that only one has it.
func TestBulkheadServesFirstComeFirstServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bh(t, 1)
		type turn struct {
			number  int
			release func()
		}
		served := make(chan turn)
		now, err := b.Acquire(t.Context())
		require.NoError(t, err)
		for i := range 50 {
			go func() {
				release, err := b.Acquire(t.Context())
				assert.NoError(t, err)
				served <- turn{i, release}
			}()
			synctest.Wait()
		}
		for i := range 50 {
			now()
			next := <-served
			require.Equal(t, i, next.number)
			now = next.release
		}
		now()
		wantQuiet(t, b, 1)
	})
}

// A newcomer does not overtake who waits: the slot that comes back goes to the queue, although the newcomer asks
// first thing.
func TestBulkheadNewcomersDoNotOvertake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bh(t, 1, seawall.WithMaxQueue(1))
		h := hold(t, b)
		var order []string
		call := func(name string) func(context.Context) error {
			return func(context.Context) error { order = append(order, name); return nil }
		}
		waited := make(chan error, 1)
		go func() { waited <- do(b, call("waiter")) }()
		synctest.Wait()
		h.end <- nil
		for do(b, call("newcomer")) != nil { // Rejected as long as the waiter is in the queue.
			runtime.Gosched()
		}
		require.NoError(t, <-waited)
		require.NoError(t, <-h.done)
		assert.Equal(t, []string{"waiter", "newcomer"}, order)
	})
}

// G93, G111, B88: the end of the context ends the wait at once. The error says both that there was no slot and what
// ended the wait; the place in the queue is free again, and no slot is lost.
func TestBulkheadWaitEndsWithTheContext(t *testing.T) {
	for name, test := range map[string]struct {
		start   func(ctx context.Context) (context.Context, context.CancelFunc)
		matches []error
		cause   error
	}{
		"deadline": {
			start: func(ctx context.Context) (context.Context, context.CancelFunc) {
				return context.WithTimeout(ctx, maxWait)
			},
			matches: []error{context.DeadlineExceeded},
			cause:   context.DeadlineExceeded,
		},
		"deadline with a cause": {
			start: func(ctx context.Context) (context.Context, context.CancelFunc) {
				return context.WithTimeoutCause(ctx, maxWait, errBoom)
			},
			matches: []error{context.DeadlineExceeded, errBoom},
			cause:   errBoom,
		},
		"cancel": {
			start: func(ctx context.Context) (context.Context, context.CancelFunc) {
				ctx, cancel := context.WithCancel(ctx)
				time.AfterFunc(maxWait, cancel)
				return ctx, cancel
			},
			matches: []error{context.Canceled},
			cause:   context.Canceled,
		},
		"cancel with a cause": {
			start: func(ctx context.Context) (context.Context, context.CancelFunc) {
				ctx, cancel := context.WithCancelCause(ctx)
				time.AfterFunc(maxWait, func() { cancel(errBoom) })
				return ctx, func() { cancel(nil) }
			},
			matches: []error{context.Canceled, errBoom},
			cause:   errBoom,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := bh(t, 1)
				h := hold(t, b)
				ctx, cancel := test.start(t.Context())
				defer cancel()
				q := queue(ctx, t, b)
				time.Sleep(maxWait - ns)
				synctest.Wait()
				q.wantWaiting(t)
				time.Sleep(ns)

				full := q.wantFull(t)
				for _, target := range test.matches {
					require.ErrorIs(t, full, target)
				}
				assert.Equal(t, maxWait, full.Waited)
				assert.Equal(t, test.cause, full.Cause)
				assert.Zero(t, b.Snapshot().Waiting)
				require.NoError(t, h.finish(nil))
				wantTotals(t, b, seawall.BulkheadTotals{Admitted: 1, Cancelled: 1, Waited: maxWait})
				wantQuiet(t, b, 1)
			})
		})
	}
}

// G91, in the queue: a context that is done by the time the slot comes wins over the slot, which the next one gets.
func TestBulkheadContextThatEndsAsTheSlotComesWins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bh(t, 1)
		h := hold(t, b)
		ctx := &lateCtx{Context: t.Context()}
		late := queue(ctx, t, b)
		synctest.Wait() // Now it is in front.
		next := queue(t.Context(), t, b)
		time.Sleep(maxWait)
		ctx.end()
		require.NoError(t, h.finish(nil))

		full := late.wantFull(t)
		require.ErrorIs(t, full, context.Canceled)
		assert.Equal(t, maxWait, full.Waited)
		next.wantRun(t)
		wantTotals(t, b, seawall.BulkheadTotals{Admitted: 2, Cancelled: 1, Waited: 2 * maxWait})
		wantQuiet(t, b, 1)
	})
}

// G81: a wait that succeeds leaves no timer behind. Each of these was allowed to wait for an hour.
func TestBulkheadWaitsLeaveNoTimersBehind(t *testing.T) {
	const calls = 20_000
	clk := &countingClock{}
	b := bh(t, 1, seawall.WithMaxWait(time.Hour), seawall.WithClock(clk))
	before := heap()
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			for clk.alarms.Load() < calls {
				_ = do(b, func(context.Context) error { runtime.Gosched(); return nil })
			}
		})
	}
	all.Wait()
	assert.Less(t, heap()-before, int64(1<<20), "bytes that %d waits left behind", calls)
}

// countingClock is the default clock, and counts what is asked of it.
type countingClock struct {
	bubbleClock
	alarms atomic.Int64
}

func (c *countingClock) After(d time.Duration) <-chan time.Time {
	c.alarms.Add(1)
	return c.bubbleClock.After(d)
}

// heap returns how many bytes are in use.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// A clock that steps back while calls wait makes no wait negative, and none of the totals falls.
func TestBulkheadClockThatStepsBackMakesNoWaitNegative(t *testing.T) {
	clk := newClock()
	b := bh(t, 1, seawall.WithClock(clk), seawall.WithMaxWait(time.Hour))
	h := hold(t, b)
	q := queue(t.Context(), t, b)
	clk.Advance(-time.Minute)
	require.NoError(t, h.finish(nil))
	q.wantRun(t)
	assert.Zero(t, b.Snapshot().Totals.Waited)
}

// SetLimit.

// B83: lowering the limit returns at once and stops nobody; new calls start when few enough run. Raising it lets
// waiters in at once.
func TestBulkheadSetLimit(t *testing.T) {
	b := bh(t, 3, seawall.WithMaxQueue(2))
	first, second := hold(t, b), hold(t, b)
	require.NoError(t, b.SetLimit(1))
	assert.Equal(t, 1, b.Limit())
	assert.Equal(t, 2, b.Snapshot().InFlight, "more than the limit, for a while")

	waiting := []*queued{queue(t.Context(), t, b), queue(t.Context(), t, b)}
	assert.Equal(t, 1, wantRejectedBy(t, b).Limit)
	require.NoError(t, first.finish(nil))
	for _, q := range waiting {
		q.wantWaiting(t)
	}
	assert.Equal(t, 1, b.Snapshot().InFlight)
	assert.Equal(t, 2, b.Snapshot().Waiting)

	require.NoError(t, b.SetLimit(5))
	for _, q := range waiting {
		q.wantRun(t)
	}
	require.NoError(t, second.finish(nil))
	wantQuiet(t, b, 5)
}

// Slots in use beyond the limit are a debt that releases pay one by one, and that a higher limit forgives.
func TestBulkheadSetLimitKeepsDebt(t *testing.T) {
	b := bh(t, 4, noWait())
	var calls []*held
	start := func() { t.Helper(); calls = append(calls, hold(t, b)) }
	finish := func() { t.Helper(); require.NoError(t, calls[0].finish(nil)); calls = calls[1:] }
	inFlight := func(want int) { t.Helper(); assert.Equal(t, want, b.Snapshot().InFlight) }
	for range 4 {
		start()
	}
	require.NoError(t, b.SetLimit(2))
	require.NoError(t, b.SetLimit(1)) // Three too many.
	inFlight(4)
	finish()
	wantRejectedBy(t, b)
	finish()
	wantRejectedBy(t, b) // Still one too many.
	inFlight(2)
	require.NoError(t, b.SetLimit(3)) // Forgives it, and gives one more.
	start()
	wantRejectedBy(t, b)
	inFlight(3)
	require.NoError(t, b.SetLimit(2))
	require.NoError(t, b.SetLimit(3)) // And back: nothing gained, nothing lost.
	wantRejectedBy(t, b)
	for range 3 {
		finish()
	}
	wantQuiet(t, b, 3)
}

// A limit that is not legal changes nothing.
func TestBulkheadSetLimitRefusesWhatIsNotLegal(t *testing.T) {
	b := bh(t, 2)
	for _, n := range []int{0, -1, 1<<20 + 1, -1 << 31} {
		want := fmt.Sprintf("seawall: SetLimit: limit %d must be from 1 to 1048576", n)
		require.EqualError(t, b.SetLimit(n), want)
	}
	wantQuiet(t, b, 2)
}

// The largest limit works, and so does the way there and back with calls in flight.
func TestBulkheadSetLimitToTheMostAndBack(t *testing.T) {
	b := bh(t, 1)
	first := hold(t, b)
	require.NoError(t, b.SetLimit(1<<20))
	second := hold(t, b)
	require.NoError(t, b.SetLimit(1))
	assert.Equal(t, 2, b.Snapshot().InFlight)
	require.NoError(t, first.finish(nil))
	require.NoError(t, second.finish(nil))
	wantQuiet(t, b, 1)
}

// Numbers.

// B70, I3: whatever becomes of a call, exactly one counter says so.
func TestBulkheadEachCallMovesOneCounter(t *testing.T) {
	waiting := seawall.WithMaxWait(maxWait)
	for name, test := range map[string]struct {
		opts []seawall.BulkheadOption
		full bool
		call func(t *testing.T, b *seawall.Bulkhead, h *held) error
		want seawall.BulkheadTotals
	}{
		"admitted at once": {
			call: func(_ *testing.T, b *seawall.Bulkhead, _ *held) error { return do(b, ok) },
			want: seawall.BulkheadTotals{Admitted: 1},
		},
		"admitted, and failed": {
			call: func(_ *testing.T, b *seawall.Bulkhead, _ *held) error { return do(b, bad) },
			want: seawall.BulkheadTotals{Admitted: 1},
		},
		"admitted after a wait": {
			full: true,
			call: func(t *testing.T, b *seawall.Bulkhead, h *held) error {
				q := queue(t.Context(), t, b)
				time.Sleep(maxWait)
				require.NoError(t, h.finish(nil))
				return <-q.done
			},
			want: seawall.BulkheadTotals{Admitted: 1, Waited: maxWait},
		},
		"full": {
			opts: []seawall.BulkheadOption{noWait()}, full: true,
			call: func(_ *testing.T, b *seawall.Bulkhead, _ *held) error { return do(b, ok) },
			want: seawall.BulkheadTotals{RejectedFull: 1},
		},
		"queue full": {
			opts: []seawall.BulkheadOption{seawall.WithMaxQueue(0)}, full: true,
			call: func(_ *testing.T, b *seawall.Bulkhead, _ *held) error { return do(b, ok) },
			want: seawall.BulkheadTotals{RejectedFull: 1},
		},
		"waited in vain": {
			opts: []seawall.BulkheadOption{waiting}, full: true,
			call: func(_ *testing.T, b *seawall.Bulkhead, _ *held) error { return do(b, ok) },
			want: seawall.BulkheadTotals{RejectedTimeout: 1, Waited: maxWait},
		},
		"context done before": {
			call: func(_ *testing.T, b *seawall.Bulkhead, _ *held) error { return b.Do(cancelled(nil), ok) },
			want: seawall.BulkheadTotals{Cancelled: 1},
		},
		"context ended in the queue": {
			full: true,
			call: func(t *testing.T, b *seawall.Bulkhead, _ *held) error {
				ctx, cancel := context.WithTimeout(t.Context(), maxWait)
				defer cancel()
				return b.Do(ctx, ok)
			},
			want: seawall.BulkheadTotals{Cancelled: 1, Waited: maxWait},
		},
		"context ended as the slot came": {
			full: true,
			call: func(t *testing.T, b *seawall.Bulkhead, h *held) error {
				ctx := &lateCtx{Context: t.Context()}
				q := queue(ctx, t, b)
				ctx.end()
				require.NoError(t, h.finish(nil))
				return <-q.done
			},
			want: seawall.BulkheadTotals{Cancelled: 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := bh(t, 1, test.opts...)
				var h *held
				if test.full {
					h = hold(t, b)
					test.want.Admitted++
				}
				err := test.call(t, b, h)
				wantTotals(t, b, test.want)
				rejected := test.want.RejectedFull+test.want.RejectedTimeout+test.want.Cancelled > 0
				assert.Equal(t, rejected, errors.Is(err, seawall.ErrRejected), "%v", err)
				if b.Snapshot().InFlight > 0 {
					require.NoError(t, h.finish(nil))
				}
			})
		})
	}
}

func wantTotals(t testing.TB, b *seawall.Bulkhead, want seawall.BulkheadTotals) {
	t.Helper()
	assert.Equal(t, want, b.Snapshot().Totals)
}

// G101, B71: limit, calls in flight and calls that wait can be read, and are those of the moment.
func TestBulkheadSnapshot(t *testing.T) {
	b := bh(t, 2, seawall.WithMaxQueue(3))
	assert.Equal(t, seawall.BulkheadSnapshot{Name: "bh", Limit: 2, MaxQueue: 3}, b.Snapshot())
	running := []*held{hold(t, b), hold(t, b)}
	waiting := []*queued{queue(t.Context(), t, b), queue(t.Context(), t, b), queue(t.Context(), t, b)}
	for range 100 {
		wantRejectedBy(t, b)
	}
	assert.Equal(t, seawall.BulkheadSnapshot{
		Name: "bh", Limit: 2, InFlight: 2, Waiting: 3, MaxQueue: 3,
		Totals: seawall.BulkheadTotals{Admitted: 2, RejectedFull: 100},
	}, b.Snapshot())

	for _, h := range running {
		require.NoError(t, h.finish(nil))
	}
	for _, q := range waiting {
		q.wantRun(t)
	}
	last := b.Snapshot()
	assert.Zero(t, last.InFlight, "in flight, with no further call")
	assert.Zero(t, last.Waiting)
	assert.EqualValues(t, 5, last.Totals.Admitted)
	assert.Positive(t, last.Totals.Waited)
	assert.Equal(t, -1, bh(t, 1).Snapshot().MaxQueue, "a queue without a bound")
}

// The names in JSON are for dashboards; they are snake_case, durations end in _ns.
func TestBulkheadSnapshotAsJSON(t *testing.T) {
	text, err := json.Marshal(seawall.BulkheadSnapshot{
		Name: "payments", Limit: 1, InFlight: 2, Waiting: 3, MaxQueue: -1,
		Totals: seawall.BulkheadTotals{Admitted: 4, RejectedFull: 5, RejectedTimeout: 6, Cancelled: 7, Waited: 8},
	})
	require.NoError(t, err)
	assert.JSONEq(t, `{
		"name": "payments", "limit": 1, "in_flight": 2, "waiting": 3, "max_queue": -1,
		"totals": {"admitted": 4, "rejected_full": 5, "rejected_timeout": 6, "cancelled": 7, "waited_ns": 8}
	}`, string(text))
}

// Misuse.

// A Bulkhead that NewBulkhead did not make says so, whatever is asked of it.
func TestBulkheadThatWasNotMadePanics(t *testing.T) {
	for name, b := range map[string]*seawall.Bulkhead{"nil": nil, "zero": {}} {
		t.Run(name, func(t *testing.T) {
			for name, use := range map[string]func(){
				"Do":       func() { _ = do(b, ok) },
				"Acquire":  func() { _, _ = b.Acquire(t.Context()) },
				"Name":     func() { _ = b.Name() },
				"Limit":    func() { _ = b.Limit() },
				"SetLimit": func() { _ = b.SetLimit(1) },
				"Snapshot": func() { _ = b.Snapshot() },
			} {
				assert.PanicsWithValue(t, "seawall: use of a Bulkhead that was not made by NewBulkhead", use, name)
			}
		})
	}
}

// A nil context or function is a mistake that no caller could handle: it panics before anything is counted.
func TestBulkheadPanicsOnNil(t *testing.T) {
	b := bh(t, 1)
	assert.PanicsWithValue(t, "seawall: nil Context", func() { _ = b.Do(nil, ok) })        //nolint:staticcheck // a nil ctx is the point
	assert.PanicsWithValue(t, "seawall: nil Context", func() { _, _ = b.Acquire(nil) })    //nolint:staticcheck // a nil ctx is the point
	assert.PanicsWithValue(t, "seawall: nil fn", func() { _ = b.Do(t.Context(), nil) })    //
	assert.PanicsWithValue(t, "seawall: nil fn", func() { _ = b.Do(cancelled(nil), nil) }) // Before the context is looked at.
	wantTotals(t, b, seawall.BulkheadTotals{})
	wantQuiet(t, b, 1)
}

// Costs.

// A call that finds a slot allocates nothing, nor does one that is rejected at once.
func TestBulkheadAllocatesNothing(t *testing.T) {
	ctx := t.Context()
	b := bh(t, 1, noWait())
	assert.Zero(t, testing.AllocsPerRun(1000, func() { _ = b.Do(ctx, ok) }), "free")
	h := hold(t, b)
	assert.Zero(t, testing.AllocsPerRun(1000, func() { _ = b.Do(ctx, ok) }), "full")
	require.NoError(t, h.finish(nil))

	b = bh(t, 1, seawall.WithMaxQueue(0))
	h = hold(t, b)
	assert.Zero(t, testing.AllocsPerRun(1000, func() { _ = b.Do(ctx, ok) }), "queue full")
	require.NoError(t, h.finish(nil))
}

// lateSlotClock frees a slot when a call is about to wait: after it found none, and before it is in line.
type lateSlotClock struct{ free func() }

func (c *lateSlotClock) Now() time.Time { return time.Unix(0, 0) }

func (c *lateSlotClock) After(time.Duration) <-chan time.Time {
	c.free()
	return nil
}

// A slot that is freed between a call's first look and its place in line is the call's, which does not wait then.
func TestBulkheadSlotThatIsFreedBeforeTheWait(t *testing.T) {
	clk := &lateSlotClock{}
	b := seawall.Must(seawall.NewBulkhead("", 1, seawall.WithMaxWait(time.Hour), seawall.WithClock(clk)))
	release, err := b.Acquire(t.Context())
	require.NoError(t, err)
	clk.free = release
	_, err = b.Acquire(t.Context())
	require.NoError(t, err)
	assert.Equal(t, seawall.BulkheadTotals{Admitted: 2}, b.Snapshot().Totals)
	assert.Equal(t, 1, b.Snapshot().InFlight)
}
