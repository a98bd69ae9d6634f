package seawallotel

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/seawall-go/seawall"
	"github.com/seawall-go/seawall/internal/metrics"
)

// NewDuration returns a [seawall.Policy] to put inside of the breaker with this name. It records how long each call
// took in the histogram circuit_breaker.call.duration, in seconds and by outcome: success, failure or ignored. Calls
// that the breaker rejects don't get there. A call that panics is a failure.
//
//	duration, err := seawallotel.NewDuration("payments")
//	…
//	policy := seawall.Chain(payments, duration)
//
// The outcome is that of [WithClassifier], so an error made by [seawall.MarkSuccess] or [seawall.MarkIgnored] counts as
// what the classifier says of it here, though not to the breaker. The error, if any, joins one for each option that is
// not legal.
func NewDuration(name string, opts ...DurationOption) (seawall.Policy, error) {
	config, err := newDurationConfig(opts)
	if bad := metrics.CheckName(name); bad != nil {
		err = errors.Join(fmt.Errorf("seawallotel: NewDuration: name %q: %w", name, bad), err)
	}
	if err != nil {
		return nil, err
	}
	histogram, err := config.meter().Float64Histogram(config.prefix+"circuit_breaker.call.duration",
		metric.WithUnit("s"),
		metric.WithDescription("Duration of calls that the circuit breaker let run."),
		metric.WithExplicitBucketBoundaries(httpBuckets()...),
	)
	if err != nil {
		return nil, err
	}
	d := &duration{histogram: histogram, classify: config.classify}
	for outcome := range d.attributes {
		d.attributes[outcome] = metric.WithAttributeSet(attribute.NewSet(
			attribute.String("circuit_breaker.name", name),
			attribute.String("circuit_breaker.outcome", seawall.Outcome(outcome).String()),
		))
	}
	return d, nil
}

// httpBuckets are those that OpenTelemetry's conventions have for the duration of HTTP requests, in seconds.
func httpBuckets() []float64 {
	return []float64{0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10}
}

type duration struct {
	histogram  metric.Float64Histogram
	classify   func(context.Context, error) seawall.Outcome
	attributes [seawall.Ignored + 1]metric.MeasurementOption // for each outcome
}

func (d *duration) Do(ctx context.Context, fn func(context.Context) error) (err error) {
	start := time.Now()
	outcome := seawall.Failure
	defer func() { d.histogram.Record(ctx, time.Since(start).Seconds(), d.attributes[outcome]) }()
	err = fn(ctx)
	outcome = d.outcome(ctx, err)
	return err
}

func (d *duration) outcome(ctx context.Context, err error) seawall.Outcome {
	switch {
	case err == nil:
		return seawall.Success
	case errors.Is(err, seawall.ErrRejected):
		return seawall.Ignored
	}
	switch o := d.classify(ctx, err); o {
	case seawall.Success, seawall.Failure, seawall.Ignored:
		return o
	default:
		return seawall.Failure
	}
}
