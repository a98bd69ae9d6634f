package seawallhttp

import (
	"context"
	"errors"
	"net/http"

	"github.com/seawall-go/seawall"
)

// Limit returns middleware that lets as many requests into a handler as the bulkhead runs at once, and sheds the rest: by
// status 503 with a Retry-After of 1 to 3 seconds. How long and how many requests wait for their turn, the bulkhead says;
// nobody waits longer than the request's context lasts. Give it [seawall.WithMaxQueue] or [seawall.WithMaxWait]: clients
// rarely set a deadline.
//
// The slot is held until the handler returns. Streams and WebSockets are better off with a bulkhead of their own. The
// handler gets the very ResponseWriter that the server made.
//
// Limit panics, listing all, if the bulkhead is nil or an option not legal.
func Limit(bulkhead *seawall.Bulkhead, opts ...HandlerOption) func(http.Handler) http.Handler {
	c := mustConfig("Limit", "bulkhead", bulkhead == nil, opts)
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if c.skip(r) {
				next.ServeHTTP(w, r)
				return
			}
			rejection := bulkhead.Do(r.Context(), func(context.Context) error {
				next.ServeHTTP(w, r)
				return nil
			})
			if rejection != nil {
				c.turnAway(w, r, rejection)
			}
		})
	}
}

// Guard returns middleware that puts a breaker around a handler, one for handlers that fail together. A status of 500 or
// above is a failure, except 501 and 505, and so is a panic, which goes on. [http.ErrAbortHandler], an answer that [Reject]
// or [Limit] gave further in, 429, and a failure whose client had left say nothing. Requests that the breaker rejects get
// 503, with a Retry-After that is the time until it lets a call through.
//
// The handler gets a ResponseWriter that notes the status. It can flush, and be hijacked, if the server's can; for
// deadlines use [http.NewResponseController].
//
// Guard panics, listing all, if the breaker is nil or an option not legal.
func Guard(breaker *seawall.Breaker, opts ...HandlerOption) func(http.Handler) http.Handler {
	c := mustConfig("Guard", "breaker", breaker == nil, opts)
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if c.skip(r) {
				next.ServeHTTP(w, r)
				return
			}
			done, err := allow(r.Context(), breaker)
			if err != nil {
				c.turnAway(w, r, err)
				return
			}
			serve(done, next, w, r)
		})
	}
}

var errHandlerPanicked = errors.New("seawallhttp: the handler panicked or called runtime.Goexit")

// serve runs the handler and tells the breaker how it ended. It has to look at a panic's value, and panics with it again
// before the stack of the first panic is gone.
func serve(done func(error), next http.Handler, w http.ResponseWriter, r *http.Request) {
	rec := &recorder{ResponseWriter: w}
	returned := false
	defer func() {
		if returned {
			done(rec.verdict(r))
			return
		}
		value := recover()
		if value == http.ErrAbortHandler { //nolint:errorlint // So does net/http.
			done(seawall.MarkIgnored(http.ErrAbortHandler))
		} else {
			done(errHandlerPanicked)
		}
		if value != nil { // Else it was runtime.Goexit, which goes on by itself.
			panic(value)
		}
	}()
	next.ServeHTTP(rec, r)
	returned = true
}

func (c *handlerConfig) turnAway(w http.ResponseWriter, r *http.Request, err error) {
	noteRejection(w)
	c.reject(w, r, err)
}

// mustConfig panics on mistakes in the wiring, as http.Handle does.
func mustConfig(where, guard string, isNil bool, opts []HandlerOption) handlerConfig {
	c, err := newHandlerConfig(opts)
	if isNil {
		err = errors.Join(errors.New("seawallhttp: "+where+": the "+guard+" must not be nil"), err)
	}
	if err != nil {
		panic(err)
	}
	return c
}
