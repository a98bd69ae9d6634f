package model

import (
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

// Look is a Snapshot. Without a failure rate the rules don't ask when a success was, so a breaker need not know; it
// books successes when somebody looks, and that turns the window.
func (m Breaker) Look() Breaker {
	if m.set.MinCalls == 0 && m.last().to == seawall.Closed && !m.watches() {
		m = m.turn()
	}
	return m
}
