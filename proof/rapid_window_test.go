package proof_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/seawall-go/seawall"
	"github.com/seawall-go/seawall/proof/model"
)

// windowMachine books results in a breaker that never trips, and in a naive window.
type windowMachine struct {
	clock *fakeClock
	b     *seawall.Breaker
	w     model.Window
	now   time.Duration // of the clock
	noted time.Duration // time doesn't run back behind it

	operations *atomic.Int64
}

func (s *windowMachine) Success(t *rapid.T) { s.book(t, nil) }
func (s *windowMachine) Failure(t *rapid.T) { s.book(t, errBoom) }

func (s *windowMachine) book(t *rapid.T, err error) {
	for range rapid.SampledFrom([]int{1, 1, 1, 2, 7}).Draw(t, "times") {
		_ = s.b.Do(context.Background(), func(context.Context) error { return err })
		s.noted = max(s.noted, s.now)
		s.w.Events = append(s.w.Events, model.Event{At: s.noted, Failure: err != nil})
	}
}

func (s *windowMachine) Advance(t *rapid.T) {
	width := s.w.Size / time.Duration(s.w.Buckets)
	next := width - (s.now%width+width)%width
	d := rapid.SampledFrom([]time.Duration{
		1, next - 1, next, width - 1, width, s.w.Size - width - 1, s.w.Size - width, s.w.Size - 1, s.w.Size, s.w.Size + 1,
		-1, -width, -s.w.Size, 100 * s.w.Size,
		time.Duration(rapid.Int64Range(0, int64(2*s.w.Size)).Draw(t, "random")),
	}).Draw(t, "d")
	s.clock.Advance(d)
	s.now += d
}

func (s *windowMachine) Check(t *rapid.T) {
	s.operations.Add(1)
	got := s.b.Snapshot()
	calls, failures := int(got.Calls), int(got.Failures)
	now := max(s.noted, s.now)
	if c, f := s.w.Counts(now); calls != c || failures != f {
		t.Fatalf("window at %v: %d of %d failed, want %d of %d", now, failures, calls, f, c)
	}
	if c, f := s.w.AtLeast(now); calls < c || failures < f {
		t.Fatalf("window at %v: %d of %d failed, at least %d of %d are young enough", now, failures, calls, f, c)
	}
	if c, f := s.w.AtMost(now); calls > c || failures > f {
		t.Fatalf("window at %v: %d of %d failed, at most %d of %d are young enough", now, failures, calls, f, c)
	}
}

// TestRapidWindow compares the counts of a breaker with a recount of every result. Design §3.5 and I7.
func TestRapidWindow(t *testing.T) {
	var operations atomic.Int64
	start := time.Now()
	sizes := rapid.SampledFrom([]model.Window{
		{Size: 10 * time.Second, Buckets: 10},
		{Size: 10 * time.Second, Buckets: 1},
		{Size: 10 * time.Second, Buckets: 3}, // The width is rounded down to whole nanoseconds.
		{Size: time.Second, Buckets: 2},
		{Size: time.Second, Buckets: 1000},
	})
	rapidly(t, scaled(1_000_000, 20_000_000), func(t *rapid.T) {
		m := &windowMachine{clock: newFakeClock(), w: sizes.Draw(t, "window"), operations: &operations}
		m.b = seawall.Must(seawall.NewBreaker("",
			seawall.WithWindow(m.w.Size, m.w.Buckets), seawall.WithFailureRate(1, 1<<30), seawall.WithClock(m.clock)))
		t.Repeat(rapid.StateMachineActions(m))
	})
	figures(t, "%d operations, 0 differences, in %v", operations.Load(), time.Since(start).Round(time.Second/10))
}

// countMachine books results in a breaker that counts the last n calls, and keeps them all.
type countMachine struct {
	b          *seawall.Breaker
	n          int
	failed     []bool
	operations *atomic.Int64
}

func (s *countMachine) Book(t *rapid.T) {
	failed := rapid.Bool().Draw(t, "failed")
	for range rapid.SampledFrom([]int{1, 1, 2, s.n - 1, s.n, s.n + 1}).Draw(t, "times") {
		err := error(nil)
		if failed {
			err = errBoom
		}
		_ = s.b.Do(context.Background(), func(context.Context) error { return err })
		s.failed = append(s.failed, failed)
	}
}

func (s *countMachine) Ignore(*rapid.T) {
	_ = s.b.Do(context.Background(), func(context.Context) error { return seawall.MarkIgnored(errBoom) })
}

func (s *countMachine) Reset(t *rapid.T) {
	if rapid.IntRange(0, 9).Draw(t, "really") > 0 {
		t.Skip()
	}
	s.b.Reset()
	s.failed = nil
}

func (s *countMachine) Check(t *rapid.T) {
	s.operations.Add(1)
	last := s.failed[max(0, len(s.failed)-s.n):]
	failures, row := 0, 0
	for _, f := range last {
		failures += one(f)
	}
	for _, f := range s.failed {
		row = (row + 1) * one(f)
	}
	got := s.b.Snapshot()
	if int(got.Calls) != len(last) || int(got.Failures) != failures || int(got.ConsecutiveFailures) != row {
		t.Fatalf("last %d calls: %d of %d failed, %d in a row; want %d of %d, %d in a row",
			s.n, got.Failures, got.Calls, got.ConsecutiveFailures, failures, len(last), row)
	}
}

// TestRapidCountWindow compares the counts of a breaker that looks at the last n calls with a recount of them.
func TestRapidCountWindow(t *testing.T) {
	var operations atomic.Int64
	start := time.Now()
	rapidly(t, scaled(200_000, 5_000_000), func(t *rapid.T) {
		n := rapid.SampledFrom([]int{1, 2, 3, 20}).Draw(t, "n")
		m := &countMachine{n: n, operations: &operations}
		m.b = seawall.Must(seawall.NewBreaker("", seawall.WithCountWindow(n), seawall.WithConsecutiveFailures(1<<30)))
		t.Repeat(rapid.StateMachineActions(m))
	})
	figures(t, "%d operations, 0 differences, in %v", operations.Load(), time.Since(start).Round(time.Second/10))
}
