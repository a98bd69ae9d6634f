package seawallhttp_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seawall-go/seawall"
	"github.com/seawall-go/seawall/seawallhttp"
)

// diesInTheBody answers 200 and breaks off in the body.
func diesInTheBody(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Length", "1000")
	_, _ = io.WriteString(w, "the first part")
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

// hangsInTheBody answers 200 and then goes on until the client has gone.
func hangsInTheBody(w http.ResponseWriter, r *http.Request) {
	_, _ = io.WriteString(w, "the first part")
	_ = http.NewResponseController(w).Flush()
	<-r.Context().Done()
}

// The slot is held until the body has ended, in every way that a body can.
func TestSlotIsHeldUntilTheBodyEnds(t *testing.T) {
	overBoth(t, func(t *testing.T, start starter) {
		h := start(t, func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/dies":
				diesInTheBody(w, r)
			case "/hangs":
				hangsInTheBody(w, r)
			default:
				status(w, r)
			}
		})
		for name, row := range map[string]struct {
			path string
			end  func(t *testing.T, body io.ReadCloser, cancel func())
		}{
			"read to the end": {"/200", func(t *testing.T, body io.ReadCloser, _ func()) {
				text, err := io.ReadAll(body)
				assert.NoError(t, err)
				assert.Equal(t, "OK", string(text))
			}},
			"closed": {"/200", func(t *testing.T, body io.ReadCloser, _ func()) { closeAll(t, body) }},
			"closed while the server goes on": {"/hangs", func(t *testing.T, body io.ReadCloser, _ func()) {
				closeAll(t, body)
			}},
			"broken off": {"/dies", func(t *testing.T, body io.ReadCloser, _ func()) {
				_, err := io.ReadAll(body)
				assert.Error(t, err)
			}},
			"context ends": {"/hangs", func(t *testing.T, body io.ReadCloser, cancel func()) {
				cancel()
				_, err := io.ReadAll(body)
				assert.ErrorIs(t, err, context.Canceled)
			}},
		} {
			t.Run(name, func(t *testing.T) {
				b, slots := br(t), bh(t, 1, seawall.WithMaxQueue(0))
				client, _ := h.through(t, seawallhttp.WithBreaker(b), seawallhttp.WithBulkhead(slots))
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				resp, err := client.Do(request(t, http.MethodGet, h.URL+row.path, nil).WithContext(ctx))
				require.NoError(t, err)
				wantInFlight(t, slots, 1)
				_, _, err = fetch(t, client, h.URL)
				require.ErrorIs(t, err, seawall.ErrBulkheadFull)
				row.end(t, resp.Body, cancel)
				wantInFlight(t, slots, 0)
				_ = resp.Body.Close()
				_ = resp.Body.Close()
				_, _, err = fetch(t, client, h.URL)
				require.NoError(t, err)
				wantInFlight(t, slots, 0)
				wantTotals(t, b, 2, 0, 1) // The breaker has not waited for the body.
			})
		}
	})
}

// Responses without a body end with their headers, for many callers don't close what isn't there.
func TestSlotIsFreeAfterResponsesWithoutABody(t *testing.T) {
	overBoth(t, func(t *testing.T, start starter) {
		h := start(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/empty" {
				return
			}
			status(w, r)
		})
		for _, row := range []struct {
			method, path string
			successes    uint64
		}{
			{"HEAD", "/200", 1},
			{"HEAD", "/503", 0},
			{"GET", "/204", 1},
			{"GET", "/304", 1},
			{"GET", "/empty", 1},
		} {
			t.Run(row.method+row.path, func(t *testing.T) {
				for _, opts := range [][]seawallhttp.TransportOption{nil, {seawallhttp.WithJudgeBody()}} {
					b, slots := br(t), bh(t, 1)
					client, _ := h.through(t, append(opts, seawallhttp.WithBreaker(b), seawallhttp.WithBulkhead(slots))...)
					resp, err := client.Do(request(t, row.method, h.URL+row.path, nil))
					require.NoError(t, err)
					wantInFlight(t, slots, 0)
					wantTotals(t, b, row.successes, 1-row.successes, 0)
					closeAll(t, resp.Body)
					wantTotals(t, b, row.successes, 1-row.successes, 0)
				}
			})
		}
	})
}

// Over HTTP/2 net/http does not say which bodies are none. These are what it makes of rare but legal answers.
func TestResponsesWithoutABodyOverHTTP2(t *testing.T) {
	for name, row := range map[string]struct {
		resp    http.Response
		follows bool
	}{
		"204, and then an empty frame":        {http.Response{ProtoMajor: 2, StatusCode: 204, ContentLength: -1}, false},
		"304 that tells the length":           {http.Response{ProtoMajor: 2, StatusCode: 304, ContentLength: 5}, false},
		"200 of unknown length":               {http.Response{ProtoMajor: 2, StatusCode: 200, ContentLength: -1}, true},
		"made by hand, and the length is not": {http.Response{ProtoMajor: 1, StatusCode: 200, ContentLength: 0}, true},
	} {
		t.Run(name, func(t *testing.T) {
			slots := bh(t, 1)
			transport := over(t, roundTripper(func(*http.Request) (*http.Response, error) {
				row.resp.Body = io.NopCloser(strings.NewReader(""))
				return &row.resp, nil
			}), seawallhttp.WithBulkhead(slots))
			resp, err := transport.RoundTrip(request(t, http.MethodGet, "http://host", nil))
			require.NoError(t, err)
			assert.Equal(t, row.follows, slots.Snapshot().InFlight == 1)
			closeAll(t, resp.Body)
			wantInFlight(t, slots, 0)
		})
	}
}

func TestReleaseAtHeaders(t *testing.T) {
	overBoth(t, func(t *testing.T, start starter) {
		h, b, slots := start(t, hangsInTheBody), br(t), bh(t, 1)
		for _, opts := range [][]seawallhttp.TransportOption{nil, {seawallhttp.WithJudgeBody()}} {
			client, _ := h.through(t, append(opts,
				seawallhttp.WithBreaker(b), seawallhttp.WithBulkhead(slots), seawallhttp.WithReleaseAtHeaders())...)
			resp, err := client.Get(h.URL)
			require.NoError(t, err)
			wantInFlight(t, slots, 0)
			closeAll(t, resp.Body)
			wantInFlight(t, slots, 0)
		}
		wantTotals(t, b, 2, 0, 0)
	})
}

// However many requests come and however long their bodies stream, no more than the limit are under way.
func TestLimitHoldsWhileBodiesStream(t *testing.T) {
	overBoth(t, func(t *testing.T, start starter) {
		const limit, requests = 10, 100
		var running, most atomic.Int64
		filled := make(chan struct{})
		h := start(t, func(w http.ResponseWriter, _ *http.Request) {
			now := running.Add(1)
			defer running.Add(-1) // Before the body's end reaches the client.
			for was := most.Load(); now > was && !most.CompareAndSwap(was, now); was = most.Load() {
			}
			if now == limit {
				select {
				case <-filled:
				default:
					close(filled)
				}
			}
			for range 3 {
				_, _ = io.WriteString(w, "part")
				_ = http.NewResponseController(w).Flush()
				<-filled // So that the limit is really reached.
			}
		})
		slots := bh(t, limit)
		client, _ := h.through(t, seawallhttp.WithBulkhead(slots))
		var callers sync.WaitGroup
		for range requests {
			callers.Go(func() {
				_, text, err := fetch(t, client, h.URL)
				assert.NoError(t, err)
				assert.Equal(t, "partpartpart", text)
			})
		}
		callers.Wait()
		assert.EqualValues(t, limit, most.Load(), "at once in the server")
		assert.EqualValues(t, requests, slots.Snapshot().Totals.Admitted)
		wantInFlight(t, slots, 0)
	})
}

func TestJudgeBody(t *testing.T) {
	overBoth(t, func(t *testing.T, start starter) {
		h := start(t, func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/dies":
				diesInTheBody(w, r)
			case "/hangs":
				hangsInTheBody(w, r)
			default:
				status(w, r)
			}
		})
		for name, row := range map[string]struct {
			path      string
			end       func(t *testing.T, body io.ReadCloser, cancel func())
			atHeaders bool
			want      [3]uint64
		}{
			"read to the end": {"/200", func(t *testing.T, body io.ReadCloser, _ func()) {
				_, err := io.ReadAll(body)
				assert.NoError(t, err)
			}, false, [3]uint64{1, 0, 0}},
			"closed early": {"/hangs", func(t *testing.T, body io.ReadCloser, _ func()) {
				closeAll(t, body)
			}, false, [3]uint64{1, 0, 0}},
			"broken off": {"/dies", func(t *testing.T, body io.ReadCloser, _ func()) {
				_, err := io.ReadAll(body)
				assert.Error(t, err)
			}, false, [3]uint64{0, 1, 0}},
			"caller hung up": {"/hangs", func(t *testing.T, body io.ReadCloser, cancel func()) {
				cancel()
				_, err := io.ReadAll(body)
				assert.Error(t, err)
			}, false, [3]uint64{0, 0, 1}},
			"bad already at the headers": {"/503", func(t *testing.T, body io.ReadCloser, _ func()) {
				_, err := io.ReadAll(body)
				assert.NoError(t, err)
			}, true, [3]uint64{0, 1, 0}},
			"says nothing already at the headers": {"/429", func(t *testing.T, body io.ReadCloser, _ func()) {
				closeAll(t, body)
			}, true, [3]uint64{0, 0, 1}},
		} {
			t.Run(name, func(t *testing.T) {
				b := br(t)
				client, _ := h.through(t, seawallhttp.WithBreaker(b), seawallhttp.WithJudgeBody())
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				resp, err := client.Do(request(t, http.MethodGet, h.URL+row.path, nil).WithContext(ctx))
				require.NoError(t, err)
				if row.atHeaders {
					wantTotals(t, b, row.want[0], row.want[1], row.want[2])
				} else {
					wantTotals(t, b, 0, 0, 0)
				}
				row.end(t, resp.Body, cancel)
				_ = resp.Body.Close()
				_, _ = resp.Body.Read(make([]byte, 1)) // An error by now, and nobody's fault.
				wantTotals(t, b, row.want[0], row.want[1], row.want[2])
			})
		}
	})
}

// The outcome of a status is none of a body that breaks off.
func TestOutcomeOfAStatusDoesNotCoverTheBody(t *testing.T) {
	h, b := startHTTP1(t, diesInTheBody), br(t)
	client, _ := h.through(t, seawallhttp.WithBreaker(b), seawallhttp.WithJudgeBody(),
		seawallhttp.WithOutcome(http.StatusOK, seawall.Success))
	_, _, err := fetch(t, client, h.URL)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	wantTotals(t, b, 0, 1, 0)
}

// Without JudgeBody a server that dies in the body is not seen.
func TestBodyIsNotJudgedByDefault(t *testing.T) {
	h, b := startHTTP1(t, diesInTheBody), br(t)
	client, _ := h.through(t, seawallhttp.WithBreaker(b))
	_, _, err := fetch(t, client, h.URL)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	wantTotals(t, b, 1, 0, 0)
}

// A classifier that has judged the headers is not asked about the body.
func TestClassifierIsAskedOnce(t *testing.T) {
	h, slots, asked := startHTTP1(t, diesInTheBody), bh(t, 1), 0
	client, _ := h.through(t, seawallhttp.WithBulkhead(slots),
		seawallhttp.WithClassifier(func(*http.Request, *http.Response, error) seawall.Outcome {
			asked++
			return seawall.Success
		}))
	_, _, err := fetch(t, client, h.URL)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	assert.Equal(t, 1, asked)
}

// A classifier sees what came before the error, too.
func TestClassifierOfABody(t *testing.T) {
	h, b := startHTTP1(t, diesInTheBody), br(t)
	client, _ := h.through(t, seawallhttp.WithBreaker(b), seawallhttp.WithJudgeBody(),
		seawallhttp.WithClassifier(func(_ *http.Request, resp *http.Response, err error) seawall.Outcome {
			if err == nil {
				return seawall.Success
			}
			assert.Equal(t, http.StatusOK, resp.StatusCode)
			assert.ErrorIs(t, err, io.ErrUnexpectedEOF)
			return seawall.Ignored
		}))
	_, _, err := fetch(t, client, h.URL)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	wantTotals(t, b, 0, 0, 1)
}

// Read and Close race in every client that cancels a download; under the race detector.
func TestReadAndCloseAtTheSameTime(t *testing.T) {
	overBoth(t, func(t *testing.T, start starter) {
		h, b, slots := start(t, hangsInTheBody), br(t), bh(t, 1)
		client, _ := h.through(t, seawallhttp.WithBreaker(b), seawallhttp.WithBulkhead(slots), seawallhttp.WithJudgeBody())
		const rounds = 20
		for range rounds {
			resp, err := client.Get(h.URL)
			require.NoError(t, err)
			var readers sync.WaitGroup
			readers.Go(func() { _, _ = io.ReadAll(resp.Body) })
			for range 2 {
				readers.Go(func() { _ = resp.Body.Close() })
			}
			readers.Wait()
			wantInFlight(t, slots, 0)
		}
		wantTotals(t, b, rounds, 0, 0)
	})
}

// A Read that fails because of a Close says nothing, even if it returns first.
func TestReadThatACloseHasEnded(t *testing.T) {
	b := br(t)
	inner := &blockedBody{closed: make(chan struct{}), read: make(chan struct{})}
	transport := over(t, roundTripper(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Body: inner}, nil
	}), seawallhttp.WithBreaker(b), seawallhttp.WithJudgeBody())
	resp, err := transport.RoundTrip(request(t, http.MethodGet, "http://host", nil))
	require.NoError(t, err)
	go func() {
		defer close(inner.read)
		_, _ = resp.Body.Read(nil)
	}()
	closeAll(t, resp.Body)
	wantTotals(t, b, 1, 0, 0)
}

// blockedBody has a Read that lasts until it is closed, and a Close that lasts until that Read has returned to its caller.
type blockedBody struct{ closed, read chan struct{} }

func (b *blockedBody) Read([]byte) (int, error) {
	<-b.closed
	return 0, io.ErrClosedPipe
}

func (b *blockedBody) Close() error {
	close(b.closed)
	<-b.read
	return nil
}

// upgrade is a server that speaks another protocol after 101: it sends back what it gets, and then says goodbye.
func upgrade(w http.ResponseWriter, _ *http.Request) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer conn.Close() //nolint:errcheck // The client sees it.
	_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	_, _ = io.Copy(conn, conn)
	_, _ = io.WriteString(conn, "goodbye")
}

// The body of a 101 is a connection: it can be written to, and one side of it closed, and the slot is held for all of its
// time.
func TestUpgradedConnection(t *testing.T) {
	h, b, slots := startHTTP1(t, upgrade), br(t), bh(t, 1)
	client, _ := h.through(t, seawallhttp.WithBreaker(b), seawallhttp.WithBulkhead(slots), seawallhttp.WithJudgeBody())
	req := request(t, http.MethodGet, h.URL, nil)
	req.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {"echo"}}
	resp, err := client.Do(req)
	require.NoError(t, err)
	require.Equal(t, http.StatusSwitchingProtocols, resp.StatusCode)

	conn, ok := resp.Body.(duplex)
	require.True(t, ok, "%T", resp.Body)
	_, err = io.WriteString(conn, "hello\n")
	require.NoError(t, err)
	reader := bufio.NewReader(resp.Body)
	line, err := reader.ReadString('\n')
	require.NoError(t, err)
	assert.Equal(t, "hello\n", line)
	wantInFlight(t, slots, 1)
	wantTotals(t, b, 0, 0, 0)

	require.NoError(t, conn.CloseWrite())
	rest, err := io.ReadAll(reader)
	require.NoError(t, err)
	assert.Equal(t, "goodbye", string(rest))
	closeAll(t, resp.Body)
	wantInFlight(t, slots, 0)
	wantTotals(t, b, 1, 0, 0)
}

// The wrapper of a body is a Writer exactly if the body is one.
func TestBodyIsAWriterExactlyIfItWas(t *testing.T) {
	reader := io.NopCloser(strings.NewReader(""))
	for name, row := range map[string]struct {
		body   io.ReadCloser
		writer bool
	}{
		"reader":                     {reader, false},
		"reader and writer":          {readWriter{reader, io.Discard}, true},
		"one that closes half of it": {halfCloser{readWriter{reader, io.Discard}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			base := roundTripper(func(*http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: http.StatusSwitchingProtocols, Body: row.body}, nil
			})
			resp, err := over(t, base, seawallhttp.WithBulkhead(bh(t, 1))).RoundTrip(request(t, http.MethodGet, "http://host", nil))
			require.NoError(t, err)
			defer closeAll(t, resp.Body)
			_, ok := resp.Body.(io.Writer)
			assert.Equal(t, row.writer, ok)
			if !ok {
				return
			}
			err = resp.Body.(duplex).CloseWrite()
			if _, can := row.body.(halfCloser); can {
				require.ErrorIs(t, err, errBoom)
			} else {
				require.ErrorIs(t, err, http.ErrNotSupported)
			}
		})
	}
}

type readWriter struct {
	io.ReadCloser
	io.Writer
}

type halfCloser struct{ readWriter }

func (halfCloser) CloseWrite() error { return errBoom }
