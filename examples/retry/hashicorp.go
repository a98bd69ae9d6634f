package retry

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/hashicorp/go-retryablehttp"

	"github.com/seawall-go/seawall"
	"github.com/seawall-go/seawall/seawallhttp"
)

// Hashicorp is a client of github.com/hashicorp/go-retryablehttp as it is made otherwise too, but without its log. It
// goes into a breaker: the function given to Breaker.Do calls its Do.
func Hashicorp(base http.RoundTripper, tries int, pause time.Duration) *retryablehttp.Client {
	client := retryablehttp.NewClient()
	client.HTTPClient = &http.Client{Transport: base}
	client.RetryMax = tries - 1
	client.RetryWaitMin = pause
	client.Logger = nil
	return client
}

// HashicorpStops is a client that goes around a breaker and gives up when a request is rejected.
func HashicorpStops(base http.RoundTripper, breaker *seawall.Breaker, tries int, pause time.Duration) (*retryablehttp.Client, error) {
	transport, err := seawallhttp.NewTransport(base, seawallhttp.WithBreaker(breaker))
	if err != nil {
		return nil, err
	}
	client := Hashicorp(transport, tries, pause)
	client.CheckRetry = func(ctx context.Context, resp *http.Response, err error) (bool, error) {
		if errors.Is(err, seawall.ErrRejected) {
			return false, err
		}
		return retryablehttp.DefaultRetryPolicy(ctx, resp, err)
	}
	return client, nil
}

// HashicorpWaits is a client that goes around a breaker and waits while the breaker is open. The client needs nothing
// for that: a rejection comes to it as a 503 with a Retry-After, which it knows. That has whole seconds, and the client
// doesn't look at the context's deadline before it begins to wait.
func HashicorpWaits(base http.RoundTripper, breaker *seawall.Breaker, tries int, pause time.Duration) (*retryablehttp.Client, error) {
	transport, err := seawallhttp.NewTransport(base,
		seawallhttp.WithBreaker(breaker), seawallhttp.WithRejectAsResponse(http.StatusServiceUnavailable))
	if err != nil {
		return nil, err
	}
	return Hashicorp(transport, tries, pause), nil
}
