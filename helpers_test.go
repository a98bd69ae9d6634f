package seawall_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seawall-go/seawall"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The words that the tests are told in, as in the list of cases: br(t, clk) is a breaker that trips at 3 consecutive
// failures, with a cooldown of 10 s, 1 probe, 1 success and a window of 10 s in 10 buckets.
const (
	cooldown = 10 * time.Second
	ns       = time.Nanosecond
)

var errBoom = errors.New("boom")

func ok(context.Context) error  { return nil }
func bad(context.Context) error { return errBoom }

func br(t testing.TB, clk seawall.Clock, opts ...seawall.BreakerOption) *seawall.Breaker {
	t.Helper()
	b, err := seawall.NewBreaker("br", append([]seawall.BreakerOption{
		seawall.WithConsecutiveFailures(3), seawall.WithCooldown(cooldown), seawall.WithClock(clk),
	}, opts...)...)
	require.NoError(t, err)
	return b
}

func bh(t testing.TB, limit int, opts ...seawall.BulkheadOption) *seawall.Bulkhead {
	t.Helper()
	b, err := seawall.NewBulkhead("bh", limit, opts...)
	require.NoError(t, err)
	return b
}

// do runs fn under p on a plain context.
func do(p seawall.Policy, fn func(context.Context) error) error {
	return p.Do(context.Background(), fn)
}

// trip makes 3 calls of a br fail, which opens it.
func trip(t testing.TB, b *seawall.Breaker) {
	t.Helper()
	for range 3 {
		require.ErrorIs(t, do(b, bad), errBoom)
	}
	require.Equal(t, seawall.Open, b.State(), "after 3 failures")
}

// half opens a br and lets its cooldown pass.
func half(t testing.TB, b *seawall.Breaker, clk mover) {
	t.Helper()
	trip(t, b)
	clk.Advance(cooldown)
	require.Equal(t, seawall.HalfOpen, b.State(), "after the cooldown")
}

func wantState(t testing.TB, b *seawall.Breaker, want seawall.State) {
	t.Helper()
	assert.Equal(t, want.String(), b.State().String())
}

// held is a call that is inside of fn until it is told how to end.
type held struct {
	end  chan error
	done chan error
}

// hold starts a call of p and returns when it is inside of fn.
func hold(t testing.TB, p seawall.Policy) *held {
	t.Helper()
	h := &held{end: make(chan error), done: make(chan error, 1)}
	inside := make(chan struct{})
	go func() {
		h.done <- do(p, func(context.Context) error { close(inside); return <-h.end })
	}()
	t.Cleanup(func() { // A test that fails says so, and not that it left a goroutine behind.
		select {
		case h.end <- nil:
		default:
		}
	})
	select {
	case <-inside:
	case err := <-h.done:
		require.FailNow(t, "a call that was to be held was not let in", "%v", err)
	}
	return h
}

// finish ends a held call with err and returns what its Do returned.
func (h *held) finish(err error) error {
	h.end <- err
	return <-h.done
}

// mover is a clock that a test can move.
type mover interface{ Advance(d time.Duration) }

// fakeClock stands still until it is moved, and may be moved back.
type fakeClock struct {
	mu     sync.Mutex
	now    time.Time
	alarms map[chan time.Time]time.Time
}

func newClock() *fakeClock {
	return &fakeClock{now: time.Unix(1_000_000, 0), alarms: map[chan time.Time]time.Time{}}
}

func (c *fakeClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *fakeClock) After(d time.Duration) <-chan time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	alarm := make(chan time.Time, 1)
	c.alarms[alarm] = c.now.Add(d)
	return alarm
}

// Advance moves the clock by d, which may be negative, and rings the alarms that are due.
func (c *fakeClock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	for alarm, at := range c.alarms {
		if !at.After(c.now) {
			alarm <- c.now
			delete(c.alarms, alarm)
		}
	}
}
