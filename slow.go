package seawall

import (
	"slices"
	"time"
)

// slowCalls finds the calls of a closed breaker that have run for threshold, without a list of them: it counts the
// running calls by when they began, in slots of an eighth of the threshold. All those of a slot are slow once the last
// instant of the slot is threshold ago; so a call is never found early, and at most one slot's width late.
//
// Time that is passed in must not run back.
type slowCalls struct {
	threshold time.Duration // 0: there are no slow calls
	width     time.Duration
	running   []uint64 // by slot number, modulo the length
	next      int64    // number of the first slot that is not slow yet
}

func newSlowCalls(threshold time.Duration) slowCalls {
	if threshold == 0 {
		return slowCalls{}
	}
	width := max(1, threshold/8)
	// Between the first slot that is not slow yet and the one that now lies in, both included.
	slots := int(threshold/width) + 2
	return slowCalls{threshold: threshold, width: width, running: make([]uint64, slots)}
}

// begin counts a call that begins at now, after ripen(now).
func (s *slowCalls) begin(now time.Duration) {
	if s.threshold > 0 {
		*s.slot(s.number(now))++
	}
}

// end forgets a call that has ended. It reports false if ripen had the call.
func (s *slowCalls) end(start time.Duration) bool {
	if s.threshold == 0 {
		return true
	}
	n := s.number(start)
	if n < s.next {
		return false
	}
	*s.slot(n)--
	return true
}

// ripen calls book for the slots that have become slow by now, in order, with the instant and how many calls of that
// slot are still running.
func (s *slowCalls) ripen(now time.Duration, book func(at time.Duration, calls uint64)) {
	if now < s.threshold || s.threshold == 0 {
		return
	}
	end := s.number(now - s.threshold) // Slots before this one ended threshold ago or earlier.
	for n := s.next; n < min(end, s.next+int64(len(s.running))); n++ {
		if calls := s.slot(n); *calls > 0 {
			book(time.Duration(n+1)*s.width+s.threshold, *calls)
			*calls = 0
		}
	}
	s.next = max(s.next, end)
}

// before reports whether a call that began at start lies in a slot before that with number n.
func (s *slowCalls) before(start time.Duration, n int64) bool {
	return s.threshold > 0 && s.number(start) < n
}

// clear forgets all running calls. What ripen had stays known.
func (s *slowCalls) clear() { clear(s.running) }

func (s *slowCalls) clone() slowCalls {
	c := *s
	c.running = slices.Clone(s.running)
	return c
}

func (s *slowCalls) number(t time.Duration) int64 { return int64(t / s.width) }
func (s *slowCalls) slot(n int64) *uint64         { return &s.running[n%int64(len(s.running))] }
