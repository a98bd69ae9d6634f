// Package seawallotel tells OpenTelemetry about seawall's guards. It needs the API only; which SDK is behind it, if
// any, is the program's affair.
//
//   - [Register] exports breakers, bulkheads and Groups as metrics. They are read from a snapshot of each guard at each
//     collection; nothing is counted besides, so nothing can go stale.
//   - A [Tracer] adds an event to the current span of a call that was rejected, or that changed a breaker's state. It
//     can begin a span for each call.
//   - [NewDuration] records how long calls take.
//
// The README lists the metrics; seawallprom has the same ones for Prometheus.
package seawallotel
