package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"path/filepath"
	"strings"
)

// mutant is one file with one change.
type mutant struct {
	file   string // absolute
	pos    token.Position
	name   string // file, function and change; it does not hold the line, so that it lasts
	source []byte
}

// mutator makes the mutants of one file. It changes the tree, prints it and changes it back.
type mutator struct {
	abs  string
	fset *token.FileSet
	file *ast.File
	fn   string // the function that is being walked
	seen map[string]int
	out  []mutant
}

func mutantsOf(file string) ([]mutant, error) {
	abs, err := filepath.Abs(file)
	if err != nil {
		return nil, err
	}
	m := mutator{abs: abs, fset: token.NewFileSet(), seen: map[string]int{}}
	if m.file, err = parser.ParseFile(m.fset, abs, nil, parser.SkipObjectResolution); err != nil {
		return nil, err
	}
	for _, d := range m.file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil {
			m.fn = f.Name.Name
			ast.Inspect(f.Body, m.visit)
		}
	}
	return m.out, nil
}

func (m *mutator) visit(n ast.Node) bool {
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
			m.fix(&n.Cond, "false") // True would only cost time.
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
	return true
}

// deletions deletes one statement of a list at a time.
func (m *mutator) deletions(list []ast.Stmt) {
	for i, s := range list {
		switch s := s.(type) {
		case *ast.AssignStmt:
			if s.Tok == token.DEFINE {
				continue // Nothing would build.
			}
		case *ast.ExprStmt, *ast.IncDecStmt, *ast.DeferStmt, *ast.SendStmt, *ast.BranchStmt, *ast.ReturnStmt:
		default:
			continue
		}
		list[i] = &ast.EmptyStmt{Semicolon: s.Pos()}
		m.add(s.Pos(), "delete "+m.text(s))
		list[i] = s
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
	m.fix(e, "true")
	m.fix(e, "false")
	m.operands(e)
}

func (m *mutator) operands(e *ast.Expr) {
	switch x := (*e).(type) {
	case *ast.ParenExpr:
		m.operands(&x.X)
	case *ast.BinaryExpr:
		value := map[token.Token]string{token.LAND: "true", token.LOR: "false"}[x.Op]
		if value == "" {
			return
		}
		for _, side := range []*ast.Expr{&x.X, &x.Y} {
			m.fix(side, value)
			m.operands(side)
		}
	}
}

// fix keeps the expression in the code, without effect, so that its variables stay in use.
func (m *mutator) fix(e *ast.Expr, value string) {
	x := *e
	op := map[string]token.Token{"true": token.LOR, "false": token.LAND}[value]
	*e = &ast.ParenExpr{X: &ast.BinaryExpr{X: &ast.Ident{Name: value, NamePos: x.Pos()}, Op: op, Y: &ast.ParenExpr{X: x}}}
	m.add(x.Pos(), value+" for "+m.text(x))
	*e = x
}

// boolean reports whether e looks like a condition; the compiler sorts out the rest.
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

func (m *mutator) add(pos token.Pos, change string) {
	var b bytes.Buffer
	if err := printer.Fprint(&b, m.fset, m.file); err != nil {
		panic(err)
	}
	name := fmt.Sprintf("%s %s: %s", filepath.Base(m.abs), m.fn, change)
	if m.seen[name]++; m.seen[name] > 1 {
		name = fmt.Sprintf("%s (%d)", name, m.seen[name])
	}
	m.out = append(m.out, mutant{m.abs, m.fset.Position(pos), name, b.Bytes()})
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
