package seawallhttp

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"

	"github.com/seawall-go/seawall"
)

// recorder is a ResponseWriter that notes the status. By Unwrap an http.ResponseController finds what the inner one can
// do. What many handlers look for by a type assertion, recorder has itself.
type recorder struct {
	http.ResponseWriter
	status   int // the final one; 0 until there is one, and 200 if there never is
	rejected bool
}

// verdict is what the breaker is told.
func (rec *recorder) verdict(r *http.Request) error {
	outcome := judgeStatus(rec.status)
	if outcome == seawall.Success {
		return nil
	}
	err := &StatusError{StatusCode: rec.status}
	gone := errors.Is(r.Context().Err(), context.Canceled)
	if outcome == seawall.Ignored || rec.rejected || gone {
		return seawall.MarkIgnored(err)
	}
	return err
}

func (rec *recorder) Unwrap() http.ResponseWriter { return rec.ResponseWriter }

// WriteHeader notes the first status that is not a mere announcement. Those after it net/http ignores, too.
func (rec *recorder) WriteHeader(status int) {
	if status >= 200 || status == http.StatusSwitchingProtocols {
		rec.note(status)
	}
	rec.ResponseWriter.WriteHeader(status)
}

func (rec *recorder) Write(p []byte) (int, error) {
	rec.note(http.StatusOK)
	return rec.ResponseWriter.Write(p)
}

// ReadFrom lets the inner ResponseWriter send a file without a copy.
func (rec *recorder) ReadFrom(r io.Reader) (int64, error) {
	n, err := io.Copy(rec.ResponseWriter, r)
	if n > 0 {
		rec.note(http.StatusOK)
	}
	return n, err
}

func (rec *recorder) Flush() { _ = rec.FlushError() }

func (rec *recorder) FlushError() error {
	err := http.NewResponseController(rec.ResponseWriter).Flush()
	if !errors.Is(err, http.ErrNotSupported) {
		rec.note(http.StatusOK)
	}
	return err
}

func (rec *recorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return http.NewResponseController(rec.ResponseWriter).Hijack()
}

func (rec *recorder) note(status int) {
	if rec.status == 0 {
		rec.status = status
	}
}

// noteRejection tells every recorder around w that the answer is a rejection.
func noteRejection(w http.ResponseWriter) {
	for {
		if rec, ok := w.(*recorder); ok {
			rec.rejected = true
		}
		outer, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return
		}
		w = outer.Unwrap()
	}
}
