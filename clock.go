package seawall

import "time"

// A Clock tells a [Breaker] and a [Bulkhead] the time; see [WithClock]. The *Mock of github.com/benbjohnson/clock is
// one as it is. A Clock must be safe for use by several goroutines and must not call the guard that reads it, which
// may hold its lock.
type Clock interface {
	Now() time.Time
	After(d time.Duration) <-chan time.Time
}

// systemClock is package time, and in a synctest bubble the bubble's time.
type systemClock struct{}

func (systemClock) Now() time.Time                         { return time.Now() }
func (systemClock) After(d time.Duration) <-chan time.Time { return time.After(d) }
