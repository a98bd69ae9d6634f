package seawall_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/seawall-go/seawall"
)

// setModeByName is what an operator reaches, by a flag, a file or an admin page: it takes "enforce", "observe" or "off".
func setModeByName(breaker *seawall.Breaker, name string) error {
	var mode seawall.Mode
	if err := mode.UnmarshalText([]byte(name)); err != nil {
		return err
	}
	return breaker.SetMode(mode)
}

// How to bring a breaker into production: let it observe at first, look at what it would have done, and let it enforce
// when that was right. Observe decides, counts and reports as Enforce does, but every call runs.
func Example_introduceABreaker() {
	breaker := seawall.Must(seawall.NewBreaker("search",
		seawall.WithFailureRate(0.5, 4),
		seawall.WithMode(seawall.Observe),
	))
	call := func(result error) error {
		return breaker.Do(context.Background(), func(context.Context) error { return result })
	}

	// A week of traffic.
	timeout := errors.New("timeout")
	for _, result := range []error{nil, nil, timeout, timeout, timeout, nil, timeout} {
		_ = call(result)
	}

	// The look at it: was the dependency as sick as that, and what would the calls have been worth?
	snapshot := breaker.Snapshot()
	for _, change := range breaker.History() {
		fmt.Printf("would have gone to %v by %v: %d of %d calls failed\n", change.To, change.Reason, change.Failures, change.Calls)
	}
	fmt.Println("would have rejected", snapshot.Totals.WouldReject, "calls, did reject", snapshot.Totals.Rejected)

	// The decision. A breaker that is open already rejects from now on.
	fmt.Println(setModeByName(breaker, "enforced"))
	fmt.Println(setModeByName(breaker, "enforce"))
	fmt.Println(errors.Is(call(nil), seawall.ErrOpen))

	// And the way back, if it was wrong.
	fmt.Println(setModeByName(breaker, "off"), call(nil))
	// Output:
	// would have gone to open by failure_rate: 2 of 4 calls failed
	// would have rejected 3 calls, did reject 0
	// seawall: seawall.Mode "enforced" must be one of [enforce observe off]
	// <nil>
	// true
	// <nil> <nil>
}
