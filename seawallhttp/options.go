package seawallhttp

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"

	"github.com/seawall-go/seawall"
)

// A TransportOption configures a [Transport]. If one kind of option is given twice the last one holds, except that
// [WithOutcome] adds.
type TransportOption interface {
	applyTransport(*transportConfig) error
}

// A HandlerOption configures what [Limit] and [Guard] return. If one kind of option is given twice the last one holds.
type HandlerOption interface {
	applyHandler(*handlerConfig) error
}

// WithKey sets the function that says which guards a request belongs to: those of its key. f is called for each request,
// by the goroutine that makes it. A request whose key is empty is sent without guards; health checks are better off so.
// Keys that come from outside should be short, for they are kept in memory, and few enough for [WithMaxKeys].
// Default [HostKey]. Range: not nil.
func WithKey(f func(*http.Request) string) TransportOption {
	return transportOption(func(c *transportConfig) error {
		c.key = f
		return notNil("WithKey", f == nil)
	})
}

// WithBreakers sets the function that makes the breaker of a key. It is called when a key is first seen, again if the
// breaker has been forgotten since (see [WithMaxKeys]), and once by [NewTransport] with the empty key, to find wrong
// options; it may not use the Transport for the very key. For no breakers at all give them [seawall.WithMode] with
// [seawall.Off].
// Default: seawall.NewBreaker(key). Range: not nil. Not together with [WithBreaker].
func WithBreakers(f func(key string) (*seawall.Breaker, error)) TransportOption {
	return transportOption(func(c *transportConfig) error {
		c.newBreaker, c.breakersGiven = f, true
		return notNil("WithBreakers", f == nil)
	})
}

// WithBreaker sets one breaker for all requests that have a key, whichever it is: for a client that talks to one service
// only.
// Default: a breaker for each key. Range: not nil. Not together with [WithBreakers].
func WithBreaker(b *seawall.Breaker) TransportOption {
	return transportOption(func(c *transportConfig) error {
		c.breaker = b
		return notNil("WithBreaker", b == nil)
	})
}

// WithBulkheads sets the function that makes the bulkhead of a key. It is called as that of [WithBreakers] is.
// Default: no bulkhead. Range: not nil. Not together with [WithBulkhead].
func WithBulkheads(f func(key string) (*seawall.Bulkhead, error)) TransportOption {
	return transportOption(func(c *transportConfig) error {
		c.newBulkhead = f
		return notNil("WithBulkheads", f == nil)
	})
}

// WithBulkhead sets one bulkhead for all requests that have a key, whichever it is.
// Default: no bulkhead. Range: not nil. Not together with [WithBulkheads].
func WithBulkhead(b *seawall.Bulkhead) TransportOption {
	return transportOption(func(c *transportConfig) error {
		c.bulkhead = b
		return notNil("WithBulkhead", b == nil)
	})
}

// WithMaxKeys sets how many keys may have guards at once, as [seawall.WithMaxKeys] does. Of more keys those are forgotten
// that have nothing to lose; if there are none, requests for new keys are sent without guards.
// Default 1024. Range: from 1 to 1<<20.
func WithMaxKeys(n int) TransportOption {
	return transportOption(func(c *transportConfig) error {
		if n < 1 || n > 1<<20 {
			return outOfRange("WithMaxKeys", "n", n, "from 1 to 1048576")
		}
		c.maxKeys = n
		return nil
	})
}

// WithClassifier sets the function that judges the result of a request: what the base transport returned, or with
// [WithJudgeBody] the response and the error that ended its body. f must leave the body alone. It is called by the
// goroutine that makes the request or reads the body, outside of every lock. A panic counts as a failure and goes on to
// the caller.
//
// It is not asked about rejections by a guard further in, which are ignored. For a failure the breaker's own classifier is
// asked too, with a context that does not end; see [StatusError].
// Default [DefaultClassifier]. Range: not nil.
func WithClassifier(f func(req *http.Request, resp *http.Response, err error) seawall.Outcome) TransportOption {
	return transportOption(func(c *transportConfig) error {
		c.classify = f
		return notNil("WithClassifier", f == nil)
	})
}

// WithOutcome sets what responses with a status count as, whatever the classifier says. The usual one is
// WithOutcome(http.StatusTooManyRequests, seawall.Failure), so that a host which throttles is left alone for as long as
// its Retry-After says.
// Default: none. Range: status from 100 to 999, outcome one of the three.
func WithOutcome(status int, outcome seawall.Outcome) TransportOption {
	return transportOption(func(c *transportConfig) error {
		c.outcomes[status] = outcome
		var errs []error
		if status < 100 || status > 999 {
			errs = append(errs, outOfRange("WithOutcome", "status", status, "from 100 to 999"))
		}
		if outcome != seawall.Success && outcome != seawall.Failure && outcome != seawall.Ignored {
			errs = append(errs, outOfRange("WithOutcome", "outcome", outcome, "Success, Failure or Ignored"))
		}
		return errors.Join(errs...)
	})
}

// WithJudgeBody makes the breaker wait for the end of a response's body where the headers alone would be a success: an
// error while the body is read is a failure then, unless the caller hung up. Without it a server that breaks off after
// its headers looks healthy. To close the body early is a success.
//
// A request lasts until its body ends then, for [seawall.WithSlowCallThreshold] and for the place of a probe too. It is not
// for responses that stream for a long time.
// Default: the headers decide.
func WithJudgeBody() TransportOption {
	return transportOption(func(c *transportConfig) error {
		c.judgeBody = true
		return nil
	})
}

// WithReleaseAtHeaders gives the bulkhead's slot back when the response's headers are there. The bulkhead then bounds how
// many requests wait for an answer, and not how many bodies are being read.
// Default: a slot is held until the body ends.
func WithReleaseAtHeaders() TransportOption {
	return transportOption(func(c *transportConfig) error {
		c.releaseAtHeaders = true
		return nil
	})
}

// WithRejectAsResponse answers a rejected request by a response of the Transport's own, without an error, so that whatever
// repeats requests by status and Retry-After does so in time and not at once. The response has the given status, a header
// Retry-After and a short text. A request whose context has ended still gets the error.
// Default: the guard's error. Range: from 400 to 599; 503 is the usual one.
func WithRejectAsResponse(status int) TransportOption {
	return transportOption(func(c *transportConfig) error {
		c.rejectStatus = status
		return checkErrorStatus("WithRejectAsResponse", status)
	})
}

// WithSkip sets a function that says which requests are served without the guard. Health, readiness and metrics endpoints
// belong there: they have to answer above all when the server is busy.
// Default: none. Range: not nil.
func WithSkip(f func(*http.Request) bool) HandlerOption {
	return handlerOption(func(c *handlerConfig) error {
		c.skip = f
		return notNil("WithSkip", f == nil)
	})
}

// WithStatus sets the status of the answer to a rejected request. 503 says that the server can't; 429 would say that this
// client asks too much.
// Default 503. Range: from 400 to 599. Not together with [WithRejectHandler].
func WithStatus(status int) HandlerOption {
	return handlerOption(func(c *handlerConfig) error {
		c.status = status
		return checkErrorStatus("WithStatus", status)
	})
}

// WithRejectHandler sets the function that answers a rejected request, in place of [Reject]. err matches
// [seawall.ErrRejected]. Where the client has left, which r's context tells, the answer reaches nobody.
// Default: [Reject]. Range: not nil. Not together with [WithStatus].
func WithRejectHandler(f func(w http.ResponseWriter, r *http.Request, err error)) HandlerOption {
	return handlerOption(func(c *handlerConfig) error {
		c.reject = f
		return notNil("WithRejectHandler", f == nil)
	})
}

type transportOption func(*transportConfig) error

func (o transportOption) applyTransport(c *transportConfig) error { return o(c) }

type handlerOption func(*handlerConfig) error

func (o handlerOption) applyHandler(c *handlerConfig) error { return o(c) }

// transportConfig is all that the options decide.
type transportConfig struct {
	key     func(*http.Request) string
	maxKeys int

	newBreaker    func(key string) (*seawall.Breaker, error) // nil: breaker is that of all
	newBulkhead   func(key string) (*seawall.Bulkhead, error)
	breaker       *seawall.Breaker
	bulkhead      *seawall.Bulkhead
	breakersGiven bool // WithBreakers was

	classify         func(*http.Request, *http.Response, error) seawall.Outcome
	outcomes         map[int]seawall.Outcome
	judgeBody        bool
	releaseAtHeaders bool
	rejectStatus     int // 0: reject by an error
}

func newTransportConfig(opts []TransportOption) (transportConfig, error) {
	c := transportConfig{
		key:        HostKey,
		maxKeys:    1024,
		newBreaker: func(key string) (*seawall.Breaker, error) { return seawall.NewBreaker(key) },
		classify:   DefaultClassifier,
		outcomes:   make(map[int]seawall.Outcome),
	}
	var errs []error
	for i, o := range opts {
		if o == nil {
			errs = append(errs, nilOption(i))
		} else if err := o.applyTransport(&c); err != nil {
			errs = append(errs, err)
		}
	}
	if c.breaker != nil && c.breakersGiven {
		errs = append(errs, onlyOne("WithBreaker", "WithBreakers"))
	}
	if c.bulkhead != nil && c.newBulkhead != nil {
		errs = append(errs, onlyOne("WithBulkhead", "WithBulkheads"))
	}
	if c.breaker != nil {
		c.newBreaker = nil
	}
	return c, errors.Join(errs...)
}

// newGuards makes the guards that a key has for itself.
func (c *transportConfig) newGuards(key string) (*guards, error) {
	var g guards
	var errs []error
	if c.newBreaker != nil {
		breaker, err := c.newBreaker(key)
		g.breaker, errs = breaker, append(errs, noneGiven("breaker", breaker == nil, err))
	}
	if c.newBulkhead != nil {
		bulkhead, err := c.newBulkhead(key)
		g.bulkhead, errs = bulkhead, append(errs, noneGiven("bulkhead", bulkhead == nil, err))
	}
	return &g, errors.Join(errs...)
}

func noneGiven(guard string, isNil bool, err error) error {
	if err == nil && isNil {
		return fmt.Errorf("seawallhttp: the function returned neither a %s nor an error", guard)
	}
	return err
}

// judge is the classifier, under the outcomes that were set for single statuses.
func (c *transportConfig) judge(req *http.Request, resp *http.Response, err error) seawall.Outcome {
	if err == nil && resp != nil {
		if outcome, ok := c.outcomes[resp.StatusCode]; ok {
			return outcome
		}
	}
	return c.classify(req, resp, err)
}

// handlerConfig is all that the options decide.
type handlerConfig struct {
	skip   func(*http.Request) bool
	status int
	reject func(w http.ResponseWriter, r *http.Request, err error)
}

func newHandlerConfig(opts []HandlerOption) (handlerConfig, error) {
	var c handlerConfig
	var errs []error
	for i, o := range opts {
		if o == nil {
			errs = append(errs, nilOption(i))
		} else if err := o.applyHandler(&c); err != nil {
			errs = append(errs, err)
		}
	}
	if c.status != 0 && c.reject != nil {
		errs = append(errs, onlyOne("WithStatus", "WithRejectHandler"))
	}
	if c.skip == nil {
		c.skip = func(*http.Request) bool { return false }
	}
	if c.reject == nil {
		status := cmp.Or(c.status, http.StatusServiceUnavailable)
		c.reject = func(w http.ResponseWriter, _ *http.Request, err error) { answerRejection(w, status, err) }
	}
	return c, errors.Join(errs...)
}

func nilOption(i int) error { return fmt.Errorf("seawallhttp: option %d of the list is nil", i+1) }

func onlyOne(a, b string) error {
	return fmt.Errorf("seawallhttp: %s and %s: only one of them may be given", a, b)
}

// outOfRange says which value of which option is not legal, and what would be.
func outOfRange(option, value string, got any, legal string) error {
	return fmt.Errorf("seawallhttp: %s: %s %v must be %s", option, value, got, legal)
}

func checkErrorStatus(option string, status int) error {
	if status < 400 || status > 599 {
		return outOfRange(option, "status", status, "from 400 to 599")
	}
	return nil
}

func notNil(option string, isNil bool) error {
	if isNil {
		return fmt.Errorf("seawallhttp: %s: the argument must not be nil", option)
	}
	return nil
}
