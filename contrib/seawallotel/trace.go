package seawallotel

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/seawall-go/seawall"
)

// A Tracer adds events to the current span of a call, which is the span in the context that the call is made with:
//
//   - circuit_breaker.rejected or bulkhead.rejected, if the call was rejected;
//   - circuit_breaker.transition, if the call changed the breaker's state. If several calls are at it in the same
//     moment, one of them gets the event. Changes by hand are left out, for no call made them.
//
// It makes no spans of its own unless [WithSpan] is given. Make a Tracer by [NewTracer] for each breaker. It is safe
// for use by several goroutines.
type Tracer struct {
	tracer trace.Tracer // nil: no spans
	span   string       // their name

	untold  atomic.Bool // there are changes
	mu      sync.Mutex  // guards the field below
	changes []seawall.StateChange
}

// NewTracer returns a Tracer. It takes two steps to use it, of which the first may be left out where transitions are of
// no interest:
//
//	tracer, err := seawallotel.NewTracer()
//	…
//	payments, err := seawall.NewBreaker("payments", seawall.WithOnStateChange(tracer.OnStateChange))
//	…
//	policy := tracer.Trace(payments)
//
// The error, if any, joins one for each option that is not legal.
func NewTracer(opts ...TracerOption) (*Tracer, error) {
	config, err := newTracerConfig(opts)
	if err != nil {
		return nil, err
	}
	t := &Tracer{span: config.span}
	if t.span != "" {
		t.tracer = config.tracer()
	}
	return t, nil
}

// Trace returns a Policy that is policy and tells of its calls: the breaker, or a [seawall.Chain] with that breaker in
// it. Calls that don't go through it are not told, and what they change may be told of another call.
//
// Trace panics if policy is nil.
func (t *Tracer) Trace(policy seawall.Policy) seawall.Policy {
	return &traced{tracer: t, policy: seawall.Chain(policy)}
}

// OnStateChange is to be given to [seawall.WithOnStateChange].
func (t *Tracer) OnStateChange(c seawall.StateChange) {
	if c.Reason == seawall.ReasonForced || c.Reason == seawall.ReasonReset || c.Reason == seawall.ReasonModeChanged {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.changes) == maxUntold {
		t.changes = slices.Delete(t.changes, 0, 1)
	}
	t.changes = append(t.changes, c)
	t.untold.Store(true)
}

// maxUntold is how many changes are kept while no call comes by to tell them.
const maxUntold = 16

// traced is a policy whose calls a Tracer tells of.
type traced struct {
	tracer *Tracer
	policy seawall.Policy
}

// Policies lets Groups and exporters see what is inside.
func (p *traced) Policies() []seawall.Policy { return []seawall.Policy{p.policy} }

// Do tells changes of state at two points: before fn, so that a change which let this call in as a probe is not told by
// one that is rejected meanwhile, and at the end.
func (p *traced) Do(ctx context.Context, fn func(context.Context) error) (err error) {
	if fn == nil {
		return p.policy.Do(ctx, fn) // It panics, as it should.
	}
	ctx, end := p.tracer.start(ctx)
	defer func() { end(err) }()
	span := trace.SpanFromContext(ctx)
	var passed atomic.Pointer[error] // the latest rejection that fn returned: it came from further in
	defer func() {
		p.tracer.tellChanges(span)
		if from := passed.Load(); from == nil || !errors.Is(err, *from) {
			tellRejection(span, err)
		}
	}()
	return p.policy.Do(ctx, func(ctx context.Context) error {
		p.tracer.tellChanges(span)
		err := fn(ctx)
		if errors.Is(err, seawall.ErrRejected) {
			passed.Store(&err)
		}
		return err
	})
}

// start begins the span that WithSpan asks for.
func (t *Tracer) start(ctx context.Context) (_ context.Context, end func(error)) {
	if t.tracer == nil {
		return ctx, func(error) {}
	}
	ctx, span := t.tracer.Start(ctx, t.span)
	return ctx, func(err error) {
		if err != nil {
			span.SetStatus(codes.Error, err.Error())
		}
		span.End()
	}
}

// tellChanges takes the changes along even if span is not recorded: they belong to this call, and to no later one.
func (t *Tracer) tellChanges(span trace.Span) {
	for _, c := range t.takeUntold() {
		span.AddEvent("circuit_breaker.transition", trace.WithTimestamp(c.At), trace.WithAttributes(
			attribute.String("circuit_breaker.name", c.Name),
			attribute.String("circuit_breaker.state", stateText(c.To)),
			attribute.String("circuit_breaker.previous_state", stateText(c.From)),
			attribute.String("circuit_breaker.reason", c.Reason.String()),
		))
	}
}

func (t *Tracer) takeUntold() []seawall.StateChange {
	if !t.untold.Load() {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	changes := t.changes
	t.changes = nil
	t.untold.Store(false)
	return changes
}

func tellRejection(span trace.Span, err error) {
	if err == nil || !span.IsRecording() {
		return
	}
	if open, ok := errors.AsType[*seawall.OpenError](err); ok {
		span.AddEvent("circuit_breaker.rejected", trace.WithAttributes(
			attribute.String("circuit_breaker.name", open.Name),
			attribute.String("circuit_breaker.state", rejectingState(open)),
			attribute.Float64("circuit_breaker.retry_after", open.RetryAfter().Seconds()),
		))
	}
	if full, ok := errors.AsType[*seawall.FullError](err); ok {
		span.AddEvent("bulkhead.rejected", trace.WithAttributes(
			attribute.String("bulkhead.name", full.Name),
			attribute.Int("bulkhead.limit", full.Limit),
			attribute.Float64("bulkhead.wait_time", full.Waited.Seconds()),
		))
	}
}

func rejectingState(e *seawall.OpenError) string {
	if e.Reason == seawall.ReasonForced {
		return "forced_open"
	}
	return stateText(e.State)
}

func stateText(s seawall.State) string { return strings.ReplaceAll(s.String(), "-", "_") }
