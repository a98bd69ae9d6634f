package seawallpage

import (
	"bytes"
	"crypto/rand"
	"embed"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"strings"
)

//go:embed page.html style.css script.js
var files embed.FS

// A Handler serves the page and its JSON. It is safe for use by several goroutines, takes a snapshot of each guard when
// it is asked, and keeps nothing between requests: there is nothing to close.
type Handler struct {
	// Set once in NewHandler.
	config     config
	page       *template.Template
	protection http.CrossOriginProtection
}

// NewHandler returns a Handler with the given guards and options.
//
// The error, if any, joins one for each guard and option that is not legal.
func NewHandler(opts ...Option) (*Handler, error) {
	c, err := newConfig(opts)
	if err != nil {
		return nil, err
	}
	return &Handler{config: c, page: template.Must(template.ParseFS(files, "*"))}, nil
}

// ServeHTTP serves these, below the path that the Handler is mounted at:
//
//	GET  /                     the page
//	GET  /?name=NAME           the same for one name, with history, settings and totals
//	GET  /guards.json          all that the page knows
//	GET  /guards.json?name=NAME
//	POST /?name=NAME           with WithControl: the form field action is one of force-open, reset, observe, enforce
//
// A NAME may be that of several guards, or of a Group, and then stands for all of its keys. One that is unknown is
// answered by 404. A POST that names several breakers is answered by 409, one that another site made a browser send by
// 403. After a POST that was obeyed comes 303, back to the page.
//
// ServeHTTP panics on a Handler that was not made by NewHandler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h == nil || h.page == nil {
		panic("seawallpage: use of a Handler that was not made by NewHandler")
	}
	nonce := rand.Text()
	h.setHeaders(w.Header(), nonce)
	switch strings.TrimPrefix(r.URL.Path, "/") { // http.StripPrefix may leave the slash or not.
	case "":
		h.serveRoot(w, r, nonce)
	case "guards.json":
		h.serveJSON(w, r)
	default:
		fail(w, http.StatusNotFound, "there is no %s here, only the page and guards.json", r.URL.Path)
	}
}

// setHeaders sets what keeps the page from doing anything but what it is for, whatever gets into it. The policy about
// the referrer is not stricter because a browser would then hide the origin of the page's own POSTs too.
func (h *Handler) setHeaders(header http.Header, nonce string) {
	forms := "'none'"
	if h.config.control {
		forms = "'self'"
	}
	header.Set("Content-Security-Policy", fmt.Sprintf("default-src 'none'; style-src 'nonce-%[1]s'; script-src 'nonce-%[1]s'; "+
		"img-src data:; connect-src 'self'; form-action %[2]s; base-uri 'none'; frame-ancestors 'none'", nonce, forms))
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cache-Control", "no-store")
	header.Set("Referrer-Policy", "same-origin")
}

func (h *Handler) serveRoot(w http.ResponseWriter, r *http.Request, nonce string) {
	switch {
	case isRead(r):
		h.servePage(w, r, nonce)
	case r.Method == http.MethodPost && h.config.control:
		h.serveControl(w, r)
	case h.config.control:
		refuseMethod(w, r, "GET, HEAD, POST")
	default:
		refuseMethod(w, r, "GET, HEAD")
	}
}

func (h *Handler) servePage(w http.ResponseWriter, r *http.Request, nonce string) {
	wanted := filterOf(r)
	l := h.config.look(wanted)
	var body bytes.Buffer // So that an error does not come after half of a page.
	if err := h.page.ExecuteTemplate(&body, "page.html", newPage(r.Host, nonce, wanted, h.config.control, l)); err != nil {
		fail(w, http.StatusInternalServerError, "the page can't be made: %v", err)
		return
	}
	write(w, "text/html; charset=utf-8", statusOf(wanted, l), body.Bytes())
}

func (h *Handler) serveJSON(w http.ResponseWriter, r *http.Request) {
	if !isRead(r) {
		refuseMethod(w, r, "GET, HEAD")
		return
	}
	wanted := filterOf(r)
	l := h.config.look(wanted)
	var answer any = l
	status := statusOf(wanted, l)
	if status != http.StatusOK {
		answer = map[string]string{"error": unknownName(wanted.name)}
	}
	body, err := json.MarshalIndent(answer, "", "  ")
	if err != nil {
		fail(w, http.StatusInternalServerError, "the JSON can't be made: %v", err)
		return
	}
	write(w, "application/json", status, append(body, '\n'))
}

func isRead(r *http.Request) bool { return r.Method == http.MethodGet || r.Method == http.MethodHead }

func filterOf(r *http.Request) filter {
	query := r.URL.Query()
	return filter{byName: query.Has("name"), name: query.Get("name")}
}

func statusOf(wanted filter, l look) int {
	if wanted.byName && len(l.Guards) == 0 && len(l.Groups) == 0 {
		return http.StatusNotFound
	}
	return http.StatusOK
}

func unknownName(name string) string { return fmt.Sprintf("no guard has the name %q", name) }

func write(w http.ResponseWriter, contentType string, status int, body []byte) {
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(status)
	w.Write(body) //nolint:errcheck // A client that has gone needs no answer.
}

func refuseMethod(w http.ResponseWriter, r *http.Request, allowed string) {
	w.Header().Set("Allow", allowed)
	fail(w, http.StatusMethodNotAllowed, "%s is not allowed here, only %s", r.Method, allowed)
}

// fail answers with one line of plain text.
func fail(w http.ResponseWriter, status int, format string, args ...any) {
	http.Error(w, "seawallpage: "+fmt.Sprintf(format, args...), status)
}
