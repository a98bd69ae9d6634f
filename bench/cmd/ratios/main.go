// Ratios runs the benchmarks of bench/ in turns and prints tables of medians
// and ratios.
//
// On a machine that others use too, a number measured now and one measured a
// minute later say little about each other. So every round runs each benchmark
// once, in a process of its own: the implementations of a scenario one after
// another, in an order that changes from round to round. A ratio is taken
// within a round, and its median over the rounds is what the tables show.
//
//	go run ./cmd/ratios -rounds 10 -o ratios.md
package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/perf/benchfmt"
)

func main() {
	var o options
	flag.IntVar(&o.rounds, "rounds", 10, "how often each benchmark runs")
	flag.StringVar(&o.filter, "filter", ".", "run only what this `pattern` matches, which is one of go test -bench: (Closed|Open)/impl=(seawall|gobreaker)/par=1; a ratio needs its base, too")
	flag.StringVar(&o.benchtime, "benchtime", "60ms", "how long each benchmark runs in a round")
	flag.StringVar(&o.cpu, "cpu", "1,2,8", "values of GOMAXPROCS for parallel benchmarks; serial ones run with 1")
	out := flag.String("o", "", "write the tables to this `file` instead of standard output")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o, *out); err != nil {
		fmt.Fprintln(os.Stderr, "ratios:", err)
		os.Exit(1)
	}
}

type options struct {
	rounds                 int
	filter, benchtime, cpu string
}

func run(ctx context.Context, o options, out string) error {
	dir, err := os.MkdirTemp("", "ratios")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()

	bin := binary(filepath.Join(dir, "bench.test"))
	if err := bin.build(ctx); err != nil {
		return err
	}
	deviations, remarks, err := bin.conform(ctx)
	if err != nil {
		return err
	}
	todo, err := bin.list(ctx, o)
	if err != nil {
		return err
	}
	r := results{deviations: deviations, remarks: remarks}
	for _, b := range todo {
		r.names = append(r.names, b.String())
	}
	start, others := time.Now(), othersCPU()
	for n := range o.rounds {
		fmt.Fprintf(os.Stderr, "round %d of %d: %d benchmarks, %s so far\n", n+1, o.rounds, len(todo), time.Since(start).Round(time.Second))
		shuffle(todo)
		round := round{}
		for _, b := range todo {
			if err := bin.measure(ctx, b, o.benchtime, &r, round); err != nil {
				return err
			}
		}
		r.rounds = append(r.rounds, round)
	}
	r.others = max(0, float64(othersCPU()-others)/float64(time.Since(start))/float64(runtime.NumCPU()))

	var report bytes.Buffer
	writeReport(&report, &r, o)
	if out != "" {
		return os.WriteFile(out, report.Bytes(), 0o644)
	}
	_, err = io.Copy(os.Stdout, &report)
	return err
}

// A benchmark is one name at one GOMAXPROCS.
type benchmark struct {
	name string
	cpu  string
}

// String is the name as go test prints it.
func (b benchmark) String() string {
	if b.cpu == "1" {
		return b.name
	}
	return b.name + "-" + b.cpu
}

// shuffle changes the order of the scenarios and that of the implementations,
// but leaves the implementations of a scenario together.
func shuffle(todo []benchmark) {
	order := map[benchmark]uint64{}
	for _, b := range todo {
		scenario := benchmark{b.scenario(), b.cpu}
		if order[scenario] == 0 {
			order[scenario] = rand.Uint64()
		}
	}
	rand.Shuffle(len(todo), func(i, j int) { todo[i], todo[j] = todo[j], todo[i] })
	slices.SortStableFunc(todo, func(a, b benchmark) int {
		return cmp.Compare(order[benchmark{a.scenario(), a.cpu}], order[benchmark{b.scenario(), b.cpu}])
	})
}

// scenario is the name without its implementation.
func (b benchmark) scenario() string {
	scenario, _, variant := splitName(b.name)
	return scenario + "/" + variant
}

// binary is the path of the compiled benchmarks.
type binary string

func (bin binary) build(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-o", string(bin), "github.com/seawall-go/seawall/bench")
	cmd.Stderr = os.Stderr
	return cmd.Run()
}

func (bin binary) run(ctx context.Context, args ...string) (string, error) {
	var output bytes.Buffer
	cmd := exec.CommandContext(ctx, string(bin), args...)
	cmd.Stdout, cmd.Stderr = &output, &output
	err := cmd.Run()
	if err != nil {
		err = fmt.Errorf("%s %s: %w\n%s", filepath.Base(string(bin)), strings.Join(args, " "), err, output.String())
	}
	return output.String(), err
}

// attribute is how a test says in what an implementation differs.
var attribute = regexp.MustCompile(`(?m)^=== ATTR +\S+/impl=(\S+) (deviates|remark) (.*)$`)

// conform refuses to measure what isn't configured alike. The deviations that the table admits come back by
// implementation, and what it remarks on those that are alike.
func (bin binary) conform(ctx context.Context) (deviations, remarks map[string]string, err error) {
	output, err := bin.run(ctx, "-test.v")
	if err != nil {
		return nil, nil, err
	}
	deviations, remarks = map[string]string{}, map[string]string{}
	for _, match := range attribute.FindAllStringSubmatch(output, -1) {
		if match[2] == "deviates" {
			deviations[match[1]] = match[3]
		} else {
			remarks[match[1]] = match[3]
		}
	}
	return deviations, remarks, nil
}

// list finds the benchmarks by running each once.
func (bin binary) list(ctx context.Context, o options) ([]benchmark, error) {
	output, err := bin.run(ctx, "-test.run=^$", "-test.cpu=1", "-test.benchtime=1x", "-test.bench="+o.filter)
	if err != nil {
		return nil, err
	}
	var found []benchmark
	err = parse(output, func(r *benchfmt.Result) {
		name := r.Name.String()
		cpus := strings.Split(o.cpu, ",")
		if strings.HasSuffix(name, "/par=1") || !strings.Contains(name, "/par=") {
			cpus = []string{"1"}
		}
		for _, cpu := range cpus {
			found = append(found, benchmark{name, cpu})
		}
	})
	if err == nil && len(found) == 0 {
		err = errors.New("no benchmark matches")
	}
	return found, err
}

func (bin binary) measure(ctx context.Context, b benchmark, benchtime string, r *results, into round) error {
	pattern := "^Benchmark" + strings.ReplaceAll(b.name, "/", "$/^") + "$"
	output, err := bin.run(ctx, "-test.run=^$", "-test.bench="+pattern, "-test.benchtime="+benchtime, "-test.cpu="+b.cpu)
	if err != nil {
		return err
	}
	return parse(output, func(result *benchfmt.Result) {
		r.cpu = result.GetConfig("cpu")
		into[b.String()] = newSample(result)
	})
}

func parse(output string, f func(*benchfmt.Result)) error {
	r := benchfmt.NewReader(strings.NewReader(output), "output")
	for r.Scan() {
		switch record := r.Result().(type) {
		case *benchfmt.Result:
			f(record)
		case *benchfmt.SyntaxError:
			return record
		}
	}
	return r.Err()
}

// othersCPU is the CPU time that other processes have used, and that the host
// has taken away, since the machine started. It is known on Linux only.
func othersCPU() time.Duration {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	var user, nice, system, idle, wait, irq, softirq, steal time.Duration
	if _, err := fmt.Sscanf(string(stat), "cpu %d %d %d %d %d %d %d %d", &user, &nice, &system, &idle, &wait, &irq, &softirq, &steal); err != nil {
		return 0
	}
	const tick = time.Second / 100
	busy := (user + nice + system + irq + softirq + steal) * tick
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		if err := syscall.Getrusage(who, &u); err != nil {
			return 0
		}
		busy -= time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	return busy
}
