package seawallpage_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seawall-go/seawall"
	"github.com/seawall-go/seawall/seawallpage"
)

// badAfternoon returns guards in every state that there is: a shop whose payments are down.
func badAfternoon(t *testing.T) []seawallpage.Option {
	t.Helper()
	clock := newClock(2*time.Hour + 43*time.Minute + 3*time.Second) // so that the story ends now
	breaker := func(name string, opts ...seawall.BreakerOption) *seawall.Breaker {
		return br(t, name, append([]seawall.BreakerOption{
			seawall.WithClock(clock), seawall.WithFailureRate(0.5, 20), seawall.WithConsecutiveFailures(10),
			seawall.WithProbeSuccesses(3),
		}, opts...)...)
	}
	payments, search, inventory := breaker("payments"), breaker("search", seawall.WithProbeTimeout(10*time.Second)), breaker("inventory")
	mail, ads := breaker("mail", seawall.WithMode(seawall.Observe)), breaker("recommendations")
	reports, users := breaker("reports", seawall.WithMode(seawall.Off)), breaker("users")
	slots, plenty := bh(t, "payments", 16, seawall.WithMaxQueue(0)), bh(t, "users", 32, seawall.WithMaxQueue(64))
	busy := bh(t, "search", 8)

	soBad := func(context.Context) error { // after a while
		clock.Advance(40 * time.Millisecond)
		return errBoom
	}
	// Payments recover once, and then fail for good.
	times(1180, payments, ok)
	times(10, payments, bad)
	times(412, payments, ok)
	for range 3 {
		clock.Advance(5 * time.Second)
		do(payments, soBad)
		times(377, payments, ok)
	}
	clock.Advance(5 * time.Second)
	times(900, payments, ok)
	clock.Advance(2 * time.Hour)
	times(2310, payments, ok)
	times(3, ads, bad)
	ads.ForceOpen()
	clock.Advance(40 * time.Minute)
	times(10, payments, bad)
	for range 3 {
		clock.Advance(5 * time.Second)
		do(payments, ok, soBad)
		times(140, payments, ok)
	}
	clock.Advance(2*time.Minute + 20*time.Second)
	times(10, search, bad)
	clock.Advance(3 * time.Second)
	times(10, mail, bad)
	times(23, mail, ok)
	clock.Advance(2 * time.Second)
	do(payments, ok, soBad)
	times(66, payments, ok)
	do(search, ok)
	_, err := search.Allow(t.Context()) // A probe that is still running.
	require.NoError(t, err)
	clock.Advance(1300 * time.Millisecond)

	for i := range 412 {
		if i%9 == 8 {
			do(inventory, bad)
		} else {
			do(inventory, ok)
		}
	}
	times(240, users, ok)
	hold(t, slots, 16)
	times(9, slots, ok)
	hold(t, plenty, 3)
	hold(t, busy, 8)

	hosts, err := seawall.NewGroup(func(host string) (seawall.Policy, error) {
		b, err1 := seawall.NewBreaker(host, seawall.WithClock(clock))
		limiter, err2 := seawall.NewBulkhead(host, 8, seawall.WithMaxQueue(8))
		return seawall.Chain(b, limiter), errors.Join(err1, err2)
	}, seawall.WithMaxKeys(64))
	require.NoError(t, err)
	for host, fn := range map[string]func(context.Context) error{"https://api.example.com:443": ok, "https://cdn.example.net:443": bad} {
		for range 12 {
			_ = hosts.Do(t.Context(), host, fn)
		}
	}
	clock.Advance(900 * time.Millisecond)
	return []seawallpage.Option{
		seawallpage.Breakers(payments, search, inventory, mail, ads, reports, users),
		seawallpage.Bulkheads(slots, plenty, busy),
		seawallpage.Group("hosts", hosts),
	}
}
