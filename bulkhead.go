package seawall

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// A Bulkhead is a [Policy] that caps how many calls run at once, so that a dependency which turns slow can't take
// every goroutine and connection with it. Calls beyond the limit wait in line, first come, first served, or are
// rejected with a [*FullError]; see [WithMaxWait] and [WithMaxQueue].
//
// Make one with [NewBulkhead], one for each dependency. A Bulkhead is safe for use by several goroutines and must not
// be copied. It is not re-entrant: a call that asks the Bulkhead it holds a slot of for another one may wait for
// itself.
type Bulkhead struct {
	// What a call writes that need not wait: two words beside each other.
	admitted atomic.Uint64
	slots    slots

	// Set once in NewBulkhead.
	name   string
	config bulkheadConfig

	full atomic.Pointer[FullError] // what a call gets that may not wait, made anew with each limit

	mu      sync.Mutex // guards the fields below
	limit   int
	waiting int
	waited  time.Duration

	rejectedFull, rejectedTimeout, cancelled atomic.Uint64
}

// NewBulkhead returns a Bulkhead that runs up to limit calls at once, from 1 to 1<<20. The name, which may be any, is
// for errors and metrics.
//
// The error, if any, joins one for every value that is not legal and names the legal range.
func NewBulkhead(name string, limit int, opts ...BulkheadOption) (*Bulkhead, error) {
	config, err := newBulkheadConfig(opts)
	if err = errors.Join(checkLimit("NewBulkhead", limit), err); err != nil {
		return nil, err
	}
	b := &Bulkhead{name: name, config: config, slots: slots{grants: newGrants()}}
	b.resizeLocked(limit)
	return b, nil
}

// Do waits for a slot as the options say, runs fn, and gives the slot back when fn has returned, panicked or called
// runtime.Goexit. It returns fn's error as it came.
//
// Without running fn it returns a [*FullError] if there is no slot, or if ctx ends while the call waits; and if ctx
// is done already, an error that matches [ErrRejected], ctx.Err() and context.Cause(ctx).
//
// Do panics if ctx or fn is nil, and on a Bulkhead that was not made by NewBulkhead.
func (b *Bulkhead) Do(ctx context.Context, fn func(context.Context) error) error {
	b.mustBeMade()
	checkCall(ctx, fn)
	if b.config.maxQueue == 0 && b.slots.load().balance() <= 0 && ctx.Err() == nil {
		return b.reject() // A quarter faster here than further in.
	}
	if err := b.acquire(ctx); err != nil {
		return err
	}
	defer b.release()
	return fn(ctx)
}

// Acquire is the two-step form of [Bulkhead.Do] for calls that do not fit into one function. It returns a nil error
// and release if the call has a slot, and else what Do would return. Call release when the call has ended, from any
// goroutine; only the first time counts. A slot that is not released is lost.
//
// Acquire panics if ctx is nil, and on a Bulkhead that was not made by NewBulkhead.
func (b *Bulkhead) Acquire(ctx context.Context) (release func(), err error) {
	b.mustBeMade()
	checkContext(ctx)
	if err := b.acquire(ctx); err != nil {
		return nil, err
	}
	return once(b, (*Bulkhead).release), nil
}

// once returns a function that calls f with x the first time and then does nothing. That x is passed on its own saves an
// allocation: a method value would be one.
func once[T any](x T, f func(T)) func() {
	var used atomic.Bool
	return func() {
		if !used.Swap(true) {
			f(x)
		}
	}
}

// Name returns the name given to [NewBulkhead].
func (b *Bulkhead) Name() string {
	b.mustBeMade()
	return b.name
}

// Limit returns how many calls may run at once.
func (b *Bulkhead) Limit() int {
	b.mustBeMade()
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.limit
}

// SetLimit changes how many calls may run at once, to n from 1 to 1<<20, and never blocks. A higher limit lets
// waiting calls go at once. Under a lower one running calls go on; no new one starts until fewer than n run.
func (b *Bulkhead) SetLimit(n int) error {
	b.mustBeMade()
	if err := checkLimit("SetLimit", n); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.resizeLocked(n)
	return nil
}

// Snapshot returns a copy of what the bulkhead knows and changes nothing.
func (b *Bulkhead) Snapshot() BulkheadSnapshot {
	b.mustBeMade()
	b.mu.Lock()
	defer b.mu.Unlock()
	return BulkheadSnapshot{
		Name:     b.name,
		Limit:    b.limit,
		InFlight: b.limit - int(b.slots.load().balance()),
		Waiting:  b.waiting,
		MaxQueue: b.config.maxQueue,
		Totals: BulkheadTotals{
			Admitted:        b.admitted.Load(),
			RejectedFull:    b.rejectedFull.Load(),
			RejectedTimeout: b.rejectedTimeout.Load(),
			Cancelled:       b.cancelled.Load(),
			Waited:          b.waited,
		},
	}
}

// acquire takes a slot. A ctx that is done wins over a free slot, and a free slot over the queue.
func (b *Bulkhead) acquire(ctx context.Context) error {
	if ended := ctx.Err(); ended != nil {
		b.cancelled.Add(1)
		return newDoneError(b.name, ctx, ended)
	}
	switch {
	case b.slots.take():
		b.admitted.Add(1)
		return nil
	case b.config.maxQueue == 0:
		return b.reject()
	default:
		return b.wait(ctx)
	}
}

// reject turns a call away that may not wait.
func (b *Bulkhead) reject() error {
	b.rejectedFull.Add(1)
	return b.full.Load()
}

// wait takes a place in the queue and leaves it with a slot or an error.
func (b *Bulkhead) wait(ctx context.Context) error {
	start, timeout, ok := b.enqueue()
	if !ok {
		return b.reject()
	}
	taken := b.slots.join()
	if !taken {
		select {
		case <-b.slots.grants:
			taken = true
		case <-ctx.Done():
			taken = b.slots.leave()
		case <-timeout:
			taken = b.slots.leave()
		}
	}
	waited := max(0, b.config.clock.Now().Sub(start))
	b.dequeue(waited)

	ended := ctx.Err()
	switch {
	case ended != nil: // It may have ended at the very instant the slot came: it wins all the same.
		if taken {
			b.release()
		}
		b.cancelled.Add(1)
		return b.newFullError(waited, ended, causeOf(ctx, ended))
	case taken:
		b.admitted.Add(1)
		return nil
	default:
		b.rejectedTimeout.Add(1)
		return b.newFullError(waited, nil, nil)
	}
}

func (b *Bulkhead) newFullError(waited time.Duration, ended, cause error) error {
	return &FullError{Name: b.name, Limit: b.Limit(), Waited: waited, Cause: cause, ended: ended}
}

// enqueue counts a call as waiting if it may wait, and returns since when and what ends the wait. The clock is asked for
// both before the call shows in a Snapshot, so that a test which has seen it there can move its clock.
func (b *Bulkhead) enqueue() (start time.Time, timeout <-chan time.Time, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	maxWait, maxQueue := b.config.maxWait, b.config.maxQueue
	if maxQueue != unbounded && b.waiting >= maxQueue {
		return time.Time{}, nil, false
	}
	start = b.config.clock.Now()
	if maxWait != unbounded {
		timeout = b.config.clock.After(maxWait)
	}
	b.waiting++
	return start, timeout, true
}

func (b *Bulkhead) dequeue(waited time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting--
	b.waited += waited
}

func (b *Bulkhead) release() { b.slots.give(1) }

func (b *Bulkhead) resizeLocked(limit int) {
	b.slots.give(limit - b.limit)
	b.limit = limit
	b.full.Store(&FullError{Name: b.name, Limit: limit})
}

func (b *Bulkhead) mustBeMade() {
	if b == nil || b.slots.grants == nil {
		panic("seawall: use of a Bulkhead that was not made by NewBulkhead")
	}
}

func checkLimit(where string, n int) error {
	if n < 1 || n > maxLimit {
		return outOfRange(where, "limit", n, "from 1 to 1048576")
	}
	return nil
}
