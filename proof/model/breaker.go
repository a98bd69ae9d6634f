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
	dated   int           // and when the untimed ones among them were last given a time
	changes []change      // all edges; their number is the generation
	running []ticket      // admitted, not ended
}

// New returns the model of a new breaker with the given settings.
func New(set seawall.Settings) Breaker { return Breaker{set: set, mode: set.Mode} }

// Advance moves the clock by d, which may be negative.
func (m Breaker) Advance(d time.Duration) Breaker { m.clock += d; return m }

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
	if v.kind != ignored && (v.kind != success || !m.untimed()) {
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

// places returns the probes that hold one, oldest first.
func (m Breaker) places() (held []ticket) {
	for _, t := range m.running {
		if m.last().to == seawall.HalfOpen && t.generation == len(m.changes) && !m.lapsed(t) {
			held = append(held, t)
		}
	}
	return held
}
