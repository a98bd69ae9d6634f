package seawallhttp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/seawall-go/seawall"
)

// DefaultClassifier judges the result of a request as a [Transport] does by default, by the table in the package's
// manual. It is exported to be called from a classifier of one's own; see [WithClassifier].
func DefaultClassifier(req *http.Request, resp *http.Response, err error) seawall.Outcome {
	if err != nil || resp == nil {
		return judgeError(req, err)
	}
	return judgeStatus(resp.StatusCode)
}

// GatewayClassifier is a classifier for hosts whose own 500s say little about their health. Of the statuses only those
// are failures by which a gateway says that it did not reach the host: 502, 503 and 504. All else is as in
// [DefaultClassifier].
func GatewayClassifier(req *http.Request, resp *http.Response, err error) seawall.Outcome {
	outcome := DefaultClassifier(req, resp, err)
	if err == nil && resp != nil && outcome == seawall.Failure && !isGatewayError(resp.StatusCode) {
		return seawall.Success
	}
	return outcome
}

func isGatewayError(code int) bool {
	return code == http.StatusBadGateway || code == http.StatusServiceUnavailable || code == http.StatusGatewayTimeout
}

func judgeStatus(code int) seawall.Outcome {
	switch {
	case code == http.StatusTooManyRequests: // The host works; it wants less of us.
		return seawall.Ignored
	case code < 500, code == http.StatusNotImplemented, code == http.StatusHTTPVersionNotSupported:
		return seawall.Success // It works, and refuses this very request.
	default:
		return seawall.Failure
	}
}

// judgeError asks the request's context and not err who ended the request: if the context has a cause, err is that and
// matches neither context.Canceled nor context.DeadlineExceeded.
func judgeError(req *http.Request, err error) seawall.Outcome {
	switch {
	case errors.Is(req.Context().Err(), context.Canceled):
		return seawall.Ignored
	case errors.Is(err, seawall.ErrRejected): // By a guard further in; the host was never reached.
		return seawall.Ignored
	case isCallersFault(req, err):
		return seawall.Ignored
	default:
		return seawall.Failure
	}
}

// isCallersFault reports whether a request failed because it could not be sent at all. net/http has no error values for
// that, so the request is looked at once more.
func isCallersFault(req *http.Request, err error) bool {
	if errors.Is(err, http.ErrSkipAltProtocol) {
		return true
	}
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge { // The request's own body refused to go on.
		return true
	}
	if req.URL == nil || req.URL.Host == "" || req.Header == nil || req.Method != "" && !isToken(req.Method) {
		return true
	}
	if req.URL.Scheme != "http" && req.URL.Scheme != "https" { // It may be one that was registered.
		return err != nil && strings.HasPrefix(err.Error(), "unsupported protocol scheme")
	}
	return !isSendable(req.Header) || !isSendable(req.Trailer)
}

func isSendable(header http.Header) bool {
	for name, values := range header {
		if !isToken(name) {
			return false
		}
		for _, value := range values {
			if strings.ContainsFunc(value, isControl) {
				return false
			}
		}
	}
	return true
}

// isToken reports whether s is a token of RFC 9110, section 5.6.2.
func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		letterOrDigit := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
		return !letterOrDigit && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	})
}

func isControl(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }

// A StatusError is what a breaker is told about a response that is no success. A classifier of the breaker's own and the
// Err of a [seawall.StateChange] meet it; the caller gets the response.
type StatusError struct {
	StatusCode int

	retryAfter time.Duration
}

func newStatusError(resp *http.Response) *StatusError {
	e := &StatusError{StatusCode: resp.StatusCode}
	if e.StatusCode == http.StatusServiceUnavailable || e.StatusCode == http.StatusTooManyRequests {
		e.retryAfter = parseRetryAfter(resp.Header.Get("Retry-After"), time.Now())
	}
	return e
}

func (e *StatusError) Error() string {
	return strings.TrimSpace(fmt.Sprintf("seawallhttp: status %d %s", e.StatusCode, http.StatusText(e.StatusCode)))
}

// RetryAfter returns how long the response asked to wait, by the header Retry-After of a 503 or 429, and 0 if it did
// not. A breaker that the response opens stays open for that long; see [seawall.WithMaxRetryAfter].
func (e *StatusError) RetryAfter() time.Duration { return e.retryAfter }
