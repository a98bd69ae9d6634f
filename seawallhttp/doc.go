// Package seawallhttp puts the guards of seawall around HTTP: a [Transport] around the requests of a client, [Limit] and
// [Guard] around the handlers of a server.
//
// # Start
//
// A client, with a breaker for each host that it calls:
//
//	transport, err := seawallhttp.NewTransport(nil, // nil: around http.DefaultTransport
//		seawallhttp.WithBulkheads(func(host string) (*seawall.Bulkhead, error) {
//			return seawall.NewBulkhead(host, 64, seawall.WithMaxQueue(64))
//		}),
//	)
//	client := &http.Client{Transport: transport, Timeout: 10 * time.Second}
//	resp, err := client.Get("https://example.com/")
//	if errors.Is(err, seawall.ErrRejected) { // Nothing was sent: fall back.
//		return cached, nil
//	}
//
// A server that sheds what it can't serve in time:
//
//	limit := seawallhttp.Limit(seawall.Must(seawall.NewBulkhead("server", 200, seawall.WithMaxQueue(100))))
//	http.ListenAndServe(":8080", limit(handler))
//
// # What counts as what
//
// This is what [DefaultClassifier] says about what came back to a Transport. Another one is set by [WithClassifier], the
// outcome of a single status by [WithOutcome].
//
//	what came back                                            outcome
//	status below 500, but not 429                             success: the host works and answers on purpose
//	429                                                       ignored: it works, and wants less of us
//	501, 505                                                  success: this will never work, and nothing else suffers
//	any other status of 500 and above                         failure
//	an error, and the request's context was cancelled         ignored, whatever the error: the caller hung up
//	an error, and the context's deadline has passed           failure: a host that hangs looks like that
//	an error, and the context goes on                         failure: dial, DNS, TLS, reset, ResponseHeaderTimeout
//	the rejection by a guard further in                       ignored: the host was never reached
//	a request that can't be sent: bad URL, method or header   ignored: the caller's mistake
//	a panic of the base transport                             failure; the panic goes on
//
// Callers whose deadlines are shorter than what the host normally takes fail its breaker for all. An error of the
// request's own body looks like one of the host; let its Read return it through [seawall.MarkIgnored].
//
// The response is handed to the caller whatever it counts as. The header Retry-After of a 503 prolongs the opening that
// the response brings about, and so does that of a 429 if it was made a failure; see [seawall.WithMaxRetryAfter].
//
// # How long a request lasts
//
// For the breaker until the headers are there, so a server that dies in the body looks healthy; [WithJudgeBody] waits for
// the end. For the bulkhead until the body has been read to its end or closed; [WithReleaseAtHeaders] doesn't wait. Close
// every body: what is not closed keeps its slot. A connection that was upgraded by a 101 lasts as long as it does.
//
// A request waits for its slot until its context ends. If that is the Timeout of an [http.Client], the client may
// put an error of its own in place of the guard's, which does not match [seawall.ErrRejected]; set [seawall.WithMaxWait] to
// something shorter.
//
// # Order
//
// Outermost first: retries, the Transport with breaker and bulkhead, tracing such as otelhttp, the transport itself. So
// each try is an outcome of its own, and has a span of its own if it was really sent. Retries around a Transport have to
// stop on [seawall.ErrRejected] or wait as long as it says; [WithRejectAsResponse] makes those wait that know only about
// responses. Where a breaker is to be outside of the retries, so that it ends the whole loop, wrap their call in
// [seawall.Breaker.Do]; the directory examples/retry has both for four libraries.
package seawallhttp
