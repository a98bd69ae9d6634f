package seawall_test

import (
	"encoding/json"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seawall-go/seawall"
)

// What can be read off a breaker, and that reading leaves no trace.

// G128: state and counts can be read at any time. Here is all of it, at each step of a story.
func TestSnapshotTellsTheStory(t *testing.T) {
	clk := newClock()
	b := br(t, clk, seawall.WithFailureRate(1, never), seawall.WithProbeSuccesses(2), seawall.WithProbes(2))
	start := clk.Now()
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	want := seawall.Snapshot{Name: "br", Since: start}
	want.Totals.ByReason = map[seawall.Reason]uint64{}
	step := func(what string) {
		t.Helper()
		assert.Equal(t, want, b.Snapshot(), what)
	}
	step("new")

	_, _, _, _ = do(b, ok), do(b, bad), do(b, bad), do(b, ignored)
	clk.Advance(time.Second)
	want.Calls, want.Failures, want.FailureRate, want.ConsecutiveFailures = 3, 2, 2.0/3, 2
	want.Totals.Successes, want.Totals.Failures, want.Totals.Ignored = 1, 2, 1
	want.Totals.TimeClosed = time.Second
	step("closed, with some calls")

	straggler, err := b.Allow(t.Context())
	require.NoError(t, err)
	_ = do(b, bad)
	clk.Advance(time.Second)
	want.State, want.Generation, want.Since, want.Reason = seawall.Open, 1, at(1), seawall.ReasonConsecutiveFailures
	want.Calls, want.Failures, want.FailureRate, want.ConsecutiveFailures = 0, 0, 0, 0
	want.RetryAfter = 9 * time.Second
	want.Totals.Failures, want.Totals.Opens, want.Totals.TimeOpen = 3, 1, time.Second
	want.Totals.ByReason[seawall.ReasonConsecutiveFailures] = 1
	step("open")

	wantRejected(t, b)
	straggler(nil)
	clk.Advance(10 * time.Second)
	want.State, want.RetryAfter = seawall.HalfOpen, 0
	want.Totals.Rejected, want.Totals.Late, want.Totals.TimeOpen = 1, 1, 11*time.Second
	step("cooled down, and nobody has called since")

	wantAdmitted(t, b)
	hung, err := b.Allow(t.Context())
	require.NoError(t, err)
	clk.Advance(time.Second)
	want.Generation, want.Since, want.Reason = 2, at(12), seawall.ReasonCooldownOver
	want.ProbesInFlight, want.ProbeSuccesses = 1, 1
	want.Totals.Successes, want.Totals.TimeHalfOpen = 2, time.Second
	want.Totals.ByReason[seawall.ReasonCooldownOver] = 1
	step("half-open")

	clk.Advance(9 * time.Second)
	want.ProbesInFlight, want.Totals.TimeHalfOpen = 0, 10*time.Second
	step("a probe has lost its place")

	hung(nil)
	clk.Advance(time.Second)
	want.State, want.Generation, want.Since, want.Reason = seawall.Closed, 3, at(22), seawall.ReasonProbesSucceeded
	want.ProbeSuccesses, want.Totals.Successes, want.Totals.TimeClosed = 0, 3, 2*time.Second
	want.Totals.ByReason[seawall.ReasonProbesSucceeded] = 1
	step("closed again")

	b.ForceOpen()
	clk.Advance(time.Hour)
	want.State, want.Forced, want.Generation, want.Since, want.Reason = seawall.Open, true, 4, at(23), seawall.ReasonForced
	want.RetryAfter = cooldown
	want.Totals.Opens, want.Totals.TimeOpen = 2, 11*time.Second+time.Hour
	want.Totals.ByReason[seawall.ReasonForced] = 1
	step("forced open")
}

// B73: whoever asks for the state, however often, changes nothing: the first caller after the cooldown is a probe all
// the same, and only with that call the breaker becomes half-open.
func TestReadingChangesNothing(t *testing.T) {
	onEachClock(t, func(t *testing.T, tl timeline) {
		var j journal
		b := tl.br(t, j.hook())
		readAll := func(want seawall.State) {
			t.Helper()
			for range 1000 {
				require.Equal(t, want, b.State())
				require.Equal(t, want, b.Snapshot().State)
				b.History()
				b.Settings()
				b.Name()
			}
		}
		trip(t, b)
		since := tl.Now()
		readAll(seawall.Open)
		tl.Advance(cooldown)
		readAll(seawall.HalfOpen)
		s := b.Snapshot()
		assert.EqualValues(t, 1, s.Generation)
		assert.WithinDuration(t, since, s.Since, 0)
		assert.Equal(t, seawall.ReasonConsecutiveFailures, s.Reason)
		assert.Equal(t, cooldown, s.Totals.TimeOpen)
		assert.Zero(t, s.Totals.TimeHalfOpen)
		assert.Len(t, j.all(), 1)

		tl.Advance(time.Second)
		done, err := b.Allow(t.Context())
		require.NoError(t, err)
		readAll(seawall.HalfOpen)
		assert.Equal(t, 1, b.Snapshot().ProbesInFlight)
		assert.Equal(t, cooldown+time.Second, b.Snapshot().Totals.TimeOpen, "open up to the first call")
		wantRejected(t, b)
		done(nil)
		assert.Equal(t, []string{edgeTripped, edgeCooled, edgeClosed}, j.edges())
	})
}

// A reading of the clock that only looks isn't noted: after a jump forth and back again, time goes on from where it
// was.
func TestReadingDoesNotNoteTheTime(t *testing.T) {
	clk := newClock()
	b := br(t, clk)
	trip(t, b)
	open := wantRejected(t, b)
	clk.Advance(time.Hour)
	assert.Equal(t, seawall.HalfOpen, b.State())
	assert.Equal(t, seawall.HalfOpen, b.Snapshot().State)
	b.History()
	assert.Zero(t, open.RetryAfter())
	clk.Advance(-time.Hour)
	assert.Equal(t, seawall.Open, b.State())
	assert.Equal(t, cooldown, open.RetryAfter())
	assert.Same(t, open, wantRejected(t, b))
}

// B15: while others trip, probe and close, each reader sees a breaker that makes sense, and no total ever falls.
func TestSnapshotsAreConsistent(t *testing.T) {
	clk := newClock()
	b := br(t, clk, seawall.WithFailureRate(1, never))
	start := clk.Now()
	stop := make(chan struct{})
	var readers, writers sync.WaitGroup
	for range 16 {
		readers.Go(func() {
			last := b.Snapshot()
			for {
				select {
				case <-stop:
					return
				default:
				}
				s := b.Snapshot()
				wantSound(t, s, 1)
				wantNotFallen(t, last.Totals, s.Totals)
				assert.GreaterOrEqual(t, s.Generation, last.Generation)
				last = s
			}
		})
	}
	for seed := range uint64(4) {
		writers.Go(func() {
			random := rand.New(rand.NewPCG(seed, 0))
			for range 2000 {
				switch random.IntN(8) {
				case 0:
					clk.Advance(time.Second)
				case 1, 2, 3:
					_ = do(b, ok)
				default:
					_ = do(b, bad)
				}
			}
		})
	}
	writers.Wait()
	close(stop)
	readers.Wait()

	totals := b.Snapshot().Totals
	assert.Equal(t, clk.Now().Sub(start), totals.TimeClosed+totals.TimeOpen+totals.TimeHalfOpen)
}

// wantSound checks what must hold of a snapshot at any time, of a breaker with the given number of places.
func wantSound(t *testing.T, s seawall.Snapshot, probes int) {
	t.Helper()
	var changes uint64
	for _, n := range s.Totals.ByReason {
		changes += n
	}
	opens := s.Totals.ByReason[seawall.ReasonFailureRate] + s.Totals.ByReason[seawall.ReasonConsecutiveFailures] +
		s.Totals.ByReason[seawall.ReasonProbeFailed] + s.Totals.ByReason[seawall.ReasonForced]
	ok := assert.Contains(t, []seawall.State{seawall.Closed, seawall.Open, seawall.HalfOpen}, s.State) &&
		assert.Equal(t, s.Generation, changes, "one reason for each change") &&
		assert.Equal(t, s.Totals.Opens, opens) &&
		assert.LessOrEqual(t, s.Failures, s.Calls) &&
		assert.LessOrEqual(t, s.ProbesInFlight, probes) &&
		assert.GreaterOrEqual(t, s.ProbesInFlight, 0) &&
		assert.GreaterOrEqual(t, s.RetryAfter, time.Duration(0)) &&
		assert.Equal(t, s.Forced, s.Reason == seawall.ReasonForced)
	if s.Calls > 0 {
		ok = ok && assert.InDelta(t, float64(s.Failures)/float64(s.Calls), s.FailureRate, 0)
	}
	if s.State == seawall.Closed {
		ok = ok && assert.Zero(t, s.RetryAfter) && assert.Zero(t, s.ProbesInFlight) && assert.Zero(t, s.ProbeSuccesses)
	} else {
		ok = ok && assert.Zero(t, s.Calls) && assert.Zero(t, s.ConsecutiveFailures)
	}
	if s.State == seawall.Open {
		ok = ok && assert.Positive(t, s.RetryAfter)
	}
	if !ok {
		t.Logf("%+v", s)
	}
}

func wantNotFallen(t *testing.T, was, is seawall.Totals) {
	t.Helper()
	a := []uint64{was.Successes, was.Failures, was.Ignored, was.Rejected, was.Late, was.Cancelled, was.Opens}
	b := []uint64{is.Successes, is.Failures, is.Ignored, is.Rejected, is.Late, is.Cancelled, is.Opens}
	for _, d := range []time.Duration{was.TimeClosed, was.TimeOpen, was.TimeHalfOpen} {
		a = append(a, uint64(d))
	}
	for _, d := range []time.Duration{is.TimeClosed, is.TimeOpen, is.TimeHalfOpen} {
		b = append(b, uint64(d))
	}
	for i := range a {
		assert.GreaterOrEqual(t, b[i], a[i], "%+v after %+v", is, was)
	}
	for reason, n := range was.ByReason {
		assert.GreaterOrEqual(t, is.ByReason[reason], n)
	}
}

// What is read can be kept as JSON and read back.
func TestReadingsAsJSON(t *testing.T) {
	clk := newClock()
	b := br(t, clk, seawall.WithFailureRate(0.5, 100), seawall.WithBackoff(time.Hour))
	half(t, b, clk)
	_, err := b.Allow(t.Context())
	require.NoError(t, err)
	wantRejected(t, b)

	var snapshot seawall.Snapshot
	text := throughJSON(t, b.Snapshot(), &snapshot)
	assert.WithinDuration(t, b.Snapshot().Since, snapshot.Since, 0)
	snapshot.Since = b.Snapshot().Since
	assert.Equal(t, b.Snapshot(), snapshot)
	for _, part := range []string{
		`"name":"br"`, `"state":"half-open"`, `"reason":"cooldown_over"`, `"retry_after_ns":`, `"probes_in_flight":1`,
		`"by_reason":{"consecutive_failures":1,"cooldown_over":1}`, `"time_open_ns":`, `"rejected":1`, `"forced":false`,
	} {
		assert.Contains(t, text, part)
	}

	var settings seawall.Settings
	text = throughJSON(t, b.Settings(), &settings)
	assert.Equal(t, b.Settings(), settings)
	assert.Contains(t, text, `"cooldown_ns":10000000000`)

	var change seawall.Change
	text = throughJSON(t, b.History()[0], &change)
	assert.WithinDuration(t, b.History()[0].At, change.At, 0)
	change.At = b.History()[0].At
	assert.Equal(t, b.History()[0], change)
	assert.Contains(t, text, `"from":"closed","to":"open","reason":"consecutive_failures"`)
}

// throughJSON writes v and reads it back into w, and returns the text in between.
func throughJSON(t *testing.T, v, w any) string {
	t.Helper()
	text, err := json.Marshal(v)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, w))
	return string(text)
}

// Settings are the options in force, defaults included.
func TestSettingsAreWhatIsInForce(t *testing.T) {
	want := seawall.Settings{
		FailureRate: 0.5, MinCalls: 20, ConsecutiveFailures: 10, Window: 10 * time.Second, Buckets: 10,
		Cooldown: 5 * time.Second, MaxRetryAfter: time.Minute, Probes: 1, ProbeSuccesses: 1,
	}
	assert.Equal(t, want, newBreaker(t).Settings())

	want = seawall.Settings{
		FailureRate: 0.25, MinCalls: 7, Window: time.Minute, Buckets: 6, Cooldown: time.Second, Backoff: time.Hour,
		Jitter: 0.1, MaxRetryAfter: 3 * time.Second, Probes: 2, ProbeSuccesses: 4, ProbeTimeout: 9 * time.Second,
	}
	assert.Equal(t, want, newBreaker(t,
		seawall.WithFailureRate(0.25, 7), seawall.WithWindow(time.Minute, 6), seawall.WithCooldown(time.Second),
		seawall.WithBackoff(time.Hour), seawall.WithJitter(0.1), seawall.WithMaxRetryAfter(3*time.Second),
		seawall.WithProbes(2), seawall.WithProbeSuccesses(4), seawall.WithProbeTimeout(9*time.Second),
	).Settings())
}

// G78, B35, B58, I9: a breaker has no goroutine and no timer, whatever its state: nothing has to be closed, and one
// that is dropped is gone.
func TestDroppedBreakersAreGone(t *testing.T) {
	before := runtime.NumGoroutine()
	var dropped []weak.Pointer[seawall.Breaker]
	for i := range 1000 {
		b := newBreaker(t, seawall.WithConsecutiveFailures(3), seawall.WithCooldown(time.Hour),
			seawall.WithOnStateChange(func(seawall.StateChange) {}))
		if i%2 == 0 {
			trip(t, b)
			wantRejected(t, b)
		} else {
			b.ForceOpen()
		}
		dropped = append(dropped, weak.Make(b))
	}
	assert.LessOrEqual(t, runtime.NumGoroutine(), before)

	runtime.GC()
	alive := 0
	for _, p := range dropped {
		if p.Value() != nil {
			alive++
		}
	}
	assert.LessOrEqual(t, alive, 1, "one may still be on the stack")
}
