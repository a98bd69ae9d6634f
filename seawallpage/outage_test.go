package seawallpage_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seawall-go/seawall"
	"github.com/seawall-go/seawall/seawallpage"
)

// While dependencies fail and recover, Groups evict and somebody presses buttons, the page is there and makes sense.
func TestPageDuringAnOutage(t *testing.T) {
	clock := newClock(0)
	breaker := br(t, "payments", seawall.WithClock(clock))
	slots := bh(t, "payments", 2, seawall.WithMaxQueue(1))
	hosts, err := seawall.NewGroup(func(host string) (seawall.Policy, error) {
		b, err := seawall.NewBreaker(host, seawall.WithConsecutiveFailures(2), seawall.WithClock(clock))
		return seawall.Chain(b), err
	}, seawall.WithMaxKeys(4))
	require.NoError(t, err)
	server := httptest.NewServer(newHandler(t,
		seawallpage.Breakers(breaker), seawallpage.Bulkheads(slots), seawallpage.Group("hosts", hosts), seawallpage.WithControl(),
	))
	defer server.Close()
	client := server.Client()

	var sick, over atomic.Bool
	call := func(context.Context) error {
		if sick.Load() {
			return errBoom
		}
		return nil
	}
	var callers, readers sync.WaitGroup
	for i := range 3 {
		callers.Go(func() {
			for n := 0; !over.Load(); n++ {
				do(seawall.Chain(breaker, slots), call)
				_ = hosts.Do(context.Background(), fmt.Sprint("host-", (n+i)%8), call)
				if n%200 == 0 {
					sick.Store(!sick.Load())
					clock.Advance(6 * time.Second) // past the cooldown
				}
			}
		})
	}
	for range 2 {
		readers.Go(func() {
			for range 10 {
				page := fetch(t, client, server.URL+"/")
				assert.True(t, strings.HasSuffix(page, "</html>\n"), "the page is whole")
				assert.Len(t, rowsOf(page), strings.Count(page, "<tr class="))
				var seen seenGuards
				if assert.NoError(t, json.Unmarshal([]byte(fetch(t, client, server.URL+"/guards.json")), &seen)) {
					assert.GreaterOrEqual(t, len(seen.Guards), 2)
					assert.LessOrEqual(t, len(seen.Guards), 2+4)
				}
			}
		})
	}
	readers.Go(func() {
		for _, action := range []string{"observe", "force-open", "reset", "enforce", "force-open", "reset"} {
			response, err := client.PostForm(server.URL+"/?name=payments", url.Values{"action": {action}})
			if assert.NoError(t, err) {
				assert.Equal(t, http.StatusOK, response.StatusCode, "of the page that it leads back to")
				assert.NoError(t, response.Body.Close())
			}
		}
	})
	readers.Wait()
	over.Store(true)
	callers.Wait()
	assert.Equal(t, seawall.Enforce, breaker.Mode())
}

func fetch(t *testing.T, client *http.Client, address string) string {
	t.Helper()
	response, err := client.Get(address)
	if !assert.NoError(t, err) {
		return ""
	}
	defer response.Body.Close() //nolint:errcheck // It was only read.
	assert.Equal(t, http.StatusOK, response.StatusCode)
	body, err := io.ReadAll(response.Body)
	assert.NoError(t, err)
	return string(body)
}
