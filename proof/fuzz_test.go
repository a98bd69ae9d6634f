package proof_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/seawall-go/seawall"
)

// mostOperations bounds what one input does. Inputs would grow to megabytes else, and the model recounts everything.
const mostOperations = 200

// FuzzOperations plays the input as operations on a breaker and on its model: the first byte chooses the settings, then
// each two bytes are an operation.
func FuzzOperations(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 1, 5, 3, 0, 0, 1, 0})                            // trips, then a late success
	f.Add([]byte{0, 0, 0, 0, 0, 1, 9, 1, 9, 5, 3, 0, 0, 0, 0, 0, 0, 5, 6, 0, 0, 1, 1})                // half-open, a place lapses
	f.Add([]byte{2, 2, 1, 2, 0, 2, 1, 2, 1, 2, 1, 5, 2, 2, 0, 5, 14, 2, 0, 2, 0})                     // a row, probes, the clock runs back
	f.Add([]byte{3, 2, 1, 2, 1, 5, 3, 2, 1, 5, 3, 2, 1, 6, 0, 6, 1, 6, 2})                            // backs off, is forced and reset
	f.Add([]byte{8, 2, 0, 2, 1, 2, 0, 2, 1, 2, 0, 2, 1, 2, 1, 5, 2, 2, 0, 2, 0})                      // the last five calls
	f.Add([]byte{9, 2, 1, 2, 1, 2, 0, 6, 3, 2, 0, 6, 11, 2, 1, 6, 3, 2, 1})                           // observes, enforces, is off, enforces
	f.Add([]byte{10, 0, 0, 0, 0, 0, 0, 0, 0, 5, 23, 0, 0, 1, 0, 5, 4, 0, 0, 5, 19, 0, 0, 1, 0, 1, 0}) // hangs, and so does the probe
	f.Add([]byte{10, 0, 0, 5, 23, 1, 0, 0, 0, 1, 0})                                                  // a slow call returns to a closed breaker
	f.Add([]byte{10, 5, 21, 0, 0, 5, 18, 5, 0, 5, 0, 1, 0})                                           // begun in the last instant of a slot
	f.Fuzz(func(t *testing.T, input []byte) {
		if len(input) == 0 {
			return
		}
		all := variants()
		r := newRig(all[int(input[0])%len(all)])
		input = input[1:]
		for i := 0; i+1 < len(input) && i < 2*mostOperations; i += 2 {
			err := r.operate(int(input[i]), int(input[i+1]))
			if err == nil {
				err = r.check()
			}
			if err != nil {
				t.Fatalf("operation %d: %v", i/2, err)
			}
		}
	})
}

// operate makes the operation that two numbers stand for.
func (r *rig) operate(what, which int) error {
	res := results()[which%len(results())]
	switch what % 7 {
	case 0:
		return r.allow()
	case 1: // Ends a call that runs, the first numbers choosing the oldest.
		if ids := r.m.Running(); len(ids) > 0 {
			r.finish(ids[which/8%len(ids)], res)
		}
	case 2:
		return r.do(res, "")
	case 3:
		return r.do(res, []string{"panic", "goexit"}[which%2])
	case 4: // Ends any call there ever was.
		if len(r.done) > 0 {
			r.finish(which%len(r.done), res)
		}
	case 5:
		names := durationNames()
		r.advance(r.named(names[which%len(names)], time.Duration(which)*37*time.Millisecond))
	case 6:
		switch which % 4 {
		case 0:
			r.forceOpen()
		case 1:
			r.reset()
		case 2:
			return r.cancelled()
		default:
			return r.setMode(seawall.Mode(which / 4 % 3))
		}
	}
	return nil
}

// chosen are the arguments of all options of a breaker. A bit of given says whether the option is.
type chosen struct {
	given                                  uint
	rate, jitter                           float64
	minCalls, row, buckets, count          int
	probes, successes                      int
	window, cooldown, backoff, hint, probe time.Duration
	slow                                   time.Duration
	mode                                   int
}

func (c chosen) has(bit uint) bool { return c.given&(1<<bit) != 0 }

// options returns the chosen options, and the names of those that must be refused.
func (c chosen) options() (opts []seawall.BreakerOption, bad []string) {
	add := func(bit uint, opt seawall.BreakerOption, name string, legal bool) {
		if !c.has(bit) {
			return
		}
		opts = append(opts, opt)
		if !legal {
			bad = append(bad, name)
		}
	}
	cooldown := 5 * time.Second
	if c.has(4) {
		cooldown = c.cooldown
	}
	add(0, seawall.WithFailureRate(c.rate, c.minCalls), "WithFailureRate", c.rate > 0 && c.rate <= 1 && c.minCalls >= 1)
	add(1, seawall.WithConsecutiveFailures(c.row), "WithConsecutiveFailures", c.row >= 1)
	add(2, seawall.WithWindow(c.window, c.buckets), "WithWindow",
		c.buckets >= 1 && c.buckets <= 1000 && c.window/time.Duration(max(1, c.buckets)) >= time.Millisecond)
	add(3, seawall.WithCountWindow(c.count), "WithCountWindow",
		c.count >= 1 && c.count <= 1<<20 && (!c.has(2) || c.window == 0) && (!c.has(0) || c.minCalls <= c.count))
	add(4, seawall.WithCooldown(c.cooldown), "WithCooldown", c.cooldown > 0)
	add(5, seawall.WithBackoff(c.backoff), "WithBackoff", c.backoff > 0 && c.backoff >= cooldown)
	add(6, seawall.WithJitter(c.jitter), "WithJitter", c.jitter >= 0 && c.jitter <= 1)
	add(7, seawall.WithMaxRetryAfter(c.hint), "WithMaxRetryAfter", c.hint >= 0)
	add(8, seawall.WithProbes(c.probes), "WithProbes", c.probes >= 1)
	add(9, seawall.WithProbeSuccesses(c.successes), "WithProbeSuccesses", c.successes >= 1)
	add(10, seawall.WithProbeTimeout(c.probe), "WithProbeTimeout", c.probe > 0)
	add(11, seawall.WithSlowCallThreshold(c.slow), "WithSlowCallThreshold", c.slow > 0)
	add(12, seawall.WithMode(seawall.Mode(c.mode)), "WithMode", c.mode >= 0 && c.mode <= 2)
	add(13, seawall.WithClassifier(nil), "WithClassifier", false)
	add(14, seawall.WithClock(nil), "WithClock", false)
	add(15, seawall.WithOnStateChange(nil), "WithOnStateChange", false)
	add(16, nil, "option", false)
	return opts, bad
}

// settings are those of a breaker with the chosen options, if all are legal.
func (c chosen) settings() seawall.Settings {
	s := seawall.Settings{
		FailureRate: 0.5, MinCalls: 20, ConsecutiveFailures: 10, Window: 10 * time.Second, Buckets: 10,
		Cooldown: 5 * time.Second, MaxRetryAfter: time.Minute, Probes: 1, ProbeSuccesses: 1,
	}
	if c.has(3) {
		s.Window, s.Buckets, s.CountWindow = 0, 0, c.count
		s.MinCalls = min(s.MinCalls, c.count)
	}
	if c.has(0) || c.has(1) {
		s.FailureRate, s.MinCalls, s.ConsecutiveFailures = 0, 0, 0
	}
	for bit, set := range map[uint]func(){
		0:  func() { s.FailureRate, s.MinCalls = c.rate, c.minCalls },
		1:  func() { s.ConsecutiveFailures = c.row },
		2:  func() { s.Window, s.Buckets = c.window, c.buckets },
		4:  func() { s.Cooldown = c.cooldown },
		5:  func() { s.Backoff = c.backoff },
		6:  func() { s.Jitter = c.jitter },
		7:  func() { s.MaxRetryAfter = c.hint },
		8:  func() { s.Probes = c.probes },
		9:  func() { s.ProbeSuccesses = c.successes },
		10: func() { s.ProbeTimeout = c.probe },
		11: func() { s.SlowCallThreshold = c.slow },
		12: func() { s.Mode = seawall.Mode(c.mode) },
	} {
		if c.has(bit) {
			set()
		}
	}
	return s
}

// FuzzOptions asks for two things: what is refused says which options are bad, all of them, and what is accepted works
// as the model says.
func FuzzOptions(f *testing.F) {
	f.Add(uint(0xfff), 0.5, 0.0, 3, 2, 5, 10, 2, 2, int64(10e9), int64(4e9), int64(16e9), int64(9e9), int64(3e9), int64(1e9), 0)
	f.Add(uint(0xfff), math.NaN(), math.Inf(1), 0, -1, 1001, 0, 0, 0, int64(0), int64(-1), int64(1), int64(-1), int64(0), int64(0), 3)
	f.Add(uint(1<<0|1<<2|1<<4|1<<10), 1.0, 0.0, 1, 1, 1, 1, 1, 1, int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64), int64(0), int64(math.MaxInt64), int64(1), 0)
	f.Add(uint(1<<4|1<<5|1<<6), 0.1, 1.0, 1, 1, 1, 1, 1, 1, int64(1), int64(1), int64(math.MaxInt64), int64(0), int64(1), int64(1), 0)
	f.Add(uint(0), 0.0, 0.0, 0, 0, 0, 0, 0, 0, int64(0), int64(0), int64(0), int64(0), int64(0), int64(0), 0)
	f.Add(uint(1<<1|1<<3|1<<11), 0.0, 0.0, 0, 3, 0, 4, 0, 0, int64(0), int64(0), int64(0), int64(0), int64(0), int64(1), 1)
	f.Fuzz(func(t *testing.T, given uint, rate, jitter float64, minCalls, row, buckets, count, probes, successes int,
		window, cooldown, backoff, hint, probe, slow int64, mode int,
	) {
		d := func(n int64) time.Duration { return time.Duration(n) }
		c := chosen{
			given: given, rate: rate, jitter: jitter, minCalls: minCalls, row: row, buckets: buckets, count: count,
			probes: probes, successes: successes, window: d(window), cooldown: d(cooldown), backoff: d(backoff),
			hint: d(hint), probe: d(probe), slow: d(slow), mode: mode,
		}
		opts, bad := c.options()
		b, err := seawall.NewBreaker("fuzzed", opts...)
		if (err != nil) != (len(bad) > 0) {
			t.Fatalf("%+v: NewBreaker says %v; bad are %v", c, err, bad)
		}
		if err != nil {
			for _, name := range bad {
				if !strings.Contains(err.Error(), name) {
					t.Fatalf("%+v: %v doesn't name %s", c, err, name)
				}
			}
			for line := range strings.SplitSeq(err.Error(), "\n") {
				if !strings.HasPrefix(line, "seawall: ") {
					t.Fatalf("%+v: line %q", c, line)
				}
			}
			return
		}
		if got, want := b.Settings(), c.settings(); got != want {
			t.Fatalf("settings: got %+v, want %+v", got, want)
		}
		exercise(t, b.Settings(), opts)
	})
}

// exercise plays a fixed story on a breaker with options that were accepted. If the model knows them, which is all but
// jitter, it has to agree, else nothing may panic and the breaker must get well again.
func exercise(t *testing.T, set seawall.Settings, opts []seawall.BreakerOption) {
	t.Helper()
	if set.Jitter == 0 && set.Probes < 1000 {
		r := newRig(set)
		for i, op := range story() {
			err := op(r)
			if err == nil {
				err = r.check()
			}
			if err != nil {
				t.Fatalf("%+v: operation %d: %v", set, i, err)
			}
		}
		return
	}
	clock := newFakeClock()
	b := seawall.Must(seawall.NewBreaker("fuzzed", append(opts, seawall.WithClock(clock))...))
	ctx := context.Background()
	for i := range 60 {
		_ = b.Do(ctx, func(context.Context) error {
			clock.Advance(time.Duration(i%7) * time.Second)
			return results()[i%7].err
		})
		clock.Advance(min(b.Snapshot().RetryAfter, 1000*time.Hour))
	}
	b.Reset()
	if err := b.Do(ctx, nothing); err != nil || b.State() != seawall.Closed {
		t.Fatalf("%+v: after Reset: %v, %v", set, err, b.State())
	}
}

// story is a fixed run through all states with the times that matter.
func story() []func(*rig) error {
	all := results()
	call := func(k int) func(*rig) error { return func(r *rig) error { return r.do(all[k], "") } }
	hold := func(r *rig) error { return r.allow() }
	end := func(k int) func(*rig) error {
		return func(r *rig) error {
			if ids := r.m.Running(); len(ids) > 0 {
				r.finish(ids[0], all[k])
			}
			return nil
		}
	}
	pass := func(name string) func(*rig) error {
		return func(r *rig) error {
			// Not beyond 292 years in all, where the model's arithmetic ends.
			if d := r.named(name, 0); d < 4*365*24*time.Hour {
				r.advance(d)
			}
			return nil
		}
	}
	fail := []func(*rig) error{call(1), call(1), call(1), call(1)}
	ops := []func(*rig) error{hold, call(0), call(2), hold}
	for range 3 {
		ops = append(ops, fail...)
		ops = append(ops, pass("wait-1ns"), call(0), pass("1ns"), hold, hold, call(0), end(0), pass("probe timeout"), hold, end(1))
	}
	ops = append(ops, pass("wait"), call(0), call(0), call(0), call(5), call(5), call(5), pass("window"), pass("back 1h"), call(1))
	ops = append(ops, func(r *rig) error { r.forceOpen(); return nil }, call(0), pass("wait"), call(0),
		func(r *rig) error { r.reset(); return nil }, call(0), func(r *rig) error { return r.cancelled() })
	return append(ops, fail...)
}

// tree is an error under construction, with what the oracle has to know of it.
type tree struct {
	err      error
	mark     *seawall.Outcome // of the first mark on the way down, as errors.As goes
	rejected bool
	hint     time.Duration // of the first that has one
	hinted   bool
}

// grow builds an error from input and returns how much of it was used.
func grow(input []byte, depth int) (t tree, used int) {
	if len(input) == 0 || depth > 6 {
		return tree{err: errBoom}, 0
	}
	mark := func(o seawall.Outcome, f func(error) error) {
		inner, n := grow(input[1:], depth+1)
		t, used = inner, n+1
		t.err, t.mark = f(inner.err), &o
	}
	switch used = 1; input[0] % 12 {
	case 0:
		mark(seawall.Success, seawall.MarkSuccess)
	case 1:
		mark(seawall.Ignored, seawall.MarkIgnored)
	case 2:
		inner, n := grow(input[1:], depth+1)
		t, used = inner, n+1
		t.err = fmt.Errorf("wrapped: %w", inner.err)
	case 3:
		a, n := grow(input[1:], depth+1)
		b, k := grow(input[1+n:], depth+1)
		t, used = a, 1+n+k
		t.err, t.rejected = errors.Join(a.err, b.err), a.rejected || b.rejected
		if t.mark == nil {
			t.mark = b.mark
		}
		if !t.hinted {
			t.hint, t.hinted = b.hint, b.hinted
		}
	case 4:
		t.err, t.rejected = seawall.ErrOpen, true
	case 5:
		t.err, t.rejected = seawall.ErrBulkheadFull, true
	case 6:
		t.err, t.rejected = seawall.ErrRejected, true
	case 7:
		t.err = context.Canceled
	case 8:
		t.err = context.DeadlineExceeded
	case 9:
		t.err, t.hint, t.hinted = waitError(7*time.Second), 7*time.Second, true
	case 10:
		t.err, t.hint, t.hinted = waitError(-time.Second), 0, true
	default:
		t.err = errBoom
	}
	return t, used
}

// FuzzClassifier builds errors of all kinds, contexts that are live or not and classifiers that behave or not, and
// compares what the breaker makes of them with what design §3.4 says.
func FuzzClassifier(f *testing.F) {
	for _, seed := range [][]byte{
		{0}, {1, 2, 9}, {2, 2, 4}, {3, 9, 1, 8}, {3, 5, 0, 11}, {7}, {8}, {2, 10}, {3, 3, 3, 6, 9, 0, 1}, {0, 1, 0, 1, 9},
	} {
		for ctx := range byte(4) {
			f.Add(seed, ctx, byte(len(seed)%5))
		}
	}
	f.Fuzz(func(t *testing.T, input []byte, context, classifier byte) {
		tree, _ := grow(input, 0)
		judgeTree(t, tree, context%4, classifier%5)
	})
}

func judgeTree(t *testing.T, tree tree, how, classifier byte) {
	t.Helper()
	asked := 0
	classify := func(ctx context.Context, err error) seawall.Outcome {
		if asked++; err != tree.err { //nolint:errorlint // The very value.
			t.Errorf("the classifier got %v, want %v", err, tree.err)
		}
		switch classifier {
		case 1:
			return seawall.Success
		case 2:
			return seawall.Outcome(99)
		case 3:
			panic("classifier")
		default:
			return seawall.DefaultClassifier(ctx, err)
		}
	}
	b := seawall.Must(seawall.NewBreaker("", seawall.WithConsecutiveFailures(1), seawall.WithCooldown(time.Second),
		seawall.WithMaxRetryAfter(6*time.Second), seawall.WithClock(newFakeClock()), seawall.WithClassifier(classify)))

	ctx, end := endable(how)
	var got error
	panicked := apart(func() { got = b.Do(ctx, func(context.Context) error { end(); return tree.err }) })

	want, ask := seawall.Failure, false
	switch {
	case tree.mark != nil:
		want = *tree.mark
	case tree.rejected:
		want = seawall.Ignored
	default:
		ask = true
		switch {
		case classifier == 1:
			want = seawall.Success
		case classifier != 2 && classifier != 3 && (how == 1 || how == 2): // The caller's context was cancelled.
			want = seawall.Ignored
		}
	}
	if (asked == 1) != ask || asked > 1 {
		t.Errorf("%v: the classifier was asked %d times", tree.err, asked)
	}
	if dies := ask && classifier == 3; dies != (panicked != nil) || !dies && got != tree.err { //nolint:errorlint // The very value.
		t.Errorf("%v: Do returned %v and panicked with %v", tree.err, got, panicked)
	}
	s := b.Snapshot()
	counts := map[seawall.Outcome]uint64{
		seawall.Success: s.Totals.Successes, seawall.Failure: s.Totals.Failures, seawall.Ignored: s.Totals.Ignored,
	}
	if counts[want] != 1 || s.Totals.Successes+s.Totals.Failures+s.Totals.Ignored != 1 {
		t.Errorf("%v with context %d and classifier %d: counted as %v, want %v", tree.err, how, classifier, counts, want)
	}
	wait := time.Duration(0)
	if want == seawall.Failure {
		wait = time.Second
		if tree.hinted && panicked == nil {
			wait = max(wait, min(tree.hint, 6*time.Second))
		}
	}
	if s.RetryAfter != wait {
		t.Errorf("%v: open for %v, want %v", tree.err, s.RetryAfter, wait)
	}
}

// endable returns a context and a function that ends it in one of four ways, the first of which is not at all.
func endable(how byte) (context.Context, func()) {
	switch how {
	case 1:
		ctx, cancel := context.WithCancel(context.Background())
		return ctx, cancel
	case 2:
		ctx, cancel := context.WithCancelCause(context.Background())
		return ctx, func() { cancel(errors.New("the user left")) }
	case 3:
		return &deadContext{Context: context.Background()}, func() {}
	default:
		return context.Background(), func() {}
	}
}

// deadContext has a deadline that passes after the first look.
type deadContext struct {
	context.Context
	looks int
}

func (c *deadContext) Err() error {
	if c.looks++; c.looks > 1 {
		return context.DeadlineExceeded
	}
	return nil
}
