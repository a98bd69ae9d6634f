// Outage shows what a breaker, a bulkhead and a timeout do for a client whose server falls sick.
//
// It starts two equal net/http servers on the loopback interface and sends the same few hundred
// requests a second to both: to one through a client that has only a timeout, to the other through
//
//	seawall.Chain(breaker, bulkhead, timeout)
//
// Both servers are healthy at first, then hang, then answer 503 at once, then are healthy again.
//
//	go run ./examples/outage
//
// What to look at in the output:
//
//   - While the server hangs, the bare client's p99 is the whole timeout and its calls in flight
//     pile up. The guarded client's p99 falls back to nothing as soon as the breaker is open.
//   - In the row "requests that reached the sick server" of the last table, the guarded client's
//     number is what was sent until the breaker opened, and after that one probe per cooldown.
//   - The breaker finds the recovery by itself: cooldown_over, a few probes, probes_succeeded.
//
// With -page localhost:8080 the breaker and the bulkhead can be watched in a browser meanwhile.
//
// The configuration to copy is in guard.go.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // The first ctrl-C ends the load, a second one the process.
	err := run(ctx, os.Args[1:], loopback(), os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "outage:", err)
	}
	os.Exit(exitCode(err))
}

// run is main without the process around it.
func run(ctx context.Context, args []string, network network, stdout io.Writer) error {
	cfg, err := parseFlags(args)
	if errors.Is(err, flag.ErrHelp) {
		_, err = io.WriteString(stdout, help())
		return err
	}
	if err != nil {
		return flagError{err}
	}
	return runExperiment(ctx, cfg, network, newReport(stdout, cfg.json))
}

// flagError says that the command line was wrong.
type flagError struct{ error }

func (e flagError) Error() string { return e.error.Error() + "\nTry -help." }

func exitCode(err error) int {
	if _, ok := errors.AsType[flagError](err); ok {
		return 2
	}
	if err != nil {
		return 1
	}
	return 0
}

// config is what the flags decide.
type config struct {
	json     bool
	page     string // where to serve the page of package seawallpage; empty: nowhere
	rate     int    // requests a second, for each client
	healthy  time.Duration
	outage   time.Duration
	recovery time.Duration
}

const (
	maxRate  = 1000
	maxPhase = 10 * time.Minute
)

func parseFlags(args []string) (config, error) {
	var cfg config
	flags := newFlagSet(&cfg)
	flags.SetOutput(io.Discard) // main prints the error, once and without the whole help.
	if err := flags.Parse(args); err != nil {
		return config{}, err
	}
	if flags.NArg() > 0 {
		return config{}, fmt.Errorf("unexpected argument %q: there are only flags", flags.Arg(0))
	}
	return cfg, cfg.check()
}

func newFlagSet(cfg *config) *flag.FlagSet {
	flags := flag.NewFlagSet("outage", flag.ContinueOnError)
	flags.BoolVar(&cfg.json, "json", false, "print JSON lines; the last one is the summary")
	flags.StringVar(&cfg.page, "page", "", "serve a live page of the guards, and its guards.json, at this `address`, as in localhost:8080")
	flags.IntVar(&cfg.rate, "rate", 300, "`requests` a second sent by each client")
	flags.DurationVar(&cfg.healthy, "healthy", 4*time.Second, "how long the servers are healthy at first")
	flags.DurationVar(&cfg.outage, "outage", 6*time.Second, "how long they are sick: two thirds hanging, one third failing")
	flags.DurationVar(&cfg.recovery, "recovery", 5*time.Second, "how long they are healthy again at the end")
	return flags
}

// check reports every value that is out of its range.
func (c config) check() error {
	var errs []error
	if _, _, err := net.SplitHostPort(c.page); c.page != "" && err != nil {
		errs = append(errs, fmt.Errorf("-page %s: must be host:port or :port", c.page))
	}
	if c.rate < 1 || c.rate > maxRate {
		errs = append(errs, fmt.Errorf("-rate %d: must be from 1 to %d", c.rate, maxRate))
	}
	for _, phase := range []struct {
		flag   string
		length time.Duration
	}{{"healthy", c.healthy}, {"outage", c.outage}, {"recovery", c.recovery}} {
		if phase.length <= 0 || phase.length > maxPhase {
			errs = append(errs, fmt.Errorf("-%s %v: must be above 0 and at most %v", phase.flag, phase.length, maxPhase))
		}
	}
	return errors.Join(errs...)
}
