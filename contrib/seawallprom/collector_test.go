package seawallprom_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seawall-go/seawall"
	"github.com/seawall-go/seawall/contrib/seawallprom"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errBoom = errors.New("boom")

func ok(context.Context) error  { return nil }
func bad(context.Context) error { return errBoom }

func do(p seawall.Policy, fns ...func(context.Context) error) {
	for _, fn := range fns {
		_ = p.Do(context.Background(), fn)
	}
}

// fakeClock stands still until a test moves it.
type fakeClock struct{ now time.Time }

func newClock() *fakeClock                                { return &fakeClock{time.Unix(1_000_000, 0)} }
func (c *fakeClock) Now() time.Time                       { return c.now }
func (c *fakeClock) After(time.Duration) <-chan time.Time { return nil }
func (c *fakeClock) Advance(d time.Duration)              { c.now = c.now.Add(d) }

func br(t testing.TB, name string, opts ...seawall.BreakerOption) *seawall.Breaker {
	t.Helper()
	b, err := seawall.NewBreaker(name, append([]seawall.BreakerOption{
		seawall.WithConsecutiveFailures(3), seawall.WithFailureRate(0.5, 5), seawall.WithCooldown(10 * time.Second),
	}, opts...)...)
	require.NoError(t, err)
	return b
}

func bh(t testing.TB, name string, limit int, opts ...seawall.BulkheadOption) *seawall.Bulkhead {
	t.Helper()
	b, err := seawall.NewBulkhead(name, limit, opts...)
	require.NoError(t, err)
	return b
}

// hosts is a Group of breakers that open at the first failure, each before a bulkhead.
func hosts(t testing.TB, opts ...seawall.BreakerOption) *seawall.Group[string] {
	t.Helper()
	g, err := seawall.NewGroup(func(host string) (seawall.Policy, error) {
		b, err1 := seawall.NewBreaker(host, append(opts, seawall.WithConsecutiveFailures(1))...)
		limiter, err2 := seawall.NewBulkhead(host, 10)
		return seawall.Chain(b, limiter), errors.Join(err1, err2)
	})
	require.NoError(t, err)
	return g
}

// newCollector returns a Collector and a registry that checks what it gets from it.
func newCollector(t testing.TB, opts ...seawallprom.Option) (*seawallprom.Collector, *prometheus.Registry) {
	t.Helper()
	c, err := seawallprom.NewCollector(opts...)
	require.NoError(t, err)
	r := prometheus.NewPedanticRegistry()
	require.NoError(t, r.Register(c))
	return c, r
}

// story lets each kind of guard have something to tell.
func story(t testing.TB) []seawallprom.Option {
	t.Helper()
	clk := newClock()
	payments := br(t, "payments", seawall.WithClock(clk))
	search := br(t, "search", seawall.WithClock(clk))
	off := br(t, "off", seawall.WithMode(seawall.Off), seawall.WithClock(clk))
	pool, free := bh(t, "pool", 2, seawall.WithMaxQueue(0)), bh(t, "free", 1)
	group := hosts(t, seawall.WithClock(clk))

	do(payments, ok, bad, bad, bad, ok) // The last one is rejected.
	clk.Advance(10 * time.Second)
	do(payments, bad, ok) // The probe fails.
	do(search, ok, ok, bad, ok, bad)
	do(pool, func(ctx context.Context) error {
		return pool.Do(ctx, func(ctx context.Context) error { return pool.Do(ctx, ok) })
	})
	do(group.Policy("a"), ok)
	do(group.Policy("b"), bad)
	return []seawallprom.Option{
		seawallprom.Breakers(payments, search, off), seawallprom.Bulkheads(pool, free), seawallprom.Group("hosts", group),
	}
}

// UPDATE=1 go test -run TestGoldenScrape . writes the file anew.
func TestGoldenScrape(t *testing.T) {
	_, registry := newCollector(t, story(t)...)
	if os.Getenv("UPDATE") != "" {
		require.NoError(t, prometheus.WriteToTextfile("testdata/scrape.txt", registry))
	}
	golden, err := os.Open("testdata/scrape.txt")
	require.NoError(t, err)
	defer func() { require.NoError(t, golden.Close()) }()
	require.NoError(t, testutil.GatherAndCompare(registry, golden))
}

func TestLint(t *testing.T) {
	_, registry := newCollector(t, story(t)...)
	problems, err := testutil.GatherAndLint(registry)
	require.NoError(t, err)
	assert.Empty(t, problems)
}

// What a breaker can tell is all there at the first scrape, so that rate() and alerts see the first event.
func TestAllButTheRatioIsThereFromTheFirstScrape(t *testing.T) {
	_, registry := newCollector(t, seawallprom.Breakers(br(t, "b")), seawallprom.Bulkheads(bh(t, "b", 1, seawall.WithMaxQueue(1))))
	for name, want := range map[string]int{
		"circuit_breaker_status":                   5,
		"circuit_breaker_calls_total":              7,
		"circuit_breaker_slow_calls_total":         1,
		"circuit_breaker_transitions_total":        9,
		"circuit_breaker_state_time_seconds_total": 3,
		"circuit_breaker_failure_ratio":            0,
		"circuit_breaker_window_calls":             2,
		"bulkhead_calls_total":                     4,
		"bulkhead_running":                         1,
		"bulkhead_limit":                           1,
		"bulkhead_waiting":                         1,
		"bulkhead_queue_limit":                     1,
		"bulkhead_wait_time_seconds_total":         1,
	} {
		got, err := testutil.GatherAndCount(registry, name)
		require.NoError(t, err)
		assert.Equal(t, want, got, name)
	}
}

func TestWithPrefix(t *testing.T) {
	_, registry := newCollector(t, append(story(t), seawallprom.WithPrefix("myco_"))...)
	families, err := registry.Gather()
	require.NoError(t, err)
	assert.Len(t, families, 16)
	for _, f := range families {
		assert.Truef(t, strings.HasPrefix(f.GetName(), "myco_"), f.GetName())
	}
}

func TestAddWhileInUse(t *testing.T) {
	c, registry := newCollector(t)
	count := func() int {
		n, err := testutil.GatherAndCount(registry, "circuit_breaker_slow_calls_total")
		require.NoError(t, err)
		return n
	}
	assert.Zero(t, count())
	require.NoError(t, c.Add(seawallprom.Breakers(br(t, "a"))))
	require.EqualError(t, c.Add(seawallprom.Breakers(br(t, "a"), br(t, "b")), nil),
		`seawallprom: breaker "a": a breaker of that name is exported already`+"\n"+
			`seawallprom: the guards number 2 of the list are nil`)
	assert.Equal(t, 2, count(), "b is there, although another a was refused")
}

// One guard with such a name would fail the whole scrape, of all guards and of whatever else is registered.
func TestWhatIsRefusedIsRefusedBeforeTheScrape(t *testing.T) {
	_, err := seawallprom.NewCollector(
		nil,
		seawallprom.WithPrefix("my-co"),
		seawallprom.WithKeyLimit(0),
		seawallprom.Breakers(nil, br(t, ""), br(t, "a\xffb"), br(t, "twice"), br(t, "twice")),
		seawallprom.Bulkheads(nil, bh(t, strings.Repeat("x", 129), 1)),
		seawallprom.Group[string]("none", nil),
		seawallprom.GroupByKey("", hosts(t)),
	)
	require.EqualError(t, err, strings.Join([]string{
		`seawallprom: option 1 of the list is nil`,
		`seawallprom: WithPrefix: prefix "my-co" must be of letters, digits and underscores, of which the first is no digit`,
		`seawallprom: WithKeyLimit: n 0 must be from 1 to 1048576`,
		`seawallprom: the breaker is nil`,
		`seawallprom: breaker "": a name that is exported must be 1 to 128 bytes of valid UTF-8`,
		`seawallprom: breaker "a\xffb": a name that is exported must be 1 to 128 bytes of valid UTF-8`,
		`seawallprom: breaker "twice": a breaker of that name is exported already`,
		`seawallprom: the bulkhead is nil`,
		`seawallprom: bulkhead "` + strings.Repeat("x", 129) + `": a name that is exported must be 1 to 128 bytes of valid UTF-8`,
		`seawallprom: group "none" is nil`,
		`seawallprom: group "": a name that is exported must be 1 to 128 bytes of valid UTF-8`,
	}, "\n"))
}

func TestKeysOfAGroup(t *testing.T) {
	group := hosts(t)
	_, registry := newCollector(t, seawallprom.GroupByKey("hosts", group), seawallprom.WithKeyLimit(2))
	for _, host := range []string{"a", "b\xff", "c", "d"} {
		do(group.Policy(host), ok)
	}
	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP bulkhead_limit Slots of the bulkhead.
# TYPE bulkhead_limit gauge
bulkhead_limit{bulkhead_name="hosts/a"} 10
bulkhead_limit{bulkhead_name="hosts/b�"} 10
bulkhead_limit{bulkhead_name="hosts/other"} 20
# HELP guard_registry_size Keys of the Group that have a policy.
# TYPE guard_registry_size gauge
guard_registry_size{guard_registry_name="hosts"} 4
`), "bulkhead_limit", "guard_registry_size"))
}

func TestDefaultKeyLimit(t *testing.T) {
	group := hosts(t)
	_, registry := newCollector(t, seawallprom.GroupByKey("hosts", group))
	for i := range 60 {
		do(group.Policy(fmt.Sprint(i)), ok)
	}
	n, err := testutil.GatherAndCount(registry, "bulkhead_limit")
	require.NoError(t, err)
	assert.Equal(t, 51, n, "50 keys and the rest")
}

// While breakers open and close, guards are added and keys evicted, each scrape is whole: one state for each breaker,
// and no counter falls.
func TestScrapeDuringAnOutage(t *testing.T) {
	const rounds = 100
	payments := br(t, "payments", seawall.WithCooldown(time.Nanosecond))
	pool := bh(t, "pool", 2, seawall.WithMaxQueue(1))
	group, err := seawall.NewGroup(func(host string) (*seawall.Breaker, error) {
		return seawall.NewBreaker(host)
	}, seawall.WithMaxKeys(4))
	require.NoError(t, err)
	c, registry := newCollector(t,
		seawallprom.Breakers(payments), seawallprom.Bulkheads(pool), seawallprom.Group("hosts", group))

	var calls sync.WaitGroup
	for range 4 {
		calls.Go(func() {
			for i := range rounds {
				do(seawall.Chain(payments, pool), bad, ok, ok, bad, bad, bad)
				do(group.Policy(fmt.Sprint(i%9)), ok, bad, ok)
			}
		})
	}
	calls.Go(func() {
		for i := range 20 {
			assert.NoError(t, c.Add(seawallprom.Breakers(br(t, fmt.Sprint(i)))))
		}
	})
	for range 2 {
		calls.Go(func() {
			last := map[string]float64{}
			for range rounds / 10 {
				checkScrape(t, registry, last)
			}
		})
	}
	calls.Wait()
	checkScrape(t, registry, map[string]float64{})
	assert.Positive(t, payments.Snapshot().Totals.Opens)
	assert.Positive(t, group.Snapshot().Evictions+group.Snapshot().Overflow)
}

// checkScrape scrapes once, compares the counters with those of the scrape before, and keeps them in last.
func checkScrape(t *testing.T, registry *prometheus.Registry, last map[string]float64) {
	t.Helper()
	families, err := registry.Gather()
	assert.NoError(t, err)
	states := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := m.GetLabel()[0].GetValue()
			if f.GetName() == "circuit_breaker_status" && name != "hosts" {
				states[name] += m.GetGauge().GetValue()
			}
			if m.GetCounter() != nil {
				series := fmt.Sprint(f.GetName(), m.GetLabel())
				assert.GreaterOrEqual(t, m.GetCounter().GetValue(), last[series], series)
				last[series] = m.GetCounter().GetValue()
			}
		}
	}
	for name, sum := range states {
		assert.InDelta(t, 1, sum, 0, "states of %s", name)
	}
}

// BenchmarkScrape has three parts: what the Collector does, what the registry makes of it, and what that makes of as many
// series of client_golang's own counters.
func BenchmarkScrape(b *testing.B) {
	var breakers []*seawall.Breaker
	for i := range 1000 {
		breakers = append(breakers, br(b, fmt.Sprint("breaker", i)))
	}
	c, err := seawallprom.NewCollector(seawallprom.Breakers(breakers...))
	require.NoError(b, err)

	b.Run("part=collect/breakers=1000", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			metrics := make(chan prometheus.Metric, 1000)
			go func() {
				defer close(metrics)
				c.Collect(metrics)
			}()
			for range metrics {
			}
		}
	})
	const seriesOfABreaker = 27
	counters := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "a_total", Help: "A."}, []string{"name", "outcome"})
	for i := range 1000 {
		for j := range seriesOfABreaker {
			counters.WithLabelValues(fmt.Sprint("breaker", i), fmt.Sprint(j)).Inc()
		}
	}
	for _, gather := range []struct {
		name string
		of   prometheus.Collector
	}{
		{"part=gather/breakers=1000", c},
		{"part=gather/counters=27000", counters},
	} {
		b.Run(gather.name, func(b *testing.B) {
			registry := prometheus.NewRegistry()
			registry.MustRegister(gather.of)
			b.ReportAllocs()
			for b.Loop() {
				_, err := registry.Gather()
				require.NoError(b, err)
			}
		})
	}
}
