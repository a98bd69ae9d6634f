package seawallhttp_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seawall-go/seawall"
	"github.com/seawall-go/seawall/seawallhttp"
)

func TestGuardedRequestIsLikeABareOne(t *testing.T) {
	overBoth(t, func(t *testing.T, start starter) {
		h := start(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Trailer", "T")
			_, err := io.Copy(w, r.Body)
			assert.NoError(t, err)
			w.Header().Set("T", "t")
		})
		b := bh(t, 1)
		client, _ := h.through(t, seawallhttp.WithBulkhead(b), seawallhttp.WithJudgeBody())
		body := newUpload("hello")
		resp, err := client.Do(request(t, http.MethodPut, h.URL, body))
		require.NoError(t, err)
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		closeAll(t, resp.Body)
		assert.Equal(t, "hello", string(text))
		assert.Equal(t, "t", resp.Trailer.Get("T"))
		assert.NotZero(t, body.closed.Load())
		wantInFlight(t, b, 0)
	})
}

// Nothing is buffered: what the client sends comes back while it is still sending.
func TestBodiesStream(t *testing.T) {
	overBoth(t, func(t *testing.T, start starter) {
		h := start(t, func(w http.ResponseWriter, r *http.Request) {
			control := http.NewResponseController(w)
			_ = control.EnableFullDuplex() // HTTP/2 can do so anyway.
			assert.NoError(t, control.Flush())
			for buf := make([]byte, 1); ; {
				if _, err := r.Body.Read(buf); err != nil {
					return
				}
				_, _ = w.Write(buf)
				assert.NoError(t, control.Flush())
			}
		})
		client, _ := h.through(t, seawallhttp.WithBulkhead(bh(t, 1)))
		in, out := io.Pipe()
		resp, err := client.Do(request(t, http.MethodPost, h.URL, in))
		require.NoError(t, err)
		for _, letter := range "echo" {
			_, err := io.WriteString(out, string(letter))
			require.NoError(t, err)
			buf := make([]byte, 1)
			_, err = io.ReadFull(resp.Body, buf)
			require.NoError(t, err)
			assert.Equal(t, string(letter), string(buf))
		}
		closeAll(t, out)
		_, err = resp.Body.Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF)
		closeAll(t, resp.Body)
	})
}

// The base transport gets the very request, unchanged, and the caller the very response or error.
func TestRequestAndResponseAreTheSame(t *testing.T) {
	want := &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(""))}
	body := want.Body
	req := request(t, http.MethodGet, "http://host/path?query", nil)
	before := req.Clone(t.Context())
	base := roundTripper(func(got *http.Request) (*http.Response, error) {
		assert.Same(t, req, got)
		assert.Equal(t, before.Header, got.Header)
		assert.Equal(t, before.URL, got.URL)
		return want, nil
	})
	resp, err := over(t, base).RoundTrip(req)
	require.NoError(t, err)
	assert.Same(t, want, resp)
	assert.Equal(t, body, resp.Body, "without a slot to give back there is nothing to watch the body for")
	resp, err = over(t, base, seawallhttp.WithBulkhead(bh(t, 1)), seawallhttp.WithReleaseAtHeaders()).RoundTrip(req)
	require.NoError(t, err)
	assert.Equal(t, body, resp.Body, "nor after it was given back")

	resp, err = over(t, roundTripper(func(*http.Request) (*http.Response, error) { return nil, errBoom })).RoundTrip(req)
	assert.Nil(t, resp)
	assert.Equal(t, errBoom, err)
}

// A base transport that breaks its contract gets no worse by being guarded.
func TestBrokenBaseTransport(t *testing.T) {
	for name, row := range map[string]struct {
		resp                *http.Response
		err                 error
		successes, failures uint64
	}{
		"neither":          {nil, nil, 0, 1},
		"both":             {&http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, errBoom, 0, 1},
		"response no body": {&http.Response{StatusCode: http.StatusOK}, nil, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			b, slots := br(t), bh(t, 1)
			base := roundTripper(func(*http.Request) (*http.Response, error) { return row.resp, row.err })
			resp, err := over(t, base, seawallhttp.WithBreaker(b), seawallhttp.WithBulkhead(slots), seawallhttp.WithJudgeBody()).
				RoundTrip(request(t, http.MethodGet, "http://host", nil))
			assert.Same(t, row.resp, resp)
			assert.Equal(t, row.err, err)
			wantTotals(t, b, row.successes, row.failures, 0)
			wantInFlight(t, slots, 0)
		})
	}
}

func TestEachHostHasItsOwnGuards(t *testing.T) {
	overBoth(t, func(t *testing.T, start starter) {
		sick, healthy := start(t, status), start(t, status)
		transport := over(t, roundTripper(func(req *http.Request) (*http.Response, error) {
			if strings.HasSuffix(healthy.URL, req.URL.Host) {
				return healthy.ledger.RoundTrip(req)
			}
			return sick.ledger.RoundTrip(req)
		}))
		client := &http.Client{Transport: transport}
		for range 10 {
			_, _, err := fetch(t, client, sick.URL+"/500")
			require.NoError(t, err)
			_, _, err = fetch(t, client, healthy.URL+"/200")
			require.NoError(t, err)
		}
		_, _, err := fetch(t, client, sick.URL+"/200")
		require.ErrorIs(t, err, seawall.ErrOpen)
		require.ErrorContains(t, err, keyOf(t, sick.URL), "the error names the host")
		_, _, err = fetch(t, client, healthy.URL+"/200")
		require.NoError(t, err)

		var keys []string
		for key := range transport.Guards().All() {
			keys = append(keys, key)
		}
		assert.Equal(t, []string{keyOf(t, sick.URL), keyOf(t, healthy.URL)}, keys)
	})
}

func TestHostKey(t *testing.T) {
	for text, want := range map[string]string{
		"http://a":                    "http://a:80",
		"https://a":                   "https://a:443",
		"http://a:80/path?query#part": "http://a:80",
		"https://a:8443":              "https://a:8443",
		"HTTPS://Example.COM:443/Up":  "https://example.com:443",
		"http://user:word@a":          "http://a:80",
		"http://a:":                   "http://a:80",
		"http://[::1]":                "http://[::1]:80",
		"http://[FE80::1%25eth0]:81":  "http://[fe80::1%eth0]:81",
		"unix://socket/path":          "unix://socket",
		"/path":                       "",
		"mailto:somebody":             "",
	} {
		u, err := url.Parse(text)
		require.NoError(t, err)
		assert.Equal(t, want, seawallhttp.HostKey(&http.Request{URL: u}), text)
	}
	assert.Empty(t, seawallhttp.HostKey(&http.Request{}), "without a URL")
	assert.Equal(t, "http://dialed:80", seawallhttp.HostKey(&http.Request{
		URL: &url.URL{Scheme: "http", Host: "dialed"}, Host: "named",
	}), "the host that is called, not that of the header")
}

// A key of one's own, and none for what is not to be guarded.
func TestKeyFunction(t *testing.T) {
	h := startHTTP1(t, status)
	client, transport := h.through(t,
		seawallhttp.WithKey(func(req *http.Request) string {
			if req.URL.Path == "/204" {
				return ""
			}
			return req.Method
		}),
		seawallhttp.WithBreakers(func(key string) (*seawall.Breaker, error) {
			return seawall.NewBreaker(key, seawall.WithConsecutiveFailures(1))
		}))
	_, _, err := fetch(t, client, h.URL+"/500")
	require.NoError(t, err)
	_, _, err = fetch(t, client, h.URL+"/200")
	require.ErrorIs(t, err, seawall.ErrOpen)
	code, _, err := fetch(t, client, h.URL+"/204")
	require.NoError(t, err)
	assert.Equal(t, http.StatusNoContent, code)
	resp, err := client.Head(h.URL + "/200")
	require.NoError(t, err)
	closeAll(t, resp.Body)
	assert.Equal(t, 2, transport.Guards().Snapshot().Size, "GET and HEAD")
}

// A host whose breaker is open keeps it, however many other hosts are called; with a bulkhead and without.
func TestOpenBreakersAreNotForgotten(t *testing.T) {
	t.Run("breaker", func(t *testing.T) { wantOpenBreakersKept(t) })
	t.Run("both", func(t *testing.T) { wantOpenBreakersKept(t, seawallhttp.WithBulkheads(bulkheads)) })
}

func wantOpenBreakersKept(t *testing.T, opts ...seawallhttp.TransportOption) {
	t.Helper()
	down := true
	transport := over(t,
		roundTripper(func(*http.Request) (*http.Response, error) {
			if down {
				return nil, errBoom
			}
			return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
		}),
		append(opts, seawallhttp.WithMaxKeys(2),
			seawallhttp.WithBreakers(func(key string) (*seawall.Breaker, error) {
				return seawall.NewBreaker(key, seawall.WithConsecutiveFailures(1))
			}))...)
	_, err := transport.RoundTrip(request(t, http.MethodGet, "http://down", nil))
	require.ErrorIs(t, err, errBoom)
	down = false
	for host := range strings.SplitSeq("abcdefghijklmnopqrstuvwxyz", "") {
		_, err := transport.RoundTrip(request(t, http.MethodGet, "http://"+host, nil))
		require.NoError(t, err)
	}
	_, err = transport.RoundTrip(request(t, http.MethodGet, "http://down", nil))
	require.ErrorIs(t, err, seawall.ErrOpen)
	assert.LessOrEqual(t, transport.Guards().Snapshot().Size, 2)
	assert.NotZero(t, transport.Guards().Snapshot().Evictions)
}

// A bulkhead whose slot a body still holds is not forgotten either: the limit would hold twice over.
func TestBulkheadsInUseAreNotForgotten(t *testing.T) {
	transport := over(t,
		roundTripper(func(req *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader("x"))}, nil
		}),
		seawallhttp.WithMaxKeys(1),
		seawallhttp.WithBulkheads(func(key string) (*seawall.Bulkhead, error) {
			return seawall.NewBulkhead(key, 1, seawall.WithMaxQueue(0))
		}))
	first, err := transport.RoundTrip(request(t, http.MethodGet, "http://first", nil))
	require.NoError(t, err)
	second, err := transport.RoundTrip(request(t, http.MethodGet, "http://second", nil))
	require.NoError(t, err, "there is no place for it: it is sent without a bulkhead")
	assert.EqualValues(t, 1, transport.Guards().Snapshot().Overflow)
	closeAll(t, second.Body)
	_, err = transport.RoundTrip(request(t, http.MethodGet, "http://first", nil))
	require.ErrorIs(t, err, seawall.ErrBulkheadFull)

	closeAll(t, first.Body)
	second, err = transport.RoundTrip(request(t, http.MethodGet, "http://second", nil))
	require.NoError(t, err)
	_, err = transport.RoundTrip(request(t, http.MethodGet, "http://second", nil))
	require.ErrorIs(t, err, seawall.ErrBulkheadFull, "it has the place now")
	closeAll(t, second.Body)
}

// The guards of a key can be looked at, its own ones and those of all.
func TestGuardsAreShown(t *testing.T) {
	answers := roundTripper(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
	})
	breaker, bulkhead := br(t), bh(t, 1)
	for name, row := range map[string]struct {
		opts                      []seawallhttp.TransportOption
		breaker, bulkhead         bool // there is one before the first request
		laterBreaker, laterBulkhd bool // and after it
		group                     bool
	}{
		"default":           {nil, false, false, true, false, true},
		"both for each key": {[]seawallhttp.TransportOption{seawallhttp.WithBulkheads(bulkheads)}, false, false, true, true, true},
		"a shared bulkhead": {[]seawallhttp.TransportOption{seawallhttp.WithBulkhead(bulkhead)}, false, true, true, true, true},
		"a shared breaker":  {[]seawallhttp.TransportOption{seawallhttp.WithBreaker(breaker)}, true, false, true, false, false},
		"both shared":       {[]seawallhttp.TransportOption{seawallhttp.WithBreaker(breaker), seawallhttp.WithBulkhead(bulkhead)}, true, true, true, true, false},
		"a shared breaker and bulkheads": {
			[]seawallhttp.TransportOption{seawallhttp.WithBreaker(breaker), seawallhttp.WithBulkheads(bulkheads)},
			true, false, true, true, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			transport := over(t, answers, row.opts...)
			assert.Equal(t, row.group, transport.Guards() != nil)
			assert.Equal(t, row.breaker, transport.Breaker("http://host:80") != nil)
			assert.Equal(t, row.bulkhead, transport.Bulkhead("http://host:80") != nil)
			_, err := transport.RoundTrip(request(t, http.MethodGet, "http://host", nil))
			require.NoError(t, err)
			assert.Equal(t, row.laterBreaker, transport.Breaker("http://host:80") != nil)
			assert.Equal(t, row.laterBulkhd, transport.Bulkhead("http://host:80") != nil)
			if b := transport.Breaker("http://host:80"); b != nil && b != breaker {
				assert.Equal(t, "http://host:80", b.Name())
				wantTotals(t, b, 1, 0, 0)
			}
			if b := transport.Bulkhead("http://host:80"); b != nil && b != bulkhead {
				assert.EqualValues(t, 1, b.Snapshot().Totals.Admitted)
			}
		})
	}
}

// What the group has of a key is a policy like any other, to use and to look into, with what the key has for itself.
func TestGuardsOfAKeyAsOnePolicy(t *testing.T) {
	transport := over(t, roundTripper(func(*http.Request) (*http.Response, error) { return nil, errBoom }),
		seawallhttp.WithBulkheads(bulkheads))
	_, err := transport.RoundTrip(request(t, http.MethodGet, "http://host", nil))
	require.ErrorIs(t, err, errBoom)
	breaker, bulkhead := transport.Breaker("http://host:80"), transport.Bulkhead("http://host:80")
	policy, ok := transport.Guards().Get("http://host:80")
	require.True(t, ok)
	assert.Equal(t, []seawall.Policy{breaker, bulkhead}, policy.(interface{ Policies() []seawall.Policy }).Policies())
	require.NoError(t, policy.Do(t.Context(), func(context.Context) error { wantInFlight(t, bulkhead, 1); return nil }))
	wantTotals(t, breaker, 1, 1, 0)

	shared := opened(t) // Else nothing could be forgotten while it is open.
	transport = over(t, nil, seawallhttp.WithBreaker(shared), seawallhttp.WithBulkheads(bulkheads))
	_, err = transport.RoundTrip(request(t, http.MethodGet, "http://host", nil))
	require.ErrorIs(t, err, seawall.ErrOpen)
	policy, ok = transport.Guards().Get("http://host:80")
	require.True(t, ok)
	assert.Equal(t, []seawall.Policy{transport.Bulkhead("http://host:80")},
		policy.(interface{ Policies() []seawall.Policy }).Policies())
}

// Each hop is a request of its own: counted at its own host, and its slot is free before the next one begins.
func TestRedirects(t *testing.T) {
	overBoth(t, func(t *testing.T, start starter) {
		target := start(t, status)
		first := start(t, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, target.URL+"/500", http.StatusFound)
		})
		// One client that trusts both: the test servers share their certificate.
		slots := bh(t, 1, seawall.WithMaxQueue(0))
		client, transport := first.through(t, seawallhttp.WithBulkhead(slots))
		code, _, err := fetch(t, client, first.URL)
		require.NoError(t, err)
		assert.Equal(t, http.StatusInternalServerError, code)
		wantTotals(t, transport.Breaker(keyOf(t, first.URL)), 1, 0, 0)
		wantTotals(t, transport.Breaker(keyOf(t, target.URL)), 0, 1, 0)
		assert.Equal(t, 2, transport.Guards().Snapshot().Size)
		assert.EqualValues(t, 2, slots.Snapshot().Totals.Admitted)
		wantInFlight(t, slots, 0)
	})
}

// G110: answers of 500 and above, and rejections in between, do not cost a connection each.
func TestConnectionsAreUsedAgain(t *testing.T) {
	overBoth(t, func(t *testing.T, start starter) {
		var conns atomic.Int64
		server := newServer(http.HandlerFunc(status))
		server.EnableHTTP2 = true
		server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
			if state == http.StateNew {
				conns.Add(1)
			}
		}
		if t.Name() == "TestConnectionsAreUsedAgain/http2" {
			server.StartTLS()
		} else {
			server.Start()
		}
		h := newHost(t, server)
		b := br(t, seawall.WithFailureRate(1, 1e6))
		client, _ := h.through(t, seawallhttp.WithBreaker(b), seawallhttp.WithBulkhead(bh(t, 1)))
		for range 100 {
			_, _, err := fetch(t, client, h.URL+"/503")
			require.NoError(t, err)
			b.ForceOpen()
			_, _, err = fetch(t, client, h.URL+"/200")
			require.ErrorIs(t, err, seawall.ErrOpen)
			b.Reset()
		}
		assert.EqualValues(t, 1, conns.Load())
	})
}

// A panic is a failure, and goes on to the caller with the stack of where it came from. Goexit too.
func TestPanicInTheBaseTransport(t *testing.T) {
	for name, end := range map[string]func(){
		"panic":  func() { panic(errBoom) },
		"Goexit": runtime.Goexit,
	} {
		t.Run(name, func(t *testing.T) {
			b, slots := br(t), bh(t, 1)
			transport := over(t, roundTripper(func(*http.Request) (*http.Response, error) {
				end()
				return nil, nil
			}), seawallhttp.WithBreaker(b), seawallhttp.WithBulkhead(slots))
			var value any
			var stack string
			done := make(chan struct{})
			go func() {
				defer close(done)
				defer func() { value, stack = recover(), string(debug.Stack()) }()
				_, _ = transport.RoundTrip(request(t, http.MethodGet, "http://host", nil))
			}()
			<-done
			if name == "panic" {
				assert.Equal(t, errBoom, value)
			} else {
				assert.Nil(t, value)
			}
			assert.Contains(t, stack, "TestPanicInTheBaseTransport.func", "the stack of the base transport")
			wantTotals(t, b, 0, 1, 0)
			wantInFlight(t, slots, 0)
		})
	}
}

// Whatever code of the user's panics, no slot, no probe and no body stays behind.
func TestPanicsOfUserCode(t *testing.T) {
	boom := func() { panic(errBoom) }
	failing := func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = io.WriteString(w, "body")
	}
	h := startHTTP1(t, failing)
	hook := seawall.WithOnStateChange(func(seawall.StateChange) { boom() })

	t.Run("key", func(t *testing.T) {
		transport := over(t, h.ledger, seawallhttp.WithKey(func(*http.Request) string { boom(); return "" }))
		assert.PanicsWithValue(t, errBoom, func() { _, _ = transport.RoundTrip(request(t, http.MethodGet, h.URL, nil)) })
	})
	t.Run("classifier", func(t *testing.T) {
		b, slots := br(t), bh(t, 1)
		transport := over(t, h.ledger, seawallhttp.WithBreaker(b), seawallhttp.WithBulkhead(slots),
			seawallhttp.WithClassifier(func(*http.Request, *http.Response, error) seawall.Outcome { boom(); return 0 }))
		assert.PanicsWithValue(t, errBoom, func() { _, _ = transport.RoundTrip(request(t, http.MethodGet, h.URL, nil)) })
		wantTotals(t, b, 0, 1, 0)
		wantInFlight(t, slots, 0)
	})
	t.Run("hook of the opening", func(t *testing.T) {
		b, slots := br(t, hook, seawall.WithConsecutiveFailures(1)), bh(t, 1)
		transport := over(t, h.ledger, seawallhttp.WithBreaker(b), seawallhttp.WithBulkhead(slots))
		assert.PanicsWithValue(t, errBoom, func() { _, _ = transport.RoundTrip(request(t, http.MethodGet, h.URL, nil)) })
		wantTotals(t, b, 0, 1, 0)
		wantInFlight(t, slots, 0)
	})
	t.Run("hook of the first probe", func(t *testing.T) {
		clk := clock.NewMock()
		b := br(t, seawall.WithConsecutiveFailures(1), seawall.WithClock(clk),
			seawall.WithOnStateChange(func(c seawall.StateChange) {
				if c.To == seawall.HalfOpen {
					boom()
				}
			}))
		transport := over(t, h.ledger, seawallhttp.WithBreaker(b), seawallhttp.WithBulkhead(bh(t, 1)))
		_, _, err := fetch(t, &http.Client{Transport: transport}, h.URL)
		require.NoError(t, err)
		clk.Add(cooldown)
		body, sent := newUpload("never sent"), h.ledger.sent.Load()
		assert.PanicsWithValue(t, errBoom, func() {
			_, _ = transport.RoundTrip(request(t, http.MethodPost, h.URL, body))
		})
		assert.EqualValues(t, 1, body.closed.Load())
		assert.Equal(t, sent, h.ledger.sent.Load())
		assert.Zero(t, b.Snapshot().ProbesInFlight)
	})
	t.Run("hook, at the end of the body", func(t *testing.T) {
		h := startHTTP1(t, diesInTheBody)
		for name, use := range map[string]func(io.ReadCloser){
			"read": func(body io.ReadCloser) { _, _ = io.ReadAll(body) },
		} {
			t.Run(name, func(t *testing.T) {
				b, slots := br(t, hook, seawall.WithConsecutiveFailures(1)), bh(t, 1)
				client, _ := h.through(t, seawallhttp.WithBreaker(b), seawallhttp.WithBulkhead(slots), seawallhttp.WithJudgeBody())
				resp, err := client.Get(h.URL)
				require.NoError(t, err)
				assert.PanicsWithValue(t, errBoom, func() { use(resp.Body) })
				wantTotals(t, b, 0, 1, 0)
				wantInFlight(t, slots, 0)
				closeAll(t, resp.Body)
			})
		}
	})
	t.Run("hook, at the close of a probe's body", func(t *testing.T) {
		clk := clock.NewMock()
		h := startHTTP1(t, status)
		b := br(t, seawall.WithClock(clk), seawall.WithOnStateChange(func(c seawall.StateChange) {
			if c.To == seawall.Closed {
				boom()
			}
		}))
		slots := bh(t, 1)
		client, _ := h.through(t, seawallhttp.WithBreaker(b), seawallhttp.WithBulkhead(slots), seawallhttp.WithJudgeBody())
		for range 3 {
			_, _, err := fetch(t, client, h.URL+"/500")
			require.NoError(t, err)
		}
		clk.Add(cooldown)
		resp, err := client.Get(h.URL)
		require.NoError(t, err)
		assert.PanicsWithValue(t, errBoom, func() { _ = resp.Body.Close() })
		wantInFlight(t, slots, 0)
		assert.Zero(t, h.ledger.open.Load(), "the inner body is closed all the same")
	})
}

func TestObserveLetsEveryRequestGo(t *testing.T) {
	h := startHTTP1(t, status)
	b := br(t, seawall.WithMode(seawall.Observe))
	client, _ := h.through(t, seawallhttp.WithBreaker(b))
	for range 5 {
		code, _, err := fetch(t, client, h.URL+"/500")
		require.NoError(t, err)
		assert.Equal(t, http.StatusInternalServerError, code)
	}
	assert.EqualValues(t, 2, b.Snapshot().Totals.WouldReject)

	require.NoError(t, b.SetMode(seawall.Off))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := client.Do(request(t, http.MethodGet, h.URL, nil).WithContext(ctx))
	require.ErrorIs(t, err, context.Canceled)
	assert.NotErrorIs(t, err, seawall.ErrRejected, "it was net/http that refused")
}

// A host that recovers is found out by one request, and the others are rejected meanwhile.
func TestRecovery(t *testing.T) {
	overBoth(t, func(t *testing.T, start starter) {
		clk := clock.NewMock()
		b := br(t, seawall.WithClock(clk))
		arrived, answer := make(chan struct{}), make(chan struct{})
		var slow atomic.Bool
		h := start(t, func(w http.ResponseWriter, r *http.Request) {
			if slow.Load() {
				arrived <- struct{}{}
				<-answer
			}
			status(w, r)
		})
		client, _ := h.through(t, seawallhttp.WithBreaker(b))
		for range 3 {
			_, _, err := fetch(t, client, h.URL+"/503")
			require.NoError(t, err)
		}
		clk.Add(cooldown - 1)
		_, _, err := fetch(t, client, h.URL)
		require.ErrorIs(t, err, seawall.ErrOpen)
		clk.Add(1)

		slow.Store(true)
		probe := make(chan error)
		go func() {
			_, _, err := fetch(t, client, h.URL)
			probe <- err
		}()
		<-arrived
		_, _, err = fetch(t, client, h.URL)
		require.ErrorIs(t, err, seawall.ErrOpen, "the probe is under way")
		close(answer)
		require.NoError(t, <-probe)
		slow.Store(false)
		assert.Equal(t, seawall.Closed, b.State())
		_, _, err = fetch(t, client, h.URL)
		require.NoError(t, err)
	})
}

func TestIdleConnectionsAreClosedThroughTheTransport(t *testing.T) {
	closed := 0
	base := closer{roundTripper(nil), &closed}
	client := &http.Client{Transport: over(t, over(t, base))}
	client.CloseIdleConnections()
	assert.Equal(t, 1, closed)
	over(t, roundTripper(nil)).CloseIdleConnections() // It has no such method; nothing happens.
}

type closer struct {
	http.RoundTripper
	closed *int
}

func (c closer) CloseIdleConnections() { *c.closed++ }

func TestNilBaseIsTheDefaultTransport(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(status))
	defer server.Close() // It closes the idle connections of the default transport, too.
	_, text, err := fetch(t, &http.Client{Transport: over(t, nil)}, server.URL)
	require.NoError(t, err)
	assert.Equal(t, "OK", text)
}

func TestZeroTransportPanics(t *testing.T) {
	for _, transport := range []*seawallhttp.Transport{nil, {}} {
		for name, use := range map[string]func(){
			"RoundTrip":            func() { _, _ = transport.RoundTrip(nil) },
			"CloseIdleConnections": transport.CloseIdleConnections,
			"Breaker":              func() { transport.Breaker("") },
			"Bulkhead":             func() { transport.Bulkhead("") },
			"Guards":               func() { transport.Guards() },
		} {
			assert.PanicsWithValue(t, "seawallhttp: use of a Transport that was not made by NewTransport", use, name)
		}
	}
}

// The wait for a slot ends with the request's context, be it the caller's or that of http.Client's Timeout, and is no
// failure of the host.
func TestRequestsThatEndInTheQueue(t *testing.T) {
	newRig := func(t *testing.T) (*seawall.Breaker, *seawall.Bulkhead, *http.Client, *upload, func()) {
		b, slots := br(t), bh(t, 1)
		release, err := slots.Acquire(t.Context())
		require.NoError(t, err)
		base := roundTripper(func(*http.Request) (*http.Response, error) { return nil, errors.New("sent") })
		client := &http.Client{Transport: over(t, base, seawallhttp.WithBreaker(b), seawallhttp.WithBulkhead(slots))}
		return b, slots, client, newUpload("never sent"), release
	}
	t.Run("cancelled", func(t *testing.T) {
		b, slots, client, body, release := newRig(t)
		defer release()
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() {
			awaitWaiting(slots, 1)
			cancel(errCause)
		}()
		_, err := client.Do(request(t, http.MethodPost, "http://host", body).WithContext(ctx))
		for _, target := range []error{seawall.ErrBulkheadFull, context.Canceled, errCause} {
			require.ErrorIs(t, err, target)
		}
		assert.EqualValues(t, 1, body.closed.Load())
		wantTotals(t, b, 0, 0, 1)
	})
	t.Run("timeout of the client", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b, _, client, body, release := newRig(t)
			defer release()
			client.Timeout = time.Millisecond
			_, err := client.Do(request(t, http.MethodPost, "http://host", body))
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorContains(t, err, "bulkhead full, limit 1, waited 1ms")
			assert.EqualValues(t, 1, body.closed.Load())
			wantTotals(t, b, 0, 0, 1)
		})
	})
}
