package seawallhttp_test

import (
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seawall-go/seawall"
	"github.com/seawall-go/seawall/seawallhttp"
)

// Whoever rejects a request must close its body, for http.Client does not. The error is the guard's, as it is.
func TestRejectedRequestsAreClosedAndNotSent(t *testing.T) {
	done, cancel := context.WithCancelCause(t.Context())
	cancel(errCause)
	for name, row := range map[string]struct {
		ctx  context.Context
		opts []seawallhttp.TransportOption
		want []error
	}{
		"open":                {t.Context(), []seawallhttp.TransportOption{seawallhttp.WithBreaker(opened(t))}, []error{seawall.ErrOpen}},
		"full":                {t.Context(), []seawallhttp.TransportOption{seawallhttp.WithBulkhead(full(t))}, []error{seawall.ErrBulkheadFull}},
		"context":             {done, nil, []error{context.Canceled, errCause}},
		"context at the slot": {done, []seawallhttp.TransportOption{seawallhttp.WithBreaker(off(t)), seawallhttp.WithBulkhead(bh(t, 1))}, []error{context.Canceled, errCause}},
		"no breaker for it":   {t.Context(), []seawallhttp.TransportOption{seawallhttp.WithBreakers(unlessKeyed(br(t)))}, []error{errBoom}},
		"no bulkhead for it":  {t.Context(), []seawallhttp.TransportOption{seawallhttp.WithBulkheads(unlessKeyed(bh(t, 1)))}, []error{errBoom}},
	} {
		t.Run(name, func(t *testing.T) {
			l := &ledger{}
			transport := over(t, l, row.opts...)
			body := newUpload("never sent")
			resp, err := transport.RoundTrip(request(t, http.MethodPost, "http://host", body).WithContext(row.ctx))
			assert.Nil(t, resp)
			for _, target := range append(row.want, seawall.ErrRejected) {
				require.ErrorIs(t, err, target)
			}
			_, wrapped := errors.AsType[*url.Error](err)
			assert.False(t, wrapped)
			assert.EqualValues(t, 1, body.closed.Load())
			assert.Zero(t, l.sent.Load())

			_, err = transport.RoundTrip(request(t, http.MethodGet, "http://host", nil).WithContext(row.ctx))
			require.ErrorIs(t, err, seawall.ErrRejected, "a request without a body")
		})
	}
}

// off is a breaker that lets everything pass.
func off(t testing.TB) *seawall.Breaker {
	t.Helper()
	return br(t, seawall.WithMode(seawall.Off))
}

func unlessKeyed[G any](guard G) func(string) (G, error) {
	return func(key string) (none G, err error) {
		if key != "" {
			return none, errBoom
		}
		return guard, nil
	}
}

// What the user of an http.Client reads, and what repeats requests looks for.
func TestRejectionThroughHTTPClient(t *testing.T) {
	clk := clock.NewMock()
	b := br(t, seawall.WithClock(clk), seawall.WithConsecutiveFailures(1))
	failing := roundTripper(func(*http.Request) (*http.Response, error) { return nil, errBoom })
	client := &http.Client{Transport: over(t, failing, seawallhttp.WithBreaker(b))}
	_, err := client.Get("http://host/path")
	require.ErrorIs(t, err, errBoom)
	clk.Add(time.Second)
	_, err = client.Get("http://host/path")
	require.EqualError(t, err, `Get "http://host/path": seawall: br: circuit open, retry in 9s`)
	outer, ok := errors.AsType[*url.Error](err)
	require.True(t, ok)
	assert.False(t, outer.Timeout())
	assert.False(t, outer.Temporary())
	open, ok := errors.AsType[*seawall.OpenError](err)
	require.True(t, ok)
	assert.Equal(t, cooldown-time.Second, open.RetryAfter())
}

// A place of a probe is free again if the bulkhead refuses the probe.
func TestBulkheadInsideOfAHalfOpenBreaker(t *testing.T) {
	clk := clock.NewMock()
	b := br(t, seawall.WithClock(clk), seawall.WithConsecutiveFailures(1))
	slots := bh(t, 1, seawall.WithMaxQueue(0))
	up := false
	transport := over(t, roundTripper(func(*http.Request) (*http.Response, error) {
		if !up {
			return nil, errBoom
		}
		return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
	}), seawallhttp.WithBreaker(b), seawallhttp.WithBulkhead(slots))
	_, err := transport.RoundTrip(request(t, http.MethodGet, "http://host", nil))
	require.ErrorIs(t, err, errBoom)
	clk.Add(cooldown)
	release, err := slots.Acquire(t.Context())
	require.NoError(t, err)
	for range 3 {
		_, err = transport.RoundTrip(request(t, http.MethodGet, "http://host", nil))
		require.ErrorIs(t, err, seawall.ErrBulkheadFull)
		assert.Zero(t, b.Snapshot().ProbesInFlight)
	}
	release()
	up = true
	_, err = transport.RoundTrip(request(t, http.MethodGet, "http://host", nil))
	require.NoError(t, err)
	assert.Equal(t, seawall.Closed, b.State())
}

func TestRejectAsResponse(t *testing.T) {
	clk := clock.NewMock()
	b := br(t, seawall.WithClock(clk), seawall.WithConsecutiveFailures(1), seawall.WithCooldown(2500*time.Millisecond))
	failing := roundTripper(func(*http.Request) (*http.Response, error) { return nil, errBoom })
	transport := over(t, failing, seawallhttp.WithBreaker(b), seawallhttp.WithRejectAsResponse(http.StatusServiceUnavailable))
	client := &http.Client{Transport: transport}
	_, err := client.Get("http://host")
	require.ErrorIs(t, err, errBoom, "an error of the host stays one")

	body := newUpload("never sent")
	req := request(t, http.MethodPost, "http://host", body)
	resp, err := client.Do(req)
	require.NoError(t, err)
	assert.EqualValues(t, 1, body.closed.Load())
	assert.Equal(t, "503 Service Unavailable", resp.Status)
	assert.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
	assert.Equal(t, "HTTP/1.1", resp.Proto)
	assert.True(t, resp.ProtoAtLeast(1, 1))
	assert.Equal(t, "3", resp.Header.Get("Retry-After"), "2.5 s, rounded up")
	assert.Equal(t, "no-store", resp.Header.Get("Cache-Control"))
	assert.Equal(t, "http://host", resp.Request.URL.String())
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	assert.Equal(t, "service overloaded\n", string(text))
	assert.EqualValues(t, len(text), resp.ContentLength)
	closeAll(t, resp.Body)

	resp, err = client.Head("http://host")
	require.NoError(t, err)
	text, err = io.ReadAll(resp.Body)
	require.NoError(t, err)
	assert.Empty(t, text)
	assert.Zero(t, resp.ContentLength)
	closeAll(t, resp.Body)

	done, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = transport.RoundTrip(req.WithContext(done))
	require.ErrorIs(t, err, context.Canceled, "whoever has gone gets no response that asks to come back")
}

func TestRetryAfterOfAFullBulkheadIsSpread(t *testing.T) {
	transport := over(t, nil, seawallhttp.WithBulkhead(full(t)), seawallhttp.WithRejectAsResponse(http.StatusTooManyRequests))
	wantSpread(t, func() string {
		resp, err := transport.RoundTrip(request(t, http.MethodGet, "http://host", nil))
		require.NoError(t, err)
		assert.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
		closeAll(t, resp.Body)
		return resp.Header.Get("Retry-After")
	})
}

// wantSpread wants the values 1, 2 and 3 and no other. That one of them is missing by chance happens once in 1e35 times.
func wantSpread(t *testing.T, next func() string) {
	t.Helper()
	seen := map[string]int{}
	for range 200 {
		seen[next()]++
	}
	assert.Len(t, seen, 3)
	for _, value := range []string{"1", "2", "3"} {
		assert.NotZero(t, seen[value], value)
	}
}

// The host's own wish prolongs the opening that its answer brought about.
func TestRetryAfterProlongsTheOpening(t *testing.T) {
	in := func(d time.Duration) string { return time.Now().Add(d).UTC().Format(http.TimeFormat) }
	for name, row := range map[string]struct {
		status   int
		header   string
		opts     []seawall.BreakerOption
		count429 bool
		least    time.Duration
		most     time.Duration
	}{
		"seconds":               {503, "30", nil, false, 30 * time.Second, 30 * time.Second},
		"date":                  {503, in(40 * time.Second), nil, false, 30 * time.Second, 40 * time.Second},
		"less than cooldown":    {503, "1", nil, false, cooldown, cooldown},
		"absent":                {503, "", nil, false, cooldown, cooldown},
		"nonsense":              {503, "soon", nil, false, cooldown, cooldown},
		"in the past":           {503, in(-time.Hour), nil, false, cooldown, cooldown},
		"more than is honoured": {503, "999999999999999999999", nil, false, time.Minute, time.Minute},
		"more is honoured":      {503, "120", []seawall.BreakerOption{seawall.WithMaxRetryAfter(time.Hour)}, false, 2 * time.Minute, 2 * time.Minute},
		"not honoured":          {503, "30", []seawall.BreakerOption{seawall.WithMaxRetryAfter(0)}, false, cooldown, cooldown},
		"of another status":     {500, "30", nil, false, cooldown, cooldown},
		"throttled":             {429, "30", nil, true, 30 * time.Second, 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			h := startHTTP1(t, func(w http.ResponseWriter, _ *http.Request) {
				if row.header != "" {
					w.Header().Set("Retry-After", row.header)
				}
				w.WriteHeader(row.status)
			})
			b := br(t, append(row.opts, seawall.WithConsecutiveFailures(1))...)
			opts := []seawallhttp.TransportOption{seawallhttp.WithBreaker(b)}
			if row.count429 {
				opts = append(opts, seawallhttp.WithOutcome(http.StatusTooManyRequests, seawall.Failure))
			}
			client, _ := h.through(t, opts...)
			_, _, err := fetch(t, client, h.URL)
			require.NoError(t, err)
			_, _, err = fetch(t, client, h.URL)
			open, ok := errors.AsType[*seawall.OpenError](err)
			require.True(t, ok)
			assert.GreaterOrEqual(t, open.RetryAfter(), row.least)
			assert.LessOrEqual(t, open.RetryAfter(), row.most)
		})
	}
}

// A handler answers the rejection of what it called.
func TestReject(t *testing.T) {
	clk := clock.NewMock()
	b := br(t, seawall.WithClock(clk), seawall.WithConsecutiveFailures(1))
	failing := roundTripper(func(*http.Request) (*http.Response, error) { return nil, errBoom })
	client := &http.Client{Transport: over(t, failing, seawallhttp.WithBreaker(b))}
	get := func(url string) error {
		_, err := client.Get(url)
		return err
	}
	w := httptest.NewRecorder()
	assert.False(t, seawallhttp.Reject(w, nil))
	assert.False(t, seawallhttp.Reject(w, get("http://host")))
	assert.Empty(t, w.Header())
	assert.Empty(t, w.Body.String())

	clk.Add(time.Millisecond)
	assert.True(t, seawallhttp.Reject(w, get("http://host")))
	assert.Equal(t, http.StatusServiceUnavailable, w.Code)
	assert.Equal(t, "10", w.Header().Get("Retry-After"), "9.999 s, rounded up")
	assert.Equal(t, "no-store", w.Header().Get("Cache-Control"))
	assert.Equal(t, "text/plain; charset=utf-8", w.Header().Get("Content-Type"))
	assert.Equal(t, "service overloaded\n", w.Body.String(), "nothing of the inside")

	wantSpread(t, func() string {
		w := httptest.NewRecorder()
		assert.True(t, seawallhttp.Reject(w, seawall.ErrBulkheadFull))
		return w.Header().Get("Retry-After")
	})
}

func TestRetryAfterIsAtLeastASecond(t *testing.T) {
	for _, row := range []struct {
		left time.Duration
		want string
	}{
		{1, "1"}, {time.Second, "1"}, {time.Second + 1, "2"}, {math.MaxInt64, "9223372037"},
	} {
		w := httptest.NewRecorder()
		b := br(t, seawall.WithCooldown(row.left))
		b.ForceOpen()
		_, err := b.Allow(t.Context())
		require.True(t, seawallhttp.Reject(w, err))
		assert.Equal(t, row.want, w.Header().Get("Retry-After"), "%v", row.left)
	}
	w := httptest.NewRecorder()
	seawallhttp.Reject(w, &seawall.OpenError{Until: time.Now().Add(-time.Hour)}) // It was kept for too long.
	assert.Equal(t, "1", w.Header().Get("Retry-After"))
}
