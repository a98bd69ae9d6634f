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

// wrapper is a policy of a user's that tells what it is around.
type wrapper struct{ seawall.Policy }

func (w wrapper) Policies() []seawall.Policy { return []seawall.Policy{w.Policy} }

func TestGroupLooksIntoPoliciesThatTellTheirParts(t *testing.T) {
	t.Parallel()
	clk := newClock()
	g, err := seawall.NewGroup(func(string) (seawall.Policy, error) {
		return wrapper{seawall.Chain(br(t, clk))}, nil
	}, seawall.WithMaxKeys(1))
	require.NoError(t, err)
	for range 3 {
		_ = g.Do(t.Context(), "opens", bad)
	}
	require.NoError(t, g.Do(t.Context(), "other", ok))
	assert.Equal(t, seawall.GroupSnapshot{Size: 1, MaxKeys: 1, Overflow: 1}, g.Snapshot(), "an open breaker is not idle")
	clk.Advance(cooldown)
	require.NoError(t, g.Do(t.Context(), "opens", ok))
	require.NoError(t, g.Do(t.Context(), "other", ok))
	assert.Equal(t, uint64(1), g.Snapshot().Evictions, "a closed one is")
}
