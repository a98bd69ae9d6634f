package seawallhttp_test

import (
	"context"
	"errors"
	"math"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seawall-go/seawall"
	"github.com/seawall-go/seawall/seawallhttp"
)

// asked returns what a breaker is told that a 503 with these values of Retry-After asks for.
func asked(t *testing.T, values ...string) (wait time.Duration) {
	t.Helper()
	b, err := seawall.NewBreaker("", seawall.WithClassifier(func(_ context.Context, err error) seawall.Outcome {
		status, ok := errors.AsType[*seawallhttp.StatusError](err)
		require.True(t, ok)
		wait = status.RetryAfter()
		return seawall.Failure
	}))
	require.NoError(t, err)
	transport := over(t, roundTripper(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 503, Header: http.Header{"Retry-After": values}, Body: http.NoBody}, nil
	}), seawallhttp.WithBreaker(b))
	_, err = transport.RoundTrip(request(t, http.MethodGet, "http://host", nil))
	require.NoError(t, err)
	return wait
}

func TestRetryAfterForms(t *testing.T) {
	for value, want := range map[string]time.Duration{
		// Seconds.
		"0":                                      0,
		"1":                                      time.Second,
		"007":                                    7 * time.Second,
		"3600":                                   time.Hour,
		"9223372036":                             math.MaxInt64 / time.Second * time.Second,
		"9223372037":                             math.MaxInt64 / time.Second * time.Second,
		"18446744073709551616":                   math.MaxInt64 / time.Second * time.Second,
		"99999999999999999999999999999999999999": math.MaxInt64 / time.Second * time.Second,

		// The three forms of a date. The bubble's time begins with the year 2000.
		"Sat, 01 Jan 2000 00:01:30 GMT":    90 * time.Second,
		"Saturday, 01-Jan-00 00:01:30 GMT": 90 * time.Second,
		"Sat Jan  1 00:01:30 2000":         90 * time.Second,
		"Fri, 31 Dec 1999 23:59:59 GMT":    0,
		"Sat, 01 Jan 2000 00:00:00 GMT":    0,
		"Fri, 31 Dec 9999 23:59:59 GMT":    math.MaxInt64,

		// Neither.
		"":                              0,
		" ":                             0,
		"-1":                            0,
		"+1":                            0,
		"1.5":                           0,
		"1s":                            0,
		"0x10":                          0,
		"1_000":                         0,
		"١":                             0, // a digit, but not one of HTTP's
		"soon":                          0,
		"Sat, 01 Jan 2000 00:01:30 CET": 0,
		"2000-01-01T00:01:30Z":          0,
	} {
		t.Run(value, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { assert.Equal(t, want, asked(t, value)) })
		})
	}
}

func TestRetryAfterIsAbsentOrTheFirst(t *testing.T) {
	assert.Zero(t, asked(t))
	assert.Equal(t, 2*time.Second, asked(t, "2", "3"))
}

func FuzzRetryAfter(f *testing.F) {
	f.Add("120")
	f.Add("Sat, 01 Jan 2000 00:01:30 GMT")
	f.Fuzz(func(t *testing.T, value string) {
		assert.GreaterOrEqual(t, asked(t, value), time.Duration(0))
	})
}
