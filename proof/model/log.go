package model

import (
	"math"
	"slices"
	"time"

	"github.com/seawall-go/seawall"
)

// What a model writes down, and how it counts that anew for each answer.

// Start is what the clock shows when a breaker is made.
func Start() time.Time { return time.Unix(1_000_000_000, 0).UTC() }

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

func (m Breaker) note() Breaker { m.noted = m.now(); return m.ripen().date() }

func (m Breaker) edge(to seawall.State, why seawall.Reason, c counts, v verdict) Breaker {
	m.noted = m.now()
	m.changes = append(slices.Clip(m.changes), change{m.last().to, to, why, m.noted, c, v})
	return m
}

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

func (m Breaker) probeTimeout() time.Duration {
	if m.set.ProbeTimeout > 0 {
		return m.set.ProbeTimeout
	}
	return m.cooldown()
}

func (m Breaker) lapsed(t ticket) bool { return m.now()-t.at >= m.probeTimeout() }

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

// later returns t+d, or the end of time if that is earlier.
func later(t, d time.Duration) time.Duration { return t + min(d, math.MaxInt64-t) }

func one(b bool) int {
	if b {
		return 1
	}
	return 0
}
