package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seawall-go/seawall"
)

// The load of one phase, for each of the two routes.
const (
	clients  = 25 // at the same time
	requests = 8  // of each client, one after the other
)

// upstream is a server that can be made to hang.
type upstream struct {
	*server
	hangs   atomic.Bool
	reached atomic.Int64 // requests since the phase began
}

func startUpstream(network network) (*upstream, error) {
	listener, err := network.listen("127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	u := &upstream{}
	u.server = startServer(listener, u)
	return u, nil
}

func (u *upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	u.reached.Add(1)
	if u.hangs.Load() {
		<-r.Context().Done() // Until the gateway has given up.
		return
	}
	fmt.Fprintln(w, "hello")
}

// demo is a gateway with two upstreams, a and b.
type demo struct {
	a, b    *upstream
	gateway *server
	client  *http.Client

	mu     sync.Mutex // guards stdout, to which the breakers' hook writes too
	stdout io.Writer
}

// runDemo goes through the phases. An interrupted one is shown as far as it got.
func runDemo(ctx context.Context, network network, stdout io.Writer) (err error) {
	d, stop, err := startDemo(network, stdout)
	defer func() { err = errors.Join(err, stop()) }()
	if err != nil {
		return err
	}
	if err := d.play(ctx); ctx.Err() == nil {
		return err
	}
	_, err = fmt.Fprintln(stdout, "Interrupted.")
	return err
}

// startDemo returns how to stop what has been started, also with an error.
func startDemo(network network, stdout io.Writer) (d *demo, stop func() error, err error) {
	d = &demo{stdout: stdout}
	var stops []func() error
	stop = func() error {
		var errs []error
		for _, s := range stops {
			errs = append(errs, s())
		}
		return errors.Join(errs...)
	}
	if d.a, err = startUpstream(network); err != nil {
		return d, stop, err
	}
	stops = append(stops, d.a.shutdown)
	if d.b, err = startUpstream(network); err != nil {
		return d, stop, err
	}
	stops = append(stops, d.b.shutdown)

	gateway, err := newGateway([]route{
		{"/a/", &url.URL{Scheme: "http", Host: d.a.addr}},
		{"/b/", &url.URL{Scheme: "http", Host: d.b.addr}},
	}, network, d.showChange)
	if err != nil {
		return d, stop, err
	}
	listener, err := network.listen("127.0.0.1:0")
	if err != nil {
		return d, stop, err
	}
	d.gateway = startServer(listener, gateway)
	transport := &http.Transport{DialContext: network.dial, MaxIdleConnsPerHost: 2 * clients}
	d.client = &http.Client{Transport: transport}
	shut := func() error {
		transport.CloseIdleConnections()
		gateway.close()
		return d.gateway.shutdown()
	}
	stops = append([]func() error{shut}, stops...) // It calls the others, so it ends first.
	return d, stop, nil
}

// play is the story.
func (d *demo) play(ctx context.Context) error {
	d.say("Two upstreams behind a gateway. %d clients send %d requests each to a, and as many to b.", clients, requests)
	if err := d.phase(ctx, "Both are healthy."); err != nil {
		return err
	}

	d.b.hangs.Store(true)
	if err := d.phase(ctx, "b hangs."); err != nil {
		return err
	}

	d.b.hangs.Store(false)
	select {
	case <-time.After(cooldown):
	case <-ctx.Done():
		return ctx.Err()
	}
	d.say("\nb has recovered, and the cooldown of %v is over. The first request finds out.", cooldown)
	if _, err := d.get(ctx, "/b/"); err != nil {
		return err
	}
	return d.phase(ctx, "Both are healthy again.")
}

// phase sends the load to both routes at once and shows what came of it.
func (d *demo) phase(ctx context.Context, title string) error {
	d.say("\n%s", title)
	d.a.reached.Store(0)
	d.b.reached.Store(0)
	var a, b tally
	var callers sync.WaitGroup
	for range clients {
		callers.Go(func() { d.send(ctx, "/a/", &a) })
		callers.Go(func() { d.send(ctx, "/b/", &b) })
	}
	callers.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	d.say("%18s%10s%10s%10s%10s%12s", "", "answered", "failed", "rejected", "reached", "slowest")
	a.show(d, "requests to a", d.a.reached.Load())
	b.show(d, "requests to b", d.b.reached.Load())
	return errors.Join(a.err, b.err)
}

func (d *demo) send(ctx context.Context, path string, t *tally) {
	for range requests {
		start := time.Now()
		code, err := d.get(ctx, path)
		t.add(code, err, time.Since(start))
	}
}

func (d *demo) get(ctx context.Context, path string) (code int, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+d.gateway.addr+path, nil)
	if err != nil {
		return 0, err
	}
	response, err := d.client.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close() //nolint:errcheck // It was only read; nothing can be lost.
	_, err = io.Copy(io.Discard, response.Body)
	return response.StatusCode, err
}

func (d *demo) say(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	fmt.Fprintf(d.stdout, format+"\n", args...)
}

func (d *demo) showChange(c seawall.StateChange) {
	name := "a"
	if c.Name == "http://"+d.b.addr {
		name = "b"
	}
	d.say("  breaker of %s: %v -> %v, %v", name, c.From, c.To, c.Reason)
}

// tally counts what came of the requests to one route.
type tally struct {
	mu                         sync.Mutex // guards the fields below
	answered, failed, rejected int
	slowest                    time.Duration
	err                        error // of the gateway, which must not have any
}

func (t *tally) add(code int, err error, took time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case err != nil:
		t.err = err
	case code == http.StatusOK:
		t.answered++
	case code == http.StatusServiceUnavailable:
		t.rejected++
	default:
		t.failed++
	}
	t.slowest = max(t.slowest, took)
}

func (t *tally) show(d *demo, title string, reached int64) {
	d.say("  %-16s%10d%10d%10d%10d%12s", title, t.answered, t.failed, t.rejected, reached,
		fmt.Sprintf("%d ms", t.slowest.Milliseconds()))
}
