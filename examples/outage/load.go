package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/seawall-go/seawall"
)

// sendLoad gives one request to each client per tick, whether or not the earlier ones have been
// answered: users don't stop coming because a server is slow. When ctx is done it waits for the
// requests that are still running; each of them ends by its own timeout.
func sendLoad(ctx context.Context, rate int, clients ...*client) {
	ticker := time.NewTicker(time.Second / time.Duration(rate))
	defer ticker.Stop()
	var running sync.WaitGroup
	defer running.Wait()
	for {
		select {
		case <-ticker.C:
			for _, c := range clients {
				running.Go(c.call)
			}
		case <-ctx.Done():
			return
		}
	}
}

// client sends requests to one server through one policy and keeps a tally of what came of them.
type client struct {
	url    string
	policy seawall.Policy
	http   *http.Client
	tally  tally
}

// newClient returns a client that keeps every connection alive, however many calls were in flight, so
// that it needs a new one only in place of one that a timed-out request has closed. Without that it
// would run out of ports.
func newClient(url string, policy seawall.Policy, network network) *client {
	transport := &http.Transport{DialContext: network.dial, MaxIdleConnsPerHost: maxRate}
	return &client{url: url, policy: policy, http: &http.Client{Transport: transport}}
}

func (c *client) close() { c.http.CloseIdleConnections() }

func (c *client) call() {
	c.tally.begin()
	start := time.Now()
	err := c.policy.Do(context.Background(), c.get)
	c.tally.end(err, time.Since(start))
}

// get is the guarded function. It reads the whole body, for the timeout ends ctx as soon as get
// returns, and only a body that was read leaves a connection that can be used again.
func (c *client) get(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url, nil)
	if err != nil {
		return err
	}
	response, err := c.http.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close() //nolint:errcheck // It was only read; nothing can be lost.
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return err
	}
	if response.StatusCode >= http.StatusInternalServerError {
		return fmt.Errorf("the server answered %s", response.Status)
	}
	return nil
}

// counts says what came of a number of calls.
type counts struct {
	ok       int
	failed   int
	rejected int           // never sent: the breaker was open or the bulkhead full
	full     int           // those of the rejected that the bulkhead refused
	lost     time.Duration // how long callers waited for nothing
}

// tally counts the calls of one client, all of them and those of the running second.
type tally struct {
	mu        sync.Mutex // guards the fields below
	inFlight  int
	total     counts
	second    counts
	latencies []time.Duration // of the calls that ended in this second
}

func (t *tally) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.inFlight++
}

func (t *tally) end(err error, took time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.inFlight--
	t.total.add(err, took)
	t.second.add(err, took)
	t.latencies = append(t.latencies, took)
}

// takeSecond returns what happened since it was last called.
func (t *tally) takeSecond() (c counts, inFlight int, p99 time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c, p99 = t.second, percentile(t.latencies, 99)
	t.second, t.latencies = counts{}, t.latencies[:0]
	return c, t.inFlight, p99
}

func (t *tally) sum() counts {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.total
}

func (c *counts) add(err error, took time.Duration) {
	switch {
	case err == nil:
		c.ok++
		return
	case errors.Is(err, seawall.ErrRejected):
		c.rejected++
		if errors.Is(err, seawall.ErrBulkheadFull) {
			c.full++
		}
	default:
		c.failed++
	}
	c.lost += took
}

// percentile sorts the values and returns the smallest that at least p percent of them don't
// exceed, or 0 if there are none.
func percentile(values []time.Duration, p int) time.Duration {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[(len(values)*p+99)/100-1]
}
