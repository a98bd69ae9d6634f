package seawall_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seawall-go/seawall"
)

func TestReadmeIsShort(t *testing.T) {
	t.Parallel()
	assert.LessOrEqual(t, strings.Count(readDoc(t, "README.md"), "\n"), 205, "lines")
}

// Whoever copies code out of the README copies code that a test has run.
func TestReadmeCodeIsTested(t *testing.T) {
	t.Parallel()
	blocks := regexp.MustCompile("(?ms)^```go\n(.*?)^```").FindAllStringSubmatch(readDoc(t, "README.md"), -1)
	require.NotEmpty(t, blocks)
	var bodies []string
	for _, f := range functionsIn(t, ".") {
		if strings.HasPrefix(f.name, "Example") {
			bodies = append(bodies, exampleBody(f.text))
		}
	}
	for _, block := range blocks {
		tested := slices.Contains(bodies, strings.TrimSpace(block[1]))
		assert.True(t, tested, "no example has this body:\n%s", block[1])
	}
}

// The table of options has every option as it is declared, with the range that its comment gives and the default that
// is in force.
func TestReadmeOptionTable(t *testing.T) {
	t.Parallel()
	type option struct{ call, limits, byDefault string }
	declared, listed := map[string]option{}, map[string]option{}
	for _, f := range functionsIn(t, ".") {
		if strings.HasPrefix(f.name, "With") && f.receiver == "" && !f.test {
			declared[f.name] = option{
				call:      f.name + "(" + strings.Join(f.parameters, ", ") + ")",
				limits:    sentenceAbout(t, f.doc, "Range"),
				byDefault: sentenceAbout(t, f.doc, "Default"),
			}
		}
	}
	for _, row := range rowsUnder(t, "README.md", "Options and defaults") {
		call := strings.Trim(row[0], "`")
		name, _, _ := strings.Cut(call, "(")
		listed[name] = option{call: call, limits: row[2], byDefault: row[3]}
	}

	s := seawall.Must(seawall.NewBreaker("")).Settings()
	inForce := map[string][]any{
		"WithFailureRate":         {s.FailureRate, s.MinCalls},
		"WithConsecutiveFailures": {s.ConsecutiveFailures},
		"WithWindow":              {s.Window, s.Buckets},
		"WithCooldown":            {s.Cooldown},
		"WithJitter":              {s.Jitter},
		"WithMaxRetryAfter":       {s.MaxRetryAfter},
		"WithProbes":              {s.Probes},
		"WithProbeSuccesses":      {s.ProbeSuccesses},
	}
	assert.Zero(t, s.Backoff, "the default of WithBackoff is off")
	assert.Zero(t, s.ProbeTimeout, "the default of WithProbeTimeout is the cooldown")

	names := slices.Sorted(maps.Keys(declared))
	assert.Equal(t, names, slices.Sorted(maps.Keys(listed)), "options in the code and in the table")
	for name, want := range declared {
		got := listed[name]
		assert.Equal(t, want.call, got.call)
		assert.Equal(t, want.limits, got.limits, "range of %s", name)
		if values, ok := inForce[name]; ok {
			assert.Equal(t, values, parseList(t, got.byDefault, values), "default of %s", name)
		} else {
			assert.Equal(t, want.byDefault, strings.ReplaceAll(got.byDefault, "`", ""), "default of %s", name)
		}
	}
}

func TestArchitectureMapsEveryFile(t *testing.T) {
	t.Parallel()
	var mapped, there []string
	for _, row := range rowsUnder(t, "ARCHITECTURE.md", "File map") {
		mapped = append(mapped, strings.Trim(row[0], "`"))
	}
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	for _, file := range files {
		if !strings.HasSuffix(file, "_test.go") {
			there = append(there, file)
		}
	}
	assert.ElementsMatch(t, there, mapped)
}

// Each invariant has tests, all of which there are, and each of which says itself which invariant it holds.
func TestArchitectureNamesTheTestsOfEachInvariant(t *testing.T) {
	t.Parallel()
	sources := map[string]string{}
	for _, dir := range sourceDirs(t) {
		for _, f := range functionsIn(t, dir) {
			if f.test && f.receiver == "" {
				sources[f.name] += f.doc + f.text // The same name may be in several packages.
			}
		}
	}
	var ids []string
	for _, row := range rowsUnder(t, "ARCHITECTURE.md", "Invariants and the tests that hold them") {
		id, tests := row[0], regexp.MustCompile("`(\\w+)`").FindAllStringSubmatch(row[2], -1)
		ids = append(ids, id)
		assert.NotEmpty(t, tests, id)
		for _, test := range tests {
			says := regexp.MustCompile(`\b` + id + `\b`).MatchString(sources[test[1]])
			assert.True(t, says, "no test %s says that it holds %s", test[1], id)
		}
	}
	assert.Equal(t, []string{"I1", "I2", "I3", "I4", "I5", "I6", "I7", "I8", "I9", "I10", "I11"}, ids)
}

// A link inside of the repository leads to a file, and to a heading in it.
func TestDocsLinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	links := 0
	for _, dir := range sourceDirs(t) {
		docs, err := filepath.Glob(filepath.Join(dir, "*.md"))
		require.NoError(t, err)
		for _, doc := range docs {
			for _, link := range regexp.MustCompile(`\]\(([^)\s]+)\)`).FindAllStringSubmatch(readDoc(t, doc), -1) {
				if strings.Contains(link[1], "://") {
					continue
				}
				links++
				file, anchor, _ := strings.Cut(link[1], "#")
				target := doc
				if file != "" {
					target = filepath.Join(dir, file)
				}
				assert.True(t, filepath.IsLocal(target), "%s in %s leads out of the repository", link[1], doc)
				if assert.FileExists(t, target, "%s in %s", link[1], doc) && anchor != "" {
					assert.Contains(t, anchorsOf(readDoc(t, target)), anchor, "%s in %s", link[1], doc)
				}
			}
		}
	}
	assert.NotZero(t, links)
}

func readDoc(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	return string(text)
}

// rowsUnder returns the rows of the first table under a heading, without its head.
func rowsUnder(t *testing.T, name, heading string) [][]string {
	t.Helper()
	_, section, found := strings.Cut(readDoc(t, name), "\n## "+heading+"\n")
	require.True(t, found, "%s has no heading %q", name, heading)
	section, _, _ = strings.Cut(section, "\n## ")
	var rows [][]string
	for line := range strings.Lines(section) {
		if !strings.HasPrefix(line, "|") {
			if rows != nil {
				break
			}
			continue
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		rows = append(rows, cells)
	}
	require.Greater(t, len(rows), 2, "table under %q in %s", heading, name)
	return rows[2:]
}

// anchorsOf returns the names by which the headings of a document can be linked to.
func anchorsOf(doc string) []string {
	var names []string
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(doc, -1) {
		name := strings.ReplaceAll(strings.ToLower(heading[1]), " ", "-")
		names = append(names, regexp.MustCompile(`[^\w-]`).ReplaceAllString(name, ""))
	}
	return names
}

// sourceDirs returns every directory of the repository that is not hidden.
func sourceDirs(t *testing.T) []string {
	t.Helper()
	var dirs []string
	require.NoError(t, filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if path != "." && strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" {
			return fs.SkipDir
		}
		dirs = append(dirs, path)
		return nil
	}))
	return dirs
}

// goFunction is a function as it stands in the source.
type goFunction struct {
	name, receiver, doc, text string
	parameters                []string
	test                      bool // in a test file
}

func functionsIn(t *testing.T, dir string) []goFunction {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	require.NoError(t, err)
	var all []goFunction
	for _, name := range files {
		source := readDoc(t, name)
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, name, source, parser.ParseComments|parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, d := range file.Decls {
			decl, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			at := func(p token.Pos) int { return fset.Position(p).Offset }
			f := goFunction{
				name: decl.Name.Name,
				doc:  decl.Doc.Text(),
				text: source[at(decl.Pos()):at(decl.End())],
				test: strings.HasSuffix(name, "_test.go"),
			}
			if decl.Recv != nil {
				f.receiver = source[at(decl.Recv.Pos()):at(decl.Recv.End())]
			}
			for _, field := range decl.Type.Params.List {
				for _, ident := range field.Names {
					f.parameters = append(f.parameters, ident.Name)
				}
			}
			all = append(all, f)
		}
	}
	return all
}

// exampleBody returns what a reader sees of an example: the body, moved to the left, without the output.
func exampleBody(text string) string {
	_, body, _ := strings.Cut(text, "{\n")
	body, _, _ = strings.Cut(body, "\t// Output:")
	return strings.TrimSpace(strings.ReplaceAll("\n"+body, "\n\t", "\n"))
}

// sentenceAbout returns what a comment says after a word such as Default, up to the end of the sentence.
func sentenceAbout(t *testing.T, doc, word string) string {
	t.Helper()
	doc = strings.NewReplacer("\n", " ", "[", "", "]", "").Replace(doc) + " "
	found := regexp.MustCompile(`\b` + word + `:? (.+?)\. `).FindStringSubmatch(doc)
	require.NotNil(t, found, "%s in %q", word, doc)
	return found[1]
}

// parseList reads a list of values of the same types as those in like.
func parseList(t *testing.T, list string, like []any) []any {
	t.Helper()
	texts := strings.Split(list, ", ")
	require.Len(t, texts, len(like), list)
	values := make([]any, len(texts))
	for i, text := range texts {
		var err error
		switch like[i].(type) {
		case time.Duration:
			values[i], err = time.ParseDuration(text)
		case float64:
			values[i], err = strconv.ParseFloat(text, 64)
		case int:
			values[i], err = strconv.Atoi(text)
		}
		require.NoError(t, err)
	}
	return values
}
