package retry

import (
	"context"
	"errors"
	"time"

	goretry "github.com/sethvargo/go-retry"

	"github.com/seawall-go/seawall"
)

// SethvargoStops is a loop of github.com/sethvargo/go-retry that ends when a call is rejected: it repeats only what it is
// told to.
func SethvargoStops(tries uint64, pause time.Duration) seawall.Policy {
	return seawall.PolicyFunc(func(ctx context.Context, fn func(context.Context) error) error {
		pauses := goretry.WithMaxRetries(tries-1, goretry.NewExponential(pause))
		return goretry.Do(ctx, pauses, func(ctx context.Context) error {
			err := fn(ctx)
			if errors.Is(err, seawall.ErrRejected) {
				return err
			}
			return goretry.RetryableError(err) // Of nil it is nil.
		})
	})
}

// SethvargoWaits is a loop of github.com/sethvargo/go-retry that waits while the breaker is open. What decides about the
// pauses there doesn't see the error, so it is left for it in a variable.
func SethvargoWaits(tries uint64, pause time.Duration) seawall.Policy {
	return seawall.PolicyFunc(func(ctx context.Context, fn func(context.Context) error) error {
		var last error
		pauses := goretry.BackoffFunc(func() (time.Duration, bool) {
			wait, ok := waitFor(ctx, last, pause)
			return wait, !ok
		})
		return goretry.Do(ctx, goretry.WithMaxRetries(tries-1, pauses), func(ctx context.Context) error {
			last = fn(ctx)
			return goretry.RetryableError(last)
		})
	})
}
