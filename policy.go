package seawall

import (
	"context"
	"fmt"
	"slices"
	"sync"
)

// A Policy runs a function, or refuses to, or runs it more than once: a [Breaker], a [Bulkhead], a [Timeout], a
// retry loop. Policies compose by [Chain], since all of them have this one method.
//
// Do runs fn on ctx or on a context derived from it, and returns fn's error, or an error of its own that matches
// [ErrRejected] if it did not run fn at all. The policies of this package return fn's error as the value it was,
// never wrapped. They are safe for use by several goroutines and panic if ctx or fn is nil.
type Policy interface {
	Do(ctx context.Context, fn func(context.Context) error) error
}

// A PolicyFunc is a function used as a [Policy]. It may call its fn several times, also at once from several
// goroutines: that is how a retry loop or a hedged request becomes part of a [Chain].
type PolicyFunc func(ctx context.Context, fn func(context.Context) error) error

// Do calls p. It panics if p, ctx or fn is nil.
func (p PolicyFunc) Do(ctx context.Context, fn func(context.Context) error) error {
	checkCall(ctx, fn)
	if p == nil {
		panic("seawall: nil PolicyFunc")
	}
	return p(ctx, fn)
}

// Chain composes policies into one, outermost first: Chain(a, b).Do(ctx, fn) is a.Do around b.Do around fn.
// Without policies it just runs fn. Chains may be nested; Chain(Chain(a, b), c) is Chain(a, b, c). A Chain keeps no
// context and nothing else between calls, and allocates one closure for each policy but a [Breaker], a [Bulkhead], a
// [Timeout] and the innermost one.
//
// The usual order is Chain(breaker, retry, bulkhead, timeout). The breaker is outside of the retries, so that an
// open circuit ends the whole loop and a retried call counts as one result; the timeout is inside of the bulkhead,
// so that waiting for a slot is not taken for time of the dependency.
//
// The policies that are in it can be asked for by a method Policies() []Policy, for those who look into a Policy, such as
// exporters of metrics.
//
// Chain panics if a policy is nil.
func Chain(policies ...Policy) Policy {
	flat := make([]Policy, 0, len(policies))
	for i, p := range policies {
		if isNil(p) {
			panic(fmt.Sprintf("seawall: Chain: policy %d of %d is nil", i+1, len(policies)))
		}
		if inner, ok := p.(*chain); ok {
			flat = append(flat, inner.policies...)
		} else {
			flat = append(flat, p)
		}
	}
	return &chain{flat}
}

// chain is a list of policies, outermost first. Its Do is a plain recursion whose frames are the callers' own: nothing
// is shared between calls, or between several runs of one fn.
type chain struct{ policies []Policy }

// Policies returns the policies of the chain, outermost first.
func (c *chain) Policies() []Policy { return slices.Clone(c.policies) }

func (c *chain) Do(ctx context.Context, fn func(context.Context) error) error {
	checkCall(ctx, fn)
	return c.doFrom(0, ctx, fn)
}

// doFrom runs fn under the policies from the i-th on. The compiler leaves a func on the stack only where it sees whose Do
// is called, hence the same line four times.
func (c *chain) doFrom(i int, ctx context.Context, fn func(context.Context) error) error {
	switch len(c.policies) - i {
	case 0:
		return fn(ctx)
	case 1:
		return c.policies[i].Do(ctx, fn)
	}
	switch p := c.policies[i].(type) {
	case *Breaker:
		return p.Do(ctx, func(ctx context.Context) error { return c.doFrom(i+1, ctx, fn) })
	case *Bulkhead:
		return p.Do(ctx, func(ctx context.Context) error { return c.doFrom(i+1, ctx, fn) })
	case *Timeout:
		return p.Do(ctx, func(ctx context.Context) error { return c.doFrom(i+1, ctx, fn) })
	default:
		return p.Do(ctx, func(ctx context.Context) error { return c.doFrom(i+1, ctx, fn) })
	}
}

// Call runs fn under p and returns fn's value beside the error of p.Do: the zero value of T if fn did not run, and
// whatever fn returned if it did, also with an error. Of a policy that runs fn several times it returns the value of
// the latest run that succeeded, or of the latest run if none did; a run that ends after p.Do has returned is
// ignored. It panics if ctx, p or fn is nil.
func Call[T any](ctx context.Context, p Policy, fn func(context.Context) (T, error)) (T, error) {
	if fn == nil {
		panic("seawall: nil fn")
	}
	if isNil(p) {
		panic("seawall: nil Policy")
	}
	if b, ok := p.(*Breaker); ok {
		return callBreaker(ctx, b, fn)
	}
	var kept result[T]
	err := p.Do(ctx, func(ctx context.Context) error {
		value, err := fn(ctx)
		kept.put(value, err == nil)
		return err
	})
	return kept.get(), err
}

// callBreaker is Call for the policy that most calls have. A breaker runs fn once, on this goroutine: the value needs no
// lock, and allocates nothing.
func callBreaker[T any](ctx context.Context, b *Breaker, fn func(context.Context) (T, error)) (value T, err error) {
	err = b.Do(ctx, func(ctx context.Context) (err error) {
		value, err = fn(ctx)
		return err
	})
	return value, err
}

// result is the value that Call returns. It has a lock because a policy may run fn in several goroutines, and one
// of them may still be at work when the policy returns.
type result[T any] struct {
	mu    sync.Mutex
	value T
	good  bool
}

func (r *result[T]) put(value T, good bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if good || !r.good {
		r.value, r.good = value, good
	}
}

func (r *result[T]) get() T {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.value
}

// Must returns v, or panics with err if that is not nil. It is meant for package variables whose options are
// constants: var payments = seawall.Must(seawall.NewBreaker("payments")).
func Must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// isNil reports whether p is nil or a nil value of one of this package's own types. Other types may have a use for
// their nil value.
func isNil(p Policy) bool {
	switch p := p.(type) {
	case nil:
		return true
	case *Breaker:
		return p == nil
	case *Bulkhead:
		return p == nil
	case *Timeout:
		return p == nil
	case PolicyFunc:
		return p == nil
	default:
		return false
	}
}

// checkCall panics on the mistakes that no caller could handle.
func checkCall(ctx context.Context, fn func(context.Context) error) {
	checkContext(ctx)
	if fn == nil {
		panic("seawall: nil fn")
	}
}

func checkContext(ctx context.Context) {
	if ctx == nil {
		panic("seawall: nil Context")
	}
}
