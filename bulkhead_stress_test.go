package seawall_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seawall-go/seawall"
)

// I1, I2, I3: whatever happens in whatever order, the bulkhead does what a trivially correct model of it does. After
// every step all of it is compared: who is inside of fn, how every other call ended, and all numbers.
func TestBulkheadMatchesModel(t *testing.T) {
	for seed := range uint64(200) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, 0))
				d := newModelDrive(t, r)
				for range 60 {
					d.step(r)
					d.compare(t)
				}
				d.end(t)
			})
		})
	}
}

// modelDrive does the same to a bulkhead and to its model.
type modelDrive struct {
	model bulkheadModel
	real  *seawall.Bulkhead
	ops   []string // what was done so far, for the failure message

	cancels map[int]context.CancelFunc
	ends    map[int]chan string // by which a call inside of fn is told how to end

	mu     sync.Mutex
	inside map[int]bool
	fates  map[int]string
}

func newModelDrive(t *testing.T, r *rand.Rand) *modelDrive {
	t.Helper()
	d := &modelDrive{
		model: bulkheadModel{
			limit:    1 + r.IntN(4),
			maxQueue: pick(r, 0, 1, 3, -1),
			maxWait:  pick(r, 0, maxWait, -1),
			fates:    map[int]string{},
		},
		cancels: map[int]context.CancelFunc{},
		ends:    map[int]chan string{},
		inside:  map[int]bool{},
		fates:   map[int]string{},
	}
	m := &d.model
	var opts []seawall.BulkheadOption
	if m.maxQueue >= 0 {
		opts = append(opts, seawall.WithMaxQueue(m.maxQueue))
	}
	if m.maxWait >= 0 {
		opts = append(opts, seawall.WithMaxWait(m.maxWait))
	}
	d.real = bh(t, m.limit, opts...)
	t.Cleanup(d.abandon)
	if m.maxWait == 0 {
		m.maxQueue = 0
	}
	d.log("limit %d, queue %d, wait %v", m.limit, m.maxQueue, m.maxWait)
	return d
}

func (d *modelDrive) log(format string, args ...any) {
	d.ops = append(d.ops, fmt.Sprintf(format, args...))
}

// step does one thing to both, and lets everything happen that follows from it.
func (d *modelDrive) step(r *rand.Rand) {
	m := &d.model
	switch n := r.IntN(10); {
	case n < 4:
		d.call(r.IntN(8) == 0)
	case n < 7 && len(m.running) > 0:
		d.finish(m.running[r.IntN(len(m.running))], pick(r, "nil", "error", "panic", "Goexit"))
	case n == 7 && len(m.queue) > 0:
		d.cancel(m.queue[r.IntN(len(m.queue))].id)
	case n == 8:
		d.setLimit(1 + r.IntN(6))
	default:
		d.sleep(pick(r, ns, maxWait/2, maxWait-ns, maxWait))
	}
	synctest.Wait()
}

func (d *modelDrive) call(done bool) {
	id := d.model.arrive(done)
	d.log("call %d, context done: %v", id, done)
	ctx, cancel := context.WithCancel(context.Background())
	if done {
		cancel()
	}
	end := make(chan string, 1)
	d.cancels[id], d.ends[id] = cancel, end
	go d.run(ctx, id, end)
}

// run is the goroutine of one call.
func (d *modelDrive) run(ctx context.Context, id int, end chan string) {
	fate := "left without returning"
	defer func() {
		_ = recover()
		d.note(func() { d.fates[id] = fate; delete(d.inside, id) })
	}()
	err := d.real.Do(ctx, func(context.Context) error {
		d.note(func() { d.inside[id] = true })
		switch how := <-end; how {
		case "panic":
			panic(how)
		case "Goexit":
			runtime.Goexit()
		case "error":
			return errBoom
		}
		return nil
	})
	fate = fateOf(err)
}

func (d *modelDrive) note(change func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change()
}

// fateOf tells the ways apart in which a call may end.
func fateOf(err error) string {
	var full *seawall.FullError
	switch {
	case err == nil:
		return "nil"
	case errors.Is(err, errBoom):
		return "error"
	case errors.As(err, &full) && errors.Is(err, context.Canceled):
		return fmt.Sprintf("cancelled in the queue after %v", full.Waited)
	case errors.As(err, &full):
		return fmt.Sprintf("full, limit %d, waited %v", full.Limit, full.Waited)
	case errors.Is(err, context.Canceled):
		return "done before"
	default:
		return err.Error()
	}
}

func (d *modelDrive) finish(id int, how string) {
	d.log("call %d ends: %s", id, how)
	d.model.finish(id, how)
	d.ends[id] <- how
}

func (d *modelDrive) cancel(id int) {
	d.log("cancel %d", id)
	d.model.cancel(id)
	d.cancels[id]()
}

func (d *modelDrive) setLimit(n int) {
	d.log("set limit %d", n)
	d.model.setLimit(n)
	if err := d.real.SetLimit(n); err != nil {
		d.log("%v", err)
	}
}

func (d *modelDrive) sleep(by time.Duration) {
	d.log("%v pass", by)
	d.model.advance(by)
	time.Sleep(by)
}

func (d *modelDrive) compare(t *testing.T) {
	t.Helper()
	m, story := &d.model, strings.Join(d.ops, "\n")
	require.Equal(t, m.snapshot(), d.real.Snapshot(), story)
	d.mu.Lock()
	defer d.mu.Unlock()
	require.Equal(t, slices.Sorted(slices.Values(m.running)), slices.Sorted(maps.Keys(d.inside)), story)
	require.Equal(t, m.fates, d.fates, story)
}

// end lets every call end, and asserts I1 and I3 of what is left.
func (d *modelDrive) end(t *testing.T) {
	t.Helper()
	for len(d.model.running) > 0 {
		d.finish(d.model.running[0], "nil")
		synctest.Wait()
		d.compare(t)
	}
	all := d.real.Snapshot().Totals
	require.EqualValues(t, len(d.ends), all.Admitted+all.RejectedFull+all.RejectedTimeout+all.Cancelled)
	wantQuiet(t, d.real, d.model.limit)
}

// abandon ends what a failed test has left behind.
func (d *modelDrive) abandon() {
	for id, cancel := range d.cancels {
		cancel()
		select {
		case d.ends[id] <- "nil":
		default:
		}
	}
}

// bulkheadModel is a bulkhead for one goroutine at a time: a list of who runs, a list of who waits, and a rule.
type bulkheadModel struct {
	limit, maxQueue int           // maxQueue -1: no bound
	maxWait         time.Duration // -1: no bound

	now     time.Duration
	calls   int
	running []int
	queue   []modelWaiter
	fates   map[int]string // how calls ended
	totals  seawall.BulkheadTotals
}

type modelWaiter struct {
	id    int
	since time.Duration
}

func (m *bulkheadModel) arrive(done bool) (id int) {
	id = m.calls
	m.calls++
	switch {
	case done:
		m.totals.Cancelled++
		m.fates[id] = "done before"
	case len(m.running) < m.limit:
		m.admit(id)
	case m.maxQueue >= 0 && len(m.queue) >= m.maxQueue:
		m.totals.RejectedFull++
		m.fates[id] = fmt.Sprintf("full, limit %d, waited 0s", m.limit)
	default:
		m.queue = append(m.queue, modelWaiter{id, m.now})
	}
	return id
}

func (m *bulkheadModel) admit(id int) {
	m.totals.Admitted++
	m.running = append(m.running, id)
}

func (m *bulkheadModel) finish(id int, how string) {
	m.running = slices.DeleteFunc(m.running, func(r int) bool { return r == id })
	m.fates[id] = how
	if how == "panic" || how == "Goexit" {
		m.fates[id] = "left without returning"
	}
	m.serve()
}

// serve is the rule: as long as there is a slot, the first in the queue gets it.
func (m *bulkheadModel) serve() {
	for len(m.running) < m.limit && len(m.queue) > 0 {
		m.admit(m.leave(0).id)
	}
}

func (m *bulkheadModel) leave(i int) modelWaiter {
	w := m.queue[i]
	m.queue = slices.Delete(m.queue, i, i+1)
	m.totals.Waited += m.now - w.since
	return w
}

func (m *bulkheadModel) cancel(id int) {
	w := m.leave(slices.IndexFunc(m.queue, func(w modelWaiter) bool { return w.id == id }))
	m.totals.Cancelled++
	m.fates[id] = fmt.Sprintf("cancelled in the queue after %v", m.now-w.since)
}

func (m *bulkheadModel) setLimit(n int) {
	m.limit = n
	m.serve()
}

func (m *bulkheadModel) advance(by time.Duration) {
	end := m.now + by
	for m.maxWait > 0 && len(m.queue) > 0 && m.queue[0].since+m.maxWait <= end {
		m.now = m.queue[0].since + m.maxWait
		w := m.leave(0)
		m.totals.RejectedTimeout++
		m.fates[w.id] = fmt.Sprintf("full, limit %d, waited %v", m.limit, m.maxWait)
	}
	m.now = end
}

func (m *bulkheadModel) snapshot() seawall.BulkheadSnapshot {
	return seawall.BulkheadSnapshot{
		Name: "bh", Limit: m.limit, InFlight: len(m.running), Waiting: len(m.queue), MaxQueue: m.maxQueue, Totals: m.totals,
	}
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

// G98, B78: release and cancel race for one waiter. Whoever wins, the round ends, and no slot is lost or made.
func TestBulkheadLosesNoWakeUp(t *testing.T) {
	b := bh(t, 1)
	for range 1000 {
		release, err := b.Acquire(t.Context())
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		front := queue(ctx, t, b)
		behind := queue(t.Context(), t, b)
		var all sync.WaitGroup
		all.Go(release)
		all.Go(cancel)
		all.Wait()
		behind.wantRun(t)
		if err := <-front.done; err != nil {
			require.ErrorIs(t, err, seawall.ErrBulkheadFull)
			require.Zero(t, front.count())
		}
	}
	wantQuiet(t, b, 1)
}

// G145: slots are given back while the limit changes all the time. Afterwards there are exactly as many as the last
// limit says.
func TestBulkheadKeepsItsSlotsWhileTheLimitChanges(t *testing.T) {
	b := bh(t, 3)
	var calls, resizing sync.WaitGroup
	for range 8 {
		calls.Go(func() {
			for range 1000 {
				assert.NoError(t, do(b, ok))
			}
		})
	}
	stop := make(chan struct{})
	resizing.Go(func() {
		for n := 0; ; n++ {
			assert.NoError(t, b.SetLimit(1+n%7))
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	calls.Wait()
	close(stop)
	resizing.Wait()
	require.NoError(t, b.SetLimit(4))
	wantQuiet(t, b, 4)
}

// I1, I2, I3 under load: calls that end in every way, contexts that end at any time, slots that are given back twice
// and from elsewhere. SEAWALL_STRESS says for how long, as "30s"; by default it is short.
func TestStressBulkhead(t *testing.T) {
	for name, test := range map[string]struct {
		limits []int // changed all the time if there are several
		opts   []seawall.BulkheadOption
	}{
		"waiting":        {[]int{3}, nil},
		"no waiting":     {[]int{3}, []seawall.BulkheadOption{noWait()}},
		"short waiting":  {[]int{2}, []seawall.BulkheadOption{seawall.WithMaxWait(20 * time.Microsecond)}},
		"bounded queue":  {[]int{2}, []seawall.BulkheadOption{seawall.WithMaxQueue(4)}},
		"changing limit": {[]int{4, 1, 6, 2, 1, 5}, []seawall.BulkheadOption{seawall.WithMaxWait(time.Millisecond)}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &bulkheadStress{b: bh(t, test.limits[0], test.opts...), most: int64(slices.Max(test.limits))}
			s.load(t, stressTime(t), test.limits)
			assert.LessOrEqual(t, s.top.Load(), s.most, "calls inside of fn at once")
			totals := s.b.Snapshot().Totals
			assert.Equal(t, s.ran.Load(), totals.Admitted, "admitted calls run once, others never")
			assert.Equal(t, s.calls.Load(), totals.Admitted+totals.RejectedFull+totals.RejectedTimeout+totals.Cancelled)
			require.NoError(t, s.b.SetLimit(2))
			wantQuiet(t, s.b, 2)
		})
	}
}

func stressTime(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("SEAWALL_STRESS")
	if text == "" {
		return 30 * time.Millisecond
	}
	d, err := time.ParseDuration(text)
	require.NoError(t, err, "SEAWALL_STRESS")
	return d
}

type bulkheadStress struct {
	b          *seawall.Bulkhead
	most       int64 // calls that may be inside at once
	inside     atomic.Int64
	top        atomic.Int64 // the most that were
	calls, ran atomic.Uint64
}

// load makes calls from 16 goroutines for some time, and goes through the limits meanwhile.
func (s *bulkheadStress) load(t *testing.T, d time.Duration, limits []int) {
	t.Helper()
	end := time.Now().Add(d)
	var all sync.WaitGroup
	for worker := range uint64(16) {
		all.Go(func() {
			r := rand.New(rand.NewPCG(worker, 1))
			for time.Now().Before(end) {
				s.call(t, r)
			}
		})
	}
	all.Go(func() {
		for i := 0; len(limits) > 1 && time.Now().Before(end); i++ {
			assert.NoError(t, s.b.SetLimit(limits[i%len(limits)]))
			runtime.Gosched()
		}
	})
	all.Wait()
}

// call makes one call of a random kind. It has a goroutine of its own, for Goexit.
func (s *bulkheadStress) call(t *testing.T, r *rand.Rand) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), pick(r, -1, 10*time.Microsecond, time.Hour))
	defer cancel()
	s.calls.Add(1)
	if r.IntN(4) == 0 {
		s.callInTwoSteps(ctx, r.IntN(2) == 0)
		return
	}
	how := r.IntN(8)
	if r.IntN(4) == 0 {
		go cancel()
	}
	onItsOwn(func() {
		defer func() {
			if p := recover(); p != nil {
				assert.Equal(t, "a panic of fn's", p)
			}
		}()
		_ = s.b.Do(ctx, func(context.Context) error {
			defer s.enter()()
			switch how {
			case 0:
				panic("a panic of fn's")
			case 1:
				runtime.Goexit()
			case 2:
				return errBoom
			}
			return nil
		})
	})
}

func (s *bulkheadStress) callInTwoSteps(ctx context.Context, elsewhere bool) {
	release, err := s.b.Acquire(ctx)
	if err != nil {
		return
	}
	s.enter()()
	if elsewhere {
		onItsOwn(release)
	}
	release()
}

// enter notes a call as inside until the function that it returns is called.
func (s *bulkheadStress) enter() (leave func()) {
	s.ran.Add(1)
	now := s.inside.Add(1)
	for top := s.top.Load(); now > top && !s.top.CompareAndSwap(top, now); top = s.top.Load() {
	}
	runtime.Gosched()
	return func() { s.inside.Add(-1) }
}
