package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"time"

	"github.com/seawall-go/seawall"
	"github.com/seawall-go/seawall/seawallhttp"
)

// These numbers suit upstreams that answer within some ten milliseconds.
const (
	// What the gateway serves at once, over all upstreams. Each request takes a goroutine and two connections. Beyond
	// it a short queue takes what a burst brings, for no longer than a client would like to wait.
	maxRequests     = 64
	maxQueue        = 64
	maxWait         = 200 * time.Millisecond
	maxPerUpstream  = 16 // A quarter of it, so that not even three upstreams that hang can fill the gateway.
	upstreamQueue   = 16
	upstreamMaxWait = 50 * time.Millisecond

	// Far above what an upstream needs, and still short enough for a client who is waiting.
	upstreamTimeout = 300 * time.Millisecond

	// How often an outage is probed, and how late its end is seen.
	cooldown = time.Second
)

// gateway is a handler that leads requests to upstreams.
type gateway struct {
	http.Handler
	base      *http.Transport
	upstreams *seawallhttp.Transport
}

// newGateway puts the parts together. From outside in: the bulkhead of the gateway, the routes, and for each upstream a
// breaker and a bulkhead.
func newGateway(routes []route, network network, onStateChange func(seawall.StateChange)) (*gateway, error) {
	base := &http.Transport{
		DialContext:           network.dial,
		MaxIdleConnsPerHost:   maxPerUpstream,
		IdleConnTimeout:       time.Minute,
		ResponseHeaderTimeout: upstreamTimeout,
	}
	upstreams, err := newUpstreams(base, onStateChange)
	if err != nil {
		return nil, err
	}
	front, err := seawall.NewBulkhead("gateway", maxRequests, seawall.WithMaxQueue(maxQueue), seawall.WithMaxWait(maxWait))
	if err != nil {
		return nil, err
	}
	g := &gateway{base: base, upstreams: upstreams}
	limit := seawallhttp.Limit(front, seawallhttp.WithSkip(isForOperators))
	g.Handler = limit(g.routes(routes))
	return g, nil
}

// newUpstreams returns a transport that has a breaker and a bulkhead for each upstream.
func newUpstreams(base http.RoundTripper, onStateChange func(seawall.StateChange)) (*seawallhttp.Transport, error) {
	return seawallhttp.NewTransport(base,
		seawallhttp.WithBreakers(func(host string) (*seawall.Breaker, error) {
			opts := []seawall.BreakerOption{seawall.WithCooldown(cooldown)}
			if onStateChange != nil {
				opts = append(opts, seawall.WithOnStateChange(onStateChange))
			}
			return seawall.NewBreaker(host, opts...)
		}),
		seawallhttp.WithBulkheads(func(host string) (*seawall.Bulkhead, error) {
			return seawall.NewBulkhead(host, maxPerUpstream,
				seawall.WithMaxQueue(upstreamQueue), seawall.WithMaxWait(upstreamMaxWait))
		}),
	)
}

// isForOperators picks what must be answered above all when the gateway is full.
func isForOperators(r *http.Request) bool { return r.URL.Path == "/healthz" || r.URL.Path == "/guards" }

func (g *gateway) routes(routes []route) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /guards", g.showGuards)
	for _, route := range routes {
		mux.Handle(route.prefix, http.StripPrefix(route.prefix[:len(route.prefix)-1], g.proxy(route)))
	}
	return mux
}

func (g *gateway) proxy(route route) http.Handler {
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(route.upstream)
			r.SetXForwarded()
		},
		Transport:    g.upstreams,
		ErrorHandler: answerError,
	}
}

// answerError tells the client what it can do about it, and nothing of the inside.
func answerError(w http.ResponseWriter, _ *http.Request, err error) {
	if seawallhttp.Reject(w, err) {
		return
	}
	if failure, ok := errors.AsType[net.Error](err); ok && failure.Timeout() {
		http.Error(w, "the upstream took too long", http.StatusGatewayTimeout)
		return
	}
	http.Error(w, "the upstream failed", http.StatusBadGateway)
}

// showGuards prints what the guards of each upstream know.
func (g *gateway) showGuards(w http.ResponseWriter, _ *http.Request) {
	type guards struct {
		Breaker  seawall.Snapshot         `json:"breaker"`
		Bulkhead seawall.BulkheadSnapshot `json:"bulkhead"`
	}
	shown := make(map[string]guards)
	for host := range g.upstreams.Guards().All() {
		breaker, bulkhead := g.upstreams.Breaker(host), g.upstreams.Bulkhead(host)
		if breaker != nil && bulkhead != nil { // It may just have been forgotten.
			shown[host] = guards{breaker.Snapshot(), bulkhead.Snapshot()}
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(shown)
}

func (g *gateway) close() { g.base.CloseIdleConnections() }
