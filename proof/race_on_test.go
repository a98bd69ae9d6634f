//go:build race

package proof_test

// raceEnabled is true if the race detector is on. It slows the searches of one goroutine ten times and finds nothing
// in them, so they are short then.
const raceEnabled = true
