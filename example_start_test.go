package seawall_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seawall-go/seawall"
)

// charge stands for the call to be guarded: it goes over the network and heeds its context.
func charge(ctx context.Context, order string) (receipt string, err error) {
	return "paid: " + order, ctx.Err()
}

// The usual arrangement: a breaker around a bulkhead around a timeout. Make the guards once, one set for each
// dependency, and use them for all calls of it.
func Example() {
	breaker := seawall.Must(seawall.NewBreaker("payments"))
	bulkhead := seawall.Must(seawall.NewBulkhead("payments", 16, seawall.WithMaxQueue(16)))
	timeout := seawall.Must(seawall.NewTimeout(2 * time.Second))
	payments := seawall.Chain(breaker, bulkhead, timeout)

	ctx := context.Background()
	receipt, err := seawall.Call(ctx, payments, func(ctx context.Context) (string, error) {
		return charge(ctx, "order 7")
	})
	if errors.Is(err, seawall.ErrRejected) { // charge was not called, so doing something else instead is safe.
		receipt, err = "to be paid later: order 7", nil
	}
	fmt.Println(receipt, err)
	// Output: paid: order 7 <nil>
}
