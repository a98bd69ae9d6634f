package model

import (
	"math"
	"slices"
	"time"

	"github.com/seawall-go/seawall"
)

// Calls that become slow while they run, design §3.6. The model has a list of all that run, so it could say to the
// nanosecond when a call has run for the threshold. A breaker has none. It only knows in which slot of an eighth of the
// threshold a call began, and takes all calls of a slot for its last. SlowAt is all that the model allows for that; a
// test holds it to the design: never early, at most an eighth late.

// SlowAt returns when a call that began at start becomes slow if it still runs.
func SlowAt(start, threshold time.Duration) time.Duration {
	slot := slotOf(threshold)
	return later(threshold, min(start/slot, math.MaxInt64/slot-1)*slot+slot-1)
}

func slotOf(threshold time.Duration) time.Duration { return max(1, threshold/8) }

// watches reports whether calls can become slow.
func (m Breaker) watches() bool { return m.set.SlowCallThreshold > 0 }

// ripen counts the calls of a closed breaker that have become slow by now, each as of the time when it did.
func (m Breaker) ripen() Breaker {
	for i, t := range m.running {
		if m.last().to != seawall.Closed || !m.watches() || t.hung || t.generation != len(m.changes) {
			continue
		}
		if at := SlowAt(t.at, m.set.SlowCallThreshold); at <= m.now() {
			m = m.hang(i).writeAt(at, hung)
		}
	}
	return m
}

func (m Breaker) hang(i int) Breaker {
	m.running = slices.Clone(m.running)
	m.running[i].hung = true
	return m
}

// judgeHung makes the edge that is due for calls that hang: while closed if some became slow and no rule has been asked
// since, while half-open as soon as a probe has run for the threshold and still holds its place, or did then.
func (m Breaker) judgeHung() Breaker {
	switch m.last().to {
	case seawall.Closed:
		if m.unjudged() {
			return m.judge(verdict{kind: hung})
		}
	case seawall.HalfOpen:
		i := slices.IndexFunc(m.running, func(t ticket) bool {
			return t.generation == len(m.changes) && m.now()-t.at >= m.set.SlowCallThreshold
		})
		if m.watches() && m.set.SlowCallThreshold <= m.probeTimeout() && i >= 0 {
			m = m.hang(i).write(hung)
			return m.edge(seawall.Open, seawall.ReasonProbeFailed, m.recount(), verdict{kind: hung})
		}
	case seawall.Open:
	}
	return m
}

// besideSuccess reports whether a success among results came while the calls of the slot became slow that was found at.
func (m Breaker) besideSuccess(results []entry, at time.Duration) bool {
	return slices.ContainsFunc(results, func(e entry) bool {
		return e.kind == success && e.at > at-slotOf(m.set.SlowCallThreshold)
	})
}

func (m Breaker) unjudged() bool {
	return slices.ContainsFunc(m.log[m.judged:], func(e entry) bool {
		return e.kind == hung && e.generation == len(m.changes)
	})
}
