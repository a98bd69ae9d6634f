package seawallpage_test

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// browser is a headless Chromium, driven over the WebDriver protocol.
type browser struct {
	t       *testing.T
	client  *http.Client
	session string // its URL
}

// openBrowser starts a browser until the end of the test. Without one it skips the test, unless the environment wants
// it to be there.
func openBrowser(t *testing.T) *browser {
	t.Helper()
	driver, err := exec.LookPath("chromedriver")
	if err != nil {
		const missing = "no chromedriver here: install Debian's chromium and chromium-driver to test the page in a browser"
		if os.Getenv("SEAWALL_BROWSER") != "" {
			t.Fatal(missing)
		}
		t.Skip(missing)
	}
	// Not t.TempDir, which fails the test if a process of the browser's that still ends puts something there.
	profile, err := os.MkdirTemp("", "seawallpage") //nolint:usetesting // See above.
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(profile) })
	b := &browser{t: t, client: &http.Client{Transport: &http.Transport{}}, session: startDriver(t, driver) + "/session"}
	t.Cleanup(b.client.CloseIdleConnections)
	var opened struct {
		ID string `json:"sessionId"`
	}
	b.post("", map[string]any{"capabilities": map[string]any{"alwaysMatch": map[string]any{
		"goog:loggingPrefs": map[string]string{"browser": "ALL"},
		"goog:chromeOptions": map[string]any{"args": []string{
			"--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars",
			"--disable-background-networking", "--disable-component-update", "--disable-sync",
			"--disable-dev-shm-usage", "--user-data-dir=" + profile, "--host-resolver-rules=MAP guards.test 127.0.0.1",
		}},
	}}}, &opened)
	b.session += "/" + opened.ID
	t.Cleanup(func() { b.call(http.MethodDelete, "", nil, nil) })
	b.post("/timeouts", map[string]int{"script": 30_000, "pageLoad": 30_000}, nil)
	return b
}

// startDriver starts chromedriver on a port that it chooses, and returns its URL.
func startDriver(t *testing.T, path string) string {
	t.Helper()
	cmd := exec.Command(path, "--port=0")
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := bufio.NewReader(stdout)
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_, _ = io.Copy(io.Discard, lines)
		_ = cmd.Wait()
	})
	started := regexp.MustCompile(`started successfully on port (\d+)`)
	for {
		line, err := lines.ReadString('\n')
		require.NoError(t, err, "chromedriver ended before it listened")
		if port := started.FindStringSubmatch(line); port != nil {
			return "http://127.0.0.1:" + port[1]
		}
	}
}

func (b *browser) open(url string) { b.post("/url", map[string]string{"url": url}, nil) }

// run runs the body of a script's function in the page and puts what it returns into result.
func (b *browser) run(result any, script string, args ...any) {
	b.t.Helper()
	b.post("/execute/sync", map[string]any{"script": script, "args": append([]any{}, args...)}, result)
}

// wait waits until an expression is true in the page. A page that goes away meanwhile takes the waiting script with it,
// so the next one is asked again.
func (b *browser) wait(expression string) {
	b.t.Helper()
	body := map[string]any{"args": []any{}, "script": `
		const done = arguments[0]
		const look = () => { try { return ` + expression + ` } catch { return false } }
		const tell = () => { if (look()) { clearInterval(timer); clearTimeout(end); done('') } }
		const timer = setInterval(tell, 20)
		const end = setTimeout(() => { clearInterval(timer); done(document.body.innerText) }, 15000)
		tell()`}
	var text string
	err := b.try(http.MethodPost, "/execute/async", body, &text)
	for range 5 {
		if err != nil {
			err = b.try(http.MethodPost, "/execute/async", body, &text)
		}
	}
	require.NoError(b.t, err)
	require.Empty(b.t, text, "the page never came to: %s", expression)
}

// click presses an element that is to be seen, as a user does. If the page puts a fresh one in its place just between
// finding and pressing it, that is pressed.
func (b *browser) click(selector string) {
	b.t.Helper()
	err := b.tryClick(selector)
	for tries := 1; tries < 5 && err != nil && strings.Contains(err.Error(), "stale element reference"); tries++ {
		err = b.tryClick(selector)
	}
	require.NoError(b.t, err)
}

func (b *browser) tryClick(selector string) error {
	b.t.Helper()
	var element struct {
		ID string `json:"element-6066-11e4-a52e-4f735466cecf"` // The protocol has this key.
	}
	b.post("/element", map[string]string{"using": "css selector", "value": selector}, &element)
	return b.try(http.MethodPost, "/element/"+element.ID+"/click", map[string]string{}, nil)
}

// text returns what is to be seen of an element.
func (b *browser) text(selector string) (text string) {
	b.t.Helper()
	b.run(&text, `return document.querySelector(arguments[0])?.innerText ?? 'there is no ' + arguments[0]`, selector)
	return text
}

// shown returns the texts of an element's cells that are to be seen, without those that change from second to second.
func (b *browser) shown(selector string) (texts []string) {
	b.t.Helper()
	b.run(&texts, `
		const cells = [...document.querySelector(arguments[0]).cells].filter(c => c.cellIndex !== 3)
		return cells.flatMap(c => c.innerText.split('\n')).map(s => s.trim()).filter(s => s)`, selector)
	for i, text := range texts {
		texts[i] = strings.ReplaceAll(text, "\u00a0", " ")
	}
	return texts
}

// devtools sends a command of the DevTools protocol.
func (b *browser) devtools(command string, params map[string]any) {
	b.t.Helper()
	b.post("/goog/cdp/execute", map[string]any{"cmd": command, "params": params}, nil)
}

// show makes the page light or dark and as wide as a screen.
func (b *browser) show(scheme string, width, height int, phone bool) {
	b.t.Helper()
	b.devtools("Emulation.setEmulatedMedia", map[string]any{
		"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}},
	})
	scale := 1
	if phone {
		scale = 2
	}
	b.devtools("Emulation.setDeviceMetricsOverride", map[string]any{
		"width": width, "height": height, "deviceScaleFactor": scale, "mobile": phone,
	})
}

func (b *browser) screenshot(file string) {
	b.t.Helper()
	var picture string
	b.get("/screenshot", &picture)
	png, err := base64.StdEncoding.DecodeString(picture)
	require.NoError(b.t, err)
	require.NoError(b.t, os.WriteFile(file, png, 0o600))
}

// complaints returns what the browser has logged since it was last asked: errors of scripts, and what the page's policy
// has blocked.
func (b *browser) complaints() (messages []string) {
	b.t.Helper()
	var entries []struct{ Level, Message string }
	b.post("/se/log", map[string]string{"type": "browser"}, &entries)
	for _, e := range entries {
		messages = append(messages, e.Level+": "+e.Message)
	}
	return messages
}

func (b *browser) get(path string, value any) { b.t.Helper(); b.call(http.MethodGet, path, nil, value) }

func (b *browser) post(path string, body, value any) {
	b.t.Helper()
	b.call(http.MethodPost, path, body, value)
}

func (b *browser) call(method, path string, body, value any) {
	b.t.Helper()
	require.NoError(b.t, b.try(method, path, body, value))
}

func (b *browser) try(method, path string, body, value any) error {
	var sent io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return err
		}
		sent = bytes.NewReader(text)
	}
	request, err := http.NewRequest(method, b.session+path, sent)
	if err != nil {
		return err
	}
	response, err := b.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close() //nolint:errcheck // It was only read.
	answer := struct{ Value json.RawMessage }{}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: %s", method, path, answer.Value)
	}
	if value == nil {
		return nil
	}
	return json.Unmarshal(answer.Value, value)
}
