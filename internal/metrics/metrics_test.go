package metrics_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seawall-go/seawall"
	"github.com/seawall-go/seawall/internal/metrics"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errBoom = errors.New("boom")

func ok(context.Context) error  { return nil }
func bad(context.Context) error { return errBoom }

// set is a Set whose series are texts like "bulkhead.calls pool accepted".
type set struct{ *metrics.Set[string] }

func newSet() set {
	return set{metrics.NewSet(func(i *metrics.Instrument, attributes []string) string {
		return strings.Join(append([]string{i.Name}, attributes...), " ")
	})}
}

// collect returns the values of all series; none must be told twice.
func (s set) collect(t *testing.T) map[string]float64 {
	t.Helper()
	values := map[string]float64{}
	s.Collect(func(series string, value float64) {
		assert.NotContains(t, values, series, "told twice")
		values[series] = value
	})
	return values
}

// fakeClock stands still until a test moves it.
type fakeClock struct{ now time.Time }

func newClock() *fakeClock                                { return &fakeClock{time.Unix(1_000_000, 0)} }
func (c *fakeClock) Now() time.Time                       { return c.now }
func (c *fakeClock) After(time.Duration) <-chan time.Time { return nil }
func (c *fakeClock) Advance(d time.Duration)              { c.now = c.now.Add(d) }

// br is a breaker that trips at 3 failures in a row, or at half of at least 4 calls.
func br(t *testing.T, name string, opts ...seawall.BreakerOption) *seawall.Breaker {
	t.Helper()
	b, err := seawall.NewBreaker(name, append([]seawall.BreakerOption{
		seawall.WithConsecutiveFailures(3), seawall.WithFailureRate(0.5, 4), seawall.WithCooldown(10 * time.Second),
	}, opts...)...)
	require.NoError(t, err)
	return b
}

func do(p seawall.Policy, fn func(context.Context) error) { _ = p.Do(context.Background(), fn) }

func trip(b *seawall.Breaker) {
	for range 3 {
		do(b, bad)
	}
}

// statuses returns the states that name is said to be in.
func statuses(values map[string]float64, name string) (in []string) {
	for _, s := range []string{"closed", "open", "half_open", "forced_open", "disabled"} {
		if values["circuit_breaker.status "+name+" "+s] == 1 {
			in = append(in, s)
		}
	}
	return in
}

func TestAFreshBreakerTellsAllButTheRatio(t *testing.T) {
	s := newSet()
	require.NoError(t, s.AddBreaker(br(t, "b", seawall.WithClock(newClock()))))
	assert.Equal(t, map[string]float64{
		"circuit_breaker.status b closed":                                 1,
		"circuit_breaker.status b open":                                   0,
		"circuit_breaker.status b half_open":                              0,
		"circuit_breaker.status b forced_open":                            0,
		"circuit_breaker.status b disabled":                               0,
		"circuit_breaker.calls b success":                                 0,
		"circuit_breaker.calls b failure":                                 0,
		"circuit_breaker.calls b ignored":                                 0,
		"circuit_breaker.calls b rejected":                                0,
		"circuit_breaker.calls b would_reject":                            0,
		"circuit_breaker.calls b late":                                    0,
		"circuit_breaker.calls b abandoned":                               0,
		"circuit_breaker.slow_calls b":                                    0,
		"circuit_breaker.transitions b open closed failure_rate":          0,
		"circuit_breaker.transitions b open closed consecutive_failures":  0,
		"circuit_breaker.transitions b half_open open cooldown_over":      0,
		"circuit_breaker.transitions b closed half_open probes_succeeded": 0,
		"circuit_breaker.transitions b open half_open probe_failed":       0,
		"circuit_breaker.transitions b forced_open any forced":            0,
		"circuit_breaker.transitions b closed any reset":                  0,
		"circuit_breaker.transitions b disabled any mode_changed":         0,
		"circuit_breaker.transitions b closed disabled mode_changed":      0,
		"circuit_breaker.state_time b closed":                             0,
		"circuit_breaker.state_time b open":                               0,
		"circuit_breaker.state_time b half_open":                          0,
		"circuit_breaker.window.calls b success":                          0,
		"circuit_breaker.window.calls b failure":                          0,
	}, s.collect(t))
}

// G35: the state is read when it is asked for, so it can't lag behind.
func TestEveryStateAndReasonIsTold(t *testing.T) {
	clk := newClock()
	b := br(t, "b", seawall.WithClock(clk))
	s := newSet()
	require.NoError(t, s.AddBreaker(b))
	step := func(state, transition string) {
		t.Helper()
		values := s.collect(t)
		assert.Equal(t, []string{state}, statuses(values, "b"))
		assert.Positive(t, values["circuit_breaker.transitions b "+transition], transition)
	}

	trip(b)
	step("open", "open closed consecutive_failures")
	clk.Advance(10 * time.Second)
	assert.Equal(t, []string{"half_open"}, statuses(s.collect(t), "b"), "what the next caller would meet")
	do(b, bad)
	step("open", "open half_open probe_failed")
	step("open", "half_open open cooldown_over")
	clk.Advance(10 * time.Second)
	do(b, ok)
	step("closed", "closed half_open probes_succeeded")
	for _, fn := range []func(context.Context) error{bad, ok, ok, bad} {
		do(b, fn)
	}
	step("open", "open closed failure_rate")
	b.ForceOpen()
	step("forced_open", "forced_open any forced")
	b.Reset()
	step("closed", "closed any reset")
	require.NoError(t, b.SetMode(seawall.Off))
	step("disabled", "disabled any mode_changed")
	assert.Zero(t, s.collect(t)["circuit_breaker.transitions b closed disabled mode_changed"])
	require.NoError(t, b.SetMode(seawall.Enforce))
	step("closed", "closed disabled mode_changed")
}

func TestABreakerThatStartsOffIsSwitchedOnFirst(t *testing.T) {
	b := br(t, "b", seawall.WithMode(seawall.Off))
	s := newSet()
	require.NoError(t, s.AddBreaker(b))
	assert.Equal(t, []string{"disabled"}, statuses(s.collect(t), "b"))

	require.NoError(t, b.SetMode(seawall.Observe))
	require.NoError(t, b.SetMode(seawall.Enforce)) // Changes no state.
	values := s.collect(t)
	assert.Equal(t, []string{"closed"}, statuses(values, "b"))
	assert.InDelta(t, 1, values["circuit_breaker.transitions b closed disabled mode_changed"], 0)
	assert.InDelta(t, 0, values["circuit_breaker.transitions b disabled any mode_changed"], 0)
}

func TestEachCallHasOneOutcome(t *testing.T) {
	clk := newClock()
	b := br(t, "b", seawall.WithClock(clk))
	s := newSet()
	require.NoError(t, s.AddBreaker(b))

	gone, cancel := context.WithCancel(t.Context())
	cancel()
	do(b, ok)
	_ = b.Do(gone, ok)
	do(b, func(context.Context) error { return seawall.MarkIgnored(errBoom) })
	late, err := b.Allow(t.Context())
	require.NoError(t, err)
	trip(b)
	late(nil)
	do(b, ok)
	require.NoError(t, b.SetMode(seawall.Observe))
	do(b, ok)

	values := s.collect(t)
	for outcome, want := range map[string]int{
		"success": 1, "failure": 3, "ignored": 1, "rejected": 1, "would_reject": 1, "late": 1, "abandoned": 1,
	} {
		assert.EqualValues(t, want, values["circuit_breaker.calls b "+outcome], outcome)
	}
	assert.Equal(t, []string{"open"}, statuses(values, "b"), "to observe is to have the state that would be enforced")
}

func TestSlowCallsAreFailures(t *testing.T) {
	clk := newClock()
	b := br(t, "b", seawall.WithClock(clk), seawall.WithSlowCallThreshold(time.Second))
	s := newSet()
	require.NoError(t, s.AddBreaker(b))
	do(b, func(context.Context) error { clk.Advance(2 * time.Second); return nil })
	values := s.collect(t)
	assert.EqualValues(t, 1, values["circuit_breaker.slow_calls b"])
	assert.EqualValues(t, 1, values["circuit_breaker.calls b failure"])
	assert.EqualValues(t, 1, values["circuit_breaker.window.calls b failure"])
}

func TestTheRatioIsAbsentWhereNoRuleLooksAtIt(t *testing.T) {
	for name, c := range map[string]struct {
		opts  []seawall.BreakerOption
		calls int
		want  bool
	}{
		"one call less than the rule needs": {calls: 3},
		"as many as the rule needs":         {calls: 4, want: true},
		"no such rule": {calls: 100, opts: []seawall.BreakerOption{
			seawall.WithConsecutiveFailures(3),
		}},
	} {
		t.Run(name, func(t *testing.T) {
			b := seawall.Must(seawall.NewBreaker("b", c.opts...))
			if c.opts == nil {
				b = br(t, "b")
			}
			s := newSet()
			require.NoError(t, s.AddBreaker(b))
			do(b, bad)
			for range c.calls - 1 {
				do(b, ok)
			}
			value, there := s.collect(t)["circuit_breaker.failure_ratio b"]
			assert.Equal(t, c.want, there)
			if c.want {
				assert.InDelta(t, 0.25, value, 0)
			}
		})
	}
}

func TestCallsInTheWindow(t *testing.T) {
	clk := newClock()
	b := br(t, "b", seawall.WithClock(clk))
	s := newSet()
	require.NoError(t, s.AddBreaker(b))
	for _, fn := range []func(context.Context) error{ok, ok, bad, ok} {
		do(b, fn)
	}
	values := s.collect(t)
	assert.EqualValues(t, 3, values["circuit_breaker.window.calls b success"])
	assert.EqualValues(t, 1, values["circuit_breaker.window.calls b failure"])
	clk.Advance(time.Minute)
	values = s.collect(t)
	assert.Zero(t, values["circuit_breaker.window.calls b success"])
	assert.EqualValues(t, 3, values["circuit_breaker.calls b success"])
}

func TestTimeInEachState(t *testing.T) {
	clk := newClock()
	b := br(t, "b", seawall.WithClock(clk))
	s := newSet()
	require.NoError(t, s.AddBreaker(b))
	clk.Advance(1500 * time.Millisecond)
	trip(b)
	clk.Advance(10 * time.Second)
	do(b, func(context.Context) error { clk.Advance(2 * time.Second); return nil })
	values := s.collect(t)
	assert.InDelta(t, 1.5, values["circuit_breaker.state_time b closed"], 0)
	assert.InDelta(t, 10, values["circuit_breaker.state_time b open"], 0)
	assert.InDelta(t, 2, values["circuit_breaker.state_time b half_open"], 0)
}

// B71: what runs is read when it is asked for, also while calls are rejected.
func TestABulkhead(t *testing.T) {
	clk := newClock()
	bounded := seawall.Must(seawall.NewBulkhead("b", 2, seawall.WithMaxQueue(0), seawall.WithClock(clk)))
	free := seawall.Must(seawall.NewBulkhead("free", 1))
	s := newSet()
	require.NoError(t, s.AddBulkhead(bounded))
	require.NoError(t, s.AddBulkhead(free))
	for range 3 {
		_, _ = bounded.Acquire(t.Context())
	}
	values := s.collect(t)
	for series, want := range map[string]int{
		"calls b accepted": 2, "calls b rejected_full": 1, "calls b rejected_timeout": 0, "calls b abandoned": 0,
		"running b": 2, "limit b": 2, "waiting b": 0, "queue_limit b": 0, "wait_time b": 0,
	} {
		value, there := values["bulkhead."+series]
		assert.True(t, there, series)
		assert.EqualValues(t, want, value, series)
	}
	assert.NotContains(t, values, "bulkhead.queue_limit free", "there is no limit to tell")
	assert.Contains(t, values, "bulkhead.waiting free")
}

func TestInstruments(t *testing.T) {
	rendered := map[*metrics.Instrument]bool{}
	s := metrics.NewSet(func(i *metrics.Instrument, attributes []string) string {
		rendered[i] = true
		assert.Len(t, attributes, len(i.Attributes), i.Name)
		return ""
	})
	require.NoError(t, s.AddBreaker(br(t, "b")))
	require.NoError(t, s.AddBulkhead(seawall.Must(seawall.NewBulkhead("b", 1))))
	require.NoError(t, metrics.AddGroup(s, "g", newGroup(t), 0))
	s.Collect(func(string, float64) {})

	names := map[string]bool{}
	for _, i := range s.Instruments() {
		assert.False(t, names[i.Name], "%s is there twice", i.Name)
		names[i.Name] = true
		assert.True(t, rendered[i], "nothing is told of %s", i.Name)
		assert.NotEmpty(t, i.Description, i.Name)
		assert.NotEmpty(t, i.Unit, i.Name)
	}
	assert.Len(t, names, len(rendered))
}

func TestNamesThatAreRefused(t *testing.T) {
	long := strings.Repeat("x", 129)
	for name, text := range map[string]string{
		"":       `breaker "": a name that is exported must be 1 to 128 bytes of valid UTF-8`,
		"a\xffb": `breaker "a\xffb": a name that is exported must be 1 to 128 bytes of valid UTF-8`,
		long:     `breaker "` + long + `": a name that is exported must be 1 to 128 bytes of valid UTF-8`,
	} {
		s := newSet()
		require.EqualError(t, s.AddBreaker(br(t, name)), text)
		assert.Empty(t, s.collect(t))
		require.Error(t, s.AddBulkhead(seawall.Must(seawall.NewBulkhead(name, 1))))
		require.Error(t, metrics.AddGroup(s.Set, name, newGroup(t), 0))
	}
	s := newSet()
	require.NoError(t, s.AddBreaker(br(t, long[1:])))
	require.NoError(t, s.AddBreaker(br(t, "zahlung-für-東京 {}\"\n")))
}

func TestANameOfAKindIsHadOnce(t *testing.T) {
	s := newSet()
	require.NoError(t, s.AddBreaker(br(t, "a")))
	require.EqualError(t, s.AddBreaker(br(t, "a")), `breaker "a": a breaker of that name is exported already`)
	require.NoError(t, s.AddBulkhead(seawall.Must(seawall.NewBulkhead("a", 1))), "another kind")
	require.EqualError(t, s.AddBulkhead(seawall.Must(seawall.NewBulkhead("a", 1))),
		`bulkhead "a": a bulkhead of that name is exported already`)
	require.EqualError(t, metrics.AddGroup(s.Set, "a", newGroup(t), 0), `group "a": a breaker of that name is exported already`)

	require.NoError(t, metrics.AddGroup(s.Set, "g", newGroup(t), 0), "a refused name of a group is not half taken")
	require.EqualError(t, s.AddBreaker(br(t, "g")), `breaker "g": a breaker of that name is exported already`)
	require.EqualError(t, metrics.AddGroup(s.Set, "g", newGroup(t), 0), `group "g": a group of that name is exported already`)
	require.NoError(t, s.AddBreaker(br(t, "g/x")), "the group names no keys")
}

func TestNamesOfKeysBelongToTheirGroup(t *testing.T) {
	s := newSet()
	require.NoError(t, s.AddBreaker(br(t, "taken/x")))
	require.EqualError(t, metrics.AddGroup(s.Set, "taken", newGroup(t), 1),
		`group "taken": a key of it could have the name of the breaker "taken/x"`)
	require.NoError(t, metrics.AddGroup(s.Set, "taken", newGroup(t), 0))

	require.NoError(t, metrics.AddGroup(s.Set, "g", newGroup(t), 1))
	require.EqualError(t, s.AddBreaker(br(t, "g/x")), `breaker "g/x": a key of the group "g" could have that name`)
	require.EqualError(t, metrics.AddGroup(s.Set, "g/x", newGroup(t), 0), `group "g/x": a key of the group "g" could have that name`)
	require.NoError(t, s.AddBreaker(br(t, "gx")))
}

func TestNilGuardsAreRefused(t *testing.T) {
	s := newSet()
	require.EqualError(t, s.AddBreaker(nil), "the breaker is nil")
	require.EqualError(t, s.AddBulkhead(nil), "the bulkhead is nil")
	require.EqualError(t, metrics.AddGroup[string](s.Set, "g", nil, 0), `group "g" is nil`)
}

// newGroup returns a Group of breakers for up to 3 keys.
func newGroup(t *testing.T, opts ...seawall.GroupOption) *seawall.Group[string] {
	t.Helper()
	g, err := seawall.NewGroup(func(key string) (*seawall.Breaker, error) {
		return seawall.NewBreaker(key, seawall.WithConsecutiveFailures(3), seawall.WithFailureRate(0.5, 4))
	}, append([]seawall.GroupOption{seawall.WithMaxKeys(3)}, opts...)...)
	require.NoError(t, err)
	return g
}

func call(g *seawall.Group[string], key string, fns ...func(context.Context) error) {
	for _, fn := range fns {
		_ = g.Do(context.Background(), key, fn)
	}
}

func TestAGroupIsSummedUpUnderItsName(t *testing.T) {
	g := newGroup(t)
	s := newSet()
	require.NoError(t, metrics.AddGroup(s.Set, "hosts", g, 0))
	assert.Equal(t, map[string]float64{
		"guard_registry.size hosts": 0, "guard_registry.evictions hosts": 0, "guard_registry.overflow hosts": 0,
	}, s.collect(t), "nobody knows yet what its policies are")

	call(g, "a", bad, bad, bad)
	call(g, "b", bad, bad, ok, ok, ok)
	call(g, "c", bad, ok, ok, ok)
	values := s.collect(t)
	for series, want := range map[string]float64{
		"guard_registry.size hosts":                  3,
		"circuit_breaker.status hosts open":          1,
		"circuit_breaker.status hosts closed":        2,
		"circuit_breaker.calls hosts failure":        6,
		"circuit_breaker.calls hosts success":        6,
		"circuit_breaker.window.calls hosts failure": 3,
		"circuit_breaker.failure_ratio hosts":        0.4, // The worst of those that have one.
	} {
		assert.InDelta(t, want, values[series], 1e-9, series)
	}
	for series := range values {
		assert.Equal(t, "hosts", strings.Fields(series)[1])
	}

	g.Remove("a") // G36: a breaker that is gone is in no state, but what it counted stays.
	values = s.collect(t)
	assert.Zero(t, values["circuit_breaker.status hosts open"])
	assert.EqualValues(t, 6, values["circuit_breaker.calls hosts failure"])
}

// A counter that fell would look like a restart, and the whole rest of it like new calls.
func TestEvictedKeysStayCounted(t *testing.T) {
	for name, maxKeys := range map[string]int{"under the group's name": 0, "under other": 1} {
		t.Run(name, func(t *testing.T) {
			g := newGroup(t)
			s := newSet()
			require.NoError(t, metrics.AddGroup(s.Set, "hosts", g, maxKeys))
			series := "circuit_breaker.calls hosts success"
			last := 0.0
			if maxKeys > 0 {
				series = "circuit_breaker.calls hosts/other success"
				call(g, "own", bad, ok) // Never evicted: it is not idle, for the failure is in its window.
				s.collect(t)
			}
			for i := range 20 {
				call(g, "k"+strconv.Itoa(i), ok, ok)
				now := s.collect(t)[series]
				assert.EqualValues(t, 2, now-last, "key %d", i)
				last = now
			}
			assert.Positive(t, g.Snapshot().Evictions)
		})
	}
}

func TestKeysHaveNamesOfTheirOwnUpToACap(t *testing.T) {
	g := newGroup(t)
	s := newSet()
	require.NoError(t, metrics.AddGroup(s.Set, "hosts", g, 2))
	names := func() (names []string) {
		for series := range s.collect(t) {
			if name, ok := strings.CutPrefix(series, "circuit_breaker.slow_calls "); ok {
				names = append(names, name)
			}
		}
		return names
	}
	call(g, "a", ok)
	call(g, "b", ok)
	call(g, "c", ok)
	assert.ElementsMatch(t, []string{"hosts/a", "hosts/b", "hosts/other"}, names())
	g.Remove("a")
	assert.ElementsMatch(t, []string{"hosts/b", "hosts/other"}, names(), "c stays among the others, for their counts must not fall")
	call(g, "d", ok, ok)
	assert.ElementsMatch(t, []string{"hosts/b", "hosts/d", "hosts/other"}, names())
	g.Remove("d")
	call(g, "d", ok)
	assert.EqualValues(t, 3, s.collect(t)["circuit_breaker.calls hosts/d success"], "made anew between two scrapes")
	assert.EqualValues(t, 1, s.collect(t)["circuit_breaker.calls hosts/other success"])
	g.Remove("d")
	s.collect(t)
	call(g, "d", ok)
	assert.EqualValues(t, 1, s.collect(t)["circuit_breaker.calls hosts/d success"], "a series that went and came")
	assert.Contains(t, s.collect(t), "guard_registry.size hosts")
}

func TestKeysAreMadeFit(t *testing.T) {
	g := newGroup(t)
	s := newSet()
	require.NoError(t, metrics.AddGroup(s.Set, "g", g, 9))
	call(g, "a\xff", ok)
	call(g, "a\xfe", ok)
	call(g, strings.Repeat("x", 127)+"ä", ok)
	values := s.collect(t)
	assert.EqualValues(t, 2, values["circuit_breaker.calls g/a\uFFFD success"], "two keys that look the same")
	assert.EqualValues(t, 1, values["circuit_breaker.calls g/"+strings.Repeat("x", 127)+" success"])
}

func TestChainsAndBulkheadsInAGroup(t *testing.T) {
	limiter := seawall.Must(seawall.NewBulkhead("shared", 7))
	g, err := seawall.NewGroup(func(key int) (seawall.Policy, error) {
		b, err := seawall.NewBreaker(strconv.Itoa(key))
		if err != nil {
			return nil, err
		}
		own, err := seawall.NewBulkhead("", key+1, seawall.WithMaxQueue(key))
		return seawall.Chain(b, seawall.Chain(limiter, own)), err
	})
	require.NoError(t, err)
	s := newSet()
	require.NoError(t, metrics.AddGroup(s.Set, "g", g, 0))
	for key := range 3 {
		require.NoError(t, g.Do(t.Context(), key, ok))
	}
	values := s.collect(t)
	assert.EqualValues(t, 3, values["circuit_breaker.calls g success"])
	assert.EqualValues(t, 7+1+2+3, values["bulkhead.limit g"], "what several keys share is one")
	assert.NotContains(t, values, "bulkhead.queue_limit g", "one of them has none")
}
