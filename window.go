package seawall

import (
	"math"
	"slices"
	"time"
)

// latest is the last instant that elapsed time can have, 292 years after the start. It lies before the end of every
// bucket, so that time which has come to its end needs no special case.
const latest = math.MaxInt64 - 1

// tally counts results. Failures are calls too, and slow ones are failures.
type tally struct{ calls, failures, slow uint64 }

func (t *tally) add(u tally) {
	t.calls += u.calls
	t.failures += u.failures
	t.slow += u.slow
}

func (t *tally) sub(u tally) {
	t.calls -= u.calls
	t.failures -= u.failures
	t.slow -= u.slow
}

// rate is the share of failures, 0 without calls. It is not rounded.
func (t tally) rate() float64 {
	if t.calls == 0 {
		return 0
	}
	return float64(t.failures) / float64(t.calls)
}

// window counts the latest results: those of the last while, or a number of them.
type window interface {
	book(t tally)           // counts t as of the time turned to
	turn(now time.Duration) // moves on to now
	end() time.Duration     // until when turn has nothing to do
	counts() tally          // as of the time turned to
	clear()
	clone() window
}

// timeWindow counts the results of the last while in a ring of buckets of equal width, which lie on the grid
// floor(elapsed/width). It covers the current bucket and those before it that the ring still has, so no result older
// than the whole ring counts and every result younger than the ring but one bucket does.
type timeWindow struct {
	width     time.Duration
	ring      []tally
	head      int           // the current bucket's place in ring
	bucketEnd time.Duration // where the current bucket ends
	sum       tally         // of all buckets
}

func newTimeWindow(d time.Duration, buckets int) *timeWindow {
	width := d / time.Duration(buckets)
	return &timeWindow{width: width, ring: make([]tally, buckets), bucketEnd: width}
}

// book counts t in the current bucket.
func (w *timeWindow) book(t tally) {
	w.ring[w.head].add(t)
	w.sum.add(t)
}

// turn makes the bucket that now lies in the current one; an earlier bucket never becomes it again. It takes no longer
// than one round of the ring.
func (w *timeWindow) turn(now time.Duration) {
	steps := w.behind(now)
	if steps == 0 {
		return
	}
	w.bucketEnd = later(w.bucketEnd, time.Duration(steps)*w.width)
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

func (w *timeWindow) counts() tally { return w.sum }

// clear forgets all results and keeps the grid.
func (w *timeWindow) clear() {
	clear(w.ring)
	w.sum = tally{}
}

func (w *timeWindow) end() time.Duration { return w.bucketEnd }

func (w *timeWindow) clone() window {
	c := *w
	c.ring = slices.Clone(w.ring)
	return &c
}

// behind returns by how many buckets the current one is behind now.
func (w *timeWindow) behind(now time.Duration) int64 {
	if now < w.bucketEnd {
		return 0
	}
	return int64((now-w.bucketEnd)/w.width) + 1
}

// countWindow counts the last max results, whenever they were. It holds what the results were and grows with them.
type countWindow struct {
	max     int
	results []entry // a ring once there are max of them
	oldest  int     // its place in results
	sum     tally
}

// entry is one result in a countWindow.
type entry uint8

const (
	succeeded entry = iota
	failed
	failedSlow
)

func (e entry) tally() tally {
	switch e {
	case failed:
		return tally{calls: 1, failures: 1}
	case failedSlow:
		return tally{calls: 1, failures: 1, slow: 1}
	case succeeded:
	}
	return tally{calls: 1}
}

func (w *countWindow) book(t tally) {
	w.push(succeeded, t.calls-t.failures)
	w.push(failed, t.failures-t.slow)
	w.push(failedSlow, t.slow)
}

// push adds n equal results. More than max of them would only push each other out.
func (w *countWindow) push(e entry, n uint64) {
	for range min(n, uint64(w.max)) {
		w.sum.add(e.tally())
		if len(w.results) < w.max {
			w.grow()
			w.results = append(w.results, e)
			continue
		}
		w.sum.sub(w.results[w.oldest].tally())
		w.results[w.oldest] = e
		w.oldest = (w.oldest + 1) % w.max
	}
}

// grow makes room for one more result. append by itself would in the end make room for more than max.
func (w *countWindow) grow() {
	if n := len(w.results); n == cap(w.results) {
		w.results = append(make([]entry, 0, min(2*n+16, w.max)), w.results...)
	}
}

func (w *countWindow) counts() tally { return w.sum }

func (w *countWindow) turn(time.Duration) {}
func (w *countWindow) end() time.Duration { return math.MaxInt64 }

func (w *countWindow) clear() { *w = countWindow{max: w.max, results: w.results[:0]} }

func (w *countWindow) clone() window {
	c := *w
	c.results = slices.Clone(w.results)
	return &c
}

// later returns t+d for d ≥ 0, or the end of time if that is earlier.
func later(t, d time.Duration) time.Duration {
	if t > math.MaxInt64-d {
		return math.MaxInt64
	}
	return t + d
}
