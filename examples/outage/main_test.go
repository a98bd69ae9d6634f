package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seawall-go/seawall/internal/pipes"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The whole run of 15 s, with net/http over pipes in memory, takes a second or two in a bubble, and
// the machine's load doesn't change what comes out.
func TestGuardKeepsLoadOffSickServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lines := runJSON(t, t.Context(), onPipes(pipes.New()))
		s := summaryOf(t, lines)

		assert.False(t, s.Interrupted)
		wantSumsRight(t, s)
		assert.Zero(t, s.Bare.Rejected, "nothing stands before the bare client")
		assert.GreaterOrEqual(t, s.Bare.SickRequests, 6*300-2, "every request of the outage")
		assert.Equal(t, s.Bare.SickRequests, s.Bare.Failed)
		assert.LessOrEqual(t, float64(s.Guarded.SickRequests), 0.1*float64(s.Bare.SickRequests))
		assert.Less(t, s.Guarded.Lost, 0.1*s.Bare.Lost)

		require.NotNil(t, s.Guarded.OpenedAfter)
		require.NotNil(t, s.Guarded.RecoveredAfter)
		assert.Greater(t, *s.Guarded.OpenedAfter, callTimeout.Seconds(), "before a call has timed out nothing is known")
		assert.Less(t, *s.Guarded.OpenedAfter, 1.0)
		assert.Less(t, *s.Guarded.RecoveredAfter, s.Guarded.Cooldown*(1+jitter)+callTimeout.Seconds())
		wantWholeStory(t, lines, s)
	})
}

// Over TCP the numbers hang on the machine, so this asks only for what is always so.
func TestRunOverLoopback(t *testing.T) {
	lines := runJSON(t, t.Context(), loopback(), "-healthy=200ms", "-outage=600ms", "-recovery=300ms", "-rate=100")
	s := summaryOf(t, lines)
	wantSumsRight(t, s)
	assert.Positive(t, s.Bare.SickRequests)
	assert.Positive(t, s.Guarded.SickRequests)
}

func TestInterruptedRunPrintsItsSummary(t *testing.T) {
	for name, test := range map[string]struct {
		after  time.Duration
		opened bool
	}{
		"before the outage": {after: 2 * time.Second},
		"in the outage":     {after: 6500 * time.Millisecond, opened: true},
		"at once":           {after: 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), test.after)
				defer cancel()
				start := time.Now()
				s := summaryOf(t, runJSON(t, ctx, onPipes(pipes.New()), "-rate=100"))

				assert.True(t, s.Interrupted)
				assert.Less(t, time.Since(start), test.after+2*callTimeout, "it waits for the running calls only")
				wantSumsRight(t, s)
				assert.Equal(t, test.opened, s.Guarded.OpenedAfter != nil)
				assert.Nil(t, s.Guarded.RecoveredAfter)
			})
		})
	}
}

func TestTextReadsWellIn100Columns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stdout bytes.Buffer
		require.NoError(t, run(t.Context(), []string{"-rate=100"}, onPipes(pipes.New()), &stdout))
		wantPlainText(t, stdout.String())
		for _, words := range []string{
			"OUTAGE", "breaker: closed -> open, consecutive_failures", "requests that reached the sick server",
		} {
			assert.Contains(t, stdout.String(), words)
		}
	})
}

func TestLongLinesFit100Columns(t *testing.T) {
	wantPlainText(t, secondEvent{
		Elapsed: 1799.99,
		Bare:    second{OK: maxRate, Failed: maxRate, InFlight: maxRate, P99: 0.999},
		Guarded: guardedSecond{State: "half-open", second: second{OK: maxRate, Rejected: maxRate, InFlight: maxRate, P99: 0.999}},
	}.text())
	wantPlainText(t, changeEvent{From: "half-open", To: "open", Reason: "probe_failed", Err: strings.Repeat("é", 100)}.text())
}

func TestInterruptedTextEndsWithTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		var stdout bytes.Buffer
		require.NoError(t, run(ctx, []string{"-rate=100"}, onPipes(pipes.New()), &stdout))
		assert.Contains(t, stdout.String(), "Interrupted")
		assert.Contains(t, stdout.String(), "never")
	})
}

func TestHelp(t *testing.T) {
	var stdout bytes.Buffer
	require.NoError(t, run(t.Context(), []string{"-help"}, loopback(), &stdout))
	wantPlainText(t, stdout.String())
	for _, flag := range []string{"-json", "-page", "-rate", "-healthy", "-outage", "-recovery"} {
		assert.Contains(t, stdout.String(), "\n  "+flag)
	}
}

func TestBadFlags(t *testing.T) {
	for args, want := range map[string][]string{
		"-speed=3":                 {"-speed"},
		"-rate=fast":               {"-rate", `"fast"`},
		"-rate=0":                  {"-rate 0", "from 1 to 1000"},
		"-rate=1001 -outage=-1s":   {"-rate 1001", "-outage -1s", "above 0 and at most 10m0s"},
		"-healthy=0s -recovery=1h": {"-healthy 0s", "-recovery 1h0m0s"},
		"-page=8080":               {"-page 8080", "must be host:port or :port"},
		"now":                      {`unexpected argument "now"`},
	} {
		t.Run(args, func(t *testing.T) {
			var stdout bytes.Buffer
			err := run(t.Context(), strings.Fields(args), loopback(), &stdout)
			assert.Equal(t, 2, exitCode(err))
			assert.Empty(t, stdout.String())
			for _, words := range append(want, "Try -help.") {
				assert.ErrorContains(t, err, words)
			}
		})
	}
}

func TestBrokenOutputIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out brokenWriter
		err := run(t.Context(), []string{"-rate=10"}, onPipes(pipes.New()), &out)
		assert.ErrorContains(t, err, "no space left")
		assert.EqualValues(t, 1, out, "after the first failure nothing more is written")
		assert.Equal(t, 1, exitCode(err))
	})
}

func TestListenerThatCannotBeOpenedIsAnError(t *testing.T) {
	for _, good := range []int{0, 1, 2} {
		lan := pipes.New()
		network := onPipes(lan)
		network.listen = func(address string) (net.Listener, error) {
			if good == 0 {
				return nil, errors.New("no address left")
			}
			good--
			return lan.Listen(address)
		}
		err := run(t.Context(), []string{"-page=:80"}, network, io.Discard)
		assert.ErrorContains(t, err, "no address left")
		assert.Equal(t, 1, exitCode(err))
	}
}

func TestPercentile(t *testing.T) {
	upTo := func(n int) (values []time.Duration) {
		for i := n; i > 0; i-- {
			values = append(values, time.Duration(i))
		}
		return values
	}
	for n, want := range map[int]time.Duration{0: 0, 1: 1, 2: 2, 99: 99, 100: 99, 101: 100, 200: 198, 1000: 990} {
		assert.Equal(t, want, percentile(upTo(n), 99), "of %d", n)
	}
}

// wantWholeStory wants the lines before the summary to agree with it.
func wantWholeStory(t *testing.T, lines []jsonLine, s summaryEvent) {
	t.Helper()
	require.Len(t, ofKind[settingsEvent](t, lines), 1)

	var servers []string
	for _, p := range ofKind[phaseEvent](t, lines) {
		servers = append(servers, p.Servers)
	}
	assert.Equal(t, []string{"healthy", "hanging", "failing", "healthy"}, servers)

	seconds := ofKind[secondEvent](t, lines)
	require.Len(t, seconds, 15)
	var ok, failed, rejected int
	for _, second := range seconds {
		ok += second.Guarded.OK
		failed += second.Guarded.Failed
		rejected += second.Guarded.Rejected
	}
	assert.Equal(t, []int{s.Guarded.OK, s.Guarded.Failed, s.Guarded.Rejected}, []int{ok, failed, rejected})
	last := seconds[len(seconds)-1]
	assert.Equal(t, "closed", last.Guarded.State)
	assert.Zero(t, last.Bare.InFlight)
	assert.Zero(t, last.Guarded.InFlight)

	changes := ofKind[changeEvent](t, lines)
	require.NotEmpty(t, changes)
	assert.Equal(t, "consecutive_failures", changes[0].Reason)
	assert.Equal(t, "probes_succeeded", changes[len(changes)-1].Reason)
	state := "closed"
	for i, change := range changes {
		assert.Equal(t, state, change.From)
		assert.EqualValues(t, i+1, change.Generation)
		state = change.To
	}
}

// wantSumsRight holds what is so in every run: both clients sent the same, and each request had one
// end.
func wantSumsRight(t *testing.T, s summaryEvent) {
	t.Helper()
	assert.Equal(t, s.Bare.Requests, s.Guarded.Requests)
	for _, side := range []sideSummary{s.Bare, s.Guarded.sideSummary} {
		assert.Equal(t, side.Requests, side.OK+side.Failed+side.Rejected)
		assert.LessOrEqual(t, side.SickRequests, side.Requests-side.Rejected)
	}
	assert.LessOrEqual(t, s.Guarded.RejectedFull, s.Guarded.Rejected)
}

func wantPlainText(t *testing.T, text string) {
	t.Helper()
	for line := range strings.Lines(text) {
		assert.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), 100, line)
		assert.NotContains(t, line, "\x1b", "no terminal codes")
	}
	assert.NotContains(t, text, "%!", "a verb without its value")
}

// jsonLine is one line of the -json output.
type jsonLine map[string]json.RawMessage

// runJSON runs the experiment with -json and wants nothing but JSON lines on stdout.
func runJSON(t *testing.T, ctx context.Context, network network, args ...string) (lines []jsonLine) {
	t.Helper()
	var stdout bytes.Buffer
	require.NoError(t, run(ctx, append(args, "-json"), network, &stdout))
	for text := range bytes.Lines(stdout.Bytes()) {
		var line jsonLine
		require.NoError(t, json.Unmarshal(text, &line), "%s", text)
		require.Len(t, line, 1, "%s", text)
		lines = append(lines, line)
	}
	return lines
}

// ofKind returns the events of one kind, in order.
func ofKind[E event](t *testing.T, lines []jsonLine) (events []E) {
	t.Helper()
	for _, line := range lines {
		var e E
		if body, ok := line[e.kind()]; ok {
			require.NoError(t, json.Unmarshal(body, &e))
			events = append(events, e)
		}
	}
	return events
}

// summaryOf wants the summary to be the last line and nowhere else.
func summaryOf(t *testing.T, lines []jsonLine) summaryEvent {
	t.Helper()
	require.Len(t, ofKind[summaryEvent](t, lines), 1)
	last := ofKind[summaryEvent](t, lines[len(lines)-1:])
	require.Len(t, last, 1)
	return last[0]
}

// brokenWriter fails, and counts how often it was asked to write.
type brokenWriter int

func (w *brokenWriter) Write([]byte) (int, error) {
	*w++
	return 0, errors.New("no space left")
}

// onPipes is the network of the program under test, in memory.
func onPipes(lan *pipes.Network) network { return network{listen: lan.Listen, dial: lan.Dial} }
