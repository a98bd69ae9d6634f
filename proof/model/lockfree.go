package model

import (
	"slices"
	"time"

	"github.com/seawall-go/seawall"
)

// What the paths of a breaker that take no lock allow.

// Locked reports whether each decision rests on what the clock shows at that instant now, for all calls take the lock, or
// are turned away only while nobody who has it is about to decide.
func (m Breaker) Locked() bool {
	return m.last().to == seawall.HalfOpen || m.last().to == seawall.Closed && m.watches()
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

// Look is a Snapshot.
func (m Breaker) Look() Breaker { return m.date() }

// untimed reports whether a success is counted without a look at the clock: no rule asks when it was.
func (m Breaker) untimed() bool {
	return m.last().to == seawall.Closed && m.set.MinCalls == 0 && !m.watches()
}

// date gives a time to the successes that have none: they are booked when a call fails, or somebody looks.
func (m Breaker) date() Breaker {
	if !m.untimed() {
		return m
	}
	m = m.turn()
	m.log = slices.Clone(m.log)
	for i, e := range m.log[m.dated:] {
		if e.kind == success && e.generation == len(m.changes) {
			m.log[m.dated+i].at = max(m.turned, m.now())
		}
	}
	m.dated = len(m.log)
	return m
}
