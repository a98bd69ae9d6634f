package seawallhttp_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/seawall-go/seawall"
	"github.com/seawall-go/seawall/seawallhttp"
)

// A client with a breaker and a bulkhead for each host that it calls.
func Example() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer server.Close()

	transport, err := seawallhttp.NewTransport(nil, // nil: around http.DefaultTransport
		seawallhttp.WithBulkheads(func(host string) (*seawall.Bulkhead, error) {
			return seawall.NewBulkhead(host, 64, seawall.WithMaxQueue(64))
		}),
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	client := &http.Client{Transport: transport}
	for range 12 {
		resp, err := client.Get(server.URL)
		if errors.Is(err, seawall.ErrRejected) { // Nothing was sent: fall back.
			fmt.Println("from the cache")
			continue
		}
		fmt.Println(resp.Status)
		_ = resp.Body.Close()
	}
	// Output:
	// 503 Service Unavailable
	// 503 Service Unavailable
	// 503 Service Unavailable
	// 503 Service Unavailable
	// 503 Service Unavailable
	// 503 Service Unavailable
	// 503 Service Unavailable
	// 503 Service Unavailable
	// 503 Service Unavailable
	// 503 Service Unavailable
	// from the cache
	// from the cache
}

// A client of one service only, with the guards that other code may look at too.
func ExampleNewTransport_oneService() {
	breaker := seawall.Must(seawall.NewBreaker("payments", seawall.WithConsecutiveFailures(3)))
	client := &http.Client{Transport: seawall.Must(seawallhttp.NewTransport(nil, seawallhttp.WithBreaker(breaker)))}

	breaker.ForceOpen() // Somebody on duty has pulled the plug.
	_, err := client.Get("http://payments.internal/")
	fmt.Println(err)
	// Output: Get "http://payments.internal/": seawall: payments: circuit forced open
}

// A classifier of one's own changes what it has to and leaves the rest to the default. This one knows callers with
// deadlines that are too short to blame the host, and takes a bad certificate for a fault of this machine.
func ExampleWithClassifier() {
	classifier := func(req *http.Request, resp *http.Response, err error) seawall.Outcome {
		if errors.Is(req.Context().Err(), context.DeadlineExceeded) {
			return seawall.Ignored
		}
		if _, bad := errors.AsType[*tls.CertificateVerificationError](err); bad {
			return seawall.Ignored
		}
		return seawallhttp.DefaultClassifier(req, resp, err)
	}
	server := newServer(http.NotFoundHandler())
	server.StartTLS() // Nobody knows who signed its certificate.
	defer server.Close()
	breaker := seawall.Must(seawall.NewBreaker("server"))
	transport := seawall.Must(seawallhttp.NewTransport(nil,
		seawallhttp.WithBreaker(breaker), seawallhttp.WithClassifier(classifier)))
	_, err := (&http.Client{Transport: transport}).Get(server.URL)
	fmt.Println(err != nil, breaker.Snapshot().Totals.Failures)
	// Output: true 0
}

// What repeats requests by status and Retry-After needs a response, not an error.
func ExampleWithRejectAsResponse() {
	breaker := seawall.Must(seawall.NewBreaker("payments"))
	breaker.ForceOpen()
	transport := seawall.Must(seawallhttp.NewTransport(nil,
		seawallhttp.WithBreaker(breaker), seawallhttp.WithRejectAsResponse(http.StatusServiceUnavailable)))
	resp, err := (&http.Client{Transport: transport}).Get("http://payments.internal/")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close() //nolint:errcheck // It was only read.
	text, _ := io.ReadAll(resp.Body)
	fmt.Printf("%s, Retry-After: %s, %s", resp.Status, resp.Header.Get("Retry-After"), text)
	// Output: 503 Service Unavailable, Retry-After: 5, service overloaded
}

// A server that runs no more than 200 requests at once, lets 100 wait for their turn, and sheds the rest.
func ExampleLimit() {
	bulkhead := seawall.Must(seawall.NewBulkhead("server", 200, seawall.WithMaxQueue(100)))
	limit := seawallhttp.Limit(bulkhead,
		seawallhttp.WithSkip(func(r *http.Request) bool { return r.URL.Path == "/healthz" }))
	handler := limit(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "hello")
	}))

	server := httptest.NewServer(handler)
	defer server.Close()
	resp, err := http.Get(server.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close() //nolint:errcheck // It was only read.
	text, _ := io.ReadAll(resp.Body)
	fmt.Println(resp.Status, string(text))
	// Output: 200 OK hello
}

// A handler whose breaker opens: after three failures clients are told to come back later.
func ExampleGuard() {
	breaker := seawall.Must(seawall.NewBreaker("reports", seawall.WithConsecutiveFailures(3)))
	handler := seawallhttp.Guard(breaker)(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "the disk is full", http.StatusInternalServerError)
	}))
	for range 4 {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		fmt.Printf("%d %q %s", w.Code, w.Header().Get("Retry-After"), w.Body)
	}
	// Output:
	// 500 "" the disk is full
	// 500 "" the disk is full
	// 500 "" the disk is full
	// 503 "5" service overloaded
}

// A handler whose own call was rejected passes that on: with the time after which it makes sense to come back.
func ExampleReject() {
	breaker := seawall.Must(seawall.NewBreaker("stock"))
	client := &http.Client{Transport: seawall.Must(seawallhttp.NewTransport(nil, seawallhttp.WithBreaker(breaker)))}
	handler := func(w http.ResponseWriter, r *http.Request) {
		resp, err := client.Get("http://stock.internal/")
		if seawallhttp.Reject(w, err) {
			return
		}
		if err != nil {
			http.Error(w, "no stock today", http.StatusBadGateway)
			return
		}
		defer resp.Body.Close() //nolint:errcheck // It is only read.
		_, _ = io.Copy(w, resp.Body)
	}
	breaker.ForceOpen()
	w := httptest.NewRecorder()
	handler(w, httptest.NewRequest(http.MethodGet, "/", nil))
	fmt.Printf("%d, Retry-After: %s, %s", w.Code, w.Header().Get("Retry-After"), w.Body)
	// Output: 503, Retry-After: 5, service overloaded
}

// A readiness check that hangs on a breaker; read the warning first.
func ExampleReady() {
	disk := seawall.Must(seawall.NewBreaker("disk"))
	readyz := func(w http.ResponseWriter, _ *http.Request) {
		if err := seawallhttp.Ready(disk); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	}
	disk.ForceOpen()
	w := httptest.NewRecorder()
	readyz(w, httptest.NewRequest(http.MethodGet, "/readyz", nil))
	fmt.Print(w.Code, " ", w.Body)
	// Output: 503 seawallhttp: not ready: the breaker "disk" is open
}
