package seawallotel_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/metric/metricdata/metricdatatest"

	"github.com/seawall-go/seawall"
	"github.com/seawall-go/seawall/contrib/seawallotel"
)

// points of one series each, the second attribute being told apart.
func points[N int64 | float64](keys [2]string, name string, values map[string]N) (all []metricdata.DataPoint[N]) {
	for value, n := range values {
		all = append(all, metricdata.DataPoint[N]{
			Attributes: attribute.NewSet(attribute.String(keys[0], name), attribute.String(keys[1], value)),
			Value:      n,
		})
	}
	return all
}

func TestRegister(t *testing.T) {
	provider, collect := newProvider(t)
	clk := newClock()
	payments := br(t, "payments", seawall.WithClock(clk), seawall.WithFailureRate(1, 5))
	pool := bh(t, "pool", 2)
	group := hosts(t)
	unregister, err := seawallotel.Register(
		seawallotel.Breakers(payments), seawallotel.Bulkheads(pool), seawallotel.Group("hosts", group),
		seawallotel.WithMeterProvider(provider),
	)
	require.NoError(t, err)
	do(payments, ok, bad, ok, bad, ok)
	do(pool, ok)
	do(group.Policy("a"), ok, ok)
	got := collect()

	pair := [2]string{"circuit_breaker.name", "circuit_breaker.state"}
	equal(t, metricdata.Metrics{
		Name: "circuit_breaker.status", Unit: "1",
		Description: "1 for the state that the circuit breaker is in, 0 for the others.",
		Data: metricdata.Sum[int64]{
			Temporality: metricdata.CumulativeTemporality, DataPoints: append(
				points(pair, "payments", map[string]int64{"closed": 1, "open": 0, "half_open": 0, "forced_open": 0, "disabled": 0}),
				points(pair, "hosts", map[string]int64{"closed": 1, "open": 0, "half_open": 0, "forced_open": 0, "disabled": 0})...),
		},
	}, got)
	pair[1] = "circuit_breaker.outcome"
	equal(t, metricdata.Metrics{
		Name: "circuit_breaker.window.calls", Unit: "{call}",
		Description: "Calls in the window of the closed circuit breaker.",
		Data: metricdata.Sum[int64]{
			Temporality: metricdata.CumulativeTemporality, DataPoints: append(
				points(pair, "payments", map[string]int64{"success": 3, "failure": 2}),
				points(pair, "hosts", map[string]int64{"success": 2, "failure": 0})...),
		},
	}, got)
	equal(t, metricdata.Metrics{
		Name: "circuit_breaker.failure_ratio", Unit: "1",
		Description: "Failures among the calls in the window. Absent while those are fewer than the rule on it needs.",
		Data: metricdata.Gauge[float64]{DataPoints: []metricdata.DataPoint[float64]{{
			Attributes: attribute.NewSet(attribute.String("circuit_breaker.name", "payments")), Value: 0.4,
		}}},
	}, got)
	equal(t, metricdata.Metrics{
		Name: "bulkhead.calls", Unit: "{call}", Description: "Calls by what was decided about them.",
		Data: metricdata.Sum[int64]{
			Temporality: metricdata.CumulativeTemporality, IsMonotonic: true,
			DataPoints: points([2]string{"bulkhead.name", "bulkhead.outcome"}, "pool",
				map[string]int64{"accepted": 1, "rejected_full": 0, "rejected_timeout": 0, "abandoned": 0}),
		},
	}, got)
	equal(t, metricdata.Metrics{
		Name: "bulkhead.wait_time", Unit: "s", Description: "Time that calls have waited for a slot of the bulkhead, all together.",
		Data: metricdata.Sum[float64]{
			Temporality: metricdata.CumulativeTemporality, IsMonotonic: true,
			DataPoints: []metricdata.DataPoint[float64]{{
				Attributes: attribute.NewSet(attribute.String("bulkhead.name", "pool")), Value: 0,
			}},
		},
	}, got)
	assert.Len(t, got, 15, "all of the README but the queue limit, which this bulkhead does not have")

	require.NoError(t, unregister())
	assert.Empty(t, collect())
}

func equal(t *testing.T, want metricdata.Metrics, got map[string]metricdata.Metrics) {
	t.Helper()
	metricdatatest.AssertEqual(t, want, got[want.Name], metricdatatest.IgnoreTimestamp())
}

func TestScope(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	_, err := seawallotel.Register(seawallotel.Bulkheads(bh(t, "b", 1)),
		seawallotel.WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))))
	require.NoError(t, err)
	var all metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(context.Background(), &all))
	require.Len(t, all.ScopeMetrics, 1)
	assert.Equal(t, "github.com/seawall-go/seawall/contrib/seawallotel", all.ScopeMetrics[0].Scope.Name)
}

func TestTheGlobalProviderIsTheDefault(t *testing.T) {
	provider, collect := newProvider(t)
	before := otel.GetMeterProvider()
	otel.SetMeterProvider(provider)
	defer otel.SetMeterProvider(before)
	unregister, err := seawallotel.Register(seawallotel.Bulkheads(bh(t, "b", 1)), seawallotel.WithPrefix("myco."))
	require.NoError(t, err)
	got := collect()
	assert.Len(t, got, 5)
	for name := range got {
		assert.Truef(t, strings.HasPrefix(name, "myco.bulkhead."), name)
	}
	require.NoError(t, unregister())
}

func TestKeysOfAGroup(t *testing.T) {
	provider, collect := newProvider(t)
	group := hosts(t)
	_, err := seawallotel.Register(seawallotel.GroupByKey("hosts", group), seawallotel.WithKeyLimit(2),
		seawallotel.WithMeterProvider(provider))
	require.NoError(t, err)
	for _, host := range []string{"a", "b", "c", "d"} {
		do(group.Policy(host), ok)
	}
	var names []string
	for _, p := range collect()["circuit_breaker.slow_calls"].Data.(metricdata.Sum[int64]).DataPoints {
		name, _ := p.Attributes.Value("circuit_breaker.name")
		names = append(names, name.AsString())
	}
	assert.ElementsMatch(t, []string{"hosts/a", "hosts/b", "hosts/other"}, names)
}

func TestWhatRegisterRefuses(t *testing.T) {
	_, err := seawallotel.Register(
		nil,
		seawallotel.WithPrefix("1co"),
		seawallotel.WithKeyLimit(1<<20+1),
		seawallotel.WithMeterProvider(nil),
		seawallotel.Breakers(nil, br(t, ""), br(t, "a\xffb"), br(t, "twice"), br(t, "twice")),
		seawallotel.Bulkheads(nil, bh(t, strings.Repeat("x", 129), 1)),
		seawallotel.Group[string]("none", nil),
		seawallotel.GroupByKey("", hosts(t)),
	)
	require.EqualError(t, err, strings.Join([]string{
		`seawallotel: option 1 of the list is nil`,
		`seawallotel: WithPrefix: prefix "1co" must be of letters, digits, underscores and dots, of which the first is a letter`,
		`seawallotel: WithKeyLimit: n 1048577 must be from 1 to 1048576`,
		`seawallotel: WithMeterProvider: the argument must not be nil`,
		`seawallotel: the breaker is nil`,
		`seawallotel: breaker "": a name that is exported must be 1 to 128 bytes of valid UTF-8`,
		`seawallotel: breaker "a\xffb": a name that is exported must be 1 to 128 bytes of valid UTF-8`,
		`seawallotel: breaker "twice": a breaker of that name is exported already`,
		`seawallotel: the bulkhead is nil`,
		`seawallotel: bulkhead "` + strings.Repeat("x", 129) + `": a name that is exported must be 1 to 128 bytes of valid UTF-8`,
		`seawallotel: group "none" is nil`,
		`seawallotel: group "": a name that is exported must be 1 to 128 bytes of valid UTF-8`,
	}, "\n"))
}

// A Meter refuses names that are longer than 255 characters.
func TestRegisterReturnsWhatTheMeterSays(t *testing.T) {
	provider, _ := newProvider(t)
	_, err := seawallotel.Register(seawallotel.WithMeterProvider(provider), seawallotel.WithPrefix(strings.Repeat("x", 250)))
	require.ErrorContains(t, err, "circuit_breaker.status")
	require.ErrorContains(t, err, "guard_registry.overflow")
}

func TestCollectDuringAnOutage(t *testing.T) {
	const rounds = 50
	readers := []*sdkmetric.ManualReader{sdkmetric.NewManualReader(), sdkmetric.NewManualReader()}
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(readers[0]), sdkmetric.WithReader(readers[1]))
	payments, pool := br(t, "payments", seawall.WithCooldown(1)), bh(t, "pool", 2, seawall.WithMaxQueue(1))
	group := hosts(t, seawall.WithMaxKeys(4))
	unregister, err := seawallotel.Register(
		seawallotel.Breakers(payments), seawallotel.Bulkheads(pool), seawallotel.GroupByKey("hosts", group),
		seawallotel.WithMeterProvider(provider))
	require.NoError(t, err)

	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for i := range rounds {
				do(seawall.Chain(payments, pool), bad, ok, ok, bad, bad, bad)
				do(group.Policy(fmt.Sprint(i%9)), ok, bad, ok)
			}
		})
	}
	for _, reader := range readers {
		all.Go(func() {
			for range rounds {
				states := int64(0)
				for _, p := range collect(t, reader)["circuit_breaker.status"].Data.(metricdata.Sum[int64]).DataPoints {
					if name, _ := p.Attributes.Value("circuit_breaker.name"); name.AsString() == "payments" {
						states += p.Value
					}
				}
				assert.EqualValues(t, 1, states)
			}
		})
	}
	all.Wait()
	require.NoError(t, unregister())
	assert.Positive(t, payments.Snapshot().Totals.Opens)
}
