package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// floor is the row that a scenario is compared with as its floor, if any.
func floor(scenario string) string {
	switch scenario {
	case "Closed", "Failures", "Many":
		return "floor-window"
	case "Open", "HalfOpen":
		return "floor-clock-add"
	case "BulkheadFree", "BulkheadContended":
		return "floor-channel"
	case "BulkheadFull", "Call", "Chain", "ChainTimeout":
		return "floor-ctx-fn"
	}
	return ""
}

// base is the row that a scenario's first ratio refers to.
func base(scenario string) string {
	if strings.HasPrefix(scenario, "Bulkhead") {
		return "xsync"
	}
	return "gobreaker"
}

func writeReport(w io.Writer, r *results, o options) {
	fmt.Fprintf(w, "%s, %s/%s, %d CPUs (%s), of which other processes used %.0f %%; %d rounds of %s in turns\n\n",
		runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), r.cpu, 100*r.others, len(r.rounds), o.benchtime)
	fmt.Fprint(w, "Medians of ns per call: CPU time where serial, wall-clock time over all goroutines where parallel. "+
		"In parentheses the median of the ratios within a round: to the base row, to the best peer, to the floor. "+
		"The best peer (†) is the fastest that doesn't deviate.\n")
	for _, s := range scenarios(r) {
		writeScenario(w, r, s)
	}
	writeDeviations(w, r)
	writeTargets(w, r)
	writeCompact(w, r)
}

// A scenario is one table: implementations down, variants across.
type scenario struct {
	name            string
	impls, variants []string
}

// scenarios are in the order of the source, their implementations in that of
// the first column.
func scenarios(r *results) []scenario {
	var all []scenario
	for _, full := range r.names {
		name, impl, variant := splitName(full)
		k := slices.IndexFunc(all, func(s scenario) bool { return s.name == name })
		if k < 0 {
			k = len(all)
			all = append(all, scenario{name: name})
		}
		if s := &all[k]; !slices.Contains(s.impls, impl) {
			s.impls = append(s.impls, impl)
		}
		if s := &all[k]; !slices.Contains(s.variants, variant) {
			s.variants = append(s.variants, variant)
		}
	}
	for _, s := range all {
		first := func(impl string) float64 {
			return median(r.values(joinName(s.name, impl, s.variants[0]), timePerOp))
		}
		slices.SortStableFunc(s.impls, func(a, b string) int { return cmp.Compare(first(a), first(b)) })
	}
	return all
}

func writeScenario(w io.Writer, r *results, s scenario) {
	best := map[string]string{}
	header := []string{"impl"}
	for _, variant := range s.variants {
		best[variant] = bestPeer(r, s, variant)
		header = append(header, heading(variant))
	}
	metrics := otherMetrics(r, s)
	for _, m := range metrics {
		header = append(header, m.title)
	}

	fmt.Fprintf(w, "\n## %s\n\nBase: %s; floor: %s.\n\n", s.name, base(s.name), orDash(floor(s.name)))
	row(w, header...)
	rule(w, 1, len(header)-1)
	for _, impl := range s.impls {
		cells := []string{impl}
		for _, variant := range s.variants {
			cells = append(cells, timeCell(r, s, impl, variant, best[variant]))
		}
		for _, m := range metrics {
			cells = append(cells, number(median(r.values(joinName(s.name, impl, m.variant), m.unit))))
		}
		row(w, cells...)
	}
}

func timeCell(r *results, s scenario, impl, variant, best string) string {
	name := joinName(s.name, impl, variant)
	values := r.values(name, timePerOp)
	if len(values) == 0 {
		return ""
	}
	cell := number(median(values))
	if impl == best {
		cell += "†"
	}
	var ratios []string
	for _, other := range []string{base(s.name), best, floor(s.name)} {
		ratios = append(ratios, number(median(r.ratios(name, joinName(s.name, other, variant), timePerOp))))
	}
	return cell + " (" + strings.Join(ratios, ", ") + ")"
}

// bestPeer is the fastest that is neither a floor nor seawall and behaves as
// the common configuration says.
func bestPeer(r *results, s scenario, variant string) string {
	best, least := "", math.Inf(1)
	for _, impl := range s.impls {
		_, deviates := r.deviations[impl]
		if deviates || strings.HasPrefix(impl, "floor-") || strings.HasPrefix(impl, "seawall") {
			continue
		}
		if t := median(r.values(joinName(s.name, impl, variant), timePerOp)); t < least {
			best, least = impl, t
		}
	}
	return best
}

type metric struct{ title, variant, unit string }

// otherMetrics are what a scenario reports besides time. Allocations don't
// depend on the number of goroutines, so one column of them is enough.
func otherMetrics(r *results, s scenario) []metric {
	var all []metric
	for k, variant := range s.variants {
		units := map[string]bool{}
		for _, round := range r.rounds {
			for _, impl := range s.impls {
				for unit := range round[joinName(s.name, impl, variant)] {
					units[unit] = true
				}
			}
		}
		for _, unit := range slices.Sorted(maps.Keys(units)) {
			switch unit {
			case "ns/op", "cpu-ns/op":
			case "B/op", "allocs/op":
				if k == 0 {
					all = append(all, metric{unit, variant, unit})
				}
			default:
				title := unit
				if len(s.variants) > 1 {
					title += ", " + heading(variant)
				}
				all = append(all, metric{title, variant, unit})
			}
		}
	}
	return all
}

func writeDeviations(w io.Writer, r *results) {
	fmt.Fprint(w, "\n## Not configured alike\n\n")
	for _, impl := range slices.Sorted(maps.Keys(r.deviations)) {
		fmt.Fprintf(w, "- %s %s.\n", impl, r.deviations[impl])
	}
	fmt.Fprint(w, "\nAlike, and yet:\n\n")
	for _, impl := range slices.Sorted(maps.Keys(r.remarks)) {
		fmt.Fprintf(w, "- %s %s.\n", impl, r.remarks[impl])
	}
}

func writeTargets(w io.Writer, r *results) {
	fmt.Fprint(w, "\n## Targets\n\n")
	row(w, "scenario", "base", "must", "goal", "reached", "95 % interval", "")
	rule(w, 2, 5)
	for _, t := range targets() {
		s := summary(t.value(r))
		verdict := "**missed**"
		switch {
		case math.IsNaN(s.Center):
			verdict = "not measured"
		case s.Center <= t.goal:
			verdict = "goal"
		case s.Center <= t.must:
			verdict = "must"
		}
		interval := ""
		if s.Lo != s.Hi && !math.IsInf(s.Lo, 0) && !math.IsInf(s.Hi, 0) {
			interval = number(s.Lo) + " – " + number(s.Hi)
		}
		row(w, t.what, t.base, "≤ "+number(t.must), "≤ "+number(t.goal), number(s.Center), interval, verdict)
	}
}

// writeCompact prints the README's table.
func writeCompact(w io.Writer, r *results) {
	fmt.Fprintf(w, "\n## For the README\n\nns per call and, in parentheses, the ratio to gobreaker or x/sync; %s, %s, medians of %d rounds. Allocations are those of breaker and bulkhead, or of the breaker where there is no such stack.\n\n", runtime.Version(), r.cpu, len(r.rounds))
	row(w, "", "closed", "closed, 2 cores", "open, rejecting", "bulkhead, free", "breaker + bulkhead", "allocations")
	rule(w, 1, 6)
	for _, lib := range [...]struct{ title, breaker, bulkhead string }{
		{"**seawall**", "seawall", "seawall"},
		{"gobreaker + x/sync/semaphore", "gobreaker", "xsync"},
		{"failsafe-go", "failsafe", "failsafe"},
		{"failsafe-go, its permits alone", "failsafe-permit", "failsafe-permit"},
		{"mercari/go-circuitbreaker", "mercari", ""},
		{"go-zero", "go-zero", ""},
		{"eapache/go-resiliency", "eapache", "eapache"},
	} {
		row(w, lib.title,
			compactCell(r, "Closed", lib.breaker, "par=1"),
			compactCell(r, "Closed", lib.breaker, "par=cpu-2"),
			compactCell(r, "Open", lib.breaker, "par=1"),
			compactCell(r, "BulkheadFree", lib.bulkhead, "par=1"),
			compactCell(r, "Chain", lib.breaker, "par=1"),
			allocations(r, lib.breaker))
	}
}

// allocations are those of a stack, or of the breaker where there is none.
func allocations(r *results, impl string) string {
	for _, scenario := range []string{"Chain", "Closed"} {
		if values := r.values(joinName(scenario, impl, "par=1"), "allocs/op"); len(values) > 0 {
			return number(median(values))
		}
	}
	return "–"
}

func compactCell(r *results, scenario, impl, variant string) string {
	name := joinName(scenario, impl, variant)
	values := r.values(name, timePerOp)
	if len(values) == 0 {
		return "–"
	}
	return number(median(values)) + " (" + number(median(r.ratios(name, joinName(scenario, base(scenario), variant), timePerOp))) + ")"
}

// heading says in words what the last part of a benchmark's name means.
func heading(variant string) string {
	variant = strings.TrimSuffix(variant, "/par=1")
	name, cpu, found := strings.Cut(variant, "-")
	if !found {
		cpu = "1"
	}
	switch {
	case variant == "":
		return "ns"
	case variant == "par=1":
		return "serial"
	case name == "par=cpu":
		return "parallel, -cpu " + cpu
	case strings.HasPrefix(name, "par="):
		return strings.TrimPrefix(name, "par=") + " goroutines, -cpu " + cpu
	}
	return strings.ReplaceAll(variant, "=", " ")
}

func row(w io.Writer, cells ...string) {
	fmt.Fprintf(w, "| %s |\n", strings.Join(cells, " | "))
}

// rule writes the line under a header: columns of text, then of numbers.
func rule(w io.Writer, text, numbers int) {
	fmt.Fprintf(w, "|%s%s\n", strings.Repeat(" --- |", text), strings.Repeat(" ---: |", numbers))
}

// number has as many digits as are worth reading; a missing value is a dash.
func number(v float64) string {
	digits := 2
	switch size := math.Abs(v); {
	case math.IsNaN(v):
		return "–"
	case size >= 100 || v == math.Trunc(v):
		digits = 0
	case size >= 10:
		digits = 1
	case size < 0.01:
		digits = 4
	}
	return strconv.FormatFloat(v, 'f', digits, 64)
}

func orDash(s string) string {
	if s == "" {
		return "–"
	}
	return s
}
