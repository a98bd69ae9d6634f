package grafana_test

import (
	"encoding/json"
	"log/slog"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// exported is what the collector exports: label values by label and metric.
type exported map[string]map[string][]string

// everything returns what is exported when every guard has something to tell.
func everything(t *testing.T) exported {
	t.Helper()
	w := newWorld(t)
	do(w.payments, ok, ok, ok, ok)
	do(w.hosts.Policy("a"), ok)
	all := exported{}
	families, err := w.prometheus(t).Gather()
	require.NoError(t, err)
	for _, f := range families {
		// A scrape adds these.
		all[f.GetName()] = map[string][]string{"job": {"shop"}, "instance": {"shop:80"}}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				all[f.GetName()][l.GetName()] = append(all[f.GetName()][l.GetName()], l.GetValue())
			}
		}
	}
	return all
}

// check parses a query and holds its names against what is exported. It returns the metrics in it.
func (all exported) check(t *testing.T, query string) (metrics []string) {
	t.Helper()
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(query)
	require.NoError(t, err, query)
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		if selector, ok := node.(*parser.VectorSelector); ok {
			metrics = append(metrics, all.checkSelector(t, selector)...)
		}
		return nil
	})
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		if aggregation, ok := node.(*parser.AggregateExpr); ok {
			all.checkLabels(t, metrics, aggregation.Grouping, query)
		}
		return nil
	})
	return metrics
}

func (all exported) checkSelector(t *testing.T, selector *parser.VectorSelector) (metrics []string) {
	t.Helper()
	for _, m := range selector.LabelMatchers {
		if m.Name == model.MetricNameLabel {
			metrics = slices.DeleteFunc(slices.Collect(maps.Keys(all)), func(metric string) bool { return !m.Matches(metric) })
		}
	}
	assert.NotEmpty(t, metrics, "no such metric: %v", selector)
	for _, m := range selector.LabelMatchers {
		if m.Name == model.MetricNameLabel {
			continue
		}
		all.checkLabels(t, metrics, []string{m.Name}, selector.String())
		for value := range strings.SplitSeq(m.Value, "|") {
			one := labels.MustNewMatcher(m.Type, m.Name, value)
			for _, metric := range metrics {
				assert.True(t, slices.ContainsFunc(all[metric][m.Name], one.Matches), "no such value: %q in %v", value, selector)
			}
		}
	}
	return metrics
}

func (all exported) checkLabels(t *testing.T, metrics, names []string, where string) {
	t.Helper()
	for _, metric := range metrics {
		for _, label := range names {
			assert.Contains(t, all[metric], label, "no such label of %s: %s", metric, where)
		}
	}
}

// dashboard is what a test looks at in one.
type dashboard struct {
	Panels []struct {
		Title   string
		Targets []struct{ Expr, LegendFormat string }
	}
	Templating struct {
		List []struct{ Name, Type, Definition string }
	}
}

const (
	dashboardFile = "seawall-dashboard.json"
	alertsFile    = "seawall-alerts.yml"
)

func readDashboard(t *testing.T) dashboard {
	t.Helper()
	text, err := os.ReadFile(dashboardFile)
	require.NoError(t, err)
	var d dashboard
	require.NoError(t, json.Unmarshal(text, &d))
	require.NotEmpty(t, d.Panels)
	return d
}

func readAlerts(t *testing.T) []rulefmt.Rule {
	t.Helper()
	groups, errs := rulefmt.ParseFile(alertsFile, false, model.LegacyValidation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler))
	require.Empty(t, errs)
	require.Len(t, groups.Groups, 1)
	return groups.Groups[0].Rules
}

// withValues puts values in place of a dashboard's variables, as Grafana does.
func withValues(query string) string {
	return strings.NewReplacer(
		"$__rate_interval", "5m", "$threshold", "0.5",
		"$job", ".*", "$instance", ".*", "$circuit_breaker", ".*", "$bulkhead", ".*",
	).Replace(query)
}

func TestTheDashboardReadsWhatIsExported(t *testing.T) {
	all, d := everything(t), readDashboard(t)
	used := map[string]bool{}
	for _, panel := range d.Panels {
		for _, target := range panel.Targets {
			metrics := all.check(t, withValues(target.Expr))
			for _, label := range regexp.MustCompile(`{{(\w+)}}`).FindAllStringSubmatch(target.LegendFormat, -1) {
				all.checkLabels(t, metrics, []string{label[1]}, panel.Title)
			}
			for _, metric := range metrics {
				used[metric] = true
			}
		}
	}
	for _, v := range d.Templating.List {
		if v.Type == "query" {
			query := regexp.MustCompile(`^label_values\((.*), (\w+)\)$`).FindStringSubmatch(v.Definition)
			require.NotNil(t, query, v.Definition)
			all.checkLabels(t, all.check(t, withValues(query[1])), []string{query[2]}, v.Name)
		}
	}
	for metric := range all {
		assert.True(t, used[metric], "the dashboard does not show %s", metric)
	}
}

func TestAlertsReadWhatIsExported(t *testing.T) {
	all := everything(t)
	for _, rule := range readAlerts(t) {
		metrics := all.check(t, rule.Expr)
		for _, text := range rule.Annotations {
			for _, label := range regexp.MustCompile(`\$labels\.(\w+)`).FindAllStringSubmatch(text, -1) {
				all.checkLabels(t, metrics, []string{label[1]}, rule.Alert)
			}
		}
	}
}
