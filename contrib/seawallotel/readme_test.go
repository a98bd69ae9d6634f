package seawallotel_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seawall-go/seawall"
	"github.com/seawall-go/seawall/contrib/seawallotel"
)

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	return string(text)
}

func TestReadmeCodeIsTested(t *testing.T) {
	examples := strings.ReplaceAll(read(t, "example_test.go"), "\n\t", "\n")
	blocks := regexp.MustCompile("(?ms)^```go\n(.*?)^```").FindAllStringSubmatch(read(t, "README.md"), -1)
	require.NotEmpty(t, blocks)
	for _, block := range blocks {
		assert.Contains(t, examples, block[1])
	}
}

func TestReadmeListsAllMetrics(t *testing.T) {
	provider, collect := newProvider(t)
	b := br(t, "b", seawall.WithFailureRate(1, 1))
	group := hosts(t)
	_, err := seawallotel.Register(seawallotel.WithMeterProvider(provider), seawallotel.Breakers(b),
		seawallotel.Bulkheads(bh(t, "b", 1, seawall.WithMaxQueue(1))), seawallotel.Group("g", group))
	require.NoError(t, err)
	do(b, ok)
	units := map[string]string{}
	for name, metric := range collect() {
		units[name] = metric.Unit
	}

	listed := map[string]string{}
	for _, row := range regexp.MustCompile(`(?m)^\| (\x60.*?) \| (.*?) \|`).FindAllStringSubmatch(read(t, "README.md"), -1) {
		for name := range strings.SplitSeq(row[1], ", ") {
			listed[strings.Trim(name, "`")] = row[2]
		}
	}
	assert.Equal(t, units, listed)
}
