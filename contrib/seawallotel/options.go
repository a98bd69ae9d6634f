package seawallotel

import (
	"context"
	"errors"
	"fmt"
	"regexp"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/seawall-go/seawall"
	"github.com/seawall-go/seawall/internal/metrics"
)

// An Option is for [Register]: guards, or one of the WithX functions. Of such an option given twice the last one holds.
type Option interface {
	apply(*config) error
}

// A DurationOption is for [NewDuration]. Of an option given twice the last one holds.
type DurationOption interface {
	applyDuration(*durationConfig) error
}

// A MeterOption is for [Register] or [NewDuration].
type MeterOption interface {
	Option
	DurationOption
}

// A TracerOption is for [NewTracer]. Of an option given twice the last one holds.
type TracerOption interface {
	applyTracer(*tracerConfig) error
}

// Guards are what [Register] exports. They are made by [Breakers], [Bulkheads], [Group] and [GroupByKey].
type Guards interface {
	Option
	addTo(*exporter) error
}

// Breakers are breakers under their own names.
func Breakers(breakers ...*seawall.Breaker) Guards {
	return guards(func(e *exporter) error {
		var errs []error
		for _, b := range breakers {
			errs = append(errs, prefixed(e.guards.AddBreaker(b)))
		}
		return errors.Join(errs...)
	})
}

// Bulkheads are bulkheads under their own names.
func Bulkheads(bulkheads ...*seawall.Bulkhead) Guards {
	return guards(func(e *exporter) error {
		var errs []error
		for _, b := range bulkheads {
			errs = append(errs, prefixed(e.guards.AddBulkhead(b)))
		}
		return errors.Join(errs...)
	})
}

// Group is a Group, whose breakers and bulkheads are summed up under its name, so that the number of series does not
// depend on its keys. Its circuit_breaker.status is how many breakers are in each state, its
// circuit_breaker.failure_ratio the highest of theirs. Its series, apart from guard_registry.*, are there from when it
// has its first breaker or bulkhead.
//
// What is evicted from the Group stays counted as of the latest collection before.
func Group[K comparable](name string, g *seawall.Group[K]) Guards {
	return guards(func(e *exporter) error { return prefixed(metrics.AddGroup(e.guards, name, g, 0)) })
}

// GroupByKey is a Group whose breakers and bulkheads are told apart by key, under name/key, for as many keys as
// [WithKeyLimit] says: the first that come. The rest is summed up under name/other. A key is what fmt.Sprint makes of
// it; bytes that are not UTF-8 are replaced, and 128 bytes are the most.
func GroupByKey[K comparable](name string, g *seawall.Group[K]) Guards {
	return guards(func(e *exporter) error { return prefixed(metrics.AddGroup(e.guards, name, g, e.keyLimit)) })
}

// WithMeterProvider sets where metrics go.
// Default: the global one of package otel. Range: not nil.
func WithMeterProvider(provider metric.MeterProvider) MeterOption {
	return meterOption(func(c *meterConfig) error {
		c.provider = provider
		return notNil("WithMeterProvider", provider == nil)
	})
}

// WithPrefix sets what the names of all metrics begin with, as in "myco.".
// Default: nothing. Range: letters, digits, underscores and dots, of which the first is a letter.
func WithPrefix(prefix string) MeterOption {
	return meterOption(func(c *meterConfig) error {
		c.prefix = prefix
		if !regexp.MustCompile(`^([a-zA-Z][a-zA-Z0-9_.]*)?$`).MatchString(prefix) {
			return fmt.Errorf("seawallotel: WithPrefix: prefix %q must be of letters, digits, underscores and dots, "+
				"of which the first is a letter", prefix)
		}
		return nil
	})
}

// WithKeyLimit sets how many keys of each [GroupByKey] have series of their own.
// Default 50. Range: from 1 to 1<<20.
func WithKeyLimit(n int) Option {
	return option(func(c *config) error {
		c.keyLimit = n
		if n < 1 || n > 1<<20 {
			return fmt.Errorf("seawallotel: WithKeyLimit: n %d must be from 1 to 1048576", n)
		}
		return nil
	})
}

// WithClassifier sets the function that tells a duration's outcome from an error. It should be the one that the breaker
// has. It is not asked about errors that match [seawall.ErrRejected], whose outcome is ignored.
// Default [seawall.DefaultClassifier]. Range: not nil.
func WithClassifier(f func(ctx context.Context, err error) seawall.Outcome) DurationOption {
	return durationOption(func(c *durationConfig) error {
		c.classify = f
		return notNil("WithClassifier", f == nil)
	})
}

// WithTracerProvider sets where the spans of [WithSpan] go.
// Default: the global one of package otel. Range: not nil.
func WithTracerProvider(provider trace.TracerProvider) TracerOption {
	return tracerOption(func(c *tracerConfig) error {
		c.provider = provider
		return notNil("WithTracerProvider", provider == nil)
	})
}

// WithSpan makes a [Tracer] begin a span of kind INTERNAL and this name for each call, rejected ones too.
// Default: no span. Range: not empty.
func WithSpan(name string) TracerOption {
	return tracerOption(func(c *tracerConfig) error {
		c.span = name
		if name == "" {
			return errors.New("seawallotel: WithSpan: the name must not be empty")
		}
		return nil
	})
}

type option func(*config) error

func (o option) apply(c *config) error { return o(c) }

type durationOption func(*durationConfig) error

func (o durationOption) applyDuration(c *durationConfig) error { return o(c) }

type meterOption func(*meterConfig) error

func (o meterOption) apply(c *config) error                 { return o(&c.meterConfig) }
func (o meterOption) applyDuration(c *durationConfig) error { return o(&c.meterConfig) }

type tracerOption func(*tracerConfig) error

func (o tracerOption) applyTracer(c *tracerConfig) error { return o(c) }

type guards func(*exporter) error

func (g guards) addTo(e *exporter) error { return g(e) }

func (g guards) apply(c *config) error {
	c.guards = append(c.guards, g)
	return nil
}

// meterConfig is what [Register] and [NewDuration] have in common.
type meterConfig struct {
	provider metric.MeterProvider // nil: the global one, as it is when it is needed
	prefix   string
}

func (c *meterConfig) meter() metric.Meter {
	provider := c.provider
	if provider == nil {
		provider = otel.GetMeterProvider()
	}
	return provider.Meter(scope, metric.WithInstrumentationVersion(version()))
}

// config is all that the options of Register decide.
type config struct {
	meterConfig
	keyLimit int
	guards   []Guards
}

func newConfig(opts []Option) (config, error) {
	c := config{keyLimit: 50}
	err := applyAll(opts, func(o Option) error { return o.apply(&c) })
	return c, err
}

// durationConfig is all that the options of NewDuration decide.
type durationConfig struct {
	meterConfig
	classify func(context.Context, error) seawall.Outcome
}

func newDurationConfig(opts []DurationOption) (durationConfig, error) {
	c := durationConfig{classify: seawall.DefaultClassifier}
	err := applyAll(opts, func(o DurationOption) error { return o.applyDuration(&c) })
	return c, err
}

// tracerConfig is all that the options of NewTracer decide.
type tracerConfig struct {
	provider trace.TracerProvider // nil: the global one, as it is when it is needed
	span     string
}

func newTracerConfig(opts []TracerOption) (tracerConfig, error) {
	var c tracerConfig
	err := applyAll(opts, func(o TracerOption) error { return o.applyTracer(&c) })
	return c, err
}

func (c *tracerConfig) tracer() trace.Tracer {
	provider := c.provider
	if provider == nil {
		provider = otel.GetTracerProvider()
	}
	return provider.Tracer(scope, trace.WithInstrumentationVersion(version()))
}

func applyAll[O any](opts []O, apply func(O) error) error {
	var errs []error
	for i, o := range opts {
		if any(o) == nil {
			errs = append(errs, fmt.Errorf("seawallotel: option %d of the list is nil", i+1))
		} else {
			errs = append(errs, apply(o))
		}
	}
	return errors.Join(errs...)
}

func notNil(option string, isNil bool) error {
	if isNil {
		return fmt.Errorf("seawallotel: %s: the argument must not be nil", option)
	}
	return nil
}

func prefixed(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("seawallotel: %w", err)
}
