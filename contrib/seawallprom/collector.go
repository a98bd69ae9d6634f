package seawallprom

import (
	"errors"
	"fmt"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/seawall-go/seawall/internal/metrics"
)

// A Collector is a [prometheus.Collector] of guards. Make one with [NewCollector] for each registry; it is safe for use
// by several goroutines.
type Collector struct {
	// Set once in NewCollector.
	descs    map[*metrics.Instrument]*prometheus.Desc
	keyLimit int

	guards *metrics.Set[*series]
}

// NewCollector returns a Collector with the given guards and options. Register it:
//
//	collector, err := seawallprom.NewCollector(seawallprom.Breakers(payments, search))
//	…
//	prometheus.MustRegister(collector)
//
// The name of a guard becomes a label, so it must be 1 to 128 bytes of valid UTF-8, and no two breakers, bulkheads or
// Groups may have the same. The error, if any, joins one for each guard and option that is not legal.
func NewCollector(opts ...Option) (*Collector, error) {
	config, err := newConfig(opts)
	c := &Collector{descs: map[*metrics.Instrument]*prometheus.Desc{}, keyLimit: config.keyLimit}
	c.guards = metrics.NewSet(c.newSeries)
	for _, i := range c.guards.Instruments() {
		c.descs[i] = prometheus.NewDesc(config.prefix+metricName(i), i.Description, labelNames(i), nil)
	}
	if err = errors.Join(err, c.Add(config.guards...)); err != nil {
		return nil, err
	}
	return c, nil
}

// Add adds guards, also while the Collector is in use. The error, if any, joins one for each guard that is not legal;
// the others are added.
func (c *Collector) Add(guards ...Guards) error {
	var errs []error
	for i, g := range guards {
		if g == nil {
			errs = append(errs, fmt.Errorf("seawallprom: the guards number %d of the list are nil", i+1))
		} else {
			errs = append(errs, g.addTo(c))
		}
	}
	return errors.Join(errs...)
}

// Describe sends the descriptions of all metrics, whether a guard has them or not.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	for _, desc := range c.descs {
		ch <- desc
	}
}

// Collect sends what a snapshot of each guard says.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	c.guards.Collect(func(s *series, value float64) { ch <- &sample{series: s, value: value} })
}

func (c *Collector) newSeries(i *metrics.Instrument, attributes []string) *series {
	desc := c.descs[i]
	return &series{desc: desc, labels: prometheus.MakeLabelPairs(desc, attributes), counter: i.Kind == metrics.Counter}
}

// series is a metric without its value. To make one anew for each scrape, as a const metric is, would take most of the
// time of that.
type series struct {
	desc    *prometheus.Desc
	labels  []*dto.LabelPair // the same ones for all samples; the registry only reads them
	counter bool
}

// sample is a series with its value at one scrape.
type sample struct {
	*series
	value float64
}

func (s *sample) Desc() *prometheus.Desc { return s.desc }

func (s *sample) Write(out *dto.Metric) error {
	out.Label = s.labels
	if s.counter {
		out.Counter = &dto.Counter{Value: &s.value}
	} else {
		out.Gauge = &dto.Gauge{Value: &s.value}
	}
	return nil
}

// metricName is what OpenTelemetry's exporter for Prometheus makes of the name.
func metricName(i *metrics.Instrument) string {
	name := underscores(i.Name)
	if i.Unit == "s" {
		name += "_seconds"
	}
	if i.Kind == metrics.Counter {
		name += "_total"
	}
	return name
}

func labelNames(i *metrics.Instrument) []string {
	var names []string
	for _, a := range i.Attributes {
		names = append(names, underscores(a))
	}
	return names
}

func underscores(s string) string { return strings.ReplaceAll(s, ".", "_") }
