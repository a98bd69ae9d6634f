package seawallpage

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/seawall-go/seawall"
)

// The bar is full when the rule about the rate has calls enough, and then the failures meet the mark when it opens.
func TestWindowIsDrawnToScale(t *testing.T) {
	rule := seawall.Settings{FailureRate: 0.5, MinCalls: 20}
	for _, test := range []struct {
		calls, failures uint64
		settings        seawall.Settings
		bad, rest, mark int
	}{
		{0, 0, rule, 0, 0, 50},
		{10, 5, rule, 25, 25, 50},
		{20, 9, rule, 45, 55, 50},
		{400, 100, rule, 25, 75, 50},
		{100_000, 1, rule, 1, 99, 50},
		{100_000, 100_000, rule, 100, 0, 50},
		{3, 1, seawall.Settings{ConsecutiveFailures: 5}, 34, 66, 0},
	} {
		b := newBar(seawall.Snapshot{Calls: test.calls, Failures: test.failures}, test.settings)
		assert.Equal(t, []int{test.bad, test.rest, test.mark}, []int{b.Bad, b.Rest, b.Mark}, "%d of %d", test.failures, test.calls)
		assert.Equal(t, "closed", b.Color)
	}
}

func TestPlacesAreDrawnInTheColorOfTheirLevel(t *testing.T) {
	for l, color := range map[level]string{problem: "open", warning: "half-open", fine: "closed"} {
		b := newShare(3, 12, "calls", l)
		assert.Equal(t, bar{Text: "3 / 12", Title: "3 of at most 12 calls are running", Rest: 25, Color: color}, *b)
	}
}

// Color is not all that tells the states of a history apart.
func TestHistoryIsDrawnByHeightToo(t *testing.T) {
	var history []seawall.Change
	for _, to := range []seawall.State{seawall.Open, seawall.HalfOpen, seawall.Closed} {
		history = append(history, seawall.Change{To: to})
	}
	s := newStrip(history, time.Time{})
	assert.Equal(t, 20, s.Width)
	for i, b := range s.Blocks {
		assert.Equal(t, []int{7 * i, 4 * i}, []int{b.X, b.Y})
	}
	assert.Nil(t, newStrip(nil, time.Time{}))
}
