package metrics

import (
	"errors"
	"fmt"
	"sync"

	"github.com/seawall-go/seawall"
)

// A Set is the guards that an exporter tells about. T is a series as the exporter needs it. A Set is safe for use by
// several goroutines.
type Set[T any] struct {
	tables tables

	mu        sync.Mutex // guards the fields below
	names     names
	breakers  flock[*seawall.Breaker, breaker, T]
	bulkheads flock[*seawall.Bulkhead, bulkhead, T]
	groups    flock[manyGuards, group, T]

	singleBreakers  []*seawall.Breaker
	singleBulkheads []*seawall.Bulkhead
	manyGuards      []manyGuards
}

// NewSet returns a Set of no guards. It calls render once for each series, before the first value of that: with its
// instrument, one of [Set.Instruments], and the values of the instrument's attributes.
func NewSet[T any](render func(i *Instrument, attributes []string) T) *Set[T] {
	t := newTables()
	return &Set[T]{
		tables:    t,
		names:     names{taken: map[guardName]bool{}},
		breakers:  newFlock(t.breakers, readBreaker, render),
		bulkheads: newFlock(t.bulkheads, (*seawall.Bulkhead).Snapshot, render),
		groups:    newFlock(t.groups, manyGuards.snapshot, render),
	}
}

// Instruments returns all that there are, whether a guard has series of them or not.
func (s *Set[T]) Instruments() []*Instrument { return s.tables.instruments() }

// AddBreaker adds a Breaker. The error says what is wrong with its name.
func (s *Set[T]) AddBreaker(b *seawall.Breaker) error {
	if b == nil {
		return errors.New("the breaker is nil")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.names.claim(breakerKind, b.Name()); err != nil {
		return err
	}
	s.singleBreakers = append(s.singleBreakers, b)
	return nil
}

// AddBulkhead adds a Bulkhead. The error says what is wrong with its name.
func (s *Set[T]) AddBulkhead(b *seawall.Bulkhead) error {
	if b == nil {
		return errors.New("the bulkhead is nil")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.names.claim(bulkheadKind, b.Name()); err != nil {
		return err
	}
	s.singleBulkheads = append(s.singleBulkheads, b)
	return nil
}

// AddGroup adds a Group, and the breakers and bulkheads of its keys. They are summed up under the group's name, or
// under name/key for up to maxKeys keys and under name/other for the rest.
//
// Its breakers are told of from when there is the first one.
func AddGroup[K comparable, T any](s *Set[T], name string, g *seawall.Group[K], maxKeys int) error {
	if g == nil {
		return fmt.Errorf("group %q is nil", name)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	claim := s.names.claimAll
	if maxKeys > 0 {
		claim = s.names.claimTree
	}
	if err := claim(name); err != nil {
		return err
	}
	s.manyGuards = append(s.manyGuards, &members[K]{name: name, group: g, maxKeys: maxKeys})
	return nil
}

// Collect calls emit with the present value of each series. It takes one snapshot of each guard.
func (s *Set[T]) Collect(emit func(series T, value float64)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.singleBreakers {
		s.breakers.count(b.Name(), b)
	}
	for _, b := range s.singleBulkheads {
		s.bulkheads.count(b.Name(), b)
	}
	for _, m := range s.manyGuards {
		s.countGroup(m)
	}
	s.breakers.emit(emit)
	s.bulkheads.emit(emit)
	s.groups.emit(emit)
}

func (s *Set[T]) countGroup(m manyGuards) {
	s.groups.count(m.id(), m)
	gone := m.visit(func(name string, p seawall.Policy) {
		for guard := range inside(p) {
			switch g := guard.(type) {
			case *seawall.Breaker:
				s.breakers.count(name, g)
			case *seawall.Bulkhead:
				s.bulkheads.count(name, g)
			}
		}
	})
	for _, name := range gone {
		s.breakers.drop(name)
		s.bulkheads.drop(name)
	}
}

func readBreaker(b *seawall.Breaker) breaker {
	s := b.Settings()
	return breaker{Snapshot: b.Snapshot(), minCalls: s.MinCalls, startOff: s.Mode == seawall.Off}
}
