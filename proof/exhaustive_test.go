package proof_test

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/seawall-go/seawall"
)

var depth = flag.Int("depth", 0, "length of the sequences of operations tried without exception; 0: as SEAWALL_PROOF says")

// move is an operation of the exhaustive search. All of them apply at any time; some do nothing then.
type move struct {
	name  string
	apply func(*tape) error
}

func moves() []move {
	finish := func(which string, pick func(ids []int) int, res result) move {
		return move{which + " " + res.name, func(t *tape) error {
			if ids := t.m.Running(); len(ids) > 0 {
				t.finish(ids[pick(ids)], res)
			}
			return nil
		}}
	}
	oldest := func([]int) int { return 0 }
	newest := func(ids []int) int { return len(ids) - 1 }
	all := results()
	success, failure, ignored := all[0], all[1], all[2]
	advance := func(name string, d time.Duration) move {
		return move{name, func(t *tape) error { t.advance(d); return nil }}
	}
	return []move{
		{"allow", func(t *tape) error { return t.allow() }},
		finish("oldest", oldest, success),
		finish("oldest", oldest, failure),
		finish("oldest", oldest, ignored),
		finish("newest", newest, success),
		finish("newest", newest, failure),
		advance("cooldown", small().Cooldown),
		advance("probe timeout", small().ProbeTimeout),
		{"force open", func(t *tape) error { t.forceOpen(); return nil }},
		{"reset", func(t *tape) error { t.reset(); return nil }},
	}
}

// The moves by index, for starting points.
const (
	allow = iota
	oldestSuccess
	oldestFailure
	oldestIgnored
	newestSuccess
	newestFailure
	afterCooldown
)

// starts are the starting points: a new breaker; one tripped by two of three calls, with the cooldown over and the
// third still running; one half-open with both places taken and a call of the closed state still running.
func starts() map[string][]int {
	tripped := []int{allow, allow, allow, oldestFailure, oldestFailure, afterCooldown}
	return map[string][]int{
		"closed": nil, "tripped": tripped, "half-open": append(append([]int{}, tripped...), allow, allow),
	}
}

// tape is a rig that plays a sequence of moves.
type tape struct{ *rig }

// play runs the moves on a new breaker and compares breaker and model after each from the given one on. The states
// before it were compared when an earlier sequence led there.
func play(all []move, sequence []int, from int) (t *tape, err error) {
	t = &tape{newRig(small())}
	for i, k := range sequence {
		err := all[k].apply(t)
		if err == nil && i >= from {
			err = t.check()
		}
		if err != nil {
			var story []string
			for _, k := range sequence[:i+1] {
				story = append(story, all[k].name)
			}
			return t, fmt.Errorf("%q: %w", story, err)
		}
	}
	return t, nil
}

// exhaust plays every sequence of n moves after the given start.
func exhaust(start []int, n int) (sequences int, states map[seawall.State]int, err error) {
	all := moves()
	states = map[seawall.State]int{}
	sequence := append(append([]int{}, start...), make([]int, n)...)
	from := 0
	for {
		t, err := play(all, sequence, from)
		if err != nil {
			return sequences, states, err
		}
		sequences++
		states[t.m.State()]++
		last := len(sequence) - 1
		for ; last >= len(start) && sequence[last] == len(all)-1; last-- {
			sequence[last] = 0
		}
		if last < len(start) {
			return sequences, states, nil
		}
		sequence[last]++
		from = last
	}
}

// TestExhaustive tries every sequence of moves there is, up to a length, on the breaker and on its model.
func TestExhaustive(t *testing.T) {
	n := *depth
	if n == 0 {
		switch {
		case effort() == "release" && !raceEnabled:
			n = 7
		case effort() == "quick" || raceEnabled || testing.Short():
			n = 4
		default:
			n = 5
		}
	}
	begin := time.Now()
	total, ends := 0, map[seawall.State]int{}
	for name, start := range starts() {
		sequences, states, err := exhaust(start, n)
		if err != nil {
			t.Fatalf("%s: after %d sequences: %v", name, sequences, err)
		}
		total += sequences
		for s, k := range states {
			ends[s] += k
		}
	}
	figures(t, "%d sequences of %d operations (ending %d closed, %d open, %d half-open), 0 differences, in %v", total, n,
		ends[seawall.Closed], ends[seawall.Open], ends[seawall.HalfOpen], time.Since(begin).Round(time.Second/10))
}

// TestExhaustiveStartsAreWhatTheySay holds the starting points to their names.
func TestExhaustiveStartsAreWhatTheySay(t *testing.T) {
	for name, want := range map[string]struct {
		state  seawall.State
		probes int
		calls  int
	}{
		"closed": {seawall.Closed, 0, 0}, "tripped": {seawall.HalfOpen, 0, 1}, "half-open": {seawall.HalfOpen, 2, 3},
	} {
		tape, err := play(moves(), starts()[name], 0)
		if err != nil {
			t.Fatal(err)
		}
		s := tape.b.Snapshot()
		if s.State != want.state || s.ProbesInFlight != want.probes || len(tape.m.Running()) != want.calls {
			t.Errorf("%s: %v, %d probes, %d calls run", name, s.State, s.ProbesInFlight, len(tape.m.Running()))
		}
	}
}
