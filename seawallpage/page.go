package seawallpage

import (
	"net/http"
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

// groupRow is a Group in its own table.
type groupRow struct {
	Name                               string
	Keys, MaxKeys, Evictions, Overflow string
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
			p.Details = append(p.Details, newDetail(g, l, control))
		}
	}
	for _, g := range l.Groups {
		p.Groups = append(p.Groups, groupRow{
			g.Name, count(uint64(g.Size)), count(uint64(g.MaxKeys)), count(g.Evictions), count(g.Overflow),
		})
	}
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
