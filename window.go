package seawall

import (
	"math"
	"time"
)

// latest is the last instant that elapsed time can have, 292 years after the start. It lies before the end of every
// bucket, so that time which has come to its end needs no special case.
const latest = math.MaxInt64 - 1

// tally counts results.
type tally struct{ calls, failures uint64 }

func (t *tally) add(u tally) { t.calls += u.calls; t.failures += u.failures }
func (t *tally) sub(u tally) { t.calls -= u.calls; t.failures -= u.failures }

// rate is the share of failures, 0 without calls. It is not rounded.
func (t tally) rate() float64 {
	if t.calls == 0 {
		return 0
	}
	return float64(t.failures) / float64(t.calls)
}

// window counts the results of the last while in a ring of buckets of equal width, which lie on the grid
// floor(elapsed/width). It covers the current bucket and those before it that the ring still has, so no result older
// than the whole ring counts and every result younger than the ring but one bucket does.
type window struct {
	width time.Duration
	ring  []tally
	head  int           // the current bucket's place in ring
	end   time.Duration // where the current bucket ends
	sum   tally         // of all buckets
}

func newWindow(d time.Duration, buckets int) window {
	width := d / time.Duration(buckets)
	return window{width: width, ring: make([]tally, buckets), end: width}
}

// book counts t in the current bucket.
func (w *window) book(t tally) {
	w.ring[w.head].add(t)
	w.sum.add(t)
}

// turn makes the bucket that now lies in the current one; an earlier bucket never becomes it again. It takes no longer
// than one round of the ring.
func (w *window) turn(now time.Duration) {
	steps := w.behind(now)
	if steps == 0 {
		return
	}
	w.end = later(w.end, time.Duration(steps)*w.width)
	if steps >= int64(len(w.ring)) {
		w.clear()
		return
	}
	for range steps {
		w.head = (w.head + 1) % len(w.ring)
		w.sum.sub(w.ring[w.head])
		w.ring[w.head] = tally{}
	}
}

// at returns what the counts would be after fresh is booked and the window turned to now. It changes nothing.
func (w *window) at(now time.Duration, fresh tally) tally {
	steps := w.behind(now)
	if steps >= int64(len(w.ring)) {
		return tally{}
	}
	sum := w.sum
	sum.add(fresh)
	for i := range int(steps) {
		sum.sub(w.ring[(w.head+1+i)%len(w.ring)])
	}
	return sum
}

// clear forgets all results and keeps the grid.
func (w *window) clear() {
	clear(w.ring)
	w.sum = tally{}
}

// behind returns by how many buckets the current one is behind now.
func (w *window) behind(now time.Duration) int64 {
	if now < w.end {
		return 0
	}
	return int64((now-w.end)/w.width) + 1
}

// later returns t+d for d ≥ 0, or the end of time if that is earlier.
func later(t, d time.Duration) time.Duration {
	if t > math.MaxInt64-d {
		return math.MaxInt64
	}
	return t + d
}
