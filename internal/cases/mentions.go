package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"regexp"
	"strings"
)

// A mention is a place in a test file that names a row.
type mention struct {
	id    string
	test  string // with its directory; empty if no test follows
	where string // file:line
}

// findMentions looks through the test files of every module, in the order of their paths.
func findMentions(repository fs.FS) ([]mention, error) {
	var mentions []mention
	err := fs.WalkDir(repository, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && skipped(name):
			return fs.SkipDir
		case entry.IsDir(), !strings.HasSuffix(name, "_test.go"):
			return nil
		}
		source, err := fs.ReadFile(repository, name)
		if err != nil {
			return err
		}
		found, err := parse(name, source)
		mentions = append(mentions, found...)
		return err
	})
	return mentions, err
}

// skipped reports whether a directory holds no tests of seawall.
func skipped(dir string) bool {
	base := path.Base(dir)
	return dir == home || base == "testdata" || dir != "." && strings.HasPrefix(base, ".")
}

// parse finds the mentions in one test file.
func parse(name string, source []byte) ([]mention, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}

	var mentions []mention
	tests := testsOf(file)
	add := func(pos token.Pos, ids []string) {
		for _, id := range ids {
			mentions = append(mentions, mention{id: id, test: ownerOf(tests, pos, name), where: files.Position(pos).String()})
		}
	}
	for _, test := range tests {
		add(test.Pos(), regexp.MustCompile(`[GB][0-9]{2,3}`).FindAllString(test.Name.Name, -1))
	}
	word := regexp.MustCompile(`\b[GB][0-9]{2,3}\b`)
	for _, group := range file.Comments {
		for _, comment := range group.List {
			add(comment.Pos(), word.FindAllString(comment.Text, -1))
		}
	}
	ast.Inspect(file, func(node ast.Node) bool {
		if literal, ok := node.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			add(literal.Pos(), word.FindAllString(literal.Value, -1))
		}
		return true
	})
	return mentions, nil
}

// testsOf returns the tests, fuzz tests and examples of a file in source order. TestMain
// is one of them: it holds what is true after every test.
func testsOf(file *ast.File) []*ast.FuncDecl {
	var tests []*ast.FuncDecl
	for _, declaration := range file.Decls {
		function, ok := declaration.(*ast.FuncDecl)
		if !ok || function.Recv != nil {
			continue
		}
		for _, prefix := range []string{"Test", "Fuzz", "Example"} {
			if strings.HasPrefix(function.Name.Name, prefix) {
				tests = append(tests, function)
			}
		}
	}
	return tests
}

// ownerOf names the test that pos lies in or, between two tests, the next one: in both
// cases it is the first that ends behind pos.
func ownerOf(tests []*ast.FuncDecl, pos token.Pos, file string) string {
	for _, test := range tests {
		if pos < test.End() {
			return path.Join(path.Dir(file), test.Name.Name)
		}
	}
	return ""
}
