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

func finish(which string, res result) move {
	return move{which + " " + res.name, func(t *tape) error {
		ids := t.m.Running()
		switch {
		case len(ids) == 0:
		case which == "oldest":
			t.finish(ids[0], res)
		default:
			t.finish(ids[len(ids)-1], res)
		}
		return nil
	}}
}

func advance(name string, d time.Duration) move {
	return move{name, func(t *tape) error { t.advance(d); return nil }}
}

func setMode(mode seawall.Mode) move {
	return move{mode.String(), func(t *tape) error { return t.setMode(mode) }}
}

func moves() []move {
	all := results()
	success, failure, ignored := all[0], all[1], all[2]
	return []move{
		{"allow", func(t *tape) error { return t.allow() }},
		finish("oldest", success),
		finish("oldest", failure),
		finish("oldest", ignored),
		finish("newest", success),
		finish("newest", failure),
		advance("cooldown", small().Cooldown),
		advance("probe timeout", small().ProbeTimeout),
		{"force open", func(t *tape) error { t.forceOpen(); return nil }},
		{"reset", func(t *tape) error { t.reset(); return nil }},
	}
}

// slowMoves are those for calls that become slow, and for modes.
func slowMoves() []move {
	all := results()
	return []move{
		{"allow", func(t *tape) error { return t.allow() }},
		finish("oldest", all[0]),
		finish("newest", all[1]),
		advance("threshold", slow().SlowCallThreshold),
		advance("slot", slow().SlowCallThreshold/8),
		advance("cooldown", slow().Cooldown),
		setMode(seawall.Observe),
		setMode(seawall.Off),
		setMode(seawall.Enforce),
	}
}

// search is a breaker and what to try on it.
type search struct {
	set    seawall.Settings
	moves  []move
	starts map[string][]int
}

func plainSearch() search { return search{small(), moves(), starts()} }

// slowSearch begins with a new breaker, and with one whose running calls will open it when they become slow.
func slowSearch() search {
	return search{slow(), slowMoves(), map[string][]int{"closed": nil, "about to hang": {allow, allow, allow, allow}}}
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
func (s search) play(sequence []int, from int) (t *tape, err error) {
	t = &tape{newRig(s.set)}
	for i, k := range sequence {
		err := s.moves[k].apply(t)
		if err == nil && i >= from {
			err = t.check()
		}
		if err != nil {
			var story []string
			for _, k := range sequence[:i+1] {
				story = append(story, s.moves[k].name)
			}
			return t, fmt.Errorf("%q: %w", story, err)
		}
	}
	return t, nil
}

// exhausted is how far a search has come.
type exhausted struct {
	sequences, slow int
	ends            map[seawall.State]int
}

// exhaust plays every sequence of n moves after the given start.
func (s search) exhaust(start []int, n int, sum *exhausted) error {
	sequence := append(append([]int{}, start...), make([]int, n)...)
	from := 0
	for {
		t, err := s.play(sequence, from)
		if err != nil {
			return err
		}
		sum.sequences++
		sum.slow += one(t.m.Snapshot().Totals.SlowCalls > 0)
		sum.ends[t.m.State()]++
		last := len(sequence) - 1
		for ; last >= len(start) && sequence[last] == len(s.moves)-1; last-- {
			sequence[last] = 0
		}
		if last < len(start) {
			return nil
		}
		sequence[last]++
		from = last
	}
}

// TestExhaustive tries every sequence of moves there is, up to a length, on the breaker and on its model.
func TestExhaustive(t *testing.T) { plainSearch().run(t) }

// TestExhaustiveSlowCalls does so with calls that become slow, and with modes.
func TestExhaustiveSlowCalls(t *testing.T) { slowSearch().run(t) }

// run plays all sequences of the length that the effort allows.
func (s search) run(t *testing.T) {
	t.Helper()
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
	begin, sum := time.Now(), exhausted{ends: map[seawall.State]int{}}
	for name, start := range s.starts {
		if err := s.exhaust(start, n, &sum); err != nil {
			t.Fatalf("%s: after %d sequences: %v", name, sum.sequences, err)
		}
	}
	figures(t, "%d sequences of %d operations (ending %d closed, %d open, %d half-open, %d with slow calls), 0 differences, in %v",
		sum.sequences, n, sum.ends[seawall.Closed], sum.ends[seawall.Open], sum.ends[seawall.HalfOpen], sum.slow,
		time.Since(begin).Round(time.Second/10))
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
		tape, err := plainSearch().play(starts()[name], 0)
		if err != nil {
			t.Fatal(err)
		}
		s := tape.b.Snapshot()
		if s.State != want.state || s.ProbesInFlight != want.probes || len(tape.m.Running()) != want.calls {
			t.Errorf("%s: %v, %d probes, %d calls run", name, s.State, s.ProbesInFlight, len(tape.m.Running()))
		}
	}
}
