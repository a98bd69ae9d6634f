package seawall

import (
	"fmt"
	"slices"
)

// A State is what a [Breaker] does with calls.
type State int

// The states, with the fixed values 0, 1 and 2.
const (
	Closed   State = iota // Calls run and their results are counted.
	Open                  // Calls are rejected until the cooldown is over.
	HalfOpen              // A few calls, the probes, run to find out whether to close.
)

// An Outcome is what a result means for a [Breaker].
type Outcome int

// The outcomes, with the fixed values 0, 1 and 2.
const (
	Success Outcome = iota // The dependency works.
	Failure                // It does not.
	Ignored                // The result says nothing about it, like that of a caller who hung up.
)

// A Mode is how much a [Breaker] has to say.
type Mode int

// The modes, with the fixed values 0, 1 and 2.
const (
	Enforce Mode = iota // Calls are rejected when they should be.
	Observe             // Every call runs; what would have been rejected is only counted.
	Off                 // Every call runs, and nothing is counted.
)

// A Reason is why a [Breaker] changed its state. The zero Reason, "none", is that of a breaker that never did.
type Reason int

// The reasons, with the fixed values 1 and up.
const (
	ReasonFailureRate         Reason = iota + 1 // Too large a share of the calls in the window failed.
	ReasonConsecutiveFailures                   // Too many calls failed with no success between them.
	ReasonCooldownOver                          // A call arrived after the cooldown and became the first probe.
	ReasonProbesSucceeded                       // The needed number of probes succeeded.
	ReasonProbeFailed                           // A probe failed.
	ReasonForced                                // ForceOpen was called.
	ReasonReset                                 // Reset was called.
	ReasonModeChanged                           // SetMode switched the breaker off or on.
)

// next is the transition table: where a breaker goes from the given state for the given reason, and whether it may.
//
//	state            reason                            next
//	closed           failure_rate                      open
//	closed           consecutive_failures              open
//	open             cooldown_over                     half-open
//	half-open        probe_failed                      open
//	half-open        probes_succeeded                  closed
//	any but forced   forced                            open (forced: until reset, no probes)
//	any              reset                             closed
//	any              mode_changed                      closed
//
// A breaker that was forced open is in state open, with forced true. Whatever is not in the table does not happen.
func next(from State, forced bool, why Reason) (to State, ok bool) {
	switch why {
	case ReasonFailureRate, ReasonConsecutiveFailures:
		return Open, from == Closed
	case ReasonCooldownOver:
		return HalfOpen, from == Open && !forced
	case ReasonProbeFailed:
		return Open, from == HalfOpen
	case ReasonProbesSucceeded:
		return Closed, from == HalfOpen
	case ReasonForced:
		return Open, !forced
	case ReasonReset, ReasonModeChanged:
		return Closed, true
	default:
		return from, false
	}
}

// String returns "closed", "open" or "half-open".
func (s State) String() string {
	switch s {
	case Closed:
		return "closed"
	case Open:
		return "open"
	case HalfOpen:
		return "half-open"
	default:
		return fmt.Sprintf("State(%d)", int(s))
	}
}

// String returns "success", "failure" or "ignored".
func (o Outcome) String() string {
	switch o {
	case Success:
		return "success"
	case Failure:
		return "failure"
	case Ignored:
		return "ignored"
	default:
		return fmt.Sprintf("Outcome(%d)", int(o))
	}
}

// String returns "enforce", "observe" or "off".
func (m Mode) String() string {
	switch m {
	case Enforce:
		return "enforce"
	case Observe:
		return "observe"
	case Off:
		return "off"
	default:
		return fmt.Sprintf("Mode(%d)", int(m))
	}
}

// String returns the reason in snake_case, such as "failure_rate".
func (r Reason) String() string {
	switch r {
	case 0:
		return "none"
	case ReasonFailureRate:
		return "failure_rate"
	case ReasonConsecutiveFailures:
		return "consecutive_failures"
	case ReasonCooldownOver:
		return "cooldown_over"
	case ReasonProbesSucceeded:
		return "probes_succeeded"
	case ReasonProbeFailed:
		return "probe_failed"
	case ReasonForced:
		return "forced"
	case ReasonReset:
		return "reset"
	case ReasonModeChanged:
		return "mode_changed"
	default:
		return fmt.Sprintf("Reason(%d)", int(r))
	}
}

// MarshalText returns the text of String, or an error if s is none of the constants.
func (s State) MarshalText() ([]byte, error) { return marshalText(s, states()) }

// UnmarshalText sets s from the text of String.
func (s *State) UnmarshalText(text []byte) error { return unmarshalText(s, text, states()) }

// MarshalText returns the text of String, or an error if o is none of the constants.
func (o Outcome) MarshalText() ([]byte, error) { return marshalText(o, outcomes()) }

// UnmarshalText sets o from the text of String.
func (o *Outcome) UnmarshalText(text []byte) error { return unmarshalText(o, text, outcomes()) }

// MarshalText returns the text of String, or an error if m is none of the constants.
func (m Mode) MarshalText() ([]byte, error) { return marshalText(m, modes()) }

// UnmarshalText sets m from the text of String.
func (m *Mode) UnmarshalText(text []byte) error { return unmarshalText(m, text, modes()) }

// MarshalText returns the text of String, or an error if r is none of the constants.
func (r Reason) MarshalText() ([]byte, error) { return marshalText(r, reasons()) }

// UnmarshalText sets r from the text of String.
func (r *Reason) UnmarshalText(text []byte) error { return unmarshalText(r, text, reasons()) }

func states() []State     { return []State{Closed, Open, HalfOpen} }
func outcomes() []Outcome { return []Outcome{Success, Failure, Ignored} }
func modes() []Mode       { return []Mode{Enforce, Observe, Off} }

const lastReason = ReasonModeChanged

func reasons() []Reason {
	all := make([]Reason, lastReason+1)
	for r := range all {
		all[r] = Reason(r)
	}
	return all
}

func marshalText[T interface {
	comparable
	fmt.Stringer
}](v T, legal []T) ([]byte, error) {
	if !slices.Contains(legal, v) {
		return nil, fmt.Errorf("seawall: %v must be one of %v", v, legal)
	}
	return []byte(v.String()), nil
}

func unmarshalText[T fmt.Stringer](v *T, text []byte, legal []T) error {
	i := slices.IndexFunc(legal, func(l T) bool { return l.String() == string(text) })
	if i < 0 {
		return fmt.Errorf("seawall: %T %q must be one of %v", *v, text, legal)
	}
	*v = legal[i]
	return nil
}
