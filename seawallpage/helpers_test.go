package seawallpage_test

import (
	"context"
	"errors"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seawall-go/seawall"
	"github.com/seawall-go/seawall/seawallpage"
)

func TestMain(m *testing.M) {
	time.Local = time.UTC // The JSON and the page tell times in the server's zone.
	goleak.VerifyTestMain(m)
}

var errBoom = errors.New("boom")

func ok(context.Context) error  { return nil }
func bad(context.Context) error { return errBoom }

// do runs functions one after the other.
func do(p seawall.Policy, fns ...func(context.Context) error) {
	for _, fn := range fns {
		_ = p.Do(context.Background(), fn)
	}
}

// times runs one function n times.
func times(n int, p seawall.Policy, fn func(context.Context) error) {
	for range n {
		do(p, fn)
	}
}

// fakeClock stands still until a test moves it.
type fakeClock struct {
	mu  sync.Mutex
	now time.Time
}

// newClock returns a clock that is behind the real one, by which the page goes, so that a test has time to pass.
func newClock(behind time.Duration) *fakeClock { return &fakeClock{now: time.Now().Add(-behind)} }

func (c *fakeClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *fakeClock) After(time.Duration) <-chan time.Time { return nil }

func (c *fakeClock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// br returns a breaker that opens at 3 failures in a row.
func br(t testing.TB, name string, opts ...seawall.BreakerOption) *seawall.Breaker {
	t.Helper()
	b, err := seawall.NewBreaker(name, append([]seawall.BreakerOption{seawall.WithConsecutiveFailures(3)}, opts...)...)
	require.NoError(t, err)
	return b
}

func bh(t testing.TB, name string, limit int, opts ...seawall.BulkheadOption) *seawall.Bulkhead {
	t.Helper()
	b, err := seawall.NewBulkhead(name, limit, opts...)
	require.NoError(t, err)
	return b
}

func newHandler(t testing.TB, opts ...seawallpage.Option) *seawallpage.Handler {
	t.Helper()
	h, err := seawallpage.NewHandler(opts...)
	require.NoError(t, err)
	return h
}

// hold takes n slots until the end of the test.
func hold(t testing.TB, b *seawall.Bulkhead, n int) {
	t.Helper()
	for range n {
		release, err := b.Acquire(t.Context())
		require.NoError(t, err)
		t.Cleanup(release)
	}
}

// visit returns the handler's answer to a request for a path and a query.
func visit(h http.Handler, method, target string) *httptest.ResponseRecorder {
	return serve(h, httptest.NewRequest(method, target, nil))
}

func serve(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	recorder := httptest.NewRecorder()
	h.ServeHTTP(recorder, r)
	return recorder
}

// pageOf returns the page, which must be there.
func pageOf(t testing.TB, h http.Handler, target string) string {
	t.Helper()
	answer := visit(h, http.MethodGet, target)
	require.Equal(t, http.StatusOK, answer.Code, answer.Body)
	assert.Equal(t, "text/html; charset=utf-8", answer.Header().Get("Content-Type"))
	return answer.Body.String()
}

// markup returns a page without what its own script, as it is in another page, says.
func markup(t testing.TB, page, another string) string {
	t.Helper()
	_, script, _ := strings.Cut(another, "<script")
	_, script, _ = strings.Cut(script, ">")
	script, _, _ = strings.Cut(script, "</script>")
	require.Equal(t, 1, strings.Count(page, script))
	return strings.Replace(page, script, "", 1)
}

// post returns the handler's answer to a POST of the page's form, with the headers given as a list of names and values.
func post(h http.Handler, name, action string, headers ...string) *httptest.ResponseRecorder {
	body := strings.NewReader(url.Values{"action": {action}}.Encode())
	request := httptest.NewRequest(http.MethodPost, "/?"+url.Values{"name": {name}}.Encode(), body)
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	return serve(h, request)
}

// text returns what is to be read in the page, with a space for each tag.
func text(page string) string {
	_, page, _ = strings.Cut(page, "<body>")
	page, _, _ = strings.Cut(page, "<script")
	var b strings.Builder
	for part := range strings.SplitSeq(page, "<") {
		_, part, _ = strings.Cut(part, ">")
		b.WriteString(part + " ")
	}
	return strings.ReplaceAll(strings.Join(strings.Fields(html.UnescapeString(b.String())), " "), " ,", ",")
}
