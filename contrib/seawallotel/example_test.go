package seawallotel_test

import (
	"context"
	"fmt"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/seawall-go/seawall"
	"github.com/seawall-go/seawall/contrib/seawallotel"
)

func Example() {
	reader := sdkmetric.NewManualReader()
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))

	payments := seawall.Must(seawall.NewBreaker("payments"))
	pool := seawall.Must(seawall.NewBulkhead("pool", 10))

	unregister, err := seawallotel.Register(
		seawallotel.Breakers(payments), seawallotel.Bulkheads(pool),
		seawallotel.WithMeterProvider(provider), // Without it, the global one.
	)
	if err != nil {
		panic(err) // A name that can't be an attribute, or one that is there twice.
	}
	defer func() { _ = unregister() }()

	var all metricdata.ResourceMetrics
	_ = reader.Collect(context.Background(), &all)
	fmt.Println(len(all.ScopeMetrics[0].Metrics), "metrics, the first is", all.ScopeMetrics[0].Metrics[0].Name)
	// Output: 11 metrics, the first is circuit_breaker.status
}

func ExampleTracer() {
	spans := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	ctx, span := provider.Tracer("example").Start(context.Background(), "handle request")

	tracer := seawall.Must(seawallotel.NewTracer()) // WithSpan("…") makes a span of each call.
	payments := seawall.Must(seawall.NewBreaker("payments",
		seawall.WithConsecutiveFailures(1), seawall.WithOnStateChange(tracer.OnStateChange)))
	policy := tracer.Trace(payments)

	_ = policy.Do(ctx, func(context.Context) error { return context.DeadlineExceeded })
	_ = policy.Do(ctx, func(context.Context) error { return nil })
	span.End()
	for _, event := range spans.Ended()[0].Events() {
		fmt.Println(event.Name)
	}
	// Output:
	// circuit_breaker.transition
	// circuit_breaker.rejected
}

func ExampleNewDuration() {
	reader := sdkmetric.NewManualReader()
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))

	payments := seawall.Must(seawall.NewBreaker("payments"))
	duration := seawall.Must(seawallotel.NewDuration("payments", seawallotel.WithMeterProvider(provider)))
	policy := seawall.Chain(payments, duration)

	_ = policy.Do(context.Background(), func(context.Context) error { return nil })
	var all metricdata.ResourceMetrics
	_ = reader.Collect(context.Background(), &all)
	fmt.Println(all.ScopeMetrics[0].Metrics[0].Name)
	// Output: circuit_breaker.call.duration
}
