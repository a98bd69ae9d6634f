package seawall_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/benbjohnson/clock"

	"github.com/seawall-go/seawall"
)

// Rates is code of yours that is to be tested: it knows the latest exchange rate and survives an outage of its source.
type Rates struct {
	breaker *seawall.Breaker
	source  func(context.Context) (float64, error)
	last    float64
}

// NewRates takes the clock as an argument; the program itself passes clock.New().
func NewRates(clk seawall.Clock, source func(context.Context) (float64, error)) (*Rates, error) {
	breaker, err := seawall.NewBreaker("rates", seawall.WithConsecutiveFailures(3), seawall.WithClock(clk))
	if err != nil {
		return nil, err
	}
	return &Rates{breaker: breaker, source: source}, nil
}

// Euro returns the rate of the euro, and whether it is an old one.
func (r *Rates) Euro(ctx context.Context) (rate float64, old bool) {
	rate, err := seawall.Call(ctx, r.breaker, r.source)
	if err != nil {
		return r.last, true
	}
	r.last = rate
	return rate, false
}

// A unit test that goes through an outage and the recovery in no time: it moves a clock instead of sleeping. In a real
// test the lines that print would be assertions. Without a clock as an argument, testing/synctest does the same.
func Example_fakeClock() {
	clk := clock.NewMock()
	requests, down := 0, false
	rates, err := NewRates(clk, func(context.Context) (float64, error) {
		requests++
		if down {
			return 0, errors.New("connection refused")
		}
		return 1.08, nil
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ask := func() {
		rate, old := rates.Euro(context.Background())
		fmt.Println(rate, "old:", old, "requests:", requests)
	}

	ask()
	down = true
	for range 100 {
		rates.Euro(context.Background())
	}
	ask() // Three requests failed; the others were not made.
	down = false
	clk.Add(rates.breaker.Settings().Cooldown - 1)
	ask() // A nanosecond too early.
	clk.Add(1)
	ask() // The probe.
	// Output:
	// 1.08 old: false requests: 1
	// 1.08 old: true requests: 4
	// 1.08 old: true requests: 4
	// 1.08 old: false requests: 5
}
