// Command mutate looks for code that no test holds in place. It deletes one statement or fixes one condition at a
// time, case conditions and the operands of && and || too, and runs the tests on the result through
// "go test -overlay": the source tree is never touched.
//
//	go run ./mutate [-dir ..] [-files a.go,b.go] [-equivalent file] [-second dir] [-parallel 2] [-run name] [-- test flags]
//
// A mutant is killed if the tests fail or take too long. It fails if less than 95 % are killed, the mutants that the
// list names as equivalent left out. -second names a module whose tests get a go at what the first ones let live.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

func main() {
	dir := flag.String("dir", "..", "package to mutate")
	files := flag.String("files", "state.go,breaker.go,probes.go,window.go,bulkhead.go", "source files in it")
	list := flag.String("equivalent", "mutate/equivalent.txt", "list of the mutants that change nothing, with reasons")
	second := flag.String("second", "", "directory of a second module of tests")
	parallel := flag.Int("parallel", 2, "mutants tried at once")
	only := flag.String("run", "", "try only mutants whose name contains this")
	least := flag.Float64("least", 95, "percentage that must be killed")
	flag.Parse()

	r := runner{dir: *dir, second: *second, flags: flag.Args()}
	if len(r.flags) == 0 {
		r.flags = []string{"-count=1", "-failfast", "-timeout=20s"}
	}
	if err := r.run(strings.Split(*files, ","), *list, *only, *parallel, *least); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

type runner struct {
	dir, second string
	flags       []string
	tmp         string
}

// fate is what became of a mutant.
type fate int

const (
	killed fate = iota
	lived
	notBuilt
	equivalent
)

func (f fate) String() string {
	return [...]string{"killed", "LIVED", "not built", "equivalent"}[f]
}

func (r runner) run(files []string, list, only string, parallel int, least float64) error {
	known, err := readEquivalent(list)
	if err != nil {
		return err
	}
	if r.tmp, err = os.MkdirTemp("", "mutate"); err != nil {
		return err
	}
	defer os.RemoveAll(r.tmp)
	var all []mutant
	for _, f := range files {
		ms, err := mutantsOf(filepath.Join(r.dir, f))
		if err != nil {
			return err
		}
		for _, m := range ms {
			if strings.Contains(m.name, only) {
				all = append(all, m)
			}
		}
	}
	if fate, out := r.try(0, nil); fate != lived {
		return fmt.Errorf("the tests fail without a mutant:\n%s", out)
	}

	start := time.Now()
	fates := r.tryAll(all, known, parallel)
	var n [4]int
	for i, m := range all {
		n[fates[i]]++
		if fates[i] == lived {
			fmt.Printf("LIVED %s\n      %s\n", m.pos, m.name)
		}
		delete(known, m.name)
	}
	if only == "" {
		for name := range known {
			fmt.Printf("the list of equivalent mutants names one that does not exist: %s\n", name)
		}
	}
	rate := 100 * float64(n[killed]) / float64(max(1, n[killed]+n[lived]))
	fmt.Printf("proof: mutate: %d mutants: %d killed, %d lived (%.1f %% killed), %d equivalent, %d did not build, in %v\n",
		len(all), n[killed], n[lived], rate, n[equivalent], n[notBuilt], time.Since(start).Round(time.Second))
	switch {
	case rate < least:
		return fmt.Errorf("%.1f %% killed, %.1f %% are wanted", rate, least)
	case only == "" && len(known) > 0:
		return errors.New("the list of equivalent mutants is out of date")
	}
	return nil
}

func (r runner) tryAll(all []mutant, known map[string]bool, parallel int) []fate {
	fates := make([]fate, len(all))
	next := make(chan int)
	var wg sync.WaitGroup
	for worker := range parallel {
		wg.Go(func() {
			for i := range next {
				if fates[i] = equivalent; !known[all[i].name] {
					fates[i], _ = r.try(worker, &all[i])
				}
				if fates[i] == lived {
					fmt.Fprintf(os.Stderr, "%d of %d: LIVED %s %s\n", i+1, len(all), all[i].pos, all[i].name)
				}
			}
		})
	}
	for i := range all {
		next <- i
	}
	close(next)
	wg.Wait()
	return fates
}

// try runs the tests on a mutant, or on the code as it is if m is nil.
func (r runner) try(worker int, m *mutant) (fate, string) {
	replace := map[string]string{}
	if m != nil {
		file := filepath.Join(r.tmp, fmt.Sprintf("mutant%d.go", worker))
		if err := os.WriteFile(file, m.source, 0o600); err != nil {
			panic(err)
		}
		replace[m.file] = file
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		panic(err)
	}
	overlay := filepath.Join(r.tmp, fmt.Sprintf("overlay%d.json", worker))
	if err := os.WriteFile(overlay, text, 0o600); err != nil {
		panic(err)
	}
	f, out := r.test(r.dir, overlay)
	if f == lived && r.second != "" {
		f, out = r.test(r.second, overlay)
	}
	return f, out
}

func (r runner) test(dir, overlay string) (fate, string) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", append(append([]string{"test", "-vet=off", "-overlay", overlay}, r.flags...), ".")...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "SEAWALL_PROOF=mutate")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.WaitDelay = time.Second
	switch err := cmd.Run(); {
	case err == nil:
		return lived, out.String()
	case strings.Contains(out.String(), "[build failed]"), strings.Contains(out.String(), "[setup failed]"):
		return notBuilt, out.String()
	default:
		return killed, out.String()
	}
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
