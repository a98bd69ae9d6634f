package seawallpage_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seawall-go/seawall"
	"github.com/seawall-go/seawall/seawallpage"
)

func TestActions(t *testing.T) {
	b := br(t, "payments")
	h := newHandler(t, seawallpage.Breakers(b), seawallpage.WithControl())
	for _, step := range []struct {
		action string
		holds  func() bool
		offers string // what the page has buttons for afterwards
	}{
		{"observe", func() bool { return b.Mode() == seawall.Observe }, "force-open enforce"},
		{"enforce", func() bool { return b.Mode() == seawall.Enforce }, "force-open observe"},
		{"force-open", func() bool { return b.Snapshot().Forced }, "reset observe"},
		{"reset", func() bool { return b.State() == seawall.Closed }, "force-open observe"},
	} {
		answer := post(h, "payments", step.action)
		assert.Equal(t, http.StatusSeeOther, answer.Code, step.action)
		assert.Equal(t, "?name=payments", answer.Header().Get("Location"), "relative, for the handler may be anywhere")
		assert.True(t, step.holds(), step.action)
		assert.Equal(t, step.offers, buttonsOf(pageOf(t, h, "/?name=payments")), "after %s", step.action)
	}
	do(b, bad)
	assert.Equal(t, "force-open reset observe", buttonsOf(pageOf(t, h, "/?name=payments")), "a failure may be forgotten")
	require.NoError(t, b.SetMode(seawall.Off))
	assert.Equal(t, "force-open observe enforce", buttonsOf(pageOf(t, h, "/?name=payments")))
}

// The table itself has no buttons: its rows change their places.
func TestButtonsAreOnThePageOfOneNameOnly(t *testing.T) {
	guards := []seawallpage.Option{seawallpage.Breakers(br(t, "payments")), seawallpage.Bulkheads(bh(t, "slots", 1))}
	h := newHandler(t, append(guards, seawallpage.WithControl())...)
	assert.Empty(t, buttonsOf(pageOf(t, h, "/")))
	assert.Empty(t, buttonsOf(pageOf(t, h, "/?name=slots")), "a bulkhead has nothing to press")
	assert.NotEmpty(t, buttonsOf(pageOf(t, h, "/?name=payments")))
	assert.Empty(t, buttonsOf(pageOf(t, newHandler(t, guards...), "/?name=payments")), "read-only")
}

func TestControlOfAKeyOfAGroup(t *testing.T) {
	g, err := seawall.NewGroup(func(host string) (*seawall.Breaker, error) { return seawall.NewBreaker("all the same") })
	require.NoError(t, err)
	for _, host := range []string{"a", "b"} {
		require.NoError(t, g.Do(t.Context(), host, ok))
	}
	h := newHandler(t, seawallpage.Group("hosts", g), seawallpage.WithControl())
	assert.Equal(t, http.StatusSeeOther, post(h, "hosts/a", "force-open").Code)
	assert.ErrorIs(t, g.Do(t.Context(), "a", ok), seawall.ErrOpen)
	assert.NoError(t, g.Do(t.Context(), "b", ok))
	assert.Equal(t, http.StatusNotFound, post(h, "hosts", "force-open").Code, "the Group itself")
}

// Who names several breakers may not have meant them all.
func TestDuplicatesAreShownAndLeftAlone(t *testing.T) {
	one, other := br(t, "payments"), br(t, "payments")
	h := newHandler(t, seawallpage.Breakers(one, other), seawallpage.Bulkheads(bh(t, "payments", 1)), seawallpage.WithControl())
	page := pageOf(t, h, "/?name=payments")
	assert.Len(t, rowsOf(page), 3)
	assert.Empty(t, buttonsOf(page))
	assert.Equal(t, 2, strings.Count(page, "Several breakers have this name, so none of them can be controlled here."))
	answer := post(h, "payments", "force-open")
	assert.Equal(t, http.StatusConflict, answer.Code)
	assert.Equal(t, "seawallpage: 2 breakers have the name \"payments\"\n", answer.Body.String())
	assert.Equal(t, seawall.Closed, one.State())
	assert.Equal(t, seawall.Closed, other.State())
}

func TestABreakerGivenTwiceIsStillOne(t *testing.T) {
	b := br(t, "payments")
	h := newHandler(t, seawallpage.Breakers(b, b), seawallpage.Breakers(b), seawallpage.WithControl())
	assert.Len(t, rowsOf(pageOf(t, h, "/")), 1)
	assert.Equal(t, http.StatusSeeOther, post(h, "payments", "force-open").Code)
	assert.True(t, b.Snapshot().Forced)
}

func TestBadPostsAreRefused(t *testing.T) {
	b := br(t, "payments")
	h := newHandler(t, seawallpage.Breakers(b), seawallpage.Bulkheads(bh(t, "slots", 1)), seawallpage.WithControl())
	const form = "application/x-www-form-urlencoded"
	for _, test := range []struct {
		target, contentType, body string
		status                    int
		says                      string
	}{
		{"/?name=payments", form, "action=explode", 400, `action "explode" must be one of force-open, reset, observe, enforce`},
		{"/?name=payments", form, "", 400, `action "" must be one of`},
		{"/?name=payments&action=force-open", form, "", 400, `action "" must be one of`},
		{"/?name=payments", "application/json", `{"action":"force-open"}`, 400, `action "" must be one of`},
		{"/?name=payments", form, "action=%zz", 400, "the form can't be read"},
		{"/?name=payments", form, "action=force-open&x=" + strings.Repeat("x", 1<<10), 400, "the form can't be read: http: request body too large"},
		{"/", form, "action=force-open", 400, "the URL must say ?name= of which breaker"},
		{"/", form, "action=force-open&name=payments", 400, "the URL must say ?name= of which breaker"},
		{"/?name=nobody", form, "action=force-open", 404, `no breaker has the name "nobody"`},
		{"/?name=slots", form, "action=force-open", 404, `no breaker has the name "slots"`},
	} {
		request := httptest.NewRequest(http.MethodPost, test.target, strings.NewReader(test.body))
		request.Header.Set("Content-Type", test.contentType)
		answer := serve(h, request)
		assert.Equal(t, test.status, answer.Code, test.says)
		assert.True(t, strings.HasPrefix(answer.Body.String(), "seawallpage: "+test.says), answer.Body)
		assert.Equal(t, "text/plain; charset=utf-8", answer.Header().Get("Content-Type"))
	}
	assert.Equal(t, seawall.Closed, b.State())
}

// A page of another site that a user is on can't press the buttons.
func TestOtherSitesCannotControl(t *testing.T) {
	for _, test := range []struct {
		headers []string
		status  int
	}{
		{[]string{"Sec-Fetch-Site", "cross-site"}, http.StatusForbidden},
		{[]string{"Sec-Fetch-Site", "same-site"}, http.StatusForbidden},
		{[]string{"Origin", "https://evil.example"}, http.StatusForbidden},
		{[]string{"Origin", "null"}, http.StatusForbidden},
		{[]string{"Sec-Fetch-Site", "same-origin"}, http.StatusSeeOther},
		{[]string{"Origin", "http://example.com"}, http.StatusSeeOther},
		{nil, http.StatusSeeOther}, // no browser
	} {
		b := br(t, "payments")
		h := newHandler(t, seawallpage.Breakers(b), seawallpage.WithControl())
		answer := post(h, "payments", "force-open", test.headers...)
		assert.Equal(t, test.status, answer.Code, test.headers)
		assert.Equal(t, test.status == http.StatusSeeOther, b.Snapshot().Forced, test.headers)
		if test.status == http.StatusForbidden {
			assert.Contains(t, answer.Body.String(), "seawallpage: cross-origin request")
		}
	}
}

// The way back leads to the page of the name, whatever that is.
func TestWayBackAfterAPost(t *testing.T) {
	for _, name := range hostile() {
		h := newHandler(t, seawallpage.Breakers(br(t, name)), seawallpage.WithControl())
		answer := post(h, name, "force-open")
		require.Equal(t, http.StatusSeeOther, answer.Code, "%q", name)
		location, err := url.Parse(answer.Header().Get("Location"))
		require.NoError(t, err)
		assert.Equal(t, url.URL{RawQuery: url.Values{"name": {name}}.Encode()}, *location)
		assert.Contains(t, text(pageOf(t, h, "/"+location.String())), "forced open")
	}
}

// buttonsOf returns the actions that the page has buttons for.
func buttonsOf(page string) string {
	var names []string
	for _, button := range strings.Split(page, `<button name="action" value="`)[1:] {
		name, _, _ := strings.Cut(button, `"`)
		names = append(names, name)
	}
	return strings.Join(names, " ")
}
