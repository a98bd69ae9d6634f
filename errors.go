package seawall

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Every error that says "fn was not run" matches [ErrRejected]. None of them has a Timeout or Temporary method:
// those would make some clients retry at once.
var (
	// ErrRejected is matched by every error of a policy that did not run fn. Since nothing was sent, another way
	// may be tried even for a call that must not run twice.
	ErrRejected = errors.New("seawall: rejected")

	// ErrOpen is matched by what a [Breaker] returns while it is open, and while it is half-open and all its probes
	// are taken. The error is an [*OpenError]. ErrOpen matches ErrRejected.
	ErrOpen error = rejection("seawall: circuit open")

	// ErrBulkheadFull is matched by what a [Bulkhead] returns when a call found no slot, no place in the queue, or
	// waited in vain. The error is a [*FullError]. ErrBulkheadFull matches ErrRejected.
	ErrBulkheadFull error = rejection("seawall: bulkhead full")

	// ErrSlowCall is what a [StateChange] names as its Err when running calls became too slow.
	ErrSlowCall = errors.New("seawall: slow call")
)

// errNotReturned is what a StateChange names as its Err when fn ended without a result.
var errNotReturned = errors.New("seawall: fn panicked or called runtime.Goexit")

// rejection is a sentinel error that matches ErrRejected too.
type rejection string

func (r rejection) Error() string { return string(r) }
func (r rejection) Unwrap() error { return ErrRejected }

// An OpenError is what a [Breaker] returns instead of running fn. It matches [ErrOpen] and [ErrRejected]. One value
// serves all calls that are rejected for the same reason; it must not be changed.
type OpenError struct {
	Name   string    // the breaker's
	State  State     // Open, or HalfOpen when all probes were taken
	Reason Reason    // of the last state change
	Until  time.Time // when a call may be admitted next; zero while forced open, which has no end

	breaker *Breaker
	until   time.Duration // Until as elapsed time of the breaker; beyond the end of time while forced open
	wait    time.Duration // what RetryAfter says while forced open
}

// RetryAfter returns how long it is from now until a call may be admitted: while open the rest of the cooldown,
// while half-open the time until the oldest probe loses its place. While forced open, which ends at nobody knows
// what time, it is the cooldown. It is never negative, and it is above 0 as long as this rejection holds, so a loop
// that waits for it does not spin.
func (e *OpenError) RetryAfter() time.Duration {
	switch {
	case e.Until.IsZero():
		return e.wait
	case e.breaker == nil: // made by hand, say in a test
		return max(0, time.Until(e.Until))
	default:
		return max(0, e.until-e.breaker.elapsed())
	}
}

func (e *OpenError) Error() string {
	switch {
	case e.Until.IsZero():
		return named(e.Name, "circuit forced open")
	case e.State == HalfOpen:
		return named(e.Name, "circuit half-open and all probes taken, retry in "+short(e.RetryAfter()))
	default:
		return named(e.Name, "circuit open, retry in "+short(e.RetryAfter()))
	}
}

// Is reports whether target is [ErrOpen] or [ErrRejected].
func (e *OpenError) Is(target error) bool { return target == ErrOpen || target == ErrRejected }

// A FullError is what a [Bulkhead] returns instead of running fn. It matches [ErrBulkheadFull] and [ErrRejected],
// and if the call's context ended in the queue also that context's Err and its cause.
type FullError struct {
	Name   string        // the bulkhead's
	Limit  int           // how many calls it runs at once
	Waited time.Duration // how long the call was in the queue
	Cause  error         // context.Cause of a context that ended in the queue, else nil

	ended error // Err of that context
}

func (e *FullError) Error() string {
	text := fmt.Sprintf("bulkhead full, limit %d", e.Limit)
	if e.Waited > 0 {
		text += ", waited " + short(e.Waited)
	}
	if e.Cause != nil {
		text += ": " + e.Cause.Error()
	}
	return named(e.Name, text)
}

// Is reports whether target is [ErrBulkheadFull], [ErrRejected], or matched by what ended the call's context.
func (e *FullError) Is(target error) bool {
	return target == ErrBulkheadFull || target == ErrRejected || endedBy(e.ended, e.Cause, target)
}

// A TimeoutError is the cause of a context that was ended by a [Timeout]. It matches [context.DeadlineExceeded].
type TimeoutError struct {
	Timeout time.Duration
}

func (e *TimeoutError) Error() string { return fmt.Sprintf("seawall: timeout of %v passed", e.Timeout) }

// Is reports whether target is [context.DeadlineExceeded].
func (e *TimeoutError) Is(target error) bool { return target == context.DeadlineExceeded }

// doneError is what a guard returns for a call whose context was done before it asked. It matches ErrRejected, so
// that a breaker further out does not blame the dependency, and Err and cause of the context.
type doneError struct {
	name         string
	ended, cause error
}

// newDoneError takes the Err that the guard has seen: a context of the user's may give another one when asked again.
func newDoneError(name string, ctx context.Context, ended error) error {
	return &doneError{name: name, ended: ended, cause: causeOf(ctx, ended)}
}

// causeOf is context.Cause, or the Err that was seen if a context of the user's denies that there is one.
func causeOf(ctx context.Context, ended error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return ended
}

func (e *doneError) Error() string { return named(e.name, "not run: "+e.cause.Error()) }

func (e *doneError) Is(target error) bool {
	return target == ErrRejected || endedBy(e.ended, e.cause, target)
}

// endedBy reports whether target is matched by a context's Err or its cause. The rejections that ask this have no
// Unwrap: what a cause is beyond that, marked or with a Timeout method, must not make the rejection look like it.
func endedBy(ended, cause, target error) bool {
	return errors.Is(ended, target) || errors.Is(cause, target)
}

// named puts the library's prefix and the guard's name, if it has one, before text.
func named(name, text string) string {
	var s strings.Builder
	s.WriteString("seawall: ")
	if name != "" {
		s.WriteString(name)
		s.WriteString(": ")
	}
	s.WriteString(text)
	return s.String()
}

// short is d for human readers: to a tenth of a second, or finer below one second.
func short(d time.Duration) string {
	if d >= time.Second {
		return d.Round(100 * time.Millisecond).String()
	}
	if d >= time.Millisecond {
		return d.Round(time.Millisecond).String()
	}
	return d.String()
}
