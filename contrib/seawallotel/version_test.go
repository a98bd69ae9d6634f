package seawallotel

import (
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/assert"
)

// A test has no build information to speak of, so this one brings its own.
func TestVersionIsThatOfThisModule(t *testing.T) {
	assert.Equal(t, "v0.4.2", versionIn(&debug.BuildInfo{Deps: []*debug.Module{
		{Path: "github.com/seawall-go/seawall", Version: "v0.9.0"},
		{Path: "github.com/seawall-go/seawall/contrib/seawallotel", Version: "v0.4.2"},
	}}))
	assert.Empty(t, versionIn(&debug.BuildInfo{}))
}
