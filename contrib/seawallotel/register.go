package seawallotel

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/seawall-go/seawall/internal/metrics"
)

// Register exports guards as metrics, until unregister is called:
//
//	unregister, err := seawallotel.Register(seawallotel.Breakers(payments, search))
//
// The name of a guard becomes an attribute, so it must be 1 to 128 bytes of valid UTF-8, and no two breakers, bulkheads
// or Groups may have the same. Register can compare only the guards that it is given: who calls it several times, which
// is fine, has to see to that. The error, if any, joins one for each guard and option that is not legal.
func Register(opts ...Option) (unregister func() error, err error) {
	config, err := newConfig(opts)
	e := &exporter{keyLimit: config.keyLimit, observables: map[*metrics.Instrument]metric.Observable{}}
	e.guards = metrics.NewSet(e.newSeries)
	for _, g := range config.guards {
		err = errors.Join(err, g.addTo(e))
	}
	if err != nil {
		return nil, err
	}
	meter := config.meter()
	var all []metric.Observable
	for _, i := range e.guards.Instruments() {
		observable, bad := newObservable(meter, config.prefix+i.Name, i)
		err = errors.Join(err, bad)
		e.observables[i] = observable
		all = append(all, observable)
	}
	if err != nil {
		return nil, err
	}
	registration, err := meter.RegisterCallback(e.observe, all...)
	if err != nil {
		return nil, err
	}
	return registration.Unregister, nil
}

// exporter tells a Meter about guards.
type exporter struct {
	keyLimit    int
	observables map[*metrics.Instrument]metric.Observable
	guards      *metrics.Set[series]
}

// series passes a value on as one of its instrument and attributes.
type series func(o metric.Observer, value float64)

func (e *exporter) observe(_ context.Context, o metric.Observer) error {
	e.guards.Collect(func(s series, value float64) { s(o, value) })
	return nil
}

func (e *exporter) newSeries(i *metrics.Instrument, values []string) series {
	attributes := []metric.ObserveOption{metric.WithAttributeSet(newAttributes(i, values))}
	switch observable := e.observables[i].(type) {
	case metric.Float64Observable:
		return func(o metric.Observer, value float64) { o.ObserveFloat64(observable, value, attributes...) }
	case metric.Int64Observable:
		return func(o metric.Observer, value float64) { o.ObserveInt64(observable, int64(value), attributes...) }
	default:
		panic(fmt.Sprintf("seawallotel: unknown type of observable: %T", observable))
	}
}

func newAttributes(i *metrics.Instrument, values []string) attribute.Set {
	var pairs []attribute.KeyValue
	for n, key := range i.Attributes {
		pairs = append(pairs, attribute.String(key, values[n]))
	}
	return attribute.NewSet(pairs...)
}

func newObservable(meter metric.Meter, name string, i *metrics.Instrument) (metric.Observable, error) {
	unit, description := metric.WithUnit(i.Unit), metric.WithDescription(i.Description)
	switch i.Kind {
	case metrics.Counter:
		if i.Float {
			return meter.Float64ObservableCounter(name, unit, description)
		}
		return meter.Int64ObservableCounter(name, unit, description)
	case metrics.UpDownCounter:
		if i.Float {
			return meter.Float64ObservableUpDownCounter(name, unit, description)
		}
		return meter.Int64ObservableUpDownCounter(name, unit, description)
	case metrics.Gauge:
		if i.Float {
			return meter.Float64ObservableGauge(name, unit, description)
		}
		return meter.Int64ObservableGauge(name, unit, description)
	default:
		return nil, fmt.Errorf("seawallotel: %s is of the unknown kind %d", name, i.Kind)
	}
}

// scope is the name of the instrumentation scope.
const scope = "github.com/seawall-go/seawall/contrib/seawallotel"

// version returns the version of this module that the program was built with, empty if it is not known.
func version() string {
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	return versionIn(build)
}

func versionIn(build *debug.BuildInfo) string {
	for _, m := range build.Deps {
		if m.Path == scope {
			return m.Version
		}
	}
	return ""
}
