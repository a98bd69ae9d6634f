package retry

import (
	"context"
	"errors"
	"time"

	retrygo "github.com/avast/retry-go/v5"

	"github.com/seawall-go/seawall"
)

// AvastStops is a loop of github.com/avast/retry-go that ends when a call is rejected.
func AvastStops(tries uint, pause time.Duration) seawall.Policy {
	return seawall.PolicyFunc(func(ctx context.Context, fn func(context.Context) error) error {
		return retrygo.New(
			retrygo.Context(ctx), retrygo.Attempts(tries), retrygo.Delay(pause), retrygo.LastErrorOnly(true),
			retrygo.RetryIf(func(err error) bool { return !errors.Is(err, seawall.ErrRejected) }),
		).Do(func() error { return fn(ctx) })
	})
}

// AvastWaits is a loop of github.com/avast/retry-go that waits while the breaker is open.
func AvastWaits(tries uint, pause time.Duration) seawall.Policy {
	return seawall.PolicyFunc(func(ctx context.Context, fn func(context.Context) error) error {
		return retrygo.New(
			retrygo.Context(ctx), retrygo.Attempts(tries), retrygo.LastErrorOnly(true),
			retrygo.RetryIf(func(err error) bool {
				_, ok := waitFor(ctx, err, pause)
				return ok
			}),
			retrygo.DelayType(func(_ uint, err error, _ retrygo.DelayContext) time.Duration {
				wait, _ := waitFor(ctx, err, pause)
				return wait
			}),
		).Do(func() error { return fn(ctx) })
	})
}
