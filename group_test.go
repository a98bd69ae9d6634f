package seawall_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seawall-go/seawall"
)

// More words for the tests of the Group.

// newGroup returns a Group of whatever policy makes.
func newGroup[K comparable, P seawall.Policy](
	t testing.TB, policy func(K) (P, error), opts ...seawall.GroupOption,
) *seawall.Group[K] {
	t.Helper()
	g, err := seawall.NewGroup(policy, opts...)
	require.NoError(t, err)
	return g
}

// hosts returns a Group that has a br for each host.
func hosts(t testing.TB, clk seawall.Clock, opts ...seawall.GroupOption) *seawall.Group[string] {
	t.Helper()
	return newGroup(t, func(host string) (*seawall.Breaker, error) {
		return seawall.NewBreaker(host,
			seawall.WithConsecutiveFailures(3), seawall.WithCooldown(cooldown), seawall.WithClock(clk))
	}, opts...)
}

// policyOf returns the policy of key, which must have one.
func policyOf[P seawall.Policy, K comparable](t testing.TB, g *seawall.Group[K], key K) P {
	t.Helper()
	p, ok := g.Get(key)
	require.True(t, ok, "%v has a policy", key)
	require.IsType(t, *new(P), p)
	return p.(P)
}

func breakerOf[K comparable](t testing.TB, g *seawall.Group[K], key K) *seawall.Breaker {
	t.Helper()
	return policyOf[*seawall.Breaker](t, g, key)
}

// wantMember makes a call for key and fails the test if it runs under the overflow policy.
func wantMember[K comparable](t testing.TB, g *seawall.Group[K], key K) {
	t.Helper()
	before := g.Snapshot().Overflow
	require.NoError(t, do(g.Policy(key), ok))
	require.Equal(t, before, g.Snapshot().Overflow, "%v has a place", key)
}

// wantOverflow is the opposite.
func wantOverflow[K comparable](t testing.TB, g *seawall.Group[K], key K) {
	t.Helper()
	before := g.Snapshot()
	require.NoError(t, do(g.Policy(key), ok))
	before.Overflow++
	require.Equal(t, before, g.Snapshot(), "%v has no place", key)
	_, found := g.Get(key)
	require.False(t, found, "%v has no place", key)
}

func keysOf[K comparable](g *seawall.Group[K]) []K {
	var keys []K
	for key := range g.All() {
		keys = append(keys, key)
	}
	return keys
}

// plain is a policy of the test's own. It is idle unless it is told otherwise.
type plain struct {
	key   int
	busy  atomic.Bool
	asked atomic.Int64
	onAsk func()
}

func (*plain) Do(ctx context.Context, fn func(context.Context) error) error { return fn(ctx) }

func (p *plain) Idle() bool {
	p.asked.Add(1)
	if p.onAsk != nil {
		p.onAsk()
	}
	return !p.busy.Load()
}

// parts is a policy of the test's own that consists of others.
type parts struct {
	seawall.Policy
	policies []seawall.Policy
}

func (p *parts) Policies() []seawall.Policy { return p.policies }

func newPlain(key int) (*plain, error) { return &plain{key: key}, nil }

// What it is for.

// G88: a breaker for each host in one line, and they don't suffer for each other.
func TestGroupHasOnePolicyForEachKey(t *testing.T) {
	g := hosts(t, newClock())
	for range 3 {
		require.ErrorIs(t, do(g.Policy("a"), bad), errBoom)
		require.NoError(t, g.Do(t.Context(), "b", ok))
	}
	wantState(t, breakerOf(t, g, "a"), seawall.Open)
	wantState(t, breakerOf(t, g, "b"), seawall.Closed)
	require.ErrorIs(t, g.Do(t.Context(), "a", ok), seawall.ErrOpen)
	assert.Equal(t, seawall.GroupSnapshot{Size: 2, MaxKeys: 1024}, g.Snapshot())
}

// The function may return any type of policy, also its own constructor's.
func TestGroupTakesEveryKindOfFunction(t *testing.T) {
	_, err := seawall.NewGroup(func(host string) (seawall.Policy, error) { return seawall.NewBreaker(host) })
	require.NoError(t, err)
	_, err = seawall.NewGroup(func(host string) (*seawall.Bulkhead, error) { return seawall.NewBulkhead(host, 8) })
	require.NoError(t, err)
	_, err = seawall.NewGroup(func(struct{ host, method string }) (seawall.PolicyFunc, error) {
		return func(ctx context.Context, fn func(context.Context) error) error { return fn(ctx) }, nil
	})
	require.NoError(t, err)
	_, err = seawall.NewGroup(newPlain)
	require.NoError(t, err)
}

// I10: fn runs on the caller's goroutine with the caller's context, and its error comes back as the same value.
func TestGroupRunsFnAndReturnsItsError(t *testing.T) {
	g := newGroup(t, newPlain)
	type mark struct{}
	ctx := context.WithValue(t.Context(), mark{}, 1)
	err := g.Do(ctx, 1, func(got context.Context) error {
		assert.Equal(t, ctx, got)
		return errBoom
	})
	wantSame(t, errBoom, err)
}

// G86, B96: two breakers for one name. All who ask for a new key at once get one policy, and it is made once.
func TestGroupMakesOnePolicyHoweverManyAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var made atomic.Int64
		proceed := make(chan struct{})
		g := newGroup(t, func(key string) (*seawall.Breaker, error) {
			if key != "" {
				made.Add(1)
				<-proceed
			}
			return seawall.NewBreaker(key)
		})
		policies := make(chan seawall.Policy, 100)
		for range cap(policies) {
			go func() {
				p, release, err := g.Acquire(t.Context(), "x")
				assert.NoError(t, err)
				release()
				policies <- p
			}()
		}
		synctest.Wait()
		assert.Empty(t, policies, "there is none yet")
		close(proceed)
		for range cap(policies) {
			p := <-policies
			assert.Same(t, breakerOf(t, g, "x"), p)
		}
		assert.EqualValues(t, 1, made.Load())
		assert.Equal(t, 1, g.Snapshot().Size)
	})
}

// While a policy is being made, calls for other keys go on, those that find theirs and those that don't.
func TestGroupMakesPoliciesWithoutStoppingOtherKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		proceed := make(chan struct{})
		g := newGroup(t, func(key int) (*plain, error) {
			if key == 1 {
				<-proceed
			}
			return newPlain(key)
		})
		wantMember(t, g, 2)
		done := make(chan error)
		go func() { done <- g.Do(t.Context(), 1, ok) }()
		synctest.Wait()
		wantMember(t, g, 2)
		wantMember(t, g, 3)
		assert.Equal(t, []int{2, 3}, keysOf(g))
		assert.Equal(t, 2, g.Snapshot().Size)
		_, found := g.Get(1)
		assert.False(t, found, "Get does not wait")
		close(proceed)
		require.NoError(t, <-done)
		assert.Equal(t, []int{2, 3, 1}, keysOf(g))
	})
}

// Making one.

func TestGroupRejectsBadOptions(t *testing.T) {
	var nilBreaker *seawall.Breaker
	for name, tt := range map[string]struct {
		opts []seawall.GroupOption
		want []string
	}{
		"nil":           {[]seawall.GroupOption{nil}, []string{"seawall: option 1 of the list is nil"}},
		"no keys":       {[]seawall.GroupOption{seawall.WithMaxKeys(0)}, []string{"seawall: WithMaxKeys: n 0 must be from 1 to 1048576"}},
		"too many keys": {[]seawall.GroupOption{seawall.WithMaxKeys(1<<20 + 1)}, []string{"seawall: WithMaxKeys: n 1048577 must be from 1 to 1048576"}},
		"no overflow":   {[]seawall.GroupOption{seawall.WithOverflow(nil)}, []string{"seawall: WithOverflow: the argument must not be nil"}},
		"nil breaker":   {[]seawall.GroupOption{seawall.WithOverflow(nilBreaker)}, []string{"seawall: WithOverflow: the argument must not be nil"}},
		"all at once, overridden or not": {
			[]seawall.GroupOption{seawall.WithMaxKeys(-1), seawall.WithOverflow(nil), nil, seawall.WithMaxKeys(5)},
			[]string{"n -1 must be", "WithOverflow", "option 3"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g, err := seawall.NewGroup(newPlain, tt.opts...)
			assert.Nil(t, g)
			for _, want := range tt.want {
				assert.ErrorContains(t, err, want)
			}
		})
	}
	for _, n := range []int{1, 1 << 20} {
		g, err := seawall.NewGroup(newPlain, seawall.WithMaxKeys(5), seawall.WithMaxKeys(n))
		require.NoError(t, err)
		assert.Equal(t, n, g.Snapshot().MaxKeys, "the last one holds")
	}
}

// What is wrong with the function comes out when the Group is made, beside what is wrong with the options.
func TestGroupTriesItsFunction(t *testing.T) {
	tooMany := seawall.WithMaxKeys(0)
	_, err := seawall.NewGroup[string, *seawall.Breaker](nil, tooMany)
	require.ErrorContains(t, err, "seawall: NewGroup: the policy function must not be nil")
	require.ErrorContains(t, err, "WithMaxKeys")

	_, err = seawall.NewGroup(func(host string) (seawall.Policy, error) {
		return seawall.NewBreaker(host, seawall.WithCooldown(-1)) // A Policy that is not nil, of a nil pointer.
	}, tooMany)
	require.ErrorContains(t, err, "seawall: NewGroup: the policy function fails for the zero key: seawall: WithCooldown: d -1ns must be above 0")
	require.ErrorContains(t, err, "WithMaxKeys")
	require.NotErrorIs(t, err, seawall.ErrRejected, "there was no call")

	_, err = seawall.NewGroup(func(string) (seawall.Policy, error) { return nil, errBoom })
	require.ErrorIs(t, err, errBoom)

	for name, nothing := range map[string]func(string) (seawall.Policy, error){
		"nil":         func(string) (seawall.Policy, error) { return nil, nil },
		"nil breaker": func(string) (seawall.Policy, error) { return (*seawall.Breaker)(nil), nil },
		"nil func":    func(string) (seawall.Policy, error) { return seawall.PolicyFunc(nil), nil },
	} {
		_, err := seawall.NewGroup(nothing)
		require.ErrorContains(t, err, "it returned neither a policy nor an error", name)
	}
	_, err = seawall.NewGroup(func(string) (*seawall.Breaker, error) { return nil, nil })
	require.ErrorContains(t, err, "it returned neither a policy nor an error")

	assert.PanicsWithValue(t, "boom", func() {
		_, _ = seawall.NewGroup(func(string) (seawall.Policy, error) { panic("boom") })
	})
}

// The trial leaves nothing behind: one call with the zero key, whose policy is not kept.
func TestGroupDiscardsTheTrial(t *testing.T) {
	var keys []string
	g := newGroup(t, func(key string) (seawall.Policy, error) {
		keys = append(keys, key)
		return seawall.Chain(), nil
	})
	assert.Equal(t, []string{""}, keys)
	assert.Empty(t, keysOf(g))
	wantMember(t, g, "")
	assert.Equal(t, []string{"", ""}, keys)
}

// Functions that fail.

type tenantError string

func (e tenantError) Error() string { return "unknown tenant " + string(e) }

// An error for one key is that call's: fn does not run, so it matches ErrRejected and a breaker further out takes it
// for no failure. It is not remembered.
func TestGroupReturnsTheErrorForAKey(t *testing.T) {
	known := map[string]bool{"": true}
	g := newGroup(t, func(tenant string) (*seawall.Breaker, error) {
		if !known[tenant] {
			return nil, tenantError(tenant)
		}
		return seawall.NewBreaker(tenant)
	}, seawall.WithMaxKeys(1))
	outer := newBreaker(t)
	var c counter
	for range 3 {
		err := do(seawall.Chain(outer, g.Policy("x")), c.fn)
		require.EqualError(t, err, "seawall: no policy for this key: unknown tenant x")
		require.ErrorIs(t, err, seawall.ErrRejected)
		require.ErrorIs(t, err, tenantError("x"))
		var typed tenantError
		require.ErrorAs(t, err, &typed)
		for _, other := range []error{seawall.ErrOpen, seawall.ErrBulkheadFull, seawall.ErrSlowCall, context.Canceled, context.DeadlineExceeded} {
			require.NotErrorIs(t, err, other)
		}
	}
	assert.Zero(t, c.count(), "fn must not run")
	assert.EqualValues(t, 3, outer.Snapshot().Totals.Ignored)
	p, release, err := g.Acquire(t.Context(), "x")
	require.ErrorIs(t, err, tenantError("x"))
	assert.Nil(t, p)
	assert.Nil(t, release)
	assert.Equal(t, seawall.GroupSnapshot{MaxKeys: 1}, g.Snapshot())

	known["x"] = true
	wantMember(t, g, "x") // The place has not got lost.
}

// A function that returns nothing for a later key is no better.
func TestGroupReturnsAnErrorForANilPolicy(t *testing.T) {
	g := newGroup(t, func(key string) (*seawall.Breaker, error) {
		if key != "" {
			return nil, nil
		}
		return seawall.NewBreaker(key)
	})
	err := g.Do(t.Context(), "x", func(context.Context) error { panic("not to be run") })
	require.EqualError(t, err, "seawall: no policy for this key: it returned neither a policy nor an error")
	require.ErrorIs(t, err, seawall.ErrRejected)
	assert.Zero(t, g.Snapshot().Size)
}

// Those who wait for a policy share the error.
func TestGroupReturnsTheErrorToAllWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		made := 0
		proceed := make(chan struct{})
		g := newGroup(t, func(key int) (*plain, error) {
			if key != 0 {
				made++
				<-proceed
				return nil, errBoom
			}
			return newPlain(key)
		})
		errs := make(chan error, 10)
		for range cap(errs) {
			go func() { errs <- g.Do(t.Context(), 1, ok) }()
		}
		synctest.Wait()
		close(proceed)
		for range cap(errs) {
			require.ErrorIs(t, <-errs, errBoom)
		}
		assert.Equal(t, 1, made)
	})
}

// A function that panics or exits takes along its own caller and nobody else: who waits tries it again, and the place
// does not get lost.
func TestGroupSurvivesAFunctionThatDoesNotReturn(t *testing.T) {
	for name, leave := range map[string]func(){
		"panic":  func() { panic("boom") },
		"Goexit": runtime.Goexit,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				proceed := make(chan struct{})
				made := 0
				g := newGroup(t, func(key int) (*plain, error) {
					if key != 0 {
						if made++; made == 1 {
							<-proceed
							leave()
						}
					}
					return newPlain(key)
				}, seawall.WithMaxKeys(1))
				gone := make(chan any)
				go func() {
					defer func() { gone <- recover() }()
					_ = g.Do(t.Context(), 1, ok)
					assert.Fail(t, "Do returned")
				}()
				synctest.Wait()
				errs := make(chan error, 10)
				for range cap(errs) {
					go func() { errs <- g.Do(t.Context(), 1, ok) }()
				}
				synctest.Wait()
				close(proceed)
				if value := <-gone; name == "panic" {
					assert.Equal(t, "boom", value)
				}
				for range cap(errs) {
					require.NoError(t, <-errs)
				}
				assert.Equal(t, 2, made)
				assert.Equal(t, seawall.GroupSnapshot{Size: 1, MaxKeys: 1}, g.Snapshot())
			})
		})
	}
}

// I8: the function may use the Group, only not for the key it is making a policy for. A call for that one waits, but
// no longer than its context says.
func TestGroupFunctionMayUseTheGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g *seawall.Group[int]
		var same error
		g = newGroup(t, func(key int) (*plain, error) {
			if key == 1 {
				wantMember(t, g, 2)
				g.Remove(2)
				g.Snapshot()
				keysOf(g)
				_, found := g.Get(1)
				assert.False(t, found)
				ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errBoom)
				defer cancel()
				same = g.Do(ctx, 1, ok)
			}
			return newPlain(key)
		})
		wantMember(t, g, 1)
		require.ErrorIs(t, same, seawall.ErrRejected)
		require.ErrorIs(t, same, context.DeadlineExceeded)
		require.ErrorIs(t, same, errBoom)
		assert.Equal(t, []int{1}, keysOf(g))
	})
}

// Who waits for a policy that another call makes waits no longer than the context says, and then fn does not run.
func TestGroupWaitEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		proceed := make(chan struct{})
		g := newGroup(t, func(key int) (*plain, error) {
			if key != 0 {
				<-proceed
			}
			return newPlain(key)
		})
		first := make(chan error)
		go func() { first <- g.Do(t.Context(), 1, ok) }()
		synctest.Wait()

		ctx, cancel := context.WithCancelCause(t.Context())
		second := make(chan error)
		var c counter
		go func() { second <- g.Do(ctx, 1, c.fn) }()
		synctest.Wait()
		cancel(errBoom)
		err := <-second
		require.ErrorIs(t, err, seawall.ErrRejected)
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, errBoom)
		assert.Zero(t, c.count())

		close(proceed)
		require.NoError(t, <-first)
	})
}

// A Group has no opinion about a context that is done: the policy of the key decides.
func TestGroupLeavesDoneContextsToThePolicy(t *testing.T) {
	g := hosts(t, newClock())
	for range 2 { // Without and with a policy.
		var c counter
		err := g.Do(cancelled(errBoom), "a", c.fn)
		require.ErrorIs(t, err, seawall.ErrRejected)
		require.ErrorIs(t, err, errBoom)
		assert.Zero(t, c.count())
	}
	assert.EqualValues(t, 2, breakerOf(t, g, "a").Snapshot().Totals.Cancelled)

	plains := newGroup(t, newPlain)
	require.NoError(t, plains.Do(cancelled(nil), 1, ok))
}

// Looking.

func TestGroupGetOnlyLooks(t *testing.T) {
	g := newGroup(t, newPlain)
	p, found := g.Get(1)
	assert.False(t, found)
	assert.Nil(t, p)
	assert.Empty(t, keysOf(g), "Get makes none")
	wantMember(t, g, 1)
	assert.Equal(t, 1, policyOf[*plain](t, g, 1).key)
}

// Policy resolves the key with each call, and makes the policy if need be.
func TestGroupPolicyFindsThePolicyAnew(t *testing.T) {
	clk := newClock()
	g := hosts(t, clk)
	p := seawall.Chain(g.Policy("a"), bh(t, 1))
	assert.Empty(t, keysOf(g), "not made before the first call")
	for range 3 {
		require.ErrorIs(t, do(p, bad), errBoom)
	}
	require.ErrorIs(t, do(p, ok), seawall.ErrOpen)
	g.Remove("a")
	require.NoError(t, do(p, ok), "a new one")
	v, err := seawall.Call(t.Context(), g.Policy("a"), func(context.Context) (int, error) { return 7, nil })
	require.NoError(t, err)
	assert.Equal(t, 7, v)
}

// All shows what was there when the loop began, in the order of creation, whatever the loop does.
func TestGroupAllIsConsistentAndInOrder(t *testing.T) {
	g := newGroup(t, newPlain)
	order := []int{5, 3, 9, 1, 7}
	for _, key := range order {
		wantMember(t, g, key)
	}
	all := g.All()
	var got []int
	for key, p := range all {
		assert.Equal(t, key, p.(*plain).key)
		got = append(got, key)
		g.Remove(7)
		g.Remove(5)
		wantMember(t, g, 100+key)
	}
	assert.Equal(t, order, got)
	assert.Equal(t, []int{3, 9, 1, 105, 103, 109, 101, 107}, slices.Collect(keysFrom(all)), "looks anew")
	for key := range all {
		assert.Equal(t, 3, key)
		break
	}
}

func keysFrom[K comparable](all func(func(K, seawall.Policy) bool)) func(func(K) bool) {
	return func(yield func(K) bool) {
		all(func(key K, _ seawall.Policy) bool { return yield(key) })
	}
}

func TestGroupSnapshotHasSnakeCaseNames(t *testing.T) {
	text, err := json.Marshal(seawall.GroupSnapshot{Size: 1, MaxKeys: 2, Evictions: 3, Overflow: 4})
	require.NoError(t, err)
	assert.JSONEq(t, `{"size": 1, "max_keys": 2, "evictions": 3, "overflow": 4}`, string(text))
}

// Removing.

// G36: a removed breaker is gone from whatever is added up, open or not.
func TestGroupRemovedBreakerIsNotAddedUp(t *testing.T) {
	g := hosts(t, newClock())
	wantMember(t, g, "b")
	require.NoError(t, g.Do(t.Context(), "a", ok))
	trip(t, breakerOf(t, g, "a"))
	open := func() (n int) {
		for _, p := range g.All() {
			if p.(*seawall.Breaker).State() == seawall.Open {
				n++
			}
		}
		return n
	}
	assert.Equal(t, 1, open())
	g.Remove("a")
	g.Remove("a")
	g.Remove("never there")
	assert.Zero(t, open())
	_, found := g.Get("a")
	assert.False(t, found)
	assert.Equal(t, seawall.GroupSnapshot{Size: 1, MaxKeys: 1024}, g.Snapshot(), "a removal is no eviction")
}

// Calls that have begun go on under the policy they began under; the next one gets a new policy.
func TestGroupRemoveLeavesRunningCallsAlone(t *testing.T) {
	g := newGroup(t, func(string) (*seawall.Bulkhead, error) {
		return seawall.NewBulkhead("", 1, noWait())
	}, seawall.WithMaxKeys(1))
	h := hold(t, g.Policy("a"))
	old := policyOf[*seawall.Bulkhead](t, g, "a")
	g.Remove("a")
	wantMember(t, g, "a")
	assert.NotSame(t, old, policyOf[*seawall.Bulkhead](t, g, "a"))
	assert.Equal(t, 1, old.Snapshot().InFlight)
	require.NoError(t, h.finish(nil))
	assert.Equal(t, 0, old.Snapshot().InFlight)
	wantMember(t, g, "b") // The place of a was given back once, and its successor's is no longer in use.
	assert.Equal(t, []string{"b"}, keysOf(g))
}

// B96: settings that were replaced never come back. Who changes what the function returns and then removes the key
// gets a policy with the new settings, even if one with the old ones was just being made.
func TestGroupRemoveForgetsWhatIsBeingMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		proceed := map[int]chan struct{}{1: make(chan struct{}), 2: make(chan struct{})}
		var limit atomic.Int64
		g := newGroup(t, func(key string) (*seawall.Bulkhead, error) {
			n := int(limit.Load())
			if key == "a" {
				<-proceed[n]
			}
			return seawall.NewBulkhead(key, max(1, n))
		}, seawall.WithMaxKeys(2))
		limits := make(chan int, 4)
		acquire := func() {
			p, release, err := g.Acquire(t.Context(), "a")
			assert.NoError(t, err)
			release()
			limits <- p.(*seawall.Bulkhead).Limit()
		}
		limit.Store(1)
		go acquire()
		synctest.Wait() // It makes the policy with the old settings,
		go acquire()
		synctest.Wait() // and this one waits for it.

		limit.Store(2)
		g.Remove("a")
		go acquire()
		synctest.Wait() // This one makes the policy with the new settings.
		close(proceed[1])
		synctest.Wait()
		assert.Equal(t, 1, <-limits, "the call had begun before")
		assert.Empty(t, limits)
		assert.Zero(t, g.Snapshot().Size)

		close(proceed[2])
		synctest.Wait()
		assert.Equal(t, 2, <-limits)
		assert.Equal(t, 2, <-limits)
		assert.Equal(t, 2, policyOf[*seawall.Bulkhead](t, g, "a").Limit())
		assert.Equal(t, seawall.GroupSnapshot{Size: 1, MaxKeys: 2}, g.Snapshot())
		wantMember(t, g, "b")
		assert.Equal(t, []string{"a", "b"}, keysOf(g), "no place got lost")
	})
}

// Evicting.

// occupation is one way in which a policy is not idle: occupy brings it there, and the function that it returns, back.
type occupation struct {
	policy func(t testing.TB, clk *fakeClock) seawall.Policy
	occupy func(t testing.TB, g *seawall.Group[string], clk *fakeClock) (end func())
}

// G85: clearing up removed an open breaker. A policy that has something to lose keeps its place, however much time
// passes and whoever wants the place; when it is idle it goes.
func TestGroupEvictsOnlyWhatIsIdle(t *testing.T) {
	fail := func(t testing.TB, g *seawall.Group[string]) {
		t.Helper()
		require.ErrorIs(t, g.Do(t.Context(), "a", bad), errBoom)
	}
	breaker := func(opts ...seawall.BreakerOption) func(testing.TB, *fakeClock) seawall.Policy {
		return func(t testing.TB, clk *fakeClock) seawall.Policy { return br(t, clk, opts...) }
	}
	inFlight := func(t testing.TB, g *seawall.Group[string], _ *fakeClock) func() {
		h := hold(t, g.Policy("a"))
		return func() { require.NoError(t, h.finish(nil)) }
	}
	oneFailure := func(t testing.TB, g *seawall.Group[string], clk *fakeClock) func() {
		fail(t, g)
		clk.Advance(time.Minute)
		return func() { wantMember(t, g, "a") }
	}
	for name, o := range map[string]occupation{
		"failures in a row, not in the window": {breaker(), oneFailure},
		"failure in the window": {
			breaker(seawall.WithFailureRate(0.5, 20), seawall.WithWindow(10*time.Second, 10)),
			func(t testing.TB, g *seawall.Group[string], clk *fakeClock) func() {
				fail(t, g)
				wantMember(t, g, "a")
				clk.Advance(10*time.Second - ns)
				return func() { clk.Advance(ns) }
			},
		},
		"failure among the last calls": {
			breaker(seawall.WithFailureRate(0.5, 4), seawall.WithCountWindow(4)),
			func(t testing.TB, g *seawall.Group[string], clk *fakeClock) func() {
				fail(t, g)
				for range 3 {
					wantMember(t, g, "a")
				}
				clk.Advance(time.Minute)
				return func() { wantMember(t, g, "a") }
			},
		},
		"call that hangs": {
			breaker(seawall.WithSlowCallThreshold(time.Second)),
			func(t testing.TB, g *seawall.Group[string], clk *fakeClock) func() {
				wantMember(t, g, "a")
				done, err := breakerOf(t, g, "a").Allow(t.Context()) // Not by way of the Group, so nothing pins it.
				require.NoError(t, err)
				clk.Advance(time.Minute) // It has become slow, and the window has passed over that.
				return func() { done(nil); wantMember(t, g, "a") }
			},
		},
		"open": {
			breaker(),
			func(t testing.TB, g *seawall.Group[string], clk *fakeClock) func() {
				wantMember(t, g, "a")
				trip(t, breakerOf(t, g, "a"))
				return func() { clk.Advance(cooldown); wantMember(t, g, "a") }
			},
		},
		"open, cooldown over": {
			breaker(),
			func(t testing.TB, g *seawall.Group[string], clk *fakeClock) func() {
				wantMember(t, g, "a")
				half(t, breakerOf(t, g, "a"), clk)
				return func() { wantMember(t, g, "a") }
			},
		},
		"half-open": {
			breaker(seawall.WithProbeSuccesses(2)),
			func(t testing.TB, g *seawall.Group[string], clk *fakeClock) func() {
				wantMember(t, g, "a")
				half(t, breakerOf(t, g, "a"), clk)
				wantMember(t, g, "a")
				clk.Advance(time.Minute)
				return func() { wantMember(t, g, "a") }
			},
		},
		"forced open": {
			breaker(),
			func(t testing.TB, g *seawall.Group[string], clk *fakeClock) func() {
				wantMember(t, g, "a")
				b := breakerOf(t, g, "a")
				b.ForceOpen()
				clk.Advance(1000 * time.Hour)
				return b.Reset
			},
		},
		"call in flight, breaker": {breaker(), inFlight},
		"call in flight, nothing to ask": {
			func(testing.TB, *fakeClock) seawall.Policy { return seawall.Chain() }, inFlight,
		},
		"acquired": {
			breaker(),
			func(t testing.TB, g *seawall.Group[string], _ *fakeClock) func() {
				_, release, err := g.Acquire(t.Context(), "a")
				require.NoError(t, err)
				return release
			},
		},
		"slot in use": {
			func(t testing.TB, _ *fakeClock) seawall.Policy { return bh(t, 1) },
			func(t testing.TB, g *seawall.Group[string], _ *fakeClock) func() {
				wantMember(t, g, "a")
				release, err := policyOf[*seawall.Bulkhead](t, g, "a").Acquire(t.Context())
				require.NoError(t, err)
				return release
			},
		},
		"chain with a breaker that knows of a failure": {
			func(t testing.TB, clk *fakeClock) seawall.Policy {
				return seawall.Chain(bh(t, 1), br(t, clk), seawall.Must(seawall.NewTimeout(time.Hour)))
			}, oneFailure,
		},
		"type that embeds a breaker": {
			func(t testing.TB, clk *fakeClock) seawall.Policy { return struct{ *seawall.Breaker }{br(t, clk)} }, oneFailure,
		},
		"type that tells its parts": {
			func(t testing.TB, clk *fakeClock) seawall.Policy {
				return &parts{seawall.Chain(), []seawall.Policy{bh(t, 1), br(t, clk)}}
			},
			func(t testing.TB, g *seawall.Group[string], clk *fakeClock) func() {
				wantMember(t, g, "a")
				trip(t, policyOf[*parts](t, g, "a").policies[1].(*seawall.Breaker))
				return policyOf[*parts](t, g, "a").policies[1].(*seawall.Breaker).Reset
			},
		},
		"type that says so": {
			func(testing.TB, *fakeClock) seawall.Policy { return &plain{} },
			func(t testing.TB, g *seawall.Group[string], _ *fakeClock) func() {
				wantMember(t, g, "a")
				p := policyOf[*plain](t, g, "a")
				p.busy.Store(true)
				return func() { p.busy.Store(false) }
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			clk := newClock()
			g := newGroup(t, func(string) (seawall.Policy, error) { return o.policy(t, clk), nil }, seawall.WithMaxKeys(1))
			end := o.occupy(t, g, clk)
			before, found := g.Get("a")
			require.True(t, found)
			for i := range 100 {
				wantOverflow(t, g, "b"+strconv.Itoa(i))
			}
			after, _ := g.Get("a")
			assert.True(t, before == after, "it is still the same policy")

			end()
			wantMember(t, g, "c")
			assert.Equal(t, []string{"c"}, keysOf(g))
			assert.EqualValues(t, 1, g.Snapshot().Evictions)
		})
	}
}

// Dead hosts do not fill a Group for ever: what a breaker knows is forgotten an hour after its latest decision and the
// end of its cooldown.
func TestGroupForgetsAnHourAfterTheLastDecision(t *testing.T) {
	for name, tt := range map[string]struct {
		fails int
		after time.Duration // when the hour begins
	}{
		"closed, one failure": {1, 0},
		"open":                {3, cooldown},
	} {
		t.Run(name, func(t *testing.T) {
			clk := newClock()
			g := hosts(t, clk, seawall.WithMaxKeys(1))
			for range tt.fails {
				require.ErrorIs(t, g.Do(t.Context(), "a", bad), errBoom)
			}
			clk.Advance(tt.after + time.Hour - ns)
			wantOverflow(t, g, "b")
			clk.Advance(ns)
			wantMember(t, g, "b")
			assert.Equal(t, []string{"b"}, keysOf(g))
		})
	}
	t.Run("every decision counts", func(t *testing.T) {
		clk := newClock()
		g := hosts(t, clk, seawall.WithMaxKeys(1))
		require.ErrorIs(t, g.Do(t.Context(), "a", bad), errBoom)
		clk.Advance(time.Hour - ns)
		require.ErrorIs(t, g.Do(t.Context(), "a", bad), errBoom)
		clk.Advance(time.Hour - ns)
		wantOverflow(t, g, "b")
		clk.Advance(ns)
		wantMember(t, g, "b")
	})
	t.Run("a probe that hangs does not keep it", func(t *testing.T) {
		clk := newClock()
		g := hosts(t, clk, seawall.WithMaxKeys(1))
		wantMember(t, g, "a")
		b := breakerOf(t, g, "a")
		half(t, b, clk)
		done, err := b.Allow(t.Context()) // Not by way of the Group, so nothing pins it.
		require.NoError(t, err)
		clk.Advance(cooldown + time.Hour - ns) // It holds its place as long as a cooldown lasts.
		wantOverflow(t, g, "b")
		clk.Advance(ns)
		wantMember(t, g, "b")
		done(nil)
	})
}

// Of the idle ones, those that were called since the last search stay. One call is not enough for that, nor are calls
// of long ago.
func TestGroupGivesSecondChances(t *testing.T) {
	g := newGroup(t, newPlain, seawall.WithMaxKeys(8))
	for key := range 8 {
		wantMember(t, g, key)
		wantMember(t, g, key)
	}
	search := func(i int) {
		for _, key := range []int{1, 2, 5} {
			wantMember(t, g, key)
		}
		wantMember(t, g, 100+i)
	}
	search(0) // All of them were called since the last search, which there was none of: this one takes any.
	search(1) // It may have been one of the three.
	search(2)
	one, two, five := policyOf[*plain](t, g, 1), policyOf[*plain](t, g, 2), policyOf[*plain](t, g, 5)
	for i := range 100 {
		search(3 + i)
	}
	assert.Same(t, one, policyOf[*plain](t, g, 1))
	assert.Same(t, two, policyOf[*plain](t, g, 2))
	assert.Same(t, five, policyOf[*plain](t, g, 5))
	for _, key := range []int{0, 3, 4, 6, 7} {
		assert.NotContains(t, keysOf(g), key, "called twice, but long ago")
	}
	assert.Len(t, keysOf(g), 8)
}

// Being made is no call that counts: of keys that were called once each and one that was called again, that one stays.
func TestGroupGivesNoSecondChanceForTheFirstCall(t *testing.T) {
	for again := range 4 {
		g := newGroup(t, newPlain, seawall.WithMaxKeys(4))
		for key := range 4 {
			wantMember(t, g, key)
		}
		wantMember(t, g, again)
		wantMember(t, g, 4)
		assert.Contains(t, keysOf(g), again)
	}
}

// Where all were called, one of them goes all the same: the Group is full of policies with nothing to lose, and a new
// key must not run without any.
func TestGroupEvictsWhatWasCalledIfItMust(t *testing.T) {
	for _, n := range []int{1, 2, 3, 100} {
		g := newGroup(t, newPlain, seawall.WithMaxKeys(n))
		for key := range n {
			wantMember(t, g, key)
			wantMember(t, g, key)
		}
		wantMember(t, g, n)
		assert.Len(t, keysOf(g), n)
	}
}

// A new key costs a bounded number of looks, even if nothing can be evicted; and what has become idle is found soon.
func TestGroupSearchIsBounded(t *testing.T) {
	const maxKeys, maxLooks = 1000, 32
	g := newGroup(t, newPlain, seawall.WithMaxKeys(maxKeys))
	for key := range maxKeys {
		wantMember(t, g, key)
		policyOf[*plain](t, g, key).busy.Store(true)
	}
	asked := func() (n int64) {
		for _, p := range g.All() {
			n += p.(*plain).asked.Load()
		}
		return n
	}
	for i := range 100 {
		before := asked()
		wantOverflow(t, g, maxKeys+i)
		assert.LessOrEqual(t, asked()-before, int64(maxLooks))
	}
	idle := policyOf[*plain](t, g, 700)
	idle.busy.Store(false)
	searches := 0
	for ; g.Snapshot().Evictions == 0; searches++ {
		require.NoError(t, g.Do(t.Context(), 2*maxKeys+searches, ok))
	}
	assert.LessOrEqual(t, searches, 2*maxKeys/maxLooks)
	_, found := g.Get(700)
	assert.False(t, found)
}

// I8: a policy that is asked whether it is idle may use the Group.
func TestGroupAsksUnderNoLock(t *testing.T) {
	g := newGroup(t, newPlain, seawall.WithMaxKeys(2))
	wantMember(t, g, 1)
	wantMember(t, g, 2)
	policyOf[*plain](t, g, 2).busy.Store(true)
	policyOf[*plain](t, g, 1).onAsk = func() {
		g.Snapshot()
		keysOf(g)
		g.Remove(2)
		wantMember(t, g, 3) // Takes the place that has just become free.
	}
	finishes(t, func() { wantMember(t, g, 4) })
	assert.Equal(t, []int{3, 4}, keysOf(g))
}

// Between the question and the eviction a call comes and goes. It may have left a failure behind, so the answer no
// longer holds.
func TestGroupDoesNotEvictAfterACallInBetween(t *testing.T) {
	g := newGroup(t, newPlain, seawall.WithMaxKeys(1))
	wantMember(t, g, 1)
	p := policyOf[*plain](t, g, 1)
	p.onAsk = func() { wantMember(t, g, 1) }
	wantOverflow(t, g, 2)
	assert.Same(t, p, policyOf[*plain](t, g, 1))

	p.onAsk = func() { g.Remove(1) } // Nor what is gone already.
	require.NoError(t, g.Do(t.Context(), 3, ok))
	assert.Zero(t, g.Snapshot().Evictions)
	p.onAsk = nil
	wantMember(t, g, 4)
	assert.Equal(t, []int{4}, keysOf(g))
}

// A policy that panics when it is asked whether it is idle takes along that call only.
func TestGroupSurvivesAnIdleThatPanics(t *testing.T) {
	g := newGroup(t, newPlain, seawall.WithMaxKeys(1))
	wantMember(t, g, 1)
	p := policyOf[*plain](t, g, 1)
	p.onAsk = func() { panic("boom") }
	assert.PanicsWithValue(t, "boom", func() { _ = g.Do(t.Context(), 2, ok) })
	p.onAsk = nil
	wantMember(t, g, 2)
	assert.Equal(t, []int{2}, keysOf(g), "places were neither made nor lost")
	wantMember(t, g, 3)
	assert.Equal(t, []int{3}, keysOf(g))
}

// Overflowing.

// Without a place, calls run under the overflow policy, which is none by default.
func TestGroupOverflow(t *testing.T) {
	clk := newClock()
	overflow := bh(t, 1, noWait())
	for name, tt := range map[string]struct {
		opts []seawall.GroupOption
		want error
	}{
		"unguarded": {nil, nil},
		"bulkhead":  {[]seawall.GroupOption{seawall.WithOverflow(overflow)}, seawall.ErrBulkheadFull},
	} {
		t.Run(name, func(t *testing.T) {
			g := hosts(t, clk, append(tt.opts, seawall.WithMaxKeys(1))...)
			require.ErrorIs(t, g.Do(t.Context(), "a", bad), errBoom)
			h := hold(t, g.Policy("b"))
			require.ErrorIs(t, g.Do(t.Context(), "c", ok), tt.want)
			for range 5 {
				require.ErrorIs(t, g.Do(t.Context(), "d", bad), cmpOr(tt.want, errBoom))
			}
			require.NoError(t, h.finish(nil))
			p, release, err := g.Acquire(t.Context(), "e")
			require.NoError(t, err)
			require.NoError(t, do(p, ok))
			release()
			assert.Equal(t, seawall.GroupSnapshot{Size: 1, MaxKeys: 1, Overflow: 8}, g.Snapshot())
			assert.Equal(t, []string{"a"}, keysOf(g))
			assert.Zero(t, overflow.Snapshot().InFlight)
		})
	}
}

func cmpOr(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// No policy is made in vain, and those who wait for one that finds no place get the same answer.
func TestGroupOverflowsAllWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		made := 0
		g := newGroup(t, func(key int) (*plain, error) { made++; return newPlain(key) }, seawall.WithMaxKeys(1))
		wantMember(t, g, 1)
		p := policyOf[*plain](t, g, 1)
		p.busy.Store(true)
		proceed := make(chan struct{})
		p.onAsk = func() { <-proceed }
		errs := make(chan error, 10)
		for range cap(errs) {
			go func() { errs <- g.Do(t.Context(), 2, ok) }()
		}
		synctest.Wait()
		close(proceed)
		for range cap(errs) {
			require.NoError(t, <-errs)
		}
		assert.EqualValues(t, 10, g.Snapshot().Overflow)
		assert.LessOrEqual(t, p.asked.Load(), int64(2), "asked for one of them")
		assert.Equal(t, 2, made, "the trial and key 1")
	})
}

// While all places belong to policies that are being made there is nothing to evict.
func TestGroupOverflowsWhilePlacesAreBeingFilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		proceed := make(chan struct{})
		g := newGroup(t, func(key int) (*plain, error) {
			if key != 0 {
				<-proceed
			}
			return newPlain(key)
		}, seawall.WithMaxKeys(1))
		first := make(chan error)
		go func() { first <- g.Do(t.Context(), 1, ok) }()
		synctest.Wait()
		wantOverflow(t, g, 2)
		close(proceed)
		require.NoError(t, <-first)
		assert.Equal(t, seawall.GroupSnapshot{Size: 1, MaxKeys: 1, Overflow: 1}, g.Snapshot())
	})
}

// Keys.

// A key that is not equal to itself can't be found again, so it must not be kept.
func TestGroupKeepsNoKeyThatIsNotEqualToItself(t *testing.T) {
	floats := newGroup(t, func(float64) (seawall.Policy, error) { return seawall.NewBreaker("") })
	structs := newGroup(t, func(struct{ x, y float64 }) (seawall.Policy, error) { return seawall.NewBreaker("") })
	anys := newGroup(t, func(any) (seawall.Policy, error) { return seawall.NewBreaker("") })
	for range 5 {
		wantOverflow(t, floats, math.NaN())
		wantOverflow(t, structs, struct{ x, y float64 }{1, math.NaN()})
		wantOverflow(t, anys, any(math.NaN()))
	}
	floats.Remove(math.NaN())
	wantMember(t, floats, math.Inf(1))
	wantMember(t, floats, 0)
	wantMember(t, floats, math.Copysign(0, -1))
	assert.Equal(t, seawall.GroupSnapshot{Size: 2, MaxKeys: 1024, Overflow: 5}, floats.Snapshot(), "0 is -0")
}

// An interface key that can't be compared panics as in a map, and leaves the Group as it was.
func TestGroupSurvivesKeysThatCannotBeCompared(t *testing.T) {
	g := newGroup(t, func(any) (seawall.Policy, error) { return seawall.NewBreaker("") })
	for name, use := range map[string]func(any){
		"Do":     func(key any) { _ = g.Do(t.Context(), key, ok) },
		"Get":    func(key any) { g.Get(key) },
		"Remove": func(key any) { g.Remove(key) },
	} {
		assert.Panics(t, func() { use([]int{1}) }, name)
	}
	finishes(t, func() { wantMember(t, g, any("a")) })
	assert.Equal(t, []any{"a"}, keysOf(g))
}

// Calls that don't return.

// A call that panics or exits gives the policy back.
func TestGroupCallThatDoesNotReturnPinsNothing(t *testing.T) {
	g := newGroup(t, newPlain, seawall.WithMaxKeys(1))
	assert.PanicsWithValue(t, "boom", func() {
		_ = g.Do(t.Context(), 1, func(context.Context) error { panic("boom") })
	})
	wantMember(t, g, 2)
	onItsOwn(func() {
		_ = g.Do(context.Background(), 3, func(context.Context) error { runtime.Goexit(); return nil })
	})
	wantMember(t, g, 4)
	assert.Equal(t, []int{4}, keysOf(g))
}

// release works once, from any goroutine.
func TestGroupReleaseWorksOnce(t *testing.T) {
	g := newGroup(t, newPlain, seawall.WithMaxKeys(1))
	p, first, err := g.Acquire(t.Context(), 1)
	require.NoError(t, err)
	require.NoError(t, do(p, ok))
	_, second, err := g.Acquire(t.Context(), 1)
	require.NoError(t, err)
	var all sync.WaitGroup
	for range 10 {
		all.Go(first)
	}
	all.Wait()
	wantOverflow(t, g, 2) // The second one still holds it.
	second()
	wantMember(t, g, 2)
}

// A call may make calls of the same Group, also for its own key.
func TestGroupIsReentrant(t *testing.T) {
	g := newGroup(t, newPlain, seawall.WithMaxKeys(1))
	err := g.Do(t.Context(), 1, func(ctx context.Context) error {
		wantMember(t, g, 1)
		wantOverflow(t, g, 2)
		g.Remove(1)
		wantMember(t, g, 1)
		return g.Do(ctx, 1, bad)
	})
	wantSame(t, errBoom, err)
}

// Caller bugs panic with a clear text before anything is made or counted.
func TestGroupPanicsOnCallerBugs(t *testing.T) {
	g := newGroup(t, newPlain)
	p := g.Policy(1)
	assert.PanicsWithValue(t, "seawall: nil Context", func() { _ = g.Do(nil, 1, ok) })             //nolint:staticcheck // a nil ctx is the point
	assert.PanicsWithValue(t, "seawall: nil Context", func() { _ = p.Do(nil, ok) })                //nolint:staticcheck // a nil ctx is the point
	assert.PanicsWithValue(t, "seawall: nil Context", func() { _, _, _ = g.Acquire(nil, 1) })      //nolint:staticcheck // a nil ctx is the point
	assert.PanicsWithValue(t, "seawall: nil fn", func() { _ = g.Do(t.Context(), 1, nil) })         //
	assert.PanicsWithValue(t, "seawall: nil fn", func() { _ = p.Do(cancelled(nil), nil) })         //
	assert.Equal(t, seawall.GroupSnapshot{MaxKeys: 1024}, g.Snapshot(), "nothing happened so far") //

	var none *seawall.Group[int]
	for _, g := range []*seawall.Group[int]{none, {}} {
		for name, use := range map[string]func(){
			"Do":       func() { _ = g.Do(t.Context(), 1, ok) },
			"Acquire":  func() { _, _, _ = g.Acquire(t.Context(), 1) },
			"Get":      func() { g.Get(1) },
			"Policy":   func() { g.Policy(1) },
			"All":      func() { g.All() },
			"Remove":   func() { g.Remove(1) },
			"Snapshot": func() { g.Snapshot() },
		} {
			assert.PanicsWithValue(t, "seawall: use of a Group that was not made by NewGroup", use, name)
		}
	}
}

// Costs.

// A million keys that somebody makes up neither fill the memory nor push out a breaker that is open or on its way
// there, whether their calls succeed or fail.
func TestGroupHoldsOutAgainstMadeUpKeys(t *testing.T) {
	for _, tt := range []struct {
		name string
		fn   func(context.Context) error
		keys int
	}{
		{"that work", ok, 1_000_000},
		{"that fail", bad, 100_000}, // All but the first 1024 just overflow.
	} {
		t.Run(tt.name, func(t *testing.T) {
			if raceDetector() || testing.Short() { // It makes this some thirty times slower, and the heap something else.
				tt.keys = 3_000
			}
			clk := newClock()
			before := heap()
			g := newGroup(t, func(host string) (*seawall.Breaker, error) {
				return seawall.NewBreaker(host, seawall.WithClock(clk))
			})
			for range 10 {
				require.ErrorIs(t, g.Do(t.Context(), "down", bad), errBoom)
			}
			require.ErrorIs(t, g.Do(t.Context(), "ailing", bad), errBoom)
			down, ailing := breakerOf(t, g, "down"), breakerOf(t, g, "ailing")
			wantState(t, down, seawall.Open)
			clk.Advance(time.Minute) // Neither the window nor the cooldown is what keeps them.

			for i := range tt.keys {
				_ = g.Do(t.Context(), "made up "+strconv.Itoa(i), tt.fn)
			}
			used := heap() - before
			s := g.Snapshot()
			t.Logf("%d keys: %d bytes, %+v", tt.keys, used, s)
			assert.Equal(t, 1024, s.Size)
			assert.Same(t, down, breakerOf(t, g, "down"))
			assert.Same(t, ailing, breakerOf(t, g, "ailing"))
			assert.EqualValues(t, 1, ailing.Snapshot().ConsecutiveFailures)
			assert.EqualValues(t, 1, down.Snapshot().Totals.Opens)
			if !raceDetector() {
				assert.Less(t, used, int64(2<<20))
			}
		})
	}
}

// raceDetector reports whether the test was built with -race.
func raceDetector() bool {
	info, _ := debug.ReadBuildInfo()
	return info != nil && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

type route struct {
	host string
	port int
}

// A call whose key has a policy allocates nothing, whatever the type of the key.
func TestGroupHitAllocatesNothing(t *testing.T) {
	ctx := t.Context()
	strings := newGroup(t, func(string) (*seawall.Breaker, error) { return seawall.NewBreaker("") })
	ints := newGroup(t, func(int) (*seawall.Breaker, error) { return seawall.NewBreaker("") })
	structs := newGroup(t, func(route) (*seawall.Breaker, error) { return seawall.NewBreaker("") })
	host, port := "host "+strconv.Itoa(os.Getpid()), os.Getpid()+1000 // Not known to the compiler.
	wantMember(t, strings, host)
	wantMember(t, ints, port)
	wantMember(t, structs, route{host, port})
	p := strings.Policy(host)
	assert.Zero(t, testing.AllocsPerRun(1000, func() { _ = strings.Do(ctx, host, ok) }), "string")
	assert.Zero(t, testing.AllocsPerRun(1000, func() { _ = ints.Do(ctx, port, ok) }), "int")
	assert.Zero(t, testing.AllocsPerRun(1000, func() { _ = structs.Do(ctx, route{host, port}, ok) }), "struct")
	assert.Zero(t, testing.AllocsPerRun(1000, func() { _ = p.Do(ctx, ok) }), "Policy")
	assert.Zero(t, testing.AllocsPerRun(1000, func() { _, _ = strings.Get(host) }), "Get")
	assert.Equal(t, 1, strings.Snapshot().Size)
}

// A call for a new key in a Group full of failing breakers allocates no more for 32 looks than for one: it does not
// copy their windows.
func TestGroupSearchAllocatesLittle(t *testing.T) {
	g := newGroup(t, func(string) (*seawall.Breaker, error) { return seawall.NewBreaker("") }, seawall.WithMaxKeys(100))
	for i := range 100 {
		require.ErrorIs(t, g.Do(t.Context(), strconv.Itoa(i), bad), errBoom)
	}
	assert.LessOrEqual(t, testing.AllocsPerRun(100, func() { _ = g.Do(t.Context(), "new", ok) }), 3.0)
	assert.Zero(t, g.Snapshot().Evictions)
}

// What the Group adds to a call, beside a bare look into a sync.Map and a bare Breaker, with 1000 keys.
func BenchmarkGroupDo(b *testing.B) {
	ctx := b.Context()
	g := newGroup(b, func(host string) (*seawall.Breaker, error) { return seawall.NewBreaker(host) })
	var bare sync.Map
	for i := range 1000 {
		host := fmt.Sprintf("host%d.example.com", i)
		require.NoError(b, g.Do(ctx, host, ok))
		bare.Store(host, new(int))
	}
	host := fmt.Sprintf("host%d.example.com", 500)
	breaker := newBreaker(b)
	for name, call := range map[string]func(){
		"what=map":     func() { _, _ = bare.Load(host) },
		"what=breaker": func() { _ = breaker.Do(ctx, ok) },
		"what=group":   func() { _ = g.Do(ctx, host, ok) },
	} {
		b.Run(name+"/par=1", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				call()
			}
		})
		b.Run(name+"/par=all", func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					call()
				}
			})
		})
	}
}

// What a call for a new key costs in a full Group: one that finds a policy to evict, and one that finds none.
func BenchmarkGroupMiss(b *testing.B) {
	for name, fn := range map[string]func(context.Context) error{"evict": ok, "overflow": bad} {
		b.Run("end="+name, func(b *testing.B) {
			g := newGroup(b, func(int) (*seawall.Breaker, error) { return seawall.NewBreaker("") })
			for key := range 1024 {
				_ = g.Do(b.Context(), key, fn)
			}
			b.ReportAllocs()
			key := 1024
			for b.Loop() {
				key++
				_ = g.Do(b.Context(), key, fn)
			}
		})
	}
}
