package retry_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/cenkalti/backoff/v5"
	"github.com/hashicorp/go-retryablehttp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seawall-go/seawall"
	"github.com/seawall-go/seawall/examples/retry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	tries = 10
	few   = 3 // where all of them are made
	pause = time.Millisecond
	trip  = 3 // failures in a row that open the breaker
)

// server answers 500 to as many requests as it is told to, and then 200.
type server struct {
	*httptest.Server
	requests, failures atomic.Int64
}

// forever is more failures than any test has patience for.
const forever = 1 << 40

func start(t *testing.T, failures int64) *server {
	t.Helper()
	s := &server{}
	s.failures.Store(failures)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		s.requests.Add(1)
		if s.failures.Add(-1) >= 0 {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// wantRequests wants so many requests since it was last asked.
func (s *server) wantRequests(t *testing.T, want int64) {
	t.Helper()
	assert.Equal(t, want, s.requests.Swap(0), "requests that reached the server")
}

// get is the function that is guarded and repeated.
func (s *server) get(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL, nil)
	if err != nil {
		return err
	}
	response, err := s.Client().Do(request)
	if err != nil {
		return err
	}
	return judge(response)
}

// getBy is get through a client that repeats by itself.
func (s *server) getBy(ctx context.Context, client *retryablehttp.Client) error {
	request, err := retryablehttp.NewRequestWithContext(ctx, http.MethodGet, s.URL, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	return judge(response)
}

func judge(response *http.Response) error {
	_, err := io.Copy(io.Discard, response.Body)
	if response.StatusCode != http.StatusOK {
		err = errors.Join(err, fmt.Errorf("the server answered %s", response.Status))
	}
	return errors.Join(err, response.Body.Close())
}

func newBreaker(t *testing.T, opts ...seawall.BreakerOption) *seawall.Breaker {
	t.Helper()
	b, err := seawall.NewBreaker("server", append(opts, seawall.WithConsecutiveFailures(trip))...)
	require.NoError(t, err)
	return b
}

// call is a call of the server through a breaker and a loop of a library.
type call func(context.Context) error

// makers make a call in one of the orders, for each library.
type makers map[string]func(*testing.T, *server, *seawall.Breaker) call

func (m makers) each(t *testing.T, test func(*testing.T, func(*testing.T, *server, *seawall.Breaker) call)) {
	t.Helper()
	for library, maker := range m {
		t.Run(library, func(t *testing.T) { test(t, maker) })
	}
}

// breakerAround is the order of design: the breaker, and in it the retries.
func breakerAround() makers {
	around := func(retries seawall.Policy) func(*testing.T, *server, *seawall.Breaker) call {
		return func(_ *testing.T, s *server, b *seawall.Breaker) call {
			chain := seawall.Chain(b, retries)
			return func(ctx context.Context) error { return chain.Do(ctx, s.get) }
		}
	}
	return makers{
		"cenkalti/backoff":   around(retry.CenkaltiStops(few, pause)),
		"avast/retry-go":     around(retry.AvastStops(few, pause)),
		"sethvargo/go-retry": around(retry.SethvargoStops(few, pause)),
		"hashicorp/go-retryablehttp": func(_ *testing.T, s *server, b *seawall.Breaker) call {
			client := retry.Hashicorp(s.Client().Transport, few, pause)
			return func(ctx context.Context) error {
				return b.Do(ctx, func(ctx context.Context) error { return s.getBy(ctx, client) })
			}
		},
	}
}

// retriesAroundStop is the other order, with loops that end when they are rejected.
func retriesAroundStop() makers {
	return makers{
		"cenkalti/backoff":   inside(retry.CenkaltiStops(tries, pause)),
		"avast/retry-go":     inside(retry.AvastStops(tries, pause)),
		"sethvargo/go-retry": inside(retry.SethvargoStops(tries, pause)),
		"hashicorp/go-retryablehttp": func(t *testing.T, s *server, b *seawall.Breaker) call {
			client, err := retry.HashicorpStops(s.Client().Transport, b, tries, pause)
			require.NoError(t, err)
			return func(ctx context.Context) error { return s.getBy(ctx, client) }
		},
	}
}

// retriesAroundWait is the other order, with loops that wait while the breaker is open.
func retriesAroundWait() makers {
	return makers{
		"cenkalti/backoff":   inside(retry.CenkaltiWaits(tries, pause)),
		"avast/retry-go":     inside(retry.AvastWaits(tries, pause)),
		"sethvargo/go-retry": inside(retry.SethvargoWaits(tries, pause)),
		"hashicorp/go-retryablehttp": func(t *testing.T, s *server, b *seawall.Breaker) call {
			client, err := retry.HashicorpWaits(s.Client().Transport, b, tries, pause)
			require.NoError(t, err)
			return func(ctx context.Context) error { return s.getBy(ctx, client) }
		},
	}
}

func inside(retries seawall.Policy) func(*testing.T, *server, *seawall.Breaker) call {
	return func(_ *testing.T, s *server, b *seawall.Breaker) call {
		chain := seawall.Chain(retries, b)
		return func(ctx context.Context) error { return chain.Do(ctx, s.get) }
	}
}

// With the breaker around the retries a whole loop is one result, and an open breaker costs no request at all.
func TestBreakerAroundRetries(t *testing.T) {
	breakerAround().each(t, func(t *testing.T, maker func(*testing.T, *server, *seawall.Breaker) call) {
		clk := clock.NewMock()
		s, b := start(t, forever), newBreaker(t, seawall.WithClock(clk))
		call := maker(t, s, b)
		for range trip {
			require.Error(t, call(t.Context()))
			s.wantRequests(t, few)
		}
		for range 5 {
			require.ErrorIs(t, call(t.Context()), seawall.ErrOpen)
			s.wantRequests(t, 0)
		}
		assert.EqualValues(t, trip, b.Snapshot().Totals.Failures)

		clk.Add(b.Settings().Cooldown)
		s.failures.Store(few - 1) // The probe's first tries; they are not the probe's result.
		require.NoError(t, call(t.Context()))
		s.wantRequests(t, few)
		assert.Equal(t, seawall.Closed, b.State())
		totals := b.Snapshot().Totals
		assert.EqualValues(t, 1, totals.Successes)
		assert.EqualValues(t, trip, totals.Failures)
		assert.EqualValues(t, 5, totals.Rejected)
	})
}

// With the retries around the breaker each try is a result. A loop that stops makes no try after the first rejection, and
// a loop that begins while the breaker is open makes none at all.
func TestRetriesThatStop(t *testing.T) {
	retriesAroundStop().each(t, func(t *testing.T, maker func(*testing.T, *server, *seawall.Breaker) call) {
		clk := clock.NewMock()
		s, b := start(t, forever), newBreaker(t, seawall.WithClock(clk))
		call := maker(t, s, b)
		err := call(t.Context())
		require.ErrorIs(t, err, seawall.ErrOpen)
		_, ok := errors.AsType[*seawall.OpenError](err)
		assert.True(t, ok)
		s.wantRequests(t, trip)
		assert.EqualValues(t, 1, b.Snapshot().Totals.Rejected)
		for i := range 5 {
			require.ErrorIs(t, call(t.Context()), seawall.ErrOpen)
			s.wantRequests(t, 0)
			assert.EqualValues(t, i+2, b.Snapshot().Totals.Rejected)
		}

		clk.Add(b.Settings().Cooldown)
		s.failures.Store(0)
		require.NoError(t, call(t.Context()))
		s.wantRequests(t, 1)

		s.failures.Store(trip - 1) // Fewer than open it: the loop makes up for them.
		require.NoError(t, call(t.Context()))
		s.wantRequests(t, trip)
		assert.Equal(t, seawall.Closed, b.State())
	})
}

// A loop that waits asks the breaker once, waits as long as it says, and then makes the probe. It doesn't ask in between. On
// a busy machine the cooldown may be over before it asks at all.
func TestRetriesThatWait(t *testing.T) {
	const cooldown = 50 * time.Millisecond
	retriesAroundWait().each(t, func(t *testing.T, maker func(*testing.T, *server, *seawall.Breaker) call) {
		s, b := start(t, trip), newBreaker(t, seawall.WithCooldown(cooldown))
		call := maker(t, s, b)
		require.NoError(t, call(t.Context()))
		s.wantRequests(t, trip+1)
		totals := b.Snapshot().Totals
		assert.LessOrEqual(t, totals.Rejected, uint64(1), "each rejection is a turn of the loop")
		assert.GreaterOrEqual(t, totals.TimeOpen, cooldown)
		assert.Equal(t, seawall.Closed, b.State())

		s.failures.Store(trip + 1) // The probe fails too: another cooldown, another rejection.
		require.NoError(t, call(t.Context()))
		s.wantRequests(t, trip+2)
		assert.LessOrEqual(t, b.Snapshot().Totals.Rejected, uint64(3))
	})
}

// Who has less time than the breaker's wait learns that at once, and not when the time is over.
func TestNoWaitBeyondTheDeadline(t *testing.T) {
	loops := retriesAroundWait()
	delete(loops, "hashicorp/go-retryablehttp") // It doesn't look at the deadline before it waits.
	loops.each(t, func(t *testing.T, maker func(*testing.T, *server, *seawall.Breaker) call) {
		s, b := start(t, forever), newBreaker(t, seawall.WithCooldown(time.Hour))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.ErrorIs(t, maker(t, s, b)(ctx), seawall.ErrOpen)
		require.NoError(t, ctx.Err())
		s.wantRequests(t, trip)
		assert.EqualValues(t, 1, b.Snapshot().Totals.Rejected)
	})
}

// What the other tests guard against: a loop that takes a rejection for a failure like any other burns all its tries.
func TestLoopThatKnowsNothing(t *testing.T) {
	naive := seawall.PolicyFunc(func(ctx context.Context, fn func(context.Context) error) error {
		_, err := backoff.Retry(ctx, func() (struct{}, error) { return struct{}{}, fn(ctx) },
			backoff.WithMaxTries(tries), backoff.WithBackOff(backoff.NewConstantBackOff(pause)))
		return err
	})
	s, b := start(t, forever), newBreaker(t)
	require.ErrorIs(t, inside(naive)(t, s, b)(t.Context()), seawall.ErrOpen)
	s.wantRequests(t, trip)
	assert.EqualValues(t, tries-trip, b.Snapshot().Totals.Rejected)
}

// An upload is repeated whole, and a rejected one is closed.
func TestHashicorpWithABody(t *testing.T) {
	var got []string
	sick := true
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		got = append(got, string(text))
		if sick {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	defer s.Close()
	b := newBreaker(t)
	client, err := retry.HashicorpStops(s.Client().Transport, b, tries, pause)
	require.NoError(t, err)
	_, err = client.Post(s.URL, "text/plain", []byte("hello"))
	require.ErrorIs(t, err, seawall.ErrOpen)
	b.Reset()
	sick = false
	response, err := client.Post(s.URL, "text/plain", []byte("hello"))
	require.NoError(t, err)
	require.NoError(t, judge(response))
	assert.Equal(t, []string{"hello", "hello", "hello", "hello"}, got)
}
