package seawall

import (
	"context"
	"log/slog"
)

// WithLogger logs every state change: at level Warn if the breaker opens, else at Info. A record has the attributes
// guard, from, to, reason, failure_ratio, calls (the two of the counts that decided) and trips (openings so far); if the
// breaker opens, unless it was forced, cooldown; and if it was open, rejected, how many calls were rejected meanwhile.
// A rejection is not logged, so that an outage does not fill the log. Nor is the error that opened the breaker: it is
// some caller's. logger is called as the functions of [WithOnStateChange] are, and after those.
// Default: none. Range: not nil.
func WithLogger(logger *slog.Logger) BreakerOption {
	return breakerOption(func(c *breakerConfig) error {
		c.logger = logger
		return notNil("WithLogger", logger == nil)
	})
}

// logTo returns a hook that logs to logger.
func logTo(logger *slog.Logger) func(event) {
	return func(e event) {
		level := slog.LevelInfo
		if e.To == Open {
			level = slog.LevelWarn
		}
		counts := tally{calls: e.Calls, failures: e.Failures}
		attrs := []slog.Attr{
			slog.String("guard", e.Name),
			slog.String("from", e.From.String()),
			slog.String("to", e.To.String()),
			slog.String("reason", e.Reason.String()),
			slog.Float64("failure_ratio", counts.rate()),
			slog.Uint64("calls", e.Calls),
			slog.Uint64("trips", e.opens),
		}
		if e.cooldown > 0 {
			attrs = append(attrs, slog.Duration("cooldown", e.cooldown))
		}
		if e.From == Open {
			attrs = append(attrs, slog.Uint64("rejected", e.rejected))
		}
		logger.LogAttrs(context.Background(), level, "seawall: breaker changed its state", attrs...)
	}
}
