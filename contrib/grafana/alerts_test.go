package grafana_test

import (
	"context"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seawall-go/seawall"
)

// Each story goes on for 40 minutes, in steps of 15 s that end with a scrape. It makes those alerts fire and no others.
func TestAlertsFireWhenTheyShould(t *testing.T) {
	const step = 15 * time.Second
	for name, story := range map[string]struct {
		act    func(w *world, step int)
		alerts []string
	}{
		"all is well": {act: func(w *world, i int) {
			do(seawall.Chain(w.payments, w.pool), ok, ok, ok)
			do(w.hosts.Policy(strconv.Itoa(i%3)), ok)
		}},
		"one outage of a minute": {act: func(w *world, i int) {
			if i >= 80 && i < 84 {
				do(w.payments, bad, bad, bad, bad)
			} else {
				do(w.payments, ok, ok, ok, ok, ok, ok, ok, ok)
			}
		}},
		"payments are down": {
			act:    func(w *world, _ int) { do(w.payments, bad, bad, bad, bad, bad) },
			alerts: []string{"CircuitBreakerOpen", "CircuitBreakerRejecting"},
		},
		"payments are down, and half-open at two scrapes of three": {
			act: func(w *world, i int) {
				if i%3 == 0 {
					do(w.payments, bad, bad, bad, bad, bad)
				}
			},
			alerts: []string{"CircuitBreakerOpen", "CircuitBreakerRejecting"},
		},
		"somebody keeps search from being called": {
			act:    func(w *world, _ int) { w.search.ForceOpen() },
			alerts: []string{"CircuitBreakerOpen"},
		},
		"payments failed, and nobody has called since": {act: func(w *world, i int) {
			if i == 10 {
				do(w.payments, bad, bad, bad, bad)
			}
		}},
		"payments come and go": {
			act: func(w *world, i int) {
				if i%8 == 0 { // Every 2 minutes.
					do(w.payments, bad, bad, bad, bad)
				} else {
					do(w.payments, ok)
				}
			},
			alerts: []string{"CircuitBreakerFlapping"},
		},
		"a host is down": {
			act:    func(w *world, _ int) { do(w.hosts.Policy("a"), ok); do(w.hosts.Policy("b"), bad, bad, bad, bad) },
			alerts: []string{"CircuitBreakerOpen", "CircuitBreakerRejecting"},
		},
		"the pool is full": {
			act: func(w *world, i int) {
				if i < w.pool.Limit() {
					_, _ = w.pool.Acquire(context.Background())
				}
			},
			alerts: []string{"BulkheadNearlyFull"},
		},
		"more hosts than places": {
			act: func(w *world, i int) {
				if i < w.hosts.Snapshot().MaxKeys {
					_, _, _ = w.hosts.Acquire(context.Background(), strconv.Itoa(i))
				} else {
					do(w.hosts.Policy("another"), ok)
				}
			},
			alerts: []string{"GuardGroupOverflow"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			history := history{}
			registry := w.prometheus(t)
			start := w.Now()
			for i := range int(40 * time.Minute / step) {
				story.act(w, i)
				history.scrape(t, registry, w.Now())
				w.Advance(step)
			}
			var fired []string
			for _, rule := range readAlerts(t) {
				if history.fires(t, rule, start, w.Now()) {
					fired = append(fired, rule.Alert)
				}
			}
			assert.Equal(t, story.alerts, fired)
		})
	}
}

// history is what a Prometheus has scraped, by name and labels.
type history map[string]*promql.Series

func (h history) scrape(t *testing.T, registry *prometheus.Registry, at time.Time) {
	t.Helper()
	families, err := registry.Gather()
	require.NoError(t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			id := f.GetName() + labelsOf(m)
			if h[id] == nil {
				all := map[string]string{model.MetricNameLabel: f.GetName(), "job": "shop", "instance": "shop:80"}
				for _, l := range m.GetLabel() {
					all[l.GetName()] = l.GetValue()
				}
				h[id] = &promql.Series{Metric: labels.FromMap(all)}
			}
			h[id].Floats = append(h[id].Floats, promql.FPoint{
				T: at.UnixMilli(), F: m.GetCounter().GetValue() + m.GetGauge().GetValue(),
			})
		}
	}
}

// fires reports whether rule has held for as long as it says, at any time.
func (h history) fires(t *testing.T, rule rulefmt.Rule, start, end time.Time) bool {
	t.Helper()
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1 << 20, Timeout: time.Minute})
	const interval = 30 * time.Second
	held := -interval // How long it has held, as far as one can tell from the evaluations.
	for at := start; at.Before(end); at = at.Add(interval) {
		query, err := engine.NewInstantQuery(context.Background(), h, nil, rule.Expr, at)
		require.NoError(t, err)
		vector, err := query.Exec(context.Background()).Vector()
		require.NoError(t, err)
		query.Close()
		if len(vector) == 0 {
			held = -interval
			continue
		}
		for _, sample := range vector {
			wantLabels(t, rule, sample.Metric)
		}
		if held += interval; held >= time.Duration(rule.For) {
			return true
		}
	}
	return false
}

// wantLabels holds the annotations of a rule against the labels of what it yields.
func wantLabels(t *testing.T, rule rulefmt.Rule, got labels.Labels) {
	t.Helper()
	for _, text := range rule.Annotations {
		for _, label := range regexp.MustCompile(`\$labels\.(\w+)`).FindAllStringSubmatch(text, -1) {
			require.True(t, got.Has(label[1]), "%s has no label %s", rule.Alert, label[1])
		}
	}
}

// Querier makes a history a storage.Queryable.
func (h history) Querier(_, _ int64) (storage.Querier, error) {
	return &storage.MockQuerier{SelectMockFunction: h.find}, nil
}

func (h history) find(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	found := &seriesSet{}
	for _, series := range h {
		if matchAll(matchers, series.Metric) {
			found.left = append(found.left, promql.NewStorageSeries(*series))
		}
	}
	return found
}

func matchAll(matchers []*labels.Matcher, metric labels.Labels) bool {
	for _, m := range matchers {
		if !m.Matches(metric.Get(m.Name)) {
			return false
		}
	}
	return true
}

// seriesSet is a list as a storage.SeriesSet.
type seriesSet struct {
	current storage.Series
	left    []storage.Series
}

func (s *seriesSet) Next() bool {
	if len(s.left) == 0 {
		return false
	}
	s.current, s.left = s.left[0], s.left[1:]
	return true
}

func (s *seriesSet) At() storage.Series                { return s.current }
func (s *seriesSet) Err() error                        { return nil }
func (s *seriesSet) Warnings() annotations.Annotations { return nil }
