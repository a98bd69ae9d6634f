package seawall_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/benbjohnson/clock"

	"github.com/seawall-go/seawall"
)

// Stock is a client of a service that tells how many of an item there are. The service hangs: it takes requests and
// does not answer.
type Stock struct {
	breaker  *seawall.Breaker
	requests sync.WaitGroup // that have arrived there
	down     chan struct{}  // closed when the service goes down for good, and all connections with it
}

// Of returns how many there are.
func (s *Stock) Of(ctx context.Context, item string) (int, error) {
	return seawall.Call(ctx, s.breaker, func(ctx context.Context) (int, error) {
		s.requests.Done()
		<-s.down
		return 0, errors.New("connection reset")
	})
}

// Nothing fails while a dependency hangs, and yet the breaker opens, as soon as calls have run for longer than they
// ever should. Whoever calls after that has an answer at once and can say "ask in the shop" instead of waiting. Choose a
// threshold well above the slowest answers of a good day, and below the timeout.
func Example_hangingDependency() {
	clk := clock.NewMock()
	breaker := seawall.Must(seawall.NewBreaker("stock",
		seawall.WithSlowCallThreshold(2*time.Second),
		seawall.WithClock(clk),
		seawall.WithOnStateChange(func(c seawall.StateChange) {
			fmt.Println(c.From, "to", c.To, "by", c.Reason, "-", c.SlowCalls, "of", c.Calls, "calls are slow:", c.Err)
		}),
	))
	stock := &Stock{breaker: breaker, down: make(chan struct{})}

	var callers sync.WaitGroup
	stock.requests.Add(12)
	for range 12 {
		callers.Go(func() { _, _ = stock.Of(context.Background(), "umbrella") })
	}
	stock.requests.Wait()
	fmt.Println(breaker.Snapshot().Failures, "failures")

	clk.Add(2250 * time.Millisecond) // the threshold, and an eighth of it
	fmt.Println(breaker.Snapshot().Failures, "failures")
	_, err := stock.Of(context.Background(), "umbrella")
	fmt.Println(err)

	close(stock.down) // What the slow calls return in the end makes no difference.
	callers.Wait()
	totals := breaker.Snapshot().Totals
	fmt.Println(totals.Failures, "failures,", totals.Late, "late")
	// Output:
	// 0 failures
	// 12 failures
	// closed to open by consecutive_failures - 12 of 12 calls are slow: seawall: slow call
	// seawall: stock: circuit open, retry in 5s
	// 12 failures, 0 late
}
