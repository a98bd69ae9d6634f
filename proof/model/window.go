package model

import "time"

// Window is the naive reference of a breaker's rolling window: every result there ever was, counted anew each time.
type Window struct {
	Size    time.Duration
	Buckets int
	Events  []Event
}

// Event is one result.
type Event struct {
	At      time.Duration
	Failure bool
}

// Counts returns what the window counts at now: the results in the bucket of now and in those before it.
func (w Window) Counts(now time.Duration) (calls, failures int) {
	width := w.Size / time.Duration(w.Buckets)
	return w.count(func(at time.Duration) bool { return int64(now/width)-int64(at/width) < int64(w.Buckets) })
}

// AtLeast returns what a window must count at now, wherever its buckets begin: all that is younger than it but one
// bucket.
func (w Window) AtLeast(now time.Duration) (calls, failures int) {
	young := w.Size - (w.Size+time.Duration(w.Buckets)-1)/time.Duration(w.Buckets)
	return w.count(func(at time.Duration) bool { return now-at < young })
}

// AtMost returns what a window may count at now, wherever its buckets begin: nothing as old as it or older.
func (w Window) AtMost(now time.Duration) (calls, failures int) {
	return w.count(func(at time.Duration) bool { return now-at < w.Size })
}

func (w Window) count(in func(at time.Duration) bool) (calls, failures int) {
	for _, e := range w.Events {
		if !in(e.At) {
			continue
		}
		calls++
		if e.Failure {
			failures++
		}
	}
	return calls, failures
}
