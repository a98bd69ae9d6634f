package model

import (
	"cmp"
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

// Changes returns all state changes. Of their errors it knows ErrSlowCall only.
func (m Breaker) Changes() (all []seawall.StateChange) {
	for i, c := range m.changes {
		e := seawall.StateChange{
			From: c.from, To: c.to, Reason: c.why, At: Start().Add(c.at), Generation: uint64(i + 1),
			Calls: uint64(c.counts.calls), Failures: uint64(c.counts.failures), SlowCalls: uint64(c.counts.slow),
		}
		if c.verdict.kind == slow || c.verdict.kind == hung {
			e.Err = seawall.ErrSlowCall
		}
		all = append(all, e)
	}
	return all
}

// History returns the latest 16 state changes.
func (m Breaker) History() (latest []seawall.Change) {
	all := m.Changes()
	for _, c := range all[max(0, len(all)-16):] {
		latest = append(latest, seawall.Change{
			From: c.From, To: c.To, Reason: c.Reason, At: c.At, Generation: c.Generation, Calls: c.Calls, Failures: c.Failures,
		})
	}
	return latest
}

// Snapshot returns what seawall's Snapshot must be.
func (m Breaker) Snapshot() seawall.Snapshot {
	m = m.ripen()
	s := seawall.Snapshot{
		State: m.State(), Mode: m.mode, Forced: m.forced(), Generation: uint64(len(m.changes)), Since: Start().Add(m.last().at),
		Reason: m.last().why, RetryAfter: m.wait(), ProbesInFlight: len(m.places()), Totals: m.totals(),
	}
	switch c := m.recount(); m.last().to {
	case seawall.Closed:
		s.Calls, s.Failures, s.SlowCalls = uint64(c.calls), uint64(c.failures), uint64(c.slow)
		s.ConsecutiveFailures = uint64(c.row)
		if c.calls > 0 {
			s.FailureRate = float64(c.failures) / float64(c.calls)
		}
	case seawall.HalfOpen:
		s.ProbeSuccesses = c.calls
	case seawall.Open: // No call begins here, so there is nothing to count.
	}
	return s
}

func (m Breaker) totals() seawall.Totals {
	t := seawall.Totals{ByReason: make(map[seawall.Reason]uint64)}
	for k, n := range m.kinds() {
		*[...]*uint64{
			&t.Successes, &t.Failures, &t.Ignored, &t.SlowCalls, &t.SlowCalls, &t.Late, &t.Rejected, &t.Cancelled, &t.WouldReject,
		}[k] += uint64(n)
	}
	t.Failures += t.SlowCalls
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
	return m.clock == n.clock && m.noted == n.noted && m.turned == n.turned && m.mode == n.mode && m.dated == n.dated &&
		len(m.log) == len(n.log) && len(m.running) == len(n.running) && m.unjudged() == n.unjudged() &&
		slices.Equal(m.changes, n.changes) && m.kinds() == n.kinds() &&
		slices.EqualFunc(m.current(), n.current(), m.sameEntry) && slices.Equal(m.consequences(), n.consequences())
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

// sameEntry compares results as far as it matters: when one came in its bucket is asked for with slow calls only.
func (m Breaker) sameEntry(a, b entry) bool {
	return a.kind == b.kind && m.bucket(a.at) == m.bucket(b.at) && (!m.watches() || a.at == b.at)
}

// consequences returns what runs, as far as it matters and in an order that makes no difference. Of a call whose
// generation has ended only one thing does: whether it has been counted. When the others began matters to probes and to
// those that can become slow. All are sorted by id, but probes that can hang stay as they came, for of two that hang
// since the same instant the first one is found.
func (m Breaker) consequences() (running []ticket) {
	inOrder := m.watches() && m.last().to == seawall.HalfOpen
	for _, t := range m.running {
		switch {
		case t.generation != len(m.changes):
			t.at, t.generation = 0, -1
		case m.last().to == seawall.Closed && !m.watches():
			t.at = 0
		}
		running = append(running, t)
	}
	slices.SortStableFunc(running, func(a, b ticket) int {
		if inOrder && a.generation >= 0 && b.generation >= 0 {
			return 0
		}
		return cmp.Or(b.generation-a.generation, a.id-b.id)
	})
	return running
}

// Idle reports whether a Group may forget the breaker: it is closed and knows of no failure, or it made its last
// decision an hour ago and would have admitted a call at any time since.
func (m Breaker) Idle() bool {
	if c := m.ripen().recount(); m.last().to == seawall.Closed && c.failures == 0 && c.row == 0 {
		return true
	}
	before := m
	before.clock = m.now() - time.Hour
	return before.clock >= m.noted && before.wait() == 0
}
