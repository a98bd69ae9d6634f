package seawallotel_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A program with another SDK than OpenTelemetry's, or with none, must not get that one by way of this package.
func TestOnlyTheAPIIsNeeded(t *testing.T) {
	deps, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output()
	require.NoError(t, err)
	assert.Contains(t, string(deps), "go.opentelemetry.io/otel/metric\n")
	for path := range strings.FieldsSeq(string(deps)) {
		assert.False(t, strings.HasPrefix(path, "go.opentelemetry.io/otel/sdk"), path)
	}
}
