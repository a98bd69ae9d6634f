package seawall_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seawall-go/seawall"
)

// threeTries calls fn up to three times. A real loop waits between two tries, and is best left to a library made for it;
// what matters here is that it is a policy like any other, and that it stops when a guard further in has refused.
func threeTries(ctx context.Context, fn func(context.Context) error) error {
	var err error
	for range 3 {
		err = fn(ctx)
		if err == nil || errors.Is(err, seawall.ErrRejected) || ctx.Err() != nil {
			break
		}
	}
	return err
}

// The full chain, outermost first. The breaker sees one result for all tries together, each try takes a slot of its
// own, and the timeout is that of one try and leaves out the wait for a slot.
func Example_compose() {
	breaker := seawall.Must(seawall.NewBreaker("orders"))
	bulkhead := seawall.Must(seawall.NewBulkhead("orders", 8, seawall.WithMaxWait(100*time.Millisecond)))
	timeout := seawall.Must(seawall.NewTimeout(time.Second))
	orders := seawall.Chain(breaker, seawall.PolicyFunc(threeTries), bulkhead, timeout)

	tries := 0
	err := orders.Do(context.Background(), func(ctx context.Context) error {
		tries++
		if _, bounded := ctx.Deadline(); !bounded || tries < 3 {
			return errors.New("connection reset")
		}
		return nil
	})

	fmt.Println("error:", err)
	fmt.Println("tries:", tries)
	fmt.Println("slots taken:", bulkhead.Snapshot().Totals.Admitted)
	fmt.Println("calls to the breaker:", breaker.Snapshot().Calls)
	fmt.Println("failures to the breaker:", breaker.Snapshot().Failures)
	// Output:
	// error: <nil>
	// tries: 3
	// slots taken: 3
	// calls to the breaker: 1
	// failures to the breaker: 0
}

// G105: the order decides what a breaker counts. Outside of a retry loop it counts what the caller gets in the end,
// inside of it every try.
func ExampleChain() {
	down := func(ctx context.Context) error { return errors.New("connection refused") }
	outside := seawall.Must(seawall.NewBreaker("outside"))
	inside := seawall.Must(seawall.NewBreaker("inside"))

	_ = seawall.Chain(outside, seawall.PolicyFunc(threeTries)).Do(context.Background(), down)
	_ = seawall.Chain(seawall.PolicyFunc(threeTries), inside).Do(context.Background(), down)

	fmt.Println("breaker outside of the retries:", outside.Snapshot().Failures)
	fmt.Println("breaker inside of the retries:", inside.Snapshot().Failures)
	// Output:
	// breaker outside of the retries: 1
	// breaker inside of the retries: 3
}
