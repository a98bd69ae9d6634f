package proof_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seawall-go/seawall"
)

func newTimeout(d time.Duration) *seawall.Timeout { return seawall.Must(seawall.NewTimeout(d)) }

// G50: the context of fn ends at exactly d with a cause that says who did it; fn is waited for all the same.
func TestSyncTimeoutEndsTheContextAndWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		err := newTimeout(time.Second).Do(t.Context(), func(ctx context.Context) error {
			<-ctx.Done()
			assert.Equal(t, time.Second, time.Since(begin))
			assert.Equal(t, context.DeadlineExceeded, ctx.Err())
			var cause *seawall.TimeoutError
			assert.ErrorAs(t, context.Cause(ctx), &cause)
			assert.Equal(t, time.Second, cause.Timeout)
			assert.ErrorIs(t, cause, context.DeadlineExceeded)
			time.Sleep(time.Minute)
			return nil
		})
		require.NoError(t, err, "nil after the deadline stays nil")
		require.Equal(t, time.Minute+time.Second, time.Since(begin))
	})
}

func TestSyncTimeoutShorterOneWins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		errCause := errors.New("mine")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Millisecond, errCause)
		defer cancel()
		require.NoError(t, newTimeout(time.Second).Do(ctx, func(ctx context.Context) error {
			<-ctx.Done()
			assert.Equal(t, errCause, context.Cause(ctx))
			return nil
		}))
		inner, outer := newTimeout(time.Second), newTimeout(time.Minute)
		for _, p := range []seawall.Policy{seawall.Chain(inner, outer), seawall.Chain(outer, inner)} {
			require.NoError(t, p.Do(t.Context(), func(ctx context.Context) error {
				<-ctx.Done()
				var cause *seawall.TimeoutError
				assert.ErrorAs(t, context.Cause(ctx), &cause)
				assert.Equal(t, time.Second, cause.Timeout)
				return nil
			}))
		}
	})
}

func TestSyncTimeoutDeaths(t *testing.T) {
	for _, how := range []string{"panic", "goexit"} {
		synctest.Test(t, func(t *testing.T) {
			var inner context.Context
			got := apart(func() {
				_ = newTimeout(time.Hour).Do(t.Context(), func(ctx context.Context) error { inner = ctx; die(how); return nil })
			})
			require.Error(t, inner.Err(), "the context ends when fn does")
			if how == "panic" {
				require.Equal(t, any(how), got)
			}
		})
	}
}

// stack is the usual chain, with what it is made of.
type stack struct {
	seawall.Policy
	breaker  *seawall.Breaker
	bulkhead *seawall.Bulkhead
}

func newStack() stack {
	b, h := newBreaker(), newBulkhead(2, seawall.WithMaxWait(time.Second), seawall.WithMaxQueue(3))
	return stack{seawall.Chain(b, h, newTimeout(5*time.Second)), b, h}
}

// G103, B63: a full bulkhead is no fault of the dependency, wherever it stands.
func TestSyncChainFullBulkheadBlamesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStack()
		var full atomic.Int64
		for range 50 {
			go func() {
				if errors.Is(s.Do(t.Context(), sleeping(4*time.Second)), seawall.ErrBulkheadFull) {
					full.Add(1)
				}
			}()
		}
		time.Sleep(10 * time.Second)
		require.EqualValues(t, 48, full.Load())
		require.Equal(t, seawall.Closed, s.breaker.State())
		require.EqualValues(t, 48, s.breaker.Snapshot().Totals.Ignored)
		require.Zero(t, s.breaker.Snapshot().Totals.Failures)
		requireIdle(t, s.bulkhead)
	})
}

// G08: a probe that is refused further in gives its place back and decides nothing.
func TestSyncChainProbeRefusedFurtherIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStack()
		trip(t, s.breaker)
		time.Sleep(small().Cooldown)
		require.NoError(t, s.bulkhead.SetLimit(1))
		release, err := s.bulkhead.Acquire(t.Context())
		require.NoError(t, err)
		for range 100 {
			require.ErrorIs(t, s.Do(t.Context(), nothing), seawall.ErrBulkheadFull)
			requireState(t, s.breaker, seawall.HalfOpen, 0)
		}
		release()
		for range small().ProbeSuccesses {
			require.NoError(t, s.Do(t.Context(), nothing))
		}
		requireState(t, s.breaker, seawall.Closed, 0)
	})
}

// G03, G96, I1: however calls end, all guards are free afterwards.
func TestSyncChainEndsOfAllKinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStack()
		ends := []func(context.Context) error{
			nothing, boom,
			func(context.Context) error { die("panic"); return nil },
			func(context.Context) error { die("goexit"); return nil },
			func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
			func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) },
			func(context.Context) error { return seawall.MarkIgnored(errBoom) },
			sleeping(time.Second),
		}
		var wg sync.WaitGroup
		for i := range 400 {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%13)*time.Second)
				defer cancel()
				apart(func() { _ = s.Do(ctx, ends[i%len(ends)]) })
			})
			time.Sleep(time.Duration(i%7) * 300 * time.Millisecond)
		}
		wg.Wait()
		requireIdle(t, s.bulkhead)
		x := s.breaker.Snapshot()
		require.Positive(t, x.Generation)
		require.EqualValues(t, 400, x.Totals.Successes+x.Totals.Failures+x.Totals.Ignored+x.Totals.Late+x.Totals.Rejected+x.Totals.Cancelled)
		time.Sleep(x.RetryAfter + small().ProbeTimeout) // I4: whatever happened, it recovers.
		for s.breaker.State() != seawall.Closed {
			require.NoError(t, s.Do(t.Context(), nothing))
		}
	})
}

// G60 of part 2, B60 and the like: a caller who hangs up in the queue or in the call is not evidence.
func TestSyncChainCallersWhoHangUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStack()
		for i := range 100 {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Duration(i)*time.Millisecond, cancel)
			_ = s.Do(ctx, func(ctx context.Context) error { <-ctx.Done(); return errors.New("connection closed") })
			cancel()
		}
		x := s.breaker.Snapshot()
		require.Equal(t, seawall.Closed, x.State)
		require.Zero(t, x.Calls)
		require.EqualValues(t, 100, x.Totals.Ignored)
	})
}

// The Timeout's own deadline, passed while fn ran, is evidence: a dependency that hangs trips the breaker. G41, B61.
func TestSyncChainTripsOnTimeouts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStack()
		begin := time.Now()
		for range small().ConsecutiveFailures {
			err := s.Do(t.Context(), func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
		require.Equal(t, seawall.Open, s.breaker.State())
		require.Equal(t, time.Duration(small().ConsecutiveFailures)*5*time.Second, time.Since(begin))
	})
}

// hedge calls its fn twice at once, the second time a little later, and takes what comes first. It leaves the other
// run behind, as hedged requests do.
func hedge(after time.Duration) seawall.PolicyFunc {
	return func(ctx context.Context, fn func(context.Context) error) error {
		first := make(chan error, 2)
		go func() { first <- fn(ctx) }()
		select {
		case err := <-first:
			return err
		case <-time.After(after):
			go func() { first <- fn(ctx) }()
			return <-first
		}
	}
}

// retry is the plainest loop that heeds the rules of design §6.
func retry(times int) seawall.PolicyFunc {
	return func(ctx context.Context, fn func(context.Context) error) (err error) {
		for range times {
			if err = fn(ctx); err == nil || errors.Is(err, seawall.ErrRejected) {
				return err
			}
		}
		return err
	}
}

// A policy may call its fn several times, also at once, at any place of the chain. Design §6, G105.
func TestSyncChainWithPoliciesThatRunFnTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, h := newBreaker(), newBulkhead(4)
		var ran atomic.Int64
		slowFirst := func(context.Context) error {
			if ran.Add(1)%2 == 1 {
				time.Sleep(time.Second)
			}
			return nil
		}
		for _, p := range []seawall.Policy{
			seawall.Chain(b, hedge(time.Millisecond), h, newTimeout(time.Minute)),
			seawall.Chain(hedge(time.Millisecond), b, h, newTimeout(time.Minute)),
			seawall.Chain(b, h, hedge(time.Millisecond), newTimeout(time.Minute)),
		} {
			begin := time.Now()
			require.NoError(t, p.Do(t.Context(), slowFirst))
			require.Equal(t, time.Millisecond, time.Since(begin))
			time.Sleep(time.Second)
			synctest.Wait()
			requireIdle(t, h)
		}
		require.EqualValues(t, 6, ran.Load())
		require.EqualValues(t, 1+2+1, b.Snapshot().Totals.Successes)

		out := seawall.Must(seawall.NewBreaker("", seawall.WithConsecutiveFailures(100)))
		require.ErrorIs(t, seawall.Chain(out, retry(3)).Do(t.Context(), boom), errBoom)
		require.EqualValues(t, 1, out.Snapshot().Failures, "one call, whatever the loop inside did")
		require.ErrorIs(t, seawall.Chain(retry(3), out).Do(t.Context(), boom), errBoom)
		require.EqualValues(t, 1+3, out.Snapshot().Failures, "each try is a call")
		out.ForceOpen()
		require.ErrorIs(t, seawall.Chain(retry(3), out).Do(t.Context(), boom), seawall.ErrOpen)
		require.EqualValues(t, 1, out.Snapshot().Totals.Rejected, "the loop stops at the first rejection")
	})
}

// I11: a chain keeps no context, and nesting changes nothing.
func TestSyncChainIsAssociative(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var trace []string
		named := func(name string) seawall.Policy {
			return seawall.PolicyFunc(func(ctx context.Context, fn func(context.Context) error) error {
				trace = append(trace, "into "+name)
				defer func() { trace = append(trace, "out of "+name) }()
				return fn(context.WithValue(ctx, key(name), name))
			})
		}
		a, b, c := named("a"), named("b"), named("c")
		run := func(p seawall.Policy) []string {
			trace = nil
			for _, ctx := range []context.Context{t.Context(), context.WithValue(t.Context(), key("x"), "x")} {
				require.Equal(t, errBoom, p.Do(ctx, func(inner context.Context) error {
					for _, k := range []string{"a", "b", "c"} {
						assert.Equal(t, k, inner.Value(key(k)))
					}
					assert.Equal(t, ctx.Value(key("x")), inner.Value(key("x")))
					trace = append(trace, "fn")
					return errBoom
				}))
			}
			return trace
		}
		want := run(seawall.Chain(a, b, c))
		require.Len(t, want, 14)
		for _, p := range []seawall.Policy{
			seawall.Chain(seawall.Chain(a, b), c), seawall.Chain(a, seawall.Chain(b, c)),
			seawall.Chain(seawall.Chain(), seawall.Chain(a, seawall.Chain(b), seawall.Chain(seawall.Chain(c)))),
		} {
			require.Equal(t, want, run(p))
		}
	})
}

type key string
