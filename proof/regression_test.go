package proof_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seawall-go/seawall"
)

// What the searches found, as stories of their own.

// A success that came while a failure was being booked had ended the row of failures, and yet was not among the calls
// that the rate was taken of: neither rule was met, though each is if the two calls end one after the other, in
// whichever order. Found by TestLinearizable.
func TestRegressionSuccessBesideTheDecidingFailure(t *testing.T) {
	ctx := context.Background()
	rounds := scaled(100_000, 1_000_000)
	for range rounds {
		b := seawall.Must(seawall.NewBreaker("", seawall.WithFailureRate(0.5, 3), seawall.WithConsecutiveFailures(2)))
		_ = b.Do(ctx, boom)
		var ready, done sync.WaitGroup
		ready.Add(2)
		for _, fn := range []func(context.Context) error{boom, nothing} {
			done.Go(func() {
				_ = b.Do(ctx, func(ctx context.Context) error {
					ready.Done()
					ready.Wait() // Both are admitted and end together.
					return fn(ctx)
				})
			})
		}
		done.Wait()
		s := b.Snapshot()
		require.Equal(t, seawall.Open, s.State, "F, F beside S: %+v", s)
		c := b.History()[0]
		require.Equal(t, c.Calls-c.Failures, s.Totals.Successes, "the counts that decided are of all calls before the edge: %+v", c)
	}
}

// A Snapshot of a breaker that counts the last n calls showed n successes if one came while it was being taken. Found by
// reading.
func TestRegressionSnapshotOfACountWindowBesideSuccesses(t *testing.T) {
	ctx := context.Background()
	const failures, successes = 1000, 500
	for range scaled(100, 1000) {
		b := seawall.Must(seawall.NewBreaker("", seawall.WithConsecutiveFailures(1<<20), seawall.WithCountWindow(failures)))
		for range failures {
			_ = b.Do(ctx, boom)
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			for range successes {
				_ = b.Do(ctx, nothing)
			}
		})
		for last := uint64(0); last < successes; {
			s := b.Snapshot()
			require.EqualValues(t, failures, s.Calls)
			require.GreaterOrEqual(t, s.Failures, uint64(failures-successes))
			require.GreaterOrEqual(t, s.Totals.Successes, last)
			require.Equal(t, failures-s.Failures, s.Totals.Successes, "window and totals are of the same sums")
			last = s.Totals.Successes
		}
		wg.Wait()
	}
}
