package metrics

import (
	"math"
	"strings"

	"github.com/seawall-go/seawall"
)

// Attributes, as OpenTelemetry writes them.
const (
	breakerName   = "circuit_breaker.name"
	state         = "circuit_breaker.state"
	previousState = "circuit_breaker.previous_state"
	reason        = "circuit_breaker.reason"
	outcome       = "circuit_breaker.outcome"

	bulkheadName    = "bulkhead.name"
	bulkheadOutcome = "bulkhead.outcome"

	groupName = "guard_registry.name"
)

// States, as attributes have them. A breaker in mode Observe has the state that it would enforce.
const (
	closed     = "closed"
	disabled   = "disabled" // mode Off
	forcedOpen = "forced_open"
	halfOpen   = "half_open"
	open       = "open"
	anyState   = "any" // of a change by hand, whose previous state no snapshot tells
)

// breaker is what the columns of breakers read.
type breaker struct {
	seawall.Snapshot
	minCalls int  // that the rule on the failure rate needs; 0 without that rule
	startOff bool // it was made in mode Off
}

func (b *breaker) status() string {
	switch {
	case b.Mode == seawall.Off:
		return disabled
	case b.Forced:
		return forcedOpen
	default:
		return strings.ReplaceAll(b.State.String(), "-", "_")
	}
}

// failureRatio is absent where the breaker itself does not look at it. As an average of what may be a single call it
// would only raise false alarms.
func (b *breaker) failureRatio() float64 {
	if b.minCalls == 0 || b.Calls < uint64(b.minCalls) {
		return math.NaN()
	}
	return b.FailureRate
}

// switchedOff returns how often the breaker was switched off. That and switching it on again take turns.
func (b *breaker) switchedOff() uint64 { return b.switched() - b.switchedOn() }

func (b *breaker) switchedOn() uint64 {
	if b.startOff {
		return (b.switched() + 1) / 2
	}
	return b.switched() / 2
}

func (b *breaker) switched() uint64 { return b.Totals.ByReason[seawall.ReasonModeChanged] }

func changes(why seawall.Reason) func(*breaker) uint64 {
	return func(b *breaker) uint64 { return b.Totals.ByReason[why] }
}

// The columns of an instrument are in alphabetical order: by the value of each attribute, the attributes by their keys.
// A Prometheus client sorts what it gets, which costs little if it is sorted.

func breakerColumns() []column[breaker] {
	var c columns[breaker]

	c.instrument(Instrument{
		Name: "circuit_breaker.status", Kind: UpDownCounter, Unit: "1",
		Description: "1 for the state that the circuit breaker is in, 0 for the others.",
		Attributes:  []string{breakerName, state},
	})
	for _, s := range []string{closed, disabled, forcedOpen, halfOpen, open} {
		c.add(func(b *breaker) float64 { return oneIf(b.status() == s) }, s)
	}

	c.instrument(Instrument{
		Name: "circuit_breaker.calls", Kind: Counter, Unit: "{call}",
		Description: "Calls by what became of them.",
		Attributes:  []string{breakerName, outcome},
	})
	c.add(func(b *breaker) float64 { return float64(b.Totals.Cancelled) }, "abandoned")
	c.add(func(b *breaker) float64 { return float64(b.Totals.Failures) }, "failure")
	c.add(func(b *breaker) float64 { return float64(b.Totals.Ignored) }, "ignored")
	c.add(func(b *breaker) float64 { return float64(b.Totals.Late) }, "late")
	c.add(func(b *breaker) float64 { return float64(b.Totals.Rejected) }, "rejected")
	c.add(func(b *breaker) float64 { return float64(b.Totals.Successes) }, "success")
	c.add(func(b *breaker) float64 { return float64(b.Totals.WouldReject) }, "would_reject")

	c.instrument(Instrument{
		Name: "circuit_breaker.slow_calls", Kind: Counter, Unit: "{call}",
		Description: "Calls that ran for longer than the slow call threshold. Each is a failure, too.",
		Attributes:  []string{breakerName},
	})
	c.add(func(b *breaker) float64 { return float64(b.Totals.SlowCalls) })

	c.instrument(Instrument{
		Name: "circuit_breaker.transitions", Kind: Counter, Unit: "{transition}",
		Description: "Changes of state, by the new one, the one before, and the reason.",
		Attributes:  []string{breakerName, state, previousState, reason},
	})
	transition := func(from string, why seawall.Reason, to string, count func(*breaker) uint64) {
		c.add(func(b *breaker) float64 { return float64(count(b)) }, to, from, why.String())
	}
	transition(anyState, seawall.ReasonForced, forcedOpen, changes(seawall.ReasonForced))
	transition(anyState, seawall.ReasonModeChanged, disabled, (*breaker).switchedOff)
	transition(anyState, seawall.ReasonReset, closed, changes(seawall.ReasonReset))
	transition(closed, seawall.ReasonConsecutiveFailures, open, changes(seawall.ReasonConsecutiveFailures))
	transition(closed, seawall.ReasonFailureRate, open, changes(seawall.ReasonFailureRate))
	transition(disabled, seawall.ReasonModeChanged, closed, (*breaker).switchedOn)
	transition(halfOpen, seawall.ReasonProbeFailed, open, changes(seawall.ReasonProbeFailed))
	transition(halfOpen, seawall.ReasonProbesSucceeded, closed, changes(seawall.ReasonProbesSucceeded))
	transition(open, seawall.ReasonCooldownOver, halfOpen, changes(seawall.ReasonCooldownOver))

	c.instrument(Instrument{
		Name: "circuit_breaker.state_time", Kind: Counter, Float: true, Unit: "s",
		Description: "Time spent in each state. Forced open is open, and disabled is closed.",
		Attributes:  []string{breakerName, state},
	})
	c.add(func(b *breaker) float64 { return b.Totals.TimeClosed.Seconds() }, closed)
	c.add(func(b *breaker) float64 { return b.Totals.TimeHalfOpen.Seconds() }, halfOpen)
	c.add(func(b *breaker) float64 { return b.Totals.TimeOpen.Seconds() }, open)

	c.instrument(Instrument{
		Name: "circuit_breaker.failure_ratio", Kind: Gauge, Float: true, Unit: "1",
		Description: "Failures among the calls in the window. Absent while those are fewer than the rule on it needs.",
		Attributes:  []string{breakerName},
	})
	c.add((*breaker).failureRatio)

	c.instrument(Instrument{
		Name: "circuit_breaker.window.calls", Kind: UpDownCounter, Unit: "{call}",
		Description: "Calls in the window of the closed circuit breaker.",
		Attributes:  []string{breakerName, outcome},
	})
	c.add(func(b *breaker) float64 { return float64(b.Failures) }, "failure")
	c.add(func(b *breaker) float64 { return float64(b.Calls - b.Failures) }, "success")

	return c.all
}

// bulkhead is what the columns of bulkheads read.
type bulkhead = seawall.BulkheadSnapshot

func bulkheadColumns() []column[bulkhead] {
	var c columns[bulkhead]

	c.instrument(Instrument{
		Name: "bulkhead.calls", Kind: Counter, Unit: "{call}",
		Description: "Calls by what was decided about them.",
		Attributes:  []string{bulkheadName, bulkheadOutcome},
	})
	c.add(func(b *bulkhead) float64 { return float64(b.Totals.Cancelled) }, "abandoned")
	c.add(func(b *bulkhead) float64 { return float64(b.Totals.Admitted) }, "accepted")
	c.add(func(b *bulkhead) float64 { return float64(b.Totals.RejectedFull) }, "rejected_full")
	c.add(func(b *bulkhead) float64 { return float64(b.Totals.RejectedTimeout) }, "rejected_timeout")

	c.instrument(Instrument{
		Name: "bulkhead.running", Kind: UpDownCounter, Unit: "{call}",
		Description: "Calls that hold a slot of the bulkhead.",
		Attributes:  []string{bulkheadName},
	})
	c.add(func(b *bulkhead) float64 { return float64(b.InFlight) })

	c.instrument(Instrument{
		Name: "bulkhead.limit", Kind: UpDownCounter, Unit: "{call}",
		Description: "Slots of the bulkhead.",
		Attributes:  []string{bulkheadName},
	})
	c.add(func(b *bulkhead) float64 { return float64(b.Limit) })

	c.instrument(Instrument{
		Name: "bulkhead.waiting", Kind: UpDownCounter, Unit: "{call}",
		Description: "Calls that wait for a slot of the bulkhead.",
		Attributes:  []string{bulkheadName},
	})
	c.add(func(b *bulkhead) float64 { return float64(b.Waiting) })

	c.instrument(Instrument{
		Name: "bulkhead.queue_limit", Kind: UpDownCounter, Unit: "{call}",
		Description: "Calls that may wait for a slot of the bulkhead. Absent without a bound.",
		Attributes:  []string{bulkheadName},
	})
	c.add(func(b *bulkhead) float64 {
		if b.MaxQueue < 0 {
			return math.NaN()
		}
		return float64(b.MaxQueue)
	})

	c.instrument(Instrument{
		Name: "bulkhead.wait_time", Kind: Counter, Float: true, Unit: "s",
		Description: "Time that calls have waited for a slot of the bulkhead, all together.",
		Attributes:  []string{bulkheadName},
	})
	c.add(func(b *bulkhead) float64 { return b.Totals.Waited.Seconds() })

	return c.all
}

// group is what the columns of Groups read.
type group = seawall.GroupSnapshot

func groupColumns() []column[group] {
	var c columns[group]

	c.instrument(Instrument{
		Name: "guard_registry.size", Kind: UpDownCounter, Unit: "{key}",
		Description: "Keys of the Group that have a policy.",
		Attributes:  []string{groupName},
	})
	c.add(func(g *group) float64 { return float64(g.Size) })

	c.instrument(Instrument{
		Name: "guard_registry.evictions", Kind: Counter, Unit: "{key}",
		Description: "Keys of the Group that lost their policy to another key.",
		Attributes:  []string{groupName},
	})
	c.add(func(g *group) float64 { return float64(g.Evictions) })

	c.instrument(Instrument{
		Name: "guard_registry.overflow", Kind: Counter, Unit: "{call}",
		Description: "Calls for keys that found no place in the Group.",
		Attributes:  []string{groupName},
	})
	c.add(func(g *group) float64 { return float64(g.Overflow) })

	return c.all
}

// columns is a table in the making.
type columns[S any] struct {
	all     []column[S]
	current *Instrument
}

// instrument begins the columns of i.
func (c *columns[S]) instrument(i Instrument) { c.current = &i }

// add adds a column with these values of the attributes after the guard's name.
func (c *columns[S]) add(value func(*S) float64, attributes ...string) {
	c.all = append(c.all, column[S]{instrument: c.current, attributes: attributes, value: value})
}

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
