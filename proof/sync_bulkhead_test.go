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

// The tests of this suite run in bubbles: time is exact in them and nobody waits for it.

func newBulkhead(limit int, opts ...seawall.BulkheadOption) *seawall.Bulkhead {
	return seawall.Must(seawall.NewBulkhead("", limit, opts...))
}

func sleeping(d time.Duration) func(context.Context) error {
	return func(context.Context) error { time.Sleep(d); return nil }
}

func nothing(context.Context) error { return nil }
func boom(context.Context) error    { return errBoom }

// requireIdle holds a bulkhead to invariant I1: with nothing running, exactly limit calls can be admitted.
func requireIdle(t *testing.T, b *seawall.Bulkhead) {
	t.Helper()
	s := b.Snapshot()
	require.Zero(t, s.InFlight, "in flight")
	require.Zero(t, s.Waiting, "waiting")
	var releases []func()
	for range s.Limit {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		release, err := b.Acquire(ctx)
		cancel()
		require.NoError(t, err, "slots that are free: %d of %d", len(releases), s.Limit)
		releases = append(releases, release)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	_, err := b.Acquire(ctx)
	require.ErrorIs(t, err, seawall.ErrBulkheadFull, "more slots than the limit of %d", s.Limit)
	for _, release := range releases {
		release()
	}
}

// I2, I25, I26: at most limit at once, a wait of at most the longest, first come first served.
func TestSyncBulkheadServesInOrderOfArrival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBulkhead(2, seawall.WithMaxWait(time.Second))
		var running crowd
		var order []int
		var mu sync.Mutex
		timedOut := 0
		var wg sync.WaitGroup
		for i := range 40 {
			wg.Go(func() {
				begin := time.Now()
				err := b.Do(t.Context(), func(context.Context) error {
					running.enter()
					defer running.leave()
					mu.Lock()
					order = append(order, i)
					mu.Unlock()
					time.Sleep(300 * time.Millisecond)
					return nil
				})
				if err == nil {
					return
				}
				mu.Lock()
				defer mu.Unlock()
				timedOut++
				assert.ErrorIs(t, err, seawall.ErrBulkheadFull)
				assert.Equal(t, time.Second, time.Since(begin), "the wait is exact")
				var full *seawall.FullError
				assert.ErrorAs(t, err, &full)
				assert.Equal(t, time.Second, full.Waited)
			})
			synctest.Wait() // So that the order of arrival is certain.
		}
		wg.Wait()
		assert.EqualValues(t, 2, running.most.Load())
		require.Len(t, order, 8, "four rounds of two start within the second")
		for i, arrived := range order {
			assert.Equal(t, i/2, arrived/2, "the two of a round wake at once: %v", order)
		}
		assert.Equal(t, 32, timedOut)
		requireIdle(t, b)
	})
}

// flipContext ends without a sound: nobody is told, only who looks again sees it. It makes certain what is otherwise
// a race, that a context ends at the very instant a token comes.
type flipContext struct {
	context.Context
	ended atomic.Bool
}

func (c *flipContext) Done() <-chan struct{} { return nil }

func (c *flipContext) Err() error {
	if c.ended.Load() {
		return context.Canceled
	}
	return nil
}

func TestSyncBulkheadContextEndsAsTheTokenComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBulkhead(1)
		release, err := b.Acquire(t.Context())
		require.NoError(t, err)
		ctx := &flipContext{Context: t.Context()}
		var got error
		go func() {
			got = b.Do(ctx, func(context.Context) error { t.Error("fn ran on a context that had ended"); return nil })
		}()
		synctest.Wait()
		require.Equal(t, 1, b.Snapshot().Waiting)
		ctx.ended.Store(true)
		release()
		synctest.Wait()
		require.ErrorIs(t, got, context.Canceled)
		require.ErrorIs(t, got, seawall.ErrBulkheadFull)
		requireIdle(t, b)
	})
}

// Everything at one instant: a token comes, the context ends, the longest wait is over. Each wins at times, and no token
// is lost.
func TestSyncBulkheadEverythingAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const wait = time.Second
		b := newBulkhead(1, seawall.WithMaxWait(wait))
		outcomes := map[string]int{}
		for i := range scaled(2000, 20000) {
			release, err := b.Acquire(t.Context())
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), wait*time.Duration(1+i%2))
			back := make(chan error)
			early := time.Duration(i/2) % 2
			go func() { time.Sleep(wait - early); release() }()
			go func() { back <- b.Do(ctx, nothing) }()
			err = <-back
			cancel()
			switch {
			case err == nil:
				outcomes["ran"]++
			case errors.Is(err, context.DeadlineExceeded):
				outcomes["ended"]++
			default:
				require.ErrorIs(t, err, seawall.ErrBulkheadFull)
				outcomes["waited too long"]++
			}
			synctest.Wait()
			require.Zero(t, b.Snapshot().InFlight)
		}
		requireIdle(t, b)
		assert.Len(t, outcomes, 3)
		figures(t, "%v, no token lost", outcomes)
	})
}

// G98, lost wake-ups: a waiter, a release and a cancellation race.
func TestSyncBulkheadRandomEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 2))
		b := newBulkhead(3, seawall.WithMaxWait(5*time.Millisecond), seawall.WithMaxQueue(5))
		var inside crowd
		var wg sync.WaitGroup
		for range scaled(20000, 200_000) {
			life, work := time.Duration(r.IntN(10))*time.Millisecond, time.Duration(r.IntN(4))*time.Millisecond
			how := []string{"", "", "", "panic", "goexit"}[r.IntN(5)]
			if r.IntN(50) == 0 {
				require.NoError(t, b.SetLimit(1+r.IntN(4)))
			}
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), life)
				defer cancel()
				apart(func() {
					_ = b.Do(ctx, func(context.Context) error {
						inside.enter()
						defer inside.leave()
						time.Sleep(work)
						if how != "" {
							die(how)
						}
						return nil
					})
				})
			})
			time.Sleep(time.Duration(r.IntN(2)) * time.Millisecond)
		}
		wg.Wait()
		require.LessOrEqual(t, inside.most.Load(), int64(4))
		s := b.Snapshot()
		requireIdle(t, b)
		figures(t, "%d admitted, %d full, %d timed out, %d cancelled, nothing lost", s.Totals.Admitted,
			s.Totals.RejectedFull, s.Totals.RejectedTimeout, s.Totals.Cancelled)
	})
}

func TestSyncBulkheadContextEndsInTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBulkhead(1)
		release, err := b.Acquire(t.Context())
		require.NoError(t, err)
		errCause := errors.New("the user left")
		ctx, cancel := context.WithTimeoutCause(t.Context(), 30*time.Millisecond, errCause)
		defer cancel()
		begin := time.Now()
		err = b.Do(ctx, func(context.Context) error { t.Error("ran"); return nil })
		require.Equal(t, 30*time.Millisecond, time.Since(begin))
		for _, target := range []error{seawall.ErrRejected, seawall.ErrBulkheadFull, context.DeadlineExceeded, errCause} {
			require.ErrorIs(t, err, target)
		}
		require.EqualValues(t, 1, b.Snapshot().Totals.Cancelled)
		release()
		requireIdle(t, b)
	})
}

// Every way out of fn gives the slot back and goes on to the caller. Design §4, I1.
func TestSyncBulkheadDeaths(t *testing.T) {
	for _, how := range []string{"panic", "goexit"} {
		synctest.Test(t, func(t *testing.T) {
			b := newBulkhead(1, seawall.WithMaxWait(0))
			for range 3 {
				returned := false
				got := apart(func() { _ = b.Do(t.Context(), func(context.Context) error { die(how); return nil }); returned = true })
				require.False(t, returned)
				if how == "panic" {
					require.Equal(t, any(how), got)
				} else {
					require.Nil(t, got)
				}
			}
			requireIdle(t, b)
		})
	}
}

// G96: a slot is held until fn has returned, whatever its context says.
func TestSyncBulkheadHoldsTheSlotUntilFnReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBulkhead(1, seawall.WithMaxWait(0))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		go func() { _ = b.Do(ctx, sleeping(time.Minute)) }()
		time.Sleep(time.Minute - 1)
		require.ErrorIs(t, b.Do(t.Context(), nothing), seawall.ErrBulkheadFull)
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		require.NoError(t, b.Do(t.Context(), nothing))
		requireIdle(t, b)
	})
}

func TestSyncBulkheadSetLimitWakesAndOwes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBulkhead(2)
		var mu sync.Mutex
		var order []int
		var releases []func()
		for i := range 6 {
			go func() {
				release, err := b.Acquire(t.Context())
				assert.NoError(t, err)
				mu.Lock()
				defer mu.Unlock()
				order, releases = append(order, i), append(releases, release)
			}()
			synctest.Wait()
		}
		require.NoError(t, b.SetLimit(4))
		synctest.Wait()
		require.ElementsMatch(t, []int{0, 1, 2, 3}, order, "both wake at once")
		require.NoError(t, b.SetLimit(1)) // Four run, so the next three that end owe their token.
		releaseFirst := func() {
			mu.Lock()
			first := releases[0]
			releases = releases[1:]
			mu.Unlock()
			first()
			synctest.Wait()
		}
		for range 3 {
			releaseFirst()
			require.Equal(t, 2, b.Snapshot().Waiting, "nobody may start while four, three or two run")
		}
		require.Equal(t, 1, b.Snapshot().InFlight)
		for range 3 {
			releaseFirst()
		}
		require.Equal(t, []int{4, 5}, order[4:])
		requireIdle(t, b)
	})
}

// G143: a bulkhead is not re-entrant, yet nothing is stuck for longer than its context.
func TestSyncBulkheadInsideItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBulkhead(1, seawall.WithMaxWait(0))
		require.NoError(t, b.Do(t.Context(), func(ctx context.Context) error {
			assert.ErrorIs(t, b.Do(ctx, nothing), seawall.ErrBulkheadFull)
			return nil
		}))
		requireIdle(t, b)

		b = newBulkhead(1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.NoError(t, b.Do(ctx, func(ctx context.Context) error {
			assert.ErrorIs(t, b.Do(ctx, nothing), context.DeadlineExceeded)
			return nil
		}))
		requireIdle(t, b)
	})
}

// B70: full, no place in the queue, waited too long, context ended: each has a counter of its own.
func TestSyncBulkheadCountsEachRefusalOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBulkhead(1, seawall.WithMaxWait(time.Second), seawall.WithMaxQueue(1))
		go func() { _ = b.Do(t.Context(), sleeping(time.Hour)) }()
		synctest.Wait()
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, b.Do(gone, nothing), seawall.ErrRejected)
		go func() { assert.ErrorIs(t, b.Do(t.Context(), nothing), seawall.ErrBulkheadFull) }()
		synctest.Wait()
		require.ErrorIs(t, b.Do(t.Context(), nothing), seawall.ErrBulkheadFull)
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, seawall.BulkheadTotals{
			Admitted: 1, RejectedFull: 1, RejectedTimeout: 1, Cancelled: 1, Waited: time.Second,
		}, b.Snapshot().Totals)
		time.Sleep(time.Hour)
	})
}
