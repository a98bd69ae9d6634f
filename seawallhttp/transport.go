package seawallhttp

import (
	"cmp"
	"context"
	"errors"
	"net/http"

	"github.com/seawall-go/seawall"
)

// A Transport is an [http.RoundTripper] that sends each request under the guards of its host: a [seawall.Breaker], and
// a [seawall.Bulkhead] if one was asked for. It goes into an [http.Client], or around the transport that is there
// already.
//
// Make one with [NewTransport] and use it for all requests. It is safe for use by several goroutines and has nothing to
// close. It never changes a request and never reads a body ahead of its caller.
type Transport struct {
	// Set once in NewTransport.
	base   http.RoundTripper
	config transportConfig
	group  *seawall.Group[string] // of the guards for each key, nil if there are none
}

// NewTransport returns a Transport that sends requests through base; nil is [http.DefaultTransport]. Without options
// each host has a breaker of its own, with the default options of [seawall.NewBreaker], and no bulkhead.
//
// The error, if any, joins one for every option that is not legal. Where the options are constants, use [seawall.Must]:
//
//	client := &http.Client{Transport: seawall.Must(seawallhttp.NewTransport(nil))}
func NewTransport(base http.RoundTripper, opts ...TransportOption) (*Transport, error) {
	if base == nil {
		base = http.DefaultTransport
	}
	config, err := newTransportConfig(opts)
	t := &Transport{base: base, config: config}
	if config.newBreaker != nil || config.newBulkhead != nil {
		group, bad := seawall.NewGroup(t.config.newGuards, seawall.WithMaxKeys(config.maxKeys))
		t.group, err = group, errors.Join(err, bad)
	}
	if err != nil {
		return nil, err
	}
	return t, nil
}

// RoundTrip sends req under the guards of its key; see [WithKey]. It returns what the base transport returned, or the
// guard's error as it is, without having sent anything. That error matches [seawall.ErrRejected], and an [http.Client]
// puts a [*url.Error] around it, through which [errors.Is] sees. The body of a rejected request is closed. See
// [WithRejectAsResponse] for a response instead.
//
// The breaker learns of the result when the response's headers are there, or of its body's end; see [WithJudgeBody]. The
// bulkhead's slot is held until the response's body has been read to its end or closed; see [WithReleaseAtHeaders]. So a
// body that is never closed keeps its slot for ever, as it keeps its connection.
//
// If the base transport panics, the request counts as a failure and the panic goes on. RoundTrip panics on a Transport
// that was not made by NewTransport.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	t.mustBeMade()
	key := t.config.key(req)
	if key == "" {
		return t.base.RoundTrip(req)
	}
	c, err := t.admit(req, key)
	if err != nil {
		return t.reject(req, err)
	}
	return c.send(t.base)
}

// CloseIdleConnections is called by the method of the same name of an [http.Client]. It calls that of the base transport,
// if there is one.
func (t *Transport) CloseIdleConnections() {
	t.mustBeMade()
	if base, ok := t.base.(interface{ CloseIdleConnections() }); ok {
		base.CloseIdleConnections()
	}
}

// Breaker returns the breaker for requests with this key, nil if there is none: if the key was not seen yet, or has been
// forgotten. Like [seawall.Group.Get] it only looks.
func (t *Transport) Breaker(key string) *seawall.Breaker {
	t.mustBeMade()
	return t.look(key).breaker
}

// Bulkhead returns the bulkhead for requests with this key, nil if there is none. Like [seawall.Group.Get] it only looks.
func (t *Transport) Bulkhead(key string) *seawall.Bulkhead {
	t.mustBeMade()
	return t.look(key).bulkhead
}

// Guards returns the Group that has the guards for each key, for those who show or export them: each is a Policy
// that tells its parts by the method Policies of a [seawall.Chain]. It is nil if no key has guards of its own.
func (t *Transport) Guards() *seawall.Group[string] {
	t.mustBeMade()
	return t.group
}

func (t *Transport) mustBeMade() {
	if t == nil || t.base == nil {
		panic("seawallhttp: use of a Transport that was not made by NewTransport")
	}
}

// take returns the guards for key. They are not forgotten before unpin is called.
func (t *Transport) take(ctx context.Context, key string) (g guards, unpin func(), err error) {
	if t.group == nil {
		return t.shared(), func() {}, nil
	}
	policy, unpin, err := t.group.Acquire(ctx, key)
	if err != nil {
		return guards{}, nil, err
	}
	return t.shared().with(policy), unpin, nil
}

func (t *Transport) look(key string) guards {
	g := t.shared()
	if t.group != nil {
		if policy, ok := t.group.Get(key); ok {
			g = g.with(policy)
		}
	}
	return g
}

// shared are the guards that all keys have in common.
func (t *Transport) shared() guards { return guards{t.config.breaker, t.config.bulkhead} }

// guards are what a request has to pass; what is nil, there is not. Those of a key are a Policy, for a Group to keep and for
// others who find it there; a Transport goes through them in steps of its own.
type guards struct {
	breaker  *seawall.Breaker
	bulkhead *seawall.Bulkhead
}

// Do implements seawall.Policy.
func (g *guards) Do(ctx context.Context, fn func(context.Context) error) error {
	return seawall.Chain(g.Policies()...).Do(ctx, fn)
}

// Policies tells the Group when the guards may be forgotten, and exporters what is in there.
func (g *guards) Policies() []seawall.Policy {
	var policies []seawall.Policy
	if g.breaker != nil {
		policies = append(policies, g.breaker)
	}
	if g.bulkhead != nil {
		policies = append(policies, g.bulkhead)
	}
	return policies
}

// with adds the guards that a key has for itself. A key without a place in the group has none: it gets another policy.
func (g guards) with(policy seawall.Policy) guards {
	if own, ok := policy.(*guards); ok {
		g.breaker, g.bulkhead = cmp.Or(own.breaker, g.breaker), cmp.Or(own.bulkhead, g.bulkhead)
	}
	return g
}
