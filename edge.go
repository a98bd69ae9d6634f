package seawall

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// aftermath is what an edge owes to code of the user's once the lock is free.
type aftermath struct {
	message    *message
	generation *generation
	trip       *Trip // to ask the cooldown function about, or nil
}

// interfere makes an edge by hand.
func (b *Breaker) interfere(why Reason) *aftermath {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.interfereLocked(why)
}

func (b *Breaker) switchMode(m Mode) *aftermath {
	b.mu.Lock()
	defer b.mu.Unlock()
	was := Mode(b.mode.Swap(int32(m)))
	if was == m || was != Off && m != Off {
		b.wakeLocked() // Who waits for a place needs none in Observe.
		return nil
	}
	return b.interfereLocked(ReasonModeChanged)
}

func (b *Breaker) interfereLocked(why Reason) *aftermath {
	g := b.current.Load()
	g.withdraw()
	now := b.noteLocked()
	if g.state == Closed {
		b.haltLocked(g, now)
		if why == ReasonReset && b.counts.empty() {
			g.unseal(b.counts.booked)
			return nil
		}
	}
	return b.edgeLocked(why, b.tallyLocked(g), verdict{})
}

// edgeLocked takes the breaker to its next state. It is the one door: no other code replaces the generation, and every
// edge makes one event. A plain generation has been halted, and the counts of a closed one are as of b.now.
func (b *Breaker) edgeLocked(why Reason, counts tally, v verdict) *aftermath {
	from := b.current.Load()
	to, ok := next(from.state, from.forced(), why)
	if !ok {
		return nil
	}
	b.retireLocked(from)
	g := &generation{number: from.number + 1, state: to, reason: why, since: b.now}
	after := &aftermath{generation: g}
	b.totals.byReason[why]++
	switch to {
	case Closed:
		b.opens = 0
		b.counts.clear(b.now)
	case Open:
		after.trip = b.openLocked(g, v)
	case HalfOpen:
		b.probes = &probes{max: b.config.Probes, timeout: b.probeTimeoutLocked()}
	}
	b.beginLocked(g)
	change := StateChange{
		Name: b.name, From: from.state, To: to, Reason: why, At: b.instantAt(b.now), Generation: g.number, Err: v.err,
		Calls: counts.calls, Failures: counts.failures, SlowCalls: counts.slow,
	}
	b.recordLocked(change)
	e := event{StateChange: change, opens: b.totals.opens(), rejected: b.takeRejectedLocked()}
	if to == Open && !g.forced() {
		e.cooldown = b.opening.duration()
	}
	after.message = b.config.events.put(e, after.trip != nil)
	return after
}

// takeRejectedLocked returns how many calls were rejected, or would have been, since it was last asked.
func (b *Breaker) takeRejectedLocked() uint64 {
	before := b.rejectedBefore
	b.rejectedBefore = b.rejected.Load() + b.wouldReject.Load()
	return b.rejectedBefore - before
}

// retireLocked ends a generation. That comes before the next one is to be seen: whoever has seen that finds the result
// of an older call late.
func (b *Breaker) retireLocked(g *generation) {
	successes := g.seal()
	if g.state == Closed {
		successes = b.counts.booked
		if b.counts.running != nil {
			g.slow = b.counts.running.next
		}
	}
	b.totals.successes += successes
	b.totals.spent[g.state] += b.now - g.since
}

// beginLocked admits calls to g from now on.
func (b *Breaker) beginLocked(g *generation) {
	g.off = Mode(b.mode.Load()) == Off
	g.plain = g.state == Closed && !g.off && b.config.SlowCallThreshold == 0
	g.due.Store(int64(b.counts.due()))
	b.current.Store(g)
	b.wakeLocked()
}

// wakeLocked tells those who wait that a call may be admitted.
func (b *Breaker) wakeLocked() {
	if b.changed != nil {
		close(b.changed)
		b.changed = nil
	}
}

// nextChange returns a channel that is closed with the next edge or free place.
func (b *Breaker) nextChange() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.changed == nil {
		b.changed = make(chan struct{})
	}
	return b.changed
}

// openLocked decides how long the opening lasts that is about to begin. It returns what to ask the user's cooldown
// function about, nil if there is nothing to ask.
func (b *Breaker) openLocked(g *generation, v verdict) *Trip {
	if g.forced() {
		g.rejection.Store(&OpenError{
			Name: b.name, State: Open, Reason: g.reason, breaker: b, until: math.MaxInt64, wait: b.config.Cooldown,
		})
		return nil
	}
	b.opens++
	b.opening = opening{cooldown: b.config.cooldownOf(b.opens), hint: v.hint}
	if b.config.Jitter > 0 {
		b.opening.share = b.config.Jitter * rand.Float64()
	}
	b.setRejectionLocked(g)
	if b.config.cooldown == nil {
		return nil
	}
	return &Trip{Name: b.name, Opens: b.opens, Reason: g.reason, Err: v.err, Cooldown: b.opening.cooldown}
}

// setRejectionLocked gives an open generation the error that its callers get for as long as the opening lasts.
func (b *Breaker) setRejectionLocked(g *generation) {
	g.rejection.Store(b.newOpenErrorLocked(g, later(g.since, b.opening.duration())))
}

func (b *Breaker) probeTimeoutLocked() time.Duration {
	if b.config.ProbeTimeout > 0 {
		return b.config.ProbeTimeout
	}
	return b.opening.cooldown
}

// historyLength is how many state changes a breaker remembers.
const historyLength = 16

func (b *Breaker) recordLocked(c StateChange) {
	if len(b.history) == historyLength {
		b.history = slices.Delete(b.history, 0, 1)
	}
	b.history = append(b.history, Change{
		From: c.From, To: c.To, Reason: c.Reason, At: c.At, Generation: c.Generation,
		Calls: c.Calls, Failures: c.Failures,
	})
}

// follow does what an edge owes, under no lock: it asks the cooldown function, then delivers events. Both may panic
// or exit, and neither takes the other along.
func (b *Breaker) follow(after *aftermath) {
	if after == nil {
		return
	}
	defer b.config.events.deliver()
	if after.trip != nil {
		defer b.config.events.release(after.message)
		b.setCooldown(after, b.config.cooldown(*after.trip))
	}
}

// followOrFree is follow before a call runs. If a hook panics or calls runtime.Goexit the call won't run, and must not
// keep its place.
func (b *Breaker) followOrFree(after *aftermath, t ticket) {
	followed := false
	defer func() {
		if !followed && t.generation != nil {
			b.settle(t, verdict{outcome: Ignored})
		}
	}()
	b.follow(after)
	followed = true
}

// setCooldown puts the cooldown function's answer into force, unless it came too late or says nothing.
func (b *Breaker) setCooldown(after *aftermath, d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if g := after.generation; d > 0 && g == b.current.Load() {
		b.opening.cooldown = d
		b.setRejectionLocked(g)
		b.wakeLocked()
		if after.message != nil { // It is held, so nobody reads it yet.
			after.message.event.cooldown = b.opening.duration()
		}
	}
}

// opening is how long an open state lasts. What is random in it is drawn once.
type opening struct {
	cooldown time.Duration // in force: plain, grown, or decided by the user's function
	hint     time.Duration // what the error asked for, as far as honoured
	share    float64       // of jitter
}

func (o opening) duration() time.Duration {
	d := max(o.cooldown, o.hint)
	return later(d, time.Duration(float64(d)*o.share))
}
