package main

import (
	"os"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const header = "id\tfault\treason\n"

// repository is a tree with a table of the given rows and the given files.
func repository(rows string, files map[string]string) fstest.MapFS {
	tree := fstest.MapFS{table: {Data: []byte(header + rows)}}
	for name, source := range files {
		tree[name] = &fstest.MapFile{Data: []byte(source)}
	}
	return tree
}

func TestReportPrintsTestsAndReasons(t *testing.T) {
	tree := repository("G01\tfirst\t\nG02\tsecond\twaits: issue 5, Group\nB100\tthird\t\n", map[string]string{
		"a_test.go":     "package a\n\n// G01: why.\nfunc TestOne(t *testing.T) {}\n",
		"sub/b_test.go": "package b\n\nfunc ExampleTwo() {\n\t// B100 and G01.\n}\n",
	})
	text, err := report(tree)
	require.NoError(t, err)
	assert.Equal(t, `G01 first → TestOne, sub/ExampleTwo
G02 second → waits: issue 5, Group
B100 third → sub/ExampleTwo
3 rows: 2 for tests, 1 wait for a later part, 0 contradict the design, 0 not built, 0 checked otherwise
`, text)
}

func TestMentionBelongsToTheTestAroundOrBehindIt(t *testing.T) {
	const source = `package a

// G01 between.

func helper() {} // G02 behind a helper.

// G03 in the doc comment.
func TestFirst(t *testing.T) {
	// G04 inside.
	t.Run("G05 subtest", nil)
}

func BenchmarkNot(b *testing.B) {} // G06 not in a benchmark.

func FuzzSecond_G07(f *testing.F) {}

func (suite) TestNot() {}

// G08 behind the last test.
`
	mentions, err := parse("dir/a_test.go", []byte(source))
	require.NoError(t, err)
	got := make(map[string]string)
	for _, m := range mentions {
		got[m.id] = m.test
	}
	assert.Equal(t, map[string]string{
		"G01": "dir/TestFirst",
		"G02": "dir/TestFirst",
		"G03": "dir/TestFirst",
		"G04": "dir/TestFirst",
		"G05": "dir/TestFirst",
		"G06": "dir/FuzzSecond_G07",
		"G07": "dir/FuzzSecond_G07",
		"G08": "",
	}, got)
}

func TestOnlyTestFilesOfSeawallAreRead(t *testing.T) {
	const source = "package a\n\n// G01.\nfunc TestOne() {}\n"
	mentions, err := findMentions(fstest.MapFS{
		"a.go":                      {Data: []byte(source)},
		".tools/a_test.go":          {Data: []byte(source)},
		"x/testdata/a_test.go":      {Data: []byte(source)},
		home + "/main_test.go":      {Data: []byte(source)},
		"examples/retry/in_test.go": {Data: []byte(source)},
	})
	require.NoError(t, err)
	assert.Equal(t, []mention{{id: "G01", test: "examples/retry/TestOne", where: "examples/retry/in_test.go:3:1"}}, mentions)
}

func TestReportFindsEveryMistake(t *testing.T) {
	carries := func(id string) map[string]string {
		return map[string]string{"a_test.go": "package a\n\n// " + id + "\nfunc TestOne() {}\n"}
	}
	for _, tt := range []struct {
		name, rows string
		files      map[string]string
		want       string
	}{
		{"neither test nor reason", "G01\tx\t\n", nil, "G01: no test names it"},
		{"test and reason", "G01\tx\tnot built: no such thing\n", carries("G01"), "but TestOne names it"},
		{"unlisted id", "G01\tx\t\n", carries("G01 B99"), "a_test.go:3:1: B99 is not listed"},
		{"no test follows", "G01\tx\t\n", map[string]string{"a_test.go": "package a\n\n// G01\n"}, "a_test.go:3:1: no test follows this mention of G01"},
		{"malformed id", "X01\tx\t\n", nil, `"X01" is not an id`},
		{"repeated id", "G01\tx\twaits: y\nG01\tx\twaits: y\n", nil, "G01 stands there twice"},
		{"unknown kind", "G01\tx\tlater: some day\n", nil, "the reason of G01"},
		{"kind without a text", "G01\tx\twaits\n", nil, "the reason of G01"},
		{"missing column", "G01\tx\n", nil, "wrong number of fields"},
		{"not Go", "G01\tx\t\n", map[string]string{"a_test.go": "package"}, "a_test.go:1:8"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := report(repository(tt.rows, tt.files))
			assert.ErrorContains(t, err, tt.want)
		})
	}
}

func TestCommittedTableIsWellFormed(t *testing.T) {
	rows, err := readRows(os.DirFS("../.."))
	require.NoError(t, err)
	assert.Len(t, rows, 145)
}
