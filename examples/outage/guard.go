package main

import (
	"errors"
	"time"

	"github.com/seawall-go/seawall"
)

// These numbers suit a service that answers in about 10 ms and is called 300 times a second.
const (
	// The healthy p99 is about 15 ms. 250 ms is far above it, so that a busy machine doesn't look
	// like an outage, and still short enough for a caller who is waiting.
	callTimeout = 250 * time.Millisecond

	// A dead server brings nothing but failures. Ten in a row are there a moment after the first
	// calls have timed out, however many successes there were before.
	consecutiveFailures = 10

	// A half-dead server seldom fails ten times in a row; the rate finds it. The successes from
	// before the outage dilute the rate, so it takes about callTimeout + failureRate * window
	// until it trips: the window is short. In it are 600 calls, and even a thirtieth of the
	// load is enough for minCalls.
	failureRate = 0.5
	minCalls    = 20
	window      = 2 * time.Second
	buckets     = 10

	// Each cooldown of an outage costs one caller a probe that fails, and the recovery is noticed
	// at most one cooldown late. The jitter keeps a fleet of clients from probing in step.
	cooldown = time.Second
	jitter   = 0.1

	// One good answer may be luck; three in a row are a server that works.
	probeSuccesses = 3

	// 300 calls a second of 10 ms each are 3 in flight. 16 leave room for bursts, and no more
	// than 16 callers ever hang in a server that hangs. The short queue takes what a hiccup holds
	// up; nobody waits in it for longer than a few calls take.
	maxInFlight = 16
	maxQueue    = 16
	maxWait     = 50 * time.Millisecond
)

// guard is the guarded client's policy, and what is in it for those who want to watch.
type guard struct {
	seawall.Policy
	breaker  *seawall.Breaker
	bulkhead *seawall.Bulkhead
}

// newGuard builds the guard. The breaker is outermost: what the bulkhead refuses never reached the
// server and is no failure of it. The timeout is innermost: waiting for a slot isn't the server's
// time.
func newGuard(onStateChange func(seawall.StateChange)) (*guard, error) {
	breaker, breakerErr := seawall.NewBreaker("backend",
		seawall.WithConsecutiveFailures(consecutiveFailures),
		seawall.WithFailureRate(failureRate, minCalls),
		seawall.WithWindow(window, buckets),
		seawall.WithCooldown(cooldown),
		seawall.WithJitter(jitter),
		seawall.WithProbeSuccesses(probeSuccesses),
		seawall.WithOnStateChange(onStateChange),
	)
	bulkhead, bulkheadErr := seawall.NewBulkhead("backend", maxInFlight,
		seawall.WithMaxQueue(maxQueue),
		seawall.WithMaxWait(maxWait),
	)
	timeout, timeoutErr := seawall.NewTimeout(callTimeout)
	if err := errors.Join(breakerErr, bulkheadErr, timeoutErr); err != nil {
		return nil, err
	}
	return &guard{Policy: seawall.Chain(breaker, bulkhead, timeout), breaker: breaker, bulkhead: bulkhead}, nil
}
