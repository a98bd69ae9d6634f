package proof_test

import (
	"runtime"
	"sync/atomic"
)

// die ends a function in a way that no error can express.
func die(how string) {
	if how == "goexit" {
		runtime.Goexit()
	}
	panic(how)
}

// apart runs f on a goroutine of its own, so that it may panic or exit, and returns what it panicked with.
func apart(f func()) (panicked any) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { panicked = recover() }()
		f()
	}()
	<-done
	return panicked
}

// crowd counts who is inside, and how many were at most.
type crowd struct{ inside, most atomic.Int64 }

func (c *crowd) enter() {
	n := c.inside.Add(1)
	for was := c.most.Load(); n > was && !c.most.CompareAndSwap(was, n); was = c.most.Load() {
	}
}

func (c *crowd) leave() { c.inside.Add(-1) }
