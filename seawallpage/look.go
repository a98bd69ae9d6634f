package seawallpage

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/seawall-go/seawall"
)

// look is all that the page shows, as of one moment; guards.json is just this.
type look struct {
	At     time.Time   `json:"at"`
	Guards []guardLook `json:"guards"` // the worst first
	Groups []groupLook `json:"groups"`
}

// guardLook is a breaker or a bulkhead.
type guardLook struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
	place
	Level level `json:"level"`

	Snapshot any               `json:"snapshot"` // a seawall.Snapshot or a seawall.BulkheadSnapshot
	Settings *seawall.Settings `json:"settings,omitempty"`
	History  []seawall.Change  `json:"history,omitempty"`
}

type groupLook struct {
	Name string `json:"name"`
	seawall.GroupSnapshot
}

// level says how much a guard asks for attention.
type level int

const (
	problem level = iota // It rejects calls.
	warning              // It lets only some calls through, or lets them wait.
	fine
	off // It has been switched off.
)

func (l level) String() string               { return [...]string{"problem", "warning", "ok", "off"}[l] }
func (l level) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// source yields policies and where they are.
type source iter.Seq2[place, seawall.Policy]

// place is where a policy is: somewhere by itself, or in a Group.
type place struct {
	inGroup bool
	Group   string `json:"group,omitempty"`
	Key     string `json:"key,omitempty"`
}

// member is a breaker or a bulkhead; the other one is nil.
type member struct {
	place
	breaker  *seawall.Breaker
	bulkhead *seawall.Bulkhead
}

// name is that of the key, if there is one, for a guard's own name may be the same for all keys.
func (m member) name() string {
	switch {
	case m.inGroup:
		return m.Group + "/" + m.Key
	case m.breaker != nil:
		return m.breaker.Name()
	default:
		return m.bulkhead.Name()
	}
}

// members iterates over all breakers and bulkheads that there are now, each once at its place.
func (c *config) members() iter.Seq[member] {
	return func(yield func(member) bool) {
		seen := map[member]bool{}
		once := func(m member) bool {
			if seen[m] {
				return true
			}
			seen[m] = true
			return yield(m)
		}
		for _, s := range c.sources {
			for at, p := range s {
				if !walk(at, p, once) {
					return
				}
			}
		}
	}
}

// walk looks into a [seawall.Chain], and into whatever else tells which policies it is made of.
func walk(at place, p seawall.Policy, yield func(member) bool) bool {
	switch p := p.(type) {
	case *seawall.Breaker:
		return yield(member{place: at, breaker: p})
	case *seawall.Bulkhead:
		return yield(member{place: at, bulkhead: p})
	case interface{ Policies() []seawall.Policy }:
		for _, inner := range p.Policies() {
			if !walk(at, inner, yield) {
				return false
			}
		}
	}
	return true
}

// look takes a snapshot of each guard that is wanted.
func (c *config) look(wanted filter) look {
	l := look{At: time.Now(), Guards: []guardLook{}, Groups: []groupLook{}}
	for m := range c.members() {
		if wanted.guard(m) {
			l.Guards = append(l.Guards, m.look())
		}
	}
	slices.SortStableFunc(l.Guards, func(a, b guardLook) int {
		return cmp.Or(cmp.Compare(a.Level, b.Level), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Kind, b.Kind))
	})
	for _, g := range c.groups {
		if g := g(); wanted.group(g) {
			l.Groups = append(l.Groups, g)
		}
	}
	return l
}

func (m member) look() guardLook {
	if m.bulkhead != nil {
		s := m.bulkhead.Snapshot()
		return guardLook{
			Kind: "bulkhead", Name: m.name(), place: m.place, Level: bulkheadLevel(s),
			Snapshot: s,
		}
	}
	s := m.breaker.Snapshot()
	return guardLook{
		Kind: "breaker", Name: m.name(), place: m.place, Level: breakerLevel(s),
		Snapshot: s, Settings: new(m.breaker.Settings()), History: m.breaker.History(),
	}
}

func breakerLevel(s seawall.Snapshot) level {
	switch {
	case s.Mode == seawall.Off:
		return off
	case s.State == seawall.Open:
		return problem
	case s.State == seawall.HalfOpen:
		return warning
	default:
		return fine
	}
}

// bulkheadLevel takes a bulkhead without a free slot for a problem if the next call could not even wait.
func bulkheadLevel(s seawall.BulkheadSnapshot) level {
	switch {
	case s.InFlight < s.Limit:
		return fine
	case s.MaxQueue >= 0 && s.Waiting >= s.MaxQueue:
		return problem
	default:
		return warning
	}
}

// filter says what a request wants to see: everything, or what has one name.
type filter struct {
	byName bool
	name   string
}

// guard reports whether m is wanted. The name of a Group stands for all of its keys too.
func (f filter) guard(m member) bool {
	return !f.byName || m.name() == f.name || m.inGroup && m.Group == f.name
}

func (f filter) group(g groupLook) bool { return !f.byName || g.Name == f.name }

const maxKeyBytes = 128

// keyText is a Group's key as a part of a name. The exporters of metrics have the same names.
func keyText(key any) string {
	text := strings.ToValidUTF8(fmt.Sprint(key), string(utf8.RuneError))
	if len(text) > maxKeyBytes {
		text = strings.ToValidUTF8(text[:maxKeyBytes], "") // without the half of a character at the cut
	}
	return text
}
