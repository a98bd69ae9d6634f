package grafana_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	otelprom "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.uber.org/goleak"

	"github.com/seawall-go/seawall"
	"github.com/seawall-go/seawall/contrib/seawallotel"
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

// world is some guards of each kind, on one clock.
type world struct {
	*fakeClock
	payments, search *seawall.Breaker
	pool             *seawall.Bulkhead
	hosts, tenants   *seawall.Group[string]
}

func newWorld(t *testing.T) *world {
	t.Helper()
	clk := newClock()
	breaker := func(name string) *seawall.Breaker {
		b, err := seawall.NewBreaker(name, seawall.WithFailureRate(0.5, 4), seawall.WithClock(clk))
		require.NoError(t, err)
		return b
	}
	pool, err := seawall.NewBulkhead("pool", 2, seawall.WithMaxQueue(1), seawall.WithClock(clk))
	require.NoError(t, err)
	group := func() *seawall.Group[string] {
		g, err := seawall.NewGroup(func(host string) (*seawall.Breaker, error) { return breaker(host), nil },
			seawall.WithMaxKeys(3))
		require.NoError(t, err)
		return g
	}
	return &world{
		fakeClock: clk, payments: breaker("payments"), search: breaker("search"), pool: pool, hosts: group(), tenants: group(),
	}
}

// prometheus returns a registry that seawallprom's Collector is in.
func (w *world) prometheus(t *testing.T) *prometheus.Registry {
	t.Helper()
	collector, err := seawallprom.NewCollector(
		seawallprom.Breakers(w.payments, w.search), seawallprom.Bulkheads(w.pool),
		seawallprom.Group("hosts", w.hosts), seawallprom.GroupByKey("tenants", w.tenants), seawallprom.WithKeyLimit(1))
	require.NoError(t, err)
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(collector))
	return registry
}

// otel returns a registry that gets what seawallotel tells by way of OpenTelemetry's exporter.
func (w *world) otel(t *testing.T) *prometheus.Registry {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	exporter, err := otelprom.New(otelprom.WithRegisterer(registry), otelprom.WithoutScopeInfo(), otelprom.WithoutTargetInfo())
	require.NoError(t, err)
	_, err = seawallotel.Register(
		seawallotel.WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(exporter))),
		seawallotel.Breakers(w.payments, w.search), seawallotel.Bulkheads(w.pool),
		seawallotel.Group("hosts", w.hosts), seawallotel.GroupByKey("tenants", w.tenants), seawallotel.WithKeyLimit(1))
	require.NoError(t, err)
	return registry
}

func TestBothExportsTellTheSame(t *testing.T) {
	w := newWorld(t)
	one, other := w.prometheus(t), w.otel(t)
	same := func(what string) map[string]float64 {
		t.Helper()
		a, b := values(t, one), values(t, other)
		assert.Equal(t, a, b, what)
		return a
	}

	same("before the first call")
	do(w.payments, ok, bad, ok, bad, ok)
	same("an open breaker")
	w.Advance(5 * time.Second)
	same("one whose cooldown is over")
	do(w.payments, bad, ok)
	w.Advance(7 * time.Second)
	do(w.payments, ok, ok, ok, bad, ok)
	w.search.ForceOpen()
	do(w.search, ok)
	do(w.pool, func(ctx context.Context) error {
		return w.pool.Do(ctx, func(ctx context.Context) error {
			gone, cancel := context.WithTimeout(ctx, 0)
			defer cancel()
			return w.pool.Do(gone, ok)
		})
	})
	for i := range 9 {
		do(w.hosts.Policy(strconv.Itoa(i)), ok, bad)
		do(w.tenants.Policy(strconv.Itoa(i)), ok, ok)
	}
	same("after some calls")
	w.Advance(2 * time.Hour)
	for i := range 9 {
		do(w.hosts.Policy(strconv.Itoa(i+100)), ok)
		do(w.tenants.Policy(strconv.Itoa(i+100)), ok)
	}
	w.search.Reset()
	require.NoError(t, w.search.SetMode(seawall.Off))
	require.NoError(t, w.pool.SetLimit(7))
	last := same("after evictions and changes by hand")
	assert.Positive(t, last[`guard_registry_evictions_total guard_registry_name="tenants"`])
}

// values returns all series of a registry by name and labels, and for each name a line with its type and help.
func values(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	require.NoError(t, err)
	all := map[string]float64{}
	for _, f := range families {
		all["# "+f.GetName()+" "+f.GetType().String()+" "+f.GetHelp()] = 0
		for _, m := range f.GetMetric() {
			all[f.GetName()+labelsOf(m)] = m.GetCounter().GetValue() + m.GetGauge().GetValue() // It has one of them.
		}
	}
	return all
}

func labelsOf(m *dto.Metric) string {
	var text strings.Builder
	for _, l := range m.GetLabel() {
		fmt.Fprintf(&text, " %s=%q", l.GetName(), l.GetValue())
	}
	return text.String()
}
