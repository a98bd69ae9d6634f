package seawall

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A call whose key has a policy takes no lock of the Group: it goes on while another one holds it.
func TestGroupHitTakesNoLock(t *testing.T) {
	g, err := NewGroup(func(string) (Policy, error) { return Chain(), nil })
	require.NoError(t, err)
	call := func() error { return g.Do(t.Context(), "a", func(context.Context) error { return nil }) }
	require.NoError(t, call())

	g.mu.Lock()
	defer g.mu.Unlock()
	done := make(chan error)
	go func() { done <- call() }()
	require.NoError(t, <-done)
}

// A call that has found a member and is slow to pin it gets no hold of it once it was removed or evicted. The stress
// tests seldom hit that gap of a few nanoseconds.
func TestGroupDeadMemberCannotBePinned(t *testing.T) {
	g, err := NewGroup(func(string) (Policy, error) { return Chain(), nil }, WithMaxKeys(1))
	require.NoError(t, err)
	pin := func(key string) *member[string] {
		m, err := g.pin(t.Context(), key)
		require.NoError(t, err)
		return m
	}
	removed := pin("a")
	g.Remove("a")
	assert.False(t, removed.pins.take())
	removed.pins.give()
	assert.False(t, removed.pins.take())

	evicted := pin("b")
	evicted.pins.give()
	pin("c")
	assert.Equal(t, uint64(1), g.Snapshot().Evictions)
	assert.False(t, evicted.pins.take())
}

// Arrivals wrap without touching the pins.
func TestPinsWrap(t *testing.T) {
	var p pins
	p.word.Store(^uint64(0) &^ (arrival - 1)) // As many arrivals as can be told apart, and nobody holds it.
	require.True(t, p.take())
	assert.Equal(t, uint64(1), holders(p.word.Load()))
	assert.Zero(t, arrivals(p.word.Load()))
	p.give()
	assert.Zero(t, p.word.Load())
}
