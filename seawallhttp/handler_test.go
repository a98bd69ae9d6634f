package seawallhttp_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seawall-go/seawall"
	"github.com/seawall-go/seawall/seawallhttp"
)

func TestLimitSheds(t *testing.T) {
	overBoth(t, func(t *testing.T, start starter) {
		slots := bh(t, 1, seawall.WithMaxQueue(0))
		arrived, answer := make(chan struct{}), make(chan struct{})
		limited := seawallhttp.Limit(slots, seawallhttp.WithSkip(func(r *http.Request) bool { return r.URL.Path == "/healthz" }))(
			http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/slow" {
					arrived <- struct{}{}
					<-answer
				}
			}))
		h := start(t, limited.ServeHTTP)
		client := &http.Client{Transport: h.ledger}
		first := make(chan int)
		go func() {
			code, _, err := fetch(t, client, h.URL+"/slow")
			assert.NoError(t, err)
			first <- code
		}()
		<-arrived
		resp, err := client.Get(h.URL)
		require.NoError(t, err)
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		closeAll(t, resp.Body)
		assert.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
		assert.Contains(t, []string{"1", "2", "3"}, resp.Header.Get("Retry-After"))
		assert.Equal(t, "no-store", resp.Header.Get("Cache-Control"))
		assert.Equal(t, "text/plain; charset=utf-8", resp.Header.Get("Content-Type"))
		assert.Equal(t, "service overloaded\n", string(text))

		code, _, err := fetch(t, client, h.URL+"/healthz")
		require.NoError(t, err)
		assert.Equal(t, http.StatusOK, code, "it is not limited")
		close(answer)
		assert.Equal(t, http.StatusOK, <-first)
		code, _, err = fetch(t, client, h.URL)
		require.NoError(t, err)
		assert.Equal(t, http.StatusOK, code)
	})
}

// No more requests than the limit are ever in the handler; the others wait for their turn.
func TestLimitHolds(t *testing.T) {
	overBoth(t, func(t *testing.T, start starter) {
		const limit, requests = 10, 100
		slots := bh(t, limit)
		var running, most atomic.Int64
		h := start(t, seawallhttp.Limit(slots)(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			now := running.Add(1)
			defer running.Add(-1)
			for was := most.Load(); now > was && !most.CompareAndSwap(was, now); was = most.Load() {
			}
			_, _ = io.WriteString(w, "part")
			_ = http.NewResponseController(w).Flush()
			_, _ = io.WriteString(w, "part")
		})).ServeHTTP)
		var callers sync.WaitGroup
		for range requests {
			callers.Go(func() {
				code, text, err := fetch(t, &http.Client{Transport: h.ledger}, h.URL)
				assert.NoError(t, err)
				assert.Equal(t, http.StatusOK, code)
				assert.Equal(t, "partpart", text)
			})
		}
		callers.Wait()
		assert.LessOrEqual(t, most.Load(), int64(limit))
		assert.EqualValues(t, requests, slots.Snapshot().Totals.Admitted)
	})
}

// A client that leaves the queue is not served, and counts as cancelled.
func TestClientGoneWhileQueued(t *testing.T) {
	overBoth(t, func(t *testing.T, start starter) {
		slots := bh(t, 1)
		release, err := slots.Acquire(t.Context())
		require.NoError(t, err)
		h := start(t, seawallhttp.Limit(slots)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			assert.Fail(t, "served a client that had gone")
		})).ServeHTTP)
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan error)
		go func() {
			_, err := h.ledger.RoundTrip(request(t, http.MethodGet, h.URL, nil).WithContext(ctx))
			gone <- err
		}()
		awaitWaiting(slots, 1)
		cancel()
		require.ErrorIs(t, <-gone, context.Canceled)
		for slots.Snapshot().Totals.Cancelled == 0 {
			runtime.Gosched()
		}
		release()
		wantInFlight(t, slots, 0)
		assert.Zero(t, slots.Snapshot().Waiting)
	})
}

// If it was not the client that gave up, it gets an answer.
func TestDeadlineOfTheServerInTheQueue(t *testing.T) {
	slots := full(t)
	for name, ctx := range map[string]func() (context.Context, context.CancelFunc){
		"deadline": func() (context.Context, context.CancelFunc) { return context.WithTimeout(t.Context(), 1) },
		"shutdown": func() (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			return ctx, cancel
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := ctx()
			defer cancel()
			w := httptest.NewRecorder()
			seawallhttp.Limit(slots)(http.HandlerFunc(nil)).ServeHTTP(w, request(t, http.MethodGet, "/", nil).WithContext(ctx))
			assert.Equal(t, http.StatusServiceUnavailable, w.Code)
		})
	}
}

// The handler gets the very ResponseWriter: nothing can be lost of what it can do.
func TestLimitWrapsNothing(t *testing.T) {
	w := httptest.NewRecorder()
	called := false
	limited := seawallhttp.Limit(bh(t, 1))(http.HandlerFunc(func(got http.ResponseWriter, _ *http.Request) {
		called = true
		assert.Same(t, w, got)
	}))
	limited.ServeHTTP(w, request(t, http.MethodGet, "/", nil))
	assert.True(t, called)
}

func TestLimitFreesTheSlotHoweverTheHandlerEnds(t *testing.T) {
	for name, end := range map[string]func(){
		"panic":  func() { panic(errBoom) },
		"abort":  func() { panic(http.ErrAbortHandler) },
		"Goexit": runtime.Goexit,
	} {
		t.Run(name, func(t *testing.T) {
			slots := bh(t, 1)
			limited := seawallhttp.Limit(slots)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { end() }))
			done := make(chan struct{})
			go func() {
				defer close(done)
				defer func() { _ = recover() }()
				limited.ServeHTTP(httptest.NewRecorder(), request(t, http.MethodGet, "/", nil))
			}()
			<-done
			wantInFlight(t, slots, 0)
		})
	}
}

func TestOwnAnswerToRejections(t *testing.T) {
	middlewares := map[string]func(...seawallhttp.HandlerOption) func(http.Handler) http.Handler{
		"Limit": func(opts ...seawallhttp.HandlerOption) func(http.Handler) http.Handler {
			return seawallhttp.Limit(full(t), opts...)
		},
		"Guard": func(opts ...seawallhttp.HandlerOption) func(http.Handler) http.Handler {
			return seawallhttp.Guard(opened(t), opts...)
		},
	}
	for name, middleware := range middlewares {
		t.Run(name, func(t *testing.T) {
			serve := func(opts ...seawallhttp.HandlerOption) *httptest.ResponseRecorder {
				w := httptest.NewRecorder()
				middleware(opts...)(http.HandlerFunc(nil)).ServeHTTP(w, request(t, http.MethodGet, "/path", nil))
				return w
			}
			assert.Equal(t, http.StatusServiceUnavailable, serve().Code)
			w := serve(seawallhttp.WithStatus(http.StatusTooManyRequests))
			assert.Equal(t, http.StatusTooManyRequests, w.Code)
			assert.NotEmpty(t, w.Header().Get("Retry-After"))
			w = serve(seawallhttp.WithRejectHandler(func(w http.ResponseWriter, r *http.Request, err error) {
				assert.ErrorIs(t, err, seawall.ErrRejected)
				assert.Equal(t, "/path", r.URL.Path)
				w.WriteHeader(http.StatusTeapot)
			}))
			assert.Equal(t, http.StatusTeapot, w.Code)
			assert.Empty(t, w.Header())
		})
	}
}

func TestGuardJudgesTheHandler(t *testing.T) {
	overBoth(t, func(t *testing.T, start starter) {
		for name, row := range map[string]struct {
			handle http.HandlerFunc
			want   [3]uint64
		}{
			"nothing":  {func(http.ResponseWriter, *http.Request) {}, [3]uint64{1, 0, 0}},
			"200":      {answer(200), [3]uint64{1, 0, 0}},
			"404":      {answer(404), [3]uint64{1, 0, 0}},
			"429":      {answer(429), [3]uint64{0, 0, 1}},
			"500":      {answer(500), [3]uint64{0, 1, 0}},
			"501":      {answer(501), [3]uint64{1, 0, 0}},
			"503":      {answer(503), [3]uint64{0, 1, 0}},
			"505":      {answer(505), [3]uint64{1, 0, 0}},
			"100, 500": {answer(http.StatusEarlyHints, 500), [3]uint64{0, 1, 0}},
			"write, then 500 in vain": {func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, "x")
				w.WriteHeader(500)
			}, [3]uint64{1, 0, 0}},
			"copy, then 500 in vain": {func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.Copy(w, io.LimitReader(strings.NewReader("x"), 1))
				w.WriteHeader(500)
			}, [3]uint64{1, 0, 0}},
			"copy nothing, then 500": {func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.Copy(w, io.LimitReader(strings.NewReader("x"), 0))
				w.WriteHeader(500)
			}, [3]uint64{0, 1, 0}},
			"flush, then 500 in vain": {func(w http.ResponseWriter, _ *http.Request) {
				w.(http.Flusher).Flush()
				w.WriteHeader(500)
			}, [3]uint64{1, 0, 0}},
			"panic":        {func(http.ResponseWriter, *http.Request) { panic(errBoom) }, [3]uint64{0, 1, 0}},
			"strange":      {func(http.ResponseWriter, *http.Request) { panic([]int{1}) }, [3]uint64{0, 1, 0}},
			"abort":        {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, [3]uint64{0, 0, 1}},
			"500 abort":    {func(w http.ResponseWriter, r *http.Request) { answer(500)(w, r); panic(http.ErrAbortHandler) }, [3]uint64{0, 0, 1}},
			"rejected":     {func(w http.ResponseWriter, _ *http.Request) { seawallhttp.Reject(w, seawall.ErrOpen) }, [3]uint64{0, 0, 1}},
			"limited":      {seawallhttp.Limit(full(t))(http.HandlerFunc(nil)).ServeHTTP, [3]uint64{0, 0, 1}},
			"limited, 500": {seawallhttp.Limit(full(t), seawallhttp.WithRejectHandler(func(w http.ResponseWriter, r *http.Request, _ error) { answer(500)(w, r) }))(http.HandlerFunc(nil)).ServeHTTP, [3]uint64{0, 0, 1}},
			"guarded":      {seawallhttp.Guard(opened(t))(http.HandlerFunc(nil)).ServeHTTP, [3]uint64{0, 0, 1}},
		} {
			t.Run(name, func(t *testing.T) {
				b := br(t)
				settled := make(chan struct{}, 1)
				guarded := seawallhttp.Guard(b)(row.handle)
				h := start(t, func(w http.ResponseWriter, r *http.Request) {
					defer func() { settled <- struct{}{} }()
					guarded.ServeHTTP(w, r)
				})
				_, _, _ = fetch(t, &http.Client{Transport: h.ledger}, h.URL)
				<-settled
				wantTotals(t, b, row.want[0], row.want[1], row.want[2])
			})
		}
	})
}

// answer is a handler that writes these statuses.
func answer(codes ...int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for _, code := range codes {
			w.WriteHeader(code)
		}
	}
}

func TestGuardOpens(t *testing.T) {
	overBoth(t, func(t *testing.T, start starter) {
		b := br(t)
		var served atomic.Int64
		h := start(t, seawallhttp.Guard(b, seawallhttp.WithSkip(func(r *http.Request) bool { return r.URL.Path == "/200" }))(
			http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				served.Add(1)
				status(w, r)
			})).ServeHTTP)
		client := &http.Client{Transport: h.ledger}
		for range 3 {
			code, text, err := fetch(t, client, h.URL+"/500")
			require.NoError(t, err)
			assert.Equal(t, http.StatusInternalServerError, code)
			assert.Equal(t, "Internal Server Error", text)
		}
		resp, err := client.Get(h.URL + "/500")
		require.NoError(t, err)
		closeAll(t, resp.Body)
		assert.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
		assert.Equal(t, "10", resp.Header.Get("Retry-After"), "the cooldown")
		assert.EqualValues(t, 3, served.Load())
		code, _, err := fetch(t, client, h.URL+"/200")
		require.NoError(t, err)
		assert.Equal(t, http.StatusOK, code, "it is not guarded")
		wantTotals(t, b, 0, 3, 0)
	})
}

// A client that has gone makes handlers fail that did nothing wrong. A panic is still their fault.
func TestGuardAndClientsWhoLeave(t *testing.T) {
	for name, row := range map[string]struct {
		handle func(w http.ResponseWriter)
		want   [3]uint64
	}{
		"500":   {func(w http.ResponseWriter) { w.WriteHeader(500) }, [3]uint64{0, 0, 1}},
		"200":   {func(w http.ResponseWriter) { w.WriteHeader(200) }, [3]uint64{1, 0, 0}},
		"panic": {func(http.ResponseWriter) { panic(errBoom) }, [3]uint64{0, 1, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			b := br(t)
			ctx, cancel := context.WithCancel(t.Context())
			guarded := seawallhttp.Guard(b)(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				cancel()
				row.handle(w)
			}))
			func() {
				defer func() { _ = recover() }()
				guarded.ServeHTTP(httptest.NewRecorder(), request(t, http.MethodGet, "/", nil).WithContext(ctx))
			}()
			wantTotals(t, b, row.want[0], row.want[1], row.want[2])
		})
	}
}

// The panic goes on with its value and with the stack of where it began; Goexit ends the goroutine.
func TestGuardLetsPanicsPass(t *testing.T) {
	for name, row := range map[string]struct {
		end   func()
		value any
		want  [3]uint64
	}{
		"panic":  {func() { panic(errBoom) }, errBoom, [3]uint64{0, 1, 0}},
		"abort":  {func() { panic(http.ErrAbortHandler) }, http.ErrAbortHandler, [3]uint64{0, 0, 1}},
		"Goexit": {runtime.Goexit, nil, [3]uint64{0, 1, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			b := br(t)
			guarded := seawallhttp.Guard(b)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { row.end() }))
			var value any
			var stack string
			returned, done := false, make(chan struct{})
			go func() {
				defer close(done)
				defer func() { value, stack = recover(), string(debug.Stack()) }()
				guarded.ServeHTTP(httptest.NewRecorder(), request(t, http.MethodGet, "/", nil))
				returned = true
			}()
			<-done
			assert.False(t, returned)
			assert.Equal(t, row.value, value)
			assert.Contains(t, stack, "TestGuardLetsPanicsPass.func", "the stack of the handler")
			wantTotals(t, b, row.want[0], row.want[1], row.want[2])
		})
	}
}

// The recorder hides nothing: neither from an http.ResponseController nor from who asks for an interface.
func TestGuardKeepsWhatTheResponseWriterCan(t *testing.T) {
	t.Run("flush and deadlines", func(t *testing.T) {
		overBoth(t, func(t *testing.T, start starter) {
			h := start(t, seawallhttp.Guard(br(t))(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				control := http.NewResponseController(w)
				assert.NoError(t, control.SetReadDeadline(time.Time{}))
				assert.NoError(t, control.SetWriteDeadline(time.Time{}))
				assert.NoError(t, control.Flush())
				_, err := io.Copy(w, io.LimitReader(strings.NewReader("copied"), 6)) // Which has no WriteTo.
				assert.NoError(t, err)
			})).ServeHTTP)
			_, text, err := fetch(t, &http.Client{Transport: h.ledger}, h.URL)
			require.NoError(t, err)
			assert.Equal(t, "copied", text)
		})
	})
	t.Run("hijack", func(t *testing.T) {
		b := br(t)
		hijacked := make(chan struct{})
		h := startHTTP1(t, seawallhttp.Guard(b)(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			defer close(hijacked)
			conn, buf, err := w.(http.Hijacker).Hijack()
			if assert.NoError(t, err) {
				_, _ = buf.WriteString("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello")
				assert.NoError(t, buf.Flush())
				assert.NoError(t, conn.Close())
			}
		})).ServeHTTP)
		_, text, err := fetch(t, &http.Client{Transport: h.ledger}, h.URL)
		require.NoError(t, err)
		assert.Equal(t, "hello", text)
		<-hijacked
	})
	t.Run("what it cannot", func(t *testing.T) {
		b := br(t)
		guarded := seawallhttp.Guard(b)(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _, err := w.(http.Hijacker).Hijack()
			assert.ErrorIs(t, err, http.ErrNotSupported)
			assert.ErrorIs(t, http.NewResponseController(w).Flush(), http.ErrNotSupported)
			w.(http.Flusher).Flush() // Nothing happens.
			w.WriteHeader(http.StatusInternalServerError)
		}))
		guarded.ServeHTTP(bareWriter{httptest.NewRecorder()}, request(t, http.MethodGet, "/", nil))
		wantTotals(t, b, 0, 1, 0)
	})
	t.Run("error of a flush", func(t *testing.T) {
		guarded := seawallhttp.Guard(br(t))(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			assert.ErrorIs(t, http.NewResponseController(w).Flush(), errBoom)
		}))
		guarded.ServeHTTP(failingFlusher{httptest.NewRecorder()}, request(t, http.MethodGet, "/", nil))
	})
}

// bareWriter has nothing but the methods of http.ResponseWriter.
type bareWriter struct{ http.ResponseWriter }

type failingFlusher struct{ http.ResponseWriter }

func (failingFlusher) FlushError() error { return errBoom }

// Other middleware between the guard and the handler does not hide a rejection, as long as it can be unwrapped.
func TestRejectionIsNotedThroughOtherWrappers(t *testing.T) {
	for name, row := range map[string]struct {
		wrap func(http.ResponseWriter) http.ResponseWriter
		want [3]uint64
	}{
		"unwrapped": {func(w http.ResponseWriter) http.ResponseWriter { return unwrapper{w} }, [3]uint64{0, 0, 1}},
		"hidden":    {func(w http.ResponseWriter) http.ResponseWriter { return bareWriter{w} }, [3]uint64{0, 1, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			outer, inner := br(t), br(t)
			handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				assert.True(t, seawallhttp.Reject(row.wrap(w), seawall.ErrOpen))
			})
			seawallhttp.Guard(outer)(seawallhttp.Guard(inner)(handler)).
				ServeHTTP(httptest.NewRecorder(), request(t, http.MethodGet, "/", nil))
			wantTotals(t, outer, row.want[0], row.want[1], row.want[2])
			wantTotals(t, inner, row.want[0], row.want[1], row.want[2])
		})
	}
}

type unwrapper struct{ http.ResponseWriter }

func (u unwrapper) Unwrap() http.ResponseWriter { return u.ResponseWriter }
