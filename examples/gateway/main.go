// Gateway is a small reverse proxy that a sick upstream cannot take down: every upstream has a breaker and a bulkhead of its
// own, and a bulkhead in front sheds what the gateway itself cannot serve.
//
//	go run ./examples/gateway -demo
//
// starts two upstreams and a gateway on the loopback interface, lets one of the upstreams hang, and shows that the other
// one is none the worse for it. What to look at in the output:
//
//   - While b hangs, every request to a is answered, and as fast as before.
//   - In the column "reached" of b: only as many requests hang as b's bulkhead has slots, until the breaker opens. After
//     that b gets nothing, and its callers are told at once to come back later.
//   - The breaker finds the recovery by itself: the first request after the cooldown is let through.
//
// As a program of your own:
//
//	go run ./examples/gateway -listen 127.0.0.1:8080 -route /users/=http://10.0.0.1:80 -route /images/=http://10.0.0.2:80
//
// It answers /healthz and, for the curious, /guards. The configuration to copy is in gateway.go.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // The first ctrl-C ends the program in order, a second one at once.
	err := run(ctx, os.Args[1:], loopback(), os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "gateway:", err)
	}
	os.Exit(exitCode(err))
}

// run is main without the process around it.
func run(ctx context.Context, args []string, network network, stdout io.Writer) error {
	cfg, err := parseFlags(args, stdout)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return flagError{err}
	}
	if cfg.demo {
		return runDemo(ctx, network, stdout)
	}
	return serve(ctx, cfg, network, stdout)
}

// serve runs the gateway until ctx is done, and then lets the running requests end.
func serve(ctx context.Context, cfg config, network network, stdout io.Writer) error {
	gateway, err := newGateway(cfg.routes, network, nil)
	if err != nil {
		return err
	}
	defer gateway.close()
	listener, err := network.listen(cfg.listen)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "listening on http://%s\n", listener.Addr())
	server := startServer(listener, gateway)
	select {
	case err := <-server.served:
		return err
	case <-ctx.Done():
		return server.shutdown()
	}
}

// network is how the parts meet: over TCP, or in memory in a test.
type network struct {
	listen func(addr string) (net.Listener, error)
	dial   func(ctx context.Context, network, addr string) (net.Conn, error)
}

func loopback() network {
	return network{
		listen: func(addr string) (net.Listener, error) { return net.Listen("tcp", addr) },
		dial:   (&net.Dialer{}).DialContext,
	}
}

// server is an http.Server on its way.
type server struct {
	http   http.Server
	addr   string
	served chan error // the result of Serve
}

func startServer(listener net.Listener, handler http.Handler) *server {
	s := &server{addr: listener.Addr().String(), served: make(chan error, 1)}
	s.http.Handler = handler
	s.http.ReadHeaderTimeout = 5 * time.Second
	go func() { s.served <- s.http.Serve(listener) }()
	return s
}

const patience = 10 * time.Second // that shutdown has with running requests

func (s *server) shutdown() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, s.http.Close())
	}
	if served := <-s.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
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
