package seawallhttp

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"

	"github.com/seawall-go/seawall"
)

// This file is the way of one request through a Transport: admit, send, answer, and later the end of the body.

// call is one request under its guards. Each of its functions works once; further calls do nothing.
type call struct {
	config   *transportConfig
	req      *http.Request
	done     func(error) // tells the breaker
	freeSlot func()      // gives the bulkhead's slot back; nil if there is none
	unpin    func()      // lets the group forget the guards

	judged atomic.Bool // done has been called, or is about to be
	body   body        // of the response, as the caller sees it
}

var (
	errNotSent    = seawall.MarkIgnored(errors.New("seawallhttp: the request was not sent"))
	errNoResponse = errors.New("seawallhttp: the base transport returned neither a response nor an error")
	errPanicked   = errors.New("seawallhttp: the base transport panicked or called runtime.Goexit")
)

// admit takes req through the guards of key, the breaker first: what the bulkhead refuses never reached the host and is
// no failure of it.
func (t *Transport) admit(req *http.Request, key string) (*call, error) {
	c := &call{config: &t.config, req: req, done: func(error) {}, unpin: func() {}}
	admitted := false
	defer func() {
		if !admitted { // Rejected, or a hook of the breaker's panicked.
			defer closeBody(req)
			c.end(errNotSent)
		}
	}()
	guards, unpin, err := t.take(req.Context(), key)
	if err != nil {
		return nil, err
	}
	c.unpin = unpin
	if err := c.pass(guards); err != nil {
		return nil, err
	}
	admitted = true
	return c, nil
}

func (c *call) pass(g guards) error {
	if g.breaker != nil {
		done, err := allow(c.req.Context(), g.breaker)
		if err != nil {
			return err
		}
		c.done = done
	}
	if g.bulkhead != nil {
		freeSlot, err := g.bulkhead.Acquire(c.req.Context())
		if err != nil {
			return err
		}
		c.freeSlot = freeSlot
	}
	return nil
}

// allow is Breaker.Allow, except that the breaker's classifier gets a context that does not end. Ours has looked at the
// request's context, and seawall.DefaultClassifier would ignore a failure of a caller who hung up although ours says
// that it is one.
func allow(ctx context.Context, breaker *seawall.Breaker) (func(error), error) {
	if ctx.Err() == nil {
		ctx = context.WithoutCancel(ctx)
	}
	return breaker.Allow(ctx)
}

// send makes the call. There is no recover: a panic of the base transport, of the classifier or of a hook goes on with
// its own stack.
func (c *call) send(base http.RoundTripper) (resp *http.Response, err error) {
	handedOver := false
	defer func() {
		if !handedOver {
			c.abandon(resp)
		}
	}()
	resp, err = base.RoundTrip(c.req)
	c.answer(resp, err)
	handedOver = true
	return resp, err
}

// abandon ends a call whose result the caller will never see.
func (c *call) abandon(resp *http.Response) {
	defer c.end(errPanicked)
	if resp != nil && resp.Body != nil {
		_ = resp.Body.Close()
	}
}

// answer settles what can be settled when the headers are there, and leaves the rest to the end of the body.
func (c *call) answer(resp *http.Response, err error) {
	verdict := c.verdict(resp, err)
	follows := err == nil && bodyFollows(c.req, resp)
	if !c.config.judgeBody || verdict != nil || !follows {
		c.judged.Store(true)
		c.done(verdict)
	}
	if c.config.releaseAtHeaders && c.freeSlot != nil {
		c.freeSlot()
		c.freeSlot = nil
	}
	if follows && (!c.judged.Load() || c.freeSlot != nil) {
		resp.Body = c.watch(resp)
	} else {
		c.release()
	}
}

// bodyFollows reports whether resp has a body that somebody will read to its end or close. Many a caller does not close
// what isn't there. Over HTTP/1 net/http says so by http.NoBody; over HTTP/2 it has another value for that, which it keeps
// to itself.
func bodyFollows(req *http.Request, resp *http.Response) bool {
	switch {
	case resp == nil, resp.Body == nil, resp.Body == http.NoBody:
		return false
	case resp.ProtoMajor < 2:
		return true
	default:
		return req.Method != http.MethodHead && resp.ContentLength != 0 &&
			resp.StatusCode != http.StatusNoContent && resp.StatusCode != http.StatusNotModified
	}
}

// judgeBody tells the breaker how the body ended, if it is still waiting for that.
func (c *call) judgeBody(resp *http.Response, err error) {
	if c.judged.Swap(true) {
		return
	}
	if err == nil {
		c.done(nil) // The headers were good, or else the breaker would know by now.
	} else {
		c.done(c.verdict(resp, err))
	}
}

// verdict is what the breaker is told: nil for a success, else an error that the breaker counts as the classifier says.
func (c *call) verdict(resp *http.Response, err error) error {
	if rejectedFurtherIn(resp) {
		return errNotSent
	}
	outcome := c.config.judge(c.req, resp, err)
	if outcome == seawall.Success {
		return nil
	}
	switch {
	case err != nil:
	case resp != nil:
		err = newStatusError(resp)
	default:
		err = errNoResponse
	}
	if outcome == seawall.Ignored {
		return seawall.MarkIgnored(err)
	}
	return err
}

// end is for calls that have no body to wait for.
func (c *call) end(err error) {
	defer c.release() // A hook of the breaker's may panic.
	c.done(err)
}

func (c *call) release() {
	if c.freeSlot != nil {
		c.freeSlot()
	}
	c.unpin()
}

// closeBody does what a RoundTripper has to do on every path: http.Client doesn't close the body of a request that it
// gave away.
func closeBody(req *http.Request) {
	if req.Body != nil {
		_ = req.Body.Close()
	}
}
