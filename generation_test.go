package seawall

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A success that finds the count sealed says so and leaves no trace in it, whether the seal stays or is lifted again.
func TestSealedGenerationCountsNothing(t *testing.T) {
	var g generation
	for range 3 {
		assert.True(t, g.succeed())
	}
	assert.EqualValues(t, 3, g.seal())
	for range 5 {
		assert.False(t, g.succeed())
	}
	g.unseal(3)
	assert.EqualValues(t, 3, g.successes.Load())
	assert.True(t, g.succeed())
	assert.EqualValues(t, 4, g.seal())
}

// A success that found the count sealed counts all the same if that was only halted, and is late if it has ended.
func TestSuccessThatFindsTheCountSealed(t *testing.T) {
	b := Must(NewBreaker(""))
	g := b.current.Load()
	b.succeedLate(g)
	assert.EqualValues(t, 1, b.Snapshot().Totals.Successes)
	assert.Zero(t, b.Snapshot().Totals.Late)
	b.ForceOpen()
	b.succeedLate(g)
	assert.EqualValues(t, 1, b.Snapshot().Totals.Successes)
	assert.EqualValues(t, 1, b.Snapshot().Totals.Late)
}

// watchedClock is moved by hand and tells when it is read.
type watchedClock struct {
	now  time.Time
	read func()
}

func (c *watchedClock) Now() time.Time {
	c.read()
	return c.now
}

func (c *watchedClock) After(time.Duration) <-chan time.Time { panic("nobody waits here") }

// Neither a success nor a plain rejection takes the lock: this test holds it, and would wait for itself.
func TestPlainCallsTakeNoLock(t *testing.T) {
	ok := func(context.Context) error { return nil }
	b := Must(NewBreaker(""))
	locked := func(f func()) {
		b.mu.Lock()
		defer b.mu.Unlock()
		f()
	}
	locked(func() {
		require.NoError(t, b.Do(t.Context(), ok))
		done, err := b.Allow(t.Context())
		require.NoError(t, err)
		done(nil)
	})
	b.ForceOpen()
	for _, m := range modes() {
		require.NoError(t, b.SetMode(m))
		if m == Off {
			continue // Which closes it.
		}
		locked(func() {
			errDo := b.Do(t.Context(), ok)
			_, errAllow := b.Allow(t.Context())
			assert.Equal(t, m == Enforce, errDo != nil)
			assert.Equal(t, errDo, errAllow)
		})
	}
}

// A rejection that needs no lock must not come between the reading of a decision and the decision itself: its own reading
// could be later, and it would speak of what is over by then.
func TestRejectionIsWithdrawnBeforeADecisionReadsTheClock(t *testing.T) {
	for name, decide := range map[string]func(b *Breaker, clk *watchedClock, done func(error)){
		"a probe ends": func(_ *Breaker, _ *watchedClock, done func(error)) { done(nil) },
		"by hand":      func(b *Breaker, _ *watchedClock, _ func(error)) { b.ForceOpen() },
		"a place lapses": func(b *Breaker, clk *watchedClock, _ func(error)) {
			clk.now = clk.now.Add(time.Minute)
			_, err := b.Allow(t.Context())
			require.NoError(t, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			clk := &watchedClock{now: time.Unix(1, 0), read: func() {}}
			b := Must(NewBreaker("", WithConsecutiveFailures(1), WithCooldown(time.Minute), WithClock(clk)))
			require.Error(t, b.Do(t.Context(), func(context.Context) error { return assert.AnError }))
			clk.now = clk.now.Add(time.Minute)
			done, err := b.Allow(t.Context())
			require.NoError(t, err)
			require.ErrorIs(t, b.Do(t.Context(), func(context.Context) error { return nil }), ErrOpen)
			halfOpen := b.current.Load()
			require.NotNil(t, halfOpen.rejection.Load(), "the next one is rejected without the lock")

			readings := 0
			clk.read = func() {
				if !b.mu.TryLock() { // The decision has it.
					readings++
					assert.Nil(t, halfOpen.rejection.Load())
					return
				}
				b.mu.Unlock()
			}
			decide(b, clk, done)
			assert.Positive(t, readings)
		})
	}
}
