package seawall_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/seawall-go/seawall"
)

// statusError is an HTTP answer that is an error to the caller.
type statusError int

func (e statusError) Error() string { return http.StatusText(int(e)) }

// getBody fetches url under a policy. Two things happen inside of the guarded function, because they belong to the
// call: the body is read, for a Timeout ends the call's context when the function returns, and the status is judged,
// for an answer is no error to net/http, whatever its status.
func getBody(ctx context.Context, p seawall.Policy, client *http.Client, url string) (string, error) {
	return seawall.Call(ctx, p, func(ctx context.Context) (string, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return "", seawall.MarkIgnored(err) // The server never saw it.
		}
		resp, err := client.Do(req)
		if err != nil {
			return "", err
		}
		defer resp.Body.Close() //nolint:errcheck // All that could be lost has been read.
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			return "", err
		}
		return string(body), judgeStatus(resp.StatusCode)
	})
}

func judgeStatus(code int) error {
	switch {
	case code < 400:
		return nil
	case code == http.StatusTooManyRequests:
		return seawall.MarkIgnored(statusError(code)) // The server works; it wants less of us.
	case code < 500:
		return seawall.MarkSuccess(statusError(code)) // The server works and refuses this very request.
	default:
		return statusError(code)
	}
}

// What counts as a failure of an HTTP server: an answer of 500 or above and no answer at all, but not "not found".
func Example_httpClient() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/hello":
			_, _ = io.WriteString(w, "hello")
		case "/broken":
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer server.Close()
	breaker := seawall.Must(seawall.NewBreaker("server", seawall.WithConsecutiveFailures(3)))
	guard := seawall.Chain(breaker, seawall.Must(seawall.NewTimeout(time.Minute)))

	for _, path := range []string{
		"/hello", "/nobody", "/nobody", "/nobody", "/nobody", "/broken", "/broken", "/broken", "/hello",
	} {
		body, err := getBody(context.Background(), guard, server.Client(), server.URL+path)
		var status statusError
		switch {
		case errors.As(err, &status):
			fmt.Printf("%s: %d, %v\n", path, status, breaker.State())
		case errors.Is(err, seawall.ErrOpen):
			fmt.Printf("%s: not sent, %v\n", path, breaker.State())
		default:
			fmt.Printf("%s: %q %v, %v\n", path, body, err, breaker.State())
		}
	}
	// Output:
	// /hello: "hello" <nil>, closed
	// /nobody: 404, closed
	// /nobody: 404, closed
	// /nobody: 404, closed
	// /nobody: 404, closed
	// /broken: 503, closed
	// /broken: 503, closed
	// /broken: 503, open
	// /hello: not sent, open
}
