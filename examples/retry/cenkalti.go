package retry

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/seawall-go/seawall"
)

// CenkaltiStops is a loop of github.com/cenkalti/backoff that ends when a call is rejected.
func CenkaltiStops(tries uint, pause time.Duration) seawall.Policy {
	return seawall.PolicyFunc(func(ctx context.Context, fn func(context.Context) error) error {
		try := func() (struct{}, error) {
			err := fn(ctx)
			if errors.Is(err, seawall.ErrRejected) {
				err = backoff.Permanent(err)
			}
			return struct{}{}, err
		}
		_, err := backoff.Retry(ctx, try, backoff.WithMaxTries(tries), backoff.WithBackOff(exponential(pause)))
		return err
	})
}

// CenkaltiWaits is a loop of github.com/cenkalti/backoff that waits while the breaker is open. The error that asks for the
// wait is joined to the breaker's, which would be lost otherwise.
func CenkaltiWaits(tries uint, pause time.Duration) seawall.Policy {
	return seawall.PolicyFunc(func(ctx context.Context, fn func(context.Context) error) error {
		try := func() (struct{}, error) {
			err := fn(ctx)
			if !errors.Is(err, seawall.ErrOpen) {
				return struct{}{}, err
			}
			wait, ok := waitFor(ctx, err, pause)
			if !ok {
				return struct{}{}, backoff.Permanent(err)
			}
			return struct{}{}, errors.Join(err, &backoff.RetryAfterError{Duration: wait})
		}
		_, err := backoff.Retry(ctx, try, backoff.WithMaxTries(tries), backoff.WithBackOff(exponential(pause)))
		return err
	})
}

// exponential is made anew for each call: a BackOff counts.
func exponential(pause time.Duration) backoff.BackOff {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval = pause
	return b
}
