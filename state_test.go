package seawall

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The whole cross product of states, forced or not, and reasons, against a table written by hand. I5: what is not in
// the table does not happen.
func TestTransitionTable(t *testing.T) {
	type edge struct {
		from   State
		forced bool
		why    Reason
	}
	table := map[edge]State{
		{Closed, false, ReasonFailureRate}:         Open,
		{Closed, false, ReasonConsecutiveFailures}: Open,
		{Closed, false, ReasonForced}:              Open,
		{Closed, false, ReasonReset}:               Closed,
		{Closed, false, ReasonModeChanged}:         Closed,

		{Open, false, ReasonCooldownOver}: HalfOpen,
		{Open, false, ReasonForced}:       Open,
		{Open, false, ReasonReset}:        Closed,
		{Open, false, ReasonModeChanged}:  Closed,

		{Open, true, ReasonReset}:       Closed,
		{Open, true, ReasonModeChanged}: Closed,

		{HalfOpen, false, ReasonProbeFailed}:     Open,
		{HalfOpen, false, ReasonProbesSucceeded}: Closed,
		{HalfOpen, false, ReasonForced}:          Open,
		{HalfOpen, false, ReasonReset}:           Closed,
		{HalfOpen, false, ReasonModeChanged}:     Closed,
	}
	seen := 0
	for _, from := range []State{Closed, Open, HalfOpen} {
		for _, forced := range []bool{false, true} {
			if forced && from != Open {
				continue // Forced is open.
			}
			for why := Reason(-1); why <= lastReason+1; why++ {
				t.Run(fmt.Sprintf("%v forced=%v %v", from, forced, why), func(t *testing.T) {
					to, ok := next(from, forced, why)
					want, listed := table[edge{from, forced, why}]
					require.Equal(t, listed, ok)
					if listed {
						seen++
						assert.Equal(t, want, to)
					}
				})
			}
		}
	}
	assert.Len(t, table, seen, "every row of the table was met")
}

// Every text of every type: it is what String and MarshalText say and UnmarshalText understands, in JSON too, also as
// the key of a map.
func TestTexts(t *testing.T) {
	texts := map[encoding.TextMarshaler]string{
		Closed: "closed", Open: "open", HalfOpen: "half-open",
		Success: "success", Failure: "failure", Ignored: "ignored",
		Enforce: "enforce", Observe: "observe", Off: "off",
		Reason(0): "none", ReasonFailureRate: "failure_rate", ReasonConsecutiveFailures: "consecutive_failures",
		ReasonCooldownOver: "cooldown_over", ReasonProbesSucceeded: "probes_succeeded", ReasonProbeFailed: "probe_failed",
		ReasonForced: "forced", ReasonReset: "reset", ReasonModeChanged: "mode_changed",
	}
	for v, text := range texts {
		t.Run(fmt.Sprintf("%T %s", v, text), func(t *testing.T) {
			assert.Equal(t, text, fmt.Sprint(v))
			got, err := v.MarshalText()
			require.NoError(t, err)
			assert.Equal(t, text, string(got))

			back := reflect.New(reflect.TypeOf(v))
			require.NoError(t, back.Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(text)))
			assert.Equal(t, v, back.Elem().Interface())

			inJSON, err := json.Marshal(v)
			require.NoError(t, err)
			assert.JSONEq(t, `"`+text+`"`, string(inJSON))
			require.NoError(t, json.Unmarshal(inJSON, back.Interface()))
			assert.Equal(t, v, back.Elem().Interface())
		})
	}
	assert.Len(t, texts, len(states())+len(outcomes())+len(modes())+len(reasons()))
}

// Values that are none of the constants have a String that shows the number, and no text.
func TestTextsOfUnknownValues(t *testing.T) {
	for v, text := range map[encoding.TextMarshaler]string{
		State(-1): "State(-1)", State(3): "State(3)",
		Outcome(-1): "Outcome(-1)", Outcome(3): "Outcome(3)",
		Mode(-1): "Mode(-1)", Mode(3): "Mode(3)",
		Reason(-1): "Reason(-1)", lastReason + 1: fmt.Sprintf("Reason(%d)", int(lastReason)+1),
	} {
		assert.Equal(t, text, fmt.Sprint(v))
		_, err := v.MarshalText()
		assert.ErrorContains(t, err, "seawall: "+text+" must be one of [")
	}
}

// What is no text of a type is an error that says what would be, and leaves the value alone.
func TestUnknownTexts(t *testing.T) {
	for _, text := range []string{"", "CLOSED", "half_open", "closed ", "0", "State(0)", "enforced"} {
		state, outcome, mode, reason := HalfOpen, Ignored, Off, ReasonReset
		require.EqualError(t, state.UnmarshalText([]byte(text)),
			fmt.Sprintf("seawall: seawall.State %q must be one of [closed open half-open]", text))
		require.EqualError(t, outcome.UnmarshalText([]byte(text)),
			fmt.Sprintf("seawall: seawall.Outcome %q must be one of [success failure ignored]", text))
		require.EqualError(t, mode.UnmarshalText([]byte(text)),
			fmt.Sprintf("seawall: seawall.Mode %q must be one of [enforce observe off]", text))
		require.ErrorContains(t, reason.UnmarshalText([]byte(text)), fmt.Sprintf("seawall: seawall.Reason %q must be one of [none failure_rate ", text))
		assert.Equal(t, []any{HalfOpen, Ignored, Off, ReasonReset}, []any{state, outcome, mode, reason})
	}
}
