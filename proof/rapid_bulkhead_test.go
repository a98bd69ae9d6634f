package proof_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/seawall-go/seawall"
	"github.com/seawall-go/seawall/proof/model"
)

// queueRig drives a bulkhead and its model by the same operations, in a bubble, where each call is a goroutine.
type queueRig struct {
	b     *seawall.Bulkhead
	m     model.Bulkhead
	calls []*queued // by id
}

// queued is a call of a queueRig.
type queued struct {
	cancel  context.CancelFunc
	release func()
	err     error
	back    bool // Acquire has returned
}

// queueStep is one operation, drawn outside of the bubble.
type queueStep struct {
	what string
	n    int
	d    time.Duration
}

func (s queueStep) String() string { return fmt.Sprintf("%s %d %v", s.what, s.n, s.d) }

func (r *queueRig) acquire(ctx context.Context) *queued {
	ctx, cancel := context.WithCancel(ctx)
	c := &queued{cancel: cancel}
	r.calls = append(r.calls, c)
	go func() {
		c.release, c.err = r.b.Acquire(ctx)
		c.back = true
	}()
	synctest.Wait()
	return c
}

func (r *queueRig) step(s queueStep) error {
	id := len(r.calls)
	switch s.what {
	case "acquire":
		r.acquire(context.Background())
		r.m = r.m.Acquire(id)
	case "acquire done":
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		r.acquire(ctx)
		r.m = r.m.CancelledBefore(id)
	case "release":
		if id == 0 {
			return nil
		}
		if c := r.calls[s.n%id]; c.release != nil {
			c.release() // Again and again does nothing more.
			r.m = r.m.Release(s.n % id)
		}
	case "cancel":
		if id == 0 {
			return nil
		}
		r.calls[s.n%id].cancel()
		r.m = r.m.Cancel(s.n % id)
	case "limit":
		if err := r.b.SetLimit(1 + s.n%4); err != nil {
			return err
		}
		r.m = r.m.SetLimit(1 + s.n%4)
	case "advance":
		time.Sleep(s.d)
		r.m = r.m.Advance(s.d)
	}
	synctest.Wait()
	return r.check()
}

func (r *queueRig) check() error {
	want := seawall.BulkheadSnapshot{
		Limit: r.m.Limit(), InFlight: len(r.m.Running()), Waiting: len(r.m.Waiting()), MaxQueue: r.m.MaxQueue(),
		Totals: seawall.BulkheadTotals{Admitted: uint64(r.m.Admitted()), Waited: r.m.Waited()},
	}
	for _, g := range r.m.Gone() {
		c := r.calls[g.ID]
		var is, isNot error
		switch g.Why {
		case model.Full:
			want.Totals.RejectedFull++
			is, isNot = seawall.ErrBulkheadFull, context.Canceled
		case model.TimedOut:
			want.Totals.RejectedTimeout++
			is, isNot = seawall.ErrBulkheadFull, context.Canceled
		case model.Cancelled:
			want.Totals.Cancelled++
			is, isNot = context.Canceled, context.DeadlineExceeded
		}
		if !c.back || !errors.Is(c.err, seawall.ErrRejected) || !errors.Is(c.err, is) || errors.Is(c.err, isNot) {
			return fmt.Errorf("call %d: back %v with %s, want a match of %s", g.ID, c.back, text(c.err), text(is))
		}
	}
	for id, c := range r.calls {
		if slices.Contains(r.m.Running(), id) && (!c.back || c.err != nil) {
			return fmt.Errorf("call %d should run; back %v, err %s", id, c.back, text(c.err))
		}
		if slices.Contains(r.m.Waiting(), id) && c.back {
			return fmt.Errorf("call %d should wait; it came back with %s", id, text(c.err))
		}
	}
	if got := r.b.Snapshot(); got != want {
		return fmt.Errorf("Snapshot:\n got %+v\nwant %+v", got, want)
	}
	return nil
}

// runQueue plays steps on a new bulkhead and returns its totals and the first difference.
func runQueue(limit int, maxWait time.Duration, maxQueue int, steps []queueStep) (totals seawall.BulkheadTotals, diff error) {
	var opts []seawall.BulkheadOption
	if maxWait >= 0 {
		opts = append(opts, seawall.WithMaxWait(maxWait))
	}
	if maxQueue >= 0 {
		opts = append(opts, seawall.WithMaxQueue(maxQueue))
	}
	r := &queueRig{b: seawall.Must(seawall.NewBulkhead("", limit, opts...)), m: model.NewBulkhead(limit, maxWait, maxQueue)}
	for i, s := range steps {
		if diff = r.step(s); diff != nil {
			diff = fmt.Errorf("step %d of %v: %w", i, steps[:i+1], diff)
			break
		}
	}
	totals = r.b.Snapshot().Totals
	for _, c := range r.calls { // Let all go home, or the bubble ends in a panic.
		c.cancel()
	}
	synctest.Wait()
	for _, c := range r.calls {
		if c.release != nil {
			c.release()
		}
	}
	return totals, diff
}

// TestRapidBulkhead plays random stories on the bulkhead and on its model. Design §4 and §7, I1 and I2.
func TestRapidBulkhead(t *testing.T) {
	var operations, admitted, timedOut, cancelled atomic.Int64
	start := time.Now()
	const wait = 100 * time.Millisecond
	step := rapid.Custom(func(t *rapid.T) queueStep {
		return queueStep{
			what: rapid.SampledFrom([]string{"acquire", "acquire", "acquire", "release", "release", "advance", "cancel", "limit", "acquire done"}).Draw(t, "what"),
			n:    rapid.IntRange(0, 11).Draw(t, "n"),
			d:    rapid.SampledFrom([]time.Duration{1, wait / 2, wait - 1, wait, 2 * wait}).Draw(t, "d"),
		}
	})
	rapidly(t, scaled(300_000, 7_500_000), func(rt *rapid.T) {
		limit := rapid.IntRange(1, 3).Draw(rt, "limit")
		maxWait := rapid.SampledFrom([]time.Duration{-1, 0, wait, wait}).Draw(rt, "max wait")
		maxQueue := rapid.SampledFrom([]int{-1, 0, 2, 3}).Draw(rt, "max queue")
		steps := rapid.SliceOfN(step, 60, 60).Draw(rt, "steps")
		operations.Add(int64(len(steps)))
		var diff error // A failure inside of a bubble would end the process.
		var totals seawall.BulkheadTotals
		synctest.Test(t, func(*testing.T) { totals, diff = runQueue(limit, maxWait, maxQueue, steps) })
		if diff != nil {
			rt.Fatal(diff)
		}
		admitted.Add(int64(totals.Admitted))
		timedOut.Add(int64(totals.RejectedTimeout))
		cancelled.Add(int64(totals.Cancelled))
	})
	figures(t, "%d operations, %d calls admitted, %d timed out, %d cancelled, 0 differences, in %v",
		operations.Load(), admitted.Load(), timedOut.Load(), cancelled.Load(), time.Since(start).Round(time.Second/10))
}
