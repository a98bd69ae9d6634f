// Package seawallpage shows seawall's breakers, bulkheads and Groups on a web page: which of them are in trouble, since
// when and why, and when the next probe is due.
//
// # Start
//
//	page, err := seawallpage.NewHandler(
//		seawallpage.Breakers(payments, search),
//		seawallpage.Bulkheads(slots),
//		seawallpage.Group("hosts", transport.Breakers()),
//	)
//	if err != nil {
//		return err
//	}
//	mux.Handle("/debug/guards/", http.StripPrefix("/debug/guards", page))
//
// The path has to end in a slash, for the page's links are relative. The page needs nothing from elsewhere, refreshes itself
// every 2 seconds (every 5 without JavaScript), follows the browser's dark mode and reads well on a phone. It names the
// worst guards first and shows up to 100; a name leads to that guard's history, settings and totals.
//
// # What the states mean
//
// A breaker is closed, open, half-open or forced open, and its mode is shown beside that unless it is Enforce. A bulkhead is
// free while it has a free slot, busy while the next call has to wait for one, and full if it could not even wait. Breakers
// that are open and bulkheads that are full are problems; half-open and busy ones are a warning.
//
// # JSON
//
// guards.json has the same, of all guards, or of one name with ?name=NAME:
//
//	{
//	  "at": "2026-11-30T14:03:12Z",
//	  "guards": [{"kind": "breaker", "name": "payments", "level": "problem", "snapshot": {…}, "settings": {…}, "history": […]}],
//	  "groups": [{"name": "hosts", "size": 2, "max_keys": 1024, "evictions": 0, "overflow": 0}]
//	}
//
// The level is problem, warning, ok or off. A snapshot is a [seawall.Snapshot] or a [seawall.BulkheadSnapshot]; settings and
// history are those of [seawall.Breaker.Settings] and [seawall.Breaker.History], and only breakers have them. The guards of a
// Group also have the fields group and key, and are named group/key, as in the metrics.
//
// # Who may see and do what
//
// The page is read-only unless it is given [WithControl]. It asks nobody who they are: names of dependencies, and the keys
// of a Group, may be nobody else's business, so mount it behind your own authentication or on a port of its own.
// To take a breaker in hand without a browser:
//
//	curl -d action=force-open 'http://localhost:8080/debug/guards/?name=payments'
//
// Do not let a load balancer decide by this page whether the process is healthy: a breaker that is open means that
// something else is not.
package seawallpage
