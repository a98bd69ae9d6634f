// Package seawall keeps a sick dependency from taking its callers down.
//
// It has two guards that are wrapped around outbound calls. A [Breaker] stops calling what keeps failing, and finds
// out by itself when it works again. A [Bulkhead] caps how many calls run at once. Both, and [Timeout], have one
// method in common, so that they compose with each other and with whatever else has it:
//
//	Do(ctx context.Context, fn func(context.Context) error) error
//
// # The breaker
//
// A breaker is closed at first: calls run and their results are counted. It opens when half of at least 20 calls in
// the last 10 seconds have failed, or 10 in a row; see [WithFailureRate], [WithWindow] and [WithConsecutiveFailures].
// While it is open, for 5 seconds ([WithCooldown]), calls are rejected at once. Then it is half-open: one call at a
// time is let through as a probe ([WithProbes]). A probe that succeeds closes the breaker, one that fails opens it
// again. A probe that hangs loses its place after a while, and a result that arrives after the state it belongs to
// has ended changes nothing.
//
// An error is a failure, a timeout too; that of a caller who hung up is not. See [DefaultClassifier],
// [WithClassifier], [MarkSuccess] and [MarkIgnored].
//
// # The bulkhead
//
// A bulkhead of n runs at most n calls at once. Others wait for a slot until their context ends, in order of arrival;
// [WithMaxWait] and [WithMaxQueue] bound that.
//
// # Rejections
//
// Whatever a guard returns without having run the function matches [ErrRejected]. Nothing was sent then, so that
// another way may be tried. [ErrOpen] and [ErrBulkheadFull] tell which guard it was, and [*OpenError] when to come
// back. No guard counts the rejection of another one as a failure.
//
// # Composition
//
// [Chain] composes, outermost first. The usual order is
//
//	seawall.Chain(breaker, bulkhead, timeout)
//
// with the timeout inside of the bulkhead, so that waiting for a slot isn't taken for time of the dependency, and
// retries, if any, between breaker and bulkhead.
//
// # Time and goroutines
//
// The package starts no goroutine; nothing has to be closed. All of it works in a testing/synctest bubble, and
// [WithClock] makes a guard read a clock of the test's own. Functions given to options may call any method of any
// guard: no lock is held while they run.
package seawall
