package seawallotel_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/metric/metricdata/metricdatatest"

	"github.com/seawall-go/seawall"
	"github.com/seawall-go/seawall/contrib/seawallotel"
)

func newDuration(t *testing.T, opts ...seawallotel.DurationOption) (seawall.Policy, func() map[string]metricdata.Metrics) {
	t.Helper()
	provider, collect := newProvider(t)
	d, err := seawallotel.NewDuration("payments", append(opts, seawallotel.WithMeterProvider(provider))...)
	require.NoError(t, err)
	return d, collect
}

func TestDuration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, collect := newDuration(t)
		p := seawall.Chain(br(t, "payments", seawall.WithConsecutiveFailures(1)), d)
		takes := func(took time.Duration, err error) func(context.Context) error {
			return func(context.Context) error { time.Sleep(took); return err }
		}
		do(p, takes(20*time.Millisecond, nil), takes(10*time.Second, nil), takes(time.Minute, errBoom))
		do(p, ok) // Rejected: it took no time.

		bounds := []float64{0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10}
		metricdatatest.AssertEqual(t, metricdata.Metrics{
			Name: "circuit_breaker.call.duration", Unit: "s",
			Description: "Duration of calls that the circuit breaker let run.",
			Data: metricdata.Histogram[float64]{
				Temporality: metricdata.CumulativeTemporality,
				DataPoints: []metricdata.HistogramDataPoint[float64]{
					{
						Attributes: outcome("success"), Bounds: bounds, Count: 2, Sum: 10.02,
						BucketCounts: []uint64{0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0},
						Min:          metricdata.NewExtrema(0.02), Max: metricdata.NewExtrema(10.0),
					},
					{
						Attributes: outcome("failure"), Bounds: bounds, Count: 1, Sum: 60,
						BucketCounts: []uint64{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1},
						Min:          metricdata.NewExtrema(60.0), Max: metricdata.NewExtrema(60.0),
					},
				},
			},
		}, collect()["circuit_breaker.call.duration"], metricdatatest.IgnoreTimestamp())
	})
}

func outcome(text string) attribute.Set {
	return attribute.NewSet(attribute.String("circuit_breaker.name", "payments"), attribute.String("circuit_breaker.outcome", text))
}

func TestDurationOutcomes(t *testing.T) {
	d, collect := newDuration(t, seawallotel.WithPrefix("myco."), seawallotel.WithClassifier(
		func(context.Context, error) seawall.Outcome { return seawall.Outcome(7) },
	))
	do(d, ok, bad, func(context.Context) error { return seawall.ErrBulkheadFull })
	assert.Panics(t, func() { do(d, func(context.Context) error { panic("boom") }) })
	counts := map[string]uint64{}
	for _, p := range collect()["myco.circuit_breaker.call.duration"].Data.(metricdata.Histogram[float64]).DataPoints {
		text, _ := p.Attributes.Value("circuit_breaker.outcome")
		counts[text.AsString()] = p.Count
	}
	assert.Equal(t, map[string]uint64{"success": 1, "failure": 2, "ignored": 1}, counts)
}

func TestWhatNewDurationRefuses(t *testing.T) {
	_, err := seawallotel.NewDuration("", nil, seawallotel.WithClassifier(nil))
	require.EqualError(t, err, "seawallotel: NewDuration: name \"\": a name that is exported must be 1 to 128 bytes of valid UTF-8\n"+
		"seawallotel: option 1 of the list is nil\n"+
		"seawallotel: WithClassifier: the argument must not be nil")
}
