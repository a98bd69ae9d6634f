package seawall_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seawall-go/seawall"
)

// Probes that take too long. The threshold is 8 s, a probe holds its place for the cooldown of 10 s.

// B98: a probe that does not return has failed at the instant at which it has run for the threshold. The call that
// arrives then opens the breaker and is rejected; what the probe returns changes nothing.
func TestProbeThatHangsHasFailed(t *testing.T) {
	onEachClock(t, func(t *testing.T, tl timeline) {
		var j journal
		b := tl.br(t, slowCalls(), j.hook())
		half(t, b, tl)
		probe := allow(t, b)
		tl.Advance(slow - ns)
		assert.Equal(t, seawall.HalfOpen, wantRejected(t, b).State)
		tl.Advance(ns)

		open := wantRejected(t, b)
		assert.Equal(t, seawall.Open, open.State)
		assert.Equal(t, cooldown, open.RetryAfter(), "a full cooldown")
		assert.Equal(t, []string{edgeTripped, edgeCooled, edgeReopened}, j.edges())
		change := j.last(t)
		assert.Equal(t, seawall.ErrSlowCall, change.Err)
		assert.Equal(t, []uint64{1, 1, 1}, []uint64{change.Calls, change.Failures, change.SlowCalls})
		assert.Equal(t, outcomes{failures: 4, slow: 1}, settled(b))

		s := b.Snapshot()
		assert.Zero(t, s.ProbesInFlight)
		probe(nil)
		assert.Equal(t, s, b.Snapshot())
		tl.Advance(cooldown)
		wantAdmitted(t, b)
		wantState(t, b, seawall.Closed)
	})
}

// A probe that is over has failed if it ran for the threshold, whatever it returned.
func TestSlowProbeThatEnds(t *testing.T) {
	for name, tt := range map[string]struct {
		age  time.Duration
		edge string
		want outcomes
	}{
		"1 ns less":                      {slow - ns, edgeClosed, outcomes{successes: 1, failures: 3}},
		"just":                           {slow, edgeReopened, outcomes{failures: 4, slow: 1}},
		"by far":                         {slow + time.Second, edgeReopened, outcomes{failures: 4, slow: 1}},
		"longer than it holds its place": {time.Minute, edgeReopened, outcomes{failures: 4, slow: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			onEachClock(t, func(t *testing.T, tl timeline) {
				b := tl.br(t, slowCalls())
				half(t, b, tl)
				probe := allow(t, b)
				tl.Advance(tt.age)
				probe(nil)
				assert.Equal(t, []string{edgeTripped, edgeCooled, tt.edge}, edgesOf(b))
				assert.Equal(t, tt.want, settled(b))
			})
		})
	}
}

// Whoever comes first to a probe that has become slow opens the breaker: another probe too, whatever that returned. Its
// own result is late then. Probes that succeeded before are in the counts.
func TestProbeBesideASlowOne(t *testing.T) {
	for name, err := range map[string]error{
		"success": nil, "failure": errBoom, "ignored": seawall.MarkIgnored(errBoom),
	} {
		t.Run(name, func(t *testing.T) {
			clk := newClock()
			var j journal
			b := br(t, clk, slowCalls(), j.hook(), seawall.WithProbes(3), seawall.WithProbeSuccesses(10))
			half(t, b, clk)
			first := allow(t, b)
			clk.Advance(time.Second)
			second := allow(t, b)
			require.NoError(t, do(b, ok))
			clk.Advance(slow - time.Second)
			second(err)

			change := j.last(t)
			assert.Equal(t, seawall.ReasonProbeFailed, change.Reason)
			assert.Equal(t, seawall.ErrSlowCall, change.Err)
			assert.Equal(t, []uint64{2, 1, 1}, []uint64{change.Calls, change.Failures, change.SlowCalls})
			want := outcomes{successes: 1, failures: 4, slow: 1, late: 1}
			assert.Equal(t, want, settled(b))
			first(nil)
			assert.Equal(t, want, settled(b), "the slow one counts once")
		})
	}
}

// Only the first of several slow probes is the failure; the others end late.
func TestSeveralSlowProbes(t *testing.T) {
	clk := newClock()
	b := br(t, clk, slowCalls(), seawall.WithProbes(3))
	half(t, b, clk)
	var ends []func(error)
	for range 3 {
		ends = append(ends, allow(t, b))
	}
	clk.Advance(time.Minute)
	wantRejected(t, b)
	for _, done := range ends {
		done(errBoom)
	}
	assert.Equal(t, outcomes{failures: 4, slow: 1, late: 2}, settled(b))
	assert.Equal(t, []string{edgeTripped, edgeCooled, edgeReopened}, edgesOf(b))
}

// A probe that loses its place before it is slow decides nothing any more: it is late, and the next caller is a probe. If
// both come at the same instant it has failed.
func TestSlowProbeAndProbeTimeout(t *testing.T) {
	for name, tt := range map[string]struct {
		timeout time.Duration
		lapses  bool
	}{
		"much shorter":    {time.Second, true},
		"1 ns shorter":    {slow - ns, true},
		"the same":        {slow, false},
		"1 ns longer":     {slow + ns, false},
		"for ever longer": {1 << 62, false},
	} {
		t.Run(name, func(t *testing.T) {
			onEachClock(t, func(t *testing.T, tl timeline) {
				b := tl.br(t, slowCalls(), seawall.WithProbeTimeout(tt.timeout))
				half(t, b, tl)
				probe := allow(t, b)
				tl.Advance(slow)
				if !tt.lapses {
					assert.Equal(t, seawall.Open, wantRejected(t, b).State)
					probe(nil)
					assert.Equal(t, outcomes{failures: 4, slow: 1}, settled(b))
					return
				}
				second := allow(t, b)
				probe(nil)
				assert.Equal(t, outcomes{failures: 3, late: 1}, settled(b))
				wantState(t, b, seawall.HalfOpen)
				second(nil)
				wantState(t, b, seawall.Closed)
			})
		})
	}
}

// A probe that lost its place can still close the breaker if it is not slow.
func TestLapsedProbeThatIsNotSlowCloses(t *testing.T) {
	clk := newClock()
	b := br(t, clk, slowCalls(), seawall.WithProbeTimeout(time.Second))
	half(t, b, clk)
	probe := allow(t, b)
	clk.Advance(slow - ns)
	hang(t, b, 1)
	probe(nil)
	wantState(t, b, seawall.Closed)
	assert.Equal(t, outcomes{successes: 1, failures: 3}, settled(b))
}

// I4: probes that hang, one after another, keep no breaker from probing again, and the first one that answers closes it.
func TestBreakerOutlastsProbesThatHang(t *testing.T) {
	for name, timeout := range map[string]time.Duration{"shorter": time.Second, "longer": time.Hour} {
		t.Run(name, func(t *testing.T) {
			clk := newClock()
			b := br(t, clk, slowCalls(), seawall.WithProbeTimeout(timeout))
			trip(t, b)
			for range 10 {
				clk.Advance(cooldown)
				if _, err := b.Allow(t.Context()); err != nil { // A probe was slow.
					clk.Advance(cooldown)
					hang(t, b, 1)
				}
			}
			clk.Advance(time.Hour)
			if do(b, ok) != nil {
				clk.Advance(cooldown)
				wantAdmitted(t, b)
			}
			wantState(t, b, seawall.Closed)
		})
	}
}

// I3: an edge by hand while a probe is slow, and nobody has noticed: the probe ends late.
func TestEdgeByHandBeforeASlowProbeIsNoticed(t *testing.T) {
	for name, edge := range map[string]func(*seawall.Breaker){
		"ForceOpen": (*seawall.Breaker).ForceOpen,
		"Reset":     (*seawall.Breaker).Reset,
		"off":       func(b *seawall.Breaker) { _ = b.SetMode(seawall.Off) },
	} {
		t.Run(name, func(t *testing.T) {
			clk := newClock()
			b := br(t, clk, slowCalls())
			half(t, b, clk)
			probe := allow(t, b)
			clk.Advance(slow)
			edge(b)
			probe(nil)
			assert.Equal(t, outcomes{failures: 3, late: 1}, settled(b))
		})
	}
}
