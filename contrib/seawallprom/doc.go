// Package seawallprom exports seawall's breakers, bulkheads and Groups to Prometheus.
//
// A [Collector] reads a snapshot of each guard when it is scraped. Nothing is counted besides, so nothing can go stale,
// and a guard that is scraped costs its callers nothing. The README lists the metrics; seawallotel has the same ones
// for OpenTelemetry.
package seawallprom
