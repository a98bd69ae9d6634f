package seawall

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// position is where a breaker may be: the states, and open by force apart.
type position struct {
	state  State
	forced bool
}

// positions has each under the names that the tables call it by.
func positions() map[string][]position {
	closed, open, forced, halfOpen := position{Closed, false}, position{Open, false}, position{Open, true}, position{HalfOpen, false}
	return map[string][]position{
		"closed":         {closed},
		"open":           {open},
		"half-open":      {halfOpen},
		"any but forced": {closed, open, halfOpen},
		"any":            {closed, open, forced, halfOpen},
	}
}

// The transition table stands in two places for people to read, and each says what the code does: no row too many, none
// too few.
func TestDocsShowTransitionTable(t *testing.T) {
	t.Parallel()
	for file, row := range map[string]string{
		"ARCHITECTURE.md": "(?m)^\\| ([a-z -]+) \\| `([a-z_]+)` \\| ([a-z-]+) \\|",
		"state.go":        `(?m)^//\t(\S+(?: \S+)*)\s{2,}([a-z]+_[a-z]+|forced|reset)\s{2,}([a-z-]+)`,
	} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			type edge struct {
				from position
				why  string
			}
			table := map[edge]string{}
			for _, cells := range regexp.MustCompile(row).FindAllStringSubmatch(docText(t, file), -1) {
				from, why, to := cells[1], cells[2], cells[3]
				require.Contains(t, positions(), from)
				for _, p := range positions()[from] {
					require.NotContains(t, table, edge{p, why}, "said twice")
					table[edge{p, why}] = to
				}
			}

			for _, from := range positions()["any"] {
				for why := range lastReason + 2 { // from none to one that there is not
					to, legal := next(from.state, from.forced, why)
					want, listed := table[edge{from, why.String()}]
					assert.Equal(t, listed, legal, "%v in %v", why, from)
					if legal {
						assert.Equal(t, want, to.String(), "%v in %v", why, from)
					}
					delete(table, edge{from, why.String()})
				}
			}
			assert.Empty(t, table, "rows about a reason that there is not")
		})
	}
}

// The README's diagram has an arrow for every edge that a breaker makes by itself, and for no other.
func TestDocsShowStateDiagram(t *testing.T) {
	t.Parallel()
	type arrow struct{ from, to, why string }
	var drawn, want []arrow
	arrows := regexp.MustCompile(`(?m)^ +(\w+) --> (\w+): (\w+)$`).FindAllStringSubmatch(docText(t, "README.md"), -1)
	for _, a := range arrows {
		drawn = append(drawn, arrow{strings.ReplaceAll(a[1], "_", "-"), strings.ReplaceAll(a[2], "_", "-"), a[3]})
	}
	for _, from := range states() {
		for _, why := range reasons() {
			byHand := why == ReasonForced || why == ReasonReset || why == ReasonModeChanged
			if to, legal := next(from, false, why); legal && !byHand {
				want = append(want, arrow{from.String(), to.String(), why.String()})
			}
		}
	}
	assert.ElementsMatch(t, want, drawn)
}

// What ARCHITECTURE.md says about memory.
func TestDocsTellTheSizes(t *testing.T) {
	t.Parallel()
	breaker := unsafe.Sizeof(Breaker{}) + unsafe.Sizeof(timeWindow{}) + 10*unsafe.Sizeof(tally{})
	assert.Less(t, int(breaker), 1024)
	if strconv.IntSize == 64 {
		assert.EqualValues(t, 128, unsafe.Sizeof(generation{}))
		assert.EqualValues(t, 64, unsafe.Offsetof(Breaker{}.first), "it begins a line of cache")
	}
	assert.Less(t, int(unsafe.Sizeof(Bulkhead{})), 512)
	assert.Equal(t, 24, int(unsafe.Sizeof(tally{})))
	assert.Equal(t, 1, int(unsafe.Sizeof(entry(0))))
	assert.LessOrEqual(t, int(unsafe.Sizeof(Change{})), 72)
	assert.Equal(t, 16, historyLength)
}

func docText(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	return string(text)
}
