package main

import (
	"bytes"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/perf/benchfmt"
)

func TestNamesComeApartAndTogether(t *testing.T) {
	for name, want := range map[string][3]string{
		"Closed/impl=seawall/par=1":                    {"Closed", "seawall", "par=1"},
		"Closed/impl=failsafe-permit/par=cpu-8":        {"Closed", "failsafe-permit", "par=cpu-8"},
		"Window/impl=gobreaker/buckets=1000/par=1":     {"Window", "gobreaker", "buckets=1000/par=1"},
		"Memory/impl=go-zero":                          {"Memory", "go-zero", ""},
		"BulkheadContended/impl=floor-ctx-fn/par=64-2": {"BulkheadContended", "floor-ctx-fn", "par=64-2"},
	} {
		scenario, impl, variant := splitName(name)
		assert.Equal(t, want, [3]string{scenario, impl, variant})
		assert.Equal(t, name, joinName(scenario, impl, variant))
	}
}

func TestRatiosAreTakenWithinARound(t *testing.T) {
	r := results{rounds: []round{
		{"a": {"ns/op": 1}, "b": {"ns/op": 2}},
		{"a": {"ns/op": 30}, "b": {"ns/op": 10}},
		{"a": {"ns/op": 100}},
		{"a": {"ns/op": 4}, "b": {"ns/op": 2}},
	}}
	assert.Equal(t, []float64{0.5, 3, 2}, r.ratios("a", "b", timePerOp))
	assert.Equal(t, []float64{-1, 20, 2}, r.differences("a", "b", timePerOp))
	assert.Equal(t, 2.0, median(r.ratios("a", "b", timePerOp)))
	assert.True(t, math.IsNaN(median(r.ratios("a", "nobody", timePerOp))))
}

func TestTimePerOpPrefersCPUTime(t *testing.T) {
	cpu, ok := sample{"ns/op": 5, "cpu-ns/op": 3}.value(timePerOp)
	require.True(t, ok)
	assert.Equal(t, 3.0, cpu)
	wall, ok := sample{"ns/op": 5}.value(timePerOp)
	require.True(t, ok)
	assert.Equal(t, 5.0, wall)
}

func TestShuffleLeavesTheImplementationsOfAScenarioTogether(t *testing.T) {
	var todo []benchmark
	for _, name := range []string{"A/impl=x/par=cpu", "A/impl=y/par=cpu", "A/impl=z/par=cpu", "B/impl=x", "B/impl=y", "B/impl=z"} {
		todo = append(todo, benchmark{name, "1"}, benchmark{name, "2"})
	}
	before := slices.Clone(todo)
	shuffle(todo)
	assert.ElementsMatch(t, before, todo)
	for k := 0; k < len(todo); k += 3 {
		for _, b := range todo[k : k+3] {
			assert.Equal(t, todo[k].scenario(), b.scenario())
			assert.Equal(t, todo[k].cpu, b.cpu)
		}
	}
}

func TestParseKeepsTheUnitsOfTheBenchmark(t *testing.T) {
	round := round{}
	err := parse("cpu: Some CPU\nBenchmarkA/impl=x/par=1-8 \t 10\t 12.5 ns/op\t 11 cpu-ns/op\t 0 B/op\nPASS\n", func(r *benchfmt.Result) {
		assert.Equal(t, "Some CPU", r.GetConfig("cpu"))
		round[r.Name.String()] = newSample(r)
	})
	require.NoError(t, err)
	require.Contains(t, round, "A/impl=x/par=1-8")
	assert.InDeltaMapValues(t, sample{"ns/op": 12.5, "cpu-ns/op": 11, "B/op": 0}, round["A/impl=x/par=1-8"], 1e-9)
}

func TestReportShowsRatiosAndVerdicts(t *testing.T) {
	r := results{
		deviations: map[string]string{"eapache": "keeps no window"},
		remarks:    map[string]string{"mercari": "has a goroutine"},
		rounds: []round{{
			"Closed/impl=gobreaker/par=1":       {"cpu-ns/op": 200, "allocs/op": 0},
			"Closed/impl=failsafe-permit/par=1": {"cpu-ns/op": 100, "allocs/op": 0},
			"Closed/impl=eapache/par=1":         {"cpu-ns/op": 10, "allocs/op": 0},
			"Closed/impl=floor-window/par=1":    {"cpu-ns/op": 40, "allocs/op": 0},
			"Closed/impl=seawall/par=1":         {"cpu-ns/op": 60, "allocs/op": 0},
			"Open/impl=gobreaker/par=1":         {"cpu-ns/op": 100},
			"Open/impl=seawall/par=1":           {"cpu-ns/op": 70},
		}},
	}
	r.names = slices.Sorted(maps.Keys(r.rounds[0]))
	var report bytes.Buffer
	writeReport(&report, &r, options{benchtime: "60ms"})
	for _, line := range []string{
		"| seawall | 60 (0.30, 0.60, 1.50) | 0 |",
		"| failsafe-permit | 100† (0.50, 1, 2.50) | 0 |",
		"- eapache keeps no window.",
		"- mercari has a goroutine.",
		"| closed, success, serial | gobreaker | ≤ 0.33 | ≤ 0.24 | 0.30 |  | must |",
		"| open, reject, serial | gobreaker | ≤ 0.60 | ≤ 0.45 | 0.70 |  | **missed** |",
		"| half-open, reject, serial | gobreaker | ≤ 1 | ≤ 0.60 | – |  | not measured |",
		"| **seawall** | 60 (0.30) | – | 70 (0.70) | – | – | 0 |",
	} {
		assert.Contains(t, report.String(), line+"\n")
	}
}
