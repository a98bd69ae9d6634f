package seawall_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seawall-go/seawall"
)

// logbook keeps what a logger was told: a line for each record, without time and message.
type logbook struct{ text bytes.Buffer }

func (l *logbook) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(&l.text, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey || a.Key == slog.MessageKey {
				return slog.Attr{}
			}
			return a
		},
	}))
}

// want compares what is new in the logbook.
func (l *logbook) want(t *testing.T, lines ...string) {
	t.Helper()
	assert.Equal(t, lines, strings.Split(strings.TrimSuffix(l.text.String(), "\n"), "\n"))
	l.text.Reset()
}

func TestLoggerTellsEachChangeAndNoRejection(t *testing.T) {
	t.Parallel()
	var log logbook
	clk := newClock()
	b := br(t, clk, seawall.WithFailureRate(0.5, 8), seawall.WithBackoff(time.Minute), seawall.WithLogger(log.logger()))

	wantAdmitted(t, b)
	trip(t, b)
	log.want(t, "level=WARN guard=br from=closed to=open reason=consecutive_failures failure_ratio=0.75 calls=4 trips=1 cooldown=10s")
	for range 7 {
		wantRejected(t, b)
	}
	assert.Empty(t, log.text.String(), "a rejection is not logged")

	clk.Advance(cooldown)
	require.ErrorIs(t, do(b, bad), errBoom)
	log.want(t,
		"level=INFO guard=br from=open to=half-open reason=cooldown_over failure_ratio=0 calls=0 trips=1 rejected=7",
		"level=WARN guard=br from=half-open to=open reason=probe_failed failure_ratio=1 calls=1 trips=2 cooldown=20s")

	clk.Advance(2 * cooldown)
	probe := hold(t, b)
	wantRejected(t, b)
	require.NoError(t, probe.finish(nil))
	log.want(t,
		"level=INFO guard=br from=open to=half-open reason=cooldown_over failure_ratio=0 calls=0 trips=2 rejected=0",
		"level=INFO guard=br from=half-open to=closed reason=probes_succeeded failure_ratio=0 calls=1 trips=2")

	b.ForceOpen()
	wantRejected(t, b)
	b.Reset()
	log.want(t,
		"level=WARN guard=br from=closed to=open reason=forced failure_ratio=0 calls=0 trips=3",
		"level=INFO guard=br from=open to=closed reason=reset failure_ratio=0 calls=0 trips=3 rejected=1")
}

// The cooldown is how long the breaker is really open, with all that has a say in it.
func TestLoggerTellsTheCooldownInForce(t *testing.T) {
	t.Parallel()
	answer := func(d time.Duration) seawall.BreakerOption {
		return seawall.WithCooldownFunc(func(seawall.Trip) time.Duration { return d })
	}
	for want, c := range map[time.Duration]struct {
		opt seawall.BreakerOption
		err error
	}{
		7 * time.Second:  {answer(7 * time.Second), errBoom},
		10 * time.Second: {answer(0), errBoom},
		30 * time.Second: {answer(7 * time.Second), askingError{wait: 30 * time.Second}},
		40 * time.Second: {seawall.WithMaxRetryAfter(40 * time.Second), askingError{wait: time.Minute}},
	} {
		var log logbook
		b := br(t, newClock(), seawall.WithConsecutiveFailures(1), seawall.WithLogger(log.logger()), c.opt)
		require.Equal(t, c.err, do(b, returns(c.err)))
		log.want(t, fmt.Sprintf("level=WARN guard=br from=closed to=open reason=consecutive_failures failure_ratio=1 calls=1 "+
			"trips=1 cooldown=%v", want))
		assert.Equal(t, want, b.Snapshot().RetryAfter)
	}
}

// In mode Observe the log tells what would have been rejected.
func TestLoggerTellsWhatObserveWouldReject(t *testing.T) {
	t.Parallel()
	var log logbook
	b := br(t, newClock(), seawall.WithMode(seawall.Observe), seawall.WithLogger(log.logger()))
	trip(t, b)
	for range 5 {
		wantAdmitted(t, b)
	}
	log.text.Reset()
	b.Reset()
	log.want(t, "level=INFO guard=br from=open to=closed reason=reset failure_ratio=0 calls=0 trips=1 rejected=5")
}

func TestOfTwoLoggersTheLastOneHolds(t *testing.T) {
	t.Parallel()
	var first, last logbook
	var j journal
	b := br(t, newClock(), seawall.WithLogger(first.logger()), j.hook(), seawall.WithLogger(last.logger()))
	b.ForceOpen()
	assert.Empty(t, first.text.String())
	assert.NotEmpty(t, last.text.String())
	assert.Len(t, j.all(), 1, "a hook goes on beside it")
}

func TestNilLogger(t *testing.T) {
	t.Parallel()
	_, err := seawall.NewBreaker("b", seawall.WithLogger(nil))
	require.EqualError(t, err, "seawall: WithLogger: the argument must not be nil")
}
