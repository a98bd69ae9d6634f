package seawall

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// Probes that hang one after the other in a half-open state that never ends leave nothing behind: a lost place is
// cleared away when the next one is given.
func TestLostPlacesAreClearedAway(t *testing.T) {
	p := probes{max: 3, timeout: time.Second}
	for i := range 1000 {
		now := time.Duration(i) * time.Second / 3
		if p.wait(now) == 0 {
			p.admit(now)
		}
		assert.LessOrEqual(t, len(p.places), p.max)
	}
}
