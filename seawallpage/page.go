package seawallpage

import (
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/seawall-go/seawall"
)

// maxRows is how many guards the page shows, the worst first; a Group may have a million.
const maxRows = 100

// page is what page.html shows.
type page struct {
	Title   string
	Host    string
	Nonce   string
	At      time.Time
	Worst   level
	Summary string
	ByName  bool
	Name    string
	Missing string // why there is nothing to see
	Rows    []row
	More    int // guards that are not among Rows
	Groups  []groupRow
	Details []detail
}

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

// groupRow is a Group in its own table.
type groupRow struct {
	Name                               string
	Keys, MaxKeys, Evictions, Overflow string
}

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

func newPage(host, nonce string, wanted filter, control bool, l look) page {
	p := page{
		Host: host, Nonce: nonce, At: l.At,
		Worst: fine, Summary: summary(l.Guards),
		ByName: wanted.byName, Name: wanted.name,
	}
	p.Title = p.Summary + " · " + host
	if len(l.Guards) > 0 {
		p.Worst = min(fine, l.Guards[0].Level)
	}
	switch {
	case statusOf(wanted, l) != http.StatusOK:
		p.Missing = unknownName(wanted.name) + ". One of a Group may have been evicted."
	case len(l.Guards) == 0:
		p.Missing = "There are no guards yet."
	}
	shown := l.Guards[:min(maxRows, len(l.Guards))]
	p.More = len(l.Guards) - len(shown)
	for _, g := range shown {
		p.Rows = append(p.Rows, newRow(g, l.At))
		if wanted.byName && g.Name == wanted.name {
			p.Details = append(p.Details, newDetail(g, l.At, control))
		}
	}
	for _, g := range l.Groups {
		p.Groups = append(p.Groups, groupRow{
			g.Name, count(uint64(g.Size)), count(uint64(g.MaxKeys)), count(g.Evictions), count(g.Overflow),
		})
	}
	p.markConflicts()
	return p
}

// summary counts the states that ask for attention, and the others together.
func summary(guards []guardLook) string {
	var states []string
	counts := map[string]int{}
	for _, g := range guards {
		state := "fine"
		if g.Level < fine {
			state = g.state()
		}
		if counts[state]++; counts[state] == 1 {
			states = append(states, state)
		}
	}
	for i, state := range states {
		states[i] = count(uint64(counts[state])) + " " + state
	}
	if len(states) == 0 {
		return "no guards"
	}
	return strings.Join(states, ", ")
}

// markConflicts takes the actions from breakers that share one name.
func (p *page) markConflicts() {
	var breakers []*detail
	for i := range p.Details {
		if p.Details[i].Actions != nil {
			breakers = append(breakers, &p.Details[i])
		}
	}
	if len(breakers) > 1 {
		for _, d := range breakers {
			d.Actions, d.Conflict = nil, true
		}
	}
}

// state returns the state in one word or two.
func (g guardLook) state() string {
	switch s := g.Snapshot.(type) {
	case seawall.Snapshot:
		if s.Forced {
			return "forced open"
		}
		return s.State.String()
	default:
		return [...]string{problem: "full", warning: "busy", fine: "free"}[g.Level]
	}
}

func newRow(g guardLook, now time.Time) row {
	r := row{Name: g.Name, Group: g.Group, Label: g.Name, Kind: g.Kind, Level: g.Level, State: g.state()}
	if g.Group+"/"+g.Key == g.Name {
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

func newDetail(g guardLook, now time.Time, control bool) detail {
	d := detail{Heading: g.Kind}
	switch s := g.Snapshot.(type) {
	case seawall.Snapshot:
		d.Changes = newChanges(g.History, now)
		d.Settings = settingPairs(*g.Settings)
		d.Totals = breakerPairs(s.Totals)
		if control {
			d.Actions = slices.DeleteFunc(actions(), func(a action) bool { return a.idle(s) })
		}
	case seawall.BulkheadSnapshot:
		d.Totals = bulkheadPairs(s.Totals)
	}
	return d
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
