// Command cases prints every known fault of circuit breakers and bulkheads that
// cases.tsv lists, with the tests that rule it out in seawall or the reason why
// none does. From the root of the repository:
//
//	go run ./internal/cases
//
// A test, fuzz test or example carries a row by naming its id, as in G01 or B30:
// in its own name, in a comment on it or in it, or in a string in it, such as the
// name of a subtest. A comment between two tests belongs to the one that follows.
//
// The exit status is 1 if a row has neither a test nor a reason, or has both, or
// if a test names a row that is not listed.
package main

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
)

const (
	home  = "internal/cases" // its tests name rows without testing them
	table = home + "/cases.tsv"
)

func main() {
	text, err := report(os.DirFS("."))
	fmt.Print(text)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// report lists the rows and joins all that is wrong with them into one error.
func report(repository fs.FS) (string, error) {
	rows, err := readRows(repository)
	if err != nil {
		return "", err
	}
	mentions, err := findMentions(repository)
	if err != nil {
		return "", err
	}
	tests, errs := assign(rows, mentions)

	var text strings.Builder
	counts := make(map[string]int)
	for _, row := range rows {
		answer, err := row.answer(tests[row.id])
		fmt.Fprintf(&text, "%s %s → %s\n", row.id, row.fault, answer)
		counts[row.kind]++
		errs = append(errs, err)
	}
	fmt.Fprintf(&text, "%d rows: %d for tests, %d wait for a later part, %d contradict the design, %d not built, %d checked otherwise\n",
		len(rows), counts[tested], counts[waits], counts[contradicts], counts[notBuilt], counts[checkedBy])
	return text.String(), errors.Join(errs...)
}

// The kinds of rows: those with tests, and those with one of these reasons.
const (
	tested      = ""
	waits       = "waits"       // for the issue that builds what the row speaks of
	contradicts = "contradicts" // something that seawall does on purpose
	notBuilt    = "not built"   // there is nothing that could have the fault
	checkedBy   = "checked by"  // something that is not a test
)

// A row is one known fault.
type row struct {
	id, fault    string
	kind, reason string
}

// readRows reads the table, whose columns are id, fault and "kind: reason".
func readRows(repository fs.FS) ([]row, error) {
	text, err := fs.ReadFile(repository, table)
	if err != nil {
		return nil, err
	}
	lines := csv.NewReader(bytes.NewReader(text))
	lines.Comma = '\t'
	lines.FieldsPerRecord = 3
	records, err := lines.ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", table, err)
	}

	var rows []row
	for _, record := range records[1:] {
		kind, reason, _ := strings.Cut(record[2], ": ")
		rows = append(rows, row{id: record[0], fault: record[1], kind: kind, reason: reason})
	}
	return rows, checkTable(rows)
}

// checkTable reports malformed and repeated rows.
func checkTable(rows []row) error {
	var errs []error
	id := regexp.MustCompile(`^[GB][0-9]{2,3}$`)
	kinds := []string{tested, waits, contradicts, notBuilt, checkedBy}
	seen := make(map[string]bool)
	for _, row := range rows {
		switch {
		case !id.MatchString(row.id):
			errs = append(errs, fmt.Errorf("%s: %q is not an id like G01 or B30", table, row.id))
		case seen[row.id]:
			errs = append(errs, fmt.Errorf("%s: %s stands there twice", table, row.id))
		case !slices.Contains(kinds, row.kind), (row.kind == tested) != (row.reason == ""):
			errs = append(errs, fmt.Errorf("%s: the reason of %s must be empty or one of %q with a text after a colon", table, row.id, kinds[1:]))
		}
		seen[row.id] = true
	}
	return errors.Join(errs...)
}

// assign gives each row the tests that name it, and reports the mentions that lead nowhere.
func assign(rows []row, mentions []mention) (map[string][]string, []error) {
	var errs []error
	known := make(map[string]bool)
	for _, row := range rows {
		known[row.id] = true
	}
	tests := make(map[string][]string)
	for _, m := range mentions {
		switch {
		case !known[m.id]:
			errs = append(errs, fmt.Errorf("%s: %s is not listed in %s", m.where, m.id, table))
		case m.test == "":
			errs = append(errs, fmt.Errorf("%s: no test follows this mention of %s", m.where, m.id))
		case !slices.Contains(tests[m.id], m.test):
			tests[m.id] = append(tests[m.id], m.test)
		}
	}
	return tests, errs
}

// answer returns what rules the fault out: the tests, or the reason why there are none.
func (r row) answer(tests []string) (string, error) {
	reason, carriers := r.kind+": "+r.reason, strings.Join(tests, ", ")
	switch {
	case r.kind == tested && carriers == "":
		return "no test", fmt.Errorf("%s: no test names it, and %s gives no reason", r.id, table)
	case r.kind == tested:
		return carriers, nil
	case carriers != "":
		return reason, fmt.Errorf("%s: %s gives a reason, but %s names it", r.id, table, carriers)
	}
	return reason, nil
}
