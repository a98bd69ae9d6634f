package proof_test

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/seawall-go/seawall"
	"github.com/seawall-go/seawall/proof/model"
)

// A history has this many clients and operations of each. Beyond five clients the time to check it explodes.
const (
	clients   = 4
	perClient = 12
)

var histories = flag.Int("histories", 0, "concurrent histories to check; 0: as SEAWALL_PROOF says")

// linearInput is an operation on the object {breaker, clock}. The clock belongs to it, and its Advance is an
// operation: else a stale reading of the clock would look legal.
type linearInput struct {
	what     string
	id       int
	result   result
	d        time.Duration
	readings []time.Duration // what the clock showed meanwhile
	quiet    bool            // nobody else is at work
}

// linearOutput is what an operation returned.
type linearOutput struct {
	rejected bool
	state    seawall.State
	reason   seawall.Reason
	until    time.Time
	snapshot *seawall.Snapshot
	history  []seawall.Change
}

func rejection(e *seawall.OpenError) linearOutput {
	if e == nil {
		return linearOutput{}
	}
	return linearOutput{rejected: true, state: e.State, reason: e.Reason, until: e.Until}
}

// linearStep returns the states that the model may be in after an operation, none if that can't have answered so.
//
// While half-open all calls take the lock, while closed too if calls can become slow; there the reading of a decision
// must be that of its instant. Elsewhere some don't wait for it: they may come between the look at the clock and the
// decision of one who holds the lock. Then the reading may be any that the clock showed during the operation.
func linearStep(m model.Breaker, in linearInput, out linearOutput) []any {
	readings := []time.Duration{m.Clock()}
	if !m.Locked() && (m.Settled() == seawall.Closed || in.what == "force open" || in.what == "reset") {
		readings = in.readings
	}
	var next []any
	add := func(step func(model.Breaker) model.Breaker) {
		if m.Locked() {
			next = []any{step(m)}
			return
		}
		for _, r := range readings {
			next = append(next, m.At(r, step))
		}
	}
	switch in.what {
	case "advance":
		next = []any{m.Advance(in.d)}
	case "allow":
		n, err := m.Allow(in.id)
		if rejection(err).equal(out) {
			next = []any{n}
		}
	case "done":
		add(func(m model.Breaker) model.Breaker { return m.Done(in.id, in.result.outcome, in.result.hint) })
	case "force open":
		add(model.Breaker.ForceOpen)
	case "reset":
		add(model.Breaker.Reset)
	case "cancelled":
		next = []any{m.Cancelled()}
	case "history":
		if slices.Equal(m.History(), out.history) {
			next = []any{m}
		}
	case "snapshot":
		if slices.ContainsFunc(readings, func(r time.Duration) bool {
			return out.shows(m, r, in.quiet)
		}) {
			next = []any{m}
		}
	}
	return next
}

func (o linearOutput) equal(p linearOutput) bool {
	return o.rejected == p.rejected && o.state == p.state && o.reason == p.reason && o.until.Equal(p.until)
}

// shows reports whether the snapshot is that of m when the clock shows reading. While calls are at work its Rejected is of another instant than
// the rest, for rejections are counted without the lock.
func (o linearOutput) shows(m model.Breaker, reading time.Duration, quiet bool) bool {
	want := m.Advance(reading - m.Clock()).Snapshot()
	if !quiet {
		want.Totals.Rejected = o.snapshot.Totals.Rejected
	}
	return reflect.DeepEqual(want, *o.snapshot)
}

func linearModel(set seawall.Settings) porcupine.Model {
	m := porcupine.NondeterministicModel{
		Init: func() []any { return []any{model.New(set)} },
		Step: func(state, in, out any) []any {
			return linearStep(state.(model.Breaker), in.(linearInput), out.(linearOutput))
		},
		Equal: func(a, b any) bool { return a.(model.Breaker).Equal(b.(model.Breaker)) },
		Hash:  func(a any) uint64 { return a.(model.Breaker).Hash() },
	}
	return m.ToModel()
}

// arena is what the clients of one history share.
type arena struct {
	set   seawall.Settings
	clock *fakeClock
	b     *seawall.Breaker
	stamp atomic.Int64 // of calls and returns
	ids   atomic.Int64

	mu       sync.Mutex // guards the fields below
	running  []running
	readings []time.Duration // all that the clock has shown
}

// running is an admitted call. Any client may end it, else late results would be rare.
type running struct {
	id   int
	done func(error)
}

func newArena(set seawall.Settings) *arena {
	a := &arena{set: set, clock: newFakeClock(), readings: []time.Duration{0}}
	a.clock.yield = func() {
		if rand.IntN(4) == 0 {
			runtime.Gosched()
		}
	}
	a.b = seawall.Must(seawall.NewBreaker("", append(options(set), seawall.WithClock(a.clock))...))
	return a
}

func (a *arena) advance(d time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.clock.Advance(d)
	a.readings = append(a.readings, a.readings[len(a.readings)-1]+d)
}

func (a *arena) put(r running) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.running = append(a.running, r)
}

func (a *arena) take(r *rand.Rand) (running, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.running) == 0 {
		return running{}, false
	}
	i := r.IntN(len(a.running))
	if r.IntN(2) == 0 {
		i = len(a.running) - 1 // Often the latest, so that probes are answered.
	}
	taken := a.running[i]
	a.running = append(a.running[:i], a.running[i+1:]...)
	return taken, true
}

func (a *arena) readingsFrom(i int) []time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]time.Duration{}, a.readings[i:]...)
}

func (a *arena) lastReading() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.readings) - 1
}

// operation makes one random operation and returns it with its times of call and return.
func (a *arena) operation(r *rand.Rand, all []result, gone context.Context) porcupine.Operation {
	in, out := linearInput{what: "snapshot"}, linearOutput{}
	var act func()
	switch k := r.IntN(100); {
	case k < 36:
		in = linearInput{what: "allow", id: int(a.ids.Add(1))}
		act = func() {
			done, err := a.b.Allow(context.Background())
			var e *seawall.OpenError
			if errors.As(err, &e) {
				out = rejection(e)
			} else {
				a.put(running{in.id, done})
			}
		}
	case k < 68:
		taken, ok := a.take(r)
		if !ok {
			break
		}
		in = linearInput{what: "done", id: taken.id, result: all[[]int{0, 0, 1, 1, 2, 4}[r.IntN(6)]]}
		act = func() { taken.done(in.result.err) }
	case k < 84:
		steps := []time.Duration{1, 2 * time.Second, a.set.ProbeTimeout, a.set.ProbeTimeout, a.set.Cooldown, a.set.Cooldown}
		if slow := a.set.SlowCallThreshold; slow > 0 {
			steps = append(steps, slow/8, slow/8, slow, slow, slow, slow+slow/8)
		}
		in = linearInput{what: "advance", d: steps[r.IntN(len(steps))]}
		act = func() { a.advance(in.d) }
	case k < 85:
		in.what, act = "force open", a.b.ForceOpen
	case k < 87:
		in.what, act = "reset", a.b.Reset
	case k < 89:
		in.what, act = "history", func() { out.history = a.b.History() }
	case k < 90:
		in.what, act = "cancelled", func() { _, _ = a.b.Allow(gone) }
	}
	if act == nil {
		act = func() { s := a.b.Snapshot(); out.snapshot = &s }
	}
	first, call := a.lastReading(), a.stamp.Add(1)
	act()
	in.readings = a.readingsFrom(first)
	return porcupine.Operation{Input: in, Output: out, Call: call, Return: a.stamp.Add(1)}
}

// history lets the clients work on one breaker and returns what they did.
func history(set seawall.Settings, seed uint64) []porcupine.Operation {
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	a, all := newArena(set), results()
	logs := make([][]porcupine.Operation, clients)
	var wg sync.WaitGroup
	for c := range clients {
		r := rand.New(rand.NewPCG(seed, uint64(c)))
		wg.Go(func() {
			for range perClient {
				op := a.operation(r, all, gone)
				op.ClientId = c
				logs[c] = append(logs[c], op)
				if r.IntN(3) == 0 {
					runtime.Gosched()
				}
			}
		})
	}
	wg.Wait()
	var ops []porcupine.Operation
	for _, l := range logs {
		ops = append(ops, l...)
	}
	s := a.b.Snapshot() // Now that all is quiet it must be exact.
	return append(ops, porcupine.Operation{
		Input:  linearInput{what: "snapshot", quiet: true, readings: a.readingsFrom(a.lastReading())},
		Output: linearOutput{snapshot: &s}, Call: a.stamp.Add(1), Return: a.stamp.Add(1),
	})
}

// linearFigures says what histories contained, so that one can see that they were worth checking.
type linearFigures struct{ histories, operations, edges, late, lapsed, slow, overlapping, undecided int }

// count replays the order that porcupine found.
func (f *linearFigures) count(set seawall.Settings, ops []porcupine.Operation, info porcupine.LinearizationInfo) {
	f.histories++
	f.operations += len(ops)
	var order []porcupine.Operation
	for _, l := range info.PartialLinearizationsOperations()[0] {
		if len(l) > len(order) {
			order = l
		}
	}
	states, lapsed := []any{model.New(set)}, false
	for _, op := range order {
		var next []any
		for _, s := range states {
			next = append(next, linearStep(s.(model.Breaker), op.Input.(linearInput), op.Output.(linearOutput))...)
		}
		states = next
		lapsed = lapsed || states[0].(model.Breaker).Lapsed() > 0
	}
	last := states[0].(model.Breaker).Snapshot()
	f.edges += one(last.Generation > 0)
	f.late += one(last.Totals.Late > 0)
	f.lapsed += one(lapsed)
	f.slow += one(last.Totals.SlowCalls > 0)
	for i, op := range ops {
		for _, other := range ops[i+1:] {
			if op.Call < other.Return && other.Call < op.Return {
				f.overlapping++
				break
			}
		}
	}
}

func one(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (f *linearFigures) share(n int) float64 { return 100 * float64(n) / float64(max(1, f.histories)) }

// TestLinearizable lets four clients and the clock race on one breaker and asks whether what they saw can be told as
// one story, one operation after the other, that the model agrees with.
func TestLinearizable(t *testing.T) {
	n := *histories
	if n == 0 {
		if n = scaled(5000, 200_000); raceEnabled && !testing.Short() {
			n = 2000
		}
	}
	f := linearize(t, small(), n)
	if f.share(f.edges) < 50 || f.share(f.late) < 20 || f.share(f.lapsed) < 10 {
		t.Error("the histories are too tame: at least 50 % must have an edge, 20 % a late result, 10 % a lapsed place")
	}
}

// TestLinearizableSlowCalls does so with a breaker whose calls become slow.
func TestLinearizableSlowCalls(t *testing.T) {
	n := *histories
	if n == 0 {
		n = scaled(2000, 100_000)
	}
	f := linearize(t, slow(), n)
	if f.share(f.edges) < 50 || f.share(f.late) < 20 || f.share(f.slow) < 50 {
		t.Error("the histories are too tame: at least 50 % must have an edge, 20 % a late result, 50 % a slow call")
	}
}

func linearize(t *testing.T, set seawall.Settings, n int) (f linearFigures) {
	t.Helper()
	m, start := linearModel(set), time.Now()
	for seed := range n {
		ops := history(set, uint64(seed))
		verdict, info := porcupine.CheckOperationsVerbose(m, ops, 30*time.Second)
		switch verdict {
		case porcupine.Illegal:
			t.Fatalf("history %d is not linearizable:\n%s", seed, describe(ops))
		case porcupine.Unknown:
			f.undecided++
		case porcupine.Ok:
			f.count(set, ops, info)
		}
	}
	figures(t, "%d histories of %d clients, %d operations (%d overlap), %.0f %% with an edge, %.0f %% with a late result, "+
		"%.0f %% with a lapsed place, %.0f %% with a slow call; 0 illegal, %d undecided, in %v", f.histories, clients, f.operations,
		f.overlapping, f.share(f.edges), f.share(f.late), f.share(f.lapsed), f.share(f.slow), f.undecided,
		time.Since(start).Round(time.Second/10))
	if f.undecided > 0 {
		t.Errorf("%d histories undecided", f.undecided)
	}
	return f
}

// describe prints a history for a human reader, in order of the calls.
func describe(ops []porcupine.Operation) string {
	ops = slices.SortedFunc(slices.Values(ops), func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	var s strings.Builder
	for _, op := range ops {
		in, out := op.Input.(linearInput), op.Output.(linearOutput)
		fmt.Fprintf(&s, "%d %3d-%3d %s id=%d %s %v", op.ClientId, op.Call, op.Return, in.what, in.id, in.result.name, in.d)
		switch {
		case out.snapshot != nil:
			fmt.Fprintf(&s, " -> %+v", *out.snapshot)
		case out.rejected:
			fmt.Fprintf(&s, " -> rejected, %v for %v until %v", out.state, out.reason, out.until)
		}
		s.WriteByte('\n')
	}
	return s.String()
}
