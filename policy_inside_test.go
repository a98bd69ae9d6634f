package seawall_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seawall-go/seawall"
)

func TestChainTellsItsPolicies(t *testing.T) {
	t.Parallel()
	clk := newClock()
	a, b, c := br(t, clk), bh(t, 1), br(t, clk)
	chain, ok := seawall.Chain(seawall.Chain(a, b), c).(interface{ Policies() []seawall.Policy })
	require.True(t, ok)
	assert.Equal(t, []seawall.Policy{a, b, c}, chain.Policies())
	chain.Policies()[0] = nil
	assert.NotNil(t, chain.Policies()[0], "the list is a copy")
}
