package proof_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seawall-go/seawall"
)

const soakGoroutines = 64

// soaked is a breaker in the soak with what was counted from outside.
type soaked struct {
	b                        *seawall.Breaker
	ran, rejected, cancelled atomic.Uint64

	mu     sync.Mutex // guards events
	events []seawall.StateChange
	told   uint64 // events that were checked and dropped
}

// soak is what all goroutines work on. Time is a fake clock that they advance themselves.
type soak struct {
	clock    *fakeClock
	breakers []*soaked
	bulkhead *seawall.Bulkhead
	gone     context.Context
	inside   crowd // of the bulkhead
}

const soakLimit = 7

func newSoak() *soak {
	s := &soak{clock: newFakeClock()}
	s.clock.yield = func() {
		if rand.IntN(16) == 0 {
			runtime.Gosched()
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	s.gone = ctx
	s.bulkhead = newBulkhead(soakLimit, seawall.WithMaxQueue(20), seawall.WithClock(s.clock))
	for i, extra := range [][]seawall.BreakerOption{
		{seawall.WithBackoff(time.Minute), seawall.WithJitter(0.2)},
		{seawall.WithFailureRate(0.6, 10), seawall.WithProbes(4), seawall.WithProbeSuccesses(5)},
		{seawall.WithSlowCallThreshold(2 * time.Second)},
		{seawall.WithCooldownFunc(func(trip seawall.Trip) time.Duration { return time.Duration(trip.Opens) * time.Second })},
	} {
		k := &soaked{}
		opts := append(options(small()), extra...)
		opts = append(opts, seawall.WithClock(s.clock), seawall.WithOnStateChange(func(c seawall.StateChange) {
			k.b.State() // A hook may call the breaker.
			k.mu.Lock()
			k.events = append(k.events, c)
			k.mu.Unlock()
			if i == 0 && c.Generation%7 == 0 { // And die.
				die([]string{"panic", "goexit"}[c.Generation%2])
			}
		}))
		k.b = seawall.Must(seawall.NewBreaker("", opts...))
		s.breakers = append(s.breakers, k)
	}
	counting := &soaked{b: seawall.Must(seawall.NewBreaker("",
		seawall.WithCountWindow(50), seawall.WithFailureRate(0.5, 20), seawall.WithClock(s.clock)))}
	s.breakers = append(s.breakers, counting)
	return s
}

// work makes n random operations.
func (s *soak) work(r *rand.Rand, all []result, n int) {
	for range n {
		k := s.breakers[r.IntN(len(s.breakers))]
		switch op := r.IntN(1000); {
		case op < 700:
			s.call(k, r, all)
		case op < 800:
			s.clock.Advance([]time.Duration{1, time.Millisecond, 100 * time.Millisecond, time.Second, 4 * time.Second, -time.Second}[r.IntN(6)])
		case op < 900:
			k.b.Snapshot()
		case op < 940:
			k.b.State()
			k.b.History()
		case op < 945:
			apart(k.b.ForceOpen)
		case op < 960:
			apart(k.b.Reset)
		case op < 970:
			_ = s.bulkhead.SetLimit(1 + r.IntN(soakLimit))
		case op < 975:
			_ = k.b.SetMode(seawall.Mode(r.IntN(2))) // Enforce or Observe; Off counts nothing.
		default:
			if err := k.b.Do(s.gone, nothing); errors.Is(err, seawall.ErrRejected) {
				k.cancelled.Add(1)
			} else {
				k.ran.Add(1)
			}
		}
	}
}

// call makes a call through a breaker, mostly with the bulkhead behind it, that ends in a random way.
func (s *soak) call(k *soaked, r *rand.Rand, all []result) {
	ctx := context.Background()
	if r.IntN(4) == 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(1+r.IntN(500))*time.Microsecond)
		defer cancel()
	}
	how, res := r.IntN(50), all[r.IntN(len(all))]
	entered := false
	fn := func(context.Context) error {
		entered = true
		k.ran.Add(1)
		for range r.IntN(3) {
			runtime.Gosched()
		}
		switch how {
		case 0:
			die("panic")
		case 1:
			die("goexit")
		}
		return res.err
	}
	if r.IntN(3) > 0 {
		inner := fn
		fn = func(ctx context.Context) error {
			err := s.bulkhead.Do(ctx, func(ctx context.Context) error {
				s.inside.enter()
				defer s.inside.leave()
				return inner(ctx)
			})
			if !entered {
				k.ran.Add(1) // To the breaker a call that the bulkhead refused has run.
				entered = true
			}
			return err
		}
	}
	var err error
	returned := false
	apart(func() { err = k.b.Do(ctx, fn); returned = true })
	switch {
	case entered:
	case !returned:
		k.ran.Add(1) // A hook died between admission and fn; that counts as Ignored.
	case errors.Is(err, seawall.ErrOpen):
		k.rejected.Add(1)
	case errors.Is(err, seawall.ErrRejected):
		k.cancelled.Add(1)
	default:
		panic(fmt.Sprintf("Do returned %v without running fn", err))
	}
}

// watch polls a breaker while others work and reports what must never be seen.
func (k *soaked) watch(stop <-chan struct{}) error {
	last := k.b.Snapshot()
	for {
		select {
		case <-stop:
			return nil
		default:
		}
		s, set := k.b.Snapshot(), k.b.Settings()
		switch t, was := s.Totals, last.Totals; {
		case s.State < seawall.Closed || s.State > seawall.HalfOpen:
			return fmt.Errorf("state %d", s.State)
		case s.ProbesInFlight < 0 || s.ProbesInFlight > set.Probes:
			return fmt.Errorf("I2: %d probes in flight", s.ProbesInFlight)
		case s.Failures > s.Calls || s.SlowCalls > s.Failures:
			return fmt.Errorf("window: %+v", s)
		// Calls that are slow at one reading of the clock aren't at an earlier one, and reading notes nothing.
		case s.Generation < last.Generation || t.Successes < was.Successes || t.Failures-t.SlowCalls < was.Failures-was.SlowCalls ||
			t.Ignored < was.Ignored || t.Late < was.Late || t.Rejected < was.Rejected || t.WouldReject < was.WouldReject ||
			t.Cancelled < was.Cancelled || t.Opens < was.Opens:
			return fmt.Errorf("totals fall: %+v after %+v", s, last)
		case s.State == seawall.Closed && s.RetryAfter != 0 || s.State == seawall.Open && s.RetryAfter <= 0:
			return fmt.Errorf("RetryAfter %v while %v", s.RetryAfter, s.State)
		}
		last = s
		runtime.Gosched()
	}
}

// rest holds everything to the invariants of design §7 once nothing runs any more.
func (s *soak) rest(t *testing.T) {
	t.Helper()
	require.NoError(t, s.bulkhead.SetLimit(soakLimit))
	requireIdle(t, s.bulkhead)                                           // I1
	require.LessOrEqual(t, s.inside.most.Load(), int64(soakLimit), "I2") // I2
	for i, k := range s.breakers {
		x := k.b.Snapshot()
		require.Zero(t, x.ProbesInFlight, "I1: breaker %d", i)
		totals := x.Totals
		require.Equal(t, k.ran.Load(), totals.Successes+totals.Failures+totals.Ignored+totals.Late+totals.WouldReject, "I3: breaker %d: %+v", i, totals)
		require.Equal(t, k.rejected.Load(), totals.Rejected, "I3: breaker %d", i)
		require.Equal(t, k.cancelled.Load(), totals.Cancelled, "I3: breaker %d", i)
		edges := uint64(0)
		for _, n := range totals.ByReason {
			edges += n
		}
		require.Equal(t, x.Generation, edges, "I5: breaker %d", i)
		k.requireOrdered(t, x)
		if x.Forced {
			apart(k.b.Reset)
		}
		s.clock.Advance(2*time.Hour + k.b.Snapshot().RetryAfter) // The clock may be behind by as much as it ran back.
		ran, before := false, k.b.Snapshot().Generation
		apart(func() { _ = k.b.Do(context.Background(), func(context.Context) error { ran = true; return nil }) })
		k.ran.Add(1)
		// A hook that died after the edge to half-open kept fn from running.
		require.True(t, ran || k.b.Snapshot().Generation > before, "I4: breaker %d must admit a call", i)
	}
}

// requireOrdered checks the events since the last time and drops them.
func (k *soaked) requireOrdered(t *testing.T, x seawall.Snapshot) {
	t.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.events) == 0 {
		return
	}
	require.Equal(t, x.Generation, k.told+uint64(len(k.events)), "I5")
	for i, e := range k.events {
		require.Equal(t, k.told+uint64(i)+1, e.Generation, "I5")
		if i > 0 {
			require.Equal(t, k.events[i-1].To, e.From, "I5")
		}
	}
	k.told, k.events = x.Generation, nil
}

// TestSoak lets 64 goroutines do random things for as long as SEAWALL_SOAK says, in phases, and checks the invariants
// after each. Memory and goroutines must stay flat.
func TestSoak(t *testing.T) {
	length := time.Second
	if text := os.Getenv("SEAWALL_SOAK"); text != "" {
		var err error
		length, err = time.ParseDuration(text)
		require.NoError(t, err)
	} else if effort() == "quick" || testing.Short() {
		length = 100 * time.Millisecond
	}
	s, all, seed := newSoak(), results(), rand.Uint64()
	t.Logf("seed %d", seed)
	var phases, operations int
	var memory, firstMemory uint64
	goroutines := runtime.NumGoroutine()
	for begin := time.Now(); time.Since(begin) < length || phases < 2; phases++ {
		const each = 200
		operations += each * soakGoroutines
		stop, watching, working := make(chan struct{}), sync.WaitGroup{}, sync.WaitGroup{}
		seen := make([]error, len(s.breakers))
		for i, k := range s.breakers {
			watching.Go(func() { seen[i] = k.watch(stop) })
		}
		for g := range soakGoroutines {
			r := rand.New(rand.NewPCG(seed, uint64(phases*soakGoroutines+g)))
			working.Go(func() { s.work(r, all, each) })
		}
		working.Wait()
		close(stop)
		watching.Wait()
		require.NoError(t, errors.Join(seen...))
		s.rest(t)
		for deadline := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > goroutines; runtime.Gosched() {
			require.True(t, time.Now().Before(deadline), "%d goroutines are left over", runtime.NumGoroutine()-goroutines)
		}
		if memory = heap(); phases == 1 {
			firstMemory = memory
		}
	}
	require.Less(t, memory, firstMemory+2<<20, "memory grows")
	edges := uint64(0)
	for _, k := range s.breakers {
		edges += k.b.Snapshot().Generation
	}
	figures(t, "%d phases, %d operations of %d goroutines, %d edges, invariants hold after each; heap %d KiB after phase 2, %d KiB at the end",
		phases, operations, soakGoroutines, edges, firstMemory>>10, memory>>10)
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
