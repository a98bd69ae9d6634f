package seawallhttp

import (
	"errors"
	"math"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/seawall-go/seawall"
)

// parseRetryAfter reads the value of a header Retry-After: a number of seconds or one of the three forms of a date. What
// is neither, and a date that has passed, ask for no wait.
func parseRetryAfter(value string, now time.Time) time.Duration {
	if strings.Trim(value, "0123456789") == "" {
		return parseSeconds(value)
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	return max(0, at.Sub(now))
}

// parseSeconds takes digits, or nothing. More of them than fit are a wait without end; the breaker has a limit.
func parseSeconds(digits string) time.Duration {
	seconds, _ := strconv.ParseUint(digits, 10, 64) // The largest number if there are too many.
	return time.Duration(min(seconds, math.MaxInt64/uint64(time.Second))) * time.Second
}

// retryAfterValue is the header Retry-After of an answer that says err: the time for which a breaker stays open, and
// else 1 to 3 seconds at random, so that those who are told to come back don't come back together.
func retryAfterValue(err error) string {
	if open, ok := errors.AsType[*seawall.OpenError](err); ok {
		return strconv.FormatFloat(max(1, math.Ceil(open.RetryAfter().Seconds())), 'f', 0, 64)
	}
	return strconv.Itoa(1 + rand.IntN(3))
}
