package seawall

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func newSlots(n int) *slots {
	s := &slots{grants: newGrants()}
	s.give(n)
	return s
}

func assertSlots(t *testing.T, s *slots, balance, waiting int32, grants int) {
	t.Helper()
	assert.Equal(t, balance, s.load().balance(), "balance")
	assert.Equal(t, waiting, s.load().waiting(), "waiting")
	assert.Len(t, s.grants, grants)
}

func TestSlots(t *testing.T) {
	s := newSlots(2)
	assert.True(t, s.take())
	assert.True(t, s.join(), "a free slot needs no line")
	assert.False(t, s.take())
	assert.False(t, s.join())
	assert.False(t, s.join())
	assertSlots(t, s, 0, 2, 0)

	s.give(1)
	assertSlots(t, s, 0, 1, 1)
	assert.False(t, s.take(), "what was given to the line is not free")
	assert.False(t, s.leave(), "the other one of the two may go without a slot")
	assertSlots(t, s, 0, 0, 1)
	assert.True(t, s.leave(), "all who are left in line have been given slots")
	assertSlots(t, s, 0, 0, 0)

	s.give(2)
	assertSlots(t, s, 2, 0, 0)
}

// What is taken away beyond the free slots is a debt. It is paid before anybody gets a slot, whether in line or new.
func TestSlotsInDebt(t *testing.T) {
	s := newSlots(4)
	for range 3 {
		require.True(t, s.take())
	}
	s.give(-3)
	assertSlots(t, s, -2, 0, 0)
	assert.False(t, s.take())
	assert.False(t, s.join())
	s.give(1)
	s.give(1)
	assertSlots(t, s, 0, 1, 0)
	s.give(1)
	assertSlots(t, s, 0, 0, 1)

	s.give(-maxLimit)
	assertSlots(t, s, -maxLimit, 0, 1)
	assert.False(t, s.join())
	s.give(maxLimit + 3)
	assertSlots(t, s, 2, 0, 2)
}

// A slot given to several who wait goes to as many as there are, and the rest is free.
func TestSlotsAreGivenToTheLineFirst(t *testing.T) {
	s := newSlots(0)
	for range 3 {
		require.False(t, s.join())
	}
	s.give(2)
	assertSlots(t, s, 0, 1, 2)
	s.give(5)
	assertSlots(t, s, 4, 0, 3)
}

// A newcomer may receive the slot that was sent for one who leaves. Who leaves must not wait for the newcomer's then.
func TestSlotsLeaveWhileANewcomerIsQuicker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(0)
		require.False(t, s.join())
		s.state.Store(0) // A slot has been given to the line, and is about to be sent.
		left := make(chan bool)
		go func() { left <- s.leave() }()
		for range 1000 {
			runtime.Gosched() // Until leave has seen that.
		}
		require.False(t, s.join()) // The newcomer, who receives that slot.
		assert.False(t, <-left)
		assertSlots(t, s, 0, 0, 0)
	})
}

// Whoever leaves the line at the instant a slot is given to it, none is lost and none is used twice.
func TestSlotsUnderContention(t *testing.T) {
	const limit, goroutines, rounds = 3, 8, 2000
	s := newSlots(limit)
	var running atomic.Int64
	use := func() {
		assert.LessOrEqual(t, running.Add(1), int64(limit))
		running.Add(-1)
		s.give(1)
	}
	var wg sync.WaitGroup
	for id := range goroutines {
		wg.Go(func() {
			for round := range rounds {
				switch (id + round) % 4 {
				case 0: // Does not wait.
					if s.take() {
						use()
					}
				case 1: // Waits for as long as it takes.
					if !s.join() {
						<-s.grants
					}
					use()
				default: // Changes its mind at once.
					if s.join() || s.leave() {
						use()
					}
				}
				if id == 0 {
					s.give(-1)
					s.give(1)
				}
			}
		})
	}
	wg.Wait()
	assertSlots(t, s, limit, 0, 0)
}
