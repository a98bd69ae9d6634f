package proof_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seawall-go/seawall"
)

// The fleet: many processes, each with a breaker of its own, in front of one server. All of it runs in one bubble, so
// that 100 seconds of 1,500 processes take a minute.
const (
	fleetRate    = 10 // calls a second of each process, as a Poisson process
	fleetTimeout = time.Second
	fleetSeconds = 100
	outageFrom   = 20 * time.Second
	outageTo     = 60 * time.Second
	fleetCool    = 5 * time.Second
	fleetJitter  = 0.3
	fleetLoad    = 0.8 // of the server's capacity while all is well
	slot         = 100 * time.Millisecond

	fleetRecovery = fleetCool*(100+100*fleetJitter)/100 + fleetTimeout + 2*time.Second // what is promised
)

// server is one queue. It works on for callers that have left, which is how an overload keeps itself alive. In the
// outage every request hangs.
type server struct {
	capacity float64 // requests a second
	start    time.Time

	mu       sync.Mutex // guards the fields below
	free     time.Time  // when the queue will be empty
	arrivals []int      // by slot
	answers  []int      // by second
	wanted   []int      // calls by second, whether they reached the server or not
}

func newServer(capacity float64) *server {
	return &server{
		capacity: capacity, start: time.Now(),
		arrivals: make([]int, fleetSeconds*10+200), answers: make([]int, fleetSeconds+20), wanted: make([]int, fleetSeconds+20),
	}
}

var errTimeout = errors.New("timeout")

// call waits for the answer as long as the caller does.
func (s *server) call() error {
	wait := s.enter()
	if wait > fleetTimeout {
		time.Sleep(fleetTimeout)
		return errTimeout
	}
	time.Sleep(wait)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers[int(time.Since(s.start)/time.Second)]++
	return nil
}

// enter queues a request and returns how long its answer takes.
func (s *server) enter() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	since := now.Sub(s.start)
	s.arrivals[int(since/slot)]++
	if since >= outageFrom && since < outageTo {
		return fleetTimeout + 1
	}
	if s.free.Before(now) {
		s.free = now
	}
	s.free = s.free.Add(time.Duration(float64(time.Second) / s.capacity))
	return s.free.Sub(now) + 5*time.Millisecond
}

// fleetResult is what happened, in the terms of the promises.
type fleetResult struct {
	load      float64       // requests that reached the server in the outage, for each call that was wanted
	worst     float64       // the fullest slot of the outage once all had tripped, of the capacity
	recovered time.Duration // after the outage, below 0 if never
	goodput   float64       // answered calls from when all is to be well, of those wanted
}

// fleet runs processes whose calls go through what policy makes for each.
func fleet(processes int, policy func() seawall.Policy) fleetResult {
	s := newServer(float64(processes*fleetRate) / fleetLoad)
	for p := range processes {
		r, guard := rand.New(rand.NewPCG(7, uint64(p))), policy()
		go func() {
			for {
				time.Sleep(time.Duration(r.ExpFloat64() / fleetRate * float64(time.Second)))
				if time.Since(s.start) > fleetSeconds*time.Second {
					return
				}
				s.want()
				go func() { _ = guard.Do(context.Background(), func(context.Context) error { return s.call() }) }()
			}
		}()
	}
	time.Sleep((fleetSeconds + 15) * time.Second)
	return s.result()
}

func (s *server) want() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wanted[int(time.Since(s.start)/time.Second)]++
}

func (s *server) result() (r fleetResult) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sum := func(counts []int, from, to int) (n int) {
		for _, c := range counts[from:to] {
			n += c
		}
		return n
	}
	from, to := int(outageFrom/time.Second), int(outageTo/time.Second)
	r.load = float64(sum(s.arrivals, 10*from, 10*to)) / float64(sum(s.wanted, from, to))
	for _, n := range s.arrivals[10*(from+12) : 10*to] { // After 12 s all have tripped: these are probes.
		r.worst = max(r.worst, float64(n)/(s.capacity*slot.Seconds()))
	}
	r.recovered = -1
	for i := to; i < fleetSeconds-3 && r.recovered < 0; i++ { // Well is who stays so for three seconds.
		if float64(sum(s.answers, i, i+3)) >= 0.97*float64(sum(s.wanted, i, i+3)) {
			r.recovered = time.Duration(i-to) * time.Second
		}
	}
	well := to + int(math.Ceil(fleetRecovery.Seconds()))
	r.goodput = float64(sum(s.answers, well, fleetSeconds)) / float64(sum(s.wanted, well, fleetSeconds))
	return r
}

// threeRetries tries again up to three times, with backoff and jitter.
func threeRetries(r *rand.Rand) seawall.PolicyFunc {
	var mu sync.Mutex
	return func(ctx context.Context, fn func(context.Context) error) (err error) {
		for try := range 4 {
			if err = fn(ctx); err == nil || try == 3 {
				return err
			}
			mu.Lock()
			d := time.Duration(r.Float64() * float64(100*time.Millisecond) * float64(int(1)<<try))
			mu.Unlock()
			time.Sleep(d)
		}
		return err
	}
}

// TestFleet holds a fleet of guarded processes to what an operator cares for, and shows by a control without guards
// that the simulation can fail: there the overload outlives the outage for good.
func TestFleet(t *testing.T) {
	processes, worst := 200, 0.15
	switch {
	case effort() == "quick" || raceEnabled || testing.Short():
		processes, worst = 100, 0.20
	case effort() == "release":
		processes, worst = 1500, 0.10
	}
	begin := time.Now()
	// All processes try again; what differs is whether a breaker stands before it.
	run := func(guards func() []seawall.Policy) (r fleetResult) {
		synctest.Test(t, func(*testing.T) {
			seed := uint64(0)
			r = fleet(processes, func() seawall.Policy {
				seed++
				return seawall.Chain(append(guards(), threeRetries(rand.New(rand.NewPCG(8, seed))))...)
			})
		})
		return r
	}
	guarded := run(func() []seawall.Policy {
		return []seawall.Policy{seawall.Must(seawall.NewBreaker("", seawall.WithFailureRate(0.5, 10),
			seawall.WithWindow(10*time.Second, 10), seawall.WithCooldown(fleetCool), seawall.WithJitter(fleetJitter),
			seawall.WithProbeTimeout(fleetCool)))}
	})
	control := run(func() []seawall.Policy { return nil })
	figures(t, "%d processes, 40 s outage: load in it x%.2f, worst 100 ms %.2f of capacity, recovered within %v, goodput %.1f %%; "+
		"control without guards: load x%.2f, goodput %.1f %%; in %v", processes, guarded.load, guarded.worst, guarded.recovered,
		100*guarded.goodput, control.load, 100*control.goodput, time.Since(begin).Round(time.Second/10))
	assert.LessOrEqual(t, guarded.load, 1.1)
	assert.LessOrEqual(t, guarded.worst, worst)
	require.GreaterOrEqual(t, guarded.recovered, time.Duration(0), "never recovered")
	assert.LessOrEqual(t, guarded.recovered, fleetRecovery)
	assert.GreaterOrEqual(t, guarded.goodput, 0.99)
	assert.Less(t, control.goodput, 0.01, "the control must collapse")
	assert.Greater(t, control.load, 2.0)
}
