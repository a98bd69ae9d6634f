package seawall_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/seawall-go/seawall"
)

// HTTPError and RPCError stand for the errors of two clients.
type (
	HTTPError struct{ Code int }
	RPCError  struct{ Code string }
)

func (e HTTPError) Error() string { return fmt.Sprintf("HTTP %d", e.Code) }
func (e RPCError) Error() string  { return "RPC " + e.Code }

// byStatusCode tells faults of the server from faults of the caller: an answer that the server gives on purpose, be it
// "no", shows that it works. What it does not know it leaves to DefaultClassifier, which looks at the context first.
func byStatusCode(ctx context.Context, err error) seawall.Outcome {
	if e, ok := errors.AsType[HTTPError](err); ok {
		switch {
		case e.Code == 429: // The server works, and throttles this caller.
			return seawall.Ignored
		case e.Code < 500, e.Code == 501, e.Code == 505: // The last two stay as they are however long one waits.
			return seawall.Success
		}
	}
	if e, ok := errors.AsType[RPCError](err); ok {
		switch e.Code {
		case "InvalidArgument", "NotFound", "AlreadyExists", "PermissionDenied", "Unauthenticated",
			"FailedPrecondition", "OutOfRange", "Aborted", "Unimplemented":
			return seawall.Success
		}
	}
	return seawall.DefaultClassifier(ctx, err)
}

// B65: a classifier for status codes of HTTP and of gRPC. Which of them count is the first question about a breaker;
// this is a start, not the law.
func ExampleWithClassifier() {
	breaker := seawall.Must(seawall.NewBreaker("inventory", seawall.WithClassifier(byStatusCode)))
	gone, cancel := context.WithCancel(context.Background())
	show := func(ctx context.Context, err error) { fmt.Printf("%-22v %v\n", err, byStatusCode(ctx, err)) }

	for _, code := range []int{400, 401, 404, 409, 429, 500, 501, 502, 503, 504} {
		show(context.Background(), HTTPError{code})
	}
	for _, code := range []string{
		"NotFound", "PermissionDenied", "Aborted", "Unimplemented",
		"Canceled", "Unknown", "DeadlineExceeded", "ResourceExhausted", "Internal", "Unavailable", "DataLoss",
	} {
		show(context.Background(), RPCError{code})
	}
	cancel() // When the caller has hung up, whatever comes back says nothing about the server.
	show(gone, RPCError{"Canceled"})
	show(gone, HTTPError{503})

	for range 100 {
		_ = breaker.Do(context.Background(), func(context.Context) error { return RPCError{"PermissionDenied"} })
	}
	fmt.Println(breaker.State())
	// Output:
	// HTTP 400               success
	// HTTP 401               success
	// HTTP 404               success
	// HTTP 409               success
	// HTTP 429               ignored
	// HTTP 500               failure
	// HTTP 501               success
	// HTTP 502               failure
	// HTTP 503               failure
	// HTTP 504               failure
	// RPC NotFound           success
	// RPC PermissionDenied   success
	// RPC Aborted            success
	// RPC Unimplemented      success
	// RPC Canceled           failure
	// RPC Unknown            failure
	// RPC DeadlineExceeded   failure
	// RPC ResourceExhausted  failure
	// RPC Internal           failure
	// RPC Unavailable        failure
	// RPC DataLoss           failure
	// RPC Canceled           ignored
	// HTTP 503               ignored
	// closed
}
