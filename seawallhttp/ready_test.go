package seawallhttp_test

import (
	"testing"

	"github.com/benbjohnson/clock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seawall-go/seawall"
	"github.com/seawall-go/seawall/seawallhttp"
)

func TestReady(t *testing.T) {
	require.NoError(t, seawallhttp.Ready())
	clk := clock.NewMock()
	disk, err := seawall.NewBreaker("disk", seawall.WithConsecutiveFailures(1), seawall.WithCooldown(cooldown), seawall.WithClock(clk))
	require.NoError(t, err)
	sidecar, err := seawall.NewBreaker("sidecar")
	require.NoError(t, err)
	require.NoError(t, seawallhttp.Ready(disk, sidecar))

	done, err := disk.Allow(t.Context())
	require.NoError(t, err)
	done(errBoom)
	require.EqualError(t, seawallhttp.Ready(disk, sidecar), `seawallhttp: not ready: the breaker "disk" is open`)
	sidecar.ForceOpen()
	err = seawallhttp.Ready(disk, sidecar)
	require.ErrorContains(t, err, `"disk"`)
	require.ErrorContains(t, err, `"sidecar"`)

	clk.Add(cooldown)
	require.ErrorContains(t, seawallhttp.Ready(disk, sidecar), `"sidecar"`)
	require.NoError(t, seawallhttp.Ready(disk), "its next call is let through")
	require.NoError(t, sidecar.SetMode(seawall.Observe))
	assert.Equal(t, seawall.Open, sidecar.State())
	require.NoError(t, seawallhttp.Ready(disk, sidecar), "it rejects nothing")
	assert.Panics(t, func() { _ = seawallhttp.Ready(nil) })
}
