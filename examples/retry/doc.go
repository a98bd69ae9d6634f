// Package retry shows how four libraries that repeat calls go together with a breaker, and which calls it costs: tests run
// each of them against a real server that fails and recovers. It is to be copied from, a few lines for each library.
//
// seawall has no retries of its own. A retry loop is a seawall.Policy here, like the guards, so that the order is that of
// a seawall.Chain.
//
// # The breaker around the retries
//
//	seawall.Chain(breaker, retries)
//
// The usual order. One call with all its tries is one result: a try that fails and is made up for by the next one is no
// failure of the dependency. An open breaker ends the whole loop before it begins. Nothing has to be set in the library.
//
// # The retries around the breaker
//
//	seawall.Chain(retries, breaker)
//
// Each try is a result, so that the breaker opens sooner; it also ends loops that are under way. A seawallhttp.Transport
// is always in this place. Most libraries take the rejection for a failure like any other and try again at once, in vain,
// until the tries are used up. So the loop has to do one of two things with what matches seawall.ErrRejected:
//
//   - stop: the policies whose names end in Stops. It is what a caller wants who has a fallback or a user waiting.
//   - wait until the breaker lets a call through: those whose names end in Waits. It is for work that has time. They wait
//     only if the context allows for it, and stop else.
//
// go-retryablehttp repeats requests rather than calls, so here it comes as a client.
package retry
