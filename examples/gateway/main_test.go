package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seawall-go/seawall"
	"github.com/seawall-go/seawall/internal/pipes"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The whole demo, with net/http over pipes in memory, takes a moment in a bubble, and the machine's load doesn't change
// what comes out.
func TestHangingUpstreamHarmsNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stdout bytes.Buffer
		require.NoError(t, run(t.Context(), []string{"-demo"}, onPipes(pipes.New()), &stdout))
		wantPlainText(t, stdout.String())
		a, b := rows(t, stdout.String(), "a"), rows(t, stdout.String(), "b")
		require.Len(t, a, 3)
		require.Len(t, b, 3)
		const all = clients * requests
		fine := row{answered: all, reached: all}
		assert.Equal(t, []row{fine, fine, fine}, a, "no request to a fails, waits or is lost, b may hang or not")
		assert.Equal(t, fine, b[0])
		assert.Equal(t, fine, b[2])

		sick := b[1]
		assert.Zero(t, sick.answered)
		assert.Equal(t, all, sick.failed+sick.rejected)
		assert.Equal(t, sick.failed, sick.reached)
		assert.GreaterOrEqual(t, sick.reached, 10, "the breaker opens at 10 failures")
		assert.LessOrEqual(t, sick.reached, 2*maxPerUpstream)
		assert.LessOrEqual(t, sick.slowest, int((upstreamTimeout + upstreamMaxWait).Milliseconds()))
		for _, change := range []string{
			"closed -> open, consecutive_failures", "open -> half-open, cooldown_over", "half-open -> closed, probes_succeeded",
		} {
			assert.Equal(t, 1, strings.Count(stdout.String(), "breaker of b: "+change), change)
		}
		assert.NotContains(t, stdout.String(), "breaker of a")
	})
}

// Over TCP the numbers hang on the machine, so this asks only for what is always so.
func TestDemoOverLoopback(t *testing.T) {
	var stdout bytes.Buffer
	require.NoError(t, run(t.Context(), []string{"-demo"}, loopback(), &stdout))
	const all = clients * requests
	for _, r := range rows(t, stdout.String(), "b") {
		assert.Equal(t, all, r.answered+r.failed+r.rejected)
	}
	assert.Len(t, rows(t, stdout.String(), "a"), 3)
}

func TestInterruptedDemo(t *testing.T) {
	for _, after := range []time.Duration{0, upstreamTimeout / 2, upstreamTimeout + cooldown/2} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), after)
			defer cancel()
			var stdout bytes.Buffer
			start := time.Now()
			require.NoError(t, run(ctx, []string{"-demo"}, onPipes(pipes.New()), &stdout))
			assert.Contains(t, stdout.String(), "Interrupted.")
			assert.Less(t, time.Since(start), patience)
		})
	}
}

// startGateway starts a gateway for these routes in the bubble, and returns a client for it.
func startGateway(t *testing.T, lan *pipes.Network, args ...string) (client *http.Client, addr string) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	reader, stdout := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- run(ctx, args, onPipes(lan), stdout) }()
	_, err := fmt.Fscanf(reader, "listening on %s\n", &addr)
	require.NoError(t, err)
	transport := &http.Transport{DialContext: lan.Dial}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		stop()
		assert.NoError(t, <-done)
	})
	return &http.Client{Transport: transport}, addr
}

// startBackend starts an upstream in the bubble.
func startBackend(t *testing.T, lan *pipes.Network, handler http.HandlerFunc) (addr string) {
	t.Helper()
	listener, err := lan.Listen("")
	require.NoError(t, err)
	backend := startServer(listener, handler)
	t.Cleanup(func() { assert.NoError(t, backend.shutdown()) })
	return backend.addr
}

func get(t *testing.T, client *http.Client, url string) (*http.Response, string) {
	t.Helper()
	response, err := client.Get(url)
	require.NoError(t, err)
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	return response, string(text)
}

func TestGatewayRoutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lan := pipes.New()
		backend := startBackend(t, lan, func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, "%s %s", r.URL, r.Header.Get("X-Forwarded-Proto"))
		})
		client, gateway := startGateway(t, lan,
			"-route", "/users/=http://"+backend, "-route", "/old/=http://"+backend+"/v1/", "-route", "/down/=http://nobody")

		_, text := get(t, client, gateway+"/users/7?full")
		assert.Equal(t, "/7?full http", text)
		_, text = get(t, client, gateway+"/old/x")
		assert.Equal(t, "/v1/x http", text)
		response, _ := get(t, client, gateway+"/nowhere")
		assert.Equal(t, http.StatusNotFound, response.StatusCode)
		response, text = get(t, client, gateway+"/healthz")
		assert.Equal(t, http.StatusOK, response.StatusCode)
		assert.Equal(t, "ok\n", text)

		for range 10 {
			response, text = get(t, client, gateway+"/down/")
			assert.Equal(t, http.StatusBadGateway, response.StatusCode)
			assert.Equal(t, "the upstream failed\n", text)
		}
		response, text = get(t, client, gateway+"/down/")
		assert.Equal(t, http.StatusServiceUnavailable, response.StatusCode)
		assert.Equal(t, "1", response.Header.Get("Retry-After"), "the cooldown")
		assert.Equal(t, "service overloaded\n", text)

		_, text = get(t, client, gateway+"/guards")
		var guards map[string]struct {
			Breaker  seawall.Snapshot
			Bulkhead seawall.BulkheadSnapshot
		}
		require.NoError(t, json.Unmarshal([]byte(text), &guards))
		require.Len(t, guards, 2)
		assert.Equal(t, seawall.Open, guards["http://nobody:80"].Breaker.State)
		assert.Equal(t, seawall.Closed, guards["http://"+backend].Breaker.State)
		assert.EqualValues(t, 2, guards["http://"+backend].Bulkhead.Totals.Admitted)
	})
}

func TestSlowUpstreamIsATimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lan := pipes.New()
		backend := startBackend(t, lan, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		client, gateway := startGateway(t, lan, "-route", "/slow/=http://"+backend)
		start := time.Now()
		response, text := get(t, client, gateway+"/slow/")
		assert.Equal(t, http.StatusGatewayTimeout, response.StatusCode)
		assert.Equal(t, "the upstream took too long\n", text)
		assert.Equal(t, upstreamTimeout, time.Since(start))
	})
}

// More than the gateway can serve and queue is shed at once; its health is still told.
func TestFullGatewaySheds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lan := pipes.New()
		var args []string
		const upstreams = maxRequests/maxPerUpstream + 1 // One alone can't fill the gateway.
		answer := make(chan struct{})
		for i := range upstreams {
			backend := startBackend(t, lan, func(http.ResponseWriter, *http.Request) { <-answer })
			args = append(args, "-route", fmt.Sprintf("/%d/=http://%s", i, backend))
		}
		client, gateway := startGateway(t, lan, args...)
		var codes sync.Map
		var callers sync.WaitGroup
		for i := range maxRequests {
			callers.Go(func() {
				response, _ := get(t, client, fmt.Sprintf("%s/%d/", gateway, i%(upstreams-1)))
				codes.Store(i, response.StatusCode)
			})
		}
		synctest.Wait() // All slots are taken.
		for i := range maxQueue {
			callers.Go(func() {
				response, _ := get(t, client, fmt.Sprintf("%s/%d/", gateway, upstreams-1))
				codes.Store(maxRequests+i, response.StatusCode)
			})
		}
		synctest.Wait() // All places in the queue are.
		response, text := get(t, client, gateway+"/0/")
		assert.Equal(t, http.StatusServiceUnavailable, response.StatusCode)
		assert.Equal(t, "service overloaded\n", text)
		assert.Contains(t, []string{"1", "2", "3"}, response.Header.Get("Retry-After"))
		response, _ = get(t, client, gateway+"/healthz")
		assert.Equal(t, http.StatusOK, response.StatusCode)

		time.Sleep(maxWait) // In the bubble.
		synctest.Wait()     // Those in the queue have waited for long enough.
		close(answer)
		callers.Wait()
		for i := range maxRequests + maxQueue {
			want := http.StatusOK
			if i >= maxRequests {
				want = http.StatusServiceUnavailable
			}
			code, _ := codes.Load(i)
			assert.Equal(t, want, code, "request %d", i)
		}
	})
}

// A connection that was upgraded goes through all the guards, both ways.
func TestUpgradedConnection(t *testing.T) {
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if assert.NoError(t, err) {
			defer conn.Close() //nolint:errcheck // The client sees it.
			_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
			_, _ = io.Copy(conn, conn)
		}
	}))
	defer backend.Close()
	upstream, err := url.Parse(backend.URL)
	require.NoError(t, err)
	gateway, err := newGateway([]route{{"/echo/", upstream}}, loopback(), nil)
	require.NoError(t, err)
	defer gateway.close()
	front := httptest.NewServer(gateway)
	defer front.Close()

	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, front.URL+"/echo/", nil)
	require.NoError(t, err)
	request.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {"echo"}}
	response, err := front.Client().Do(request)
	require.NoError(t, err)
	require.Equal(t, http.StatusSwitchingProtocols, response.StatusCode)
	conn := response.Body.(io.ReadWriteCloser)
	_, err = io.WriteString(conn, "hello")
	require.NoError(t, err)
	text := make([]byte, 5)
	_, err = io.ReadFull(conn, text)
	require.NoError(t, err)
	assert.Equal(t, "hello", string(text))
	require.NoError(t, conn.Close())
}

func TestHelp(t *testing.T) {
	var stdout bytes.Buffer
	require.NoError(t, run(t.Context(), []string{"-help"}, loopback(), &stdout))
	wantPlainText(t, stdout.String())
	for _, flag := range []string{"-demo", "-listen", "-route"} {
		assert.Contains(t, stdout.String(), "\n  "+flag)
	}
}

func TestBadFlags(t *testing.T) {
	for args, want := range map[string]string{
		"":                          "give either -demo or at least one -route",
		"-demo -route /a/=http://a": "give either -demo or at least one -route",
		"-speed=3":                  "-speed",
		"-demo now":                 `unexpected argument "now"`,
		"-route /a/":                "it must be like /users/=http://10.0.0.1:80",
		"-route a/=http://a":        `the prefix "a/" must begin and end with a slash`,
		"-route /a=http://a":        `the prefix "/a" must begin and end with a slash`,
		"-route /a/=ftp://a":        `"ftp://a" must be an http or https URL with a host`,
		"-route /a/=http:":          `"http:" must be an http or https URL with a host`,
		"-route /a/=http://%":       "invalid URL escape",
	} {
		t.Run(args, func(t *testing.T) {
			var stdout bytes.Buffer
			err := run(t.Context(), strings.Fields(args), loopback(), &stdout)
			assert.Equal(t, 2, exitCode(err))
			assert.Empty(t, stdout.String())
			assert.ErrorContains(t, err, want)
			assert.ErrorContains(t, err, "Try -help.")
		})
	}
}

func TestListenerThatCannotBeOpenedIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for good := range 3 {
			lan := pipes.New()
			network := onPipes(lan)
			network.listen = func(addr string) (net.Listener, error) {
				if good == 0 {
					return nil, errors.New("no address left")
				}
				good--
				return lan.Listen(addr)
			}
			err := run(t.Context(), []string{"-demo"}, network, io.Discard)
			assert.ErrorContains(t, err, "no address left")
			assert.Equal(t, 1, exitCode(err))
		}
		network := onPipes(pipes.New())
		network.listen = func(string) (net.Listener, error) { return nil, errors.New("address in use") }
		err := run(t.Context(), []string{"-route", "/a/=http://a"}, network, io.Discard)
		assert.ErrorContains(t, err, "address in use")
	})
}

// row is a line of the demo's tables.
type row struct{ answered, failed, rejected, reached, slowest int }

func rows(t *testing.T, text, upstream string) (found []row) {
	t.Helper()
	for line := range strings.Lines(text) {
		if numbers, ok := strings.CutPrefix(line, "  requests to "+upstream); ok {
			var r row
			_, err := fmt.Sscanf(numbers, "%d%d%d%d%d ms", &r.answered, &r.failed, &r.rejected, &r.reached, &r.slowest)
			require.NoError(t, err)
			found = append(found, r)
		}
	}
	return found
}

func wantPlainText(t *testing.T, text string) {
	t.Helper()
	for line := range strings.Lines(text) {
		assert.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), 100, line)
		assert.NotContains(t, line, "\x1b", "no terminal codes")
	}
	assert.NotContains(t, text, "%!", "a verb without its value")
}

// onPipes is the network of the program under test, in memory.
func onPipes(lan *pipes.Network) network { return network{listen: lan.Listen, dial: lan.Dial} }
