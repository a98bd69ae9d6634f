// Package metrics is the one table of what seawall's guards tell as metrics, and the set of the guards that an exporter
// tells about. The exporters, contrib/seawallprom and contrib/seawallotel, only translate it; so both tell the same
// under the same names.
//
// They are modules of their own, and one of an older version may meet this package in a newer one: what they use of it
// may grow, but must not change.
package metrics

// A Kind is what may be done with the values of an Instrument.
type Kind int

// The kinds.
const (
	Counter       Kind = iota // A sum that never falls.
	UpDownCounter             // A sum that may fall.
	Gauge                     // A value that must not be added to others.
)

// An Instrument is what all series of one name have in common.
type Instrument struct {
	Name        string // in the form of OpenTelemetry
	Kind        Kind
	Float       bool   // values need not be whole
	Unit        string // in UCUM: one in braces is just a note
	Description string
	Attributes  []string // keys of what tells the series apart; the first is the guard's name
}

// column is one series of each guard of a kind: its instrument, what tells it apart from the other series that this
// guard has there, and how to read its value from a snapshot. A value of NaN means that there is none now.
type column[S any] struct {
	instrument *Instrument
	attributes []string // values for Instrument.Attributes, without the guard's name
	value      func(*S) float64
}

// tables are the columns of each kind of guard.
type tables struct {
	breakers  []column[breaker]
	bulkheads []column[bulkhead]
	groups    []column[group]
}

func newTables() tables {
	return tables{breakers: breakerColumns(), bulkheads: bulkheadColumns(), groups: groupColumns()}
}

func (t *tables) instruments() []*Instrument {
	all := instrumentsOf(t.breakers)
	all = append(all, instrumentsOf(t.bulkheads)...)
	return append(all, instrumentsOf(t.groups)...)
}

// instrumentsOf returns the instruments of columns, those of one instrument being neighbours.
func instrumentsOf[S any](columns []column[S]) []*Instrument {
	var all []*Instrument
	for _, c := range columns {
		if len(all) == 0 || all[len(all)-1] != c.instrument {
			all = append(all, c.instrument)
		}
	}
	return all
}
