package seawallpage_test

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seawall-go/seawall"
	"github.com/seawall-go/seawall/seawallpage"
)

// TestBrowser looks at the page in a real browser. The environment variable SCREENSHOTS names a directory for the
// pictures that it takes.
func TestBrowser(t *testing.T) {
	b := openBrowser(t)
	for _, test := range []struct {
		name string
		run  func(*browser)
	}{
		{"watches an outage", watchAnOutage},
		{"leaves alone what is in the reader's hands", takeInHand},
		{"presses the buttons", pressTheButtons},
		{"presses them where requests tell less", pressTheButtonsOverPlainHTTP},
		{"is not pressed by another site", pressFromAnotherSite},
		{"shows hostile names", showHostileNames},
		{"needs no JavaScript", readWithoutJavaScript},
		{"says that it is out of date", loseTheServer},
		{"fits and can be read", readOnEveryScreen},
		{"has its picture taken", takeScreenshots},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := &browser{t: t, client: b.client, session: b.session}
			b.show("light", 1360, 960, false)
			// A page that is still there when its server has gone would complain about that in the next test.
			defer b.open("about:blank")
			test.run(b)
			assert.Empty(t, b.complaints(), "in the browser's console")
		})
	}
}

func newServer(t *testing.T, opts ...seawallpage.Option) *httptest.Server {
	t.Helper()
	return serverOf(t, newHandler(t, opts...))
}

func serverOf(t *testing.T, h http.Handler) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server
}

// hurried lets the page refresh itself so often that a test need not wait for it.
func hurried(t *testing.T, h http.Handler) http.Handler {
	t.Helper()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := serve(h, r)
		body := answer.Body.String()
		if strings.HasPrefix(body, "<!doctype html>") {
			for slow, quick := range map[string]string{
				"every = 2000":                     "every = 50",
				`http-equiv="refresh" content="5"`: `http-equiv="refresh" content="1"`,
			} {
				assert.Equal(t, 1, strings.Count(body, slow), slow)
				body = strings.Replace(body, slow, quick, 1)
			}
		}
		maps.Copy(w.Header(), answer.Header())
		w.WriteHeader(answer.Code)
		_, _ = io.WriteString(w, body)
	})
}

// The page follows an outage by itself, without a reload, and leaves the reader's place alone.
func watchAnOutage(b *browser) {
	t := b.t
	clock := newClock(time.Minute)
	payments := br(t, "payments", seawall.WithClock(clock), seawall.WithProbeSuccesses(2))
	slots := bh(t, "slots", 1, seawall.WithMaxQueue(0))
	page := newHandler(t, seawallpage.Breakers(br(t, "search"), payments), seawallpage.Bulkheads(slots))
	b.open(serverOf(t, hurried(t, page)).URL + "/")
	assert.Equal(t, "3 fine", b.text("#summary"))
	assert.Equal(t, "payments", b.text("tbody tr:first-child th"))
	b.run(nil, `window.stayed = true; document.querySelector('a[href="?name=payments"]').focus()`)

	times(3, payments, bad)
	times(1234, payments, ok)
	b.wait(`document.querySelector('tr.problem').innerText.includes('1,234')`) // It may show some of the calls before.
	assert.Equal(t, "1 open, 2 fine", b.text("#summary"))
	assert.Equal(t, []string{"payments", "breaker", "open", "5 s", "1,234", "1", "consecutive failures"}, b.shown("tr.problem"))

	release, err := slots.Acquire(t.Context())
	require.NoError(t, err)
	defer release()
	clock.Advance(5 * time.Second)
	do(payments, ok)
	b.wait(`document.querySelector('tr.warning').innerText.includes('1 / 2')`)
	assert.Equal(t, "1 full, 1 half-open, 1 fine", b.text("#summary"))
	assert.Equal(t, []string{"payments", "breaker", "half-open", "next call", "1 / 2", "probes succeeded", "1,234", "0 / 1", "1", "cooldown over"},
		b.shown("tr.warning"))

	do(payments, ok)
	b.wait(`document.querySelector('#summary').innerText === '1 full, 2 fine'`)
	assert.Equal(t, "probes succeeded", b.text("tr.ok td:last-child"))

	var stayed bool
	b.run(&stayed, `return window.stayed === true && document.activeElement.getAttribute('href') === '?name=payments'`)
	assert.True(t, stayed, "it was not loaded anew, and the focus is where it was")
	var tab string
	b.run(&tab, `return document.title.split(' · ')[0] + ', ' + document.querySelector('link').href.includes('cf222e')`)
	assert.Equal(t, "1 full, 2 fine, true", tab, "title and icon of the tab")
}

// The page comes for a new look at itself, but leaves it at that if the reader has got hold of something meanwhile.
func takeInHand(b *browser) {
	t := b.t
	b.open(serverOf(t, hurried(t, newHandler(t, seawallpage.Breakers(br(t, "payments"))))).URL + "/")
	b.run(nil, `
		window.before = document.querySelector('#guards')
		const parse = DOMParser.prototype.parseFromString
		DOMParser.prototype.parseFromString = function(...args) {
			getSelection().selectAllChildren(document.querySelector('h1'))
			window.looked = true
			return parse.apply(this, args)
		}
		window.letGo = () => {
			DOMParser.prototype.parseFromString = parse
			getSelection().removeAllRanges()
		}`)
	b.wait(`window.looked`)
	var stayed bool
	b.run(&stayed, `return before.isConnected`)
	assert.True(t, stayed)
	b.run(nil, `letGo()`)
	b.wait(`!before.isConnected`)
}

func pressTheButtons(b *browser) {
	t := b.t
	payments := br(t, "payments")
	server := newServer(t, seawallpage.Breakers(payments, br(t, "search")), seawallpage.WithControl())
	pressAll(b, server.URL, payments)
}

// Over plain HTTP, and not on the loopback interface by its name, a browser sends no Sec-Fetch-Site, and the page's own
// origin is all that tells its requests from those of others.
func pressTheButtonsOverPlainHTTP(b *browser) {
	t := b.t
	payments := br(t, "payments")
	server := newServer(t, seawallpage.Breakers(payments, br(t, "search")), seawallpage.WithControl())
	pressAll(b, strings.Replace(server.URL, "127.0.0.1", "guards.test", 1), payments)
}

func pressAll(b *browser, address string, payments *seawall.Breaker) {
	t := b.t
	t.Helper()
	b.open(address + "/")
	b.click(`a[href="?name=payments"]`)
	assert.Equal(t, "closed", b.text(".state"))
	for _, press := range []struct{ button, state string }{
		{"force-open", "forced open"},
		{"observe", "forced open observe"},
		{"reset", "closed observe"},
		{"enforce", "closed"},
	} {
		b.click(`button[value="` + press.button + `"]`)
		b.wait(`document.querySelector('tbody td:nth-child(3)').innerText === '` + press.state + `'`)
	}
	assert.Equal(t, uint64(1), payments.Snapshot().Totals.ByReason[seawall.ReasonForced])
	assert.Equal(t, "open · forced", strings.SplitN(b.text("li:nth-child(2)"), "\n", 2)[0])
	b.click("nav a")
	assert.Equal(t, "2 fine", b.text("#summary"))
}

// A page of another site posts the very form, and is refused.
func pressFromAnotherSite(b *browser) {
	t := b.t
	payments := br(t, "payments")
	target := newServer(t, seawallpage.Breakers(payments), seawallpage.WithControl()).URL + "/?name=payments"
	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprintf(w, `<link rel="icon" href="data:,"><form method="post" action="%s"><button name="action" value="force-open">win</button></form>`, target)
	}))
	defer evil.Close()
	b.open(strings.Replace(evil.URL, "127.0.0.1", "guards.test", 1))
	b.click("button")
	b.wait(`document.body.innerText.startsWith('seawallpage: cross-origin request')`)
	assert.Equal(t, seawall.Closed, payments.State())
	complaints := b.complaints()
	require.Len(t, complaints, 1)
	assert.Contains(t, complaints[0], "403 (Forbidden)")
}

func showHostileNames(b *browser) {
	t := b.t
	hosts, err := seawall.NewGroup(func(string) (*seawall.Breaker, error) { return seawall.NewBreaker("") })
	require.NoError(t, err)
	var breakers []*seawall.Breaker
	for _, name := range hostile() {
		breakers = append(breakers, br(t, name))
		require.NoError(t, hosts.Do(t.Context(), name, ok))
	}
	server := newServer(t, seawallpage.Breakers(breakers...), seawallpage.Group("hosts", hosts), seawallpage.WithControl())
	b.open(server.URL + "/?" + url.Values{"x": hostile(), "name": {"hosts"}}.Encode())
	b.open(server.URL + "/")
	var links [][2]string // the text of each, and where it leads to
	b.run(&links, `return [...document.querySelectorAll('.guards tbody th a')].map(a => [a.querySelector('bdi:last-child').textContent, a.href])`)
	wantHarmless(b)
	for _, name := range hostile() {
		if strings.TrimSpace(name) != name || name == "" || strings.Contains(name, "\n") || !utf8.ValidString(name) {
			continue // HTML has no way to write these.
		}
		at := slices.IndexFunc(links, func(link [2]string) bool { return link[0] == name })
		require.NotEqual(t, -1, at, name)
		b.open(links[at][1])
		assert.Equal(t, "1 fine", b.text("#summary"), name)
		assert.Equal(t, name, strings.TrimPrefix(b.text(".guards tbody th"), "hosts/"))
		wantHarmless(b)
	}
	b.open(server.URL + "/?" + url.Values{"name": {strings.Join(hostile(), "")}}.Encode())
	assert.Contains(t, b.text(".missing"), "no guard has the name")
	wantHarmless(b)
	assert.Len(t, b.complaints(), 1, "that nobody has that name")
}

// wantHarmless wants nothing of a name to have run, or to have become an element.
func wantHarmless(b *browser) {
	b.t.Helper()
	var found string
	b.run(&found, `return [window.pwned, document.scripts.length, document.querySelectorAll('img').length].join()`)
	assert.Equal(b.t, ",1,0", found)
}

// Without JavaScript the page loads itself anew.
func readWithoutJavaScript(b *browser) {
	t := b.t
	b.devtools("Emulation.setScriptExecutionDisabled", map[string]any{"value": true})
	defer b.devtools("Emulation.setScriptExecutionDisabled", map[string]any{"value": false})
	page := hurried(t, newHandler(t, seawallpage.Breakers(br(t, "payments"))))
	loads := make(chan string, 100)
	b.open(serverOf(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		loads <- r.Header.Get("Sec-Fetch-Dest")
		page.ServeHTTP(w, r)
	})).URL + "/")
	assert.Equal(t, "payments", b.text("tbody th"))
	assert.Equal(t, "document", <-loads)
	assert.Equal(t, "document", <-loads, "the second time by itself")
}

func loseTheServer(b *browser) {
	t := b.t
	server := serverOf(t, hurried(t, newHandler(t, seawallpage.Breakers(br(t, "payments")))))
	b.open(server.URL + "/")
	server.CloseClientConnections()
	server.Close()
	b.wait(`document.querySelector('#stale').innerText === ' · out of date: the server does not answer'`)
	assert.Equal(t, "payments", b.text("tbody th"), "what was known last stays")
	b.open("about:blank")
	b.complaints() // The browser says itself that it could not connect.
}

// On all screens, light and dark: no text is cut off or hard to read, and nothing has to be moved sideways.
func readOnEveryScreen(b *browser) {
	t := b.t
	server := newServer(t, append(badAfternoon(t), seawallpage.WithControl())...)
	for _, query := range []string{"", "?name=payments", "?name=nobody"} {
		b.open(server.URL + "/" + query)
		for _, width := range []int{320, 390, 800, 1241, 1360, 1920} {
			b.show("light", width, 900, width < 800)
			var sideways int
			b.run(&sideways, `return document.documentElement.scrollWidth - document.documentElement.clientWidth`)
			assert.LessOrEqual(t, sideways, 0, "%q, %d px wide", query, width)
		}
		for _, scheme := range []string{"light", "dark"} {
			for _, width := range []int{390, 1360} {
				b.show(scheme, width, 900, width < 800)
				var faint []string
				b.run(&faint, faintTexts)
				assert.Empty(t, faint, "%q, %s, %d px wide", query, scheme, width)
			}
		}
	}
	b.complaints() // Nobody has the name nobody.
}

// faintTexts is a script that returns the texts whose contrast with what is behind them is less than the 4.5 that WCAG
// asks for.
const faintTexts = `
	const known = {}
	const channels = color => known[color] ??= paint(color)
	const paint = color => {
		const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true })
		canvas.fillStyle = color
		canvas.fillRect(0, 0, 1, 1)
		return [...canvas.getImageData(0, 0, 1, 1).data]
	}
	const luminance = rgb => {
		const [r, g, b] = rgb.map(c => c / 255).map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
		return 0.2126 * r + 0.7152 * g + 0.0722 * b
	}
	const behind = e => {
		for (; e; e = e.parentElement) {
			const color = channels(getComputedStyle(e).backgroundColor)
			if (color[3] === 255) return color.slice(0, 3)
		}
		return [255, 255, 255]
	}
	const faint = []
	const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
	while (texts.nextNode()) {
		const e = texts.currentNode.parentElement
		if (!texts.currentNode.data.trim() || e.closest('script, svg')) continue
		const [a, b] = [luminance(channels(getComputedStyle(e).color).slice(0, 3)), luminance(behind(e))].sort((a, b) => b - a)
		const contrast = (a + 0.05) / (b + 0.05)
		if (contrast < 4.5) faint.push(texts.currentNode.data.trim() + ': ' + contrast.toFixed(2))
	}
	return faint`

// The pictures in docs/ are taken here. Whoever changes the page should look at them.
func takeScreenshots(b *browser) {
	t := b.t
	server := newServer(t, append(badAfternoon(t), seawallpage.WithControl())...)
	dir := os.Getenv("SCREENSHOTS")
	if dir == "" {
		dir = t.TempDir()
	}
	for _, shot := range []struct {
		file, query, scheme string
		width, height       int
		phone               bool
	}{
		{"page-light.png", "", "light", 1360, 930, false},
		{"page-dark.png", "", "dark", 1360, 930, false},
		{"page-phone.png", "", "light", 390, 844, true},
		{"page-name.png", "?name=payments", "dark", 1360, 930, false},
	} {
		b.show(shot.scheme, shot.width, shot.height, shot.phone)
		b.open(server.URL + "/" + shot.query)
		b.run(nil, `document.querySelector('h1 small').textContent = 'of shop.example'; document.title = 'Guards'`)
		b.screenshot(filepath.Join(dir, shot.file))
	}
}
