package seawallhttp

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/seawall-go/seawall"
)

// overloaded is all that a rejected client gets to read: which guard it was is none of its business.
const overloaded = "service overloaded"

// Reject answers a request whose handler was rejected by a guard further down, say by the [Transport] of a client. If err
// matches [seawall.ErrRejected] it answers by status 503, with a Retry-After from the breaker or of 1 to 3 seconds, and
// returns true. Any other err it leaves alone and returns false:
//
//	if seawallhttp.Reject(w, err) {
//		return
//	}
//
// A breaker of a [Guard] around the handler ignores the answer.
func Reject(w http.ResponseWriter, err error) bool {
	if !errors.Is(err, seawall.ErrRejected) {
		return false
	}
	noteRejection(w)
	answerRejection(w, http.StatusServiceUnavailable, err)
	return true
}

func answerRejection(w http.ResponseWriter, status int, err error) {
	w.Header().Set("Retry-After", retryAfterValue(err))
	w.Header().Set("Cache-Control", "no-store")
	http.Error(w, overloaded, status)
}

// reject is the client's side: the guard's error, or a response that stands for it.
func (t *Transport) reject(req *http.Request, err error) (*http.Response, error) {
	if t.config.rejectStatus == 0 || req.Context().Err() != nil {
		return nil, err
	}
	return newRejection(req, t.config.rejectStatus, err), nil
}

func newRejection(req *http.Request, status int, err error) *http.Response {
	text := overloaded + "\n"
	if req.Method == http.MethodHead {
		text = ""
	}
	return &http.Response{
		Status:     fmt.Sprintf("%d %s", status, http.StatusText(status)),
		StatusCode: status,
		Proto:      "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{
			"Cache-Control": {"no-store"},
			"Content-Type":  {"text/plain; charset=utf-8"},
			"Retry-After":   {retryAfterValue(err)},
		},
		Body:          rejectionBody{strings.NewReader(text)},
		ContentLength: int64(len(text)),
		Request:       req,
	}
}

// rejectionBody tells a response of ours from one of the host.
type rejectionBody struct{ io.Reader }

func (rejectionBody) Close() error { return nil }

// rejectedFurtherIn reports whether resp is the rejection by another Transport.
func rejectedFurtherIn(resp *http.Response) bool {
	if resp == nil {
		return false
	}
	_, ok := resp.Body.(rejectionBody)
	return ok
}
