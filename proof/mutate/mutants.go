package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
)

// mutant is one change to the code. All of them are compiled in at once, each behind a question whether it is the one
// that is on; so a mutant costs a run of the tests and no build.
type mutant struct {
	id   int // from 1
	pos  token.Position
	name string // file, function and change; it does not hold the line, so that it lasts
}

// mutator puts the mutants of several files in.
type mutator struct {
	fset *token.FileSet
	all  []mutant
	seen map[string]int

	// Of the file and the function at work.
	file, function string
	body           *ast.BlockStmt // of the innermost function with results, nil if it has none
	apply          []func()       // done when the whole file has been looked at, innermost expressions first
}

// mutate returns the source of a file with all of its mutants.
func (m *mutator) mutate(path string) ([]byte, error) {
	f, err := parser.ParseFile(m.fset, path, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	m.file, m.apply = filepath.Base(path), nil
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil {
			m.function = fn.Name.Name
			m.walk(fn.Type, fn.Body)
		}
	}
	for _, change := range m.apply {
		change()
	}
	var b bytes.Buffer
	err = printer.Fprint(&b, m.fset, f)
	return b.Bytes(), err
}

// walk looks at the body of a function, and at those of the functions in it.
func (m *mutator) walk(t *ast.FuncType, body *ast.BlockStmt) {
	outer := m.body
	defer func() { m.body = outer }()
	if m.body = nil; t.Results != nil {
		m.body = body
	}
	ast.Inspect(body, func(n ast.Node) bool {
		if f, ok := n.(*ast.FuncLit); ok {
			m.walk(f.Type, f.Body)
			return false
		}
		m.visit(n)
		return true
	})
	if t.Results != nil { // With a return behind a question the compiler doesn't see that the function ends.
		m.apply = append(m.apply, func() {
			body.List = append(body.List, &ast.ExprStmt{X: &ast.CallExpr{
				Fun: ast.NewIdent("panic"), Args: []ast.Expr{&ast.BasicLit{Kind: token.STRING, Value: `"mutate: no return"`}},
			}})
		})
	}
}

func (m *mutator) visit(n ast.Node) {
	switch n := n.(type) {
	case *ast.BlockStmt:
		m.deletions(n.List)
	case *ast.CaseClause:
		m.deletions(n.Body)
		for i := range n.List {
			m.condition(&n.List[i])
		}
	case *ast.CommClause:
		m.deletions(n.Body)
	case *ast.IfStmt:
		m.certain(&n.Cond)
	case *ast.ForStmt:
		if n.Cond != nil {
			m.fix(&n.Cond, false) // True would only cost time.
		}
	case *ast.ReturnStmt:
		for i := range n.Results {
			m.condition(&n.Results[i])
		}
	case *ast.AssignStmt:
		for i := range n.Rhs {
			m.condition(&n.Rhs[i])
		}
	}
}

// deletions makes a mutant of each statement of a list that can be left out.
func (m *mutator) deletions(list []ast.Stmt) {
	for i, s := range list {
		switch s := s.(type) {
		case *ast.AssignStmt:
			if s.Tok == token.DEFINE {
				continue // Nothing would build.
			}
		case *ast.ReturnStmt, *ast.ExprStmt:
			if m.body != nil && !terminates(m.body, s) {
				continue // The same.
			}
		case *ast.IncDecStmt, *ast.DeferStmt, *ast.SendStmt, *ast.BranchStmt:
		default:
			continue
		}
		id := m.add(s.Pos(), "delete "+m.text(s))
		m.apply = append(m.apply, func() {
			list[i] = &ast.IfStmt{Cond: &ast.UnaryExpr{Op: token.NOT, X: on(id)}, Body: &ast.BlockStmt{List: []ast.Stmt{list[i]}}}
		})
	}
}

// condition fixes an expression to true and to false if it looks like a condition, then the operands of && and ||,
// each to the one value that differs from fixing the whole.
func (m *mutator) condition(e *ast.Expr) {
	if boolean(*e) {
		m.certain(e)
	}
}

// certain is condition for an expression that is known to be one.
func (m *mutator) certain(e *ast.Expr) {
	m.operands(e)
	m.fix(e, true)
	m.fix(e, false)
}

func (m *mutator) operands(e *ast.Expr) {
	switch x := (*e).(type) {
	case *ast.ParenExpr:
		m.operands(&x.X)
	case *ast.BinaryExpr:
		if x.Op != token.LAND && x.Op != token.LOR {
			return
		}
		for _, side := range []*ast.Expr{&x.X, &x.Y} {
			m.operands(side)
			m.fix(side, x.Op == token.LAND)
		}
	}
}

func (m *mutator) fix(e *ast.Expr, value bool) {
	id := m.add((*e).Pos(), fmt.Sprintf("%v for %s", value, m.text(*e)))
	m.apply = append(m.apply, func() {
		fixed := &ast.BinaryExpr{X: on(id), Op: token.LOR, Y: &ast.ParenExpr{X: *e}}
		if !value {
			fixed.X, fixed.Op = &ast.UnaryExpr{Op: token.NOT, X: on(id)}, token.LAND
		}
		*e = &ast.ParenExpr{X: fixed}
	})
}

// on is the question whether a mutant is on.
func on(id int) ast.Expr {
	return &ast.CallExpr{
		Fun: ast.NewIdent("mutantIsOn"), Args: []ast.Expr{&ast.BasicLit{Kind: token.INT, Value: strconv.Itoa(id)}},
	}
}

// question is the source of that function, to be put beside the files of the package.
func question(pkg string) string {
	return "package " + pkg + `

import (
	"os"
	"strconv"
)

var activeMutant, _ = strconv.Atoi(os.Getenv("SEAWALL_MUTANT"))

func mutantIsOn(id int) bool { return id == activeMutant }
`
}

// boolean reports whether e looks like a condition.
func boolean(e ast.Expr) bool {
	switch x := e.(type) {
	case *ast.ParenExpr:
		return boolean(x.X)
	case *ast.UnaryExpr:
		return x.Op == token.NOT
	case *ast.BinaryExpr:
		switch x.Op {
		case token.LAND, token.LOR, token.EQL, token.NEQ, token.LSS, token.LEQ, token.GTR, token.GEQ:
			return true
		}
	}
	return false
}

// terminates reports whether a statement still ends its function, in the sense of the Go specification, if another one
// is left out.
func terminates(s, without ast.Stmt) bool {
	last := func(list []ast.Stmt) bool {
		return len(list) > 0 && terminates(list[len(list)-1], without)
	}
	switch s := s.(type) {
	case *ast.ReturnStmt:
		return s != without
	case *ast.ExprStmt:
		call, ok := s.X.(*ast.CallExpr)
		if !ok {
			return false
		}
		name, ok := call.Fun.(*ast.Ident)
		return ok && name.Name == "panic" && s != without
	case *ast.BlockStmt:
		return last(s.List)
	case *ast.IfStmt:
		return s.Else != nil && terminates(s.Body, without) && terminates(s.Else, without)
	case *ast.ForStmt:
		return s.Cond == nil
	case *ast.SwitchStmt:
		hasDefault := false
		for _, c := range s.Body.List {
			clause := c.(*ast.CaseClause)
			hasDefault = hasDefault || clause.List == nil
			if !last(clause.Body) {
				return false
			}
		}
		return hasDefault
	case *ast.SelectStmt:
		for _, c := range s.Body.List {
			if !last(c.(*ast.CommClause).Body) {
				return false
			}
		}
		return true
	}
	return false
}

func (m *mutator) add(pos token.Pos, change string) (id int) {
	name := fmt.Sprintf("%s %s: %s", m.file, m.function, change)
	if m.seen[name]++; m.seen[name] > 1 {
		name = fmt.Sprintf("%s (%d)", name, m.seen[name])
	}
	id = len(m.all) + 1
	m.all = append(m.all, mutant{id, m.fset.Position(pos), name})
	return id
}

// text is the first line of a piece of code.
func (m *mutator) text(n ast.Node) string {
	var b bytes.Buffer
	if err := printer.Fprint(&b, m.fset, n); err != nil {
		panic(err)
	}
	first, _, _ := strings.Cut(b.String(), "\n")
	return first
}
