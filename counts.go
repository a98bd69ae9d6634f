package seawall

import (
	"math"
	"time"
)

// counts are what a closed breaker knows about the calls of its generation. They are guarded by Breaker.mu. Only the
// successes are counted elsewhere, by the generation and without a lock; they come in here as the number so far.
type counts struct {
	window  window
	booked  uint64     // how many of the successes are in here: all of them as of the latest turn
	row     uint64     // failures with no success between them, as of the latest turn
	running *slowCalls // nil if calls can't become slow

	timed    bool // successes are told as they happen; else nobody has to know when that was
	unjudged bool // calls became slow, and no rule has been asked since
}

func newCounts(c *breakerConfig) counts {
	n := counts{running: newSlowCalls(c.SlowCallThreshold)}
	if c.CountWindow > 0 {
		n.window = &countWindow{max: c.CountWindow}
	} else {
		n.window, n.timed = newTimeWindow(c.Window, c.Buckets), c.MinCalls > 0
	}
	n.timed = n.timed || c.SlowCallThreshold > 0
	return n
}

// never is when counts are due that nobody asks about the time of.
const never = time.Duration(math.MaxInt64)

// due returns until when all that turn would do is to take in the successes.
func (c *counts) due() time.Duration {
	if !c.timed {
		return never
	}
	return min(c.window.end(), c.running.due())
}

// turn brings the counts to now and returns how many calls became slow by then. Timed successes since the last turn
// came before the window's current bucket ended, so they belong there; the others count as of now.
func (c *counts) turn(now time.Duration, successes uint64) (slow uint64) {
	fresh := tally{calls: successes - c.booked}
	c.booked = successes
	if fresh.calls > 0 { // A success does not end the row by itself: that would be a second word to write.
		c.row = 0
	}
	if c.timed {
		c.window.book(fresh)
	}
	c.running.ripen(now, func(at time.Duration, calls uint64, mixed bool) {
		c.window.turn(at)
		failed := tally{calls: calls, failures: calls, slow: calls}
		if mixed { // No one knows how many of them came after the success, so they are not in the row.
			c.window.book(failed)
		} else {
			c.fail(failed)
		}
		c.unjudged = true
		slow += calls
	})
	c.window.turn(now)
	if !c.timed {
		c.window.book(fresh)
	}
	return slow
}

// fail counts failures as of the latest turn.
func (c *counts) fail(t tally) {
	c.window.book(t)
	c.row += t.failures
}

// empty reports whether clear would change nothing, as of the latest turn.
func (c *counts) empty() bool {
	return c.window.counts() == (tally{}) && c.row == 0
}

// at returns counts that have been turned to now, and how many calls became slow by then. Where time matters that is a
// copy, for looking must not change what is decided later. Where no rule asks for the time, to look is what gives the
// successes one.
func (c *counts) at(now time.Duration, successes uint64) (turned *counts, slow uint64) {
	if c.timed {
		d := *c
		d.window, d.running = c.window.clone(), c.running.clone()
		c = &d
	}
	return c, c.turn(now, successes)
}

// clear forgets all and brings the empty window to now.
func (c *counts) clear(now time.Duration) {
	c.window.turn(now)
	c.window.clear()
	c.running.clear()
	c.booked, c.row, c.unjudged = 0, 0, false
}
