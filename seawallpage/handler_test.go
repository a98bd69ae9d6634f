package seawallpage_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seawall-go/seawall"
	"github.com/seawall-go/seawall/seawallpage"
)

func TestNewHandlerReportsEveryFault(t *testing.T) {
	h, err := seawallpage.NewHandler(
		seawallpage.Breakers(br(t, "a"), nil),
		nil,
		seawallpage.Bulkheads(nil, bh(t, "b", 1), nil),
		seawallpage.Group[string]("hosts", nil),
		seawallpage.WithControl(),
	)
	assert.Nil(t, h)
	assert.EqualError(t, err, `seawallpage: Breakers: number 2 of 2 is nil
seawallpage: option 2 of the list is nil
seawallpage: Bulkheads: number 1 of 3 is nil
seawallpage: Bulkheads: number 3 of 3 is nil
seawallpage: Group "hosts": the group must not be nil`)
}

func TestHandlerThatWasNotMadePanics(t *testing.T) {
	for _, h := range []*seawallpage.Handler{nil, {}} {
		assert.PanicsWithValue(t, "seawallpage: use of a Handler that was not made by NewHandler", func() {
			visit(h, http.MethodGet, "/")
		})
	}
}

func TestRequestsAreAnsweredClearly(t *testing.T) {
	page := []seawallpage.Option{seawallpage.Breakers(br(t, "payments")), seawallpage.Bulkheads(bh(t, "slots", 1))}
	readOnly := newHandler(t, page...)
	controlled := newHandler(t, append(page, seawallpage.WithControl())...)
	for _, test := range []struct {
		handler        http.Handler
		method, target string
		status         int
		allow, says    string
	}{
		{readOnly, "GET", "/", 200, "", "<!doctype html>"},
		{readOnly, "HEAD", "/", 200, "", ""},
		{readOnly, "GET", "/?name=payments", 200, "", "<!doctype html>"},
		{readOnly, "GET", "/?utm=1", 200, "", "<!doctype html>"},
		{readOnly, "GET", "/?name=nobody", 404, "", "no guard has the name &#34;nobody&#34;"},
		{readOnly, "GET", "/?name=", 404, "", "no guard has the name &#34;&#34;"},
		{readOnly, "GET", "/guards.json", 200, "", `"guards": [`},
		{readOnly, "HEAD", "/guards.json", 200, "", ""},
		{readOnly, "GET", "/guards.json?name=nobody", 404, "", `"error": "no guard has the name \"nobody\""`},
		{readOnly, "GET", "/favicon.ico", 404, "", "seawallpage: there is no /favicon.ico here, only the page and guards.json\n"},
		{readOnly, "GET", "//", 404, "", "there is no // here"},
		{readOnly, "POST", "/?name=payments", 405, "GET, HEAD", "seawallpage: POST is not allowed here, only GET, HEAD\n"},
		{readOnly, "PUT", "/", 405, "GET, HEAD", "PUT is not allowed here"},
		{controlled, "DELETE", "/", 405, "GET, HEAD, POST", "DELETE is not allowed here, only GET, HEAD, POST"},
		{controlled, "POST", "/guards.json", 405, "GET, HEAD", "POST is not allowed here"},
	} {
		t.Run(test.method+" "+test.target, func(t *testing.T) {
			answer := visit(test.handler, test.method, test.target)
			assert.Equal(t, test.status, answer.Code)
			assert.Equal(t, test.allow, answer.Header().Get("Allow"))
			assert.Contains(t, answer.Body.String(), test.says)
		})
	}
}

// http.StripPrefix leaves a slash at the beginning or not, and the page's links work in both cases: they are relative.
func TestPageCanBeMountedAnywhere(t *testing.T) {
	h := newHandler(t, seawallpage.Breakers(br(t, "payments")))
	mux := http.NewServeMux()
	mux.Handle("/a/", http.StripPrefix("/a", h))
	mux.Handle("/b/", http.StripPrefix("/b/", h))
	for _, target := range []string{"/a/", "/b/", "/a/?name=payments", "/a/guards.json", "/b/guards.json"} {
		assert.Equal(t, http.StatusOK, visit(mux, "GET", target).Code, target)
	}
	assert.Equal(t, "/a/", visit(mux, "GET", "/a").Header().Get("Location"))
	assert.NotRegexp(t, `(href|action)="/`, pageOf(t, h, "/"))
}

func TestEveryAnswerHasTheSecurityHeaders(t *testing.T) {
	readOnly := newHandler(t)
	controlled := newHandler(t, seawallpage.WithControl())
	for _, target := range []string{"/", "/?name=nobody", "/guards.json", "/guards.json?name=nobody", "/nothing"} {
		header := visit(readOnly, "GET", target).Header()
		assert.Equal(t, "nosniff", header.Get("X-Content-Type-Options"), target)
		assert.Equal(t, "no-store", header.Get("Cache-Control"), target)
		assert.Equal(t, "same-origin", header.Get("Referrer-Policy"), target)
		assert.Regexp(t, `^default-src 'none'; style-src 'nonce-\w{20,}'; script-src 'nonce-\w{20,}'; img-src data:; `+
			`connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'$`, header.Get("Content-Security-Policy"), target)
	}
	assert.Contains(t, visit(controlled, "GET", "/").Header().Get("Content-Security-Policy"), "form-action 'self'")
	assert.Equal(t, "nosniff", post(controlled, "nobody", "reset").Header().Get("X-Content-Type-Options"))
}

func TestEachPageHasANonceOfItsOwn(t *testing.T) {
	h := newHandler(t, seawallpage.Breakers(br(t, "payments")))
	seen := map[string]bool{}
	for range 3 {
		answer := visit(h, "GET", "/")
		nonce := regexp.MustCompile(`script-src 'nonce-(\w+)'`).FindStringSubmatch(answer.Header().Get("Content-Security-Policy"))[1]
		assert.False(t, seen[nonce])
		seen[nonce] = true
		page := answer.Body.String()
		for _, tag := range regexp.MustCompile(`<(script|style)[^>]*>`).FindAllString(markup(t, page, page), -1) {
			assert.Contains(t, tag, `nonce="`+nonce+`"`)
		}
	}
}

// The page is whole: it asks for nothing from elsewhere, and nothing in it is written so that its policy would block it.
func TestPageNeedsNothingFromElsewhere(t *testing.T) {
	page := pageOf(t, newHandler(t, append(badAfternoon(t), seawallpage.WithControl())...), "/?name=payments")
	for _, address := range regexp.MustCompile(`\b(?:href|src|url)[=(]"?([^")>]*)`).FindAllStringSubmatch(page, -1) {
		assert.Regexp(t, `^(\?name=|\./|guards\.json|data:)`, address[1])
	}
	assert.NotRegexp(t, `<[^>]+ (style|on\w+)=`, page)
	assert.NotRegexp(t, `@import|innerHTML|eval\(`, page)
}

func TestPageIsSmall(t *testing.T) {
	assert.Less(t, len(pageOf(t, newHandler(t), "/")), 10_000, "what each page has")
	afternoon := newHandler(t, append(badAfternoon(t), seawallpage.WithControl())...)
	assert.Less(t, len(pageOf(t, afternoon, "/")), 30_000)
	assert.Less(t, len(pageOf(t, afternoon, "/?name=payments")), 30_000)
}

// A Group may have a million keys. The page shows the worst hundred guards and says how to find the others.
func TestPageShowsTheWorstHundred(t *testing.T) {
	hosts, err := seawall.NewGroup(func(host string) (*seawall.Breaker, error) {
		return seawall.NewBreaker(host, seawall.WithConsecutiveFailures(1))
	})
	require.NoError(t, err)
	for i := range 250 {
		fn := ok
		if i%50 == 0 {
			fn = bad
		}
		_ = hosts.Do(t.Context(), "host-"+string(rune('a'+i/26))+string(rune('a'+i%26)), fn)
	}
	h := newHandler(t, seawallpage.Group("hosts", hosts))
	page := pageOf(t, h, "/")
	assert.Equal(t, 100, strings.Count(page, `<tr class="`))
	assert.Equal(t, 5, strings.Count(page, `<tr class="problem">`))
	assert.Contains(t, text(page), "150 more are not shown, none of them worse.")
	assert.Contains(t, text(page), "5 open, 245 fine")
	assert.Less(t, len(page), 100_000)
	assert.Len(t, guardsOf(t, h, "/guards.json").Guards, 250)
}

// The whole JSON of a short story; see testdata/guards.json.
func TestJSONIsGolden(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		payments := br(t, "payments", seawall.WithFailureRate(0.5, 20), seawall.WithProbeSuccesses(2))
		mail := br(t, "mail", seawall.WithMode(seawall.Observe), seawall.WithSlowCallThreshold(time.Second))
		slots := bh(t, "payments", 2, seawall.WithMaxQueue(0))
		hosts, err := seawall.NewGroup(func(host string) (seawall.Policy, error) {
			b, err := seawall.NewBreaker(host, seawall.WithCountWindow(50), seawall.WithBackoff(time.Minute), seawall.WithJitter(0.1))
			return seawall.Chain(b), err
		}, seawall.WithMaxKeys(64))
		require.NoError(t, err)

		times(7, payments, ok)
		times(3, payments, bad)
		time.Sleep(5 * time.Second)
		do(payments, bad)
		time.Sleep(5 * time.Second)
		do(payments, ok, ok)
		time.Sleep(time.Second)
		do(payments, bad, bad, ok)
		times(3, mail, bad)
		times(4, mail, ok)
		hold(t, slots, 2)
		do(slots, ok)
		require.NoError(t, hosts.Do(t.Context(), "https://example.com:443", ok))
		time.Sleep(1500 * time.Millisecond)

		answer := visit(newHandler(t,
			seawallpage.Breakers(payments, mail), seawallpage.Bulkheads(slots), seawallpage.Group("hosts", hosts),
		), "GET", "/guards.json")
		assert.Equal(t, "application/json", answer.Header().Get("Content-Type"))
		golden := filepath.Join("testdata", "guards.json")
		if os.Getenv("UPDATE") != "" {
			require.NoError(t, os.WriteFile(golden, answer.Body.Bytes(), 0o600))
		}
		want, err := os.ReadFile(golden)
		require.NoError(t, err)
		assert.Equal(t, string(want), answer.Body.String())
	})
}

func TestJSONOfOneName(t *testing.T) {
	hosts, err := seawall.NewGroup(func(host string) (*seawall.Breaker, error) { return seawall.NewBreaker(host) })
	require.NoError(t, err)
	empty, err := seawall.NewGroup(func(host string) (*seawall.Breaker, error) { return seawall.NewBreaker(host) })
	require.NoError(t, err)
	for _, host := range []string{"a", "b"} {
		require.NoError(t, hosts.Do(t.Context(), host, ok))
	}
	h := newHandler(t,
		seawallpage.Breakers(br(t, "payments"), br(t, "")), seawallpage.Bulkheads(bh(t, "payments", 1)),
		seawallpage.Group("hosts", hosts), seawallpage.Group("empty", empty),
	)
	for query, want := range map[string][]string{
		"payments": {"breaker payments", "bulkhead payments"},
		"":         {"breaker "},
		"hosts/a":  {"breaker hosts/a"},
		"empty":    {"group empty"},
		"hosts":    {"breaker hosts/a", "breaker hosts/b", "group hosts"},
	} {
		seen := guardsOf(t, h, "/guards.json?name="+query)
		var names []string
		for _, g := range seen.Guards {
			names = append(names, g.Kind+" "+g.Name)
		}
		for _, g := range seen.Groups {
			names = append(names, "group "+g.Name)
		}
		assert.Equal(t, want, names, query)
	}
}

// A time that JSON can't say is an error and not half of an answer.
func TestJSONThatCannotBeMadeIsAnError(t *testing.T) {
	clock := &fakeClock{now: time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)}
	answer := visit(newHandler(t, seawallpage.Breakers(br(t, "late", seawall.WithClock(clock)))), "GET", "/guards.json")
	assert.Equal(t, http.StatusInternalServerError, answer.Code)
	assert.Contains(t, answer.Body.String(), "seawallpage: the JSON can't be made: ")
}

// seenGuards is what a reader of the JSON may expect to find.
type seenGuards struct {
	At     time.Time
	Guards []struct {
		Kind, Name, Group, Key, Level string
		Snapshot                      json.RawMessage
		Settings                      *seawall.Settings
		History                       []seawall.Change
	}
	Groups []struct {
		Name string
		seawall.GroupSnapshot
	}
}

func guardsOf(t testing.TB, h http.Handler, target string) (seen seenGuards) {
	t.Helper()
	answer := visit(h, http.MethodGet, target)
	require.Equal(t, http.StatusOK, answer.Code, answer.Body)
	decode(t, answer, &seen)
	return seen
}

func decode(t testing.TB, answer *httptest.ResponseRecorder, into any) {
	t.Helper()
	decoder := json.NewDecoder(answer.Body)
	require.NoError(t, decoder.Decode(into))
}
