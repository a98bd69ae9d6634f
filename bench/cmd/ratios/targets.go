package main

// A target is a row of the table that says what seawall has set itself. Its
// value must not exceed must; goal is what would be better still.
type target struct {
	what       string
	base       string
	value      func(*results) []float64
	must, goal float64
}

// per is the ratio of times per operation.
func per(over, under string) func(*results) []float64 {
	return perUnit(timePerOp, over, under)
}

func perUnit(unit, over, under string) func(*results) []float64 {
	return func(r *results) []float64 { return r.ratios(over, under, unit) }
}

func minus(unit, a, b string) func(*results) []float64 {
	return func(r *results) []float64 { return r.differences(a, b, unit) }
}

func alone(unit, name string) func(*results) []float64 {
	return func(r *results) []float64 { return r.values(name, unit) }
}

// Names used often.
const (
	closed          = "Closed/impl=seawall/par=1"
	gobreakerClosed = "Closed/impl=gobreaker/par=1"
	contended       = "BulkheadContended/impl=seawall/par=64-2"
	xsyncContended  = "BulkheadContended/impl=xsync/par=64-2"
	chain           = "Chain/impl=seawall/par=1"
)

func targets() []target {
	return []target{
		{"closed, success, serial", "gobreaker", per(closed, gobreakerClosed), 0.33, 0.24},
		{"the same", "floor-window", per(closed, "Closed/impl=floor-window/par=1"), 1.6, 1.2},
		{"closed, success, serial, consecutive rule only", "gobreaker", per("Closed/impl=seawall-consecutive/par=1", gobreakerClosed), 0.15, 0.08},
		{"closed, success, parallel -cpu 2", "gobreaker", per("Closed/impl=seawall/par=cpu-2", "Closed/impl=gobreaker/par=cpu-2"), 0.32, 0.15},
		{"closed, success, parallel -cpu 8", "gobreaker", per("Closed/impl=seawall/par=cpu-8", "Closed/impl=gobreaker/par=cpu-8"), 0.20, 0.08},
		{"own scaling: parallel -cpu 2 ÷ serial", "itself", per("Closed/impl=seawall/par=cpu-2", closed), 1.8, 0.7},
		{"closed, 1 % failures ÷ success, serial", "itself", per("Failures/impl=seawall/par=1", closed), 1.15, 1.05},
		{"open, reject, serial", "gobreaker", per("Open/impl=seawall/par=1", "Open/impl=gobreaker/par=1"), 0.60, 0.45},
		{"open, reject, parallel -cpu 2", "gobreaker", per("Open/impl=seawall/par=cpu-2", "Open/impl=gobreaker/par=cpu-2"), 0.80, 0.30},
		{"half-open, reject, serial", "gobreaker", per("HalfOpen/impl=seawall/par=1", "HalfOpen/impl=gobreaker/par=1"), 1.0, 0.6},
		{"Call − Do, ns", "", minus(timePerOp, "Call/impl=seawall/par=1", closed), 70, 0},
		{"Call − Do, allocations", "", minus("allocs/op", "Call/impl=seawall/par=1", closed), 2, 0},
		{"slow-call threshold, closed, serial", "gobreaker", per("Closed/impl=seawall-slow/par=1", gobreakerClosed), 0.75, 0.5},
		{"count window, closed, serial", "gobreaker", per("Closed/impl=seawall-count/par=1", gobreakerClosed), 0.45, 0.3},
		{"1000 buckets ÷ 10, closed", "itself", per("Window/impl=seawall/buckets=1000/par=1", "Window/impl=seawall/buckets=10/par=1"), 1.1, 1.0},
		{"first call after idling, 1000 buckets, ns", "", alone(timePerOp, "Idle/impl=seawall/buckets=1000"), 20_000, 1000},
		{"memory of a new breaker, B", "", alone("new-B/breaker", "Memory/impl=seawall"), 1024, 576},
		{"goroutines per breaker", "", alone("goroutines/breaker", "Memory/impl=seawall"), 0, 0},
		{"10,000 breakers at random, serial", "gobreaker", per("Many/impl=seawall/par=1", "Many/impl=gobreaker/par=1"), 0.45, 0.25},
		{"bulkhead free, serial", "x/sync", per("BulkheadFree/impl=seawall/par=1", "BulkheadFree/impl=xsync/par=1"), 1.7, 1.0},
		{"bulkhead free, parallel -cpu 2", "x/sync", per("BulkheadFree/impl=seawall/par=cpu-2", "BulkheadFree/impl=xsync/par=cpu-2"), 2.1, 1.0},
		{"bulkhead full, reject, serial", "x/sync", per("BulkheadFull/impl=seawall/par=1", "BulkheadFull/impl=xsync/par=1"), 1.0, 0.5},
		{"bulkhead contended, -cpu 2, time", "x/sync", per(contended, xsyncContended), 1.1, 0.9},
		{"bulkhead contended, -cpu 2, p99 wait", "x/sync", perUnit("p99-wait-ns", contended, xsyncContended), 1.0, 0.75},
		{"bulkhead contended, -cpu 2, allocations", "", alone("allocs/op", contended), 0, 0},
		{"Chain(breaker, bulkhead), serial", "gobreaker + x/sync", per(chain, "Chain/impl=gobreaker/par=1"), 0.85, 0.5},
		{"Chain(breaker, bulkhead), parallel -cpu 2", "gobreaker + x/sync", per("Chain/impl=seawall/par=cpu-2", "Chain/impl=gobreaker/par=cpu-2"), 1.0, 0.6},
		{"Chain(breaker, bulkhead, timeout), serial", "the same + context.WithTimeout", per("ChainTimeout/impl=seawall/par=1", "ChainTimeout/impl=gobreaker/par=1"), 1.0, 0.85},
		{"allocations, closed", "", alone("allocs/op", closed), 0, 0},
		{"allocations, open", "", alone("allocs/op", "Open/impl=seawall/par=1"), 0, 0},
		{"allocations, bulkhead free", "", alone("allocs/op", "BulkheadFree/impl=seawall/par=1"), 0, 0},
		{"allocations, Chain of 2", "", alone("allocs/op", chain), 1, 0},
	}
}
