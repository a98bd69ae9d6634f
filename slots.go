package seawall

import (
	"runtime"
	"sync/atomic"
)

// slots are a semaphore: what a Bulkhead has to give to calls. How many are free and how many calls stand in line is
// one atomic word, so a call that need not wait passes with one operation on it and a slot can never be free beside
// someone who waits for it. The line itself is a channel, which serves first come, first served.
type slots struct {
	state  atomic.Uint64 // a slotState
	grants chan struct{} // one for each slot that was given to the line and that nobody in it has taken up yet
}

// slotState is a balance and a number of calls, the one in the upper and the other in the lower half of a word.
type slotState uint64

const (
	freeSlot    slotState = 1 << 32
	waitingCall slotState = 1
)

// balance is the number of free slots, or if negative of those in use beyond the limit. It is never above 0 while calls
// wait.
func (s slotState) balance() int32 { return int32(s >> 32) }

// waiting is how many of the calls in line have not been given a slot yet.
func (s slotState) waiting() int32 { return int32(s) }

// newGrants returns what slots need to start with, all of them in use. The elements of the channel take no memory, so it
// has room for the largest limit from the start, and to give a slot never blocks.
func newGrants() chan struct{} { return make(chan struct{}, maxLimit) }

func (s *slots) load() slotState { return slotState(s.state.Load()) }

func (s *slots) swap(was, is slotState) bool {
	return s.state.CompareAndSwap(uint64(was), uint64(is))
}

// take takes a free slot and reports whether there was one.
func (s *slots) take() bool {
	for was := s.load(); was.balance() > 0; was = s.load() {
		if s.swap(was, was-freeSlot) {
			return true
		}
	}
	return false
}

// join takes a free slot, or else puts the caller in line: it has to receive from grants then, or to leave.
func (s *slots) join() (taken bool) {
	for {
		was := s.load()
		free, is := was.balance() > 0, was+waitingCall
		if free {
			is = was - freeSlot
		}
		if s.swap(was, is) {
			return free
		}
	}
}

// leave takes a caller out of the line who has received nothing. If all who wait have been given slots, one of them is
// the caller's, and leave receives it and reports that. Else it does not matter whose place in line is given up.
func (s *slots) leave() (taken bool) {
	for {
		if was := s.load(); was.waiting() > 0 {
			if s.swap(was, was-waitingCall) {
				return false
			}
		} else if s.received() {
			return true
		}
	}
}

// received takes a slot that was given to the line. If there is none yet one is about to be sent, or a newcomer has
// received it, whose place is there to be given up then.
func (s *slots) received() bool {
	select {
	case <-s.grants:
		return true
	default:
		runtime.Gosched()
		return false
	}
}

// give adds n slots, first to calls in line, or takes -n of them away: free ones, and the next that are given back.
func (s *slots) give(n int) {
	for {
		was := s.load()
		balance, waiting := was.balance()+int32(n), was.waiting()
		granted := max(0, min(balance, waiting))
		if s.swap(was, slotState(uint32(balance-granted))<<32|slotState(waiting-granted)) {
			for range granted {
				s.grants <- struct{}{}
			}
			return
		}
	}
}
