package seawall_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seawall-go/seawall"
)

// More words for the tests of the breaker.

// newBreaker returns a breaker with these options and no others.
func newBreaker(t testing.TB, opts ...seawall.BreakerOption) *seawall.Breaker {
	t.Helper()
	b, err := seawall.NewBreaker("br", opts...)
	require.NoError(t, err)
	return b
}

// timeline is one of the clocks that every rule about time is tried with.
type timeline struct {
	seawall.Clock
	advance   func(time.Duration)
	isDefault bool
}

func (tl timeline) Advance(d time.Duration) { tl.advance(d) }

// br is the br of the other tests on this timeline. On the default clock it does without the option.
func (tl timeline) br(t testing.TB, opts ...seawall.BreakerOption) *seawall.Breaker {
	t.Helper()
	return tl.breaker(t, append([]seawall.BreakerOption{
		seawall.WithConsecutiveFailures(3), seawall.WithCooldown(cooldown),
	}, opts...)...)
}

// breaker is newBreaker on this timeline.
func (tl timeline) breaker(t testing.TB, opts ...seawall.BreakerOption) *seawall.Breaker {
	t.Helper()
	if !tl.isDefault {
		opts = append([]seawall.BreakerOption{seawall.WithClock(tl)}, opts...)
	}
	return newBreaker(t, opts...)
}

// onEachClock runs a test with a clock that is moved by hand, with benbjohnson's Mock, and with the default clock in
// a bubble.
func onEachClock(t *testing.T, test func(t *testing.T, tl timeline)) {
	t.Helper()
	t.Run("fake", func(t *testing.T) {
		clk := newClock()
		test(t, timeline{Clock: clk, advance: clk.Advance})
	})
	t.Run("mock", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { // For speed only: Add sleeps for a real millisecond outside.
			mock := clock.NewMock()
			test(t, timeline{Clock: mock, advance: mock.Add})
		})
	})
	t.Run("default", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			test(t, timeline{Clock: bubbleClock{}, advance: time.Sleep, isDefault: true})
		})
	})
}

// bubbleClock is package time.
type bubbleClock struct{}

func (bubbleClock) Now() time.Time                         { return time.Now() }
func (bubbleClock) After(d time.Duration) <-chan time.Time { return time.After(d) }

// journal keeps the state changes that a hook was called with.
type journal struct {
	mu      sync.Mutex
	changes []seawall.StateChange
}

func (j *journal) add(c seawall.StateChange) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.changes = append(j.changes, c)
}

// hook is the option that fills the journal.
func (j *journal) hook() seawall.BreakerOption { return seawall.WithOnStateChange(j.add) }

func (j *journal) all() []seawall.StateChange {
	j.mu.Lock()
	defer j.mu.Unlock()
	return append([]seawall.StateChange(nil), j.changes...)
}

func (j *journal) last(t testing.TB) seawall.StateChange {
	t.Helper()
	all := j.all()
	require.NotEmpty(t, all, "no state change was reported")
	return all[len(all)-1]
}

// edges is the journal in short: "closed → open: consecutive_failures".
func (j *journal) edges() []string {
	var edges []string
	for _, c := range j.all() {
		edges = append(edges, fmt.Sprintf("%v → %v: %v", c.From, c.To, c.Reason))
	}
	return edges
}

// edgesOf is the history of b in the same form.
func edgesOf(b *seawall.Breaker) []string {
	var edges []string
	for _, c := range b.History() {
		edges = append(edges, fmt.Sprintf("%v → %v: %v", c.From, c.To, c.Reason))
	}
	return edges
}

// The edges that the tests meet most.
const (
	edgeTripped  = "closed → open: consecutive_failures"
	edgeRate     = "closed → open: failure_rate"
	edgeCooled   = "open → half-open: cooldown_over"
	edgeClosed   = "half-open → closed: probes_succeeded"
	edgeReopened = "half-open → open: probe_failed"
)

// counter counts how often fn ran and returns err.
type counter struct {
	mu  sync.Mutex
	ran int
	err error
}

func (c *counter) fn(context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ran++
	return c.err
}

func (c *counter) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ran
}

// wantRejected makes a call that must be turned away without being run, and returns the error.
func wantRejected(t testing.TB, b *seawall.Breaker) *seawall.OpenError {
	t.Helper()
	var c counter
	err := do(b, c.fn)
	require.ErrorIs(t, err, seawall.ErrOpen)
	assert.Zero(t, c.count(), "a rejected call was run")
	var open *seawall.OpenError
	require.ErrorAs(t, err, &open)
	return open
}

// wantAdmitted makes a call that must be run and succeed.
func wantAdmitted(t testing.TB, b *seawall.Breaker) {
	t.Helper()
	var c counter
	require.NoError(t, do(b, c.fn))
	assert.Equal(t, 1, c.count(), "an admitted call runs once")
}

// finishes fails the test if f does not come to its end; a call that waits for itself would hang for ever.
func finishes(t testing.TB, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		require.FailNow(t, "it hangs")
	}
}

// onItsOwn runs f on a goroutine of its own, which f may end by runtime.Goexit, and waits for that.
func onItsOwn(f func()) {
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	<-done
}
