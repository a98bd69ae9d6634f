package seawallhttp_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seawall-go/seawall"
	"github.com/seawall-go/seawall/seawallhttp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// overBoth runs test over HTTP/1.1 and over HTTP/2.
func overBoth(t *testing.T, test func(t *testing.T, start starter)) {
	t.Helper()
	t.Run("http1", func(t *testing.T) { test(t, startHTTP1) })
	t.Run("http2", func(t *testing.T) { test(t, startHTTP2) })
}

// starter starts a server on the loopback interface, until the end of the test.
type starter func(t testing.TB, handler http.HandlerFunc) *host

// host is a server and a transport that leads there, which counts.
type host struct {
	*httptest.Server
	ledger *ledger
}

func startHTTP1(t testing.TB, handler http.HandlerFunc) *host {
	t.Helper()
	server := newServer(handler)
	server.Start()
	return newHost(t, server)
}

func startHTTP2(t testing.TB, handler http.HandlerFunc) *host {
	t.Helper()
	server := newServer(handler)
	server.EnableHTTP2 = true
	server.StartTLS()
	return newHost(t, server)
}

func newServer(handler http.Handler) *httptest.Server {
	server := httptest.NewUnstartedServer(handler)
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // Handlers panic on purpose.
	return server
}

func newHost(t testing.TB, server *httptest.Server) *host {
	t.Helper()
	h := &host{Server: server, ledger: &ledger{base: server.Client().Transport}}
	t.Cleanup(func() {
		server.Client().CloseIdleConnections()
		server.Close()
		assert.Zero(t, h.ledger.open.Load(), "bodies of responses that nobody closed")
	})
	return h
}

// through returns a client of the host and the Transport in it.
func (h *host) through(t testing.TB, opts ...seawallhttp.TransportOption) (*http.Client, *seawallhttp.Transport) {
	t.Helper()
	transport := over(t, h.ledger, opts...)
	return &http.Client{Transport: transport}, transport
}

func over(t testing.TB, base http.RoundTripper, opts ...seawallhttp.TransportOption) *seawallhttp.Transport {
	t.Helper()
	transport, err := seawallhttp.NewTransport(base, opts...)
	require.NoError(t, err)
	return transport
}

// ledger is a base transport that counts what it sent, and the bodies of responses that are not closed yet.
type ledger struct {
	base       http.RoundTripper
	sent, open atomic.Int64
}

func (l *ledger) RoundTrip(req *http.Request) (*http.Response, error) {
	l.sent.Add(1)
	resp, err := l.base.RoundTrip(req)
	if err == nil && resp.Body != http.NoBody {
		l.open.Add(1)
		entry := &entry{ReadCloser: resp.Body, ledger: l}
		resp.Body = entry
		if conn, ok := entry.ReadCloser.(duplex); ok {
			resp.Body = &duplexEntry{entry, conn}
		}
	}
	return resp, err
}

type entry struct {
	io.ReadCloser
	ledger *ledger
	closed atomic.Bool
}

func (e *entry) Close() error {
	if !e.closed.Swap(true) {
		e.ledger.open.Add(-1)
	}
	return e.ReadCloser.Close()
}

// duplex is what the body of a 101 response can do beyond reading.
type duplex interface {
	io.Writer
	CloseWrite() error
}

type duplexEntry struct {
	*entry
	duplex
}

// roundTripper is a base transport made of a function.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// upload is a request's body that counts how often it was closed.
type upload struct {
	io.Reader
	closed atomic.Int64
}

func newUpload(text string) *upload { return &upload{Reader: strings.NewReader(text)} }

func (u *upload) Close() error {
	u.closed.Add(1)
	return nil
}

// status is a handler that answers by the status which the path names, with a body that the path's status allows.
func status(w http.ResponseWriter, r *http.Request) {
	var code int
	if _, err := fmt.Sscanf(r.URL.Path, "/%d", &code); err != nil {
		code = http.StatusOK
	}
	w.WriteHeader(code)
	_, _ = io.WriteString(w, http.StatusText(code))
}

// The words that the tests are told in, as in those of the core: br trips at 3 failures in a row and stays open for 10 s
// of a clock that the test moves.
const cooldown = 10 * time.Second

func br(t testing.TB, opts ...seawall.BreakerOption) *seawall.Breaker {
	t.Helper()
	b, err := seawall.NewBreaker("br", append([]seawall.BreakerOption{
		seawall.WithConsecutiveFailures(3), seawall.WithCooldown(cooldown), seawall.WithClock(clock.NewMock()),
	}, opts...)...)
	require.NoError(t, err)
	return b
}

func bh(t testing.TB, limit int, opts ...seawall.BulkheadOption) *seawall.Bulkhead {
	t.Helper()
	b, err := seawall.NewBulkhead("bh", limit, opts...)
	require.NoError(t, err)
	return b
}

// opened is a br that is open.
func opened(t testing.TB) *seawall.Breaker {
	t.Helper()
	b := br(t)
	b.ForceOpen()
	return b
}

// full is a bh that rejects every call.
func full(t testing.TB) *seawall.Bulkhead {
	t.Helper()
	b := bh(t, 1, seawall.WithMaxQueue(0))
	release, err := b.Acquire(context.Background())
	require.NoError(t, err)
	t.Cleanup(release)
	return b
}

// fetch makes a request and reads its answer to the end.
func fetch(t testing.TB, client *http.Client, url string) (code int, text string, err error) {
	t.Helper()
	resp, err := client.Get(url)
	if err != nil {
		return 0, "", err
	}
	defer closeAll(t, resp.Body)
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), err
}

func closeAll(t testing.TB, closers ...io.Closer) {
	t.Helper()
	for _, c := range closers {
		assert.NoError(t, c.Close())
	}
}

// request returns a request for url that ends with the test at the latest.
func request(t testing.TB, method, url string, body io.Reader) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, body)
	require.NoError(t, err)
	return req
}

// wantTotals compares what a breaker has counted.
func wantTotals(t testing.TB, b *seawall.Breaker, successes, failures, ignored uint64) {
	t.Helper()
	totals := b.Snapshot().Totals
	assert.Equal(t, fmt.Sprintf("%d successes, %d failures, %d ignored", successes, failures, ignored),
		fmt.Sprintf("%d successes, %d failures, %d ignored", totals.Successes, totals.Failures, totals.Ignored))
}

func wantInFlight(t testing.TB, b *seawall.Bulkhead, want int) {
	t.Helper()
	assert.Equal(t, want, b.Snapshot().InFlight, "slots in use")
}

// awaitWaiting returns when n calls wait for a slot. What it waits for happens in other goroutines without a network in
// between.
func awaitWaiting(b *seawall.Bulkhead, n int) {
	for b.Snapshot().Waiting != n {
		runtime.Gosched()
	}
}
