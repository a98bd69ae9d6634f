package seawallotel_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.uber.org/goleak"

	"github.com/seawall-go/seawall"
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

// br is a breaker that trips at 3 failures in a row.
func br(t testing.TB, name string, opts ...seawall.BreakerOption) *seawall.Breaker {
	t.Helper()
	b, err := seawall.NewBreaker(name, append([]seawall.BreakerOption{
		seawall.WithConsecutiveFailures(3), seawall.WithCooldown(10 * time.Second),
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

func hosts(t testing.TB, opts ...seawall.GroupOption) *seawall.Group[string] {
	t.Helper()
	g, err := seawall.NewGroup(func(host string) (*seawall.Breaker, error) {
		return seawall.NewBreaker(host)
	}, opts...)
	require.NoError(t, err)
	return g
}

// newProvider returns a MeterProvider and how to collect what it has got, by name.
func newProvider(t testing.TB) (*sdkmetric.MeterProvider, func() map[string]metricdata.Metrics) {
	t.Helper()
	reader := sdkmetric.NewManualReader()
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	return provider, func() map[string]metricdata.Metrics { return collect(t, reader) }
}

func collect(t testing.TB, reader *sdkmetric.ManualReader) map[string]metricdata.Metrics {
	t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(context.Background(), &all))
	byName := map[string]metricdata.Metrics{}
	for _, s := range all.ScopeMetrics {
		for _, m := range s.Metrics {
			byName[m.Name] = m
		}
	}
	return byName
}
