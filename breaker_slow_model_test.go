package seawall_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seawall-go/seawall"
)

// I3, I6, I7: whatever begins, ends, fails, succeeds and is reset when, a breaker with slow calls does what a model does
// that knows every call and recounts everything. All happens in last instants of slots, so calls are found when they
// have run for the threshold, to the nanosecond.
func TestSlowCallsMatchModel(t *testing.T) {
	trips := map[seawall.Reason]int{}
	for name, window := range map[string]struct {
		opt seawall.BreakerOption
		of  func(m *slowModel) []slowEvent
	}{
		"time":  {seawall.WithWindow(9*time.Second, 6), (*slowModel).inTimeWindow},
		"count": {seawall.WithCountWindow(12), (*slowModel).inCountWindow},
	} {
		for seed := range uint64(50) {
			m := newSlowModel(t, window.opt, window.of, rand.New(rand.NewPCG(seed, 1)))
			for range 300 {
				m.step()
				if m.compare(); t.Failed() {
					t.Fatalf("window %s, seed %d:%s", name, seed, m.story.String())
				}
			}
			m.finish()
			for reason, n := range m.b.Snapshot().Totals.ByReason {
				trips[reason] += int(n)
			}
		}
	}
	t.Log(trips)
	assert.Greater(t, trips[seawall.ReasonFailureRate], 50, "the stories have to go somewhere")
	assert.Greater(t, trips[seawall.ReasonConsecutiveFailures], 50)
	assert.Greater(t, trips[seawall.ReasonReset], 50)
}

// slowModel is a breaker beside its model.
type slowModel struct {
	t      *testing.T
	random *rand.Rand
	clk    *fakeClock
	b      *seawall.Breaker
	window func(*slowModel) []slowEvent
	story  strings.Builder

	now        time.Duration
	open       bool
	generation uint64
	running    []*slowModelCall
	events     []slowEvent // of the generation
	judged     int         // how many of them a rule has been asked about
	totals     outcomes
	rejected   uint64
	ran        uint64
	trip       slowTrip // the latest
}

type slowModelCall struct {
	done       func(error)
	start      time.Duration
	generation uint64
	counted    bool
}

type slowEvent struct {
	at           time.Duration
	failed, slow bool
}

type slowTrip struct {
	reason                 seawall.Reason
	err                    error
	calls, failures, slows uint64
}

func newSlowModel(t *testing.T, window seawall.BreakerOption, of func(*slowModel) []slowEvent, random *rand.Rand) *slowModel {
	t.Helper()
	m := &slowModel{t: t, random: random, clk: newClock(), window: of}
	m.b = newBreaker(t, window, slowCalls(), seawall.WithFailureRate(0.5, 6), seawall.WithConsecutiveFailures(4),
		seawall.WithCooldown(1<<62), seawall.WithClock(m.clk), seawall.WithOnStateChange(func(c seawall.StateChange) {
			if c.To == seawall.Open {
				got := slowTrip{c.Reason, c.Err, c.Calls, c.Failures, c.SlowCalls}
				assert.Equal(t, m.trip, got, "the counts that decided")
			}
		}))
	m.advance(time.Second - ns)
	return m
}

func (m *slowModel) step() {
	switch k := m.random.IntN(100); {
	case k < 30:
		m.begin()
	case k < 65 && len(m.running) > 0:
		m.end(m.random.IntN(len(m.running)), m.result())
	case k < 68 || m.open && k < 80:
		m.reset()
	case k < 99:
		m.advance(time.Duration(1+m.random.IntN(3)) * time.Second)
	default:
		m.advance(time.Duration(1+m.random.IntN(1000)) * time.Second)
	}
}

func (m *slowModel) result() error {
	results := []error{nil, nil, errBoom, seawall.MarkIgnored(errBoom)}
	return results[m.random.IntN(len(results))]
}

func (m *slowModel) advance(d time.Duration) {
	fmt.Fprint(&m.story, " +", d)
	m.now += d
	m.clk.Advance(d)
}

func (m *slowModel) begin() {
	fmt.Fprint(&m.story, " begin")
	if !m.open {
		m.ripen()
		m.judgeSlow()
	}
	rejected := m.open
	done, err := m.b.Allow(m.t.Context())
	require.Equal(m.t, rejected, err != nil, "rejected, after%s", m.story.String())
	if rejected {
		m.rejected++
		return
	}
	m.ran++
	m.running = append(m.running, &slowModelCall{done: done, start: m.now, generation: m.generation})
}

func (m *slowModel) end(i int, err error) {
	call := m.running[i]
	fmt.Fprintf(&m.story, " end(%v: %v)", call.start, err)
	switch {
	case call.generation == m.generation:
		m.ripen()
		m.settle(call, err)
	case !call.counted:
		m.totals.late++
	}
	m.running = slices.Delete(m.running, i, i+1)
	call.done(err)
}

func (m *slowModel) settle(call *slowModelCall, err error) {
	switch {
	case call.counted:
		m.judgeSlow()
	case err == nil:
		m.totals.successes++
		m.events = append(m.events, slowEvent{at: m.now})
	case err == errBoom: //nolint:errorlint // a mark of it is something else
		m.totals.failures++
		m.events = append(m.events, slowEvent{at: m.now, failed: true})
		m.judge(err)
	default:
		m.totals.ignored++
	}
}

func (m *slowModel) reset() {
	fmt.Fprint(&m.story, " reset")
	if !m.open {
		m.ripen()
	}
	if m.open || len(m.window(m)) > 0 || m.row() > 0 {
		m.next(false)
	}
	m.b.Reset()
}

// next begins a generation.
func (m *slowModel) next(open bool) {
	m.open = open
	m.generation++
	m.events, m.judged = nil, 0
}

// ripen books the calls that have become slow by now, in the order in which they did.
func (m *slowModel) ripen() {
	for _, call := range m.running { // in order of their begin
		if call.generation == m.generation && !call.counted && m.now-call.start >= slow {
			call.counted = true
			m.totals.failures++
			m.totals.slow++
			m.events = append(m.events, slowEvent{at: call.start + slow, failed: true, slow: true})
		}
	}
}

// judgeSlow asks the rules if calls have become slow since they were asked last.
func (m *slowModel) judgeSlow() {
	if slices.ContainsFunc(m.events[m.judged:], func(e slowEvent) bool { return e.slow }) {
		m.judge(seawall.ErrSlowCall)
	}
}

func (m *slowModel) judge(err error) {
	m.judged = len(m.events)
	trip := slowTrip{err: err}
	for _, e := range m.window(m) {
		trip.calls++
		trip.failures += number(e.failed)
		trip.slows += number(e.slow)
	}
	switch {
	case trip.calls >= 6 && 2*trip.failures >= trip.calls:
		trip.reason = seawall.ReasonFailureRate
	case m.row() >= 4:
		trip.reason = seawall.ReasonConsecutiveFailures
	default:
		return
	}
	m.trip = trip
	m.next(true)
}

func (m *slowModel) row() (n uint64) {
	for i := len(m.events) - 1; i >= 0 && m.events[i].failed; i-- {
		n++
	}
	return n
}

func (m *slowModel) inTimeWindow() (in []slowEvent) {
	const width = 1500 * time.Millisecond
	for _, e := range m.events {
		if m.now/width-e.at/width < 6 {
			in = append(in, e)
		}
	}
	return in
}

func (m *slowModel) inCountWindow() []slowEvent { return m.events[max(0, len(m.events)-12):] }

func number(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// compare looks at the breaker half of the time: to look must change nothing.
func (m *slowModel) compare() {
	if m.random.IntN(2) == 0 {
		return
	}
	var calls, failures, slows uint64
	if !m.open {
		m.ripen()
		for _, e := range m.window(m) {
			calls++
			failures += number(e.failed)
			slows += number(e.slow)
		}
	}
	s := m.b.Snapshot()
	got := []uint64{s.Calls, s.Failures, s.SlowCalls, s.ConsecutiveFailures, s.Totals.Rejected, s.Generation}
	if want := []uint64{calls, failures, slows, m.row(), m.rejected, m.generation}; !slices.Equal(want, got) {
		assert.Equal(m.t, want, got, "calls, failures, slow calls, row, rejected, generation")
	}
	if got := settled(m.b); m.totals != got {
		assert.Equal(m.t, m.totals, got)
	}
	if m.open != (s.State == seawall.Open) {
		assert.Equal(m.t, m.open, s.State == seawall.Open)
	}
}

// finish ends all calls. Then each that ran has been counted once.
func (m *slowModel) finish() {
	for len(m.running) > 0 {
		m.end(0, nil)
	}
	s := settled(m.b)
	assert.Equal(m.t, m.totals, s)
	assert.Equal(m.t, m.ran, s.successes+s.failures+s.ignored+s.late)
}
