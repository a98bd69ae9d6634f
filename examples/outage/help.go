package main

import (
	"fmt"
	"strings"
)

// help is what -help prints.
func help() string {
	var text strings.Builder
	fmt.Fprintf(&text, `outage: what a breaker, a bulkhead and a timeout do for a client whose server falls sick.

usage: go run ./examples/outage [flags]

Two equal servers on the loopback interface get the same load, one from a bare client that has only
a timeout, the other from a client guarded by seawall.Chain(breaker, bulkhead, timeout). Both are
healthy at first, then hang, then answer 503, then are healthy again. A line a second shows what
became of the calls that ended in it, every state change of the breaker is shown with its reason,
and a table at the end compares the two. Ctrl-C ends the run early and still prints the table.
With -page localhost:8080 the guards can be watched in a browser while it runs, and the breaker be
taken in hand; -recovery 10m leaves more time for that.

flags:
`)
	flags := newFlagSet(new(config))
	flags.SetOutput(&text)
	flags.PrintDefaults()
	fmt.Fprintf(&text, `
Columns:
  ok, failed   calls that ended in that second
  rejected     calls that were never sent: the breaker was open or the bulkhead full
  in flight    callers who are waiting at the end of it
  p99          how long 99 of 100 of the ended calls took at most, the rejected included
  state        of the breaker

Why these numbers (they are in guard.go, to copy):
  timeout %v: far above the healthy p99 of 15 ms, yet short for a caller who waits.
  %d consecutive failures: a dead server is noticed one timeout after it died.
  failure rate %v of at least %d calls in %v: a half-dead server. The successes from before the
      outage dilute the rate; it trips after about timeout + rate * window, so the window is short.
  cooldown %v, %d probes: what an outage costs (one probe a cooldown), and how late its end is seen.
      The jitter of %v keeps a fleet of clients from probing in step.
  bulkhead %d, queue %d for %v: 300 calls a second of 10 ms are 3 in flight; the rest is for
      bursts, and no more than that can hang at once.

JSON lines (-json), one object each: {"settings":…}, {"phase":…}, {"second":…}, {"change":…} and at
the end {"summary":{"bare":{…},"guarded":{…}}}. A time that didn't come, like opened_after_seconds
of a breaker that never opened, is null.

Exit code: 0, also after ctrl-C; 1 if something broke; 2 for a bad flag.
`, callTimeout, consecutiveFailures, failureRate, minCalls, window, cooldown, probeSuccesses, jitter,
		maxInFlight, maxQueue, maxWait)
	return text.String()
}
