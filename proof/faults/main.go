// Command faults breaks seawall on purpose, in one way after the other, and shows which method of package proof finds
// each fault. A fault is a patch beside this file. It is applied to a copy, which the tests then see through
// "go test -overlay": the source tree is never touched.
//
//	go run ./faults [-run name] [-parallel 2] [-v]
//
// It fails if the code as it is isn't green, if a fault is found by fewer than two methods, or if a method finds none.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// method is a way of testing: the tests of a directory whose names match.
type method struct{ name, dir, tests string }

func methods(names string) []method {
	all := []method{
		{"unit", "..", "^(Test|Example)"}, // The tests of the core itself.
		{"rapid", ".", "^TestRapid"},
		{"exhaustive", ".", "^TestExhaustive(SlowCalls)?$"},
		{"linear", ".", "^TestLinearizable(SlowCalls)?$"},
		{"sync", ".", "^TestSync"},
		{"fuzz", ".", "^Fuzz"}, // The seeds and the corpus.
		{"soak", ".", "^TestSoak$"},
	}
	if names == "" {
		return all
	}
	return slices.DeleteFunc(all, func(m method) bool { return !slices.Contains(strings.Split(names, ","), m.name) })
}

// table is a run of some methods on some faults.
type table struct {
	methods  []method
	complete bool // all of both
}

func main() {
	only := flag.String("run", "", "try only faults whose name contains this")
	parallel := flag.Int("parallel", 2, "faults tried at once")
	verbose := flag.Bool("v", false, "show how each fault was found")
	names := flag.String("methods", "", "comma-separated methods, all if empty; then it doesn't matter who finds what")
	flag.Parse()
	if err := (table{methods(*names), *names == "" && *only == ""}).run(*only, *parallel, *verbose); err != nil {
		fmt.Fprintln(os.Stderr, "faults:", err)
		os.Exit(1)
	}
}

func (t table) run(only string, parallel int, verbose bool) error {
	patches, err := filepath.Glob("faults/*" + only + "*.patch")
	if err != nil {
		return err
	}
	if len(patches) == 0 {
		return fmt.Errorf("no faults/*%s*.patch: run it in directory proof", only)
	}
	tmp, err := os.MkdirTemp("", "faults")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(tmp) }()

	start := time.Now()
	sound := t.try(filepath.Join(tmp, "sound"), "")
	if n := sound.found(); n != 0 || sound.err != nil {
		return fmt.Errorf("without a fault the tests are not green: %w\n%s", sound.err, sound.output(t.methods))
	}
	outcomes := make([]outcome, len(patches))
	limit := make(chan struct{}, parallel)
	var wg sync.WaitGroup
	for i, p := range patches {
		limit <- struct{}{}
		wg.Go(func() {
			defer func() { <-limit }()
			outcomes[i] = t.try(filepath.Join(tmp, fmt.Sprint(i)), p)
		})
	}
	wg.Wait()
	return t.report(patches, outcomes, start, verbose)
}

// report prints the table of faults and methods.
func (t table) report(patches []string, outcomes []outcome, start time.Time, verbose bool) error {
	fmt.Printf("%-28s", "fault")
	for _, m := range t.methods {
		fmt.Printf(" %-10s", m.name)
	}
	fmt.Println(" found by")
	bad, byMethod := 0, make([]int, len(t.methods))
	for i, p := range patches {
		o := outcomes[i]
		fmt.Printf("%-28s", strings.TrimSuffix(filepath.Base(p), ".patch"))
		if o.err != nil {
			fmt.Printf(" %v\n", o.err)
			bad++
			continue
		}
		for k := range t.methods {
			cell := "-"
			if o.failed[k] {
				cell = how(o.text[k])
				byMethod[k]++
			}
			fmt.Printf(" %-10s", cell)
		}
		fmt.Printf(" %d\n", o.found())
		if o.found() < min(2, len(t.methods)) {
			bad++
		}
		if verbose {
			fmt.Println(o.output(t.methods))
		}
	}
	blind := 0
	for _, n := range byMethod {
		if n == 0 {
			blind++
		}
	}
	fmt.Printf("proof: faults: %d faults, %d found by fewer than two methods, %d of %d methods find none, without a fault all green, in %v\n",
		len(patches), bad, blind, len(byMethod), time.Since(start).Round(time.Second))
	if t.complete && bad+blind > 0 {
		return fmt.Errorf("%d faults and %d methods are not as they have to be", bad, blind)
	}
	return nil
}

// outcome is what the methods made of one fault.
type outcome struct {
	err    error // the fault could not be tried
	failed []bool
	text   []string
}

func (o outcome) found() (n int) {
	for _, f := range o.failed {
		if f {
			n++
		}
	}
	return n
}

// how says in which way a fault showed: by a test that failed, or by one that hung, which may also be a busy machine's
// doing.
func how(output string) string {
	switch {
	case strings.Contains(output, "--- FAIL"):
		return "found"
	case strings.Contains(output, "test timed out"):
		return "hangs"
	default:
		return "crashes"
	}
}

// output shows the beginning of what each method that failed had to say.
func (o outcome) output(methods []method) string {
	var b strings.Builder
	for i, m := range methods {
		if i < len(o.failed) && o.failed[i] {
			lines := strings.Split(o.text[i], "\n")
			fmt.Fprintf(&b, "--- %s\n%s\n", m.name, strings.Join(lines[:min(len(lines), 25)], "\n"))
		}
	}
	return b.String()
}

// try runs all methods on seawall with a fault in it, or as it is if patch is empty.
func (t table) try(tmp, patch string) (o outcome) {
	overlay, err := apply(tmp, patch)
	if err != nil {
		return outcome{err: err}
	}
	binaries := map[string]string{}
	for _, m := range t.methods {
		if binaries[m.dir] == "" {
			binaries[m.dir] = filepath.Join(tmp, fmt.Sprintf("test%d", len(binaries)))
			if out, err := command(m.dir, "go", "test", "-vet=off", "-c", "-overlay", overlay, "-o", binaries[m.dir], "."); err != nil {
				return outcome{err: fmt.Errorf("does not build: %s", out)}
			}
		}
		args := []string{"-test.run", m.tests, "-test.failfast", "-test.timeout", "40s"}
		if m.name == "rapid" {
			args = append(args, "-rapid.nofailfile", "-rapid.shrinktime", "10ms")
		}
		out, err := command(m.dir, binaries[m.dir], args...)
		o.failed, o.text = append(o.failed, err != nil), append(o.text, out)
	}
	return o
}

// apply applies a patch to copies of the files it names and returns an overlay that puts those in place.
func apply(tmp, patch string) (overlay string, err error) {
	if err := os.MkdirAll(tmp, 0o700); err != nil {
		return "", err
	}
	replace := map[string]string{}
	if patch != "" {
		text, err := os.ReadFile(patch)
		if err != nil {
			return "", err
		}
		for _, m := range regexp.MustCompile(`(?m)^--- a/(\S+)`).FindAllSubmatch(text, -1) {
			name := string(m[1])
			original, err := filepath.Abs(filepath.Join("..", name))
			if err != nil {
				return "", err
			}
			source, err := os.ReadFile(original)
			if err != nil {
				return "", err
			}
			replace[original] = filepath.Join(tmp, name)
			if err := os.WriteFile(replace[original], source, 0o600); err != nil {
				return "", err
			}
		}
		absolute, err := filepath.Abs(patch)
		if err != nil {
			return "", err
		}
		if out, err := command(tmp, "git", "apply", "-C1", absolute); err != nil {
			return "", fmt.Errorf("does not apply, make the patch anew: %s", strings.TrimSpace(out))
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay = filepath.Join(tmp, "overlay.json")
	return overlay, os.WriteFile(overlay, text, 0o600)
}

func command(dir, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "SEAWALL_PROOF=quick", "GIT_CEILING_DIRECTORIES=/")
	cmd.WaitDelay = time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}
