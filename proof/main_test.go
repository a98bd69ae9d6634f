package proof_test

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if flag.Lookup("test.fuzzworker").Value.String() == "true" {
		os.Exit(m.Run()) // The fuzzing engine has goroutines of its own.
	}
	goleak.VerifyTestMain(m)
}

// effort is how far the searches go, see the package comment.
func effort() string { return os.Getenv("SEAWALL_PROOF") }

// scaled returns how much a search of one goroutine does.
func scaled(push, release int) int {
	switch {
	case raceEnabled || testing.Short():
		return push / 20
	case effort() == "release":
		return release
	case effort() == "quick":
		return push / 10
	default:
		return push
	}
}

// figures prints what a test reached. It goes to standard output, so that it is seen without -v too.
func figures(t *testing.T, format string, args ...any) {
	t.Helper()
	fmt.Printf("proof: %s: %s\n", t.Name(), fmt.Sprintf(format, args...))
}
