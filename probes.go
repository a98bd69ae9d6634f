package seawall

import (
	"slices"
	"time"
)

// probes are the calls of a half-open breaker. Each holds a place until it ends, but no longer than the timeout.
type probes struct {
	max     int
	timeout time.Duration
	places  []probe // in order of admission, which is the order in which they lapse
	last    int64   // id of the latest probe

	rejection *OpenError // the latest that was made for a caller who found all places taken
}

// probe is one admission. Ids count from 1, so the zero probe is none.
type probe struct {
	id    int64
	since time.Duration
}

// admit gives a place to a new probe; wait has said that there is one.
func (p *probes) admit(now time.Duration) probe {
	p.places = slices.Delete(p.places, 0, p.lapsed(now))
	p.last++
	admitted := probe{id: p.last, since: now}
	p.places = append(p.places, admitted)
	return admitted
}

// release gives the place of a probe back and reports whether the probe had lost it before.
func (p *probes) release(q probe, now time.Duration) (lapsed bool) {
	p.places = slices.DeleteFunc(p.places, func(held probe) bool { return held == q })
	return now-q.since >= p.timeout
}

// held returns how many probes hold a place at now.
func (p *probes) held(now time.Duration) int { return len(p.places) - p.lapsed(now) }

// lapsed returns how many of places are lost at now; they are the first ones.
func (p *probes) lapsed(now time.Duration) int {
	n := 0
	for n < len(p.places) && now-p.places[n].since >= p.timeout {
		n++
	}
	return n
}

// slow returns the oldest probe if it has become slow by now, while it held a place.
func (p *probes) slow(threshold, now time.Duration) (probe, bool) {
	if threshold > p.timeout || len(p.places) == 0 {
		return probe{}, false
	}
	oldest := p.places[0]
	return oldest, now-oldest.since >= threshold
}

// wait returns how long after now there is a place: 0 if there is one, else when the oldest lapses.
func (p *probes) wait(now time.Duration) time.Duration {
	lapsed := p.lapsed(now)
	if len(p.places)-lapsed < p.max {
		return 0
	}
	return p.timeout - (now - p.places[lapsed].since)
}
