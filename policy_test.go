package seawall_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seawall-go/seawall"
)

// Policies of a user's own.

// tries runs fn up to n times, until it succeeds.
func tries(n int) seawall.Policy {
	return seawall.PolicyFunc(func(ctx context.Context, fn func(context.Context) error) (err error) {
		for range n {
			if err = fn(ctx); err == nil {
				return nil
			}
		}
		return err
	})
}

// hedge runs fn twice at once and returns what the first run to end returns. The other may still be at work then.
func hedge() seawall.Policy {
	return seawall.PolicyFunc(func(ctx context.Context, fn func(context.Context) error) error {
		results := make(chan error, 2)
		for range 2 {
			go func() { results <- fn(ctx) }()
		}
		return <-results
	})
}

// both runs fn twice at once and waits for both.
func both() seawall.Policy {
	return seawall.PolicyFunc(func(ctx context.Context, fn func(context.Context) error) error {
		results := make(chan error, 2)
		for range 2 {
			go func() { results <- fn(ctx) }()
		}
		return errors.Join(<-results, <-results)
	})
}

// refuse runs nothing and returns err.
func refuse(err error) seawall.Policy {
	return seawall.PolicyFunc(func(context.Context, func(context.Context) error) error { return err })
}

// path is the key of the policies that a run came through.
type path struct{}

// named is a policy that leaves its name on the path, and runs fn as often as it is told.
func named(name string, runs int) seawall.Policy {
	return seawall.PolicyFunc(func(ctx context.Context, fn func(context.Context) error) (err error) {
		for i := range runs {
			way, _ := ctx.Value(path{}).(string)
			inner := fn(context.WithValue(ctx, path{}, fmt.Sprintf("%s%s%d ", way, name, i)))
			err = errors.Join(err, fmt.Errorf("%s%d: %w", name, i, inner))
		}
		return err
	})
}

// story runs p and tells all that can be seen of it: each way that fn was reached on, and the error.
func story(p seawall.Policy) string {
	var ways []string
	err := do(p, func(ctx context.Context) error {
		way, _ := ctx.Value(path{}).(string)
		ways = append(ways, way)
		return fmt.Errorf("run %d failed", len(ways))
	})
	return fmt.Sprintf("%s\nerror: %v", strings.Join(ways, "\n"), err)
}

// Chain.

func TestChainRunsOutermostFirst(t *testing.T) {
	p := seawall.Chain(named("a", 1), named("b", 2), named("c", 1))
	assert.Equal(t, strings.Join([]string{
		"a0 b0 c0 ",
		"a0 b1 c0 ",
		"error: a0: b0: c0: run 1 failed",
		"b1: c0: run 2 failed",
	}, "\n"), story(p))
}

func TestChainOfNothingRunsFn(t *testing.T) {
	for name, p := range map[string]seawall.Policy{
		"nothing":          seawall.Chain(),
		"nothing, nested":  seawall.Chain(seawall.Chain(), seawall.Chain(seawall.Chain())),
		"an empty slice":   seawall.Chain([]seawall.Policy{}...),
		"a slice of none":  seawall.Chain(nil...),
		"a policy in none": seawall.Chain(seawall.Chain(), tries(1), seawall.Chain()),
	} {
		t.Run(name, func(t *testing.T) {
			var c counter
			require.NoError(t, do(p, c.fn))
			assert.Equal(t, 1, c.count())
			require.ErrorIs(t, do(p, bad), errBoom)
		})
	}
}

// I11: however a list of policies is nested, it does the same as the flat list, and costs the same.
func TestChainIsAssociative(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 2))
		policies := make([]seawall.Policy, r.IntN(8))
		for i := range policies {
			policies[i] = named(string(rune('a'+i)), pick(r, 0, 1, 1, 1, 2))
		}
		flat, nested := seawall.Chain(policies...), nest(r, policies, 3)
		require.Equal(t, story(flat), story(nested), "seed %d", seed)
	}
}

// nest chains the policies in random groups.
func nest(r *rand.Rand, policies []seawall.Policy, depth int) seawall.Policy {
	if depth == 0 {
		return seawall.Chain(policies...)
	}
	var groups []seawall.Policy
	for len(policies) > 0 || r.IntN(4) == 0 {
		n := r.IntN(len(policies) + 1)
		groups = append(groups, nest(r, policies[:n], depth-1))
		policies = policies[n:]
	}
	return seawall.Chain(groups...)
}

// I11: the guards themselves are as associative as a trace of names: the same calls are let through, counted and
// rejected.
func TestChainOfGuardsIsAssociative(t *testing.T) {
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 3))
		type guards struct {
			b        *seawall.Breaker
			bulkhead *seawall.Bulkhead
			list     []seawall.Policy
		}
		build := func() guards {
			g := guards{b: br(t, newClock()), bulkhead: bh(t, 1, noWait())}
			g.list = []seawall.Policy{tries(2), g.b, g.bulkhead, tries(2), timeout(t, time.Hour)}
			return g
		}
		flat, nested := build(), build()
		r.Shuffle(len(flat.list), func(i, j int) {
			flat.list[i], flat.list[j] = flat.list[j], flat.list[i]
			nested.list[i], nested.list[j] = nested.list[j], nested.list[i]
		})
		one, other := seawall.Chain(flat.list...), nest(r, nested.list, 3)
		for range 6 {
			fn := pick(r, ok, bad)
			want, got := do(one, fn), do(other, fn)
			require.Equal(t, fmt.Sprint(want), fmt.Sprint(got), "seed %d", seed)
		}
		require.Equal(t, flat.b.Snapshot(), nested.b.Snapshot(), "seed %d", seed)
		require.Equal(t, flat.bulkhead.Snapshot(), nested.bulkhead.Snapshot(), "seed %d", seed)
	}
}

// G106: a chain is a value of its own. It can be the base of others, which don't change it, and the list that it
// was made of may be used for something else.
func TestChainDoesNotChange(t *testing.T) {
	opened := br(t, newClock())
	opened.ForceOpen()
	list := []seawall.Policy{named("a", 1), named("b", 1)}
	base := seawall.Chain(list...)
	one := seawall.Chain(base, named("c", 1))
	other := seawall.Chain(base, opened)
	list[0], list[1] = opened, opened

	assert.Equal(t, "a0 b0 c0 \nerror: a0: b0: c0: run 1 failed", story(one))
	assert.Equal(t, "a0 b0 \nerror: a0: b0: run 1 failed", story(base))
	require.ErrorIs(t, do(other, ok), seawall.ErrOpen)
}

// G106, I11: no context is kept. Each call runs on its own, and once it has ended nothing holds on to it, be it
// admitted, rejected at once or in the queue, failed or abandoned.
func TestChainKeepsNoContext(t *testing.T) {
	type key struct{}
	b, bulkhead := br(t, newClock()), bh(t, 1)
	p := seawall.Chain(b, bulkhead, timeout(t, time.Hour))

	first, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, 1))
	require.NoError(t, p.Do(first, ok))
	cancel()
	require.NoError(t, p.Do(context.WithValue(t.Context(), key{}, 2), func(ctx context.Context) error {
		assert.Equal(t, 2, ctx.Value(key{}))
		return ctx.Err()
	}))

	var dropped []weak.Pointer[lateCtx]
	newCtx := func() *lateCtx {
		ctx := &lateCtx{Context: t.Context()}
		dropped = append(dropped, weak.Make(ctx))
		return ctx
	}
	_ = p.Do(newCtx(), bad)
	_, _ = seawall.Call(newCtx(), p, func(ctx context.Context) (int, error) { return 0, nil })
	done := newCtx()
	done.end()
	_ = p.Do(done, ok)
	func() {
		h := hold(t, bulkhead)
		ctx := newCtx()
		q := queue(ctx, t, bulkhead)
		ctx.end()
		require.NoError(t, h.finish(nil))
		q.wantFull(t)
	}()
	trip(t, b)
	_ = p.Do(newCtx(), ok)

	done = nil
	for range 3 { // What a call's goroutine left on its stack may take a second look.
		runtime.GC()
	}
	for i, ctx := range dropped {
		assert.Nil(t, ctx.Value(), "the context of call %d is kept", i)
	}
	runtime.KeepAlive(p)
}

// A nil policy is a mistake that no caller could handle, in whatever form it comes.
func TestChainPanicsOnANilPolicy(t *testing.T) {
	var (
		b        *seawall.Breaker
		bulkhead *seawall.Bulkhead
		to       *seawall.Timeout
		fn       seawall.PolicyFunc
	)
	for name, p := range map[string]seawall.Policy{
		"nil": nil, "Breaker": b, "Bulkhead": bulkhead, "Timeout": to, "PolicyFunc": fn,
	} {
		assert.PanicsWithValue(t, "seawall: Chain: policy 2 of 3 is nil", func() {
			seawall.Chain(tries(1), p, tries(1))
		}, name)
	}
	var own *ownPolicy
	require.NoError(t, do(seawall.Chain(own), ok), "a type of the user's may have a use for its nil value")
}

type ownPolicy struct{}

func (*ownPolicy) Do(ctx context.Context, fn func(context.Context) error) error { return fn(ctx) }

func TestChainPanicsOnNil(t *testing.T) {
	for name, p := range map[string]seawall.Policy{
		"of none": seawall.Chain(), "of one": seawall.Chain(tries(1)), "of two": seawall.Chain(tries(1), tries(1)),
		"PolicyFunc": tries(1),
	} {
		t.Run(name, func(t *testing.T) {
			assert.PanicsWithValue(t, "seawall: nil Context", func() { _ = p.Do(nil, ok) }) //nolint:staticcheck // a nil ctx is the point
			assert.PanicsWithValue(t, "seawall: nil fn", func() { _ = p.Do(t.Context(), nil) })
		})
	}
}

// A chain of breakers and bulkheads allocates nothing, and one of policies that it doesn't know a closure for each but the
// innermost, however it is nested.
func TestChainAllocatesForUnknownPoliciesOnly(t *testing.T) {
	ctx := t.Context()
	breaker, bulkhead, unknown := br(t, newClock()), bh(t, 9, noWait()), seawall.PolicyFunc(pass)
	allocs := func(policies ...seawall.Policy) float64 {
		flat, nested := seawall.Chain(policies...), nest(rand.New(rand.NewPCG(1, 4)), policies, 3)
		return max(
			testing.AllocsPerRun(1000, func() { _ = flat.Do(ctx, ok) }),
			testing.AllocsPerRun(1000, func() { _ = nested.Do(ctx, ok) }),
		)
	}
	assert.Zero(t, allocs())
	assert.Zero(t, allocs(breaker))
	assert.Zero(t, allocs(breaker, bulkhead))
	assert.Zero(t, allocs(breaker, bulkhead, breaker, bulkhead))
	assert.Zero(t, allocs(breaker, unknown), "the innermost one gets fn itself")
	limit := timeout(t, time.Hour)
	assert.LessOrEqual(t, allocs(limit, breaker), allocs(limit), "the context alone")
	assert.LessOrEqual(t, allocs(unknown, breaker), 1.0)
	assert.LessOrEqual(t, allocs(unknown, bulkhead, unknown, breaker), 2.0)
}

func pass(ctx context.Context, fn func(context.Context) error) error { return fn(ctx) }

// PolicyFunc.

func TestPolicyFuncIsWhatItSays(t *testing.T) {
	type key struct{}
	p := seawall.PolicyFunc(func(ctx context.Context, fn func(context.Context) error) error {
		return fn(context.WithValue(ctx, key{}, 1))
	})
	wantSame(t, errBoom, do(p, func(ctx context.Context) error {
		assert.Equal(t, 1, ctx.Value(key{}))
		return errBoom
	}))
	wantSame(t, errBoom, do(refuse(errBoom), ok))
	assert.PanicsWithValue(t, "seawall: nil PolicyFunc", func() { _ = do(seawall.PolicyFunc(nil), ok) })
}

// A retry loop works at any place of a chain: its runs go through all that is further in, one by one.
func TestRetryWorksAtAnyPlace(t *testing.T) {
	for place := range 4 {
		t.Run(fmt.Sprint(place), func(t *testing.T) {
			b, bulkhead := newBreaker(t), bh(t, 1, noWait())
			p := seawall.Chain(insert([]seawall.Policy{b, bulkhead, timeout(t, time.Hour)}, place, tries(3))...)
			runs := 0
			require.NoError(t, do(p, func(ctx context.Context) error {
				require.NoError(t, ctx.Err())
				if runs++; runs < 3 {
					return errBoom
				}
				return nil
			}))
			assert.Equal(t, 3, runs)
			wantQuiet(t, bulkhead, 1)
		})
	}
}

// A hedge works at any place of a chain: two runs of one call are inside of fn at once, each on its own context, and
// nothing is shared between them but what is shared between calls anyway. The race detector watches.
func TestHedgeWorksAtAnyPlace(t *testing.T) {
	type key struct{}
	var number atomic.Int64
	label := seawall.PolicyFunc(func(ctx context.Context, fn func(context.Context) error) error {
		n := number.Add(1)
		err := fn(context.WithValue(ctx, key{}, n))
		if err.Error() != fmt.Sprint(n) {
			return fmt.Errorf("run %d got the error %w of another", n, err)
		}
		return err
	})
	for place := range 4 {
		t.Run(fmt.Sprint(place), func(t *testing.T) {
			b, bulkhead := newBreaker(t), bh(t, 2, noWait())
			list := insert([]seawall.Policy{b, bulkhead, timeout(t, time.Hour)}, place, both())
			p := seawall.Chain(append(list, label)...)
			var meet sync.WaitGroup
			meet.Add(2)
			err := do(p, func(ctx context.Context) error {
				meet.Done()
				meet.Wait() // Both are here, or it hangs.
				return fmt.Errorf("%d", ctx.Value(key{}))
			})
			require.Error(t, err)
			assert.NotContains(t, err.Error(), "of another")
			wantQuiet(t, bulkhead, 2)
			results := uint64(1)
			if place == 0 { // Outside of the breaker: each run is a result.
				results = 2
			}
			assert.Equal(t, results, b.Snapshot().Totals.Failures)
		})
	}
}

// A call whose hedge has lost goes on after Do has returned, and keeps its slot until it ends.
func TestHedgeThatHasLostKeepsItsSlot(t *testing.T) {
	bulkhead := bh(t, 2, noWait())
	p := seawall.Chain(hedge(), bulkhead)
	var first atomic.Bool
	inside, loser := make(chan struct{}, 2), make(chan struct{})
	require.NoError(t, do(p, func(context.Context) error {
		inside <- struct{}{}
		if first.Swap(true) {
			<-loser
		} else {
			until(t, func() bool { return len(inside) == 2 })
		}
		return nil
	}))
	assert.Equal(t, 1, bulkhead.Snapshot().InFlight)
	close(loser)
	until(t, func() bool { return bulkhead.Snapshot().InFlight == 0 })
	wantQuiet(t, bulkhead, 2)
}

func insert(list []seawall.Policy, place int, p seawall.Policy) []seawall.Policy {
	return append(list[:place:place], append([]seawall.Policy{p}, list[place:]...)...)
}

// Composition.

// B86, I3: in whatever order the guards stand, fn runs exactly if all of them admit the call.
func TestFnRunsOnlyIfEveryGuardAdmits(t *testing.T) {
	orders := [][3]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}
	for _, order := range orders {
		for name, test := range map[string]struct {
			ctx     context.Context
			prepare func(t *testing.T, b *seawall.Breaker, bulkhead *seawall.Bulkhead)
			want    error
		}{
			"all admit": {
				ctx:     t.Context(),
				prepare: func(*testing.T, *seawall.Breaker, *seawall.Bulkhead) {},
			},
			"breaker open": {
				ctx:     t.Context(),
				prepare: func(_ *testing.T, b *seawall.Breaker, _ *seawall.Bulkhead) { b.ForceOpen() },
				want:    seawall.ErrOpen,
			},
			"bulkhead full": {
				ctx: t.Context(),
				prepare: func(t *testing.T, _ *seawall.Breaker, bulkhead *seawall.Bulkhead) {
					release, err := bulkhead.Acquire(t.Context())
					require.NoError(t, err)
					t.Cleanup(release)
				},
				want: seawall.ErrBulkheadFull,
			},
			"context done": {
				ctx:     cancelled(nil),
				prepare: func(*testing.T, *seawall.Breaker, *seawall.Bulkhead) {},
				want:    seawall.ErrRejected,
			},
		} {
			t.Run(fmt.Sprint(name, order), func(t *testing.T) {
				b, bulkhead := br(t, newClock()), bh(t, 1, noWait())
				test.prepare(t, b, bulkhead)
				guards := [...]seawall.Policy{b, bulkhead, timeout(t, time.Hour)}
				p := seawall.Chain(guards[order[0]], guards[order[1]], guards[order[2]])
				var c counter
				for range 3 {
					err := p.Do(test.ctx, c.fn)
					require.ErrorIs(t, err, test.want)
				}
				if test.want == nil {
					assert.Equal(t, 3, c.count())
				} else {
					assert.Zero(t, c.count(), "a rejected call was run")
				}
				wantState(t, b, map[bool]seawall.State{true: seawall.Open}[name == "breaker open"])
				assert.Zero(t, b.Snapshot().Totals.Failures)
			})
		}
	}
}

// G08, G103, B63: every rejection is the same to a breaker further out: the dependency was not reached, so there is no
// verdict. Neither do they open it, nor do they decide about a probe, whose place is free again.
func TestBreakerIgnoresEveryRejectionFurtherIn(t *testing.T) {
	// gone is a policy that cancels its call's context before it goes on.
	gone := seawall.PolicyFunc(func(ctx context.Context, fn func(context.Context) error) error {
		ctx, cancel := context.WithCancelCause(ctx)
		cancel(errBoom)
		return fn(ctx)
	})
	open := br(t, newClock())
	trip(t, open)
	forced := newBreaker(t)
	forced.ForceOpen()
	clk := newClock()
	probing := br(t, clk)
	half(t, probing, clk)
	probe := hold(t, probing)
	full, fullAtOnce := bh(t, 1), bh(t, 1, noWait())
	slots := []*held{hold(t, full), hold(t, fullAtOnce)}

	for name, inner := range map[string]seawall.Policy{
		"open":                         open,
		"forced open":                  forced,
		"half-open, probes taken":      probing,
		"full":                         fullAtOnce,
		"done context at a breaker":    seawall.Chain(gone, newBreaker(t)),
		"done context at a bulkhead":   seawall.Chain(gone, bh(t, 1)),
		"wrapped":                      wrap(open),
		"joined":                       seawall.Chain(both(), open),
		"of an own guard":              refuse(fmt.Errorf("shed: %w", seawall.ErrRejected)),
		"context ended in the queue":   seawall.Chain(timeout(t, time.Microsecond), full),
		"bulkhead full further in yet": seawall.Chain(tries(2), newBreaker(t), timeout(t, time.Microsecond), full),
	} {
		t.Run(name, func(t *testing.T) {
			clk := newClock()
			outer := br(t, clk)
			for range 100 {
				require.ErrorIs(t, do(seawall.Chain(outer, inner), ok), seawall.ErrRejected)
			}
			assert.Equal(t, seawall.Totals{Ignored: 100, ByReason: map[seawall.Reason]uint64{}}, outer.Snapshot().Totals)
			half(t, outer, clk)
			require.ErrorIs(t, do(seawall.Chain(outer, inner), ok), seawall.ErrRejected)
			wantState(t, outer, seawall.HalfOpen)
			wantAdmitted(t, outer)
			wantState(t, outer, seawall.Closed)
		})
	}
	require.NoError(t, probe.finish(nil))
	for _, slot := range slots {
		require.NoError(t, slot.finish(nil))
	}
}

func wrap(p seawall.Policy) seawall.Policy {
	return seawall.PolicyFunc(func(ctx context.Context, fn func(context.Context) error) error {
		return fmt.Errorf("wrapped: %w", p.Do(ctx, fn))
	})
}

// A cause that carries a mark, as in a group whose other call returned a marked error, does not turn a rejection into
// a verdict: the probe was never made.
func TestRejectionForAMarkedCauseIsIgnored(t *testing.T) {
	for name, mark := range map[string]func(error) error{"success": seawall.MarkSuccess, "ignored": seawall.MarkIgnored} {
		t.Run(name, func(t *testing.T) {
			clk := newClock()
			b, bulkhead := br(t, clk), bh(t, 1)
			half(t, b, clk)
			ctx, cancel := context.WithCancelCause(t.Context())
			cancelThen := seawall.PolicyFunc(func(ctx context.Context, fn func(context.Context) error) error {
				cancel(mark(errBoom))
				return fn(ctx)
			})
			require.ErrorIs(t, seawall.Chain(b, cancelThen, bulkhead).Do(ctx, ok), seawall.ErrRejected)
			wantState(t, b, seawall.HalfOpen)
			assert.Equal(t, uint64(1), b.Snapshot().Totals.Ignored)
		})
	}
}

// G105: outside of the retries a breaker counts one result for all of them, inside it counts each.
func TestBreakerCountsRetriesAsTheOrderSays(t *testing.T) {
	outside, inside := newBreaker(t), newBreaker(t)
	require.ErrorIs(t, do(seawall.Chain(outside, tries(3)), bad), errBoom)
	require.ErrorIs(t, do(seawall.Chain(tries(3), inside), bad), errBoom)
	assert.Equal(t, uint64(1), outside.Snapshot().Failures)
	assert.Equal(t, uint64(3), inside.Snapshot().Failures)
}

// An open breaker outside of the retries ends the whole loop.
func TestOpenBreakerOutsideTheRetriesEndsTheLoop(t *testing.T) {
	b := br(t, newClock())
	made := 0
	counted := seawall.PolicyFunc(func(ctx context.Context, fn func(context.Context) error) error {
		made++
		return fn(ctx)
	})
	trip(t, b)
	require.ErrorIs(t, do(seawall.Chain(b, tries(3), counted), ok), seawall.ErrOpen)
	assert.Zero(t, made)
}

// The documented order, Chain(breaker, bulkhead, timeout): waiting for a slot is not taken for time of the dependency.
// With the timeout outside it is, and the call that got its slot late has little time left.
func TestTimeoutInsideTheBulkheadLeavesOutTheWait(t *testing.T) {
	for name, test := range map[string]struct {
		order func(b *seawall.Breaker, bulkhead *seawall.Bulkhead, to *seawall.Timeout) seawall.Policy
		want  error
	}{
		"inside": {
			order: func(b *seawall.Breaker, bulkhead *seawall.Bulkhead, to *seawall.Timeout) seawall.Policy {
				return seawall.Chain(b, bulkhead, to)
			},
		},
		"outside": {
			order: func(b *seawall.Breaker, bulkhead *seawall.Bulkhead, to *seawall.Timeout) seawall.Policy {
				return seawall.Chain(b, to, bulkhead)
			},
			want: context.DeadlineExceeded,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, bulkhead := newBreaker(t), bh(t, 1)
				p := test.order(b, bulkhead, timeout(t, time.Second))
				h := hold(t, bulkhead)
				result := make(chan error, 1)
				go func() {
					result <- do(p, func(ctx context.Context) error {
						select {
						case <-time.After(600 * time.Millisecond):
							return nil
						case <-ctx.Done():
							return ctx.Err()
						}
					})
				}()
				time.Sleep(600 * time.Millisecond)
				require.NoError(t, h.finish(nil))
				require.ErrorIs(t, <-result, test.want)
			})
		})
	}
}

// B61: a timeout inside of the breaker is a failure of the dependency, which a service that hangs opens it by. One
// that runs out in the queue of a bulkhead is not.
func TestTimeoutInsideTheBreakerCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, bulkhead := newBreaker(t, seawall.WithConsecutiveFailures(3)), bh(t, 1)
		p := seawall.Chain(b, timeout(t, time.Second), bulkhead)
		h := hold(t, bulkhead)
		for range 10 {
			require.ErrorIs(t, do(p, ok), context.DeadlineExceeded)
		}
		wantState(t, b, seawall.Closed)
		assert.Equal(t, uint64(10), b.Snapshot().Totals.Ignored)
		require.NoError(t, h.finish(nil))

		hang := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		for range 3 {
			require.ErrorIs(t, do(p, hang), context.DeadlineExceeded)
		}
		wantState(t, b, seawall.Open)
	})
}

// B76: a hook that panics between the bulkhead's admission and fn loses neither the slot nor the probe's place.
func TestPanickingHookLosesNoSlot(t *testing.T) {
	clk := newClock()
	b := br(t, clk, seawall.WithOnStateChange(func(c seawall.StateChange) {
		if c.To == seawall.HalfOpen {
			panic("hook")
		}
	}))
	bulkhead := bh(t, 1)
	half(t, b, clk)
	var c counter
	assert.PanicsWithValue(t, "hook", func() { _ = do(seawall.Chain(bulkhead, b), c.fn) })
	assert.Zero(t, c.count())
	wantQuiet(t, bulkhead, 1)
	require.NoError(t, do(seawall.Chain(bulkhead, b), c.fn))
	wantState(t, b, seawall.Closed)
}

// B68: rejections don't chain up. However many there are and however many breakers they pass, they cost nothing and
// are one error deep.
func TestRejectionsDoNotChainUp(t *testing.T) {
	inner, outer := br(t, newClock()), br(t, newClock())
	trip(t, inner)
	p := seawall.Chain(outer, inner)
	ctx := t.Context()
	first := p.Do(ctx, ok)
	for range 100_000 {
		_ = p.Do(ctx, ok)
	}
	last := p.Do(ctx, ok)
	wantSame(t, first, last)
	assert.NoError(t, errors.Unwrap(last), "an OpenError is the whole story")
	assert.Zero(t, testing.AllocsPerRun(1000, func() { _ = p.Do(ctx, ok) }))
}

// G126: a fallback is a policy of five lines, outermost.
func TestFallbackIsAPolicy(t *testing.T) {
	b := br(t, newClock())
	trip(t, b)
	var reason error
	fallback := seawall.PolicyFunc(func(ctx context.Context, fn func(context.Context) error) error {
		if reason = fn(ctx); errors.Is(reason, seawall.ErrRejected) {
			return nil // The answer is served from elsewhere.
		}
		return reason
	})
	require.NoError(t, do(seawall.Chain(fallback, b), ok))
	require.ErrorIs(t, reason, seawall.ErrOpen)
	b.Reset()
	require.ErrorIs(t, do(seawall.Chain(fallback, b), bad), errBoom)
}

// I9, G108: no goroutine outlives a call, whatever becomes of it, and a long-lived parent context keeps nothing.
func TestCallsLeaveNothingBehind(t *testing.T) {
	b, bulkhead := newBreaker(t), bh(t, 1, seawall.WithMaxWait(time.Microsecond))
	p := seawall.Chain(b, bulkhead, timeout(t, time.Hour))
	short := seawall.Chain(timeout(t, time.Microsecond), bulkhead)
	parent, cancel := context.WithCancel(t.Context())
	defer cancel()
	foreign := &foreignCtx{Context: parent} // The context package has to watch this one by a goroutine.
	current := goleak.IgnoreCurrent()
	before := heap()
	for range 2_000 {
		require.NoError(t, p.Do(parent, ok))
		require.NoError(t, p.Do(foreign, ok))
		require.ErrorIs(t, bulkhead.Do(parent, func(ctx context.Context) error { return p.Do(ctx, ok) }), seawall.ErrBulkheadFull)
		require.ErrorIs(t, bulkhead.Do(parent, func(ctx context.Context) error { return short.Do(ctx, ok) }), seawall.ErrRejected)
		_, err := seawall.Call(parent, p, func(context.Context) (int, error) { return 0, nil })
		require.NoError(t, err)
	}
	goleak.VerifyNone(t, current)
	assert.Less(t, heap()-before, int64(1<<19), "bytes that 10,000 calls left behind")
}

// foreignCtx is a context that the context package does not know as one of its own.
type foreignCtx struct{ context.Context }

func (c *foreignCtx) Done() <-chan struct{} { return onward(c.Context.Done()) }

func onward(c <-chan struct{}) <-chan struct{} { return c }

// I10, G83: through all guards and Call, fn's error comes back as the value it was, and a panic reaches the caller.
func TestErrorsAndPanicsPassThroughAChainUntouched(t *testing.T) {
	p := seawall.Chain(newBreaker(t), bh(t, 1), timeout(t, time.Hour))
	for _, want := range []error{nil, errBoom, context.DeadlineExceeded, seawall.ErrRejected, seawall.MarkIgnored(errBoom)} {
		wantSame(t, want, do(p, func(context.Context) error { return want }))
		_, got := seawall.Call(t.Context(), p, func(context.Context) (int, error) { return 0, want })
		wantSame(t, want, got)
	}
	assert.PanicsWithValue(t, errBoom, func() { _ = do(p, func(context.Context) error { panic(errBoom) }) })
	assert.PanicsWithValue(t, errBoom, func() {
		_, _ = seawall.Call(t.Context(), p, func(context.Context) (int, error) { panic(errBoom) })
	})
}

// Call.

// Call's value is fn's, also beside an error, and zero if fn did not run: of a breaker, which has a way of its own, and of
// any other policy.
func TestCallReturnsTheValue(t *testing.T) {
	give := func(value string, err error) func(context.Context) (string, error) {
		return func(context.Context) (string, error) { return value, err }
	}
	for name, wrap := range map[string]func(*seawall.Breaker) seawall.Policy{
		"breaker": func(b *seawall.Breaker) seawall.Policy { return b },
		"chain":   func(b *seawall.Breaker) seawall.Policy { return seawall.Chain(b) },
	} {
		t.Run(name, func(t *testing.T) {
			b := br(t, newClock())
			p := wrap(b)
			got, err := seawall.Call(t.Context(), p, give("answer", nil))
			require.NoError(t, err)
			assert.Equal(t, "answer", got)

			got, err = seawall.Call(t.Context(), p, give("half an answer", errBoom))
			wantSame(t, errBoom, err)
			assert.Equal(t, "half an answer", got)

			assert.PanicsWithValue(t, errBoom, func() {
				_, _ = seawall.Call(t.Context(), p, func(context.Context) (int, error) { panic(errBoom) })
			})
			assert.EqualValues(t, 2, b.Snapshot().Totals.Failures)

			b.ForceOpen()
			got, err = seawall.Call(t.Context(), p, give("answer", nil))
			require.ErrorIs(t, err, seawall.ErrOpen)
			assert.Empty(t, got)
		})
	}
}

// Call runs fn on the context that the policies made.
func TestCallPassesTheContextOn(t *testing.T) {
	way, err := seawall.Call(t.Context(), named("a", 1), func(ctx context.Context) (any, error) {
		return ctx.Value(path{}), errBoom
	})
	require.ErrorIs(t, err, errBoom)
	assert.Equal(t, "a0 ", way)
}

// Of several runs Call returns the value of the latest that succeeded, else of the latest.
func TestCallOfSeveralRuns(t *testing.T) {
	times := func(n int) seawall.Policy { // Runs fn n times, whatever it returns.
		return seawall.PolicyFunc(func(ctx context.Context, fn func(context.Context) error) (err error) {
			for range n {
				err = fn(ctx)
			}
			return err
		})
	}
	for name, test := range map[string]struct {
		runs []error
		want int
	}{
		"one fails":             {[]error{errBoom}, 1},
		"all fail":              {[]error{errBoom, errBoom, errBoom}, 3},
		"the last succeeds":     {[]error{errBoom, errBoom, nil}, 3},
		"the first succeeds":    {[]error{nil, errBoom, errBoom}, 1},
		"two succeed":           {[]error{nil, errBoom, nil, errBoom}, 3},
		"none is made":          {nil, 0},
		"one succeeds in a row": {[]error{nil}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			run := 0
			got, err := seawall.Call(t.Context(), times(len(test.runs)), func(context.Context) (int, error) {
				run++
				return run, test.runs[run-1]
			})
			assert.Equal(t, test.want, got)
			if n := len(test.runs); n > 0 {
				wantSame(t, test.runs[n-1], err)
			}
		})
	}
}

// A run that is still at work when Call returns can neither change the value nor race with it.
func TestCallIgnoresRunsThatEndTooLate(t *testing.T) {
	var losers sync.WaitGroup
	for range 300 {
		var first atomic.Bool
		losers.Add(2)
		value, err := seawall.Call(t.Context(), hedge(), func(context.Context) (*int, error) {
			defer losers.Done()
			mine := new(int)
			if first.Swap(true) {
				runtime.Gosched() // It loses, mostly, and now and then by a hair.
			}
			return mine, nil
		})
		require.NoError(t, err)
		require.NotNil(t, value)
		*value = 1 // The detector would see another run write here.
	}
	losers.Wait()

	late := make(chan struct{})
	var first atomic.Bool
	losers.Add(1)
	value, err := seawall.Call(t.Context(), hedge(), func(context.Context) (string, error) {
		if first.Swap(true) {
			defer losers.Done()
			<-late
			return "late", nil
		}
		return "in time", nil
	})
	close(late)
	losers.Wait()
	require.NoError(t, err)
	assert.Equal(t, "in time", value)
}

func TestCallPanicsOnNil(t *testing.T) {
	fn := func(context.Context) (int, error) { return 0, nil }
	var b *seawall.Breaker
	var none func(context.Context) (int, error)
	assert.PanicsWithValue(t, "seawall: nil fn", func() { _, _ = seawall.Call(t.Context(), tries(1), none) })
	assert.PanicsWithValue(t, "seawall: nil Policy", func() { _, _ = seawall.Call(t.Context(), nil, fn) })
	assert.PanicsWithValue(t, "seawall: nil Policy", func() { _, _ = seawall.Call(t.Context(), b, fn) })
	assert.PanicsWithValue(t, "seawall: nil Context", func() { _, _ = seawall.Call(nil, tries(1), fn) }) //nolint:staticcheck // a nil ctx is the point
}

// Call allocates nothing for a breaker, and for another policy its result and one closure.
func TestCallAllocates(t *testing.T) {
	ctx := t.Context()
	fn := func(context.Context) ([4]string, error) { return [4]string{}, nil }
	for name, c := range map[string]struct {
		policy seawall.Policy
		most   float64
	}{"breaker": {newBreaker(t), 0}, "bulkhead": {bh(t, 1), 2}, "chain": {seawall.Chain(), 2}} {
		assert.LessOrEqual(t, testing.AllocsPerRun(1000, func() { _, _ = seawall.Call(ctx, c.policy, fn) }), c.most, name)
	}
}

// Must.

func TestMust(t *testing.T) {
	assert.Equal(t, 1, seawall.Must(1, nil))
	assert.PanicsWithValue(t, errBoom, func() { seawall.Must(1, errBoom) })
	assert.Equal(t, "payments", seawall.Must(seawall.NewBreaker("payments")).Name())
}
