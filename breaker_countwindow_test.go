package seawall_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seawall-go/seawall"
)

// A window of the last n calls.

// lastCalls returns a breaker with a window of n calls that never opens unless a test says otherwise.
func lastCalls(t testing.TB, n int, opts ...seawall.BreakerOption) *seawall.Breaker {
	t.Helper()
	return newBreaker(t, append([]seawall.BreakerOption{
		seawall.WithCountWindow(n), seawall.WithConsecutiveFailures(never),
	}, opts...)...)
}

// play makes calls that return what the letters say: s for success, f for failure, i for ignored.
func play(b *seawall.Breaker, results string) {
	for _, r := range results {
		switch r {
		case 's':
			_ = do(b, ok)
		case 'f':
			_ = do(b, bad)
		case 'i':
			_ = do(b, ignored)
		}
	}
}

// The window is made of the last n results, whatever their order, and whether somebody looked in between: successes are
// booked when somebody looks or a call fails.
func TestCountWindowHasTheLastCalls(t *testing.T) {
	for _, tt := range []struct {
		n       int
		results string
		want    [2]uint64 // calls, failures
	}{
		{1, "", [2]uint64{0, 0}},
		{1, "s", [2]uint64{1, 0}},
		{1, "f", [2]uint64{1, 1}},
		{1, "fs", [2]uint64{1, 0}},
		{1, "sf", [2]uint64{1, 1}},
		{3, "fssf", [2]uint64{3, 1}},
		{3, "ffss", [2]uint64{3, 1}},
		{3, "ssff", [2]uint64{3, 2}},
		{3, "fsss", [2]uint64{3, 0}},
		{3, "sfsfsf", [2]uint64{3, 2}},
		{3, "sfsfs", [2]uint64{3, 1}},
		{4, "fi", [2]uint64{1, 1}},
		{4, "fsiiiisi", [2]uint64{3, 1}},
		{4, strings.Repeat("s", 1000) + "f", [2]uint64{4, 1}},
		{4, "f" + strings.Repeat("s", 1000), [2]uint64{4, 0}},
		{4, strings.Repeat("f", 1000) + "ss", [2]uint64{4, 2}},
		{1 << 20, "sfsfsff", [2]uint64{7, 4}},
	} {
		t.Run(fmt.Sprintf("%d %.10s", tt.n, tt.results), func(t *testing.T) {
			b := lastCalls(t, tt.n)
			play(b, tt.results)
			assert.Equal(t, tt.want, counts(b))
			assert.Equal(t, tt.want, counts(b), "looking twice")

			b = lastCalls(t, tt.n)
			for i := range tt.results {
				play(b, tt.results[i:i+1])
				b.Snapshot()
			}
			assert.Equal(t, tt.want, counts(b), "looking at each")
		})
	}
}

// However much time passes, the last calls are the last calls.
func TestCountWindowKnowsNoTime(t *testing.T) {
	onEachClock(t, func(t *testing.T, tl timeline) {
		b := tl.breaker(t, seawall.WithCountWindow(100), seawall.WithFailureRate(0.5, 6))
		for range 2 {
			play(b, "sf")
			tl.Advance(20 * 365 * 24 * time.Hour)
		}
		assert.Equal(t, [2]uint64{4, 2}, counts(b))
		play(b, "s")
		wantState(t, b, seawall.Closed)
		play(b, "f")
		wantState(t, b, seawall.Open)
	})
}

// The rate is that of the last calls, looked at with each failure: the older ones are forgotten.
func TestCountWindowTripsByRate(t *testing.T) {
	for name, tt := range map[string]struct {
		n        int
		rate     float64
		minCalls int
		results  string // the last one trips
	}{
		"of all":            {4, 1, 4, "ffff"},
		"old ones are gone": {4, 1, 4, "sfsssffff"},
		"before it is full": {100, 0.5, 4, "ssff"},
		"by half":           {4, 0.5, 4, "sssfsf"},
		"the latest call":   {1, 0.001, 1, "ssssf"},
		"minCalls":          {10, 0.1, 10, "fsfsfsfsff"},
		"with ignored":      {4, 0.75, 4, "isififif"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBreaker(t, seawall.WithCountWindow(tt.n), seawall.WithFailureRate(tt.rate, tt.minCalls))
			last := len(tt.results) - 1
			play(b, tt.results[:last])
			require.Empty(t, b.History())
			play(b, tt.results[last:])
			assert.Equal(t, []string{edgeRate}, edgesOf(b))
		})
	}
}

// Every edge empties the window, and what comes after fills it anew.
func TestCountWindowIsEmptyAfterAnEdge(t *testing.T) {
	for name, edge := range map[string]func(b *seawall.Breaker, clk *fakeClock){
		"closed again": func(b *seawall.Breaker, clk *fakeClock) {
			play(b, "fff")
			clk.Advance(cooldown)
			play(b, "s")
		},
		"Reset": func(b *seawall.Breaker, _ *fakeClock) { b.Reset() },
		"off and on": func(b *seawall.Breaker, _ *fakeClock) {
			_ = b.SetMode(seawall.Off)
			play(b, "ffff")
			_ = b.SetMode(seawall.Enforce)
		},
	} {
		t.Run(name, func(t *testing.T) {
			clk := newClock()
			b := br(t, clk, seawall.WithCountWindow(5))
			play(b, "sfsfsfs")
			late := allow(t, b)
			edge(b, clk)
			wantState(t, b, seawall.Closed)
			assert.Zero(t, counts(b))
			late(errBoom)
			assert.Zero(t, counts(b))
			play(b, "fssfssf")
			assert.Equal(t, [2]uint64{5, 2}, counts(b))
		})
	}
}

// I7: the counts are those of a list of all results, of which the last n are counted, with any n, and looks now and then.
func TestCountWindowMatchesNaiveList(t *testing.T) {
	for _, n := range []int{1, 2, 3, 4, 7, 20, 100, 1000, 1 << 20} {
		for seed := range uint64(4) {
			random := rand.New(rand.NewPCG(seed, uint64(n)))
			b := lastCalls(t, n)
			var all []bool // whether it failed
			steps := min(3*n+50, 5000)
			for range steps {
				switch k := random.IntN(100); {
				case k < 50:
					play(b, "s")
					all = append(all, false)
				case k < 55: // Many at once: they are booked together.
					for range random.IntN(2 * min(n, 100)) {
						play(b, "s")
						all = append(all, false)
					}
				case k < 80:
					play(b, "f")
					all = append(all, true)
				case k < 85:
					play(b, "i")
				case k < 99:
					var want [2]uint64
					for _, failed := range all[max(0, len(all)-n):] {
						want[0]++
						want[1] += number(failed)
					}
					require.Equal(t, want, counts(b), "n %d, seed %d, after %d", n, seed, len(all))
				case random.IntN(10) == 0:
					b.Reset()
					all = nil
				}
			}
		}
	}
}

// On many goroutines no result is lost and none counts twice, and each look is at something that was.
func TestStressCountWindow(t *testing.T) {
	const n, calls = 1 << 14, 4000
	for name, tt := range map[string]struct{ size, want int }{"all fit": {n, 4 * calls}, "few fit": {100, 100}} {
		t.Run(name, func(t *testing.T) {
			b := lastCalls(t, tt.size)
			var failures atomic.Uint64
			var all, lookers sync.WaitGroup
			stop := make(chan struct{})
			lookers.Go(func() {
				var last seawall.Snapshot
				for {
					s := b.Snapshot()
					assert.LessOrEqual(t, s.Calls, uint64(tt.size))
					assert.LessOrEqual(t, s.Failures, s.Calls)
					assert.GreaterOrEqual(t, s.Calls, last.Calls, "a window that fills loses no call")
					if tt.want < tt.size {
						assert.GreaterOrEqual(t, s.Failures, last.Failures)
						assert.Equal(t, s.Totals.Successes+s.Totals.Failures, s.Calls)
					}
					last = s
					select {
					case <-stop:
						return
					default:
						runtime.Gosched()
					}
				}
			})
			for g := range 4 {
				all.Go(func() {
					for i := range calls {
						if (i+g)%5 == 0 {
							play(b, "f")
							failures.Add(1)
						} else {
							play(b, "s")
						}
					}
				})
			}
			all.Wait()
			close(stop)
			lookers.Wait()
			s := b.Snapshot()
			assert.EqualValues(t, tt.want, s.Calls)
			if tt.want < tt.size {
				assert.Equal(t, failures.Load(), s.Failures)
			}
			assert.EqualValues(t, 4*calls, s.Totals.Successes+s.Totals.Failures)
		})
	}
}

// A window takes no memory for calls that were not made, and one byte for each that was, up to n.
func TestCountWindowGrowsWithItsCalls(t *testing.T) {
	const slack = 32 << 10 // bytes, of n
	for name, tt := range map[string]struct {
		n     int
		calls func(b *seawall.Breaker)
		bytes int
	}{
		"no call":    {1 << 20, func(*seawall.Breaker) {}, 0},
		"some calls": {1 << 20, func(b *seawall.Breaker) { play(b, strings.Repeat("f", 1000)) }, 1000},
		"all successes": {1 << 18, func(b *seawall.Breaker) {
			play(b, strings.Repeat("s", 1<<18+1000))
			assert.Equal(t, [2]uint64{1 << 18, 0}, counts(b))
		}, 1 << 18},
		"an odd number": {200_000, func(b *seawall.Breaker) { play(b, strings.Repeat("f", 200_000)) }, 200_000},
		"over and over": {1 << 16, func(b *seawall.Breaker) {
			for range 3 {
				play(b, strings.Repeat("fs", 1<<15))
				assert.Equal(t, [2]uint64{1 << 16, 1 << 15}, counts(b))
				b.Reset()
			}
			play(b, strings.Repeat("s", 1<<16))
			assert.Equal(t, [2]uint64{1 << 16, 0}, counts(b))
		}, 1 << 16},
	} {
		b := lastCalls(t, tt.n)
		before := inUse()
		tt.calls(b)
		assert.InDelta(t, tt.bytes, inUse()-before, slack, name)
		runtime.KeepAlive(b)
	}
}

// inUse returns how many bytes are.
func inUse() int64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// What is given is in force, and it replaces the time window. Values that are not legal are errors, and so are both.
func TestCountWindowOption(t *testing.T) {
	s := newBreaker(t, seawall.WithCountWindow(1<<20)).Settings()
	assert.Equal(t, 1<<20, s.CountWindow)
	assert.Zero(t, s.Window)
	assert.Zero(t, s.Buckets)
	assert.Zero(t, newBreaker(t).Settings().CountWindow)

	for name, tt := range map[string]struct {
		opts []seawall.BreakerOption
		want string
	}{
		"zero":     {[]seawall.BreakerOption{seawall.WithCountWindow(0)}, "WithCountWindow: n 0 must be from 1 to 1048576"},
		"negative": {[]seawall.BreakerOption{seawall.WithCountWindow(-1)}, "WithCountWindow: n -1 must be from 1 to 1048576"},
		"too many": {[]seawall.BreakerOption{seawall.WithCountWindow(1<<20 + 1)}, "WithCountWindow: n 1048577 must be from 1 to 1048576"},
		"two windows": {
			[]seawall.BreakerOption{seawall.WithCountWindow(5), seawall.WithWindow(time.Second, 1)},
			"WithWindow and WithCountWindow: only one of them may be given",
		},
		"the other way round": {
			[]seawall.BreakerOption{seawall.WithWindow(time.Second, 1), seawall.WithCountWindow(5)},
			"WithWindow and WithCountWindow: only one of them may be given",
		},
		"a rate that is never reached": {
			[]seawall.BreakerOption{seawall.WithCountWindow(5), seawall.WithFailureRate(0.5, 6)},
			"WithCountWindow: n 5 must be at least the minCalls of 6 of WithFailureRate",
		},
	} {
		_, err := seawall.NewBreaker("", tt.opts...)
		require.EqualError(t, err, "seawall: "+tt.want, name)
	}
}

// A window of fewer calls than the default rate asks for is enough for it.
func TestCountWindowShorterThanTheDefaultRate(t *testing.T) {
	for n, minCalls := range map[int]int{1: 1, 5: 5, 19: 19, 20: 20, 21: 20} {
		assert.Equal(t, minCalls, newBreaker(t, seawall.WithCountWindow(n)).Settings().MinCalls)
	}
	b := newBreaker(t, seawall.WithCountWindow(4))
	play(b, "sffs")
	require.Empty(t, b.History())
	play(b, "f")
	assert.Equal(t, []string{edgeRate}, edgesOf(b))
}
