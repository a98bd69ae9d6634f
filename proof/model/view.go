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

// Settled returns the state that the last change led to.
func (m Breaker) Settled() seawall.State { return m.last().to }

// State returns what the next caller would meet.
func (m Breaker) State() seawall.State {
	if m.last().to == seawall.Open && m.wait() == 0 {
		return seawall.HalfOpen
	}
	return m.last().to
}

// Changes returns all state changes.
func (m Breaker) Changes() (all []seawall.Change) {
	for i, c := range m.changes {
		all = append(all, seawall.Change{
			From: c.from, To: c.to, Reason: c.why, At: Start().Add(c.at), Generation: uint64(i + 1),
			Calls: uint64(c.calls), Failures: uint64(c.failures),
		})
	}
	return all
}

// History returns the latest 16 state changes.
func (m Breaker) History() []seawall.Change {
	all := m.Changes()
	return all[max(0, len(all)-16):]
}

// Snapshot returns what seawall's Snapshot must be.
func (m Breaker) Snapshot() seawall.Snapshot {
	s := seawall.Snapshot{
		State: m.State(), Mode: m.set.Mode, Forced: m.forced(), Generation: uint64(len(m.changes)), Since: Start().Add(m.last().at),
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
	t := seawall.Totals{ByReason: make(map[seawall.Reason]uint64)}
	for _, e := range m.log {
		*[...]*uint64{&t.Successes, &t.Failures, &t.Ignored, &t.Late, &t.Rejected, &t.Cancelled, &t.WouldReject}[e.kind]++
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

// Equal reports whether two models show the same and will go on to, whatever happens. In which order calls of no
// further consequence came makes no difference.
func (m Breaker) Equal(n Breaker) bool {
	return m.clock == n.clock && m.noted == n.noted && m.turned == n.turned &&
		len(m.log) == len(n.log) && len(m.running) == len(n.running) &&
		slices.Equal(m.changes, n.changes) && m.kinds() == n.kinds() &&
		slices.Equal(m.current(), n.current()) && slices.Equal(m.sorted(), n.sorted())
}

// Hash is equal for models that are.
func (m Breaker) Hash() uint64 {
	h := uint64(m.clock)*31 + uint64(len(m.changes))
	for _, n := range m.kinds() {
		h = h*31 + uint64(n)
	}
	for _, t := range m.running {
		h += uint64(t.id) * 1_000_003
	}
	return h
}

// kinds returns how many entries there are of each kind.
func (m Breaker) kinds() (n [wouldReject + 1]int) {
	for _, e := range m.log {
		n[e.kind]++
	}
	return n
}

// current returns the results that still count.
func (m Breaker) current() (results []entry) {
	for _, e := range m.log {
		if e.generation == len(m.changes) && e.kind <= failure {
			results = append(results, e)
		}
	}
	return results
}

func (m Breaker) sorted() []ticket {
	return slices.SortedFunc(slices.Values(m.running), func(a, b ticket) int { return a.id - b.id })
}
