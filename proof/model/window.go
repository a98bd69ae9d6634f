package model

import "time"

// Window is the naive reference of a breaker's rolling window: every result there ever was, counted anew each time.
type Window struct {
	Width   time.Duration // of a bucket
	Buckets int
	Events  []Event
}

// Event is one result.
type Event struct {
	At      time.Duration
	Failure bool
}

// Counts returns what a window on the bucket grid counts at now: the bucket of now and those before it.
func (w Window) Counts(now time.Duration) (calls, failures int) {
	return w.count(func(at time.Duration) bool { return int64(now/w.Width)-int64(at/w.Width) < int64(w.Buckets) })
}

// AtLeast returns what any window must count at now, whatever its grid: all that is younger than the window but one
// bucket.
func (w Window) AtLeast(now time.Duration) (calls, failures int) {
	return w.count(func(at time.Duration) bool { return now-at < w.Width*time.Duration(w.Buckets-1) })
}

// AtMost returns what a window may count at now at the most: nothing that is as old as the window or older.
func (w Window) AtMost(now time.Duration) (calls, failures int) {
	return w.count(func(at time.Duration) bool { return now-at < w.Width*time.Duration(w.Buckets) })
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
