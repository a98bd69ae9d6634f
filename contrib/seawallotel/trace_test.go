package seawallotel_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/seawall-go/seawall"
	"github.com/seawall-go/seawall/contrib/seawallotel"
)

// rig makes calls of which each has a span.
type rig struct {
	provider *sdktrace.TracerProvider
	spans    *tracetest.SpanRecorder
}

func newRig(opts ...sdktrace.TracerProviderOption) *rig {
	spans := tracetest.NewSpanRecorder()
	return &rig{sdktrace.NewTracerProvider(append(opts, sdktrace.WithSpanProcessor(spans))...), spans}
}

// call runs fn under p in a span, and returns the events of that span in short.
func (r *rig) call(p seawall.Policy, fn func(context.Context) error) []string {
	ctx, span := r.provider.Tracer("test").Start(context.Background(), "call")
	_ = p.Do(ctx, fn)
	span.End()
	return events(r.last())
}

// last returns the span that ended last.
func (r *rig) last() sdktrace.ReadOnlySpan {
	ended := r.spans.Ended()
	return ended[len(ended)-1]
}

func events(span sdktrace.ReadOnlySpan) (all []string) {
	for _, e := range span.Events() {
		words := []string{e.Name}
		for _, a := range e.Attributes {
			words = append(words, a.Value.String())
		}
		all = append(all, strings.Join(words, " "))
	}
	return all
}

func newTracer(t *testing.T, opts ...seawallotel.TracerOption) *seawallotel.Tracer {
	t.Helper()
	tracer, err := seawallotel.NewTracer(opts...)
	require.NoError(t, err)
	return tracer
}

func TestTransitionsAndRejectionsAreEventsOfTheCall(t *testing.T) {
	r, clk, tracer := newRig(), newClock(), newTracer(t)
	b := br(t, "b", seawall.WithClock(clk), seawall.WithOnStateChange(tracer.OnStateChange))
	p := tracer.Trace(b)

	assert.Empty(t, r.call(p, ok))
	assert.Empty(t, r.call(p, bad))
	assert.Empty(t, r.call(p, bad))
	assert.Equal(t, []string{"circuit_breaker.transition b open closed consecutive_failures"}, r.call(p, bad))
	assert.Equal(t, clk.Now(), r.last().Events()[0].Time, "when the breaker says that it was")
	var keys []string
	for _, a := range r.last().Events()[0].Attributes {
		keys = append(keys, string(a.Key))
	}
	assert.Equal(t, []string{
		"circuit_breaker.name", "circuit_breaker.state", "circuit_breaker.previous_state", "circuit_breaker.reason",
	}, keys)

	clk.Advance(4 * time.Second)
	assert.Equal(t, []string{"circuit_breaker.rejected b open 6"}, r.call(p, ok))
	clk.Advance(6 * time.Second)
	assert.Equal(t, []string{
		"circuit_breaker.transition b half_open open cooldown_over",
		"circuit_breaker.transition b open half_open probe_failed",
	}, r.call(p, bad))
	clk.Advance(10 * time.Second)
	var rejected []string
	assert.Equal(t, []string{
		"circuit_breaker.transition b half_open open cooldown_over",
		"circuit_breaker.transition b closed half_open probes_succeeded",
	}, r.call(p, func(context.Context) error {
		rejected = r.call(p, ok)
		return nil
	}))
	assert.Contains(t, rejected, "circuit_breaker.rejected b half_open 10")
}

func TestChangesByHandBelongToNoCall(t *testing.T) {
	r, tracer := newRig(), newTracer(t)
	b := br(t, "b", seawall.WithOnStateChange(tracer.OnStateChange))
	p := tracer.Trace(b)
	b.ForceOpen()
	assert.Equal(t, []string{"circuit_breaker.rejected b forced_open 10"}, r.call(p, ok))
	b.Reset()
	require.NoError(t, b.SetMode(seawall.Off))
	require.NoError(t, b.SetMode(seawall.Enforce))
	assert.Empty(t, r.call(p, ok))
}

func TestABulkheadsRejection(t *testing.T) {
	r, tracer := newRig(), newTracer(t)
	pool := bh(t, "pool", 1, seawall.WithMaxQueue(0))
	release, err := pool.Acquire(t.Context())
	require.NoError(t, err)
	defer release()
	assert.Equal(t, []string{"bulkhead.rejected pool 1 0"}, r.call(tracer.Trace(seawall.Chain(br(t, "b"), pool)), ok))
}

// What an unsampled call changed must not appear on the next sampled one.
func TestACallWithoutASpanTakesItsChangesAlong(t *testing.T) {
	tracer := newTracer(t)
	b := br(t, "b", seawall.WithClock(newClock()), seawall.WithOnStateChange(tracer.OnStateChange))
	p := tracer.Trace(b)
	do(p, bad, bad, bad)
	assert.Equal(t, []string{"circuit_breaker.rejected b open 10"}, newRig().call(p, ok))
}

func TestAPanicLosesNoTransition(t *testing.T) {
	r, tracer := newRig(), newTracer(t)
	b := br(t, "b", seawall.WithConsecutiveFailures(1), seawall.WithOnStateChange(tracer.OnStateChange))
	ctx, span := r.provider.Tracer("test").Start(t.Context(), "call")
	assert.Panics(t, func() {
		_ = tracer.Trace(b).Do(ctx, func(context.Context) error { panic("boom") })
	})
	span.End()
	assert.Equal(t, []string{"circuit_breaker.transition b open closed consecutive_failures"}, events(r.last()))
}

// A hook whose Tracer is in no chain must not fill the memory.
func TestOnlyTheLatestChangesAreKept(t *testing.T) {
	r, tracer, clk := newRig(), newTracer(t), newClock()
	b := br(t, "b", seawall.WithConsecutiveFailures(1), seawall.WithClock(clk), seawall.WithOnStateChange(tracer.OnStateChange))
	for range 100 {
		do(b, bad)
		clk.Advance(10 * time.Second)
	}
	got := r.call(tracer.Trace(seawall.Chain()), ok)
	assert.Len(t, got, 16)
	assert.Equal(t, "circuit_breaker.transition b open half_open probe_failed", got[15])
}

// Of calls that fail at once, one is told to have opened the breaker.
func TestEachTransitionIsToldOnce(t *testing.T) {
	const callers = 8
	r, tracer := newRig(), newTracer(t)
	b := br(t, "b", seawall.WithOnStateChange(tracer.OnStateChange))
	p := tracer.Trace(b)
	for range 50 {
		var calls sync.WaitGroup
		for range callers {
			calls.Go(func() {
				ctx, span := r.provider.Tracer("test").Start(context.Background(), "call")
				_ = p.Do(ctx, bad)
				span.End()
			})
		}
		calls.Wait()
		var told []string
		for _, span := range r.spans.Ended()[len(r.spans.Ended())-callers:] {
			told = append(told, slices.DeleteFunc(events(span), func(event string) bool {
				return !strings.HasPrefix(event, "circuit_breaker.transition")
			})...)
		}
		assert.Equal(t, []string{"circuit_breaker.transition b open closed consecutive_failures"}, told)
		b.Reset()
	}
}

func TestWithSpan(t *testing.T) {
	r := newRig()
	tracer := newTracer(t, seawallotel.WithSpan("charge"), seawallotel.WithTracerProvider(r.provider))
	b := br(t, "b", seawall.WithConsecutiveFailures(1), seawall.WithOnStateChange(tracer.OnStateChange))
	p := tracer.Trace(b)

	var inside trace.SpanContext
	assert.Empty(t, r.call(p, func(ctx context.Context) error {
		inside = trace.SpanContextFromContext(ctx)
		return nil
	}), "the caller's span")
	_ = r.call(p, bad)
	ended := r.spans.Ended()
	require.Len(t, ended, 4)
	good, failed := ended[0], ended[2]
	assert.Equal(t, "charge", good.Name())
	assert.Equal(t, trace.SpanKindInternal, good.SpanKind())
	assert.Equal(t, ended[1].SpanContext().SpanID(), good.Parent().SpanID())
	assert.Equal(t, good.SpanContext(), inside)
	assert.Equal(t, "github.com/seawall-go/seawall/contrib/seawallotel", good.InstrumentationScope().Name)
	assert.Equal(t, codes.Unset, good.Status().Code)
	assert.Equal(t, sdktrace.Status{Code: codes.Error, Description: "boom"}, failed.Status())
	assert.Equal(t, []string{"circuit_breaker.transition b open closed consecutive_failures"}, events(failed))
}

func TestTheGlobalTracerProviderIsTheDefault(t *testing.T) {
	r, before := newRig(), otel.GetTracerProvider()
	otel.SetTracerProvider(r.provider)
	defer otel.SetTracerProvider(before)
	do(newTracer(t, seawallotel.WithSpan("charge")).Trace(br(t, "b")), ok)
	assert.Equal(t, "charge", r.last().Name())
}

func TestWhatNewTracerRefuses(t *testing.T) {
	_, err := seawallotel.NewTracer(nil, seawallotel.WithSpan(""), seawallotel.WithTracerProvider(nil))
	require.EqualError(t, err, "seawallotel: option 1 of the list is nil\n"+
		"seawallotel: WithSpan: the name must not be empty\n"+
		"seawallotel: WithTracerProvider: the argument must not be nil")
}

// A rejection from further in is told by the Tracer there.
func TestARejectionIsToldOnce(t *testing.T) {
	r, outer, inner := newRig(), newTracer(t), newTracer(t)
	db := br(t, "db", seawall.WithClock(newClock()))
	db.ForceOpen()
	service := outer.Trace(br(t, "service"))
	query := func(ctx context.Context) error { return inner.Trace(db).Do(ctx, ok) }
	assert.Equal(t, []string{"circuit_breaker.rejected db forced_open 10"}, r.call(service, query))

	retry := seawall.PolicyFunc(func(ctx context.Context, fn func(context.Context) error) error {
		_ = fn(ctx)
		return db.Do(ctx, ok)
	})
	assert.Len(t, r.call(outer.Trace(retry), func(context.Context) error { return seawall.ErrBulkheadFull }), 1)
}

func TestATracedPolicyTellsItsParts(t *testing.T) {
	b, tracer := br(t, "b"), newTracer(t)
	provider, collect := newProvider(t)
	group, err := seawall.NewGroup(func(string) (seawall.Policy, error) { return tracer.Trace(b), nil })
	require.NoError(t, err)
	_, err = seawallotel.Register(seawallotel.Group("g", group), seawallotel.WithMeterProvider(provider))
	require.NoError(t, err)
	do(group.Policy("a"), ok)
	assert.Contains(t, collect(), "circuit_breaker.status")
}

func TestTracePanicsOnNil(t *testing.T) {
	tracer := newTracer(t)
	assert.PanicsWithValue(t, "seawall: Chain: policy 1 of 1 is nil", func() { tracer.Trace(nil) })
	assert.PanicsWithValue(t, "seawall: nil fn", func() { _ = tracer.Trace(br(t, "b")).Do(t.Context(), nil) })
	var none context.Context
	assert.PanicsWithValue(t, "seawall: nil Context", func() { _ = tracer.Trace(br(t, "b")).Do(none, ok) })
}
