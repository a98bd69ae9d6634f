package metrics

import (
	"math"
	"slices"
)

// A flock is all guards of one kind, which are counted under names: most have one to themselves, those of a Group share
// it. G is a guard, S its snapshot.
//
// A Group may let go of a guard at any time, but what a counter has told once must not be missing later: it would look
// like a restart. So each name remembers what it had from guards that are gone.
type flock[G comparable, S, T any] struct {
	columns []column[S]
	read    func(G) S
	render  func(*Instrument, []string) T
	sums    map[string]*sum[G, T]
	names   []string // of sums, in alphabetical order
}

// sum is the guards of one name. Its slices have an element for each column.
type sum[G comparable, T any] struct {
	series  []T
	members map[G]*member
	values  []float64
	gone    []float64 // what values begin with: the counts of former members
}

// member is a guard, as of the latest time that it was counted.
type member struct {
	values []float64
	here   bool // counted since the latest emit
}

func newFlock[G comparable, S, T any](columns []column[S], read func(G) S, render func(*Instrument, []string) T) flock[G, S, T] {
	return flock[G, S, T]{columns: columns, read: read, render: render, sums: map[string]*sum[G, T]{}}
}

// count reads a guard under a name, once if it is asked to do so several times.
func (f *flock[G, S, T]) count(name string, guard G) {
	s := f.sums[name]
	if s == nil {
		s = f.newSum(name)
		f.sums[name] = s
		i, _ := slices.BinarySearch(f.names, name)
		f.names = slices.Insert(f.names, i, name)
	}
	m := s.members[guard]
	if m == nil {
		m = &member{values: make([]float64, len(f.columns))}
		s.members[guard] = m
	}
	if m.here {
		return
	}
	m.here = true
	snapshot := f.read(guard)
	for i, c := range f.columns {
		m.values[i] = c.value(&snapshot)
	}
}

func (f *flock[G, S, T]) newSum(name string) *sum[G, T] {
	s := &sum[G, T]{
		series:  make([]T, len(f.columns)),
		members: map[G]*member{},
		values:  make([]float64, len(f.columns)),
		gone:    make([]float64, len(f.columns)),
	}
	for i, c := range f.columns {
		s.series[i] = f.render(c.instrument, append([]string{name}, c.attributes...))
		if c.instrument.Kind == Gauge {
			s.gone[i] = math.NaN()
		}
	}
	return s
}

// drop forgets a name with all its counts.
func (f *flock[G, S, T]) drop(name string) {
	if i, found := slices.BinarySearch(f.names, name); found {
		f.names = slices.Delete(f.names, i, i+1)
		delete(f.sums, name)
	}
}

// emit passes on the values of all names as of the latest count, in alphabetical order.
func (f *flock[G, S, T]) emit(emit func(T, float64)) {
	for _, name := range f.names {
		s := f.sums[name]
		f.sumUp(s)
		for i, v := range s.values {
			if !math.IsNaN(v) {
				emit(s.series[i], v)
			}
		}
	}
}

func (f *flock[G, S, T]) sumUp(s *sum[G, T]) {
	for guard, m := range s.members {
		if !m.here {
			f.retire(s, m)
			delete(s.members, guard)
		}
	}
	copy(s.values, s.gone)
	for _, m := range s.members {
		m.here = false
		for i, c := range f.columns {
			s.values[i] = join(c.instrument.Kind, s.values[i], m.values[i])
		}
	}
}

func (f *flock[G, S, T]) retire(s *sum[G, T], m *member) {
	for i, c := range f.columns {
		if c.instrument.Kind == Counter {
			s.gone[i] += m.values[i]
		}
	}
}

// join returns the value of two guards together. Of gauges that is the higher one: the worst failure ratio says more
// than any average. NaN is no value; a sum that lacks one has none.
func join(k Kind, a, b float64) float64 {
	if k != Gauge {
		return a + b
	}
	if math.IsNaN(a) || b > a {
		return b
	}
	return a
}
