package seawallhttp_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seawall-go/seawall"
	"github.com/seawall-go/seawall/seawallhttp"
)

var (
	errBoom  = errors.New("boom")
	errCause = errors.New("the user clicked elsewhere")
)

// The outcomes of all statuses, as ranges.
func TestStatusOutcomes(t *testing.T) {
	for _, row := range []struct {
		from, to                  int
		byDefault, ofGatewaysOnly seawall.Outcome
	}{
		{100, 428, seawall.Success, seawall.Success},
		{429, 429, seawall.Ignored, seawall.Ignored},
		{430, 499, seawall.Success, seawall.Success},
		{500, 500, seawall.Failure, seawall.Success},
		{501, 501, seawall.Success, seawall.Success},
		{502, 504, seawall.Failure, seawall.Failure},
		{505, 505, seawall.Success, seawall.Success},
		{506, 999, seawall.Failure, seawall.Success},
	} {
		for code := row.from; code <= row.to; code++ {
			resp := &http.Response{StatusCode: code}
			req := request(t, http.MethodGet, "http://host", nil)
			assert.Equal(t, row.byDefault, seawallhttp.DefaultClassifier(req, resp, nil), "status %d", code)
			assert.Equal(t, row.ofGatewaysOnly, seawallhttp.GatewayClassifier(req, resp, nil), "status %d, gateway errors", code)
		}
	}
}

// G136: who ended the request is asked of its context, for the error may be the context's cause.
func TestErrorOutcomes(t *testing.T) {
	live := t.Context()
	cancelled, cancel := context.WithCancelCause(live)
	cancel(errCause)
	expired, cancelExpired := context.WithDeadlineCause(live, time.Now(), errCause)
	defer cancelExpired()

	get := func(ctx context.Context, change func(*http.Request)) *http.Request {
		req := request(t, http.MethodGet, "http://host", nil).WithContext(ctx)
		if change != nil {
			change(req)
		}
		return req
	}
	for name, row := range map[string]struct {
		req  *http.Request
		err  error
		want seawall.Outcome
	}{
		"reset":                        {get(live, nil), errBoom, seawall.Failure},
		"nothing at all":               {get(live, nil), nil, seawall.Failure},
		"deadline within":              {get(live, nil), context.DeadlineExceeded, seawall.Failure},
		"cancelled within":             {get(live, nil), context.Canceled, seawall.Failure},
		"certificate":                  {get(live, nil), &tls.CertificateVerificationError{Err: errBoom}, seawall.Failure},
		"cancelled":                    {get(cancelled, nil), context.Canceled, seawall.Ignored},
		"cancelled, cause":             {get(cancelled, nil), errCause, seawall.Ignored},
		"cancelled, another error":     {get(cancelled, nil), errBoom, seawall.Ignored},
		"cancelled, nothing":           {get(cancelled, nil), nil, seawall.Ignored},
		"deadline":                     {get(expired, nil), context.DeadlineExceeded, seawall.Failure},
		"deadline, cause":              {get(expired, nil), errCause, seawall.Failure},
		"rejected further in":          {get(live, nil), fmt.Errorf("inner: %w", seawall.ErrOpen), seawall.Ignored},
		"skipped protocol":             {get(live, nil), http.ErrSkipAltProtocol, seawall.Ignored},
		"own body too large":           {get(live, nil), &url.Error{Err: &http.MaxBytesError{Limit: 1}}, seawall.Ignored},
		"no URL":                       {get(live, func(r *http.Request) { r.URL = nil }), errBoom, seawall.Ignored},
		"no host":                      {get(live, func(r *http.Request) { r.URL.Host = "" }), errBoom, seawall.Ignored},
		"no header":                    {get(live, func(r *http.Request) { r.Header = nil }), errBoom, seawall.Ignored},
		"no method is GET":             {get(live, func(r *http.Request) { r.Method = "" }), errBoom, seawall.Failure},
		"bad method":                   {get(live, func(r *http.Request) { r.Method = "G T" }), errBoom, seawall.Ignored},
		"own method":                   {get(live, func(r *http.Request) { r.Method = "M-SEARCH" }), errBoom, seawall.Failure},
		"bad name of a header":         {get(live, func(r *http.Request) { r.Header["é"] = nil }), errBoom, seawall.Ignored},
		"empty name of a header":       {get(live, func(r *http.Request) { r.Header[""] = nil }), errBoom, seawall.Ignored},
		"bad value of a header":        {get(live, func(r *http.Request) { r.Header.Set("A", "b\nc") }), errBoom, seawall.Ignored},
		"value with a tab":             {get(live, func(r *http.Request) { r.Header.Set("A", "b\tcé") }), errBoom, seawall.Failure},
		"bad trailer":                  {get(live, func(r *http.Request) { r.Trailer = http.Header{"A": {"\x7f"}} }), errBoom, seawall.Ignored},
		"unknown scheme":               {get(live, func(r *http.Request) { r.URL.Scheme = "gopher" }), errors.New(`unsupported protocol scheme "gopher"`), seawall.Ignored},
		"a registered scheme, failing": {get(live, func(r *http.Request) { r.URL.Scheme = "unix" }), errBoom, seawall.Failure},
		"a registered scheme, nothing": {get(live, func(r *http.Request) { r.URL.Scheme = "unix" }), nil, seawall.Failure},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, row.want, seawallhttp.DefaultClassifier(row.req, nil, row.err))
			assert.Equal(t, row.want, seawallhttp.GatewayClassifier(row.req, nil, row.err))
			withBody := &http.Response{StatusCode: http.StatusOK}
			if row.err != nil {
				assert.Equal(t, row.want, seawallhttp.DefaultClassifier(row.req, withBody, row.err), "of an error in the body")
			}
		})
	}
}

// What net/http refuses to send is looked for in the request, for its errors have no type. This holds the two together.
func TestRequestsThatNetHTTPCannotSendAreIgnored(t *testing.T) {
	for name, change := range map[string]func(*http.Request){
		"URL":     func(r *http.Request) { r.URL = nil },
		"host":    func(r *http.Request) { r.URL.Host = "" },
		"scheme":  func(r *http.Request) { r.URL.Scheme = "gopher" },
		"method":  func(r *http.Request) { r.Method = "GET /" },
		"headers": func(r *http.Request) { r.Header = nil },
		"name":    func(r *http.Request) { r.Header["a:b"] = []string{"c"} },
		"value":   func(r *http.Request) { r.Header["A"] = []string{"b\x00c"} },
		"trailer": func(r *http.Request) { r.Trailer = http.Header{"a b": {"c"}} },
	} {
		t.Run(name, func(t *testing.T) {
			b, body := br(t), newUpload("")
			transport := over(t, &http.Transport{}, seawallhttp.WithBreaker(b),
				seawallhttp.WithKey(func(*http.Request) string { return "guarded" }))
			req := request(t, http.MethodPost, "http://127.0.0.1:1/", body)
			change(req)
			_, err := transport.RoundTrip(req)
			require.Error(t, err)
			wantTotals(t, b, 0, 0, 1)
			assert.EqualValues(t, 1, body.closed.Load())
		})
	}
}

// The manual's table is this one, and each row is what the code says.
func TestManualShowsOutcomes(t *testing.T) {
	manual, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	expired, cancelExpired := context.WithDeadline(t.Context(), time.Now())
	defer cancelExpired()

	type result struct {
		ctx  context.Context
		code int
		err  error
	}
	for _, row := range []struct {
		text    string
		want    seawall.Outcome
		results []result
	}{
		{"status below 500, but not 429", seawall.Success, []result{{code: 200}, {code: 301}, {code: 404}, {code: 408}, {code: 499}}},
		{"429", seawall.Ignored, []result{{code: 429}}},
		{"501, 505", seawall.Success, []result{{code: 501}, {code: 505}}},
		{"any other status of 500 and above", seawall.Failure, []result{{code: 500}, {code: 503}, {code: 520}, {code: 599}}},
		{"an error, and the request's context was cancelled", seawall.Ignored, []result{{ctx: cancelled, err: errBoom}}},
		{"an error, and the context's deadline has passed", seawall.Failure, []result{{ctx: expired, err: errBoom}}},
		{"an error, and the context goes on", seawall.Failure, []result{{err: errBoom}}},
		{"the rejection by a guard further in", seawall.Ignored, []result{{err: seawall.ErrBulkheadFull}}},
		{"a request that can't be sent: bad URL, method or header", seawall.Ignored, []result{{err: http.ErrSkipAltProtocol}}},
	} {
		assert.Contains(t, string(manual), fmt.Sprintf("//\t%-58s%v", row.text, row.want))
		for _, r := range row.results {
			if r.ctx == nil {
				r.ctx = t.Context()
			}
			req := request(t, http.MethodGet, "http://host", nil).WithContext(r.ctx)
			var resp *http.Response
			if r.err == nil {
				resp = &http.Response{StatusCode: r.code}
			}
			assert.Equal(t, row.want, seawallhttp.DefaultClassifier(req, resp, r.err), "%s: %+v", row.text, r)
		}
	}
}

// G46: an answer is no error to net/http, and yet 503s open the breaker. The caller gets each of them.
func TestServerErrorsOpenTheBreaker(t *testing.T) {
	overBoth(t, func(t *testing.T, start starter) {
		h := start(t, status)
		client, transport := h.through(t) // All defaults.
		for i := range 20 {
			code, text, err := fetch(t, client, h.URL+"/503")
			if i < 10 {
				require.NoError(t, err)
				assert.Equal(t, http.StatusServiceUnavailable, code)
				assert.Equal(t, "Service Unavailable", text)
			} else {
				require.ErrorIs(t, err, seawall.ErrOpen)
			}
		}
		assert.EqualValues(t, 10, h.ledger.sent.Load())
		assert.Equal(t, seawall.Open, transport.Breaker(keyOf(t, h.URL)).State())
	})
}

func TestClientErrorsOpenNothing(t *testing.T) {
	overBoth(t, func(t *testing.T, start starter) {
		h, b := start(t, status), br(t)
		client, _ := h.through(t, seawallhttp.WithBreaker(b))
		for range 1000 {
			code, _, err := fetch(t, client, h.URL+"/404")
			require.NoError(t, err)
			require.Equal(t, http.StatusNotFound, code)
		}
		wantTotals(t, b, 1000, 0, 0)
	})
}

// G136: neither do callers who hang up, whatever error net/http makes of it.
func TestCallersWhoHangUpOpenNothing(t *testing.T) {
	overBoth(t, func(t *testing.T, start starter) {
		arrived := make(chan struct{})
		h, b := start(t, func(_ http.ResponseWriter, r *http.Request) {
			arrived <- struct{}{}
			<-r.Context().Done()
		}), br(t)
		client, _ := h.through(t, seawallhttp.WithBreaker(b))
		for i := range 1000 {
			ctx, cancel := context.WithCancelCause(t.Context())
			got := make(chan error)
			go func() {
				_, err := client.Do(request(t, http.MethodGet, h.URL, nil).WithContext(ctx))
				got <- err
			}()
			<-arrived
			if i%2 == 0 {
				cancel(nil)
			} else {
				cancel(errCause)
			}
			require.Error(t, <-got)
		}
		wantTotals(t, b, 0, 0, 1000)
	})
}

// What really goes wrong with a host, and is told apart from what the caller did.
func TestTransportErrorsAreFailures(t *testing.T) {
	overBoth(t, func(t *testing.T, start starter) {
		h := start(t, func(_ http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/hangs":
				<-r.Context().Done()
			case "/breaks":
				panic(http.ErrAbortHandler)
			}
		})
		plain := h.Client().Transport.(*http.Transport)
		impatient := plain.Clone()
		impatient.ResponseHeaderTimeout = time.Millisecond
		distrustful := plain.Clone()
		distrustful.TLSClientConfig = nil
		t.Cleanup(impatient.CloseIdleConnections)
		t.Cleanup(distrustful.CloseIdleConnections)

		for name, row := range map[string]struct {
			base http.RoundTripper
			url  string
		}{
			"connection refused":      {plain, "http://127.0.0.1:1/"},
			"connection broken":       {plain, h.URL + "/breaks"},
			"response header timeout": {impatient, h.URL + "/hangs"},
			"certificate":             {distrustful, strings.Replace(h.URL, "http:", "https:", 1)},
		} {
			t.Run(name, func(t *testing.T) {
				b := br(t)
				_, _, err := fetch(t, &http.Client{Transport: over(t, row.base, seawallhttp.WithBreaker(b))}, row.url)
				require.Error(t, err)
				wantTotals(t, b, 0, 1, 0)
			})
		}
	})
}

func TestClientTimeoutIsAFailure(t *testing.T) {
	overBoth(t, func(t *testing.T, start starter) {
		var arrived atomic.Bool
		h := start(t, func(_ http.ResponseWriter, r *http.Request) {
			arrived.Store(true)
			<-r.Context().Done()
		})
		untilArrived(&arrived, func(timeout time.Duration) {
			b := br(t)
			client, _ := h.through(t, seawallhttp.WithBreaker(b))
			client.Timeout = timeout
			_, _, err := fetch(t, client, h.URL)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			if arrived.Load() {
				wantTotals(t, b, 0, 1, 0)
			}
		})
	})
}

// untilArrived tries timeouts that grow until the request has reached the server: on a busy machine a short one is over
// before that.
func untilArrived(arrived *atomic.Bool, try func(timeout time.Duration)) {
	for timeout := time.Millisecond; !arrived.Load(); timeout *= 2 {
		try(timeout)
	}
}

// G136: over HTTP/1.1 the error is the context's cause, and matches neither of the errors of contexts.
func TestContextWithACause(t *testing.T) {
	call := func(t *testing.T, h *host, ctx context.Context) *seawall.Breaker {
		b := br(t)
		client, _ := h.through(t, seawallhttp.WithBreaker(b))
		_, err := client.Do(request(t, http.MethodGet, h.URL, nil).WithContext(ctx))
		require.ErrorIs(t, err, errCause)
		if !errors.Is(err, seawall.ErrRejected) {
			require.NotErrorIs(t, err, ctx.Err(), "else this test shows nothing")
		}
		return b
	}
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		h := startHTTP1(t, func(_ http.ResponseWriter, r *http.Request) {
			cancel(errCause)
			<-r.Context().Done()
		})
		wantTotals(t, call(t, h, ctx), 0, 0, 1)
	})
	t.Run("deadline", func(t *testing.T) {
		var arrived atomic.Bool
		h := startHTTP1(t, func(_ http.ResponseWriter, r *http.Request) {
			arrived.Store(true)
			<-r.Context().Done()
		})
		untilArrived(&arrived, func(timeout time.Duration) {
			ctx, cancel := context.WithTimeoutCause(t.Context(), timeout, errCause)
			defer cancel()
			if b := call(t, h, ctx); arrived.Load() {
				wantTotals(t, b, 0, 1, 0)
			}
		})
	})
}

func TestOutcomeOfASingleStatus(t *testing.T) {
	h := startHTTP1(t, status)
	for outcome, want := range map[seawall.Outcome][3]uint64{
		seawall.Success: {1, 0, 0}, seawall.Failure: {0, 1, 0}, seawall.Ignored: {0, 0, 1},
	} {
		t.Run(outcome.String(), func(t *testing.T) {
			b := br(t)
			client, _ := h.through(t, seawallhttp.WithBreaker(b), seawallhttp.WithOutcome(http.StatusTooManyRequests, outcome),
				seawallhttp.WithClassifier(func(*http.Request, *http.Response, error) seawall.Outcome {
					assert.Fail(t, "the classifier was asked")
					return seawall.Failure
				}))
			_, _, err := fetch(t, client, h.URL+"/429")
			require.NoError(t, err)
			wantTotals(t, b, want[0], want[1], want[2])
		})
	}
}

// A classifier has the last word also where the breaker's default one would not agree.
func TestOwnClassifierHasTheLastWord(t *testing.T) {
	for outcome, want := range map[seawall.Outcome][3]uint64{
		seawall.Success: {1, 0, 0}, seawall.Failure: {0, 1, 0}, seawall.Ignored: {0, 0, 1}, 7: {0, 1, 0},
	} {
		for name, base := range map[string]roundTripper{
			"an error": func(*http.Request) (*http.Response, error) { return nil, errBoom },
			"a response": func(*http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: 503, Body: http.NoBody}, nil
			},
			"nothing": func(*http.Request) (*http.Response, error) { return nil, nil },
		} {
			t.Run(fmt.Sprintf("%s is %v", name, outcome), func(t *testing.T) {
				b := br(t)
				ctx, cancel := context.WithCancel(t.Context())
				transport := over(t, base, seawallhttp.WithBreaker(b),
					seawallhttp.WithClassifier(func(*http.Request, *http.Response, error) seawall.Outcome {
						cancel() // The caller hangs up, which DefaultClassifier would ignore.
						return outcome
					}))
				_, _ = transport.RoundTrip(request(t, http.MethodGet, "http://host", nil).WithContext(ctx))
				wantTotals(t, b, want[0], want[1], want[2])
			})
		}
	}
}

// The rejection by another Transport further in is no failure, as error or as response, whatever a classifier says.
func TestRejectionsFurtherInAreIgnored(t *testing.T) {
	for name, opts := range map[string][]seawallhttp.TransportOption{
		"error":    {},
		"response": {seawallhttp.WithRejectAsResponse(http.StatusBadGateway)},
	} {
		t.Run(name, func(t *testing.T) {
			inner := over(t, nil, append(opts, seawallhttp.WithBreaker(opened(t)))...)
			b := br(t)
			outer := over(t, inner, seawallhttp.WithBreaker(b),
				seawallhttp.WithClassifier(func(*http.Request, *http.Response, error) seawall.Outcome { return seawall.Failure }))
			resp, err := outer.RoundTrip(request(t, http.MethodGet, "http://host", nil))
			if err == nil {
				closeAll(t, resp.Body)
			}
			wantTotals(t, b, 0, 0, 1)
		})
	}
}

// A failure of the request's own body is one of the host, unless it is marked. It must survive the way through net/http.
func TestOwnBodyThatFails(t *testing.T) {
	overBoth(t, func(t *testing.T, start starter) {
		h := start(t, func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
		for name, row := range map[string]struct {
			err      error
			failures uint64
		}{
			"plain":  {errBoom, 1},
			"marked": {seawall.MarkIgnored(errBoom), 0},
		} {
			t.Run(name, func(t *testing.T) {
				b := br(t)
				client, _ := h.through(t, seawallhttp.WithBreaker(b))
				body := &upload{Reader: io.MultiReader(strings.NewReader("begin"), failingReader{row.err})}
				_, err := client.Do(request(t, http.MethodPost, h.URL, body))
				require.ErrorIs(t, err, errBoom)
				wantTotals(t, b, 0, row.failures, 1-row.failures)
			})
		}
	})
}

type failingReader struct{ err error }

func (f failingReader) Read([]byte) (int, error) { return 0, f.err }

func TestStatusErrorReachesTheHook(t *testing.T) {
	h := startHTTP1(t, status)
	for path, text := range map[string]string{
		"/503": "seawallhttp: status 503 Service Unavailable",
		"/599": "seawallhttp: status 599",
	} {
		var changes []seawall.StateChange
		b := br(t, seawall.WithConsecutiveFailures(1),
			seawall.WithOnStateChange(func(c seawall.StateChange) { changes = append(changes, c) }))
		client, _ := h.through(t, seawallhttp.WithBreaker(b))
		_, _, err := fetch(t, client, h.URL+path)
		require.NoError(t, err)
		require.Len(t, changes, 1)
		assert.EqualError(t, changes[0].Err, text)
	}
}

func keyOf(t testing.TB, url string) string {
	t.Helper()
	return seawallhttp.HostKey(request(t, http.MethodGet, url, nil))
}
