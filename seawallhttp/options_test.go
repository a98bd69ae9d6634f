package seawallhttp_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seawall-go/seawall"
	"github.com/seawall-go/seawall/seawallhttp"
)

// Every kind of option and every kind of bad value, and what is said to it.
func TestBadTransportOptions(t *testing.T) {
	badBreaker := func(string) (*seawall.Breaker, error) { return seawall.NewBreaker("", seawall.WithCooldown(0)) }
	badBulkhead := func(string) (*seawall.Bulkhead, error) { return seawall.NewBulkhead("", 0) }
	for name, row := range map[string]struct {
		opts []seawallhttp.TransportOption
		says string
	}{
		"nil":                  {[]seawallhttp.TransportOption{nil}, "option 1 of the list is nil"},
		"WithKey":              {[]seawallhttp.TransportOption{seawallhttp.WithKey(nil)}, "WithKey: the argument must not be nil"},
		"WithBreakers":         {[]seawallhttp.TransportOption{seawallhttp.WithBreakers(nil)}, "WithBreakers: the argument must not be nil"},
		"WithBreaker":          {[]seawallhttp.TransportOption{seawallhttp.WithBreaker(nil)}, "WithBreaker: the argument must not be nil"},
		"WithBulkheads":        {[]seawallhttp.TransportOption{seawallhttp.WithBulkheads(nil)}, "WithBulkheads: the argument must not be nil"},
		"WithBulkhead":         {[]seawallhttp.TransportOption{seawallhttp.WithBulkhead(nil)}, "WithBulkhead: the argument must not be nil"},
		"WithClassifier":       {[]seawallhttp.TransportOption{seawallhttp.WithClassifier(nil)}, "WithClassifier: the argument must not be nil"},
		"WithMaxKeys, low":     {[]seawallhttp.TransportOption{seawallhttp.WithMaxKeys(0)}, "WithMaxKeys: n 0 must be from 1 to 1048576"},
		"WithMaxKeys, high":    {[]seawallhttp.TransportOption{seawallhttp.WithMaxKeys(1<<20 + 1)}, "WithMaxKeys: n 1048577 must be from 1 to 1048576"},
		"status, low":          {[]seawallhttp.TransportOption{seawallhttp.WithOutcome(99, seawall.Success)}, "WithOutcome: status 99 must be from 100 to 999"},
		"status, high":         {[]seawallhttp.TransportOption{seawallhttp.WithOutcome(1000, seawall.Success)}, "WithOutcome: status 1000 must be from 100 to 999"},
		"outcome, low":         {[]seawallhttp.TransportOption{seawallhttp.WithOutcome(200, -1)}, "WithOutcome: outcome Outcome(-1) must be Success, Failure or Ignored"},
		"outcome, high":        {[]seawallhttp.TransportOption{seawallhttp.WithOutcome(200, 3)}, "WithOutcome: outcome Outcome(3) must be Success, Failure or Ignored"},
		"reject status, low":   {[]seawallhttp.TransportOption{seawallhttp.WithRejectAsResponse(399)}, "WithRejectAsResponse: status 399 must be from 400 to 599"},
		"reject status, high":  {[]seawallhttp.TransportOption{seawallhttp.WithRejectAsResponse(600)}, "WithRejectAsResponse: status 600 must be from 400 to 599"},
		"bad breakers":         {[]seawallhttp.TransportOption{seawallhttp.WithBreakers(badBreaker)}, "WithCooldown: d 0s must be above 0"},
		"bad bulkheads":        {[]seawallhttp.TransportOption{seawallhttp.WithBulkheads(badBulkhead)}, "NewBulkhead: limit 0 must be from 1 to 1048576"},
		"breaker and breakers": {[]seawallhttp.TransportOption{seawallhttp.WithBreaker(br(t)), seawallhttp.WithBreakers(breakers)}, "WithBreaker and WithBreakers: only one of them may be given"},
		"bulkhead, bulkheads":  {[]seawallhttp.TransportOption{seawallhttp.WithBulkhead(bh(t, 1)), seawallhttp.WithBulkheads(bulkheads)}, "WithBulkhead and WithBulkheads: only one of them may be given"},
		"overridden later":     {[]seawallhttp.TransportOption{seawallhttp.WithMaxKeys(-1), seawallhttp.WithMaxKeys(1)}, "WithMaxKeys: n -1 must be from 1 to 1048576"},
	} {
		t.Run(name, func(t *testing.T) {
			transport, err := seawallhttp.NewTransport(nil, row.opts...)
			assert.Nil(t, transport)
			require.ErrorContains(t, err, row.says)
		})
	}
}

func breakers(key string) (*seawall.Breaker, error)   { return seawall.NewBreaker(key) }
func bulkheads(key string) (*seawall.Bulkhead, error) { return seawall.NewBulkhead(key, 1) }

func TestAllBadOptionsAreReportedAtOnce(t *testing.T) {
	_, err := seawallhttp.NewTransport(nil,
		seawallhttp.WithKey(nil),
		nil,
		seawallhttp.WithMaxKeys(0),
		seawallhttp.WithOutcome(0, 9),
		seawallhttp.WithBreakers(func(string) (*seawall.Breaker, error) { return nil, errBoom }),
		seawallhttp.WithBulkheads(func(string) (*seawall.Bulkhead, error) { return nil, nil }),
	)
	require.EqualError(t, err, `seawallhttp: WithKey: the argument must not be nil
seawallhttp: option 2 of the list is nil
seawallhttp: WithMaxKeys: n 0 must be from 1 to 1048576
seawallhttp: WithOutcome: status 0 must be from 100 to 999
seawallhttp: WithOutcome: outcome Outcome(9) must be Success, Failure or Ignored
seawall: NewGroup: the policy function fails for the zero key: boom
seawallhttp: the function returned neither a bulkhead nor an error`)
}

func TestLegalTransportOptions(t *testing.T) {
	for _, opts := range [][]seawallhttp.TransportOption{
		nil,
		{seawallhttp.WithMaxKeys(1), seawallhttp.WithMaxKeys(1 << 20)},
		{seawallhttp.WithOutcome(100, seawall.Ignored), seawallhttp.WithOutcome(999, seawall.Success)},
		{seawallhttp.WithRejectAsResponse(400), seawallhttp.WithRejectAsResponse(599)},
		{seawallhttp.WithBreaker(br(t)), seawallhttp.WithBulkheads(bulkheads)},
		{seawallhttp.WithBreakers(breakers), seawallhttp.WithBulkhead(bh(t, 1))},
		{seawallhttp.WithClassifier(seawallhttp.GatewayClassifier), seawallhttp.WithKey(seawallhttp.HostKey)},
		{seawallhttp.WithJudgeBody(), seawallhttp.WithReleaseAtHeaders()},
	} {
		_, err := seawallhttp.NewTransport(nil, opts...)
		require.NoError(t, err)
	}
}

func TestMaxKeys(t *testing.T) {
	assert.Equal(t, 1024, over(t, nil).Guards().Snapshot().MaxKeys)
	assert.Equal(t, 7, over(t, nil, seawallhttp.WithMaxKeys(7)).Guards().Snapshot().MaxKeys)
}

// Mistakes in the wiring of a server panic when it is wired, all at once.
func TestBadHandlerOptions(t *testing.T) {
	reject := func(http.ResponseWriter, *http.Request, error) {}
	for name, row := range map[string]struct {
		opts []seawallhttp.HandlerOption
		says string
	}{
		"nil":               {[]seawallhttp.HandlerOption{nil}, "seawallhttp: option 1 of the list is nil"},
		"WithSkip":          {[]seawallhttp.HandlerOption{seawallhttp.WithSkip(nil)}, "seawallhttp: WithSkip: the argument must not be nil"},
		"WithRejectHandler": {[]seawallhttp.HandlerOption{seawallhttp.WithRejectHandler(nil)}, "seawallhttp: WithRejectHandler: the argument must not be nil"},
		"WithStatus, low":   {[]seawallhttp.HandlerOption{seawallhttp.WithStatus(399)}, "seawallhttp: WithStatus: status 399 must be from 400 to 599"},
		"WithStatus, high":  {[]seawallhttp.HandlerOption{seawallhttp.WithStatus(600)}, "seawallhttp: WithStatus: status 600 must be from 400 to 599"},
		"two of one kind": {
			[]seawallhttp.HandlerOption{seawallhttp.WithStatus(503), seawallhttp.WithRejectHandler(reject)},
			"seawallhttp: WithStatus and WithRejectHandler: only one of them may be given",
		},
		"several": {
			[]seawallhttp.HandlerOption{seawallhttp.WithSkip(nil), seawallhttp.WithStatus(0)},
			"seawallhttp: WithSkip: the argument must not be nil\nseawallhttp: WithStatus: status 0 must be from 400 to 599",
		},
	} {
		t.Run(name, func(t *testing.T) {
			assert.PanicsWithError(t, row.says, func() { seawallhttp.Limit(bh(t, 1), row.opts...) })
			assert.PanicsWithError(t, row.says, func() { seawallhttp.Guard(br(t), row.opts...) })
			assert.PanicsWithError(t, "seawallhttp: Limit: the bulkhead must not be nil\n"+row.says,
				func() { seawallhttp.Limit(nil, row.opts...) })
			assert.PanicsWithError(t, "seawallhttp: Guard: the breaker must not be nil\n"+row.says,
				func() { seawallhttp.Guard(nil, row.opts...) })
		})
	}
}
