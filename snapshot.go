package seawall

import (
	"log/slog"
	"slices"
	"time"
)

// Settings are the options of a [Breaker] as they are in force. Zero values stand for what is off.
type Settings struct {
	FailureRate         float64       `json:"failure_rate"` // 0: that rule is off
	MinCalls            int           `json:"min_calls"`
	ConsecutiveFailures int           `json:"consecutive_failures"` // 0: that rule is off
	SlowCallThreshold   time.Duration `json:"slow_call_threshold_ns"`
	Window              time.Duration `json:"window_ns"`
	Buckets             int           `json:"buckets"`
	CountWindow         int           `json:"count_window"` // 0: Window and Buckets hold
	Cooldown            time.Duration `json:"cooldown_ns"`
	Backoff             time.Duration `json:"backoff_ns"` // the longest cooldown; 0: it does not grow
	Jitter              float64       `json:"jitter"`
	MaxRetryAfter       time.Duration `json:"max_retry_after_ns"`
	Probes              int           `json:"probes"`
	ProbeSuccesses      int           `json:"probe_successes"`
	ProbeTimeout        time.Duration `json:"probe_timeout_ns"` // 0: the cooldown in force
	Mode                Mode          `json:"mode"`             // the one that NewBreaker was given; see Breaker.Mode
}

// A StateChange is what a function given to [WithOnStateChange] receives.
type StateChange struct {
	Name       string
	From, To   State // From is the To of the change before; they are equal when ForceOpen or Reset renews a state
	Reason     Reason
	At         time.Time
	Generation uint64 // of the new state; the first change makes generation 1

	// Err is what the deciding call returned, if a failure changed the state, or ErrSlowCall. It is a caller's error
	// and may hold what is meant for that caller only.
	Err error

	// The counts that decided: while closed those of the window, while half-open those of the probes. SlowCalls are
	// Failures too.
	Calls, Failures, SlowCalls uint64
}

// LogValue returns the change as a group of attributes.
func (c StateChange) LogValue() slog.Value {
	attrs := []slog.Attr{
		slog.String("guard", c.Name),
		slog.String("from", c.From.String()),
		slog.String("to", c.To.String()),
		slog.String("reason", c.Reason.String()),
		slog.Time("at", c.At),
		slog.Uint64("generation", c.Generation),
		slog.Uint64("calls", c.Calls),
		slog.Uint64("failures", c.Failures),
		slog.Uint64("slow_calls", c.SlowCalls),
	}
	if c.Err != nil {
		attrs = append(attrs, slog.Any("err", c.Err))
	}
	return slog.GroupValue(attrs...)
}

// A Change is an entry of [Breaker.History]: a [StateChange] without what belongs to a caller.
type Change struct {
	From       State     `json:"from"`
	To         State     `json:"to"`
	Reason     Reason    `json:"reason"`
	At         time.Time `json:"at"`
	Generation uint64    `json:"generation"`
	Calls      uint64    `json:"calls"`
	Failures   uint64    `json:"failures"`
}

// A Snapshot is one consistent copy of what a [Breaker] knows.
type Snapshot struct {
	Name string `json:"name"`

	// State is what the next caller would meet: once the cooldown is over that is HalfOpen, although the change is
	// made, counted and reported only when a call arrives. Generation, Since and Reason are of the last change.
	State      State     `json:"state"`
	Mode       Mode      `json:"mode"`
	Forced     bool      `json:"forced"` // open by ForceOpen
	Generation uint64    `json:"generation"`
	Since      time.Time `json:"since"`
	Reason     Reason    `json:"reason"`

	// The window of a closed breaker as it is now; 0 in the other states. Where failures in a row are the only rule and
	// no call can be slow a success has no time, for nothing depends on it: it counts as of the next failure, look or
	// change by hand.
	Calls               uint64  `json:"calls"`
	Failures            uint64  `json:"failures"`
	SlowCalls           uint64  `json:"slow_calls"`           // these are Failures too
	FailureRate         float64 `json:"failure_rate"`         // Failures/Calls, 0 without calls
	ConsecutiveFailures uint64  `json:"consecutive_failures"` // with no success between them, in the window or not

	ProbesInFlight int           `json:"probes_in_flight"` // those that hold a place
	ProbeSuccesses int           `json:"probe_successes"`
	RetryAfter     time.Duration `json:"retry_after_ns"` // as in OpenError; 0 if a call would be admitted now

	Totals Totals `json:"totals"`
}

// Totals are counts over a [Breaker]'s whole life; they never fall, except what depends on the time if a [Clock] steps
// back: TimeClosed and its like, and calls that are slow by a later reading only. Of the calls that ran and have ended,
// each is one of Successes, Failures, Ignored, Late and WouldReject.
type Totals struct {
	Successes   uint64 `json:"successes"`
	Failures    uint64 `json:"failures"`
	SlowCalls   uint64 `json:"slow_calls"` // these are Failures too, from when they became slow
	Ignored     uint64 `json:"ignored"`
	Rejected    uint64 `json:"rejected"`     // not run, since open or half-open
	WouldReject uint64 `json:"would_reject"` // run in Observe mode, and would not have been in Enforce
	Late        uint64 `json:"late"`         // ended after the state they began in, so without effect
	Cancelled   uint64 `json:"cancelled"`    // not run, since their context was done before

	Opens        uint64            `json:"opens"`     // changes to Open
	ByReason     map[Reason]uint64 `json:"by_reason"` // changes; reasons that never occurred are left out
	TimeClosed   time.Duration     `json:"time_closed_ns"`
	TimeOpen     time.Duration     `json:"time_open_ns"` // up to the first call after the cooldown
	TimeHalfOpen time.Duration     `json:"time_half_open_ns"`
}

// A BulkheadSnapshot is a copy of what a [Bulkhead] knows.
type BulkheadSnapshot struct {
	Name     string `json:"name"`
	Limit    int    `json:"limit"`
	InFlight int    `json:"in_flight"` // more than Limit for a while after SetLimit lowered it
	Waiting  int    `json:"waiting"`
	MaxQueue int    `json:"max_queue"` // -1: no bound; 0: nobody waits

	Totals BulkheadTotals `json:"totals"`
}

// BulkheadTotals are counts over a [Bulkhead]'s whole life; they never fall. Each call that has been decided on is
// one of Admitted, RejectedFull, RejectedTimeout and Cancelled.
type BulkheadTotals struct {
	Admitted        uint64        `json:"admitted"`
	RejectedFull    uint64        `json:"rejected_full"`    // no slot and no place in the queue
	RejectedTimeout uint64        `json:"rejected_timeout"` // waited as long as WithMaxWait allows
	Cancelled       uint64        `json:"cancelled"`        // their context was done, before they asked or in the queue
	Waited          time.Duration `json:"waited_ns"`        // in the queue, of all calls together
}

// Settings returns the options in force.
func (b *Breaker) Settings() Settings {
	b.mustBeMade()
	return b.config.Settings
}

func (b *Breaker) sinceLocked() time.Time {
	if len(b.history) == 0 {
		return b.base
	}
	return b.history[len(b.history)-1].At
}

// History returns the last 16 state changes, oldest first.
func (b *Breaker) History() []Change {
	b.mustBeMade()
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.history)
}

// Snapshot returns a copy of what the breaker knows, as of now, and changes nothing.
func (b *Breaker) Snapshot() Snapshot {
	b.mustBeMade()
	b.mu.Lock()
	defer b.mu.Unlock()
	g, now := b.current.Load(), b.peekLocked()
	successes := g.successes.Load()
	s := Snapshot{
		Name:       b.name,
		State:      b.stateLocked(now),
		Mode:       b.Mode(),
		Forced:     g.forced(),
		Generation: g.number,
		Since:      b.sinceLocked(),
		Reason:     g.reason,
		RetryAfter: b.retryAfterLocked(now),
	}
	t := b.totals
	switch g.state {
	case Closed:
		counts, slow := b.counts.at(now, successes)
		t.slow(slow)
		window := counts.window.counts()
		s.Calls, s.Failures, s.SlowCalls, s.FailureRate = window.calls, window.failures, window.slow, window.rate()
		s.ConsecutiveFailures = counts.row
	case HalfOpen:
		s.ProbesInFlight, s.ProbeSuccesses = b.probes.held(now), int(successes)
	case Open: // Nothing runs that counts.
	}
	t.successes += successes
	t.spent[g.state] += now - g.since
	s.Totals = t.export()
	s.Totals.Rejected, s.Totals.WouldReject = b.rejected.Load(), b.wouldReject.Load()
	return s
}

// totals are what a Breaker keeps for its Totals.
type totals struct {
	successes, failures, slowCalls, ignored, late, cancelled uint64

	byReason [lastReason + 1]uint64
	spent    [HalfOpen + 1]time.Duration // in each state
}

func (t *totals) fail(v verdict) {
	t.failures++
	if v.slow {
		t.slowCalls++
	}
}

// opens is the number of changes to Open.
func (t *totals) opens() uint64 {
	r := &t.byReason
	return r[ReasonFailureRate] + r[ReasonConsecutiveFailures] + r[ReasonProbeFailed] + r[ReasonForced]
}

// slow counts calls that became slow while they ran.
func (t *totals) slow(calls uint64) {
	t.failures += calls
	t.slowCalls += calls
}

func (t *totals) export() Totals {
	byReason := make(map[Reason]uint64)
	for r, n := range t.byReason {
		if n > 0 {
			byReason[Reason(r)] = n
		}
	}
	return Totals{
		Successes: t.successes, Failures: t.failures, SlowCalls: t.slowCalls, Ignored: t.ignored,
		Late: t.late, Cancelled: t.cancelled,
		Opens: t.opens(), ByReason: byReason,
		TimeClosed: t.spent[Closed], TimeOpen: t.spent[Open], TimeHalfOpen: t.spent[HalfOpen],
	}
}
