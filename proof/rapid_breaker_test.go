package proof_test

import (
	"flag"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/seawall-go/seawall"
)

// rapidly runs a property over as many operations as asked for, in stories of about a hundred each.
func rapidly(t *testing.T, operations int, property func(*rapid.T)) {
	t.Helper()
	set := func(name, value string) {
		old := flag.Lookup(name).Value.String()
		if old != flag.Lookup(name).DefValue {
			return // Given on the command line.
		}
		if err := flag.Set(name, value); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = flag.Set(name, old) })
	}
	set("rapid.checks", strconv.Itoa(max(1, operations/90)))
	set("rapid.steps", strconv.Itoa(stepsOfAStory))
	told := 0
	rapid.Check(t, func(rt *rapid.T) { told++; property(rt) })
	// rapid ends early and content if the test's deadline is near.
	checks, err := strconv.Atoi(flag.Lookup("rapid.checks").Value.String())
	if testing.Short() {
		checks /= 5 // As rapid does.
	}
	if err != nil || told < checks {
		t.Errorf("%d stories told, %d are wanted", told, checks)
	}
}

const stepsOfAStory = 120 // of which some are skipped, so that 100 remain

// breakerMachine is a rig whose operations are drawn.
type breakerMachine struct {
	*rig
	operations *atomic.Int64
	result     *rapid.Generator[result]
	duration   *rapid.Generator[string]
	blind      bool // nobody looks, most of the time
}

// durationNames are the times at which something may change, both sides of each, and steps back.
func durationNames() []string {
	return []string{
		"1ns", "wait-1ns", "wait", "cooldown-1ns", "cooldown", "probe timeout-1ns", "probe timeout",
		"bucket", "to next bucket-1ns", "to next bucket", "window-bucket", "window-1ns", "window",
		"any", "back 1ns", "back 1s", "back 1h", "ahead 1h",
		"threshold-1ns", "threshold", "slot", "to next slot-1ns", "to next slot", "threshold and slot",
	}
}

// named returns the time of the given name as things stand.
func (r *rig) named(name string, random time.Duration) time.Duration {
	set := r.b.Settings()
	width := max(1, set.Window/time.Duration(max(1, set.Buckets)))
	next := toNext(width, r.m.Clock())
	threshold, slot := set.SlowCallThreshold, max(1, set.SlowCallThreshold/8)
	switch name {
	case "1ns":
		return 1
	case "wait-1ns":
		return max(0, r.m.Snapshot().RetryAfter-1)
	case "wait":
		return r.m.Snapshot().RetryAfter
	case "cooldown-1ns":
		return set.Cooldown - 1
	case "cooldown":
		return set.Cooldown
	case "probe timeout-1ns":
		return max(0, set.ProbeTimeout-1)
	case "probe timeout":
		return set.ProbeTimeout
	case "bucket":
		return width
	case "to next bucket-1ns":
		return next - 1
	case "to next bucket":
		return next
	case "window-bucket":
		return set.Window - width
	case "window-1ns":
		return set.Window - 1
	case "window":
		return set.Window
	case "back 1ns":
		return -1
	case "back 1s":
		return -time.Second
	case "back 1h":
		return -time.Hour
	case "ahead 1h":
		return time.Hour
	case "threshold-1ns":
		return max(0, threshold-1)
	case "threshold":
		return threshold
	case "slot":
		return slot
	case "to next slot-1ns":
		return toNext(slot, r.m.Clock()) - 1
	case "to next slot":
		return toNext(slot, r.m.Clock())
	case "threshold and slot":
		return threshold + slot
	default:
		return random
	}
}

// toNext returns how long it is until a multiple of width is reached.
func toNext(width, now time.Duration) time.Duration { return width - (now%width+width)%width }

func (s *breakerMachine) fail(t *rapid.T, err error) {
	if err != nil {
		t.Fatal(err)
	}
}

func (s *breakerMachine) Allow(t *rapid.T) { s.fail(t, s.allow()) }

func (s *breakerMachine) Finish(t *rapid.T) {
	if len(s.done) == 0 {
		t.Skip()
	}
	// Any call may end, also one that was rejected or has ended: that must do nothing. Mostly one that runs does.
	ids := s.m.Running()
	if len(ids) == 0 || rapid.IntRange(0, 9).Draw(t, "any") == 0 {
		s.finish(rapid.IntRange(0, len(s.done)-1).Draw(t, "id"), s.result.Draw(t, "result"))
		return
	}
	s.finish(rapid.SampledFrom(ids).Draw(t, "running"), s.result.Draw(t, "result"))
}

func (s *breakerMachine) Do(t *rapid.T) {
	how := ""
	if rapid.IntRange(0, 19).Draw(t, "dies") == 0 {
		how = rapid.SampledFrom([]string{"panic", "goexit"}).Draw(t, "how")
	}
	s.fail(t, s.do(s.result.Draw(t, "result"), how))
}

func (s *breakerMachine) Advance(t *rapid.T) {
	random := time.Duration(rapid.Int64Range(0, int64(12*time.Second)).Draw(t, "random"))
	s.advance(s.named(s.duration.Draw(t, "d"), random))
}

func (s *breakerMachine) Manual(t *rapid.T) {
	switch rapid.IntRange(0, 9).Draw(t, "which") {
	case 0:
		s.forceOpen()
	case 1, 2:
		s.reset()
	case 3:
		s.fail(t, s.cancelled())
	case 4:
		s.fail(t, s.setMode(rapid.SampledFrom([]seawall.Mode{
			seawall.Enforce, seawall.Enforce, seawall.Observe, seawall.Off,
		}).Draw(t, "mode")))
	default: // Too much of it leaves no time for anything else.
		t.Skip()
	}
}

func (s *breakerMachine) Check(t *rapid.T) {
	s.operations.Add(1)
	if s.blind && rapid.IntRange(0, 9).Draw(t, "look") > 0 {
		return // To look gives untimed successes a time.
	}
	s.fail(t, s.check())
}

// TestRapidBreaker runs random stories on the breaker and on its model. Design §3.1 to §3.8 and §7, I3 to I7.
func TestRapidBreaker(t *testing.T) {
	var operations, edges, late, slow, modes atomic.Int64
	start := time.Now()
	settings := rapid.SampledFrom(variants())
	result, duration := rapid.SampledFrom(results()), rapid.SampledFrom(durationNames())
	rapidly(t, scaled(2_000_000, 100_000_000), func(t *rapid.T) {
		set := settings.Draw(t, "settings")
		untimed := set.MinCalls == 0 && set.SlowCallThreshold == 0
		m := &breakerMachine{newRig(set), &operations, result, duration, untimed && rapid.Bool().Draw(t, "blind")}
		t.Repeat(rapid.StateMachineActions(m))
		m.fail(t, m.check())
		totals := m.m.Snapshot().Totals
		edges.Add(int64(m.m.Generation()))
		late.Add(int64(totals.Late))
		slow.Add(int64(totals.SlowCalls))
		modes.Add(int64(totals.ByReason[seawall.ReasonModeChanged]))
	})
	figures(t, "%d operations, %d edges, %d late results, %d slow calls, %d times to or from Off, 0 differences, in %v",
		operations.Load(), edges.Load(), late.Load(), slow.Load(), modes.Load(), time.Since(start).Round(time.Second/10))
}
