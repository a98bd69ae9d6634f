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
	threshold time.Duration
	width     time.Duration
	running   []uint64 // by slot number, modulo the length

	next   int64         // number of the first slot that is not slow yet
	ripeAt time.Duration // when it will be
	slot   int           // place of the latest slot that a call began in
	start  time.Duration // where that slot starts

	succeeded time.Duration // when the latest success came
}

// newSlowCalls returns nil, which finds nothing, for a threshold of 0.
func newSlowCalls(threshold time.Duration) *slowCalls {
	if threshold == 0 {
		return nil
	}
	width := max(1, threshold/8)
	// Between the first slot that is not slow yet and the one that now lies in, both included.
	slots := int(threshold/width) + 2
	s := &slowCalls{threshold: threshold, width: width, running: make([]uint64, slots)}
	s.ripeAt = s.ripens(0)
	return s
}

// begin counts a call that begins at now, after ripen(now) or before it is due.
func (s *slowCalls) begin(now time.Duration) {
	if s == nil {
		return
	}
	if now-s.start >= s.width { // Mostly it is the same slot as before, and there is no need to divide.
		n := s.number(now)
		s.slot, s.start = s.place(n), time.Duration(n)*s.width
	}
	s.running[s.slot]++
}

// end forgets a call that has ended. It reports false if ripen had the call.
func (s *slowCalls) end(start time.Duration) bool {
	switch {
	case s == nil:
		return true
	case start < time.Duration(s.next)*s.width:
		return false
	case start >= s.start:
		s.running[s.slot]--
	default:
		s.running[s.place(s.number(start))]--
	}
	return true
}

// succeed notes a success.
func (s *slowCalls) succeed(now time.Duration) {
	if s != nil {
		s.succeeded = now
	}
}

// due returns until when ripen has nothing to do.
func (s *slowCalls) due() time.Duration {
	if s == nil {
		return never
	}
	return s.ripeAt
}

// ripen calls book for the slots that have become slow by now, in order, with the instant, how many calls of that slot
// are still running, and whether a success came while they became slow, one after another.
func (s *slowCalls) ripen(now time.Duration, book func(at time.Duration, calls uint64, mixed bool)) {
	if now < s.due() {
		return
	}
	end := s.number(now + 1 - s.threshold) // The last instant of the slots before this one is threshold ago, or more.
	for n := s.next; n < s.next+min(end-s.next, int64(len(s.running))); n++ {
		if calls := &s.running[s.place(n)]; *calls > 0 {
			at := s.ripens(n)
			book(at, *calls, s.succeeded > at-s.width)
			*calls = 0
		}
	}
	s.next, s.ripeAt = end, s.ripens(end)
}

// before reports whether a call that began at start lies in a slot before that with number n.
func (s *slowCalls) before(start time.Duration, n int64) bool {
	return s != nil && start < time.Duration(n)*s.width
}

// clear forgets all running calls. What ripen had stays known.
func (s *slowCalls) clear() {
	if s != nil {
		clear(s.running)
	}
}

func (s *slowCalls) clone() *slowCalls {
	if s == nil {
		return nil
	}
	c := *s
	c.running = slices.Clone(s.running)
	return &c
}

// ripens returns when the slot of this number becomes slow.
func (s *slowCalls) ripens(n int64) time.Duration {
	return later(time.Duration(n+1)*s.width-1, s.threshold)
}

func (s *slowCalls) number(t time.Duration) int64 { return int64(t / s.width) }
func (s *slowCalls) place(n int64) int            { return int(n % int64(len(s.running))) }
