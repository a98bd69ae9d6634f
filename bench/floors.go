package bench

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"
)

// The floors say what the ingredients of a breaker cost in the shape that all
// rows have. They protect nothing.

// cacheLine keeps what every call reads away from what every call writes.
const cacheLine = 64

// bucketEnd is an end of the current bucket that no run reaches.
const bucketEnd = 1000 * time.Hour

// ctxFnFloor looks at ctx and runs fn.
func ctxFnFloor(config) do {
	return func(ctx context.Context, fn func(context.Context) error) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		return fn(ctx)
	}
}

func ctxFnFloorCall(config) call {
	return func(ctx context.Context, fn func(context.Context) (int, error)) (int, error) {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		return fn(ctx)
	}
}

func ctxFnFloorBulkhead(int, bool) do { return ctxFnFloor(alike()) }

// ctxFnFloorStack adds nothing but the context that carries the timeout.
func ctxFnFloorStack(_ int, timeout time.Duration) do {
	return func(ctx context.Context, fn func(context.Context) error) error {
		return withTimeout(ctx, timeout, fn)
	}
}

// clockAddFloor reads the clock and counts.
func clockAddFloor(config) do {
	var calls atomic.Uint64
	base := time.Now()
	return func(ctx context.Context, fn func(context.Context) error) error {
		err := fn(ctx)
		if time.Since(base) < bucketEnd {
			calls.Add(1)
		}
		return err
	}
}

// windowFloor is the least that a breaker with a rolling window can do
// without a lock: look at the state, read the clock, count in the bucket.
func windowFloor(config) do {
	var b struct {
		state atomic.Uint32
		base  time.Time
		_     [cacheLine]byte
		calls atomic.Uint64
		_     [cacheLine - 8]byte
	}
	b.base = time.Now()
	return func(ctx context.Context, fn func(context.Context) error) error {
		if b.state.Load() != 0 {
			return errRejected
		}
		err := fn(ctx)
		if time.Since(b.base) < bucketEnd {
			b.calls.Add(1)
		}
		return err
	}
}

// shardedWindowFloor is windowFloor with a bucket of eight cells, of which pick
// chooses one for each call: Go has no cheap way to ask for the core's own.
func shardedWindowFloor(pick func() uintptr) func(config) do {
	return func(config) do {
		var b struct {
			state atomic.Uint32
			base  time.Time
			_     [cacheLine]byte
			cells [8]struct {
				calls atomic.Uint64
				_     [cacheLine - 8]byte
			}
		}
		b.base = time.Now()
		return func(ctx context.Context, fn func(context.Context) error) error {
			if b.state.Load() != 0 {
				return errRejected
			}
			err := fn(ctx)
			if time.Since(b.base) < bucketEnd {
				b.cells[pick()%8].calls.Add(1)
			}
			return err
		}
	}
}

func atRandom() uintptr { return uintptr(rand.Uint32()) }

// byStack is the same for all calls of a goroutine as long as its stack stays
// where it is, and by chance the same for two goroutines.
func byStack() uintptr {
	var here byte
	return uintptr(unsafe.Pointer(&here)) >> 13
}

// mutexFloor counts under a mutex, taken once.
func mutexFloor(config) do {
	var mu sync.Mutex
	var calls uint64
	return func(ctx context.Context, fn func(context.Context) error) error {
		err := fn(ctx)
		mu.Lock()
		calls++
		mu.Unlock()
		return err
	}
}

// channelFloor sends to and receives from a buffered channel.
func channelFloor(config) do { return channelFloorBulkhead(1024, true) }

func channelFloorBulkhead(limit int, _ bool) do {
	slots := make(chan struct{}, limit)
	return func(ctx context.Context, fn func(context.Context) error) error {
		slots <- struct{}{}
		err := fn(ctx)
		<-slots
		return err
	}
}
