package seawall

import (
	"sync/atomic"
	"time"
)

// generation is one stretch of one state. A call keeps the one that admitted it and is judged there and nowhere
// else. A Breaker has one at a time behind an atomic pointer, which calls read without a lock; an edge seals it and
// puts a new one in its place.
type generation struct {
	number uint64
	state  State
	reason Reason        // of the edge that began it
	since  time.Duration // elapsed time at that edge

	// due is when the counts of a closed breaker must be turned, as elapsed time. A success before that is booked by
	// counting it; the first one at or after it turns the counts.
	due atomic.Int64

	// rejection is what callers get while open or half-open, and until when that is so; nil if they have to ask.
	rejection atomic.Pointer[OpenError]

	plain bool // closed, and calls can't become slow: neither admission nor a success needs the lock
	off   bool // every call runs, and nothing is counted

	// slow tells the calls that were counted when they became slow from those that are late, once the generation has
	// ended: while closed those of the slots before it, while half-open the probe with this id. Guarded by Breaker.mu.
	slow int64

	// Every call reads what is above, every success writes what is below: together they fill two cache lines.

	// successes are those of a closed breaker, or of the probes of a half-open one. The top bit seals the count: what is
	// added after that does not count here.
	successes atomic.Uint64

	_ [64 - 8]byte
}

const sealed = 1 << 63

// succeed counts a success, unless the count is sealed: then it returns false, and whoever holds the lock can tell
// whether the generation has ended, which makes the success late, or a failure is only deciding. One atomic add tells
// the two apart, so no success is ever lost between them.
func (g *generation) succeed() bool { return g.successes.Add(1)&sealed == 0 }

// seal ends the count of successes, or halts it, and returns it.
func (g *generation) seal() uint64 { return g.successes.Or(sealed) }

// unseal goes on counting from what seal returned. Those who came in between were refused, and come again.
func (g *generation) unseal(successes uint64) { g.successes.Store(successes) }

// withdraw makes callers of a half-open breaker ask anew whether there is a place. Whoever is about to decide does it
// before the clock is read: then nobody is turned away by a later reading than that of a decision which comes first.
func (g *generation) withdraw() {
	if g.state == HalfOpen {
		g.rejection.Store(nil)
	}
}

// forced reports whether this is the open state that only Reset leaves.
func (g *generation) forced() bool { return g.reason == ReasonForced }
