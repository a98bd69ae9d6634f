package seawall_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seawall-go/seawall"
)

// Calls that take too long, returned or not.

// slow is the threshold of the tests. A breaker finds its calls in slots of an eighth of it, which is a second.
const slow = 8 * time.Second

// found is when a call that began at the start of a slot is found: with the last one that could begin in it.
const found = slow + time.Second - ns

func slowCalls() seawall.BreakerOption { return seawall.WithSlowCallThreshold(slow) }

// allow begins a call.
func allow(t testing.TB, b *seawall.Breaker) (done func(error)) {
	t.Helper()
	done, err := b.Allow(t.Context())
	require.NoError(t, err)
	return done
}

// hang begins n calls that don't end.
func hang(t testing.TB, b *seawall.Breaker, n int) {
	t.Helper()
	for range n {
		allow(t, b)
	}
}

// settled returns how many calls of each kind have ended, or have been counted before.
func settled(b *seawall.Breaker) outcomes {
	s := b.Snapshot().Totals
	return outcomes{s.Successes, s.Failures, s.SlowCalls, s.Ignored, s.Late}
}

type outcomes struct{ successes, failures, slow, ignored, late uint64 }

// B98: a call that does not return counts from the instant at which it has run for the threshold, if it began in the
// last instant of a slot, and less than an eighth of the threshold later if it began before: in the window, in the row
// of failures and in the totals.
func TestCallThatHangsIsAFailure(t *testing.T) {
	for name, tt := range map[string]struct{ start, found time.Duration }{
		"last instant of a slot":  {time.Second - ns, slow},
		"first instant of a slot": {time.Second, found},
	} {
		t.Run(name, func(t *testing.T) {
			onEachClock(t, func(t *testing.T, tl timeline) {
				b := rated(t, tl, 1, never, seawall.WithConsecutiveFailures(never), slowCalls())
				tl.Advance(tt.start)
				done := allow(t, b)
				tl.Advance(tt.found - ns)
				before := b.Snapshot()
				assert.Zero(t, before.Calls)
				assert.Zero(t, before.Totals.Failures)

				tl.Advance(ns)
				s := b.Snapshot()
				assert.Equal(t, []uint64{1, 1, 1, 1}, []uint64{s.Calls, s.Failures, s.SlowCalls, s.ConsecutiveFailures})
				assert.InDelta(t, 1, s.FailureRate, 0)
				assert.Equal(t, outcomes{failures: 1, slow: 1}, settled(b))
				done(nil)
				assert.Equal(t, s, b.Snapshot(), "what it returns changes nothing")
			})
		})
	}
}

// G125: a call that is over has been slow if it ran for the threshold, whatever it returned and whether somebody noticed
// before or not. It counts once, and the caller gets what it returned.
func TestSlowCallThatEnds(t *testing.T) {
	ends := map[string]struct {
		fn    func(context.Context) error
		err   error
		quick outcomes // what it counts as if it is not slow
	}{
		"nil":     {ok, nil, outcomes{successes: 1}},
		"error":   {bad, errBoom, outcomes{failures: 1}},
		"ignored": {ignored, errBoom, outcomes{ignored: 1}},
		"panic":   {func(context.Context) error { panic(errBoom) }, nil, outcomes{failures: 1}},
		"Goexit":  {func(context.Context) error { runtime.Goexit(); return nil }, nil, outcomes{failures: 1}},
	}
	ages := map[string]struct {
		before, after time.Duration // another call arrives
		another       bool
		slow          bool
	}{
		"1 ns less":                        {slow - ns, 0, false, false},
		"just":                             {slow, 0, false, true},
		"1 ns before it is found":          {found - ns, 0, false, true},
		"when it is found":                 {found, 0, false, true},
		"unnoticed for long":               {time.Hour, 0, false, true},
		"another call in good time":        {slow - 2*ns, ns, true, false},
		"another call, and it is not slow": {slow - ns, ns, true, true},
		"another call, and it is slow":     {slow, 0, true, true},
		"another call finds it":            {found, 0, true, true},
		"another call found it before":     {found, time.Hour, true, true},
	}
	for how, end := range ends {
		for when, at := range ages {
			t.Run(how+"/"+when, func(t *testing.T) {
				clk := newClock()
				b := newBreaker(t, seawall.WithFailureRate(1, never), seawall.WithWindow(10*time.Hour, 10), slowCalls(),
					seawall.WithClock(clk))
				want := end.quick
				if at.slow {
					want = outcomes{failures: 1, slow: 1}
				}
				err := errBoom
				onItsOwn(func() {
					defer func() { _ = recover() }()
					err = nil
					err = do(b, func(ctx context.Context) error {
						clk.Advance(at.before)
						if at.another {
							wantAdmitted(t, b)
							want.successes++
						}
						clk.Advance(at.after)
						return end.fn(ctx)
					})
				})
				require.ErrorIs(t, err, end.err)
				assert.Equal(t, want, settled(b))
				s := b.Snapshot()
				assert.Equal(t, want.slow, s.SlowCalls)
				assert.Equal(t, want.failures, s.Failures)
				assert.Equal(t, want.successes+want.failures, s.Calls)
			})
		}
	}
}

// G125: slow answers trip, each by its own end. Nothing was late, and each caller got its answer.
func TestSlowAnswersTrip(t *testing.T) {
	for name, age := range map[string]time.Duration{"just": slow, "by far": time.Minute} {
		t.Run(name, func(t *testing.T) {
			onEachClock(t, func(t *testing.T, tl timeline) {
				var j journal
				b := tl.br(t, slowCalls(), j.hook(), seawall.WithWindow(time.Hour, 1))
				for range 3 {
					wantState(t, b, seawall.Closed)
					require.NoError(t, do(b, func(context.Context) error { tl.Advance(age); return nil }))
				}
				wantState(t, b, seawall.Open)
				change := j.last(t)
				assert.Equal(t, seawall.ReasonConsecutiveFailures, change.Reason)
				assert.Equal(t, seawall.ErrSlowCall, change.Err)
				assert.EqualValues(t, 3, change.SlowCalls)
				assert.Equal(t, outcomes{failures: 3, slow: 3}, settled(b))
			})
		})
	}
}

// B98: nothing returns, and the call that arrives once the calls before it are slow opens the breaker. It is rejected
// itself.
func TestArrivingCallTripsBySlowCalls(t *testing.T) {
	onEachClock(t, func(t *testing.T, tl timeline) {
		var j journal
		b := tl.br(t, slowCalls(), j.hook())
		wantAdmitted(t, b)
		hang(t, b, 3)
		tl.Advance(found - ns)
		require.ErrorIs(t, do(b, ignored), errBoom)
		tl.Advance(ns)
		assert.EqualValues(t, 3, b.Snapshot().ConsecutiveFailures)
		wantState(t, b, seawall.Closed) // It takes a call to open it.
		assert.Empty(t, j.all())

		open := wantRejected(t, b)
		assert.Equal(t, cooldown, open.RetryAfter())
		wantState(t, b, seawall.Open)
		assert.Equal(t, []string{edgeTripped}, j.edges())
		change := j.last(t)
		assert.Equal(t, seawall.ErrSlowCall, change.Err)
		assert.Equal(t, []uint64{4, 3, 3}, []uint64{change.Calls, change.Failures, change.SlowCalls})
		assert.EqualValues(t, 1, b.Snapshot().Totals.Rejected)
	})
}

// Slow calls and others count together, in the rate and in the row.
func TestSlowCallsCountWithOthers(t *testing.T) {
	for name, tt := range map[string]struct {
		rule    seawall.BreakerOption
		slow    int
		results []error // while the slow ones run
		edge    string
	}{
		"rate":               {seawall.WithFailureRate(0.5, 6), 3, []error{nil, nil, nil}, edgeRate},
		"rate, one too few":  {seawall.WithFailureRate(0.5, 6), 2, []error{nil, nil, nil, nil}, ""},
		"rate, with errors":  {seawall.WithFailureRate(0.5, 6), 2, []error{nil, errBoom, nil, nil}, edgeRate},
		"rate, too few":      {seawall.WithFailureRate(0.5, 7), 3, []error{nil, nil, nil}, ""},
		"row":                {seawall.WithConsecutiveFailures(3), 2, []error{nil, errBoom}, edgeTripped},
		"row, too short":     {seawall.WithConsecutiveFailures(4), 2, []error{nil, errBoom}, ""},
		"row, all of a slot": {seawall.WithConsecutiveFailures(3), 5, nil, edgeTripped},
	} {
		t.Run(name, func(t *testing.T) {
			clk := newClock()
			b := newBreaker(t, tt.rule, slowCalls(), seawall.WithClock(clk))
			hang(t, b, tt.slow)
			for _, err := range tt.results {
				_ = do(b, returns(err))
			}
			clk.Advance(found)
			err := do(b, ok)
			if tt.edge == "" {
				require.NoError(t, err)
				assert.Empty(t, edgesOf(b))
				return
			}
			require.ErrorIs(t, err, seawall.ErrOpen)
			assert.Equal(t, []string{tt.edge}, edgesOf(b))
		})
	}
}

// A failure notices too, and is the one that the change names.
func TestFailureTripsWithSlowCalls(t *testing.T) {
	clk := newClock()
	var j journal
	b := br(t, clk, slowCalls(), j.hook())
	hang(t, b, 2)
	clk.Advance(slow)
	done := allow(t, b)
	clk.Advance(time.Second)
	done(errBoom)
	wantState(t, b, seawall.Open)
	change := j.last(t)
	assert.Equal(t, errBoom, change.Err)
	assert.Equal(t, []uint64{3, 3, 2}, []uint64{change.Calls, change.Failures, change.SlowCalls})
}

// Neither a success nor an ignored result opens the breaker, nor does looking at it, whatever is due. The next call does.
func TestSuccessNeverTripsBySlowCalls(t *testing.T) {
	for name, end := range map[string]func(b *seawall.Breaker, done func(error)){
		"success":  func(_ *seawall.Breaker, done func(error)) { done(nil) },
		"ignored":  func(_ *seawall.Breaker, done func(error)) { done(seawall.MarkIgnored(errBoom)) },
		"Snapshot": func(b *seawall.Breaker, _ func(error)) { b.Snapshot() },
		"State":    func(b *seawall.Breaker, _ func(error)) { b.State() },
		"History":  func(b *seawall.Breaker, _ func(error)) { b.History() },
	} {
		t.Run(name, func(t *testing.T) {
			clk := newClock()
			b := newBreaker(t, seawall.WithFailureRate(0.5, 3), slowCalls(), seawall.WithClock(clk))
			hang(t, b, 3)
			clk.Advance(slow)
			done := allow(t, b)
			clk.Advance(slow - ns)
			for range 2 {
				end(b, done)
				wantState(t, b, seawall.Closed)
				assert.Empty(t, b.History())
			}
			wantRejected(t, b)
			wantState(t, b, seawall.Open)
		})
	}
}

// A success that comes after calls have become slow ends their row, though nobody has looked at it since.
func TestSuccessEndsARowOfSlowCalls(t *testing.T) {
	clk := newClock()
	b := br(t, clk, slowCalls())
	hang(t, b, 3)
	clk.Advance(slow)
	done := allow(t, b)
	clk.Advance(time.Second)
	done(nil)
	assert.Zero(t, b.Snapshot().ConsecutiveFailures)
	wantAdmitted(t, b)
	assert.EqualValues(t, 3, b.Snapshot().SlowCalls)
	for range 2 {
		_ = do(b, bad)
	}
	wantState(t, b, seawall.Closed)
	_ = do(b, bad)
	wantState(t, b, seawall.Open)
}

// Calls of one slot became slow one after another. A success that came before all of them ends no row. One that came
// among them does, and how many of them came after it nobody knows, so that none is taken for one in the row.
func TestSuccessAmongCallsThatBecomeSlow(t *testing.T) {
	for name, tt := range map[string]struct {
		success time.Duration
		row     uint64
	}{
		"1 ns before the first": {slow - ns, 3},
		"with the first":        {slow, 0},
		"before the last":       {found - ns, 0},
	} {
		t.Run(name, func(t *testing.T) {
			onEachClock(t, func(t *testing.T, tl timeline) {
				b := tl.br(t, slowCalls())
				hang(t, b, 3)
				tl.Advance(tt.success)
				wantAdmitted(t, b)
				tl.Advance(found - tt.success)
				s := b.Snapshot()
				assert.Equal(t, []uint64{tt.row, 3}, []uint64{s.ConsecutiveFailures, s.Failures})
				if tt.row > 0 {
					wantRejected(t, b)
				} else {
					wantAdmitted(t, b)
				}
			})
		})
	}
}

// A slow call is booked as of the instant at which it became slow, however late somebody looks: it leaves the window
// when that is a window ago.
func TestSlowCallIsBookedWhenItBecameSlow(t *testing.T) {
	const bookedAt = found / time.Second * time.Second // the start of its bucket
	for name, looks := range map[string][]time.Duration{
		"soon":     {found, 15 * time.Second},
		"late":     {bookedAt + 10*time.Second - ns},
		"too late": {},
	} {
		t.Run(name, func(t *testing.T) {
			onEachClock(t, func(t *testing.T, tl timeline) {
				b := rated(t, tl, 1, never, slowCalls())
				hang(t, b, 1)
				now := time.Duration(0)
				at := func(instant time.Duration) { tl.Advance(instant - now); now = instant }
				for _, look := range looks {
					at(look)
					assert.Equal(t, [2]uint64{1, 1}, counts(b))
				}
				at(bookedAt + 10*time.Second)
				assert.Zero(t, counts(b))
				wantAdmitted(t, b)
				assert.Equal(t, [2]uint64{1, 0}, counts(b))
				assert.Equal(t, outcomes{successes: 1, failures: 1, slow: 1}, settled(b))
			})
		})
	}
}

// B60, B98: callers who hang up before their call times out hide a dependency that hangs. With a threshold below their
// patience they don't.
func TestCallersWhoHangUpDoNotHideAHang(t *testing.T) {
	play := func(opts ...seawall.BreakerOption) *seawall.Breaker {
		clk := newClock()
		b := br(t, clk, append(opts, seawall.WithWindow(time.Minute, 1))...)
		for range 20 {
			ctx, hangUp := context.WithCancel(t.Context())
			_ = b.Do(ctx, func(ctx context.Context) error {
				clk.Advance(10 * time.Second)
				hangUp()
				return ctx.Err()
			})
		}
		return b
	}
	blind := play()
	wantState(t, blind, seawall.Closed)
	assert.EqualValues(t, 20, blind.Snapshot().Totals.Ignored)
	seeing := play(slowCalls())
	assert.Equal(t, []uint64{3, 3}, []uint64{seeing.Snapshot().Totals.SlowCalls, seeing.History()[0].Failures})
	assert.Equal(t, edgeTripped, edgesOf(seeing)[0])
}

// A call whose end is never told is slow, as far as anybody can see.
func TestCallWhoseEndIsNeverToldIsSlow(t *testing.T) {
	clk := newClock()
	b := br(t, clk, slowCalls())
	for range 3 {
		allow(t, b) // Whoever loses done opens the breaker.
	}
	clk.Advance(time.Hour)
	wantRejected(t, b)
	assert.Equal(t, outcomes{failures: 3, slow: 3}, settled(b))
}

// I3, I6: an edge comes between the begin of a call and its end. The call counts once: as slow if it became so before the
// edge, else as late.
func TestSlowCallCountsOnceOverAnEdge(t *testing.T) {
	edges := map[string]func(b *seawall.Breaker){
		"trip": func(b *seawall.Breaker) {
			for range 3 {
				_ = do(b, bad)
			}
		},
		"ForceOpen": (*seawall.Breaker).ForceOpen,
		"Reset":     func(b *seawall.Breaker) { _ = do(b, bad); b.Reset() },
		"off":       func(b *seawall.Breaker) { _ = b.SetMode(seawall.Off) },
		"off and on": func(b *seawall.Breaker) {
			_ = b.SetMode(seawall.Off)
			_ = b.SetMode(seawall.Enforce)
		},
	}
	stories := map[string]struct {
		edge, end time.Duration
		noticed   bool // before the edge
		slow      bool
	}{
		"before it is slow":               {slow - ns, slow - ns, false, false},
		"before it is slow, end after":    {slow - ns, time.Minute, false, false},
		"before it is found, end at once": {found - ns, found - ns, false, false},
		"before it is found, end after":   {found - ns, time.Minute, false, false},
		"when it is found":                {found, found, false, true},
		"when it is found, end after":     {found, time.Minute, false, true},
		"after it was noticed":            {time.Minute, time.Minute, true, true},
		"long after, end longer after":    {time.Minute, time.Hour, true, true},
	}
	for what, edge := range edges {
		for when, story := range stories {
			t.Run(what+"/"+when, func(t *testing.T) {
				clk := newClock()
				b := br(t, clk, slowCalls())
				done := allow(t, b)
				clk.Advance(story.edge)
				if story.noticed {
					_ = do(b, ignored)
				}
				generation := b.Snapshot().Generation
				edge(b)
				require.Greater(t, b.Snapshot().Generation, generation)
				clk.Advance(story.end - story.edge)
				before := settled(b)
				done(nil)

				after := settled(b)
				want := before
				if !story.slow {
					want.late++
				}
				assert.Equal(t, want, after)
				if story.slow {
					assert.EqualValues(t, 1, after.slow)
				} else {
					assert.Zero(t, after.slow)
				}
				assert.Zero(t, b.Snapshot().SlowCalls, "no count goes over an edge")
			})
		}
	}
}

// Calls of a generation that has ended never become slow in the next one.
func TestCallsOfAnEndedGenerationAreNeverSlow(t *testing.T) {
	clk := newClock()
	b := br(t, clk, slowCalls())
	hang(t, b, 20)
	half(t, b, clk)
	require.NoError(t, do(b, ok))
	wantState(t, b, seawall.Closed)
	hang(t, b, 1)
	clk.Advance(time.Hour)
	wantAdmitted(t, b)
	assert.EqualValues(t, 1, b.Snapshot().Totals.SlowCalls)
}

// Enforce and Observe share a generation, so calls become slow over a change between them.
func TestSlowCallsOutliveAChangeToObserve(t *testing.T) {
	clk := newClock()
	b := br(t, clk, slowCalls())
	hang(t, b, 3)
	require.NoError(t, b.SetMode(seawall.Observe))
	clk.Advance(found)
	wantAdmitted(t, b)
	wantState(t, b, seawall.Open)
	assert.EqualValues(t, 1, b.Snapshot().Totals.WouldReject)
}

// Reset does nothing on a closed breaker without counts, also if calls run: they are still found. One that has become slow
// is a count.
func TestResetAndRunningCalls(t *testing.T) {
	clk := newClock()
	b := br(t, clk, slowCalls())
	hang(t, b, 3)
	b.Reset()
	assert.Empty(t, b.History())
	clk.Advance(found)
	b.Reset()
	assert.Equal(t, []string{"closed → closed: reset"}, edgesOf(b))
	wantAdmitted(t, b)
	assert.EqualValues(t, 3, b.Snapshot().Totals.SlowCalls)
	assert.Zero(t, b.Snapshot().SlowCalls)
}

// A clock that steps back makes no call slow early, and none that is slow quick.
func TestSlowCallsAndAClockThatStepsBack(t *testing.T) {
	clk := newClock()
	b := rated(t, timeline{Clock: clk, advance: clk.Advance}, 1, never, slowCalls())
	clk.Advance(time.Minute)
	first := allow(t, b) // The reading is noted.
	clk.Advance(-time.Hour)
	second := allow(t, b)
	clk.Advance(time.Hour + slow - ns)
	second(nil)
	assert.Equal(t, outcomes{successes: 1}, settled(b))
	clk.Advance(ns)
	third := allow(t, b)
	clk.Advance(-time.Hour)
	first(nil)
	assert.Equal(t, outcomes{successes: 1, failures: 1, slow: 1}, settled(b))
	third(nil)
	assert.Equal(t, outcomes{successes: 2, failures: 1, slow: 1}, settled(b))
}

// A Snapshot that looks ahead of a clock that steps back loses no call, and none becomes slow early.
func TestSnapshotAheadOfTheClockLosesNoCall(t *testing.T) {
	for name, rule := range map[string]seawall.BreakerOption{
		"rate":         seawall.WithFailureRate(1, never),
		"row":          seawall.WithConsecutiveFailures(never),
		"count window": seawall.WithCountWindow(10),
	} {
		t.Run(name, func(t *testing.T) {
			clk := newClock()
			b := newBreaker(t, rule, slowCalls(), seawall.WithClock(clk))
			done := allow(t, b)
			clk.Advance(time.Hour)
			assert.Equal(t, outcomes{failures: 1, slow: 1}, settled(b))
			clk.Advance(-time.Hour)
			for range 5 {
				wantAdmitted(t, b)
			}
			done(nil)
			assert.Equal(t, outcomes{successes: 6}, settled(b))
			assert.EqualValues(t, 6, b.Snapshot().Calls)
		})
	}
}

// Calls of a slot in which a success came add nothing to the row of failures when they become slow, and take nothing from
// it: what failed after that success stays in it.
func TestSlowCallsBesideASuccessLeaveTheRow(t *testing.T) {
	clk := newClock()
	b := newBreaker(t, seawall.WithSlowCallThreshold(8*time.Second), seawall.WithConsecutiveFailures(3), seawall.WithClock(clk))
	clk.Advance(500 * time.Millisecond)
	allow(t, b) // Hangs, and is found to be slow 1 ns before 9 s.
	clk.Advance(7700 * time.Millisecond)
	good, bad1, bad2, bad3 := allow(t, b), allow(t, b), allow(t, b), allow(t, b)
	good(nil)
	clk.Advance(100 * time.Millisecond)
	bad1(errBoom)
	bad2(errBoom)
	clk.Advance(time.Second)
	s := b.Snapshot()
	assert.EqualValues(t, 1, s.SlowCalls)
	assert.EqualValues(t, 2, s.ConsecutiveFailures)
	bad3(errBoom)
	assert.Equal(t, seawall.Open, b.State())
}

// What the option says is in force, and a value that is not legal is an error.
func TestSlowCallThresholdOption(t *testing.T) {
	assert.Zero(t, newBreaker(t).Settings().SlowCallThreshold, "off by default")
	assert.Equal(t, slow, newBreaker(t, slowCalls()).Settings().SlowCallThreshold)
	for _, d := range []time.Duration{0, -1} {
		_, err := seawall.NewBreaker("", seawall.WithSlowCallThreshold(d))
		require.EqualError(t, err, "seawall: WithSlowCallThreshold: d "+d.String()+" must be above 0")
	}
}
