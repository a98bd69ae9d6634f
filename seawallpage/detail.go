package seawallpage

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seawall-go/seawall"
)

// detail is what is shown of a single guard besides its row.
type detail struct {
	Heading  string
	Changes  []change // newest first
	Settings []pair
	Totals   []pair
	Actions  []action
	Conflict bool // its name is not its own, so no action can be meant for it
}

type pair struct{ Name, Value string }

// change is a line of the history.
type change struct {
	At                          moment
	Clock                       string // the time of day, to look for in the logs
	State, Reason, Calls, Lasts string // Lasts is empty for the latest
}

// newDetail describes g, one of the guards in l.
func newDetail(g guardLook, l look, control bool) detail {
	d := detail{Heading: g.Kind}
	switch s := g.Snapshot.(type) {
	case seawall.Snapshot:
		d.Changes = newChanges(g.History, l.At)
		d.Settings = settingPairs(*g.Settings)
		d.Totals = breakerPairs(s.Totals)
		d.Conflict = control && l.namesakes(g) > 1
		if control && !d.Conflict {
			d.Actions = slices.DeleteFunc(actions(), func(a action) bool { return a.idle(s) })
		}
	case seawall.BulkheadSnapshot:
		d.Totals = bulkheadPairs(s.Totals)
	}
	return d
}

// namesakes counts the guards of g's kind and name, g included.
func (l look) namesakes(g guardLook) (n int) {
	for _, other := range l.Guards {
		if other.Kind == g.Kind && other.Name == g.Name {
			n++
		}
	}
	return n
}

func newChanges(history []seawall.Change, now time.Time) []change {
	var changes []change
	for i, c := range slices.Backward(history) {
		line := change{
			At: *newMoment(c.At, now), Clock: timeOfDay(c.At, now),
			State: c.To.String(), Reason: words(c.Reason),
		}
		if i < len(history)-1 {
			line.Lasts = span(history[i+1].At.Sub(c.At))
		}
		if c.Calls > 0 {
			line.Calls = fmt.Sprintf("%s of %s calls failed", count(c.Failures), count(c.Calls))
		}
		changes = append(changes, line)
	}
	return changes
}

func settingPairs(s seawall.Settings) []pair {
	var rules []string
	if s.FailureRate > 0 {
		window := fmt.Sprintf("the last %s", count(uint64(s.CountWindow)))
		if s.CountWindow == 0 {
			window = "the last " + span(s.Window)
		}
		rules = append(rules, fmt.Sprintf("%s of at least %s calls of %s failed",
			percent(s.FailureRate), count(uint64(s.MinCalls)), window))
	}
	if s.ConsecutiveFailures > 0 {
		rules = append(rules, fmt.Sprintf("%s in a row failed", count(uint64(s.ConsecutiveFailures))))
	}
	pairs := []pair{{"opens when", strings.Join(rules, ", or ")}}
	if s.SlowCallThreshold > 0 {
		pairs = append(pairs, pair{"a call fails", "after " + span(s.SlowCallThreshold) + ", returned or not"})
	}
	open := span(s.Cooldown)
	if s.Backoff > 0 {
		open += ", doubled each time up to " + span(s.Backoff)
	}
	if s.Jitter > 0 {
		open += ", and up to " + percent(s.Jitter) + " longer"
	}
	probes := fmt.Sprintf("%s at a time", count(uint64(s.Probes)))
	if s.ProbeTimeout > 0 {
		probes += ", each for " + span(s.ProbeTimeout)
	}
	return append(pairs,
		pair{"stays open for", open},
		pair{"probes", probes},
		pair{"closes after", count(uint64(s.ProbeSuccesses)) + " of them succeeded"},
	)
}

func breakerPairs(t seawall.Totals) []pair {
	all := t.TimeClosed + t.TimeHalfOpen + t.TimeOpen
	share := func(d time.Duration) string { return percent(d.Seconds() / max(all.Seconds(), 1e-9)) }
	return []pair{
		{"succeeded", count(t.Successes)},
		{"failed", count(t.Failures)},
		{"of them slow", count(t.SlowCalls)},
		{"ignored", count(t.Ignored)},
		{"too late", count(t.Late)},
		{"rejected", count(t.Rejected)},
		{"would be rejected", count(t.WouldReject)},
		{"cancelled before", count(t.Cancelled)},
		{"time closed", share(t.TimeClosed)},
		{"time half-open", share(t.TimeHalfOpen)},
		{"time open", share(t.TimeOpen)},
	}
}

func bulkheadPairs(t seawall.BulkheadTotals) []pair {
	return []pair{
		{"admitted", count(t.Admitted)},
		{"rejected, full", count(t.RejectedFull)},
		{"rejected, waited in vain", count(t.RejectedTimeout)},
		{"cancelled", count(t.Cancelled)},
		{"waited, all together", span(t.Waited)},
	}
}
