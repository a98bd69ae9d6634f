package seawall_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/benbjohnson/clock"

	"github.com/seawall-go/seawall"
)

// fetchPatiently is a retry loop around a breaker. Once the breaker has refused, another try at once would only be
// refused again; so the loop either ends there, or waits as long as the breaker says.
//
// G111: when the context ends during a wait, the error says so and still names the reason of the wait.
func fetchPatiently(ctx context.Context, breaker *seawall.Breaker, wait func(context.Context, time.Duration) error,
	fetch func(context.Context) error,
) error {
	for {
		err := breaker.Do(ctx, fetch)
		if err == nil || ctx.Err() != nil {
			return err
		}
		pause := 100 * time.Millisecond // A real loop lets it grow, at random.
		if open, ok := errors.AsType[*seawall.OpenError](err); ok {
			pause = open.RetryAfter()
		}
		if ended := wait(ctx, pause); ended != nil {
			return errors.Join(ended, err)
		}
	}
}

// A retry loop of one's own around a breaker.
func Example_retryAround() {
	clk := clock.NewMock()
	wait := func(ctx context.Context, d time.Duration) error { // A real one waits for time.After(d) or ctx.Done().
		fmt.Println("wait", d)
		clk.Add(d)
		return ctx.Err()
	}
	breaker := seawall.Must(seawall.NewBreaker("stock", seawall.WithConsecutiveFailures(2), seawall.WithClock(clk)))

	up := clk.Now().Add(3 * time.Second) // when the dependency works again
	err := fetchPatiently(context.Background(), breaker, wait, func(ctx context.Context) error {
		if clk.Now().Before(up) {
			return errors.New("connection refused")
		}
		return nil
	})
	fmt.Println("error:", err)

	breaker.ForceOpen()
	ctx, cancel := context.WithCancel(context.Background())
	impatient := func(ctx context.Context, d time.Duration) error { cancel(); return wait(ctx, d) }
	err = fetchPatiently(ctx, breaker, impatient, func(ctx context.Context) error { return nil })
	fmt.Println(errors.Is(err, context.Canceled), errors.Is(err, seawall.ErrOpen))
	// Output:
	// wait 100ms
	// wait 100ms
	// wait 4.9s
	// error: <nil>
	// wait 5s
	// true true
}
