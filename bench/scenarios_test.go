package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

var errFailed = errors.New("failed")

func succeed(context.Context) error { return nil }
func fail(context.Context) error    { return errFailed }

// BenchmarkClosed is the path that matters: nothing is wrong.
func BenchmarkClosed(b *testing.B) {
	eachBreaker(b, func(b *testing.B, i impl) { measure(b, i.breaker(alike()), load{}) })
}

// BenchmarkFailures has the 1 % of failures that never stop.
func BenchmarkFailures(b *testing.B) {
	eachBreaker(b, func(b *testing.B, i impl) { measure(b, i.breaker(alike()), load{failEvery: 100}) })
}

func BenchmarkOpen(b *testing.B) {
	eachBreaker(b, func(b *testing.B, i impl) {
		breaker := i.breaker(alike())
		trip(breaker)
		measure(b, breaker, load{failEvery: 1, rejected: !i.isFloor()})
	})
}

// BenchmarkHalfOpen rejects because the only probe is still running.
func BenchmarkHalfOpen(b *testing.B) {
	eachBreaker(b, func(b *testing.B, i impl) {
		c := alike()
		c.cooldown = time.Millisecond
		breaker := i.breaker(c)
		trip(breaker)
		release, admitted := holdWithin(1_000_000, breaker) // Few peers take a clock: the cooldown passes for real.
		if !admitted {
			b.Fatal("no probe was admitted after the cooldown")
		}
		defer release()
		measure(b, breaker, load{failEvery: 1, rejected: !i.isFloor()})
	})
}

// BenchmarkCall is BenchmarkClosed with a value; it has one more func in the way.
func BenchmarkCall(b *testing.B) {
	answer := func(context.Context) (int, error) { return 42, nil }
	each(b, func(i impl) bool { return i.call != nil }, func(b *testing.B, i impl) {
		c := i.call(alike())
		measure(b, func(ctx context.Context, _ func(context.Context) error) error {
			_, err := c(ctx, answer)
			return err
		}, load{})
	})
}

// BenchmarkWindow asks whether a call costs more when the window has more buckets.
func BenchmarkWindow(b *testing.B) {
	eachWindow(b, func(b *testing.B, i impl, buckets int) {
		c := alike()
		c.buckets = buckets
		b.Run("par=1", func(b *testing.B) { serial(b, i.breaker(c), load{}) })
	})
}

// BenchmarkIdle times the first call after half a window without any. Its
// ns/op is the median over many breakers, with two clock readings in it.
func BenchmarkIdle(b *testing.B) {
	eachWindow(b, func(b *testing.B, i impl, buckets int) {
		c := config{window: 2 * time.Second, buckets: buckets, cooldown: time.Hour}
		breakers := many(60, i, c)
		var took []time.Duration
		for b.Loop() {
			for _, breaker := range breakers {
				_ = breaker(b.Context(), succeed)
			}
			time.Sleep(c.window / 2) // To idle for real is what is measured: few peers take a clock, and a benchmark has no bubble.
			for _, breaker := range breakers {
				start := time.Now()
				_ = breaker(b.Context(), succeed)
				took = append(took, time.Since(start))
			}
		}
		b.ReportMetric(quantile(took, 0.5), "ns/op")
	})
}

// crowd is how many breakers a process holds that has one per host or tenant.
const crowd = 10_000

// BenchmarkMany touches a crowd of breakers at random, out of the cache.
func BenchmarkMany(b *testing.B) {
	eachBreaker(b, func(b *testing.B, i impl) {
		breakers := many(crowd, i, alike())
		measure(b, func(ctx context.Context, fn func(context.Context) error) error {
			return breakers[rand.Uint32N(crowd)](ctx, fn)
		}, load{})
	})
}

// BenchmarkMemory makes a crowd of breakers. Its ns/op is the time for one. The func by which a row is called, two words
// and the pointer to them, is not the breaker's and is left out.
func BenchmarkMemory(b *testing.B) {
	eachBreaker(b, func(b *testing.B, i impl) {
		const perFunc = 3 * float64(unsafe.Sizeof(uintptr(0)))
		var fresh, used, goroutines float64
		for b.Loop() {
			before, running := heap(), runtime.NumGoroutine()
			breakers := many(crowd, i, alike())
			fresh = float64(heap()-before)/crowd - perFunc
			for _, breaker := range breakers {
				for range minCalls {
					_ = breaker(b.Context(), succeed)
				}
			}
			used = float64(heap()-before)/crowd - perFunc
			goroutines = float64(runtime.NumGoroutine()-running) / crowd
			runtime.KeepAlive(breakers)
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/crowd, "ns/op")
		b.ReportMetric(fresh, "new-B/breaker")
		b.ReportMetric(used, "used-B/breaker")
		b.ReportMetric(goroutines, "goroutines/breaker")
	})
}

// BenchmarkBulkheadFree would wait if it had to.
func BenchmarkBulkheadFree(b *testing.B) {
	eachBulkhead(b, func(b *testing.B, i impl) { measure(b, i.bulkhead(100, true), load{}) })
}

// BenchmarkBulkheadFull rejects at once.
func BenchmarkBulkheadFull(b *testing.B) {
	eachBulkhead(b, func(b *testing.B, i impl) {
		if i.name == "floor-channel" {
			b.Skip("blocks when full")
		}
		bulkhead := i.bulkhead(1, false)
		release, admitted := holdWithin(100, bulkhead)
		if !admitted {
			b.Fatal("a free bulkhead rejects")
		}
		defer release()
		measure(b, bulkhead, load{rejected: !i.isFloor()})
	})
}

// BenchmarkBulkheadContended lets 64 goroutines queue for 4 slots. Each holds
// its slot for some 2 µs and yields in the middle, so that queues do form.
func BenchmarkBulkheadContended(b *testing.B) {
	const limit, goroutines = 4, 64
	eachBulkhead(b, func(b *testing.B, i impl) {
		b.Run(fmt.Sprintf("par=%d", goroutines), func(b *testing.B) {
			bulkhead := i.bulkhead(limit, true)
			waits := make([]time.Duration, b.N)
			var next atomic.Int64
			b.SetParallelism(goroutines / runtime.GOMAXPROCS(0))
			b.ReportAllocs()
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				var start time.Time
				var spun uint64
				work := func(context.Context) error {
					waits[next.Add(1)-1] = time.Since(start)
					spun += spin()
					runtime.Gosched()
					spun += spin()
					return nil
				}
				for pb.Next() {
					start = time.Now()
					_ = bulkhead(b.Context(), work)
				}
				runtime.KeepAlive(spun)
			})
			if int(next.Load()) != b.N {
				b.Fatalf("%d of %d calls ran", next.Load(), b.N)
			}
			b.ReportMetric(quantile(waits, 0.5), "p50-wait-ns")
			b.ReportMetric(quantile(waits, 0.99), "p99-wait-ns")
		})
	})
}

func BenchmarkChain(b *testing.B) {
	eachStack(b, func(b *testing.B, i impl) { measure(b, i.stack(100, 0), load{}) })
}

func BenchmarkChainTimeout(b *testing.B) {
	eachStack(b, func(b *testing.B, i impl) { measure(b, i.stack(100, time.Minute), load{}) })
}

// each runs f as a sub-benchmark for every row that offers what it needs.
func each(b *testing.B, offers func(impl) bool, f func(*testing.B, impl)) {
	b.Helper()
	scenario := strings.TrimPrefix(b.Name(), "Benchmark")
	for _, i := range impls() {
		if offers(i) && !slices.Contains(i.skip, scenario) {
			b.Run("impl="+i.name, func(b *testing.B) { f(b, i) })
		}
	}
}

func eachBreaker(b *testing.B, f func(*testing.B, impl)) {
	b.Helper()
	each(b, func(i impl) bool { return i.breaker != nil }, f)
}

func eachBulkhead(b *testing.B, f func(*testing.B, impl)) {
	b.Helper()
	each(b, func(i impl) bool { return i.bulkhead != nil }, f)
}

func eachStack(b *testing.B, f func(*testing.B, impl)) {
	b.Helper()
	each(b, func(i impl) bool { return i.stack != nil }, f)
}

func eachWindow(b *testing.B, f func(b *testing.B, i impl, buckets int)) {
	b.Helper()
	each(b, func(i impl) bool { return i.buckets }, func(b *testing.B, i impl) {
		for _, buckets := range []int{10, 100, 1000} {
			b.Run(fmt.Sprintf("buckets=%d", buckets), func(b *testing.B) { f(b, i, buckets) })
		}
	})
}

// A load says what calls a scenario makes and how they must end.
type load struct {
	failEvery int // every n-th call fails; 0 is none
	rejected  bool
}

// measure runs the load from one goroutine and from one per GOMAXPROCS.
func measure(b *testing.B, d do, l load) {
	b.Helper()
	b.Run("par=1", func(b *testing.B) { serial(b, d, l) })
	b.Run("par=cpu", func(b *testing.B) { parallel(b, d, l) })
}

// serial also reports the CPU time of the process, which other processes
// disturb less than they disturb the wall clock.
func serial(b *testing.B, d do, l load) {
	b.Helper()
	c := caller{do: d, load: l, ctx: b.Context()}
	b.ReportAllocs()
	start := cpuTime()
	for b.Loop() {
		c.call()
	}
	b.ReportMetric(float64(cpuTime()-start)/float64(b.N), "cpu-ns/op")
	mustEnd(b, l, c.wrong)
}

func parallel(b *testing.B, d do, l load) {
	b.Helper()
	var wrong atomic.Int64
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		// Requests don't share a context, so goroutines don't either.
		ctx, cancel := context.WithCancel(b.Context())
		defer cancel()
		c := caller{do: d, load: l, ctx: ctx}
		for pb.Next() {
			c.call()
		}
		wrong.Add(int64(c.wrong))
	})
	mustEnd(b, l, int(wrong.Load()))
}

// mustEnd tolerates what rows that reject by chance let through.
func mustEnd(b *testing.B, l load, wrong int) {
	b.Helper()
	if wrong > b.N/20+1 {
		b.Errorf("%d of %d calls did not end as %+v says", wrong, b.N, l)
	}
}

// A caller is one goroutine that makes the calls of a load.
type caller struct {
	do do
	load
	ctx   context.Context
	n     int
	wrong int
}

func (c *caller) call() {
	fn := succeed
	if c.n++; c.n == c.failEvery {
		fn, c.n = fail, 0
	}
	err := c.do(c.ctx, fn)
	rejected := err != nil && err != errFailed //nolint:errorlint // errors.Is would be measured, too
	if rejected != c.rejected {
		c.wrong++
	}
}

// trip fails often enough for every row, those that reject by chance too.
func trip(d do) {
	for range 1000 {
		_ = d(context.Background(), fail)
	}
}

// hold makes a call that stays inside until it is released.
func hold(d do) (release func(), admitted bool) {
	entered, leave, returned := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(returned)
		_ = d(context.Background(), func(context.Context) error {
			close(entered)
			<-leave
			return nil
		})
	}()
	release = func() {
		close(leave)
		<-returned
	}
	select {
	case <-entered:
		return release, true
	case <-returned:
		return release, false
	}
}

// holdWithin tries again, for rows that sometimes reject when free, or until a cooldown is over.
func holdWithin(tries int, d do) (release func(), admitted bool) {
	for range tries {
		if release, admitted = hold(d); admitted {
			break
		}
	}
	return release, admitted
}

func many(n int, i impl, c config) []do {
	breakers := make([]do, n)
	for k := range breakers {
		breakers[k] = i.breaker(c)
	}
	return breakers
}

// spin takes about a microsecond. Its result is there to be used, so that the
// compiler can't drop the work.
func spin() uint64 {
	x := uint64(1)
	for range 1000 {
		x = x*6364136223846793005 + 1442695040888963407
	}
	return x
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// quantile sorts d.
func quantile(d []time.Duration, q float64) float64 {
	slices.Sort(d)
	return float64(d[int(q*float64(len(d)-1))])
}
