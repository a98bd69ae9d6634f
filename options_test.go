package seawall_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seawall-go/seawall"
)

// badOption is an option with values that are not legal, and what the constructor says to it: a line for each value.
type badOption[O any] struct {
	option O
	says   string
}

// G113, G116: every kind of option and every kind of bad value.
func badBreakerOptions() []badOption[seawall.BreakerOption] {
	var noFunc func(seawall.Trip) time.Duration
	var noClock *clock.Mock
	return []badOption[seawall.BreakerOption]{
		{seawall.WithFailureRate(math.NaN(), 1), "WithFailureRate: rate NaN must be above 0 and at most 1"},
		{seawall.WithFailureRate(math.Inf(1), 1), "WithFailureRate: rate +Inf must be above 0 and at most 1"},
		{seawall.WithFailureRate(math.Inf(-1), 1), "WithFailureRate: rate -Inf must be above 0 and at most 1"},
		{seawall.WithFailureRate(0, 1), "WithFailureRate: rate 0 must be above 0 and at most 1"},
		{seawall.WithFailureRate(math.Copysign(0, -1), 1), "WithFailureRate: rate -0 must be above 0 and at most 1"},
		{seawall.WithFailureRate(-0.5, 1), "WithFailureRate: rate -0.5 must be above 0 and at most 1"},
		{
			seawall.WithFailureRate(math.Nextafter(1, 2), 1),
			"WithFailureRate: rate 1.0000000000000002 must be above 0 and at most 1",
		},
		{seawall.WithFailureRate(50, 1), "WithFailureRate: rate 50 must be above 0 and at most 1"},
		{seawall.WithFailureRate(0.5, 0), "WithFailureRate: minCalls 0 must be at least 1"},
		{seawall.WithFailureRate(0.5, -1), "WithFailureRate: minCalls -1 must be at least 1"},
		{
			seawall.WithFailureRate(2, math.MinInt), "WithFailureRate: rate 2 must be above 0 and at most 1\n" +
				fmt.Sprintf("WithFailureRate: minCalls %d must be at least 1", math.MinInt),
		},
		{seawall.WithConsecutiveFailures(0), "WithConsecutiveFailures: n 0 must be at least 1"},
		{seawall.WithConsecutiveFailures(-3), "WithConsecutiveFailures: n -3 must be at least 1"},
		{seawall.WithSlowCallThreshold(0), "WithSlowCallThreshold: d 0s must be above 0"},
		{seawall.WithSlowCallThreshold(-ns), "WithSlowCallThreshold: d -1ns must be above 0"},
		{seawall.WithWindow(0, 10), "WithWindow: d 0s must be at least 1ms for each bucket"},
		{seawall.WithWindow(-time.Second, 10), "WithWindow: d -1s must be at least 1ms for each bucket"},
		{
			seawall.WithWindow(math.MinInt64, 1),
			"WithWindow: d -2562047h47m16.854775808s must be at least 1ms for each bucket",
		},
		{seawall.WithWindow(10*time.Millisecond-ns, 10), "WithWindow: d 9.999999ms must be at least 1ms for each bucket"},
		{seawall.WithWindow(time.Hour, 0), "WithWindow: buckets 0 must be from 1 to 1000"},
		{seawall.WithWindow(time.Hour, -1), "WithWindow: buckets -1 must be from 1 to 1000"},
		{seawall.WithWindow(math.MaxInt64, 1001), "WithWindow: buckets 1001 must be from 1 to 1000"},
		{
			seawall.WithWindow(-1, 0),
			"WithWindow: buckets 0 must be from 1 to 1000\nWithWindow: d -1ns must be at least 1ms for each bucket",
		},
		{seawall.WithCountWindow(0), "WithCountWindow: n 0 must be from 1 to 1048576"},
		{seawall.WithCountWindow(-1), "WithCountWindow: n -1 must be from 1 to 1048576"},
		{seawall.WithCountWindow(1<<20 + 1), "WithCountWindow: n 1048577 must be from 1 to 1048576"},
		{seawall.WithCooldown(0), "WithCooldown: d 0s must be above 0"},
		{seawall.WithCooldown(-time.Second), "WithCooldown: d -1s must be above 0"},
		{seawall.WithBackoff(0), "WithBackoff: max 0s must be above 0"},
		{seawall.WithBackoff(-time.Second), "WithBackoff: max -1s must be above 0"},
		{seawall.WithBackoff(5*time.Second - ns), "WithBackoff: max 4.999999999s must be at least the cooldown of 5s"},
		{seawall.WithJitter(math.NaN()), "WithJitter: f NaN must be from 0 to 1"},
		{seawall.WithJitter(math.Inf(1)), "WithJitter: f +Inf must be from 0 to 1"},
		{seawall.WithJitter(math.Inf(-1)), "WithJitter: f -Inf must be from 0 to 1"},
		{seawall.WithJitter(-0.1), "WithJitter: f -0.1 must be from 0 to 1"},
		{seawall.WithJitter(1.5), "WithJitter: f 1.5 must be from 0 to 1"},
		{seawall.WithCooldownFunc(noFunc), "WithCooldownFunc: the argument must not be nil"},
		{seawall.WithMaxRetryAfter(-ns), "WithMaxRetryAfter: d -1ns must be at least 0"},
		{seawall.WithProbes(0), "WithProbes: n 0 must be at least 1"},
		{seawall.WithProbes(-1), "WithProbes: n -1 must be at least 1"},
		{seawall.WithProbeSuccesses(0), "WithProbeSuccesses: n 0 must be at least 1"},
		{seawall.WithProbeSuccesses(-1), "WithProbeSuccesses: n -1 must be at least 1"},
		{seawall.WithProbeTimeout(0), "WithProbeTimeout: d 0s must be above 0"},
		{seawall.WithProbeTimeout(-time.Second), "WithProbeTimeout: d -1s must be above 0"},
		{seawall.WithClassifier(nil), "WithClassifier: the argument must not be nil"},
		{seawall.WithOnStateChange(nil), "WithOnStateChange: the argument must not be nil"},
		{seawall.WithMode(-1), "WithMode: mode Mode(-1) must be Enforce, Observe or Off"},
		{seawall.WithMode(3), "WithMode: mode Mode(3) must be Enforce, Observe or Off"},
		{seawall.WithClock(nil), "WithClock: the argument must not be nil"},
		{seawall.WithClock(noClock), "WithClock: the argument must not be nil"},
		{nil, "option 1 of the list is nil"},
	}
}

func badBulkheadOptions() []badOption[seawall.BulkheadOption] {
	var noClock *clock.Mock
	return []badOption[seawall.BulkheadOption]{
		{seawall.WithMaxWait(-ns), "WithMaxWait: d -1ns must be at least 0"},
		{seawall.WithMaxWait(math.MinInt64), "WithMaxWait: d -2562047h47m16.854775808s must be at least 0"},
		{seawall.WithMaxQueue(-1), "WithMaxQueue: n -1 must be at least 0"},
		{seawall.WithClock(nil), "WithClock: the argument must not be nil"},
		{seawall.WithClock(noClock), "WithClock: the argument must not be nil"},
		{nil, "option 1 of the list is nil"},
	}
}

// lines returns the lines of err's text without the library's prefix, which each must have.
func lines(t *testing.T, err error) []string {
	t.Helper()
	require.Error(t, err)
	var lines []string
	for line := range strings.Lines(err.Error()) {
		text, found := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "seawall: ")
		assert.True(t, found, "%q", line)
		lines = append(lines, text)
	}
	return lines
}

// Whatever is not legal is an error that names the option, the value and the legal range, and there is no breaker.
func TestNewBreakerRefusesWhatIsNotLegal(t *testing.T) {
	for _, bad := range badBreakerOptions() {
		b, err := seawall.NewBreaker("br", bad.option)
		assert.Nil(t, b)
		assert.Equal(t, bad.says, strings.Join(lines(t, err), "\n"))
	}
}

func TestNewBulkheadRefusesWhatIsNotLegal(t *testing.T) {
	for _, bad := range badBulkheadOptions() {
		b, err := seawall.NewBulkhead("bh", 1, bad.option)
		assert.Nil(t, b)
		assert.Equal(t, bad.says, strings.Join(lines(t, err), "\n"))
	}
}

// G100: a bulkhead needs at least one slot, and has at most 1<<20.
func TestNewBulkheadRefusesLimitsThatAreNotLegal(t *testing.T) {
	for _, limit := range []int{0, -1, 1<<20 + 1, math.MinInt, math.MaxInt} {
		b, err := seawall.NewBulkhead("bh", limit)
		assert.Nil(t, b)
		require.EqualError(t, err, fmt.Sprintf("seawall: NewBulkhead: limit %d must be from 1 to 1048576", limit))
	}
	for _, limit := range []int{1, 1 << 20} {
		assert.Equal(t, limit, bh(t, limit).Limit())
	}
}

// All that is wrong is said at once, also of options that a later one overrides.
func TestNewBreakerNamesAllFaultsAtOnce(t *testing.T) {
	var opts []seawall.BreakerOption
	var says []string
	for _, bad := range badBreakerOptions() {
		if strings.Contains(bad.says, "at least the cooldown") {
			continue // Legal by itself, and overridden by what comes later.
		}
		opts = append(opts, bad.option)
		if bad.option == nil {
			bad.says = fmt.Sprintf("option %d of the list is nil", len(opts))
		}
		says = append(says, strings.Split(bad.says, "\n")...)
	}
	says = append(says, "WithWindow and WithCountWindow: only one of them may be given")
	_, err := seawall.NewBreaker("br", opts...)
	assert.ElementsMatch(t, says, lines(t, err))
}

func TestNewBulkheadNamesAllFaultsAtOnce(t *testing.T) {
	_, err := seawall.NewBulkhead("bh", 0,
		seawall.WithMaxWait(-1), seawall.WithMaxQueue(-2), nil, seawall.WithClock(nil), seawall.WithMaxWait(1))
	assert.Equal(t, []string{
		"NewBulkhead: limit 0 must be from 1 to 1048576",
		"WithMaxWait: d -1ns must be at least 0",
		"WithMaxQueue: n -2 must be at least 0",
		"option 3 of the list is nil",
		"WithClock: the argument must not be nil",
	}, lines(t, err))
}

// Options that are right each for itself may not go together. The order makes no difference.
func TestNewBreakerRefusesOptionsThatDoNotGoTogether(t *testing.T) {
	const (
		windows = "WithWindow and WithCountWindow: only one of them may be given"
		backoff = "WithBackoff and WithCooldownFunc: only one of them may be given"
		short   = "WithBackoff: max 9s must be at least the cooldown of 10s"
	)
	plain := func(trip seawall.Trip) time.Duration { return trip.Cooldown }
	for name, test := range map[string]struct {
		opts []seawall.BreakerOption
		says []string
	}{
		"two windows": {
			[]seawall.BreakerOption{seawall.WithWindow(time.Minute, 6), seawall.WithCountWindow(100)},
			[]string{windows},
		},
		"two windows, one as it is by default": {
			[]seawall.BreakerOption{seawall.WithWindow(10*time.Second, 10), seawall.WithCountWindow(100)},
			[]string{windows},
		},
		"two who decide about the cooldown": {
			[]seawall.BreakerOption{seawall.WithBackoff(time.Minute), seawall.WithCooldownFunc(plain)},
			[]string{backoff},
		},
		"back-off below the cooldown": {
			[]seawall.BreakerOption{seawall.WithBackoff(9 * time.Second), seawall.WithCooldown(10 * time.Second)},
			[]string{short},
		},
		"fewer calls than a rate needs": {
			[]seawall.BreakerOption{seawall.WithCountWindow(10), seawall.WithFailureRate(0.5, 11)},
			[]string{"WithCountWindow: n 10 must be at least the minCalls of 11 of WithFailureRate"},
		},
		"all of it": {
			[]seawall.BreakerOption{
				seawall.WithBackoff(9 * time.Second), seawall.WithCooldown(10 * time.Second), seawall.WithCooldownFunc(plain),
				seawall.WithWindow(time.Minute, 6), seawall.WithCountWindow(100),
			},
			[]string{windows, backoff, short},
		},
	} {
		t.Run(name, func(t *testing.T) {
			for range 10 {
				_, err := seawall.NewBreaker("br", test.opts...)
				assert.Equal(t, test.says, lines(t, err))
				shuffle(1, test.opts)
			}
		})
	}
}

func shuffle[T any](seed uint64, list []T) {
	rand.New(rand.NewPCG(seed, 5)).Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
}

// The defaults of design and README.
func TestSettingsByDefault(t *testing.T) {
	want := seawall.Settings{
		FailureRate: 0.5, MinCalls: 20, ConsecutiveFailures: 10,
		Window: 10 * time.Second, Buckets: 10,
		Cooldown: 5 * time.Second, MaxRetryAfter: time.Minute,
		Probes: 1, ProbeSuccesses: 1,
	}
	b := newBreaker(t)
	assert.Equal(t, want, b.Settings())

	text, err := json.Marshal(b.Settings())
	require.NoError(t, err)
	assert.JSONEq(t, `{
		"failure_rate": 0.5, "min_calls": 20, "consecutive_failures": 10, "slow_call_threshold_ns": 0,
		"window_ns": 10000000000, "buckets": 10, "count_window": 0,
		"cooldown_ns": 5000000000, "backoff_ns": 0, "jitter": 0, "max_retry_after_ns": 60000000000,
		"probes": 1, "probe_successes": 1, "probe_timeout_ns": 0, "mode": "enforce"
	}`, string(text))

	limits := bh(t, 7).Snapshot()
	assert.Equal(t, seawall.BulkheadSnapshot{Name: "bh", Limit: 7, MaxQueue: -1}, limits)
}

// Nothing is corrected: Settings are what was given, in whatever order.
func TestSettingsAreWhatWasGiven(t *testing.T) {
	opts := []seawall.BreakerOption{
		seawall.WithFailureRate(0.25, 7), seawall.WithConsecutiveFailures(3), seawall.WithSlowCallThreshold(2 * time.Second),
		seawall.WithWindow(12*time.Second, 6), seawall.WithCooldown(4 * time.Second), seawall.WithBackoff(40 * time.Second),
		seawall.WithJitter(0.1), seawall.WithMaxRetryAfter(9 * time.Second), seawall.WithProbes(5),
		seawall.WithProbeSuccesses(8), seawall.WithProbeTimeout(11 * time.Second), seawall.WithMode(seawall.Observe),
		seawall.WithClock(newClock()),
	}
	want := seawall.Settings{
		FailureRate: 0.25, MinCalls: 7, ConsecutiveFailures: 3, SlowCallThreshold: 2 * time.Second,
		Window: 12 * time.Second, Buckets: 6, Cooldown: 4 * time.Second, Backoff: 40 * time.Second,
		Jitter: 0.1, MaxRetryAfter: 9 * time.Second, Probes: 5,
		ProbeSuccesses: 8, ProbeTimeout: 11 * time.Second, Mode: seawall.Observe,
	}
	for seed := range uint64(20) {
		assert.Equal(t, want, newBreaker(t, opts...).Settings())
		shuffle(seed, opts)
	}
}

// A rule that is given replaces both default rules; what is chosen in place of something else leaves that out.
func TestSettingsOfWhatReplacesADefault(t *testing.T) {
	byDefault := newBreaker(t).Settings()
	for name, test := range map[string]struct {
		opts   []seawall.BreakerOption
		change func(s *seawall.Settings)
	}{
		"rate only": {
			[]seawall.BreakerOption{seawall.WithFailureRate(0.5, 20)},
			func(s *seawall.Settings) { s.ConsecutiveFailures = 0 },
		},
		"consecutive only": {
			[]seawall.BreakerOption{seawall.WithConsecutiveFailures(10)},
			func(s *seawall.Settings) { s.FailureRate, s.MinCalls = 0, 0 },
		},
		"last calls": {
			[]seawall.BreakerOption{seawall.WithCountWindow(50)},
			func(s *seawall.Settings) { s.Window, s.Buckets, s.CountWindow = 0, 0, 50 },
		},
		"last calls, few": {
			[]seawall.BreakerOption{seawall.WithCountWindow(5)},
			func(s *seawall.Settings) { s.Window, s.Buckets, s.CountWindow, s.MinCalls = 0, 0, 5, 5 },
		},
		"slow calls are no rule": {
			[]seawall.BreakerOption{seawall.WithSlowCallThreshold(time.Second)},
			func(s *seawall.Settings) { s.SlowCallThreshold = time.Second },
		},
	} {
		want := byDefault
		test.change(&want)
		assert.Equal(t, want, newBreaker(t, test.opts...).Settings(), name)
	}
}

// Of an option given twice the last one holds, whole.
func TestLastOptionHolds(t *testing.T) {
	s := newBreaker(t,
		seawall.WithFailureRate(0.1, 100), seawall.WithFailureRate(0.2, 5),
		seawall.WithConsecutiveFailures(9), seawall.WithConsecutiveFailures(8),
		seawall.WithWindow(time.Hour, 60), seawall.WithWindow(time.Second, 4),
		seawall.WithBackoff(time.Second), seawall.WithBackoff(time.Minute), // The first is below the cooldown.
		seawall.WithJitter(1), seawall.WithJitter(0),
		seawall.WithProbes(9), seawall.WithProbes(2),
		seawall.WithMode(seawall.Off), seawall.WithMode(seawall.Enforce),
	).Settings()
	assert.Equal(t, seawall.Settings{
		FailureRate: 0.2, MinCalls: 5, ConsecutiveFailures: 8, Window: time.Second, Buckets: 4,
		Cooldown: 5 * time.Second, Backoff: time.Minute, MaxRetryAfter: time.Minute, Probes: 2, ProbeSuccesses: 1,
	}, s)

	b := bh(t, 1, seawall.WithMaxQueue(5), seawall.WithMaxWait(time.Hour), seawall.WithMaxQueue(0), noWait())
	assert.Zero(t, b.Snapshot().MaxQueue)
	assert.Zero(t, bh(t, 1, seawall.WithMaxQueue(5), seawall.WithMaxWait(0)).Snapshot().MaxQueue, "nobody waits")
	h := hold(t, b)
	wantRejectedBy(t, b)
	require.NoError(t, h.finish(nil))

	asked := ""
	classifier := func(name string) seawall.BreakerOption {
		return seawall.WithClassifier(func(context.Context, error) seawall.Outcome { asked += name; return seawall.Ignored })
	}
	require.ErrorIs(t, do(newBreaker(t, classifier("first"), classifier("last")), bad), errBoom)
	assert.Equal(t, "last", asked)
}

// An option is a value: any number of breakers can be made of one list.
func TestOptionsMayBeSharedByBreakers(t *testing.T) {
	changes := 0
	opts := []seawall.BreakerOption{
		seawall.WithConsecutiveFailures(1), seawall.WithOnStateChange(func(seawall.StateChange) { changes++ }),
	}
	for i := range 3 {
		b := newBreaker(t, opts...)
		require.ErrorIs(t, do(b, bad), errBoom)
		wantState(t, b, seawall.Open)
		assert.Equal(t, i+1, changes)
	}
}

// G71: WithClock fits both guards, and the Mock that many tests have already fits it.
func TestClockOptionFitsBothGuards(t *testing.T) {
	option := seawall.WithClock(clock.NewMock())
	assert.Equal(t, int64(0), newBreaker(t, option).Snapshot().Since.UnixNano(), "where the Mock begins")
	require.NoError(t, do(bh(t, 1, option), ok))
}

// Any name will do, and it is kept as it is.
func TestNamesMayBeAnything(t *testing.T) {
	for _, name := range []string{"", " ", "a/b", "ä%s\n", strings.Repeat("long", 1000)} {
		b, err := seawall.NewBreaker(name)
		require.NoError(t, err)
		assert.Equal(t, name, b.Name())
		bulkhead, err := seawall.NewBulkhead(name, 1)
		require.NoError(t, err)
		assert.Equal(t, name, bulkhead.Name())
	}
}

// legalExtremes has the ends of every legal range.
func legalExtremes() []seawall.BreakerOption {
	const never, tiny = math.MaxInt64, math.SmallestNonzeroFloat64
	return []seawall.BreakerOption{
		seawall.WithFailureRate(tiny, 1), seawall.WithFailureRate(1, 1), seawall.WithFailureRate(1, math.MaxInt),
		seawall.WithConsecutiveFailures(1), seawall.WithConsecutiveFailures(math.MaxInt),
		seawall.WithSlowCallThreshold(1), seawall.WithSlowCallThreshold(never),
		seawall.WithWindow(time.Millisecond, 1), seawall.WithWindow(time.Second, 1000),
		seawall.WithWindow(never, 1), seawall.WithWindow(never, 1000),
		seawall.WithCountWindow(1), seawall.WithCountWindow(1 << 20),
		seawall.WithCooldown(1), seawall.WithCooldown(never),
		seawall.WithBackoff(5 * time.Second), seawall.WithBackoff(never), // The first is the default cooldown.
		seawall.WithJitter(math.Copysign(0, -1)), seawall.WithJitter(0), seawall.WithJitter(1),
		seawall.WithMaxRetryAfter(0), seawall.WithMaxRetryAfter(never),
		seawall.WithProbes(1), seawall.WithProbes(math.MaxInt),
		seawall.WithProbeSuccesses(1), seawall.WithProbeSuccesses(math.MaxInt),
		seawall.WithProbeTimeout(1), seawall.WithProbeTimeout(never),
		seawall.WithMode(seawall.Enforce), seawall.WithMode(seawall.Observe), seawall.WithMode(seawall.Off),
	}
}

// G113: the ends of every legal range are legal, and a breaker that is made of them works, each alone and together at
// random: whatever happens at whatever time, nothing panics and no wait is negative.
func TestBreakerWorksWithLegalExtremes(t *testing.T) {
	extremes := legalExtremes()
	for _, option := range extremes {
		abuse(t, option)
	}
	made := 0
	for seed := range uint64(300) {
		shuffle(seed, extremes)
		opts := slices.Clone(extremes[:5])
		if _, err := seawall.NewBreaker("br", opts...); err == nil { // Some do not go together.
			abuse(t, opts...)
			made++
		}
	}
	assert.Greater(t, made, 100)
}

// abuse makes calls that end in every way at every time.
func abuse(t *testing.T, opts ...seawall.BreakerOption) {
	t.Helper()
	clk := newClock()
	b := newBreaker(t, append(opts, seawall.WithClock(clk))...)
	pending, err := b.Allow(t.Context())
	require.NoError(t, err)
	for _, step := range []time.Duration{0, 1, time.Second, -time.Hour, math.MaxInt64 / 2, math.MaxInt64} {
		clk.Advance(step)
		for _, fn := range []func(context.Context) error{ok, bad, ok, bad, bad} {
			_ = do(b, fn)
			require.GreaterOrEqual(t, b.Snapshot().RetryAfter, time.Duration(0))
		}
	}
	pending(nil)
	b.ForceOpen()
	b.Reset()
	wantState(t, b, seawall.Closed)
}
