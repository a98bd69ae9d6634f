package seawall

import (
	"context"
	"time"
)

// A Timeout is a [Policy] that gives each call a context with a deadline. Make one with [NewTimeout]; it is safe
// for use by several goroutines.
type Timeout struct {
	d     time.Duration
	cause *TimeoutError
}

// NewTimeout returns a Timeout of d, which must be above 0.
func NewTimeout(d time.Duration) (*Timeout, error) {
	if d <= 0 {
		return nil, outOfRange("NewTimeout", "timeout", d, "above 0")
	}
	return &Timeout{d: d, cause: &TimeoutError{Timeout: d}}, nil
}

// Do runs fn on a context that ends d after the call, or when ctx ends if that is earlier. When the deadline passes,
// the context's cause is a [*TimeoutError].
//
// Do waits for fn: it never abandons it, and it returns fn's error as it came, so fn has to heed its context. A fn
// that returns nil after the deadline has succeeded. Do runs fn also on a ctx that is already done, and measures
// real time: it has no [Clock].
//
// The context ends when fn returns. A result that is still bound to it is lost then; read the body of an
// *http.Response inside of fn.
//
// Do panics if ctx or fn is nil, and on a Timeout that was not made by NewTimeout.
func (t *Timeout) Do(ctx context.Context, fn func(context.Context) error) error {
	checkCall(ctx, fn)
	if t == nil || t.cause == nil {
		panic("seawall: use of a Timeout that was not made by NewTimeout")
	}
	ctx, cancel := context.WithTimeoutCause(ctx, t.d, t.cause)
	defer cancel()
	return fn(ctx)
}
