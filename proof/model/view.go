package model

import (
	"slices"
	"time"

	"github.com/seawall-go/seawall"
)

// What a breaker shows of itself. Asking changes nothing, which here the types see to.

// Clock returns what the clock shows, counted from the start.
func (m Breaker) Clock() time.Duration { return m.clock }

// Generation returns how often the state has changed.
func (m Breaker) Generation() int { return len(m.changes) }

// Running returns the ids of the calls that were admitted and have not ended.
func (m Breaker) Running() (ids []int) {
	for _, t := range m.running {
		ids = append(ids, t.id)
	}
	return ids
}

// Lapsed returns how many probes of the present generation run although their place has lapsed.
func (m Breaker) Lapsed() (n int) {
	for _, t := range m.running {
		if m.last().to == seawall.HalfOpen && t.generation == len(m.changes) && m.lapsed(t) {
			n++
		}
	}
	return n
}

// State returns what the next caller would meet.
func (m Breaker) State() seawall.State {
	if m.last().to == seawall.Open && m.wait() == 0 {
		return seawall.HalfOpen
	}
	return m.last().to
}

// Changes returns all state changes; seawall's History holds the latest 16 of them.
func (m Breaker) Changes() (all []seawall.Change) {
	for i, c := range m.changes {
		all = append(all, seawall.Change{
			From: c.from, To: c.to, Reason: c.why, At: Start().Add(c.at), Generation: uint64(i + 1),
			Calls: uint64(c.calls), Failures: uint64(c.failures),
		})
	}
	return all
}

// Snapshot returns what seawall's Snapshot must be.
func (m Breaker) Snapshot() seawall.Snapshot {
	s := seawall.Snapshot{
		State: m.State(), Forced: m.forced(), Generation: uint64(len(m.changes)), Since: Start().Add(m.last().at),
		Reason: m.last().why, RetryAfter: m.wait(), ProbesInFlight: len(m.places()), Totals: m.totals(),
	}
	switch calls, failures, streak := m.recount(); m.last().to {
	case seawall.Closed:
		s.Calls, s.Failures, s.ConsecutiveFailures = uint64(calls), uint64(failures), uint64(streak)
		if calls > 0 {
			s.FailureRate = float64(failures) / float64(calls)
		}
	case seawall.HalfOpen:
		s.ProbeSuccesses = calls
	case seawall.Open: // No call begins here, so there is nothing to count.
	}
	return s
}

func (m Breaker) totals() seawall.Totals {
	t := seawall.Totals{ByReason: map[seawall.Reason]uint64{}}
	for _, e := range m.log {
		*[...]*uint64{&t.Successes, &t.Failures, &t.Ignored, &t.Late, &t.Rejected, &t.Cancelled}[e.kind]++
	}
	spent := [...]*time.Duration{&t.TimeClosed, &t.TimeOpen, &t.TimeHalfOpen}
	var before change
	for _, c := range m.changes {
		t.ByReason[c.why]++
		if c.to == seawall.Open {
			t.Opens++
		}
		*spent[before.to] += c.at - before.at
		before = c
	}
	*spent[before.to] += m.now() - before.at
	return t
}

// Equal reports whether two models have the same future and the same past.
func (m Breaker) Equal(n Breaker) bool {
	return m.clock == n.clock && m.noted == n.noted &&
		slices.Equal(m.log, n.log) && slices.Equal(m.changes, n.changes) && slices.Equal(m.running, n.running)
}

// Hash is equal for models that are.
func (m Breaker) Hash() uint64 {
	h := uint64(m.clock)*31 + uint64(m.noted)
	for _, e := range m.log {
		h = h*31 + uint64(e.kind) + uint64(e.at)
	}
	for _, t := range m.running {
		h = h*31 + uint64(t.id)
	}
	return h*31 + uint64(len(m.changes))
}
