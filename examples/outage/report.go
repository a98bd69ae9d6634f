package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/seawall-go/seawall"
)

// width is how many columns the text keeps to, so that it reads well anywhere.
const width = 100

// event is something to tell the user. It is one object in the JSON output, under its kind, and a
// few lines in the text.
type event interface {
	kind() string
	text() string
}

// report prints events from any goroutine, whole and one after the other.
type report struct {
	mu   sync.Mutex // guards the fields below
	out  io.Writer
	json bool
	err  error // the first one; after it nothing more is written
}

func newReport(out io.Writer, asJSON bool) *report {
	return &report{out: out, json: asJSON}
}

func (r *report) print(e event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.err != nil:
	case r.json:
		r.err = json.NewEncoder(r.out).Encode(map[string]event{e.kind(): e})
	default:
		_, r.err = io.WriteString(r.out, e.text())
	}
}

// settingsEvent comes first.
type settingsEvent struct {
	Rate     int              `json:"rate"`
	Length   float64          `json:"length_seconds"`
	Timeout  float64          `json:"timeout_seconds"`
	Bulkhead int              `json:"bulkhead_limit"`
	Breaker  seawall.Settings `json:"breaker"`
	Page     string           `json:"page,omitempty"` // where it can be watched
}

func (settingsEvent) kind() string { return "settings" }

func (e settingsEvent) text() string {
	text := fmt.Sprintf(`Two clients send %d requests a second each, every one to a server of its own, for %v s.
  bare:    a timeout of %v
  guarded: a breaker, in it a bulkhead of %d calls, in it the same timeout
`, e.Rate, e.Length, callTimeout, e.Bulkhead)
	if e.Page != "" {
		text += "  to watch its guards: " + e.Page + "\n"
	}
	return text
}

// phaseEvent says that the servers have changed.
type phaseEvent struct {
	Elapsed float64 `json:"elapsed_seconds"`
	Servers string  `json:"servers"`
	title   string
}

func (phaseEvent) kind() string { return "phase" }

func (e phaseEvent) text() string {
	return fmt.Sprintf("\n%s  %s\n", at(e.Elapsed), e.title) +
		fmt.Sprintf("%9s | %-32s | %s\n", "", "bare client", "guarded client") +
		fmt.Sprintf(columns, "", "ok", "failed", "in flight", "p99", "state", "ok", "failed", "rejected", "in flight", "p99")
}

// columns is the layout of the live lines and of the heading over them.
const columns = "%9s | %5v %7v %10v %7s | %-9s %5v %7v %9v %10v %7s\n"

// secondEvent is the live line: what came of the calls that ended in the last second.
type secondEvent struct {
	Elapsed float64       `json:"elapsed_seconds"`
	Servers string        `json:"servers"`
	Bare    second        `json:"bare"`
	Guarded guardedSecond `json:"guarded"`
}

type second struct {
	OK       int     `json:"ok"`
	Failed   int     `json:"failed"`
	Rejected int     `json:"rejected"`
	InFlight int     `json:"in_flight"`
	P99      float64 `json:"p99_seconds"`
}

type guardedSecond struct {
	State string `json:"state"`
	second
}

func newSecond(t *tally) second {
	c, inFlight, p99 := t.takeSecond()
	return second{OK: c.ok, Failed: c.failed, Rejected: c.rejected, InFlight: inFlight, P99: seconds(p99)}
}

func (secondEvent) kind() string { return "second" }

func (e secondEvent) text() string {
	b, g := e.Bare, e.Guarded
	return fmt.Sprintf(columns, at(e.Elapsed), b.OK, b.Failed, b.InFlight, milliseconds(b.P99),
		g.State, g.OK, g.Failed, g.Rejected, g.InFlight, milliseconds(g.P99))
}

// changeEvent is a state change of the breaker.
type changeEvent struct {
	Elapsed    float64 `json:"elapsed_seconds"`
	From       string  `json:"from"`
	To         string  `json:"to"`
	Reason     string  `json:"reason"`
	Generation uint64  `json:"generation"`
	Calls      uint64  `json:"calls"`
	Failures   uint64  `json:"failures"`
	Err        string  `json:"error,omitempty"`
}

func newChange(change seawall.StateChange, elapsed time.Duration) changeEvent {
	return changeEvent{
		Elapsed:    seconds(elapsed),
		From:       change.From.String(),
		To:         change.To.String(),
		Reason:     change.Reason.String(),
		Generation: change.Generation,
		Calls:      change.Calls,
		Failures:   change.Failures,
		Err:        cause(change.Err),
	}
}

// cause is the error's text without the "Get http://…" that net/http puts before it.
func cause(err error) string {
	if urlErr, ok := errors.AsType[*url.Error](err); ok {
		err = urlErr.Err
	}
	if err == nil {
		return ""
	}
	return err.Error()
}

func (changeEvent) kind() string { return "change" }

func (e changeEvent) text() string {
	line := fmt.Sprintf("%s  breaker: %s -> %s, %s", at(e.Elapsed), e.From, e.To, e.Reason)
	if e.Err != "" {
		line += ": " + e.Err
	}
	return clip(line) + "\n"
}

// summaryEvent comes last.
type summaryEvent struct {
	Interrupted bool           `json:"interrupted"`
	Bare        sideSummary    `json:"bare"`
	Guarded     guardedSummary `json:"guarded"`
}

type sideSummary struct {
	Requests     int     `json:"requests"`
	OK           int     `json:"ok"`
	Failed       int     `json:"failed"`
	Rejected     int     `json:"rejected"`
	SickRequests int     `json:"sick_requests"`
	Lost         float64 `json:"lost_seconds"`
}

type guardedSummary struct {
	sideSummary
	RejectedFull   int      `json:"rejected_full"`
	Cooldown       float64  `json:"cooldown_seconds"`
	OpenedAfter    *float64 `json:"opened_after_seconds"`    // null: it didn't
	RecoveredAfter *float64 `json:"recovered_after_seconds"` // null: it didn't
}

func newSideSummary(s side) sideSummary {
	c := s.client.tally.sum()
	return sideSummary{
		Requests:     c.ok + c.failed + c.rejected,
		OK:           c.ok,
		Failed:       c.failed,
		Rejected:     c.rejected,
		SickRequests: s.server.sickRequests(),
		Lost:         seconds(c.lost),
	}
}

func (summaryEvent) kind() string { return "summary" }

func (e summaryEvent) text() string {
	b, g := e.Bare, e.Guarded
	var table strings.Builder
	row := func(title string, bare, guarded any) {
		fmt.Fprintf(&table, "%-48s %14v %16v\n", title, bare, guarded)
	}
	if e.Interrupted {
		table.WriteString("\nInterrupted. Up to then:\n")
	}
	table.WriteString("\n")
	row("", "bare client", "guarded client")
	row("requests", b.Requests, g.Requests)
	row("requests that were answered", b.OK, g.OK)
	row("requests that failed", b.Failed, g.Failed)
	row("requests that were rejected, never sent", b.Rejected, g.Rejected)
	row("requests that reached the sick server", b.SickRequests, g.SickRequests)
	row("time lost waiting for nothing, over all callers", fmt.Sprintf("%.1f s", b.Lost), fmt.Sprintf("%.1f s", g.Lost))
	row("time to open, from the start of the outage", "-", orNever(g.OpenedAfter))
	row("time to recover, from the end of the outage", "-", orNever(g.RecoveredAfter))
	if b.SickRequests > 0 {
		fmt.Fprintf(&table, "\nOf 100 requests that the bare client sent to the sick server, the guarded client sent %.1f.\n",
			100*float64(g.SickRequests)/float64(b.SickRequests))
	}
	return table.String()
}

func orNever(seconds *float64) string {
	if seconds == nil {
		return "never"
	}
	return fmt.Sprintf("%.2f s", *seconds)
}

func at(seconds float64) string { return fmt.Sprintf("%7.2f s", seconds) }

func milliseconds(seconds float64) string { return fmt.Sprintf("%.0f ms", seconds*1000) }

// clip cuts what is right of the last column; the texts of network errors can be long.
func clip(line string) string {
	if runes := []rune(line); len(runes) > width {
		return string(runes[:width-1]) + "…"
	}
	return line
}

// seconds rounds to a tenth of a millisecond.
func seconds(d time.Duration) float64 { return math.Round(d.Seconds()*1e4) / 1e4 }
