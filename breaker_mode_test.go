package seawall_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seawall-go/seawall"
)

// Enforce, Observe and Off.

func mode(m seawall.Mode) seawall.BreakerOption { return seawall.WithMode(m) }

func setMode(t testing.TB, b *seawall.Breaker, m seawall.Mode) {
	t.Helper()
	require.NoError(t, b.SetMode(m))
	assert.Equal(t, m, b.Mode())
	assert.Equal(t, m, b.Snapshot().Mode)
}

// doneContext returns a context that is done.
func doneContext(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// In Observe every call runs and comes back as it is, whatever the state. Those that would be rejected, and those whose
// context is done, have no vote: they count as such and as nothing else.
func TestObserveRunsEveryCall(t *testing.T) {
	for name, tt := range map[string]struct {
		bring func(t *testing.T, b *seawall.Breaker, clk *fakeClock)
		ctx   func(t testing.TB) context.Context
	}{
		"open":      {func(t *testing.T, b *seawall.Breaker, _ *fakeClock) { trip(t, b) }, nil},
		"forced":    {func(_ *testing.T, b *seawall.Breaker, _ *fakeClock) { b.ForceOpen() }, nil},
		"half-open": {func(t *testing.T, b *seawall.Breaker, clk *fakeClock) { half(t, b, clk); hang(t, b, 1) }, nil},
		"done":      {func(*testing.T, *seawall.Breaker, *fakeClock) {}, doneContext},
		"open and done": {
			func(t *testing.T, b *seawall.Breaker, _ *fakeClock) { trip(t, b) }, doneContext,
		},
	} {
		t.Run(name, func(t *testing.T) {
			clk := newClock()
			b := br(t, clk, mode(seawall.Observe))
			tt.bring(t, b, clk)
			ctx := t.Context()
			if tt.ctx != nil {
				ctx = tt.ctx(t)
			}
			before := b.Snapshot()
			var ran counter
			require.NoError(t, b.Do(ctx, ran.fn))
			ran.err = errBoom
			for range 10 {
				assert.Equal(t, errBoom, b.Do(ctx, ran.fn))
			}
			assert.Panics(t, func() { _ = b.Do(ctx, func(context.Context) error { panic(errBoom) }) })
			done, err := b.Allow(ctx)
			require.NoError(t, err)
			done(errBoom)
			done, err = b.Wait(ctx)
			require.NoError(t, err)
			done(errBoom)

			assert.Equal(t, 11, ran.count())
			after := b.Snapshot()
			assert.EqualValues(t, 14, after.Totals.WouldReject-before.Totals.WouldReject)
			after.Totals.WouldReject = before.Totals.WouldReject
			assert.Equal(t, before, after, "nothing else changes")
		})
	}
}

// Observe decides as Enforce does: it trips, probes, reopens and closes, and reports it.
func TestObserveDecides(t *testing.T) {
	onEachClock(t, func(t *testing.T, tl timeline) {
		var j journal
		b := tl.br(t, mode(seawall.Observe), j.hook())
		trip(t, b)
		require.NoError(t, do(b, ok), "it would be rejected")
		wantState(t, b, seawall.Open)
		assert.Equal(t, cooldown, b.Snapshot().RetryAfter)
		tl.Advance(cooldown - ns)
		require.NoError(t, do(b, ok))
		assert.EqualValues(t, 2, b.Snapshot().Totals.WouldReject)

		tl.Advance(ns)
		require.ErrorIs(t, do(b, bad), errBoom) // The probe.
		wantState(t, b, seawall.Open)
		tl.Advance(cooldown)
		require.NoError(t, do(b, ok))
		wantState(t, b, seawall.Closed)
		assert.Equal(t, []string{edgeTripped, edgeCooled, edgeReopened, edgeCooled, edgeClosed}, j.edges())
		totals := b.Snapshot().Totals
		assert.Equal(t, outcomes{successes: 1, failures: 4}, settled(b))
		assert.Zero(t, totals.Rejected)
		assert.EqualValues(t, 2, totals.WouldReject)
		assert.EqualValues(t, 2, totals.Opens)
	})
}

// Whatever happens, Observe and Enforce are in the same state for the same reason, report the same changes with the same
// counts, and count the same, if the calls that are rejected in the one have no vote in the other.
func TestObserveDecidesAsEnforceDoes(t *testing.T) {
	edges := map[seawall.Reason]int{}
	for seed := range uint64(40) {
		p := newPair(t, seed)
		for range 300 {
			p.step()
			p.compare()
		}
		require.Equal(t, p.saw.all(), p.watched.all(), p.story.String())
		for reason, n := range p.enforce.Snapshot().Totals.ByReason {
			edges[reason] += int(n)
		}
	}
	t.Log(edges)
	for _, reason := range []seawall.Reason{
		seawall.ReasonFailureRate, seawall.ReasonConsecutiveFailures, seawall.ReasonCooldownOver, seawall.ReasonProbeFailed,
		seawall.ReasonProbesSucceeded, seawall.ReasonForced, seawall.ReasonReset,
	} {
		assert.Greater(t, edges[reason], 10, "%v: the stories have to go somewhere", reason)
	}
}

// pair is a breaker that enforces and one that observes, to both of which the same happens.
type pair struct {
	t                *testing.T
	random           *rand.Rand
	clk              *fakeClock
	enforce, observe *seawall.Breaker
	saw, watched     journal
	running          [][2]func(error)
	refused          uint64
	story            strings.Builder
}

func newPair(t *testing.T, seed uint64) *pair {
	t.Helper()
	p := &pair{t: t, random: rand.New(rand.NewPCG(seed, 3)), clk: newClock()}
	opts := []seawall.BreakerOption{
		seawall.WithClock(p.clk), seawall.WithFailureRate(0.5, 5), seawall.WithConsecutiveFailures(3),
		seawall.WithCooldown(cooldown), seawall.WithProbes(2), seawall.WithProbeSuccesses(2), seawall.WithBackoff(time.Minute),
	}
	if seed%2 == 0 {
		opts = append(opts, slowCalls())
	}
	p.enforce = newBreaker(t, append(opts, p.saw.hook())...)
	p.observe = newBreaker(t, append(opts, p.watched.hook(), mode(seawall.Observe))...)
	return p
}

func (p *pair) step() {
	switch k := p.random.IntN(100); {
	case k < 40:
		p.begin(p.t.Context())
	case k < 42:
		p.begin(doneContext(p.t))
	case k < 85 && len(p.running) > 0:
		p.end(p.random.IntN(len(p.running)))
	case k == 86 && p.random.IntN(3) == 0:
		p.both("force", (*seawall.Breaker).ForceOpen)
	case k == 87:
		p.both("reset", (*seawall.Breaker).Reset)
	default:
		steps := []time.Duration{ns, time.Second, slow - ns, cooldown - ns, cooldown, 3 * time.Minute}
		d := steps[p.random.IntN(len(steps))]
		fmt.Fprint(&p.story, " +", d)
		p.clk.Advance(d)
	}
}

func (p *pair) begin(ctx context.Context) {
	fmt.Fprint(&p.story, " begin")
	one, err := p.enforce.Allow(ctx)
	other, never := p.observe.Allow(ctx)
	require.NoError(p.t, never, "Observe rejects nothing, after%s", p.story.String())
	if err != nil {
		p.refused++
		one = func(error) {}
	}
	p.running = append(p.running, [2]func(error){one, other})
}

func (p *pair) end(i int) {
	errs := []error{nil, nil, nil, nil, errBoom, errBoom, seawall.MarkIgnored(errBoom)}
	err := errs[p.random.IntN(len(errs))]
	fmt.Fprintf(&p.story, " end(%d: %v)", i, err)
	p.running[i][0](err)
	p.running[i][1](err)
	p.running = append(p.running[:i], p.running[i+1:]...)
}

func (p *pair) both(what string, f func(*seawall.Breaker)) {
	fmt.Fprint(&p.story, " ", what)
	f(p.enforce)
	f(p.observe)
}

func (p *pair) compare() {
	one, other := p.enforce.Snapshot(), p.observe.Snapshot()
	require.Equal(p.t, p.refused, one.Totals.Rejected+one.Totals.Cancelled)
	require.Equal(p.t, p.refused, other.Totals.WouldReject)
	require.Zero(p.t, other.Totals.Rejected+other.Totals.Cancelled)
	other.Mode, other.Totals.Rejected, other.Totals.Cancelled = one.Mode, one.Totals.Rejected, one.Totals.Cancelled
	other.Totals.WouldReject = 0
	require.Equal(p.t, one, other, p.story.String())
}

// G118: off, a breaker just runs fn, also on a context that is done, and counts nothing, reports nothing and asks nobody.
func TestOffJustRunsFn(t *testing.T) {
	for name, option := range map[string]bool{"by option": true, "at run time": false} {
		t.Run(name, func(t *testing.T) {
			clk := newClock()
			var j journal
			asked := 0
			opts := []seawall.BreakerOption{
				j.hook(), slowCalls(),
				seawall.WithClassifier(func(context.Context, error) seawall.Outcome { asked++; return seawall.Failure }),
			}
			if option {
				opts = append(opts, mode(seawall.Off))
			}
			b := br(t, clk, opts...)
			setMode(t, b, seawall.Off)
			before, events := b.Snapshot(), len(j.all())

			ran := counter{err: errBoom}
			for range 100 {
				assert.Equal(t, errBoom, do(b, ran.fn))
			}
			assert.Equal(t, errBoom, b.Do(doneContext(t), ran.fn))
			assert.Panics(t, func() { _ = do(b, func(context.Context) error { panic(errBoom) }) })
			for _, begin := range []func(context.Context) (func(error), error){b.Allow, b.Wait} {
				for _, ctx := range []context.Context{t.Context(), doneContext(t)} {
					done, err := begin(ctx)
					require.NoError(t, err)
					done(errBoom)
					done(errBoom)
				}
			}
			hang(t, b, 10)
			clk.Advance(time.Minute)
			require.NoError(t, do(b, ok))

			assert.Equal(t, 101, ran.count())
			assert.Zero(t, asked)
			after := b.Snapshot()
			assert.Equal(t, time.Minute, after.Totals.TimeClosed-before.Totals.TimeClosed, "off is closed")
			after.Totals.TimeClosed = before.Totals.TimeClosed
			assert.Equal(t, before, after)
			assert.Len(t, j.all(), events)
		})
	}
}

// To or from Off a breaker begins anew, from any state: closed, with an empty window and no back-off. Between Enforce and
// Observe it stays as it is, and so it does if the mode is the one it has.
func TestSetMode(t *testing.T) {
	modes := []seawall.Mode{seawall.Enforce, seawall.Observe, seawall.Off}
	for _, from := range modes {
		for _, to := range modes {
			clk := newClock()
			for state := range inEveryState(t, clk) {
				t.Run(fmt.Sprint(state, ", ", from, " to ", to), func(t *testing.T) {
					clk := newClock()
					var j journal
					b := inEveryState(t, clk)[state]
					if from != seawall.Enforce {
						setMode(t, b, from)
					}
					before := b.Snapshot()
					setMode(t, b, to)
					after := b.Snapshot()

					if from == to || from != seawall.Off && to != seawall.Off {
						before.Mode = to
						assert.Equal(t, before, after)
						return
					}
					history := b.History()
					change := history[len(history)-1]
					assert.Equal(t, seawall.ReasonModeChanged, change.Reason)
					assert.Equal(t, seawall.Closed, change.To)
					assert.Equal(t, before.Generation+1, change.Generation)
					assert.Equal(t, before.Generation+1, after.Generation, "one edge")
					wantState(t, b, seawall.Closed)
					assert.Equal(t, before.Calls+uint64(before.ProbeSuccesses), change.Calls)
					assert.False(t, after.Forced)
					assert.Zero(t, after.Calls+after.ConsecutiveFailures+after.Failures)
					assert.Zero(t, after.RetryAfter)
					assert.Equal(t, before.Totals.ByReason[seawall.ReasonModeChanged]+1, after.Totals.ByReason[seawall.ReasonModeChanged])
					assert.Empty(t, j.all())
				})
			}
		}
	}
}

// What a switch changes and what it does not, in the life of one breaker: one event for each, the back-off forgotten, the
// totals kept.
func TestSwitchingOffAndOn(t *testing.T) {
	clk := newClock()
	var j journal
	b := br(t, clk, j.hook(), seawall.WithBackoff(time.Hour))
	half(t, b, clk)
	_ = do(b, bad)
	assert.Equal(t, 2*cooldown, b.Snapshot().RetryAfter)
	setMode(t, b, seawall.Observe)
	require.NoError(t, do(b, ok))
	setMode(t, b, seawall.Enforce)
	wantRejected(t, b)
	setMode(t, b, seawall.Off)
	setMode(t, b, seawall.Off)
	setMode(t, b, seawall.Observe)
	setMode(t, b, seawall.Enforce)
	trip(t, b)
	assert.Equal(t, cooldown, b.Snapshot().RetryAfter)
	assert.Equal(t, []string{
		edgeTripped, edgeCooled, edgeReopened, "open → closed: mode_changed", "closed → closed: mode_changed", edgeTripped,
	}, j.edges())
	assert.Equal(t, outcomes{failures: 7}, settled(b))
	assert.NoError(t, j.all()[3].Err)
}

// A switch to Off and calls that are running: they end late, and free nothing that anybody else has.
func TestCallsThatOutliveASwitch(t *testing.T) {
	for name, on := range map[string]bool{"still off": false, "on again": true} {
		t.Run(name, func(t *testing.T) {
			clk := newClock()
			b := br(t, clk)
			call := allow(t, b)
			half(t, b, clk)
			probe := allow(t, b)
			setMode(t, b, seawall.Off)
			free := allow(t, b)
			if on {
				setMode(t, b, seawall.Enforce)
			}
			call(errBoom)
			probe(errBoom)
			free(errBoom)
			assert.Equal(t, outcomes{failures: 3, late: 2}, settled(b))
			assert.Zero(t, b.Snapshot().Calls)
			wantState(t, b, seawall.Closed)
		})
	}
}

// A call that looked at the breaker before it was switched off, and is decided about after that, has no vote.
func TestCallThatMeetsASwitchHasNoVote(t *testing.T) {
	for name, opts := range map[string][]seawall.BreakerOption{
		"plain": nil, "threshold": {slowCalls()}, "observe": {mode(seawall.Observe)},
	} {
		t.Run(name, func(t *testing.T) {
			for state, b := range inEveryStateWith(t, opts...) {
				ctx := switchingContext{t.Context(), func() { _ = b.SetMode(seawall.Off) }}
				err := b.Do(ctx, bad)
				assert.Equal(t, errBoom, err, state)
				assert.Equal(t, seawall.Off, b.Mode())
				s := b.Snapshot()
				assert.Zero(t, s.Calls, state)
				assert.Zero(t, s.ConsecutiveFailures, state)
				assert.Equal(t, seawall.Closed, s.State, state)
			}
		})
	}
}

// switchingContext does something when it is asked whether it is done.
type switchingContext struct {
	context.Context
	act func()
}

func (c switchingContext) Err() error { c.act(); return c.Context.Err() }

// inEveryStateWith returns a breaker with these options in each state where a call is let in.
func inEveryStateWith(t *testing.T, opts ...seawall.BreakerOption) map[string]*seawall.Breaker {
	t.Helper()
	clk := newClock()
	all := map[string]*seawall.Breaker{"closed": br(t, clk, opts...), "cooled down": br(t, clk, opts...)}
	half(t, all["cooled down"], clk)
	return all
}

// No mode rejects that a call has met on its way from Observe to Off, so the call is not rejected, though one decided
// and the other did not let it run.
func TestSwitchFromObserveToOffRejectsNothing(t *testing.T) {
	clk := newClock()
	var b *seawall.Breaker
	b = br(t, clk, mode(seawall.Observe), slowCalls(), seawall.WithOnStateChange(func(c seawall.StateChange) {
		if c.To == seawall.Open {
			_ = b.SetMode(seawall.Off)
		}
	}))
	hang(t, b, 3)
	clk.Advance(time.Minute)
	require.NoError(t, do(b, ok))
	assert.Equal(t, []string{edgeTripped, "open → closed: mode_changed"}, edgesOf(b))
}

// ForceOpen has no effect on calls in Observe and in Off, and is forgotten by a switch from Off.
func TestForceOpenInOtherModes(t *testing.T) {
	for _, m := range []seawall.Mode{seawall.Observe, seawall.Off} {
		t.Run(m.String(), func(t *testing.T) {
			b := br(t, newClock(), mode(m))
			b.ForceOpen()
			wantAdmitted(t, b)
			assert.True(t, b.Snapshot().Forced)
			setMode(t, b, seawall.Enforce)
			if m == seawall.Off {
				wantAdmitted(t, b)
				return
			}
			assert.EqualValues(t, 1, b.Snapshot().Totals.WouldReject)
			wantRejected(t, b)
			b.Reset()
			wantAdmitted(t, b)
		})
	}
}

// A mode that is none is an error that says which there are, and changes nothing.
func TestModesThatAreNone(t *testing.T) {
	for _, m := range []seawall.Mode{-1, 3, 1 << 30} {
		text := fmt.Sprintf("mode Mode(%d) must be Enforce, Observe or Off", int(m))
		_, err := seawall.NewBreaker("", mode(m))
		require.EqualError(t, err, "seawall: WithMode: "+text)

		b := br(t, newClock(), mode(seawall.Observe))
		before := b.Snapshot()
		require.EqualError(t, b.SetMode(m), "seawall: SetMode: "+text)
		assert.Equal(t, before, b.Snapshot())
	}
}

// Mode is the one in force, Settings has the one that NewBreaker was given.
func TestModeAndSettings(t *testing.T) {
	assert.Equal(t, seawall.Enforce, newBreaker(t).Mode(), "by default")
	for _, m := range []seawall.Mode{seawall.Enforce, seawall.Observe, seawall.Off} {
		b := newBreaker(t, mode(m))
		assert.Equal(t, m, b.Mode())
		for _, other := range []seawall.Mode{seawall.Off, seawall.Observe, seawall.Enforce} {
			setMode(t, b, other)
			assert.Equal(t, m, b.Settings().Mode)
		}
	}
}

// I3: with 64 goroutines and a mode that changes all the time, each call that ran is counted once, each that was rejected
// did not run, and no place is lost.
func TestStressSwitchBetweenEnforceAndObserve(t *testing.T) {
	s := newModeStress(t, seawall.Enforce, seawall.Observe)
	s.run(t)
	totals, counted := s.b.Snapshot().Totals, settled(s.b)
	t.Logf("%d ran, %d rejected: %+v, %d would be rejected", s.ran.Load(), s.rejected.Load(), counted, totals.WouldReject)
	assert.Equal(t, s.ran.Load(), counted.successes+counted.failures+counted.ignored+counted.late+totals.WouldReject)
	assert.Equal(t, s.rejected.Load(), totals.Rejected)
	assert.NotZero(t, totals.Rejected)
	assert.NotZero(t, totals.WouldReject)
	s.wantWell(t)
}

// The same with Off, whose calls are not counted.
func TestStressSwitchBetweenAllModes(t *testing.T) {
	s := newModeStress(t, seawall.Enforce, seawall.Off, seawall.Observe)
	s.run(t)
	totals, counted := s.b.Snapshot().Totals, settled(s.b)
	assert.LessOrEqual(t, counted.successes+counted.failures+counted.ignored+counted.late+totals.WouldReject, s.ran.Load())
	assert.Equal(t, s.rejected.Load(), totals.Rejected)
	assert.NotZero(t, totals.ByReason[seawall.ReasonModeChanged])
	s.wantWell(t)
}

// Neither Observe nor Off rejects, and so no switch between them does.
func TestStressSwitchBetweenObserveAndOff(t *testing.T) {
	s := newModeStress(t, seawall.Observe, seawall.Off)
	s.run(t)
	assert.Zero(t, s.rejected.Load())
	assert.Zero(t, s.b.Snapshot().Totals.Rejected)
	s.wantWell(t)
}

type modeStress struct {
	b             *seawall.Breaker
	clk           *fakeClock
	j             journal
	modes         []seawall.Mode
	ran, rejected atomic.Uint64
}

func newModeStress(t *testing.T, modes ...seawall.Mode) *modeStress {
	t.Helper()
	s := &modeStress{clk: newClock(), modes: modes}
	s.b = br(t, s.clk, mode(modes[0]), seawall.WithProbes(2), s.j.hook())
	return s
}

// run makes calls on 64 goroutines, each of which now and then switches, opens, closes, looks, or lets time pass.
func (s *modeStress) run(t *testing.T) {
	t.Helper()
	var all sync.WaitGroup
	for seed := range uint64(64) {
		all.Go(func() {
			random := rand.New(rand.NewPCG(seed, 4))
			for range 200 {
				switch random.IntN(40) {
				case 0, 1, 2, 3:
					assert.NoError(t, s.b.SetMode(s.modes[random.IntN(len(s.modes))]))
				case 4:
					s.b.ForceOpen()
				case 5, 6:
					s.b.Reset()
				case 7:
					wantSound(t, s.b.Snapshot(), 2)
				case 8, 9:
					s.clk.Advance(cooldown / 2)
				default:
					s.call(random)
				}
			}
		})
	}
	all.Wait()
}

func (s *modeStress) call(random *rand.Rand) {
	err := do(s.b, func(context.Context) error {
		s.ran.Add(1)
		return []error{nil, errBoom, seawall.MarkIgnored(errBoom)}[random.IntN(3)]
	})
	if errors.Is(err, seawall.ErrRejected) {
		s.rejected.Add(1)
	}
}

// wantWell checks that the changes form a chain, and that a breaker in which nothing runs lets exactly two probes in.
func (s *modeStress) wantWell(t *testing.T) {
	t.Helper()
	from := seawall.Closed
	for i, c := range s.j.all() {
		require.EqualValues(t, i+1, c.Generation, "I5: in order")
		require.Equal(t, from, c.From)
		from = c.To
	}
	setMode(t, s.b, seawall.Enforce)
	s.b.Reset()
	half(t, s.b, s.clk)
	hang(t, s.b, 2)
	wantRejected(t, s.b)
}
