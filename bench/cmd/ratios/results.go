package main

import (
	"math"
	"regexp"

	"golang.org/x/perf/benchfmt"
	"golang.org/x/perf/benchmath"
)

// results are what the rounds measured.
type results struct {
	cpu        string
	others     float64           // the share of the CPUs that other processes used
	names      []string          // in the order of the source
	deviations map[string]string // by implementation
	remarks    map[string]string // likewise, on what is configured alike
	rounds     []round
}

// A round has a sample for each benchmark, by the name that go test prints.
type round map[string]sample

// A sample is what one run of a benchmark measured, by unit.
type sample map[string]float64

// newSample keeps the units as the benchmark printed them.
func newSample(r *benchfmt.Result) sample {
	s := sample{}
	for _, v := range r.Values {
		if v.OrigUnit != "" {
			s[v.OrigUnit] = v.OrigValue
		} else {
			s[v.Unit] = v.Value
		}
	}
	return s
}

// timePerOp is the unit of the time that a table shows: CPU time where the
// benchmark reports it, which serial ones do, else time on the wall clock.
const timePerOp = ""

func (s sample) value(unit string) (float64, bool) {
	if unit == timePerOp {
		if v, ok := s["cpu-ns/op"]; ok {
			return v, true
		}
		unit = "ns/op"
	}
	v, ok := s[unit]
	return v, ok
}

// values are a benchmark's measurements in all rounds.
func (r *results) values(name, unit string) []float64 {
	return r.combine(name, name, unit, func(v, _ float64) float64 { return v })
}

// ratios are a benchmark's measurements divided by another's of the same round.
func (r *results) ratios(over, under, unit string) []float64 {
	return r.combine(over, under, unit, func(a, b float64) float64 { return a / b })
}

func (r *results) differences(a, b, unit string) []float64 {
	return r.combine(a, b, unit, func(a, b float64) float64 { return a - b })
}

func (r *results) combine(a, b, unit string, f func(a, b float64) float64) []float64 {
	var all []float64
	for _, round := range r.rounds {
		x, ok := round[a].value(unit)
		y, ok2 := round[b].value(unit)
		if v := f(x, y); ok && ok2 && !math.IsNaN(v) {
			all = append(all, v)
		}
	}
	return all
}

// summary is the median and its 95 % confidence interval; without values its
// center is NaN, and with too few the interval is infinite.
func summary(values []float64) benchmath.Summary {
	if len(values) == 0 {
		return benchmath.Summary{Center: math.NaN()}
	}
	return benchmath.AssumeNothing.Summary(benchmath.NewSample(values, &benchmath.DefaultThresholds), 0.95)
}

func median(values []float64) float64 { return summary(values).Center }

var namePattern = regexp.MustCompile(`^([^/]+)/impl=([^/]+?)(?:/(.*?))?(-\d+)?$`)

// splitName takes Scenario/impl=x/variant-8 apart; the GOMAXPROCS stays with
// the variant.
func splitName(name string) (scenario, impl, variant string) {
	m := namePattern.FindStringSubmatch(name)
	if m == nil {
		return name, "", ""
	}
	return m[1], m[2], m[3] + m[4]
}

func joinName(scenario, impl, variant string) string {
	name := scenario + "/impl=" + impl
	if variant != "" {
		name += "/" + variant
	}
	return name
}
