package seawall_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seawall-go/seawall"
)

// rejections has every way in which a guard may refuse a call. They are made in a bubble.
func rejections() map[string]rejection {
	openBreaker := func(t *testing.T) (*seawall.Breaker, *fakeClock) {
		clk := newClock()
		b := br(t, clk)
		trip(t, b)
		return b, clk
	}
	fullBulkhead := func(t *testing.T, opts ...seawall.BulkheadOption) *seawall.Bulkhead {
		b := bh(t, 1, opts...)
		release, err := b.Acquire(t.Context())
		require.NoError(t, err)
		t.Cleanup(release)
		return b
	}
	return map[string]rejection{
		"open": {
			text:    "seawall: br: circuit open, retry in 7s",
			matches: []error{seawall.ErrOpen},
			make: func(t *testing.T) error {
				b, clk := openBreaker(t)
				clk.Advance(3 * time.Second)
				return do(b, ok)
			},
		},
		"half-open": {
			text:    "seawall: br: circuit half-open and all probes taken, retry in 10s",
			matches: []error{seawall.ErrOpen},
			make: func(t *testing.T) error {
				b, clk := openBreaker(t)
				clk.Advance(cooldown)
				done, err := b.Allow(t.Context())
				require.NoError(t, err)
				t.Cleanup(func() { done(nil) })
				return do(b, ok)
			},
		},
		"forced open": {
			text:    "seawall: br: circuit forced open",
			matches: []error{seawall.ErrOpen},
			make: func(t *testing.T) error {
				b := br(t, newClock())
				b.ForceOpen()
				return do(b, ok)
			},
		},
		"cancelled at a breaker": {
			text:    "seawall: br: not run: context canceled",
			matches: []error{context.Canceled},
			make:    func(t *testing.T) error { return br(t, newClock()).Do(cancelled(nil), ok) },
		},
		"cancelled at an open breaker": {
			text:    "seawall: br: not run: context canceled",
			matches: []error{context.Canceled},
			make: func(t *testing.T) error {
				b, _ := openBreaker(t)
				return b.Do(cancelled(nil), ok)
			},
		},
		"cancelled for a cause at a breaker": {
			text:    "seawall: br: not run: boom",
			matches: []error{context.Canceled, errBoom},
			make:    func(t *testing.T) error { return br(t, newClock()).Do(cancelled(errBoom), ok) },
		},
		"expired at a breaker": {
			text:    "seawall: br: not run: context deadline exceeded",
			matches: []error{context.DeadlineExceeded},
			make:    func(t *testing.T) error { return br(t, newClock()).Do(expired(t), ok) },
		},
		"timed out at a breaker": {
			text:    "seawall: br: not run: seawall: timeout of 30ms passed",
			matches: []error{context.DeadlineExceeded},
			make: func(t *testing.T) error {
				late := seawall.PolicyFunc(func(ctx context.Context, fn func(context.Context) error) error {
					<-ctx.Done()
					return fn(ctx)
				})
				return do(seawall.Chain(timeout(t, maxWait), late, br(t, newClock())), ok)
			},
		},
		"full": {
			text:    "seawall: bh: bulkhead full, limit 1",
			matches: []error{seawall.ErrBulkheadFull},
			make:    func(t *testing.T) error { return do(fullBulkhead(t, noWait()), ok) },
		},
		"queue full": {
			text:    "seawall: bh: bulkhead full, limit 1",
			matches: []error{seawall.ErrBulkheadFull},
			make: func(t *testing.T) error {
				b := fullBulkhead(t, seawall.WithMaxQueue(1))
				ctx, cancel := context.WithCancel(t.Context())
				q := queue(ctx, t, b)
				err := do(b, ok)
				cancel()
				q.wantFull(t)
				return err
			},
		},
		"waited in vain": {
			text:    "seawall: bh: bulkhead full, limit 1, waited 30ms",
			matches: []error{seawall.ErrBulkheadFull},
			make:    func(t *testing.T) error { return do(fullBulkhead(t, seawall.WithMaxWait(maxWait)), ok) },
		},
		"cancelled in the queue": {
			text:    "seawall: bh: bulkhead full, limit 1, waited 30ms: context canceled",
			matches: []error{seawall.ErrBulkheadFull, context.Canceled},
			make: func(t *testing.T) error {
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(maxWait, cancel)
				return fullBulkhead(t).Do(ctx, ok)
			},
		},
		"cancelled for a cause in the queue": {
			text:    "seawall: bh: bulkhead full, limit 1, waited 30ms: boom",
			matches: []error{seawall.ErrBulkheadFull, context.Canceled, errBoom},
			make: func(t *testing.T) error {
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(maxWait, func() { cancel(errBoom) })
				return fullBulkhead(t).Do(ctx, ok)
			},
		},
		"expired in the queue": {
			text:    "seawall: bh: bulkhead full, limit 1, waited 30ms: context deadline exceeded",
			matches: []error{seawall.ErrBulkheadFull, context.DeadlineExceeded},
			make: func(t *testing.T) error {
				ctx, cancel := context.WithTimeout(t.Context(), maxWait)
				defer cancel()
				return fullBulkhead(t).Do(ctx, ok)
			},
		},
		"timed out in the queue": {
			text:    "seawall: bh: bulkhead full, limit 1, waited 30ms: seawall: timeout of 30ms passed",
			matches: []error{seawall.ErrBulkheadFull, context.DeadlineExceeded},
			make: func(t *testing.T) error {
				return do(seawall.Chain(timeout(t, maxWait), fullBulkhead(t)), ok)
			},
		},
		"cancelled at a bulkhead": {
			text:    "seawall: bh: not run: context canceled",
			matches: []error{context.Canceled},
			make:    func(t *testing.T) error { return bh(t, 1).Do(cancelled(nil), ok) },
		},
		"cancelled for a cause at a bulkhead": {
			text:    "seawall: bh: not run: boom",
			matches: []error{context.Canceled, errBoom},
			make:    func(t *testing.T) error { return bh(t, 1).Do(cancelled(errBoom), ok) },
		},
		"expired at a bulkhead": {
			text:    "seawall: bh: not run: context deadline exceeded",
			matches: []error{context.DeadlineExceeded},
			make:    func(t *testing.T) error { return bh(t, 1).Do(expired(t), ok) },
		},
		"by a bulkhead without a name": {
			text:    "seawall: bulkhead full, limit 1",
			matches: []error{seawall.ErrBulkheadFull},
			make: func(t *testing.T) error {
				b, err := seawall.NewBulkhead("", 1, noWait())
				require.NoError(t, err)
				release, err := b.Acquire(t.Context())
				require.NoError(t, err)
				t.Cleanup(release)
				return do(b, ok)
			},
		},
		"by a breaker without a name": {
			text:    "seawall: circuit forced open",
			matches: []error{seawall.ErrOpen},
			make: func(t *testing.T) error {
				b, err := seawall.NewBreaker("")
				require.NoError(t, err)
				b.ForceOpen()
				return do(b, ok)
			},
		},
	}
}

type rejection struct {
	text    string  // when it is made
	matches []error // beside ErrRejected, and nothing else
	make    func(t *testing.T) error
}

// eachRejection runs a test with every rejection. B51: they are known through wrapping and joining too, so the test
// runs with those.
func eachRejection(t *testing.T, test func(t *testing.T, r rejection, err error)) {
	t.Helper()
	for name, r := range rejections() {
		for how, wrap := range map[string]func(error) error{
			"":          func(err error) error { return err },
			", wrapped": func(err error) error { return fmt.Errorf("wrapped: %w", err) },
			", joined":  func(err error) error { return errors.Join(errors.New("other"), err) },
		} {
			t.Run(name+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { test(t, r, wrap(r.make(t))) })
			})
		}
	}
}

func expired(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	t.Cleanup(cancel)
	return ctx
}

// What matches what. G111, B88: who was turned away in the queue because the context ended learns both.
func TestRejectionsMatch(t *testing.T) {
	all := []error{
		seawall.ErrOpen, seawall.ErrBulkheadFull, seawall.ErrSlowCall,
		context.Canceled, context.DeadlineExceeded, errBoom,
	}
	eachRejection(t, func(t *testing.T, r rejection, err error) {
		require.ErrorIs(t, err, seawall.ErrRejected)
		for _, target := range all {
			want := false
			for _, match := range r.matches {
				want = want || match == target //nolint:errorlint // the target itself
			}
			assert.Equal(t, want, errors.Is(err, target), "%v matches %v", err, target)
		}
		wantDetails(t, r, err)
	})
}

// wantDetails asserts that the error's type fits to what it matches.
func wantDetails(t *testing.T, r rejection, err error) {
	t.Helper()
	var open *seawall.OpenError
	var full *seawall.FullError
	assert.Equal(t, errors.Is(err, seawall.ErrOpen), errors.As(err, &open), r.text)
	assert.Equal(t, errors.Is(err, seawall.ErrBulkheadFull), errors.As(err, &full), r.text)
}

func TestRejectionsSayWhatHappened(t *testing.T) {
	for name, r := range rejections() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { require.EqualError(t, r.make(t), r.text) })
		})
	}
}

// Some SDKs retry at once what has a Timeout or Temporary method that says true. No rejection has one, and none lets
// one be found further in, be it context.DeadlineExceeded's.
func TestRejectionsDoNotAskToBeRetried(t *testing.T) {
	eachRejection(t, func(t *testing.T, _ rejection, err error) { wantNoRetryMethods(t, err) })
}

func wantNoRetryMethods(t testing.TB, err error) {
	t.Helper()
	var timeouter interface{ Timeout() bool }
	var temporary interface{ Temporary() bool }
	assert.False(t, errors.As(err, &timeouter), "Timeout was found on %T of %q", timeouter, err)
	assert.False(t, errors.As(err, &temporary), "Temporary was found on %T of %q", temporary, err)
	assert.False(t, os.IsTimeout(err))
}

// The cause of a context is often another call's error, as in an errgroup. A rejection matches it and is not like it:
// neither its methods nor its type are found.
func TestRejectionsHideTheNatureOfTheirCause(t *testing.T) {
	open := br(t, newClock())
	open.ForceOpen()
	for name, cause := range map[string]error{
		"net error":  &net.OpError{Op: "read", Err: os.ErrDeadlineExceeded},
		"deadline":   context.DeadlineExceeded,
		"wrapped":    fmt.Errorf("sibling: %w", context.DeadlineExceeded),
		"marked":     seawall.MarkSuccess(errBoom),
		"open error": do(open, ok),
	} {
		t.Run(name, func(t *testing.T) {
			full := bh(t, 1)
			h := hold(t, full)
			ctx, cancel := context.WithCancelCause(t.Context())
			q := queue(ctx, t, full)
			cancel(cause)
			inQueue := q.wantFull(t)
			assert.Equal(t, cause, inQueue.Cause, "to be looked at by hand")
			require.NoError(t, h.finish(nil))

			for _, err := range []error{inQueue, full.Do(ctx, ok), br(t, newClock()).Do(ctx, ok)} {
				require.ErrorIs(t, err, seawall.ErrRejected)
				require.ErrorIs(t, err, context.Canceled)
				require.ErrorIs(t, err, cause)
				wantNoRetryMethods(t, err)
				var openError *seawall.OpenError
				assert.False(t, errors.As(err, &openError))
				var netError *net.OpError
				assert.False(t, errors.As(err, &netError))
			}
		})
	}
}

// Errors that cannot be compared make no trouble, neither as a cause nor as what a context of the user's own says.
func TestRejectionsMatchWhatCannotBeCompared(t *testing.T) {
	err := bh(t, 1).Do(cancelled(listError{"cause"}), ok)
	require.ErrorIs(t, err, context.Canceled)
	assert.NotErrorIs(t, err, listError{"cause"})
	err = bh(t, 1).Do(listErrorCtx{t.Context()}, ok)
	require.ErrorIs(t, err, seawall.ErrRejected)
	assert.NotErrorIs(t, err, listError{"done"})
}

type listError []string

func (e listError) Error() string { return strings.Join(e, ", ") }

// A context of the user's own that contradicts itself is taken at its first word.
func TestRejectionsOfAFickleContext(t *testing.T) {
	b := bh(t, 1)
	err := b.Do(&fickleCtx{Context: t.Context(), words: []error{context.Canceled}}, ok)
	require.ErrorIs(t, err, context.Canceled)
	require.EqualError(t, err, "seawall: bh: not run: context canceled")
	h := hold(t, b)
	q := queue(&fickleCtx{Context: t.Context(), words: []error{nil, context.Canceled}}, t, b)
	require.NoError(t, h.finish(nil))
	full := q.wantFull(t)
	require.ErrorIs(t, full, context.Canceled)
	assert.Equal(t, context.Canceled, full.Cause)
	wantQuiet(t, b, 1)
}

// fickleCtx says some words when it is asked for its Err, and then that nothing is the matter.
type fickleCtx struct {
	context.Context
	words []error
}

func (c *fickleCtx) Err() error {
	if len(c.words) == 0 {
		return nil
	}
	word := c.words[0]
	c.words = c.words[1:]
	return word
}

type listErrorCtx struct{ context.Context }

func (listErrorCtx) Err() error { return listError{"done"} }

// The sentinels: a parent and its children, and one that is none of them.
func TestSentinels(t *testing.T) {
	sentinels := map[string]error{
		"seawall: rejected":      seawall.ErrRejected,
		"seawall: circuit open":  seawall.ErrOpen,
		"seawall: bulkhead full": seawall.ErrBulkheadFull,
		"seawall: slow call":     seawall.ErrSlowCall,
	}
	for text, err := range sentinels {
		require.EqualError(t, err, text)
		for other, target := range sentinels {
			child := target == seawall.ErrRejected && err != seawall.ErrSlowCall //nolint:errorlint // the sentinels themselves
			assert.Equal(t, text == other || child, errors.Is(err, target), "%v matches %v", err, target)
		}
		wantNoRetryMethods(t, err)
	}
}

// Durations in texts are rounded for people.
func TestErrorTextsRoundDurations(t *testing.T) {
	for left, want := range map[time.Duration]string{
		61*time.Minute + 14*time.Millisecond: "1h1m0s",
		59960 * time.Millisecond:             "1m0s",
		4249 * time.Millisecond:              "4.2s",
		time.Second:                          "1s",
		time.Second - ns:                     "1s",
		123456 * time.Microsecond:            "123ms",
		time.Millisecond:                     "1ms",
		time.Millisecond - ns:                "999.999µs",
		ns:                                   "1ns",
	} {
		clk := newClock()
		b := br(t, clk, seawall.WithCooldown(2*time.Hour))
		trip(t, b)
		clk.Advance(2*time.Hour - left)
		require.EqualError(t, do(b, ok), "seawall: br: circuit open, retry in "+want)
	}
}
