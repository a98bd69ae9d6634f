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

// Two spots where a breaker that takes no lock differs, without harm, from one that does. They show only while the
// clock is behind its own earlier reading: one that isn't noted does not hold time up.
const (
	notesSuccess   = false // a success of a closed breaker notes its reading; else it only turns the window
	notesRejection = false // a call that an open breaker turns away notes its reading
)

// Start is what the clock shows when a breaker is made.
func Start() time.Time { return time.Unix(1_000_000_000, 0).UTC() }

// Breaker is the reference model: the list of all that happened, and the time. It is a value that no step changes;
// each step returns a new one. Jitter and the cooldown function are not modelled.
type Breaker struct {
	set     seawall.Settings
	clock   time.Duration // what the clock shows, counted from the start; it may run back
	noted   time.Duration // the latest reading that was noted; time doesn't run back behind it
	turned  time.Duration // start of the latest bucket that a result was booked in; the window doesn't turn back
	log     []entry       // all results and refusals
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
	late
	rejected
	cancelled
	wouldReject // ran without a vote, in mode Observe
)

type change struct {
	from, to        seawall.State
	why             seawall.Reason
	at, hint        time.Duration // hint: the wait that the deciding error asked for
	calls, failures int
}

type ticket struct {
	id, generation int
	at             time.Duration
}

// New returns the model of a new breaker with the given settings.
func New(set seawall.Settings) Breaker { return Breaker{set: set} }

// Advance moves the clock by d, which may be negative.
func (m Breaker) Advance(d time.Duration) Breaker { m.clock += d; return m }

// Cancelled is a call whose context is done before it asks.
func (m Breaker) Cancelled() Breaker {
	if m.set.Mode == seawall.Observe {
		return m.write(wouldReject)
	}
	return m.write(cancelled)
}

// Allow asks for admission for the call with the given id. A call that is turned away gets an error, or in mode Observe
// no vote.
func (m Breaker) Allow(id int) (Breaker, *seawall.OpenError) {
	if wait := m.wait(); wait > 0 {
		err := &seawall.OpenError{State: m.last().to, Reason: m.last().why}
		if !m.forced() {
			err.Until = Start().Add(m.now() + min(wait, math.MaxInt64-m.now())) // At the latest when time ends.
		}
		if notesRejection || m.last().to == seawall.HalfOpen {
			m = m.note()
		}
		if m.set.Mode == seawall.Observe {
			return m.write(wouldReject), nil
		}
		return m.write(rejected), err
	}
	if m.last().to != seawall.Closed {
		m = m.note()
	}
	if m.last().to == seawall.Open {
		m = m.edge(seawall.HalfOpen, seawall.ReasonCooldownOver, 0, 0, 0)
	}
	m.running = append(slices.Clip(m.running), ticket{id, len(m.changes), m.now()})
	return m, nil
}

// Done ends the call with the given id, if it runs. A failure may ask for a wait of hint before the next try.
func (m Breaker) Done(id int, o seawall.Outcome, hint time.Duration) Breaker {
	i := slices.IndexFunc(m.running, func(t ticket) bool { return t.id == id })
	if i < 0 {
		return m
	}
	t := m.running[i]
	m.running = slices.Delete(slices.Clone(m.running), i, i+1)
	if t.generation != len(m.changes) {
		return m.write(late)
	}
	closed := m.last().to == seawall.Closed
	if !closed || o == seawall.Failure || o == seawall.Success && notesSuccess {
		m = m.note()
	}
	if !closed && m.lapsed(t) && o != seawall.Success {
		return m.write(late)
	}
	if o != seawall.Ignored {
		m = m.turn()
	}
	m = m.write(kind(o))
	calls, failures, streak := m.recount()
	switch {
	case o == seawall.Ignored:
	case !closed && o == seawall.Failure:
		return m.edge(seawall.Open, seawall.ReasonProbeFailed, calls, failures, hint)
	case !closed && calls >= m.set.ProbeSuccesses:
		return m.edge(seawall.Closed, seawall.ReasonProbesSucceeded, calls, failures, 0)
	case !closed || o == seawall.Success:
	case m.set.MinCalls > 0 && calls >= m.set.MinCalls && float64(failures)/float64(calls) >= m.set.FailureRate:
		return m.edge(seawall.Open, seawall.ReasonFailureRate, calls, failures, hint)
	case m.set.ConsecutiveFailures > 0 && streak >= m.set.ConsecutiveFailures:
		return m.edge(seawall.Open, seawall.ReasonConsecutiveFailures, calls, failures, hint)
	}
	return m
}

// ForceOpen opens by hand; a breaker that is forced open stays as it is.
func (m Breaker) ForceOpen() Breaker {
	if m = m.note(); m.forced() {
		return m
	}
	calls, failures, _ := m.recount()
	return m.edge(seawall.Open, seawall.ReasonForced, calls, failures, 0)
}

// Reset closes by hand; a closed breaker without counts stays as it is.
func (m Breaker) Reset() Breaker {
	m = m.note()
	calls, failures, streak := m.recount()
	if m.last().to == seawall.Closed && calls == 0 && streak == 0 {
		return m
	}
	return m.edge(seawall.Closed, seawall.ReasonReset, calls, failures, 0)
}

func (m Breaker) note() Breaker { m.noted = m.now(); return m }

// turn makes the bucket of now that in which results are booked.
func (m Breaker) turn() Breaker {
	m.turned = max(m.turned, m.now()/m.width()*m.width())
	return m
}

func (m Breaker) write(k kind) Breaker {
	m.log = append(slices.Clip(m.log), entry{m.turned, len(m.changes), k})
	return m
}

func (m Breaker) edge(to seawall.State, why seawall.Reason, calls, failures int, hint time.Duration) Breaker {
	m.changes = append(slices.Clip(m.changes), change{m.last().to, to, why, m.now(), hint, calls, failures})
	return m
}

// What follows is derived from the lists.

func (m Breaker) now() time.Duration { return max(m.noted, m.clock) }

func (m Breaker) width() time.Duration { return m.set.Window / time.Duration(m.set.Buckets) }

func (m Breaker) last() (c change) {
	if n := len(m.changes); n > 0 {
		c = m.changes[n-1]
	}
	return c
}

func (m Breaker) forced() bool { return m.last().why == seawall.ReasonForced }

// recount returns the results that count in the present generation: while closed those in the window, and how many of
// the latest failed with no success between them, in the window or not; while half-open all.
func (m Breaker) recount() (calls, failures, streak int) {
	closed := m.last().to == seawall.Closed
	for _, e := range m.log {
		if e.generation != len(m.changes) || e.kind > failure {
			continue
		}
		streak = (streak + 1) * int(e.kind)
		if !closed || m.turn().turned-e.at < time.Duration(m.set.Buckets)*m.width() {
			calls++
			failures += int(e.kind)
		}
	}
	return calls, failures, streak
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
		d := max(m.cooldown(), min(m.last().hint, m.set.MaxRetryAfter))
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
	if m.set.MinCalls == 0 && m.last().to == seawall.Closed {
		m = m.turn()
	}
	return m
}
