package seawall

import (
	"testing"

	"github.com/stretchr/testify/assert"
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
