package proof_test

import "runtime"

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
