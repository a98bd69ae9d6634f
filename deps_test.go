package seawall_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What a user of seawall compiles in: the standard library, and of it nothing that registers handlers or templates.
func TestCoreDependsOnTheStandardLibraryOnly(t *testing.T) {
	deps := goList(t, "-deps", ".")
	assert.Contains(t, deps, "github.com/seawall-go/seawall")
	for _, path := range deps {
		first, _, _ := strings.Cut(path, "/")
		if strings.Contains(first, ".") {
			assert.Equal(t, "github.com/seawall-go/seawall", path)
		}
		assert.NotContains(t, []string{"net/http", "expvar", "html/template", "testing"}, path)
	}
}

// What a user's module graph gains: three modules, which only the tests need.
func TestModuleRequiresThreeModules(t *testing.T) {
	text, err := os.ReadFile("go.mod")
	require.NoError(t, err)
	var direct []string
	for _, m := range regexp.MustCompile(`(?m)^(?:require )?\s*(\S+\.\S+) v\S+$`).FindAllStringSubmatch(string(text), -1) {
		direct = append(direct, m[1])
	}
	assert.Equal(t, []string{"github.com/benbjohnson/clock", "github.com/stretchr/testify", "go.uber.org/goleak"}, direct)
	assert.NotContains(t, string(text), "replace")
}

func goList(t *testing.T, args ...string) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"list"}, args...)...)
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, stderr.String())
	return strings.Fields(string(out))
}

// G71, B53: only clock.go asks package time what time it is or to ring, for the default clock; all else asks the
// guard's Clock. An OpenError that was made by hand has none, so it goes by package time.
func TestOnlyTheClockTellsTheTime(t *testing.T) {
	allowed := map[string][]string{"clock.go": {"Now", "Since", "After"}, "errors.go": {"Until"}}
	telling := []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}
	eachCoreFile(t, func(name string, file *ast.File) {
		uses := selectors(file)
		for _, f := range telling {
			assert.False(t, uses["time."+f] && !slices.Contains(allowed[name], f), "%s: time.%s", name, f)
		}
	})
}

// I9, G78: the core starts no goroutine, so that there is nothing to close or to leak.
func TestCoreStartsNoGoroutine(t *testing.T) {
	eachCoreFile(t, func(name string, file *ast.File) {
		ast.Inspect(file, func(n ast.Node) bool {
			_, found := n.(*ast.GoStmt)
			assert.False(t, found, "%s has a go statement", name)
			return true
		})
	})
}

// G76: no test waits for real time to pass: only tests that are told in bubbles sleep, and nobody polls by the clock.
func TestTestsDoNotSleep(t *testing.T) {
	names, err := filepath.Glob("*_test.go")
	require.NoError(t, err)
	for _, name := range names {
		uses := selectors(parse(t, name))
		assert.False(t, uses["time.Sleep"] && !uses["synctest.Test"], "%s sleeps", name)
		for _, poll := range []string{"Eventually", "Eventuallyf", "EventuallyWithT", "Never", "Neverf"} {
			assert.False(t, uses["assert."+poll] || uses["require."+poll], "%s polls by the clock", name)
		}
	}
}

// selectors returns all that is named as a.b somewhere in n.
func selectors(n ast.Node) map[string]bool {
	found := map[string]bool{}
	ast.Inspect(n, func(n ast.Node) bool {
		if s, isSelector := n.(*ast.SelectorExpr); isSelector {
			if x, isIdent := s.X.(*ast.Ident); isIdent {
				found[x.Name+"."+s.Sel.Name] = true
			}
		}
		return true
	})
	return found
}

func parse(t *testing.T, name string) *ast.File {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
	require.NoError(t, err)
	return file
}

// eachCoreFile calls visit with every file of the package that is no test.
func eachCoreFile(t *testing.T, visit func(name string, file *ast.File)) {
	t.Helper()
	names, err := filepath.Glob("*.go")
	require.NoError(t, err)
	seen := 0
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		visit(name, parse(t, name))
		seen++
	}
	assert.Greater(t, seen, 10)
}
