// Package grafana has tests only: that the dashboard and the alert rules in this folder read what is exported, and that
// seawallprom and seawallotel export the same, so that both feed them. It is a module of its own because that takes an
// OpenTelemetry SDK and Prometheus's query engine.
package grafana
