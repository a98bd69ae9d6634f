package model

import "slices"

// Group is the reference of a Group: the keys that have a policy, in the order in which those were made. Like [Breaker]
// it is a value. Which of several idle keys loses its place is not said, so a call that needs one is told which did.
type Group struct {
	max       int
	members   []Member
	made      int
	evictions int
	overflow  int
}

// Member is a key with its policy. Policies are known by number, in the order in which they were made, from 1.
type Member struct{ Key, Policy int }

// Fate is what becomes of a call.
type Fate int

// Where a call runs.
const (
	Served    Fate = iota // under the policy that its key has
	Made                  // under one that had to be made
	Overflows             // under the overflow policy, for there was no place
	Fails                 // not at all, since there is no policy for this key
)

// NewGroup returns the model of an empty Group.
func NewGroup(maxKeys int) Group { return Group{max: maxKeys} }

// Call is a call for key. Evictable tells which members have nothing to lose; if one has to go, it is the one that
// gone chooses among them. A policy that can't be made takes a place all the same until that turns out.
func (m Group) Call(key int, legal bool, evictable func(Member) bool, gone func([]Member) Member) (Group, Member, Fate) {
	if i := m.index(key); i >= 0 {
		return m, m.members[i], Served
	}
	if len(m.members) == m.max {
		var candidates []Member
		for _, k := range m.members {
			if evictable(k) {
				candidates = append(candidates, k)
			}
		}
		if candidates == nil {
			m.overflow++
			return m, Member{}, Overflows
		}
		m = m.Remove(gone(candidates).Key)
		m.evictions++
	}
	if !legal {
		return m, Member{}, Fails
	}
	m.made++
	k := Member{key, m.made}
	m.members = append(slices.Clip(m.members), k)
	return m, k, Made
}

// Remove forgets the policy of key, if it has one.
func (m Group) Remove(key int) Group {
	if i := m.index(key); i >= 0 {
		m.members = slices.Delete(slices.Clone(m.members), i, i+1)
	}
	return m
}

// Members returns the members in the order in which their policies were made.
func (m Group) Members() []Member { return m.members }

// Evictions returns how many keys lost their policy to another one.
func (m Group) Evictions() int { return m.evictions }

// Overflow returns how many calls ran under the overflow policy.
func (m Group) Overflow() int { return m.overflow }

func (m Group) index(key int) int {
	return slices.IndexFunc(m.members, func(k Member) bool { return k.Key == key })
}
