package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seawall-go/seawall/internal/pipes"
)

// In the middle of the outage the page says that the breaker is open.
func TestPageCanBeWatchedDuringTheOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lan := pipes.New()
		visitor := &http.Client{Transport: &http.Transport{
			DisableKeepAlives: true,
			DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
				return lan.Dial(ctx, network, "server-c:80") // the third that listens
			},
		}}
		var html, guards string
		looked := make(chan struct{})
		go func() {
			defer close(looked)
			time.Sleep(5 * time.Second)
			html, guards = get(t, visitor, "http://localhost/"), get(t, visitor, "http://localhost/guards.json")
		}()
		lines := runJSON(t, t.Context(), onPipes(lan), "-page=:80", "-rate=100")
		<-looked

		assert.Equal(t, "http://localhost:80/", ofKind[settingsEvent](t, lines)[0].Page)
		assert.Contains(t, html, "1 open, 1 fine")
		assert.Contains(t, guards, `"state": "open"`)
		assert.Contains(t, guards, `"kind": "bulkhead"`)
		_, err := visitor.Get("http://localhost/")
		assert.ErrorIs(t, err, net.ErrClosed, "it ends with the run")
	})
}

// Over TCP, with ctrl-C while somebody looks.
func TestPageOverLoopback(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	output, stdout := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, []string{"-json", "-page=127.0.0.1:0", "-rate=50"}, loopback(), stdout)
		assert.NoError(t, stdout.Close())
	}()
	lines := bufio.NewReader(output)
	first, err := lines.ReadBytes('\n')
	require.NoError(t, err)
	var line jsonLine
	require.NoError(t, json.Unmarshal(first, &line))
	go io.Copy(io.Discard, lines) //nolint:errcheck // It ends with the run.

	visitor := &http.Client{Transport: &http.Transport{}}
	defer visitor.CloseIdleConnections()
	url := ofKind[settingsEvent](t, []jsonLine{line})[0].Page
	assert.Regexp(t, `^http://127\.0\.0\.1:[1-9]\d+/$`, url)
	assert.Contains(t, get(t, visitor, url), "2 fine")
	assert.Contains(t, get(t, visitor, url+"?name=backend"), "force-open")
	cancel()
	require.NoError(t, <-ended)
	_, err = visitor.Get(url)
	assert.Error(t, err, "it ends with the run")
}

func TestTextSaysWhereThePageIs(t *testing.T) {
	e := settingsEvent{Page: "http://localhost:8080/"}
	assert.Contains(t, e.text(), "\n  to watch its guards: http://localhost:8080/\n")
	assert.NotContains(t, settingsEvent{}.text(), "watch")
}

func get(t *testing.T, client *http.Client, url string) string {
	t.Helper()
	response, err := client.Get(url)
	if !assert.NoError(t, err) {
		return ""
	}
	defer response.Body.Close() //nolint:errcheck // It was only read.
	body, err := io.ReadAll(response.Body)
	assert.NoError(t, err)
	return string(body)
}
