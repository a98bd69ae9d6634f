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

// read returns the clock's reading as elapsed time.
func (b *Breaker) read() time.Duration {
	if b.systemTime {
		return time.Since(b.base) // Half the price of time.Now: it reads the monotonic clock only.
	}
	return b.sinceBase(b.config.clock.Now())
}

// noteLocked reads the clock for a decision and notes the reading. Time never runs back: a reading before the latest
// noted one counts as that one.
func (b *Breaker) noteLocked() time.Duration {
	b.now = b.peekLocked()
	return b.now
}

// peekLocked reads the clock as noteLocked does, and leaves no trace.
func (b *Breaker) peekLocked() time.Duration { return max(b.now, b.read()) }

// elapsed is peekLocked for those who don't hold the lock.
func (b *Breaker) elapsed() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.peekLocked()
}

// instantAt returns the time of day at which t had or will have elapsed. It is counted from what the clock says now, for
// a wall clock may have been set since the base was taken.
func (b *Breaker) instantAt(t time.Duration) time.Time {
	now := b.config.clock.Now()
	return now.Add(t).Add(-b.sinceBase(now)) // In two steps: their difference may be too long for a Duration.
}

func (b *Breaker) sinceBase(t time.Time) time.Duration {
	return max(-latest, min(t.Sub(b.base), latest))
}
