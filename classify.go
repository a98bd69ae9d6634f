package seawall

import (
	"context"
	"errors"
	"time"
)

// DefaultClassifier judges an error as a [Breaker] does by default. It is exported to be called from a classifier of
// one's own; see [WithClassifier].
//
// It returns Ignored if ctx, the context that the caller gave to Do or Allow, was cancelled: who hangs up says
// nothing about the dependency. It asks ctx and not err, since a call whose context has a cause often returns an
// error that matches neither [context.Canceled] nor [context.DeadlineExceeded]. Every other error is a Failure, a
// deadline that passed too. A nil err is a Success.
//
// Mind that callers who hang up before their call fails make a dependency that hangs look healthy.
func DefaultClassifier(ctx context.Context, err error) Outcome {
	switch {
	case err == nil:
		return Success
	case errors.Is(ctx.Err(), context.Canceled):
		return Ignored
	default:
		return Failure
	}
}

// MarkSuccess returns an error that a [Breaker] counts as Success, whatever its classifier says: for an answer that
// is an error to the caller and yet shows that the dependency works, such as "not found". It has err's text and
// matches what err matches. MarkSuccess(nil) is nil.
func MarkSuccess(err error) error { return mark(err, Success) }

// MarkIgnored returns an error that a [Breaker] counts as Ignored, whatever its classifier says: for one that says
// nothing about the dependency. It has err's text and matches what err matches. MarkIgnored(nil) is nil.
func MarkIgnored(err error) error { return mark(err, Ignored) }

func mark(err error, outcome Outcome) error {
	if err == nil {
		return nil
	}
	return &markedError{err: err, outcome: outcome}
}

// markedError is found anywhere in an error's tree, so a mark survives wrapping; of several the outermost counts.
type markedError struct {
	err     error
	outcome Outcome
}

func (m *markedError) Error() string { return m.err.Error() }
func (m *markedError) Unwrap() error { return m.err }

// judge finds the outcome of a call that returned err. All of it is code of the user's, methods of err included.
func judge(ctx context.Context, err error, classify func(context.Context, error) Outcome) Outcome {
	if m, ok := errors.AsType[*markedError](err); ok && m != nil {
		return m.outcome
	}
	if errors.Is(err, ErrRejected) { // A policy further in refused; the dependency was never reached.
		return Ignored
	}
	switch o := classify(ctx, err); o {
	case Success, Failure, Ignored:
		return o
	default: // A classifier that returns nonsense must not blind the breaker.
		return Failure
	}
}

// retryAfter returns the wait that err itself asks for, 0 if it asks for none.
func retryAfter(err error) time.Duration {
	type asker interface {
		error
		RetryAfter() time.Duration
	}
	if e, ok := errors.AsType[asker](err); ok && e != nil {
		return max(0, e.RetryAfter())
	}
	return 0
}
