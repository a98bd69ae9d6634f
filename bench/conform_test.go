package bench

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// The peers that leak are named here: nothing stops the timer of an eapache
// breaker that opened, the goroutine of a mercari breaker, or what go-zero
// starts when it is imported.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/eapache/go-resiliency/breaker.(*Breaker).timer"),
		goleak.IgnoreAnyFunction("github.com/mercari/go-circuitbreaker.(*stateClosed).onEntry.func1"),
		goleak.IgnoreAnyFunction("github.com/zeromicro/go-zero/core/proc.init.1.func1"),
		goleak.IgnoreAnyFunction("github.com/zeromicro/go-zero/core/stat.init.1.func1"),
	)
}

// The comparison is fair only if all breakers stay closed and trip alike. A
// row that doesn't must say so in the table, and one that says so must differ;
// cmd/ratios prints the attribute under its tables.
func TestBreakersStayClosedAtOnePercentAndTripAtHalf(t *testing.T) {
	for _, i := range impls() {
		if i.breaker == nil || i.isFloor() {
			continue
		}
		t.Run("impl="+i.name, func(t *testing.T) {
			stays, trips := staysClosed(i.breaker(alike())), tripsAtHalf(i.breaker(alike()))
			if i.deviates == "" {
				assert.True(t, stays, "trips at 1 %% failures")
				assert.True(t, trips, "does not trip exactly at 10 failures of 20 calls")
				if i.remark != "" {
					t.Attr("remark", i.remark)
				}
				return
			}
			assert.False(t, stays && trips, "the table says that it %s, but it behaves like the others", i.deviates)
			t.Attr("deviates", i.deviates)
		})
	}
}

func TestStacksTripAndLimitLikeTheirParts(t *testing.T) {
	for _, i := range impls() {
		if i.stack == nil || i.isFloor() {
			continue
		}
		t.Run("impl="+i.name, func(t *testing.T) {
			if i.deviates == "" {
				assert.True(t, staysClosed(i.stack(1, 0)))
				assert.True(t, tripsAtHalf(i.stack(1, 0)))
			}
			synctest.Test(t, func(t *testing.T) {
				stack := i.stack(1, 0)
				release, admitted := hold(stack)
				require.True(t, admitted)
				second := make(chan error, 1)
				go func() { second <- stack(t.Context(), succeed) }()
				synctest.Wait()
				assert.Empty(t, second, "two calls ran at a limit of 1")
				release()
				assert.NoError(t, <-second)
			})
		})
	}
}

func TestBulkheadsRejectWhenFull(t *testing.T) {
	for _, i := range impls() {
		if i.bulkhead == nil || i.isFloor() {
			continue
		}
		t.Run("impl="+i.name, func(t *testing.T) {
			const limit = 4
			bulkhead := i.bulkhead(limit, false)
			tries := 1
			if i.deviates != "" {
				tries = 100
			}
			var releases []func()
			for range limit {
				release, admitted := holdWithin(tries, bulkhead)
				require.True(t, admitted)
				releases = append(releases, release)
			}
			assert.Error(t, bulkhead(t.Context(), succeed))
			releases[0]()
			releases[0], _ = holdWithin(tries, bulkhead)
			assert.Error(t, bulkhead(t.Context(), succeed), "a slot that was given back could not be taken")
			for _, release := range releases {
				release()
			}
		})
	}
}

// staysClosed reports whether d admits every call while one in a hundred fails.
func staysClosed(d do) bool {
	return admits(d, 5000, 100)
}

// tripsAtHalf reports whether d admits 20 calls of which every other fails,
// and then no more.
func tripsAtHalf(d do) bool {
	return admits(d, minCalls, 2) && !admits(d, 1, 0)
}

// admits reports whether d ran each of n calls, every failEvery-th failing.
func admits(d do, n, failEvery int) bool {
	c := caller{do: d, load: load{failEvery: failEvery}, ctx: context.Background()}
	for range n {
		c.call()
	}
	return c.wrong == 0
}
