// Command mutate looks for code that no test holds in place. It deletes one statement or fixes one condition at a
// time, case conditions and the operands of && and || too, and runs the tests on the result through
// "go test -overlay": the source tree is never touched.
//
//	go run ./mutate [-files a.go,b.go] [-second] [-run regexp] [-parallel 2] [-least 95]
//
// A mutant is killed if the tests of the package fail or take too long; with -second the searches of this module get a
// go at what those let live. It fails if less than 95 % of a file's are killed, the mutants that mutate/equivalent.txt
// names left out.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

func main() {
	files := flag.String("files", "state.go,breaker.go,call.go,edge.go,generation.go,probes.go,counts.go,window.go,slow.go,bulkhead.go,slots.go",
		"source files of the core")
	second := flag.Bool("second", false, "let the searches of this module try what the first tests let live")
	only := flag.String("run", "", "try only mutants whose name matches this regular expression")
	parallel := flag.Int("parallel", 2, "mutants tried at once")
	verbose := flag.Bool("v", false, "show how each mutant was killed")
	least := flag.Float64("least", 95, "percentage of a file's mutants that must be killed")
	flag.Parse()
	if err := run(strings.Split(*files, ","), *only, *second, *verbose, *parallel, *least); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

const (
	core = ".." // the package to mutate
	list = "mutate/equivalent.txt"
)

// fate is what became of a mutant.
type fate int

const (
	killed fate = iota
	lived
	equivalent
	fates
)

func run(files []string, only string, second, verbose bool, parallel int, least float64) error {
	pattern, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	known, err := readEquivalent(list)
	if err != nil {
		return err
	}
	tmp, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	m, overlay, err := mutateAll(files, tmp)
	if err != nil {
		return err
	}
	tests, err := build(overlay, tmp, second)
	if err != nil {
		return err
	}
	if out, ok := tests.pass(0); !ok {
		return fmt.Errorf("the tests fail without a mutant:\n%s", out)
	}

	var all []mutant
	for _, c := range m.all {
		if pattern.MatchString(c.name) {
			all = append(all, c)
		}
	}
	start := time.Now()
	result := tests.tryAll(all, known, parallel, verbose)
	for i, c := range all {
		if result[i] == lived {
			fmt.Printf("LIVED %s:%d\n      %s\n", filepath.Base(c.pos.Filename), c.pos.Line, c.name)
		}
		delete(known, c.name)
	}
	failed := report(all, result, least)
	fmt.Printf("proof: mutate: %d mutants in %v\n", len(all), time.Since(start).Round(time.Second))
	for name := range known {
		file, _, _ := strings.Cut(name, " ")
		if only == "" && slices.Contains(files, file) {
			failed = append(failed, fmt.Errorf("%s names a mutant that does not exist: %s", list, name))
		}
	}
	return errors.Join(failed...)
}

// report prints what became of the mutants of each file, and returns an error for each file with too few killed.
func report(all []mutant, result []fate, least float64) (failed []error) {
	tally := map[string]*[fates]int{}
	var files []string
	for i, c := range all {
		file := filepath.Base(c.pos.Filename)
		if tally[file] == nil {
			tally[file] = new([fates]int)
			files = append(files, file)
		}
		tally[file][result[i]]++
	}
	for _, file := range files {
		n := tally[file]
		rate := 100 * float64(n[killed]) / float64(max(1, n[killed]+n[lived]))
		fmt.Printf("proof: mutate: %-13s %3d killed, %2d lived: %5.1f %%; %2d equivalent\n", file, n[killed], n[lived], rate, n[equivalent])
		if n[killed]+n[lived] > 0 && rate < least {
			failed = append(failed, fmt.Errorf("%s: %.1f %% killed, %.1f %% are wanted", file, rate, least))
		}
	}
	return failed
}

// mutateAll writes the mutated files and an overlay that puts them in place.
func mutateAll(files []string, tmp string) (m *mutator, overlay string, err error) {
	m = &mutator{fset: token.NewFileSet(), seen: map[string]int{}}
	replace := map[string]string{}
	put := func(name string, source []byte) error {
		original, err := filepath.Abs(filepath.Join(core, name))
		if err != nil {
			return err
		}
		replace[original] = filepath.Join(tmp, name)
		return os.WriteFile(replace[original], source, 0o600)
	}
	if err := put("mutant_question.go", []byte(question("seawall"))); err != nil {
		return nil, "", err
	}
	for _, f := range files {
		source, err := m.mutate(filepath.Join(core, f))
		if err == nil {
			err = put(f, source)
		}
		if err != nil {
			return nil, "", err
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return nil, "", err
	}
	overlay = filepath.Join(tmp, "overlay.json")
	return m, overlay, os.WriteFile(overlay, text, 0o600)
}

// suite is some test binaries with all mutants in them.
type suite []struct {
	dir, binary string
	flags       []string
}

func build(overlay, tmp string, second bool) (suite, error) {
	s := make(suite, 1, 2)
	// Tests of documents and of other parts are no help here.
	s[0].dir, s[0].flags = core, []string{"-test.short", "-test.skip=^TestDocs|^TestArchitecture|^TestDeps|Group"}
	if second {
		s = s[:2]
		s[1].dir, s[1].flags = ".", []string{
			"-test.run=^(TestRapid|TestExhaustive|TestSync|TestLinearizable|Fuzz)",
			"-rapid.nofailfile", "-rapid.shrinktime=10ms",
		}
	}
	for i := range s {
		s[i].binary = filepath.Join(tmp, fmt.Sprintf("test%d", i))
		cmd := exec.Command("go", "test", "-vet=off", "-overlay", overlay, "-c", "-o", s[i].binary, ".")
		cmd.Dir = s[i].dir
		if out, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("%w\n%s", err, out)
		}
	}
	return s, nil
}

// pass runs the tests with one mutant on, 0 for none. What loops is stopped after 20 seconds of computing, and what is
// stuck after two minutes, so that a busy machine kills no mutants.
func (s suite) pass(id int) (out string, ok bool) {
	for _, t := range s {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
		args := append([]string{"-c", `ulimit -t 20; exec "$0" "$@"`, t.binary, "-test.failfast", "-test.timeout=120s"}, t.flags...)
		cmd := exec.CommandContext(ctx, "sh", args...)
		cmd.Dir = t.dir
		cmd.Env = append(os.Environ(), "SEAWALL_PROOF=quick", fmt.Sprintf("SEAWALL_MUTANT=%d", id))
		cmd.WaitDelay = time.Second
		var b bytes.Buffer
		cmd.Stdout, cmd.Stderr = &b, &b
		err := cmd.Run()
		cancel()
		if err != nil {
			return b.String(), false
		}
	}
	return "", true
}

func (s suite) tryAll(all []mutant, known map[string]bool, parallel int, verbose bool) []fate {
	result := make([]fate, len(all))
	limit := make(chan struct{}, parallel)
	var wg sync.WaitGroup
	for i, m := range all {
		if known[m.name] {
			result[i] = equivalent
			continue
		}
		limit <- struct{}{}
		wg.Go(func() {
			defer func() { <-limit }()
			out, ok := s.pass(m.id)
			if ok {
				result[i] = lived
				fmt.Fprintf(os.Stderr, "%d of %d: LIVED %s\n", i+1, len(all), m.name)
			} else if verbose {
				lines := strings.Split(out, "\n")
				fmt.Printf("killed %s\n\t%s\n", m.name, strings.Join(lines[:min(8, len(lines))], "\n\t"))
			}
		})
	}
	wg.Wait()
	return result
}

// readEquivalent reads names of mutants, one a line, each under a line "# reason".
func readEquivalent(file string) (map[string]bool, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	known, reason := map[string]bool{}, false
	for i, line := range strings.Split(string(text), "\n") {
		switch line = strings.TrimSpace(line); {
		case line == "":
			reason = false
		case strings.HasPrefix(line, "#"):
			reason = true
		case !reason:
			return nil, fmt.Errorf("%s:%d: %q has no reason", file, i+1, line)
		default:
			known[line] = true
		}
	}
	return known, nil
}
