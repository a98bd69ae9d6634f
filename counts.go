package seawall

import "time"

// counts are what a closed breaker knows about the calls of its generation. They are guarded by Breaker.mu. Only the
// successes are counted elsewhere, by the generation and without a lock; they come in here as the number so far.
type counts struct {
	window window
	timed  bool   // the window has to know when successes were; else they are as of when somebody looks
	booked uint64 // how many of the successes the window has
	row    uint64 // failures with no success between them
	rowEnd uint64 // successes when the latest of them was counted
}

// turn brings the window to now. Timed successes since it was last brought up to date came before its current bucket
// ended, so they belong there.
func (c *counts) turn(now time.Duration, successes uint64) {
	fresh := tally{calls: successes - c.booked}
	c.booked = successes
	if c.timed {
		c.window.book(fresh)
		c.window.turn(now)
	} else {
		c.window.turn(now)
		c.window.book(fresh)
	}
}

// fail counts a failure in the current bucket. A success does not end the row by itself, for that would be a second
// word to write: the next failure sees that there were some.
func (c *counts) fail(successes uint64) {
	c.window.book(tally{calls: 1, failures: 1})
	c.row, c.rowEnd = c.consecutive(successes)+1, successes
}

// at returns what the window's counts would be after turn, and changes nothing.
func (c *counts) at(now time.Duration, successes uint64) tally {
	fresh := tally{calls: successes - c.booked}
	if c.timed {
		return c.window.at(now, fresh)
	}
	sum := c.window.at(now, tally{})
	sum.add(fresh)
	return sum
}

func (c *counts) consecutive(successes uint64) uint64 {
	if c.rowEnd != successes {
		return 0
	}
	return c.row
}

// clear forgets all and brings the empty window to now.
func (c *counts) clear(now time.Duration) {
	c.window.turn(now)
	c.window.clear()
	c.booked, c.row, c.rowEnd = 0, 0, 0
}
