package metrics

import (
	"fmt"
	"iter"

	"github.com/seawall-go/seawall"
)

// manyGuards is a Group, whatever its keys are.
type manyGuards interface {
	id() string
	snapshot() group

	// visit calls f with the policy of each key and the name that its guards are counted under, and returns the names
	// that were in use and are no longer.
	visit(f func(name string, p seawall.Policy)) (gone []string)
}

// members are the policies of a Group by name.
type members[K comparable] struct {
	name    string
	group   *seawall.Group[K]
	maxKeys int // how many have a name of their own; 0: all are counted under the group's

	names map[K]string // of the keys that were there at the latest visit
}

func (m *members[K]) id() string      { return m.name }
func (m *members[K]) snapshot() group { return m.group.Snapshot() }

func (m *members[K]) visit(f func(string, seawall.Policy)) (gone []string) {
	if m.maxKeys == 0 {
		for _, p := range m.group.All() {
			f(m.name, p)
		}
		return nil
	}
	return m.visitKeys(f)
}

// visitKeys names the keys in the order in which they came. A key keeps its name, also that of the rest, for as long as
// it is there: the counts of the rest would fall if one left it for a name of its own.
func (m *members[K]) visitKeys(f func(string, seawall.Policy)) (gone []string) {
	rest := m.name + "/other"
	before, names, own := m.names, map[K]string{}, map[string]bool{}
	name := func(key K, name string) {
		names[key] = name
		if name != rest {
			own[name] = true
		}
	}
	policies := m.group.All()
	for key := range policies {
		if old, known := before[key]; known {
			name(key, old)
		}
	}
	for key, p := range policies {
		if _, named := names[key]; !named {
			fresh := m.name + "/" + clean(fmt.Sprint(key))
			if !own[fresh] && len(own) >= m.maxKeys {
				fresh = rest
			}
			name(key, fresh)
		}
		f(names[key], p)
	}
	m.names = names
	for _, old := range before {
		if old != rest && !own[old] {
			gone = append(gone, old)
		}
	}
	return gone
}

// inside iterates over the guards that p is made of. A [seawall.Chain] tells its policies, and so may any other policy.
func inside(p seawall.Policy) iter.Seq[seawall.Policy] {
	return func(yield func(seawall.Policy) bool) { walk(p, yield) }
}

func walk(p seawall.Policy, yield func(seawall.Policy) bool) bool {
	several, ok := p.(interface{ Policies() []seawall.Policy })
	if !ok {
		return yield(p)
	}
	for _, q := range several.Policies() {
		if !walk(q, yield) {
			return false
		}
	}
	return true
}
