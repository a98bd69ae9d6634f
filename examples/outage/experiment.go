package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/seawall-go/seawall"
)

// phase is a stretch of the experiment in which the servers don't change.
type phase struct {
	health health
	length time.Duration
	title  string
}

func (c config) phases() []phase {
	hang := c.outage * 2 / 3
	return []phase{
		{healthy, c.healthy, "the servers are healthy"},
		{hanging, hang, "OUTAGE: the servers hang"},
		{failing, c.outage - hang, "OUTAGE: the servers answer 503 at once"},
		{healthy, c.recovery, "the servers are healthy again"},
	}
}

func (c config) length() time.Duration { return c.healthy + c.outage + c.recovery }

// experiment is one run: two clients under the same load, each with a server of its own, so that
// neither feels what the other does to its server.
type experiment struct {
	config  config
	report  *report
	bare    side
	guarded side
	breaker *seawall.Breaker
	page    *page // nil: nobody wants to see one
	start   time.Time
	health  health // of both servers; only play's goroutine uses it

	mu        sync.Mutex // guards the fields below
	outage    time.Time  // zero until the servers fall sick
	recovery  time.Time  // zero until they are healthy again
	opened    time.Time  // the first opening in the outage
	recovered time.Time  // the first closing after the recovery
}

// runExperiment runs one to its end, or until ctx is done, and prints the summary in either case.
func runExperiment(ctx context.Context, cfg config, network network, out *report) (err error) {
	x := &experiment{config: cfg, report: out}
	if err := x.open(network); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, x.close()) }()
	x.play(ctx)
	x.report.print(x.summary(ctx.Err() != nil))
	return x.report.err
}

// open starts the servers and builds the clients. It leaves nothing open if it fails.
func (x *experiment) open(network network) error {
	guard, err := newGuard(x.onStateChange)
	if err != nil {
		return err
	}
	timeout, err := seawall.NewTimeout(callTimeout)
	if err != nil {
		return err
	}
	x.breaker = guard.breaker
	if x.bare, err = openSide(timeout, network); err != nil {
		return err
	}
	if x.guarded, err = openSide(guard, network); err != nil {
		return errors.Join(err, x.bare.close())
	}
	if x.config.page != "" {
		if x.page, err = openPage(x.config.page, guard, network); err != nil {
			return errors.Join(err, x.close())
		}
	}
	return nil
}

func (x *experiment) close() error {
	err := errors.Join(x.bare.close(), x.guarded.close())
	if x.page != nil {
		err = errors.Join(err, x.page.close())
	}
	return err
}

// side is a client and its server.
type side struct {
	client *client
	server *server
}

func openSide(policy seawall.Policy, network network) (side, error) {
	listener, err := network.listen("127.0.0.1:0")
	if err != nil {
		return side{}, err
	}
	server := startServer(listener)
	return side{client: newClient(server.url, policy, network), server: server}, nil
}

func (s side) close() error {
	s.client.close()
	return s.server.close()
}

// play takes the servers through the phases while the load runs. It returns when the last request
// has ended.
func (x *experiment) play(ctx context.Context) {
	x.start = time.Now()
	x.report.print(x.settings())
	ctx, stop := context.WithCancel(ctx)
	var load sync.WaitGroup
	load.Go(func() { sendLoad(ctx, x.config.rate, x.bare.client, x.guarded.client) })
	var end time.Duration
	for _, p := range x.config.phases() {
		end += p.length
		x.enter(p)
		if !x.watch(ctx, end) {
			break
		}
	}
	stop()
	load.Wait()
	x.printSecond() // What ended since the last full second.
}

func (x *experiment) enter(p phase) {
	x.mu.Lock()
	now := time.Now()
	switch {
	case p.health != healthy && x.outage.IsZero():
		x.outage = now
	case p.health == healthy && !x.outage.IsZero():
		x.recovery = now
	}
	x.mu.Unlock()

	x.health = p.health
	x.bare.server.setHealth(p.health)
	x.guarded.server.setHealth(p.health)
	x.report.print(phaseEvent{Elapsed: seconds(now.Sub(x.start)), Servers: p.health.String(), title: p.title})
}

// watch prints a line at every full second of the phase that ends at the given time of the run. It
// reports whether the phase came to its end. The last line of all is left to play, which prints it
// when the running requests have ended.
func (x *experiment) watch(ctx context.Context, end time.Duration) bool {
	for {
		elapsed := time.Since(x.start)
		if elapsed >= end {
			return true
		}
		second := elapsed.Truncate(time.Second) + time.Second
		if !pause(ctx, min(second, end)-elapsed) {
			return false
		}
		if second <= end && second < x.config.length() {
			x.printSecond()
		}
	}
}

func (x *experiment) printSecond() {
	x.report.print(secondEvent{
		Elapsed: seconds(time.Since(x.start)),
		Servers: x.health.String(),
		Bare:    newSecond(&x.bare.client.tally),
		Guarded: guardedSecond{State: x.breaker.State().String(), second: newSecond(&x.guarded.client.tally)},
	})
}

// onStateChange is called by the breaker, outside its locks and one change at a time.
func (x *experiment) onStateChange(change seawall.StateChange) {
	x.mu.Lock()
	switch {
	case change.To == seawall.Open && !x.outage.IsZero() && x.opened.IsZero():
		x.opened = change.At
	case change.To == seawall.Closed && !x.recovery.IsZero() && x.recovered.IsZero():
		x.recovered = change.At
	}
	x.mu.Unlock()
	x.report.print(newChange(change, change.At.Sub(x.start)))
}

func (x *experiment) summary(interrupted bool) summaryEvent {
	x.mu.Lock()
	defer x.mu.Unlock()
	return summaryEvent{
		Interrupted: interrupted,
		Bare:        newSideSummary(x.bare),
		Guarded: guardedSummary{
			sideSummary:    newSideSummary(x.guarded),
			RejectedFull:   x.guarded.client.tally.sum().full,
			Cooldown:       seconds(cooldown),
			OpenedAfter:    between(x.outage, x.opened),
			RecoveredAfter: between(x.recovery, x.recovered),
		},
	}
}

func (x *experiment) settings() settingsEvent {
	settings := settingsEvent{
		Rate:     x.config.rate,
		Length:   seconds(x.config.length()),
		Timeout:  seconds(callTimeout),
		Bulkhead: maxInFlight,
		Breaker:  x.breaker.Settings(),
	}
	if x.page != nil {
		settings.Page = x.page.url
	}
	return settings
}

// between returns the seconds from one moment to the other, or nil if the other never came.
func between(from, to time.Time) *float64 {
	if to.IsZero() {
		return nil
	}
	return new(seconds(to.Sub(from)))
}
