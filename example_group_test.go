package seawall_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seawall-go/seawall"
)

// A breaker for each host, so that one which is down does not take the others along.
func ExampleGroup() {
	hosts := seawall.Must(seawall.NewGroup(func(host string) (*seawall.Breaker, error) {
		return seawall.NewBreaker(host, seawall.WithConsecutiveFailures(3), seawall.WithCooldown(time.Minute))
	}))

	ctx := context.Background()
	get := func(host string) error {
		return hosts.Do(ctx, host, func(ctx context.Context) error {
			if host == "down.example" {
				return errors.New("connection refused")
			}
			return nil
		})
	}
	for range 4 {
		fmt.Println(get("down.example"), "/", get("up.example"))
	}
	// Output:
	// connection refused / <nil>
	// connection refused / <nil>
	// connection refused / <nil>
	// seawall: down.example: circuit open, retry in 1m0s / <nil>
}

// What a wrong option would do, the Group says when it is made, not when the first host is called.
func ExampleNewGroup() {
	_, err := seawall.NewGroup(func(host string) (*seawall.Breaker, error) {
		return seawall.NewBreaker(host, seawall.WithConsecutiveFailures(0))
	})
	fmt.Println(err)
	// Output:
	// seawall: NewGroup: the policy function fails for the zero key: seawall: WithConsecutiveFailures: n 0 must be at least 1
}

// A Group is a part of a chain like any other policy, here with a bulkhead for each tenant inside of one breaker for the
// database that they share.
func ExampleGroup_Policy() {
	database := seawall.Must(seawall.NewBreaker("database"))
	tenants := seawall.Must(seawall.NewGroup(func(tenant string) (*seawall.Bulkhead, error) {
		return seawall.NewBulkhead(tenant, 1, seawall.WithMaxWait(0))
	}))
	query := func(tenant string, fn func(context.Context) error) error {
		return seawall.Chain(database, tenants.Policy(tenant)).Do(context.Background(), fn)
	}

	err := query("a", func(context.Context) error {
		fmt.Println("a again:", query("a", nothing))
		fmt.Println("b:", query("b", nothing))
		return nil
	})
	fmt.Println("a:", err)
	fmt.Println("failures of the database:", database.Snapshot().Failures)
	// Output:
	// a again: seawall: a: bulkhead full, limit 1
	// b: <nil>
	// a: <nil>
	// failures of the database: 0
}

func nothing(context.Context) error { return nil }

// A key that finds no place, for all others are in use or failing, runs under the overflow policy: by default without a
// guard, here no more than one such call at a time.
func ExampleWithOverflow() {
	hosts := seawall.Must(seawall.NewGroup(
		func(host string) (*seawall.Breaker, error) { return seawall.NewBreaker(host) },
		seawall.WithMaxKeys(1),
		seawall.WithOverflow(seawall.Must(seawall.NewBulkhead("other hosts", 1, seawall.WithMaxWait(0)))),
	))

	ctx := context.Background()
	_ = hosts.Do(ctx, "failing.example", func(context.Context) error { return errors.New("connection refused") })
	_ = hosts.Do(ctx, "one.example", func(ctx context.Context) error {
		fmt.Println(hosts.Do(ctx, "two.example", func(context.Context) error { return nil }))
		return nil
	})
	fmt.Printf("%+v\n", hosts.Snapshot())
	// Output:
	// seawall: other hosts: bulkhead full, limit 1
	// {Size:1 MaxKeys:1 Evictions:0 Overflow:2}
}

// Which hosts are down? Names of keys belong on a page or into a log; a metric would have one series for each.
func ExampleGroup_All() {
	hosts := seawall.Must(seawall.NewGroup(func(host string) (*seawall.Breaker, error) {
		return seawall.NewBreaker(host, seawall.WithConsecutiveFailures(1))
	}))
	ctx := context.Background()
	_ = hosts.Do(ctx, "up.example", func(context.Context) error { return nil })
	_ = hosts.Do(ctx, "down.example", func(context.Context) error { return errors.New("connection refused") })

	for host, policy := range hosts.All() {
		fmt.Println(host, policy.(*seawall.Breaker).State())
	}
	// Output:
	// up.example closed
	// down.example open
}
