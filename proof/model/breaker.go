// Package model has the reference models that the searches of package proof compare seawall with: the breaker, its
// window and the bulkhead, as plainly as they can be said. Speed is no aim: nothing is added up on the way, every
// answer recounts all that has happened since the start.
package model

import (
	"math"
	"slices"
	"time"

	"github.com/seawall-go/seawall"
)

// Start is what the clock shows when a breaker is made.
func Start() time.Time { return time.Unix(1_000_000_000, 0).UTC() }

// Breaker is the reference model: the list of all that happened, and the time. It is a value that no step changes;
// each step returns a new one. Jitter and the cooldown function are not modelled.
type Breaker struct {
	set     seawall.Settings
	mode    seawall.Mode
	clock   time.Duration // what the clock shows, counted from the start; it may run back
	noted   time.Duration // the latest reading that was noted; time doesn't run back behind it
	turned  time.Duration // start of the latest bucket that a result was booked in; the window doesn't turn back
	log     []entry       // all results and refusals
	judged  int           // how many of them there were when a rule was last asked
	changes []change      // all edges; their number is the generation
	running []ticket      // admitted, not ended
}

type entry struct {
	at         time.Duration
	generation int
	kind       kind
}

type kind int

const (
	success kind = iota // the first three are seawall's outcomes
	failure
	ignored
	slow // a failure, since it ended too late
	hung // a failure, since it did not end in time
	late
	rejected
	cancelled
	wouldReject // ran without a vote, in mode Observe
)

type change struct {
	from, to seawall.State
	why      seawall.Reason
	at       time.Duration
	counts   counts
	verdict  verdict
}

// counts are results that count in one generation. Failures are calls too, and slow ones are failures.
type counts struct {
	calls, failures, slow int
	row                   int // failures with no success between them
}

// verdict is a result. Hint is the wait that its error asked for.
type verdict struct {
	kind kind
	hint time.Duration
}

type ticket struct {
	id, generation int
	at             time.Duration
	hung           bool // it has been counted although it runs
}

// New returns the model of a new breaker with the given settings.
func New(set seawall.Settings) Breaker { return Breaker{set: set, mode: set.Mode} }

// Advance moves the clock by d, which may be negative.
func (m Breaker) Advance(d time.Duration) Breaker { m.clock += d; return m }

// Cancelled is a call whose context is done before it asks.
func (m Breaker) Cancelled() Breaker {
	switch m.mode {
	case seawall.Enforce:
		return m.write(cancelled)
	case seawall.Observe:
		return m.write(wouldReject)
	case seawall.Off:
	}
	return m
}

// Allow asks for admission for the call with the given id. A call that is turned away gets an error, or in mode Observe
// no vote. In mode Off no call has one.
func (m Breaker) Allow(id int) (Breaker, *seawall.OpenError) {
	if m.mode == seawall.Off {
		return m, nil
	}
	switch state := m.last().to; {
	case state == seawall.Open && m.wait() == 0:
		m = m.edge(seawall.HalfOpen, seawall.ReasonCooldownOver, counts{}, verdict{})
	case state == seawall.Closed && m.watches():
		m = m.note()
	}
	m = m.judgeHung()
	if wait := m.wait(); wait > 0 {
		err := &seawall.OpenError{State: m.last().to, Reason: m.last().why}
		if !m.forced() {
			err.Until = Start().Add(later(m.now(), wait))
		}
		if m.mode == seawall.Observe {
			return m.write(wouldReject), nil
		}
		return m.write(rejected), err
	}
	if m.last().to == seawall.HalfOpen {
		m = m.note()
	}
	m.running = append(slices.Clip(m.running), ticket{id: id, generation: len(m.changes), at: m.now()})
	return m, nil
}

// Done ends the call with the given id, if it runs. A failure may ask for a wait of hint before the next try.
func (m Breaker) Done(id int, o seawall.Outcome, hint time.Duration) Breaker {
	i := slices.IndexFunc(m.running, func(t ticket) bool { return t.id == id })
	if i < 0 {
		return m
	}
	closed, v := m.last().to == seawall.Closed, verdict{kind(o), hint}
	if current := m.running[i].generation == len(m.changes); current &&
		(!closed || m.watches() || o == seawall.Failure) {
		if m = m.note(); !closed {
			m = m.judgeHung()
		}
	}
	t := m.running[i]
	m.running = slices.Delete(slices.Clone(m.running), i, i+1)
	if m.watches() && m.now()-t.at >= m.set.SlowCallThreshold {
		v = verdict{kind: slow}
	}
	switch {
	case t.hung && closed && t.generation == len(m.changes): // It was counted when it hung; now it is asked for.
		return m.judgeHung()
	case t.hung:
		return m
	case t.generation != len(m.changes) || !closed && m.lapsed(t) && v.kind != success:
		return m.write(late)
	}
	return m.count(v, closed)
}

// count books a result of the present generation, and makes the edge that it leads to.
func (m Breaker) count(v verdict, closed bool) Breaker {
	if v.kind != ignored {
		m = m.turn()
	}
	m = m.write(v.kind)
	switch c := m.recount(); {
	case v.kind == ignored || closed && v.kind == success:
	case closed:
		return m.judge(v)
	case v.kind != success:
		return m.edge(seawall.Open, seawall.ReasonProbeFailed, c, v)
	case c.calls >= m.set.ProbeSuccesses:
		return m.edge(seawall.Closed, seawall.ReasonProbesSucceeded, c, v)
	}
	return m
}

// judge opens a closed breaker if a rule is met.
func (m Breaker) judge(v verdict) Breaker {
	m.judged = len(m.log)
	switch c := m.recount(); {
	case m.set.MinCalls > 0 && c.calls >= m.set.MinCalls && float64(c.failures)/float64(c.calls) >= m.set.FailureRate:
		return m.edge(seawall.Open, seawall.ReasonFailureRate, c, v)
	case m.set.ConsecutiveFailures > 0 && c.row >= m.set.ConsecutiveFailures:
		return m.edge(seawall.Open, seawall.ReasonConsecutiveFailures, c, v)
	}
	return m
}

// ForceOpen opens by hand; a breaker that is forced open stays as it is.
func (m Breaker) ForceOpen() Breaker {
	if m = m.note(); m.forced() {
		return m
	}
	return m.edge(seawall.Open, seawall.ReasonForced, m.recount(), verdict{})
}

// Reset closes by hand; a closed breaker without counts stays as it is.
func (m Breaker) Reset() Breaker {
	m = m.note()
	c := m.recount()
	if m.last().to == seawall.Closed && c == (counts{}) {
		return m
	}
	return m.edge(seawall.Closed, seawall.ReasonReset, c, verdict{})
}

// SetMode changes the mode. To and from Off all begins anew.
func (m Breaker) SetMode(mode seawall.Mode) Breaker {
	was := m.mode
	m.mode = mode
	if was == mode || was != seawall.Off && mode != seawall.Off {
		return m
	}
	m = m.note()
	return m.edge(seawall.Closed, seawall.ReasonModeChanged, m.recount(), verdict{})
}

func (m Breaker) note() Breaker { m.noted = m.now(); return m.ripen() }

// turn makes the bucket of now that in which results are booked.
func (m Breaker) turn() Breaker {
	m.turned = max(m.turned, m.bucket(m.now()))
	return m
}

func (m Breaker) write(k kind) Breaker { return m.writeAt(max(m.turned, m.now()), k) }

func (m Breaker) writeAt(at time.Duration, k kind) Breaker {
	m.log = append(slices.Clip(m.log), entry{at, len(m.changes), k})
	return m
}

func (m Breaker) edge(to seawall.State, why seawall.Reason, c counts, v verdict) Breaker {
	m.noted = m.now()
	m.changes = append(slices.Clip(m.changes), change{m.last().to, to, why, m.noted, c, v})
	return m
}

// What follows is derived from the lists.

func (m Breaker) now() time.Duration { return max(m.noted, m.clock) }

// bucket returns where the window's bucket begins that t lies in.
func (m Breaker) bucket(t time.Duration) time.Duration {
	if m.set.CountWindow > 0 {
		return 0
	}
	width := m.set.Window / time.Duration(m.set.Buckets)
	return t / width * width
}

func (m Breaker) last() (c change) {
	if n := len(m.changes); n > 0 {
		c = m.changes[n-1]
	}
	return c
}

func (m Breaker) forced() bool { return m.last().why == seawall.ReasonForced }

// recount returns the results that count in the present generation: while closed those in the window, and how many of
// the latest failed with no success between them, in the window or not; while half-open all.
func (m Breaker) recount() (c counts) {
	results := m.current()
	for i, e := range results {
		switch {
		case e.kind == success:
			c.row = 0
		case e.kind == hung && m.besideSuccess(results[:i], e.at):
		default:
			c.row++
		}
		if m.last().to == seawall.Closed && !m.inWindow(e, len(results)-i) {
			continue
		}
		c.calls++
		c.failures += one(e.kind != success)
		c.slow += one(e.kind == slow || e.kind == hung)
	}
	return c
}

// current returns the results of the present generation.
func (m Breaker) current() (results []entry) {
	for _, e := range m.log {
		if e.generation == len(m.changes) && (e.kind < ignored || e.kind == slow || e.kind == hung) {
			results = append(results, e)
		}
	}
	return results
}

// inWindow reports whether a result is still in the window; it is the nth of the latest.
func (m Breaker) inWindow(e entry, nth int) bool {
	if m.set.CountWindow > 0 {
		return nth <= m.set.CountWindow
	}
	width := m.set.Window / time.Duration(m.set.Buckets)
	return m.turn().turned-m.bucket(e.at) < time.Duration(m.set.Buckets)*width
}

// cooldown is that of the latest opening: it doubles with each since the breaker was last closed.
func (m Breaker) cooldown() (d time.Duration) {
	for i := len(m.changes) - 1; i >= 0 && m.changes[i].to != seawall.Closed; i-- {
		switch {
		case m.changes[i].to == seawall.HalfOpen || m.changes[i].why == seawall.ReasonForced:
		case d == 0:
			d = m.set.Cooldown
		default:
			d += min(d, max(0, m.set.Backoff-d))
		}
	}
	return d
}

// wait is how long it takes until a call is admitted, if nothing happens before.
func (m Breaker) wait() time.Duration {
	switch held := m.places(); {
	case m.forced():
		return m.set.Cooldown
	case m.last().to == seawall.Open:
		d := max(m.cooldown(), min(m.last().verdict.hint, m.set.MaxRetryAfter))
		return max(0, min(d, math.MaxInt64-m.last().at)-(m.now()-m.last().at)) // At the latest until time ends.
	case len(held) >= m.set.Probes:
		return m.probeTimeout() - (m.now() - held[0].at)
	}
	return 0
}

func (m Breaker) probeTimeout() time.Duration {
	if m.set.ProbeTimeout > 0 {
		return m.set.ProbeTimeout
	}
	return m.cooldown()
}

func (m Breaker) lapsed(t ticket) bool { return m.now()-t.at >= m.probeTimeout() }

// places returns the probes that hold one, oldest first.
func (m Breaker) places() (held []ticket) {
	for _, t := range m.running {
		if m.last().to == seawall.HalfOpen && t.generation == len(m.changes) && !m.lapsed(t) {
			held = append(held, t)
		}
	}
	return held
}

// At is a step made by a breaker that looked at its clock when it showed reading. If it makes no edge the reading isn't
// noted, which matters only to the readings of other steps that were made at the same time.
func (m Breaker) At(reading time.Duration, step func(Breaker) Breaker) Breaker {
	n := m
	n.clock = reading
	n = step(n)
	n.clock = m.clock
	if len(n.changes) == len(m.changes) {
		n.noted = m.noted
	}
	return n
}

// Look is a Snapshot. Without a failure rate the rules don't ask when a success was, so a breaker need not know; it
// books successes when somebody looks, and that turns the window.
func (m Breaker) Look() Breaker {
	if m.set.MinCalls == 0 && m.last().to == seawall.Closed && !m.watches() {
		m = m.turn()
	}
	return m
}

// later returns t+d, or the end of time if that is earlier.
func later(t, d time.Duration) time.Duration { return t + min(d, math.MaxInt64-t) }

func one(b bool) int {
	if b {
		return 1
	}
	return 0
}
