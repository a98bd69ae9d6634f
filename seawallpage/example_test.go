package seawallpage_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/seawall-go/seawall"
	"github.com/seawall-go/seawall/seawallpage"
)

func Example() {
	payments := seawall.Must(seawall.NewBreaker("payments"))
	slots := seawall.Must(seawall.NewBulkhead("payments", 16))

	page := seawall.Must(seawallpage.NewHandler(
		seawallpage.Breakers(payments),
		seawallpage.Bulkheads(slots),
	))
	mux := http.NewServeMux()
	mux.Handle("/debug/guards/", http.StripPrefix("/debug/guards", page)) // The slash at its end matters.

	server := httptest.NewServer(mux)
	defer server.Close()
	response, err := http.Get(server.URL + "/debug/guards/")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer response.Body.Close() //nolint:errcheck // It was only read.
	body, err := io.ReadAll(response.Body)
	fmt.Println(response.Status, len(body) < 30_000, err)
	// Output: 200 OK true <nil>
}

// Two guards for each host, and a page on which people may force the breakers open.
func ExampleGroup() {
	hosts := seawall.Must(seawall.NewGroup(func(host string) (seawall.Policy, error) {
		breaker, err1 := seawall.NewBreaker(host)
		bulkhead, err2 := seawall.NewBulkhead(host, 8)
		return seawall.Chain(breaker, bulkhead), errors.Join(err1, err2)
	}))
	page := seawall.Must(seawallpage.NewHandler(seawallpage.Group("hosts", hosts), seawallpage.WithControl()))

	_ = hosts.Do(context.Background(), "example.com", func(context.Context) error { return nil })
	request := httptest.NewRequest(http.MethodPost, "/?name=hosts/example.com", nil)
	request.PostForm = map[string][]string{"action": {"force-open"}}
	answer := httptest.NewRecorder()
	page.ServeHTTP(answer, request)
	fmt.Println(answer.Code)

	fmt.Println(hosts.Do(context.Background(), "example.com", func(context.Context) error { return nil }))
	// Output:
	// 303
	// seawall: example.com: circuit forced open
}
