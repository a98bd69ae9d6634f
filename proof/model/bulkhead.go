package model

import (
	"slices"
	"time"
)

// Bulkhead is the reference of a bulkhead: who runs, who waits, and the time. Like [Breaker] it is a value. Calls are
// known by id; what becomes of one is told by the three lists of [Bulkhead.Fates].
type Bulkhead struct {
	limit    int
	maxWait  time.Duration // below 0: no bound
	maxQueue int           // below 0: no bound
	now      time.Duration
	running  []int
	queue    []waiter // in order of arrival
	gone     []Gone
	admitted int
	waited   time.Duration
}

type waiter struct {
	id    int
	since time.Duration
}

// Gone is a call that ended without having run.
type Gone struct {
	ID  int
	Why Refusal
}

// Refusal is why a call did not run.
type Refusal int

// The ways in which a bulkhead refuses.
const (
	Full      Refusal = iota // no slot, and no place in the queue
	TimedOut                 // waited as long as it may
	Cancelled                // its context ended while it waited, or before
)

// NewBulkhead returns the model of a new bulkhead. A negative maxWait or maxQueue stands for no bound.
func NewBulkhead(limit int, maxWait time.Duration, maxQueue int) Bulkhead {
	if maxWait == 0 { // Nobody waits.
		maxQueue = 0
	}
	return Bulkhead{limit: limit, maxWait: maxWait, maxQueue: maxQueue}
}

// Acquire is a call that asks for a slot.
func (m Bulkhead) Acquire(id int) Bulkhead {
	switch {
	case len(m.running) < m.limit:
		return m.admit(id)
	case m.maxQueue == 0 || m.maxQueue > 0 && len(m.queue) >= m.maxQueue:
		return m.refuse(id, Full)
	}
	m.queue = append(slices.Clip(m.queue), waiter{id, m.now})
	return m
}

// Release ends the call with the given id, if it runs.
func (m Bulkhead) Release(id int) Bulkhead {
	m.running = slices.DeleteFunc(slices.Clone(m.running), func(r int) bool { return r == id })
	return m.serve()
}

// Cancel ends the context of the call with the given id, which matters only to one that waits.
func (m Bulkhead) Cancel(id int) Bulkhead {
	i := slices.IndexFunc(m.queue, func(w waiter) bool { return w.id == id })
	if i < 0 {
		return m
	}
	return m.dequeue(i).refuse(id, Cancelled)
}

// CancelledBefore is a call whose context is done when it asks.
func (m Bulkhead) CancelledBefore(id int) Bulkhead { return m.refuse(id, Cancelled) }

// SetLimit changes the limit; what runs goes on.
func (m Bulkhead) SetLimit(n int) Bulkhead {
	m.limit = n
	return m.serve()
}

// Advance lets d pass, which must not be negative.
func (m Bulkhead) Advance(d time.Duration) Bulkhead {
	m.now += d
	for m.maxWait > 0 && len(m.queue) > 0 && m.now-m.queue[0].since >= m.maxWait {
		first := m.queue[0]
		m = m.dequeueAt(0, first.since+m.maxWait).refuse(first.id, TimedOut)
	}
	return m
}

// serve admits those who wait, first come, first served, as far as there are slots.
func (m Bulkhead) serve() Bulkhead {
	for len(m.queue) > 0 && len(m.running) < m.limit {
		id := m.queue[0].id
		m = m.dequeue(0).admit(id)
	}
	return m
}

func (m Bulkhead) admit(id int) Bulkhead {
	m.running = append(slices.Clip(m.running), id)
	m.admitted++
	return m
}

func (m Bulkhead) refuse(id int, why Refusal) Bulkhead {
	m.gone = append(slices.Clip(m.gone), Gone{id, why})
	return m
}

func (m Bulkhead) dequeue(i int) Bulkhead { return m.dequeueAt(i, m.now) }

func (m Bulkhead) dequeueAt(i int, now time.Duration) Bulkhead {
	m.waited += now - m.queue[i].since
	m.queue = slices.Delete(slices.Clone(m.queue), i, i+1)
	return m
}

// Running returns the ids of the calls that hold a slot.
func (m Bulkhead) Running() []int { return m.running }

// Waiting returns the ids of the calls that wait, in order of arrival.
func (m Bulkhead) Waiting() (ids []int) {
	for _, w := range m.queue {
		ids = append(ids, w.id)
	}
	return ids
}

// Gone returns the calls that ended without having run.
func (m Bulkhead) Gone() []Gone { return m.gone }

// Limit returns the limit.
func (m Bulkhead) Limit() int { return m.limit }

// MaxQueue returns how many calls may wait, -1 if any number may.
func (m Bulkhead) MaxQueue() int { return max(-1, m.maxQueue) }

// Admitted returns how many calls got a slot so far.
func (m Bulkhead) Admitted() int { return m.admitted }

// Waited returns how long calls waited in all; those that still wait don't count yet.
func (m Bulkhead) Waited() time.Duration { return m.waited }
