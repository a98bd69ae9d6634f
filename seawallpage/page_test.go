package seawallpage_test

import (
	"context"
	"html"
	"net/http"
	"net/url"
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

// Each row is all that a reader sees of a guard, and in brackets what pictures say to those who don't see them.
func TestRowsSayWhatIsSo(t *testing.T) {
	tenFailures := []seawall.BreakerOption{seawall.WithFailureRate(0.5, 20), seawall.WithConsecutiveFailures(10)}
	for name, test := range map[string]struct {
		options []seawall.BreakerOption
		story   func(b *seawall.Breaker)
		want    string
	}{
		"new": {
			tenFailures, func(*seawall.Breaker) {},
			"br | breaker | ● closed | 0 s | | 0 % / 50 % 0 / 10 in a row | 0 [0 calls in the window, 0 failed; opens at 50 % of at least 20] | 0 | | | 0 |",
		},
		"closed with failures": {
			tenFailures, func(b *seawall.Breaker) {
				time.Sleep(90 * time.Minute)
				times(1377, b, ok)
				times(3, b, bad)
				time.Sleep(2500 * time.Millisecond)
			},
			"br | breaker | ● closed | 1 h | | 0.2 % / 50 % 3 / 10 in a row | 1,380 [1,380 calls in the window, 3 failed; opens at 50 % of at least 20] | 0 | | | 0 |",
		},
		"by rate only": {
			[]seawall.BreakerOption{seawall.WithFailureRate(0.25, 8), seawall.WithCountWindow(100)},
			func(b *seawall.Breaker) { do(b, ok, bad) },
			"br | breaker | ● closed | 0 s | | 50 % / 25 % | 2 [2 calls in the window, 1 failed; opens at 25 % of at least 8] | 0 | | | 0 |",
		},
		"by failures in a row only, slow": {
			[]seawall.BreakerOption{seawall.WithConsecutiveFailures(5), seawall.WithSlowCallThreshold(time.Second)},
			func(b *seawall.Breaker) {
				do(b, ok, func(context.Context) error { time.Sleep(2 * time.Second); return nil })
			},
			"br | breaker | ● closed | 2 s | | 1 / 5 in a row | 2 [2 calls in the window, 1 failed, 1 of them slow] | 0 | | | 0 |",
		},
		"open": {
			tenFailures, func(b *seawall.Breaker) {
				times(10, b, bad)
				time.Sleep(1250 * time.Millisecond)
				times(1234, b, ok)
			},
			"br | breaker | ● open | 1.2 s | 3.7 s | | | 1,234 | | | 1 | [the last changes, consecutive failures the latest] {open 1.2 s ago: consecutive failures} consecutive failures",
		},
		"cooldown over": {
			tenFailures, func(b *seawall.Breaker) {
				times(10, b, bad)
				time.Sleep(5 * time.Second)
			},
			"br | breaker | ● half-open | 5 s | next call | 0 / 1 probes succeeded | | 0 | 0 / 1 [0 of at most 1 probes are running] | | 1 | [the last changes, consecutive failures the latest] {open 5 s ago: consecutive failures} consecutive failures",
		},
		"half-open": {
			append(tenFailures, seawall.WithProbes(2), seawall.WithProbeSuccesses(3), seawall.WithProbeTimeout(time.Second)),
			func(b *seawall.Breaker) {
				times(10, b, bad)
				time.Sleep(5 * time.Second)
				do(b, ok)
				for range 2 {
					_, err := b.Allow(t.Context())
					require.NoError(t, err)
				}
				time.Sleep(100 * time.Millisecond)
				do(b, ok)
			},
			"br | breaker | ● half-open | 100 ms | ≤ 900 ms | 1 / 3 probes succeeded | | 1 | 2 / 2 [2 of at most 2 probes are running] | | 1 | [the last changes, cooldown over the latest] {open 5.1 s ago: consecutive failures} {half-open 100 ms ago: cooldown over} cooldown over",
		},
		"forced open": {
			tenFailures, func(b *seawall.Breaker) {
				b.ForceOpen()
				time.Sleep(72 * time.Hour)
			},
			"br | breaker | ● forced open | 3 d | after reset | | | 0 | | | 1 | [the last changes, forced the latest] {open 3 d ago: forced} forced",
		},
		"observing": {
			append(tenFailures, seawall.WithMode(seawall.Observe)), func(b *seawall.Breaker) {
				times(10, b, bad)
				times(3, b, ok)
			},
			"br | breaker | ● open observe | 0 s | 5 s | | | 0 3 would be | | | 1 | [the last changes, consecutive failures the latest] {open 0 s ago: consecutive failures} consecutive failures",
		},
		"off": {
			append(tenFailures, seawall.WithMode(seawall.Off)), func(b *seawall.Breaker) { do(b, bad) },
			"br | breaker | ● closed off | 0 s | | | | 0 | | | 0 |",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, err := seawall.NewBreaker("br", test.options...)
				require.NoError(t, err)
				test.story(b)
				assert.Equal(t, []string{test.want}, rowsOf(pageOf(t, newHandler(t, seawallpage.Breakers(b)), "/")))
			})
		})
	}
}

func TestRowsOfBulkheads(t *testing.T) {
	for _, test := range []struct {
		limit, held int
		options     []seawall.BulkheadOption
		want        string
	}{
		{1600, 3, nil, "bh | bulkhead | ● free | | | | | 0 | 3 / 1,600 [3 of at most 1,600 calls are running] | 0 / ∞ | |"},
		{2, 2, nil, "bh | bulkhead | ● busy | | | | | 0 | 2 / 2 [2 of at most 2 calls are running] | 0 / ∞ | |"},
		{2, 2, []seawall.BulkheadOption{seawall.WithMaxQueue(1)}, "bh | bulkhead | ● busy | | | | | 0 | 2 / 2 [2 of at most 2 calls are running] | 0 / 1 | |"},
		{2, 2, []seawall.BulkheadOption{seawall.WithMaxQueue(0)}, "bh | bulkhead | ● full | | | | | 1 | 2 / 2 [2 of at most 2 calls are running] | 0 / 0 | |"},
		{2, 2, []seawall.BulkheadOption{seawall.WithMaxWait(0)}, "bh | bulkhead | ● full | | | | | 1 | 2 / 2 [2 of at most 2 calls are running] | 0 / 0 | |"},
	} {
		b := bh(t, "bh", test.limit, test.options...)
		hold(t, b, test.held)
		if strings.Contains(test.want, "full") {
			do(b, ok)
		}
		assert.Equal(t, []string{test.want}, rowsOf(pageOf(t, newHandler(t, seawallpage.Bulkheads(b)), "/")))
	}
}

// A limit that was lowered leaves more calls running than there are places.
func TestRowOfABulkheadInDebt(t *testing.T) {
	b := bh(t, "bh", 5)
	hold(t, b, 5)
	require.NoError(t, b.SetLimit(2))
	page := pageOf(t, newHandler(t, seawallpage.Bulkheads(b)), "/")
	assert.Contains(t, page, `width="100"`)
	assert.Contains(t, text(page), "busy 0 5 / 2")
}

func TestProblemsComeFirst(t *testing.T) {
	page := pageOf(t, newHandler(t, badAfternoon(t)...), "/")
	var order []string
	for _, row := range rowsOf(page) {
		cells := strings.Split(row, " | ")
		order = append(order, cells[0]+" "+cells[2])
	}
	assert.Equal(t, []string{
		"hosts/https://cdn.example.net:443 ● open", "mail ● open observe", "payments ● open", "payments ● full", "recommendations ● forced open",
		"search ● half-open", "search ● busy",
		"hosts/https://api.example.com:443 ● closed", "hosts/https://api.example.com:443 ● free", "hosts/https://cdn.example.net:443 ● free",
		"inventory ● closed", "users ● closed", "users ● free",
		"reports ● closed off",
	}, order)
	assert.Contains(t, page, "<title>3 open, 1 full, 1 forced open, 1 half-open, 1 busy, 7 fine · example.com</title>")
	assert.Contains(t, page, `<p id="summary" class="problem" role="status">3 open,`)
	assert.Contains(t, text(page), "hosts 2 / 64 0 0", "the Group's own row")
}

func TestSummaryOfQuietDays(t *testing.T) {
	assert.Contains(t, text(pageOf(t, newHandler(t), "/")), "no guards There are no guards yet.")
	off := br(t, "off", seawall.WithMode(seawall.Off))
	page := pageOf(t, newHandler(t, seawallpage.Breakers(br(t, "a"), br(t, "b"), off)), "/")
	assert.Contains(t, page, `class="ok" role="status">3 fine</p>`)
	page = pageOf(t, newHandler(t, seawallpage.Breakers(off)), "/")
	assert.Contains(t, page, `class="ok" role="status">1 fine</p>`)
}

func TestPageOfOneName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := br(t, "payments", seawall.WithFailureRate(0.5, 20), seawall.WithCountWindow(200),
			seawall.WithSlowCallThreshold(800*time.Millisecond), seawall.WithBackoff(time.Minute), seawall.WithJitter(0.1),
			seawall.WithProbeTimeout(3*time.Second))
		time.Sleep(24 * time.Hour)
		times(3, b, bad)
		time.Sleep(6 * time.Second)
		do(b, ok)
		b.ForceOpen()
		time.Sleep(30 * time.Second)
		slots := bh(t, "payments", 3)
		do(slots, ok)
		h := newHandler(t, seawallpage.Breakers(b, br(t, "other")), seawallpage.Bulkheads(slots))
		page := text(pageOf(t, h, "/?name=payments"))

		assert.NotContains(t, page, "other")
		assert.Contains(t, page, "← all guards")
		assert.Contains(t, page, "History "+
			"open · forced 00:00:06, 30 s ago "+
			"closed · probes succeeded · 0 of 1 calls failed 00:00:06, 30 s ago, for 0 s "+
			"half-open · cooldown over 00:00:06, 30 s ago, for 0 s "+
			"open · consecutive failures · 3 of 3 calls failed 00:00:00, 36 s ago, for 6 s "+
			"Settings")
		assert.Contains(t, page, "Settings "+
			"opens when 50 % of at least 20 calls of the last 200 failed, or 3 in a row failed "+
			"a call fails after 800 ms, returned or not "+
			"stays open for 5 s, doubled each time up to 1 min, and up to 10 % longer "+
			"probes 1 at a time, each for 3 s closes after 1 of them succeeded")
		assert.Contains(t, page, "Totals of the breaker succeeded 1 failed 3 of them slow 0 ignored 0 too late 0 rejected 0 "+
			"would be rejected 0 cancelled before 0 time closed > 99.9 % time half-open 0 % time open < 0.1 %")
		assert.Contains(t, page, "Totals of the bulkhead admitted 1 rejected, full 0 rejected, waited in vain 0 cancelled 0 waited, all together 0 s")
		assert.NotContains(t, page, "Control")

		time.Sleep(24 * time.Hour)
		assert.Contains(t, text(pageOf(t, h, "/?name=payments")), "open · forced 2000-01-02 00:00:06, 1 d ago")
	})
}

func TestGuardWithoutANameHasALink(t *testing.T) {
	assert.Contains(t, pageOf(t, newHandler(t, seawallpage.Breakers(br(t, ""))), "/"), `<a href="?name="><bdi>(no name)</bdi></a>`)
	assert.Contains(t, pageOf(t, newHandler(t, seawallpage.Breakers(br(t, "/"))), "/"), `<a href="?name=%2f"><bdi>/</bdi></a>`)
}

func TestPageOfAnUnknownNameLeadsBack(t *testing.T) {
	page := visit(newHandler(t, seawallpage.Breakers(br(t, "payments"))), "GET", "/?name=nobody").Body.String()
	assert.Contains(t, text(page), `← all guards no guard has the name "nobody". One of a Group may have been evicted.`)
	assert.NotContains(t, page, "<table")
}

// What stands in a Group is found however it is wrapped, and named after the key.
func TestGroupShowsWhatItsPoliciesAreMadeOf(t *testing.T) {
	type key struct{ host, method string }
	shared := bh(t, "shared", 9)
	g, err := seawall.NewGroup(func(k key) (seawall.Policy, error) {
		read, err := seawall.NewBreaker("read")
		return seawall.Chain(seawall.Chain(read), wrapped{shared}, seawall.PolicyFunc(runs), wrapped{}), err
	})
	require.NoError(t, err)
	require.NoError(t, g.Do(t.Context(), key{"a", "get"}, ok))
	seen := rowsOf(pageOf(t, newHandler(t, seawallpage.Group("", g)), "/"))
	require.Len(t, seen, 2)
	assert.Contains(t, seen[0], "{a get} read | breaker |")
	assert.Contains(t, seen[1], "{a get} shared | bulkhead |")
}

// wrapped is a policy of somebody else's that tells what it is made of.
type wrapped []seawall.Policy

func (w wrapped) Policies() []seawall.Policy { return w }

func (w wrapped) Do(ctx context.Context, fn func(context.Context) error) error {
	return seawall.Chain(w...).Do(ctx, fn)
}

func runs(ctx context.Context, fn func(context.Context) error) error { return fn(ctx) }

func TestGroupForgetsWhatWasEvicted(t *testing.T) {
	g, err := seawall.NewGroup(func(host string) (*seawall.Breaker, error) { return seawall.NewBreaker(host) }, seawall.WithMaxKeys(1))
	require.NoError(t, err)
	h := newHandler(t, seawallpage.Group("hosts", g))
	for _, host := range []string{"a", "b"} {
		require.NoError(t, g.Do(t.Context(), host, ok))
		assert.Equal(t, http.StatusOK, visit(h, "GET", "/?name=hosts/"+host).Code)
	}
	assert.Equal(t, http.StatusNotFound, visit(h, "GET", "/?name=hosts/a").Code)
	assert.Contains(t, text(pageOf(t, h, "/")), "hosts 1 / 1 1 0")
}

// A key may be anything; its name is text of a bounded length.
func TestKeysThatComeFromOutside(t *testing.T) {
	g, err := seawall.NewGroup(func(string) (*seawall.Breaker, error) { return seawall.NewBreaker("") })
	require.NoError(t, err)
	for _, key := range []string{"\xff\xfe", strings.Repeat("é", 100)} {
		require.NoError(t, g.Do(t.Context(), key, ok))
	}
	seen := guardsOf(t, newHandler(t, seawallpage.Group("g", g)), "/guards.json").Guards
	require.Len(t, seen, 2)
	assert.Equal(t, "g/"+strings.Repeat("é", 64), seen[0].Name)
	assert.Equal(t, "g/\uFFFD", seen[1].Name)
}

// hostile returns names that would be markup, script or more where somebody forgot to escape them.
func hostile() []string {
	return []string{
		`<script>pwned = 1</script>`,
		`"><img src=x onerror="pwned = 1">`,
		`' onmouseover='pwned = 1' x='`,
		`</title></svg></style></script><script>pwned = 1</script>`,
		`javascript:pwned = 1`,
		`{{.}}${pwned = 1}`,
		`<!-- <b>&lt;b&gt; ]]>`,
		`a&name=b#c%20d+e;f`,
		"tab\tline\r\nSet-Cookie: pwned=1\x00\u202e\u2028",
		"\xff\xfe",
		`../../etc`,
		`//evil.example/`,
		"", " ",
	}
}

// Wherever a name may come from outside, it stays a name: it is shown as it is, and its link leads to it.
func TestNamesAreEscaped(t *testing.T) {
	unknown := newHandler(t)
	plain := pageOf(t, unknown, "/")
	for _, name := range hostile() {
		hosts, err := seawall.NewGroup(func(host string) (*seawall.Breaker, error) {
			return seawall.NewBreaker(host+"'s", seawall.WithConsecutiveFailures(1))
		})
		require.NoError(t, err)
		_ = hosts.Do(t.Context(), name, bad)
		h := newHandler(t, seawallpage.Breakers(br(t, name)), seawallpage.Bulkheads(bh(t, name, 1)),
			seawallpage.Group(name, hosts), seawallpage.WithControl())
		pages := []string{pageOf(t, h, "/")}
		for _, link := range regexp.MustCompile(`href="(\?name=[^"]*)"`).FindAllStringSubmatch(pages[0], -1) {
			pages = append(pages, pageOf(t, h, "/"+html.UnescapeString(link[1])))
		}
		require.Len(t, pages, 1+4, "%q: links to itself twice, to the Group and to its key", name)
		for _, page := range pages {
			wantPlainMarkup(t, page, plain)
		}
		guardsOf(t, h, "/guards.json?name="+url.QueryEscape(name))
	}
	for _, name := range hostile() {
		for _, query := range []string{"name=" + url.QueryEscape(name), "name=" + name + "&x=" + name, name} {
			r, err := http.NewRequest(http.MethodGet, "/", nil)
			require.NoError(t, err)
			r.URL.RawQuery = query
			r.Host = name
			recorder := serve(unknown, r)
			wantPlainMarkup(t, recorder.Body.String(), plain)
			assert.NotContains(t, recorder.Header(), "Set-Cookie")
		}
	}
}

// wantPlainMarkup wants a page to have the elements that the template has, and no others.
func wantPlainMarkup(t *testing.T, page, another string) {
	t.Helper()
	page = markup(t, page, another)
	assert.Equal(t, 1, strings.Count(page, "<script"))
	assert.Equal(t, 1, strings.Count(page, "</script>"))
	assert.Equal(t, 1, strings.Count(page, "<style"))
	assert.Equal(t, 1, strings.Count(page, "</style>"))
	assert.NotContains(t, page, "<img")
	assert.NotContains(t, page, "<!--")
	assert.NotRegexp(t, `<[^>]*\son\w+=`, page)
	assert.NotRegexp(t, `(?i)href="(javascript|//)`, page)
	head, _, _ := strings.Cut(page, "</title>")
	assert.NotContains(t, head, "<script")
}

// rowsOf returns the rows of the table as a reader sees them, and in brackets what pictures say.
func rowsOf(page string) (rows []string) {
	_, table, _ := strings.Cut(page, `<table class="guards">`)
	table, _, _ = strings.Cut(table, "</table>")
	table = regexp.MustCompile(`aria-label="([^"]*)"[^>]*>`).ReplaceAllString(table, ">[$1]")
	table = regexp.MustCompile(`\]<title>[^<]*</title>`).ReplaceAllString(table, "]")
	table = regexp.MustCompile(`<title>([^<]*)</title>`).ReplaceAllString(table, "{$1} ")
	table = strings.ReplaceAll(table, `<span class="state">`, "● ")
	table = strings.ReplaceAll(table, `<small class="note">`, " ")
	for _, row := range strings.Split(table, "<tr class=")[1:] {
		_, row, _ = strings.Cut(row, ">")
		row = regexp.MustCompile(`</t[hd]>`).ReplaceAllString(row, " | ")
		row = regexp.MustCompile(`<[^>]*>`).ReplaceAllString(row, "")
		row = regexp.MustCompile(`([^ ])\[`).ReplaceAllString(row, "$1 [")
		row = strings.ReplaceAll(row, "]{", "] {")
		rows = append(rows, strings.TrimSuffix(strings.Join(strings.Fields(html.UnescapeString(row)), " "), " |"))
	}
	return rows
}
