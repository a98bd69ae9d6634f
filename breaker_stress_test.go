package seawall_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seawall-go/seawall"
)

// B28, I1 to I6 under load: calls that end in every way and at any time, hands that force and reset, and a clock that
// jumps. What holds of each snapshot is checked meanwhile, and in the end everything must add up, and the breaker
// must recover by waiting alone. SEAWALL_STRESS says for how long, as "30s"; by default it is short.
func TestStressBreaker(t *testing.T) {
	const probes = 3
	for name, test := range map[string]struct {
		back bool // the clock steps back too
		opts []seawall.BreakerOption
	}{
		"a row":             {false, nil},
		"a rate":            {false, []seawall.BreakerOption{seawall.WithFailureRate(0.6, 10), seawall.WithConsecutiveFailures(never)}},
		"a clock to fear":   {true, []seawall.BreakerOption{seawall.WithFailureRate(0.6, 10)}},
		"short probes":      {false, []seawall.BreakerOption{seawall.WithProbeTimeout(time.Second)}},
		"cooldown function": {false, []seawall.BreakerOption{cooldownOf(7 * time.Second)}},
		"jitter, back-off":  {false, []seawall.BreakerOption{seawall.WithJitter(1), seawall.WithBackoff(time.Minute)}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &breakerStress{clk: newClock(), back: test.back}
			start := s.clk.Now()
			s.b = br(t, s.clk, append([]seawall.BreakerOption{
				seawall.WithProbes(probes), seawall.WithProbeSuccesses(4), s.j.hook(), seawall.WithOnStateChange(s.meddle),
			}, test.opts...)...)
			s.load(t, stressTime(t), probes)
			s.wantSums(t)
			s.wantOrder(t)
			if !s.back {
				totals := s.b.Snapshot().Totals
				assert.Equal(t, s.clk.Now().Sub(start), totals.TimeClosed+totals.TimeOpen+totals.TimeHalfOpen)
			}
			s.wantRecovery(t, probes)
		})
	}
}

type breakerStress struct {
	b    *seawall.Breaker
	clk  *fakeClock
	back bool
	j    journal
	calm atomic.Bool // the hook leaves the breaker alone

	calls, ran, forgotten, rejected, cancelled atomic.Uint64
}

// load uses the breaker from 32 goroutines for some time.
func (s *breakerStress) load(t *testing.T, d time.Duration, probes int) {
	t.Helper()
	end := time.Now().Add(d)
	var all sync.WaitGroup
	for worker := range uint64(32) {
		all.Go(func() {
			r := rand.New(rand.NewPCG(worker, 2))
			last := s.b.Snapshot()
			for steps := 0; steps < 200 || time.Now().Before(end); steps++ {
				s.step(r)
				if r.IntN(16) == 0 {
					now := s.b.Snapshot()
					wantSound(t, now, probes)
					if s.back { // What a look at the clock has added to the time in a state is gone when the clock steps back.
						last.Totals.TimeClosed, last.Totals.TimeOpen, last.Totals.TimeHalfOpen = 0, 0, 0
					}
					wantNotFallen(t, last.Totals, now.Totals)
					last = now
				}
			}
		})
	}
	all.Wait()
}

// step does one thing to the breaker.
func (s *breakerStress) step(r *rand.Rand) {
	switch r.IntN(20) {
	case 0:
		s.clk.Advance(time.Duration(r.Int64N(int64(3 * time.Second))))
	case 1:
		if s.back {
			s.clk.Advance(-time.Duration(r.Int64N(int64(3 * time.Second))))
		}
	case 2:
		if r.IntN(20) == 0 {
			s.b.ForceOpen()
		}
	case 3:
		if r.IntN(3) == 0 {
			s.b.Reset()
		}
	case 4:
		s.forget()
	case 5, 6, 7:
		s.allow(r)
	default:
		s.do(r)
	}
}

func (s *breakerStress) do(r *rand.Rand) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if r.IntN(10) == 0 {
		cancel()
	}
	how := r.IntN(12)
	s.calls.Add(1)
	onItsOwn(func() {
		defer func() { _ = recover() }()
		s.count(s.b.Do(ctx, func(context.Context) error {
			s.ran.Add(1)
			runtime.Gosched()
			switch how {
			case 0:
				panic("stress")
			case 1:
				runtime.Goexit()
			case 2:
				cancel()
				return ctx.Err()
			case 3:
				return seawall.MarkIgnored(errBoom)
			case 4:
				s.calls.Add(1)
				return do(s.b, func(context.Context) error { s.ran.Add(1); return nil })
			case 5, 6, 7, 8:
				return errBoom
			}
			return nil
		}))
	})
}

// count notes a call that was not run.
func (s *breakerStress) count(err error) {
	switch {
	case errors.Is(err, context.Canceled) && errors.Is(err, seawall.ErrRejected):
		s.cancelled.Add(1)
	case errors.Is(err, seawall.ErrOpen):
		s.rejected.Add(1)
	}
}

// allow ends a call twice and from elsewhere.
func (s *breakerStress) allow(r *rand.Rand) {
	s.calls.Add(1)
	done, err := s.b.Allow(context.Background())
	if err != nil {
		s.count(err)
		return
	}
	s.ran.Add(1)
	result := error(nil)
	if r.IntN(2) == 0 {
		result = errBoom
	}
	onItsOwn(func() { done(result) })
	done(nil)
}

// forget lets a call in and never ends it.
func (s *breakerStress) forget() {
	s.calls.Add(1)
	if _, err := s.b.Allow(context.Background()); err != nil {
		s.count(err)
		return
	}
	s.forgotten.Add(1)
}

// meddle is a hook that uses the breaker.
func (s *breakerStress) meddle(c seawall.StateChange) {
	s.b.State()
	s.b.History()
	if c.Generation%50 == 0 && !s.calm.Load() {
		s.b.Reset()
	}
}

// wantSums checks that every call is accounted for, once.
func (s *breakerStress) wantSums(t *testing.T) {
	t.Helper()
	totals := s.b.Snapshot().Totals
	assert.Equal(t, s.ran.Load(), totals.Successes+totals.Failures+totals.Ignored+totals.Late, "I3")
	assert.Equal(t, s.rejected.Load(), totals.Rejected)
	assert.Equal(t, s.cancelled.Load(), totals.Cancelled)
	assert.Equal(t, s.calls.Load(), s.ran.Load()+s.forgotten.Load()+totals.Rejected+totals.Cancelled)
	assert.NotZero(t, totals.Late)
	assert.NotZero(t, totals.Rejected)
}

// wantOrder checks I5: only edges of the table, one event each, in order.
func (s *breakerStress) wantOrder(t *testing.T) {
	t.Helper()
	legal := map[string]bool{
		edgeTripped: true, edgeRate: true, edgeCooled: true, edgeClosed: true, edgeReopened: true,
		"closed → open: forced": true, "open → open: forced": true, "half-open → open: forced": true,
		"closed → closed: reset": true, "open → closed: reset": true, "half-open → closed: reset": true,
	}
	byReason := map[seawall.Reason]uint64{}
	from, at := seawall.Closed, time.Time{}
	edges := s.j.edges()
	for i, c := range s.j.all() {
		require.EqualValues(t, i+1, c.Generation, "each once and in order")
		require.Equal(t, from, c.From)
		require.False(t, c.At.Before(at), "time runs back")
		require.True(t, legal[edges[i]], edges[i])
		byReason[c.Reason]++
		from, at = c.To, c.At
	}
	now := s.b.Snapshot()
	assert.EqualValues(t, now.Generation, len(edges))
	assert.Equal(t, byReason, now.Totals.ByReason)
}

// wantRecovery checks that waiting is all it takes (I4), and that all places are free then and no more (I1).
func (s *breakerStress) wantRecovery(t *testing.T, probes int) {
	t.Helper()
	s.calm.Store(true)
	if s.b.Snapshot().Forced {
		s.b.Reset()
	}
	s.clk.Advance(time.Hour)
	for range 4 {
		wantAdmitted(t, s.b)
	}
	wantState(t, s.b, seawall.Closed)

	for s.b.State() == seawall.Closed {
		_ = do(s.b, bad)
	}
	s.clk.Advance(time.Hour)
	for range probes {
		_, err := s.b.Allow(t.Context())
		require.NoError(t, err)
	}
	wantRejected(t, s.b)
}
