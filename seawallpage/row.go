package seawallpage

import (
	"fmt"
	"math"
	"time"

	"github.com/seawall-go/seawall"
)

// row is a line of the table. What does not apply to a guard is empty.
type row struct {
	Name, Group, Label, OwnName string // Name is Group and Label together; OwnName only if it says more
	Kind                        string
	Level                       level
	State, Mode                 string
	Since                       *moment
	NextProbe                   string
	Rates                       []string
	Window                      *bar
	Rejected, WouldReject       string
	Running                     *bar
	Waiting                     string
	Trips                       string
	History                     *strip
}

// moment is an instant, and how long ago that is.
type moment struct {
	At  time.Time
	Ago string
}

// bar is a number, drawn as a share of something. The lengths are hundredths of the whole.
type bar struct {
	Text, Title string
	Bad, Rest   int
	Color       string // of Rest: that of a state
	Mark        int    // where the bad ones open the breaker; 0: there is none
}

// strip is a history in short.
type strip struct {
	Blocks []block
	Width  int
	Latest string // the reason of the latest change
}

// block is one change. The worse its state, the higher it stands.
type block struct {
	State string
	X, Y  int
	Title string
}

func newRow(g guardLook, now time.Time) row {
	r := row{Name: g.Name, Group: g.Group, Label: g.Name, Kind: g.Kind, Level: g.Level, State: g.state()}
	if g.inGroup {
		r.Label = g.Key
	}
	switch s := g.Snapshot.(type) {
	case seawall.Snapshot:
		r.ownName(s.Name)
		r.breaker(s, *g.Settings, g.History, now)
	case seawall.BulkheadSnapshot:
		r.ownName(s.Name)
		r.bulkhead(s)
	}
	return r
}

// ownName notes the name that a guard in a Group has itself, unless it is that of its key.
func (r *row) ownName(name string) {
	if name != r.Label && name != r.Name {
		r.OwnName = name
	}
}

func (r *row) breaker(s seawall.Snapshot, settings seawall.Settings, history []seawall.Change, now time.Time) {
	if s.Mode != seawall.Enforce {
		r.Mode = s.Mode.String()
	}
	r.Since = newMoment(s.Since, now)
	r.Rejected = count(s.Totals.Rejected)
	if s.Totals.WouldReject > 0 {
		r.WouldReject = count(s.Totals.WouldReject)
	}
	r.Trips = count(s.Totals.Opens)
	r.History = newStrip(history, now)
	if s.Mode == seawall.Off {
		return
	}
	switch s.State {
	case seawall.Closed:
		r.Rates = rates(s, settings)
		r.Window = newBar(s, settings)
	case seawall.Open:
		r.NextProbe = span(s.RetryAfter)
		if s.Forced {
			r.NextProbe = "after reset"
		}
	case seawall.HalfOpen:
		r.NextProbe = "next call"
		if s.RetryAfter > 0 { // It comes earlier if one that is running ends.
			r.NextProbe = "≤ " + span(s.RetryAfter)
		}
		r.Running = newShare(s.ProbesInFlight, settings.Probes, "probes", r.Level)
		r.Rates = []string{fmt.Sprintf("%d / %d", s.ProbeSuccesses, settings.ProbeSuccesses), "probes succeeded"}
	}
}

func (r *row) bulkhead(s seawall.BulkheadSnapshot) {
	r.Running = newShare(s.InFlight, s.Limit, "calls", r.Level)
	limit := "∞"
	if s.MaxQueue >= 0 {
		limit = count(uint64(s.MaxQueue))
	}
	r.Waiting = count(uint64(s.Waiting)) + " / " + limit
	r.Rejected = count(s.Totals.RejectedFull + s.Totals.RejectedTimeout)
}

// rates sets what a closed breaker has counted against what would open it, for each rule that is in force.
func rates(s seawall.Snapshot, settings seawall.Settings) []string {
	var lines []string
	if settings.FailureRate > 0 {
		lines = append(lines, percent(s.FailureRate)+" / "+percent(settings.FailureRate))
	}
	if settings.ConsecutiveFailures > 0 {
		lines = append(lines, fmt.Sprintf("%s / %s in a row", count(s.ConsecutiveFailures), count(uint64(settings.ConsecutiveFailures))))
	}
	return lines
}

// newBar draws the window. As long as there are fewer calls than the rule about the rate wants, the rest is left empty.
// So the breaker opens when the failures reach the mark in a bar that is full.
func newBar(s seawall.Snapshot, settings seawall.Settings) *bar {
	whole := float64(max(s.Calls, uint64(settings.MinCalls), 1))
	b := &bar{
		Text:  count(s.Calls),
		Title: fmt.Sprintf("%s calls in the window, %s failed", count(s.Calls), count(s.Failures)),
		Bad:   int(math.Ceil(100 * float64(s.Failures) / whole)), // One must be seen.
		Color: seawall.Closed.String(),
		Mark:  int(100 * settings.FailureRate),
	}
	b.Rest = int(100*float64(s.Calls)/whole) - b.Bad
	if s.SlowCalls > 0 {
		b.Title += fmt.Sprintf(", %s of them slow", count(s.SlowCalls))
	}
	if b.Mark > 0 {
		b.Title += fmt.Sprintf("; opens at %s of at least %s", percent(settings.FailureRate), count(uint64(settings.MinCalls)))
	}
	return b
}

// newShare draws how many of the places are taken.
func newShare(taken, places int, what string, l level) *bar {
	return &bar{
		Text:  count(uint64(taken)) + " / " + count(uint64(places)),
		Title: fmt.Sprintf("%s of at most %s %s are running", count(uint64(taken)), count(uint64(places)), what),
		Rest:  min(100, 100*taken/places),
		Color: [...]seawall.State{problem: seawall.Open, warning: seawall.HalfOpen, fine: seawall.Closed}[l].String(),
	}
}

const blockStep = 7

func newStrip(history []seawall.Change, now time.Time) *strip {
	if len(history) == 0 {
		return nil
	}
	s := &strip{Width: blockStep*len(history) - 1}
	for i, c := range history {
		s.Blocks = append(s.Blocks, block{
			State: c.To.String(),
			X:     blockStep * i,
			Y:     [...]int{seawall.Closed: 8, seawall.HalfOpen: 4, seawall.Open: 0}[c.To],
			Title: fmt.Sprintf("%s %s ago: %s", c.To, age(c.At, now), words(c.Reason)),
		})
	}
	s.Latest = words(history[len(history)-1].Reason)
	return s
}
