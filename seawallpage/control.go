package seawallpage

import (
	"net/http"
	"slices"
	"strings"

	"github.com/seawall-go/seawall"
)

// action is something that a POST may do to a breaker.
type action struct {
	Name   string // the value of the form field
	Effect string
	do     func(*seawall.Breaker) error
	idle   func(seawall.Snapshot) bool // nothing would happen
}

func actions() []action {
	return []action{
		{
			"force-open", "reject every call until reset",
			func(b *seawall.Breaker) error { b.ForceOpen(); return nil },
			func(s seawall.Snapshot) bool { return s.Forced },
		},
		{
			"reset", "close it, and forget what was counted",
			func(b *seawall.Breaker) error { b.Reset(); return nil },
			func(s seawall.Snapshot) bool {
				return s.State == seawall.Closed && s.Calls == 0 && s.ConsecutiveFailures == 0
			},
		},
		{
			"observe", "let every call run, and only count what would be rejected",
			func(b *seawall.Breaker) error { return b.SetMode(seawall.Observe) },
			func(s seawall.Snapshot) bool { return s.Mode == seawall.Observe },
		},
		{
			"enforce", "reject calls when they should be",
			func(b *seawall.Breaker) error { return b.SetMode(seawall.Enforce) },
			func(s seawall.Snapshot) bool { return s.Mode == seawall.Enforce },
		},
	}
}

// serveControl obeys a POST, and sends the browser back to where it was by a fresh GET.
func (h *Handler) serveControl(w http.ResponseWriter, r *http.Request) {
	if err := h.protection.Check(r); err != nil {
		fail(w, http.StatusForbidden, "%v", err)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, 1<<10)
	if err := r.ParseForm(); err != nil {
		fail(w, http.StatusBadRequest, "the form can't be read: %v", err)
		return
	}
	act, ok := actionOf(r)
	if !ok {
		fail(w, http.StatusBadRequest, "action %q must be one of %s", r.PostForm.Get("action"), actionNames())
		return
	}
	wanted := filterOf(r)
	if !wanted.byName {
		fail(w, http.StatusBadRequest, "the URL must say ?name= of which breaker")
		return
	}
	switch breakers := h.breakersNamed(wanted.name); len(breakers) {
	case 0:
		fail(w, http.StatusNotFound, "no breaker has the name %q", wanted.name)
	case 1:
		if err := act.do(breakers[0]); err != nil {
			fail(w, http.StatusInternalServerError, "%v", err)
			return
		}
		// A relative one, for http.StripPrefix has cut off where this is.
		w.Header().Set("Location", "?"+r.URL.Query().Encode())
		w.WriteHeader(http.StatusSeeOther)
	default:
		fail(w, http.StatusConflict, "%d breakers have the name %q", len(breakers), wanted.name)
	}
}

func actionOf(r *http.Request) (action, bool) {
	all := actions()
	i := slices.IndexFunc(all, func(a action) bool { return a.Name == r.PostForm.Get("action") })
	if i < 0 {
		return action{}, false
	}
	return all[i], true
}

func actionNames() string {
	var names []string
	for _, a := range actions() {
		names = append(names, a.Name)
	}
	return strings.Join(names, ", ")
}

func (h *Handler) breakersNamed(name string) []*seawall.Breaker {
	var found []*seawall.Breaker
	for m := range h.config.members() {
		if m.breaker != nil && m.name() == name {
			found = append(found, m.breaker)
		}
	}
	return found
}
