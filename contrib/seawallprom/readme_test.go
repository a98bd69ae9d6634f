package seawallprom_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seawall-go/seawall/contrib/seawallprom"
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
	c, err := seawallprom.NewCollector()
	require.NoError(t, err)
	var metrics []string
	described := make(chan *prometheus.Desc, 100)
	c.Describe(described)
	close(described)
	for desc := range described {
		metrics = append(metrics, regexp.MustCompile(`fqName: "(\w+)"`).FindStringSubmatch(desc.String())[1])
	}

	var listed []string
	_, section, _ := strings.Cut(read(t, "README.md"), "## Metrics")
	for _, row := range regexp.MustCompile(`(?m)^\| (\x60.*?) \|`).FindAllStringSubmatch(section, -1) {
		for name := range strings.SplitSeq(row[1], ", ") {
			listed = append(listed, strings.Trim(name, "`"))
		}
	}
	assert.ElementsMatch(t, metrics, listed)
}
