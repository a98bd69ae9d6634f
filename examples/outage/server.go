package main

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// network is how clients and servers meet: over TCP, or in memory in a test.
type network struct {
	listen func(address string) (net.Listener, error)
	dial   func(ctx context.Context, network, addr string) (net.Conn, error)
}

func loopback() network {
	return network{
		listen: func(address string) (net.Listener, error) { return net.Listen("tcp", address) },
		dial:   (&net.Dialer{}).DialContext,
	}
}

// health is how a server treats the requests that arrive.
type health int32

const (
	healthy health = iota // answers after a few milliseconds
	hanging               // doesn't answer
	failing               // answers 503 at once
)

func (h health) String() string {
	return [...]string{"healthy", "hanging", "failing"}[h]
}

// serving is an HTTP server at work.
type serving struct {
	http   http.Server
	served chan error // the result of Serve
}

// serve serves on the listener until close.
func serve(listener net.Listener, handler http.Handler) *serving {
	s := &serving{served: make(chan error, 1)}
	s.http.Handler = handler
	go func() { s.served <- s.http.Serve(listener) }()
	return s
}

// close drops every connection and reports why serving ended, unless close was the reason.
func (s *serving) close() error {
	err := s.http.Close()
	if served := <-s.served; !errors.Is(served, http.ErrServerClosed) {
		return errors.Join(err, served)
	}
	return err
}

// server is a backend that can be made sick. It counts the requests that reach it while it is.
type server struct {
	*serving
	url string

	health atomic.Int32
	sick   atomic.Int64
}

func startServer(listener net.Listener) *server {
	s := &server{url: "http://" + listener.Addr().String()}
	s.serving = serve(listener, s)
	return s
}

func (s *server) setHealth(h health) { s.health.Store(int32(h)) }

// sickRequests returns how many requests arrived while the server was sick.
func (s *server) sickRequests() int { return int(s.sick.Load()) }

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := health(s.health.Load())
	if h != healthy {
		s.sick.Add(1)
	}
	switch h {
	case healthy:
		pause(r.Context(), workTime())
		io.WriteString(w, "ok\n") //nolint:errcheck // A client that has gone needs no answer.
	case hanging:
		<-r.Context().Done() // The client has given up and closed the connection.
	case failing:
		http.Error(w, "overloaded", http.StatusServiceUnavailable)
	}
}

// workTime is how long a healthy server needs for an answer: 5 to 15 ms.
func workTime() time.Duration {
	return 5*time.Millisecond + rand.N(10*time.Millisecond)
}

// pause waits for d and reports whether it did; it returns early when ctx is done.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
