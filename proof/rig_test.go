package proof_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/seawall-go/seawall"
	"github.com/seawall-go/seawall/proof/model"
)

// fakeClock shows what it was told to. It may run back, and it lets other goroutines run between looking and
// answering, which is where a stale reading would come from.
type fakeClock struct {
	mu    sync.Mutex
	t     time.Time
	yield func()
}

func newFakeClock() *fakeClock { return &fakeClock{t: model.Start()} }

func (c *fakeClock) Now() time.Time {
	c.mu.Lock()
	t := c.t
	c.mu.Unlock()
	if c.yield != nil {
		c.yield()
	}
	return t
}

func (c *fakeClock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

// After never fires; only what waits asks for it, and that is tested in bubbles.
func (c *fakeClock) After(time.Duration) <-chan time.Time { return nil }

// small is the configuration that most searches begin with. All of its times are different, so that no mistake of
// one for the other goes unseen.
func small() seawall.Settings {
	return seawall.Settings{
		FailureRate: 0.5, MinCalls: 3, ConsecutiveFailures: 2,
		Window: 10 * time.Second, Buckets: 5,
		Cooldown: 4 * time.Second, MaxRetryAfter: 9 * time.Second,
		Probes: 2, ProbeSuccesses: 2, ProbeTimeout: 3 * time.Second,
	}
}

// variants are the configurations that the random searches draw from.
func variants() []seawall.Settings {
	change := func(f func(*seawall.Settings)) seawall.Settings {
		s := small()
		f(&s)
		return s
	}
	return []seawall.Settings{
		small(),
		change(func(s *seawall.Settings) { s.ConsecutiveFailures, s.FailureRate, s.MinCalls = 0, 0.75, 4 }),
		change(func(s *seawall.Settings) { s.FailureRate, s.MinCalls, s.ConsecutiveFailures = 0, 0, 3 }),
		change(func(s *seawall.Settings) { s.Backoff, s.ProbeTimeout, s.ProbeSuccesses = 13*time.Second, 0, 1 }),
		change(func(s *seawall.Settings) { s.Backoff, s.MaxRetryAfter, s.Probes = 16*time.Second, 0, 1 }),
		change(func(s *seawall.Settings) { s.Probes, s.ProbeSuccesses, s.ProbeTimeout = 3, 4, 5*time.Second }),
		change(func(s *seawall.Settings) { s.FailureRate, s.MinCalls, s.ConsecutiveFailures = 1, 1, 9 }),
		change(func(s *seawall.Settings) {
			s.FailureRate, s.MinCalls, s.ConsecutiveFailures, s.Buckets = 1.0/3, 6, 0, 3
		}),
		change(func(s *seawall.Settings) { s.Window, s.Buckets, s.CountWindow = 0, 0, 5 }),
		change(func(s *seawall.Settings) { s.Mode, s.Backoff = seawall.Observe, 13*time.Second }),
		slow(),
		change(func(s *seawall.Settings) { s.SlowCallThreshold, s.ConsecutiveFailures = 2*time.Second, 0 }),
		change(func(s *seawall.Settings) {
			s.SlowCallThreshold, s.FailureRate, s.MinCalls, s.ConsecutiveFailures = 5*time.Second, 0, 0, 4
		}),
		change(func(s *seawall.Settings) {
			s.SlowCallThreshold, s.Window, s.Buckets, s.CountWindow, s.ProbeTimeout = 2500*time.Millisecond, 0, 0, 7, 0
			s.FailureRate, s.MinCalls, s.ConsecutiveFailures = 0.5, 5, 6
		}),
	}
}

// slow are the settings of a breaker whose calls become slow before anything else happens to them.
func slow() seawall.Settings {
	s := small()
	s.SlowCallThreshold, s.MinCalls, s.ConsecutiveFailures = 1600*time.Millisecond, 4, 3
	return s
}

// options are those that make a breaker with the given settings.
func options(s seawall.Settings) []seawall.BreakerOption {
	opts := []seawall.BreakerOption{
		seawall.WithCooldown(s.Cooldown),
		seawall.WithMaxRetryAfter(s.MaxRetryAfter), seawall.WithProbes(s.Probes),
		seawall.WithProbeSuccesses(s.ProbeSuccesses), seawall.WithJitter(s.Jitter), seawall.WithMode(s.Mode),
	}
	if s.CountWindow > 0 {
		opts = append(opts, seawall.WithCountWindow(s.CountWindow))
	} else {
		opts = append(opts, seawall.WithWindow(s.Window, s.Buckets))
	}
	if s.SlowCallThreshold > 0 {
		opts = append(opts, seawall.WithSlowCallThreshold(s.SlowCallThreshold))
	}
	if s.MinCalls > 0 {
		opts = append(opts, seawall.WithFailureRate(s.FailureRate, s.MinCalls))
	}
	if s.ConsecutiveFailures > 0 {
		opts = append(opts, seawall.WithConsecutiveFailures(s.ConsecutiveFailures))
	}
	if s.Backoff > 0 {
		opts = append(opts, seawall.WithBackoff(s.Backoff))
	}
	if s.ProbeTimeout > 0 {
		opts = append(opts, seawall.WithProbeTimeout(s.ProbeTimeout))
	}
	return opts
}

var errBoom = errors.New("boom")

// waitError asks for a wait before the next try.
type waitError time.Duration

func (e waitError) Error() string             { return "busy, come back in " + time.Duration(e).String() }
func (e waitError) RetryAfter() time.Duration { return time.Duration(e) }

// result is a way for a call to end, with what it means.
type result struct {
	name    string
	err     error
	outcome seawall.Outcome
	hint    time.Duration
}

func results() []result {
	return []result{
		{"success", nil, seawall.Success, 0},
		{"failure", errBoom, seawall.Failure, 0},
		{"ignored", seawall.MarkIgnored(errBoom), seawall.Ignored, 0},
		{"marked success", fmt.Errorf("not found: %w", seawall.MarkSuccess(errBoom)), seawall.Success, 0},
		{"short hint", waitError(6 * time.Second), seawall.Failure, 6 * time.Second},
		{"long hint", fmt.Errorf("too many requests: %w", waitError(time.Hour)), seawall.Failure, time.Hour},
		{"refused further in", fmt.Errorf("inner: %w", seawall.ErrBulkheadFull), seawall.Ignored, 0},
	}
}

// rig drives a breaker and its model by the same operations and compares all that can be seen of them.
type rig struct {
	clock  *fakeClock
	b      *seawall.Breaker
	m      model.Breaker
	done   []func(error) // by id; nil for a call that was rejected
	events []seawall.StateChange
	seen   int             // events compared so far
	gone   context.Context // is done
}

func newRig(set seawall.Settings) *rig {
	r := &rig{clock: newFakeClock(), m: model.New(set)}
	hook := seawall.WithOnStateChange(func(c seawall.StateChange) { r.events = append(r.events, c) })
	r.b = seawall.Must(seawall.NewBreaker("", append(options(set), seawall.WithClock(r.clock), hook)...))
	if got := r.b.Settings(); got != set {
		panic(fmt.Sprintf("settings: got %+v, want %+v", got, set))
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	r.gone = ctx
	return r
}

func (r *rig) advance(d time.Duration) {
	r.clock.Advance(d)
	r.m = r.m.Advance(d)
}

// allow asks both for admission and returns how their answers differ.
func (r *rig) allow() error {
	done, err := r.b.Allow(context.Background())
	m, want := r.m.Allow(len(r.done))
	r.m, r.done = m, append(r.done, done)
	return sameRejection(err, want)
}

func (r *rig) finish(id int, res result) {
	if r.done[id] != nil {
		r.done[id](res.err)
	}
	r.m = r.m.Done(id, res.outcome, res.hint)
}

// do makes a whole call, whose function ends in the given way: by returning if how is "", else by panic or Goexit.
func (r *rig) do(res result, how string) error {
	var err error
	ran := 0
	if how == "" {
		err = r.b.Do(context.Background(), func(context.Context) error { ran++; return res.err })
	} else {
		apart(func() {
			err = r.b.Do(context.Background(), func(context.Context) error { ran++; die(how); return nil })
		})
		res = result{outcome: seawall.Failure}
	}
	id := len(r.done)
	m, want := r.m.Allow(id)
	r.m, r.done = m, append(r.done, nil)
	if want != nil {
		if ran != 0 {
			return errors.New("a rejected function ran")
		}
		return sameRejection(err, want)
	}
	r.m = r.m.Done(id, res.outcome, res.hint)
	if ran != 1 || err != res.err { //nolint:errorlint // The very value must come back.
		return fmt.Errorf("fn ran %d times and Do returned %s, want %s", ran, text(err), text(res.err))
	}
	return nil
}

func (r *rig) cancelled() error {
	_, err := r.b.Allow(r.gone)
	r.m = r.m.Cancelled()
	if (err == nil) != (r.b.Mode() != seawall.Enforce) {
		return fmt.Errorf("Allow with a done context in mode %v: %s", r.b.Mode(), text(err))
	}
	if err == nil {
		return nil
	}
	if !errors.Is(err, seawall.ErrRejected) || !errors.Is(err, context.Canceled) {
		return fmt.Errorf("Allow with a done context: %s", text(err))
	}
	return nil
}

func (r *rig) forceOpen() { r.b.ForceOpen(); r.m = r.m.ForceOpen() }
func (r *rig) reset()     { r.b.Reset(); r.m = r.m.Reset() }

func (r *rig) setMode(mode seawall.Mode) error {
	r.m = r.m.SetMode(mode)
	return r.b.SetMode(mode)
}

// check returns how what breaker and model show of themselves differs. Reading changes no more than the time of untimed
// successes, so it is all read.
func (r *rig) check() error {
	r.m = r.m.Look()
	got, want := r.b.Snapshot(), r.m.Snapshot()
	if !reflect.DeepEqual(got, want) {
		return fmt.Errorf("Snapshot:\n got %+v\nwant %+v", got, want)
	}
	if s := r.b.State(); s != want.State {
		return fmt.Errorf("State: got %v, want %v", s, want.State)
	}
	if len(r.events) != r.m.Generation() {
		return fmt.Errorf("%d events, want %d", len(r.events), r.m.Generation())
	}
	if r.seen == len(r.events) {
		return nil
	}
	changes := r.m.Changes()
	for ; r.seen < len(changes); r.seen++ {
		if e := plain(r.events[r.seen]); e != changes[r.seen] {
			return fmt.Errorf("event:\n got %+v\nwant %+v", e, changes[r.seen])
		}
	}
	if got, want := r.b.History(), r.m.History(); !slices.Equal(got, want) {
		return fmt.Errorf("History:\n got %+v\nwant %+v", got, want)
	}
	return nil
}

// plain is an event with the one error that the model knows.
func plain(c seawall.StateChange) seawall.StateChange {
	if c.Err != seawall.ErrSlowCall { //nolint:errorlint // The very value.
		c.Err = nil
	}
	return c
}

func sameRejection(got error, want *seawall.OpenError) error {
	switch e := (*seawall.OpenError)(nil); {
	case got == nil && want == nil:
		return nil
	case got == nil || want == nil:
		return fmt.Errorf("admission: got %s, want %s", text(got), text(want))
	case !errors.As(got, &e) || !errors.Is(got, seawall.ErrOpen) || !errors.Is(got, seawall.ErrRejected):
		return fmt.Errorf("rejection: got %T %s", got, text(got))
	case e.State != want.State || e.Reason != want.Reason || !e.Until.Equal(want.Until):
		return fmt.Errorf("rejection:\n got %v %v %v\nwant %v %v %v", e.State, e.Reason, e.Until, want.State, want.Reason, want.Until)
	case e.RetryAfter() <= 0:
		return fmt.Errorf("rejected, yet RetryAfter is %v", e.RetryAfter())
	}
	return nil
}

// text is an error in a report of a difference, which is no cause to be matched.
func text(err error) string { return fmt.Sprint(err) }
