package proof_test

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/seawall-go/seawall/proof/model"
)

// TestModelOfSlowCalls holds what the model takes for the time at which a call becomes slow to the design, which knows
// no slots: never early, and at most an eighth of the threshold late. Design §3.6.
func TestModelOfSlowCalls(t *testing.T) {
	const longest = math.MaxInt64 / 4 // Beyond, time comes to its end.
	rapid.Check(t, func(t *rapid.T) {
		d := rapid.Custom(func(t *rapid.T) time.Duration {
			return time.Duration(rapid.Int64Range(0, longest>>rapid.IntRange(0, 60).Draw(t, "bits")).Draw(t, "d"))
		})
		start, threshold := d.Draw(t, "start"), 1+d.Draw(t, "threshold")
		if late := model.SlowAt(start, threshold) - start - threshold; late < 0 || late > threshold/8 {
			t.Fatalf("begun at %v with a threshold of %v: %v late", start, threshold, late)
		}
	})
}
