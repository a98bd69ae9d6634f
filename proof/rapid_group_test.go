package proof_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/seawall-go/seawall"
	"github.com/seawall-go/seawall/proof/model"
)

// slots is the limit of every bulkhead in a group.
const slots = 2

var errNoTenant = errors.New("no such tenant")

// tenant is a policy that a Group has made, with models of its parts. It is a Breaker, a Bulkhead, or a Chain of both,
// as its key says.
type tenant struct {
	policy   seawall.Policy
	breaker  *seawall.Breaker // nil: it has none
	m        model.Breaker
	born     time.Duration     // what the clock showed
	bulkhead *seawall.Bulkhead // nil: it has none
	inside   int               // calls that have a slot
	pins     int               // calls that the Group knows of
}

// newTenant makes the policy of a key. Keys below 0 have none.
func newTenant(key int, clock *fakeClock) (*tenant, error) {
	if key < 0 {
		return nil, errNoTenant
	}
	k := &tenant{born: clock.Now().Sub(model.Start())}
	if key%4 != 1 {
		set := small()
		if key%2 == 0 {
			set = slow()
		}
		k.m = model.New(set)
		k.breaker = seawall.Must(seawall.NewBreaker("", append(options(set), seawall.WithClock(clock))...))
		k.policy = k.breaker
	}
	if key%4 != 0 {
		k.bulkhead = seawall.Must(seawall.NewBulkhead("", slots, seawall.WithMaxWait(0)))
		k.policy = k.bulkhead
	}
	switch key % 4 {
	case 2:
		k.policy = seawall.Chain(k.breaker, k.bulkhead)
	case 3:
		k.policy = seawall.Chain(seawall.Chain(k.breaker), seawall.PolicyFunc(
			func(ctx context.Context, fn func(context.Context) error) error { return fn(ctx) },
		), k.bulkhead)
	}
	return k, nil
}

func (k *tenant) idle() bool { return k.pins == 0 && k.inside == 0 && (k.breaker == nil || k.m.Idle()) }

// begin is a call under the policy, and reports whether it may run.
func (k *tenant) begin(id int) bool {
	if k.breaker != nil {
		m, rejection := k.m.Allow(id)
		if k.m = m; rejection != nil {
			return false
		}
	}
	if k.bulkhead != nil {
		if k.inside == slots {
			k.m = k.m.Done(id, seawall.Ignored, 0)
			return false
		}
		k.inside++
	}
	return true
}

func (k *tenant) end(id int, res result) {
	if k.bulkhead != nil {
		k.inside--
	}
	if k.breaker != nil {
		k.m = k.m.Done(id, res.outcome, res.hint)
	}
}

// check returns how the parts differ from their models.
func (k *tenant) check() error {
	if k.breaker != nil {
		got, want := k.breaker.Snapshot(), k.m.Snapshot()
		want.Since = want.Since.Add(k.born)
		if !reflect.DeepEqual(got, want) {
			return fmt.Errorf("breaker:\n got %+v\nwant %+v", got, want)
		}
	}
	if k.bulkhead != nil {
		if got := k.bulkhead.Snapshot().InFlight; got != k.inside {
			return fmt.Errorf("bulkhead: %d in flight, want %d", got, k.inside)
		}
	}
	return nil
}

// guest is a call that a Group runs, or what Acquire handed out.
type guest struct {
	id     int
	tenant *tenant       // nil: the overflow policy, which has nothing to lose
	fn     bool          // it is a call whose function runs
	end    chan error    // ends a call
	over   chan error    // what it returned
	inside chan struct{} // closed when its function runs
	give   func()
}

// groupMachine drives a Group and its model.
type groupMachine struct {
	clock   *fakeClock
	g       *seawall.Group[int]
	maxKeys int
	m       model.Group
	tenants []*tenant // by number, from 1
	made    []*tenant // by the Group, and not yet expected
	outside int       // calls that the overflow policy ran
	guests  []*guest
	touched *tenant
	ids     int
	results *rapid.Generator[result]
	sum     *groupFigures
}

type groupFigures struct{ operations, evictions, overflow, forgotten atomic.Int64 }

func newGroupMachine(maxKeys int, results *rapid.Generator[result], sum *groupFigures) *groupMachine {
	s := &groupMachine{
		clock: newFakeClock(), maxKeys: maxKeys, m: model.NewGroup(maxKeys), tenants: []*tenant{nil}, results: results, sum: sum,
	}
	s.g = seawall.Must(seawall.NewGroup(func(key int) (seawall.Policy, error) {
		k, err := newTenant(key, s.clock)
		if err != nil {
			return nil, err
		}
		s.made = append(s.made, k)
		return k.policy, nil
	}, seawall.WithMaxKeys(maxKeys), seawall.WithOverflow(seawall.PolicyFunc(
		func(ctx context.Context, fn func(context.Context) error) error { s.outside++; return fn(ctx) },
	))))
	s.made = nil // The trial.
	return s
}

func (s *groupMachine) key(t *rapid.T) int {
	return rapid.IntRange(-1, 2*s.maxKeys).Draw(t, "key")
}

// expect brings the model to where a call for key must have led, and returns the policy that it is under.
func (s *groupMachine) expect(t *rapid.T, key int) (*tenant, model.Fate) {
	t.Helper()
	before := len(s.tenants)
	m, member, fate := s.m.Call(key, key >= 0,
		func(k model.Member) bool { return s.tenants[k.Policy].idle() },
		func(candidates []model.Member) model.Member {
			for _, k := range s.m.Members() {
				if _, found := s.g.Get(k.Key); found {
					continue
				}
				if !slices.Contains(candidates, k) {
					t.Fatalf("key %d has lost its policy, which was not idle: %+v", k.Key, s.tenants[k.Policy])
				}
				s.sum.forgotten.Add(int64(one(s.tenants[k.Policy].forgotten())))
				return k
			}
			t.Fatalf("nobody made room for key %d, although %v may be evicted", key, candidates)
			return model.Member{}
		})
	s.m = m
	s.tenants, s.made = append(s.tenants, s.made...), nil
	if made := len(s.tenants) - before; made != one(fate == model.Made) {
		t.Fatalf("%d policies were made for key %d, whose call was to be %v", made, key, fate)
	}
	s.touched = s.tenants[member.Policy]
	return s.touched, fate
}

// forgotten reports whether k has failures, and is idle only because that was long ago.
func (k *tenant) forgotten() bool {
	return k.breaker != nil && (k.m.Settled() != seawall.Closed || k.m.Snapshot().ConsecutiveFailures > 0)
}

// Call is a whole call.
func (s *groupMachine) Call(t *rapid.T) {
	key, res := s.key(t), s.results.Draw(t, "result")
	ran, outside := false, s.outside
	fn := func(context.Context) error { ran = true; return res.err }
	var err error
	if rapid.Bool().Draw(t, "as a policy") {
		err = s.g.Policy(key).Do(context.Background(), fn)
	} else {
		err = s.g.Do(context.Background(), key, fn)
	}
	k, fate := s.expect(t, key)
	s.ids++
	want := fate != model.Fails && (k == nil || k.begin(s.ids))
	if want && k != nil {
		k.end(s.ids, res)
	}
	s.judge(t, fate, want, ran, s.outside-outside, err, res.err)
}

// judge holds what came of a call to what had to.
func (s *groupMachine) judge(t *rapid.T, fate model.Fate, want, ran bool, outside int, err, wantErr error) {
	t.Helper()
	switch {
	case ran != want:
		t.Fatalf("fn ran: %v, want %v", ran, want)
	case outside != one(fate == model.Overflows):
		t.Fatalf("%d calls ran under the overflow policy, and this one was to be %v", outside, fate)
	case want && err != wantErr: //nolint:errorlint // The very value must come back.
		t.Fatalf("Do returned %v, want %v", err, wantErr)
	case !want && (!errors.Is(err, seawall.ErrRejected) || errors.Is(err, errNoTenant) != (fate == model.Fails)):
		t.Fatalf("a call that did not run returned %v", err)
	}
}

// crowd skips an operation that would hold a policy when that many are held that nothing could be evicted any more.
func (s *groupMachine) crowd(t *rapid.T) {
	if len(s.guests) >= s.maxKeys {
		t.Skip()
	}
}

// Begin is a call that goes on running.
func (s *groupMachine) Begin(t *rapid.T) {
	s.crowd(t)
	key, outside := s.key(t), s.outside
	s.ids++
	c := &guest{id: s.ids, fn: true, end: make(chan error), over: make(chan error, 1), inside: make(chan struct{})}
	go func() {
		c.over <- s.g.Do(context.Background(), key, func(context.Context) error { close(c.inside); return <-c.end })
	}()
	ran, err := false, error(nil)
	select {
	case <-c.inside:
		ran = true
	case err = <-c.over:
	}
	k, fate := s.expect(t, key)
	want := fate != model.Fails && (k == nil || k.begin(c.id))
	s.judge(t, fate, want, ran, s.outside-outside, err, nil)
	if ran {
		s.hold(c, k)
	}
}

func (s *groupMachine) hold(c *guest, k *tenant) {
	if c.tenant = k; k != nil {
		k.pins++
	}
	s.guests = append(s.guests, c)
}

// Acquire holds a policy without a call.
func (s *groupMachine) Acquire(t *rapid.T) {
	s.crowd(t)
	key := s.key(t)
	p, give, err := s.g.Acquire(context.Background(), key)
	k, fate := s.expect(t, key)
	switch fate {
	case model.Fails:
		s.judge(t, fate, false, false, 0, err, nil)
		return
	case model.Served, model.Made:
		if p != k.policy || err != nil {
			t.Fatalf("Acquire returned another policy, or the error %v", err)
		}
	case model.Overflows:
	}
	s.hold(&guest{give: give}, k)
}

// Finish ends a call or gives a policy back, also one that was removed from the Group meanwhile.
func (s *groupMachine) Finish(t *rapid.T) {
	if len(s.guests) == 0 {
		t.Skip()
	}
	i := rapid.IntRange(0, len(s.guests)-1).Draw(t, "which")
	c := s.guests[i]
	s.guests = slices.Delete(s.guests, i, i+1)
	s.touched = c.tenant
	s.leave(t, c, s.results.Draw(t, "result"))
}

func (s *groupMachine) leave(t *rapid.T, c *guest, res result) {
	if c.fn {
		c.end <- res.err
		if err := <-c.over; err != res.err { //nolint:errorlint // The very value must come back.
			t.Fatalf("Do returned %v, want %v", err, res.err)
		}
	} else {
		c.give()
		c.give() // Which does nothing.
	}
	if c.tenant == nil {
		return
	}
	c.tenant.pins--
	if c.fn {
		c.tenant.end(c.id, res)
	}
}

func (s *groupMachine) Remove(t *rapid.T) {
	if rapid.IntRange(0, 3).Draw(t, "really") > 0 {
		t.Skip()
	}
	key := s.key(t)
	s.g.Remove(key)
	s.m = s.m.Remove(key)
}

// Aside is a call under a policy that Get has found: the Group knows nothing of it.
func (s *groupMachine) Aside(t *rapid.T) {
	if len(s.m.Members()) == 0 {
		t.Skip()
	}
	member := rapid.SampledFrom(s.m.Members()).Draw(t, "member")
	s.touched = s.tenants[member.Policy]
	s.byHand(t, s.touched, rapid.IntRange(0, 5).Draw(t, "what"))
}

func (s *groupMachine) byHand(t *rapid.T, k *tenant, what int) {
	switch {
	case what == 0 && k.breaker != nil:
		k.breaker.ForceOpen()
		k.m = k.m.ForceOpen()
	case what <= 2 && k.breaker != nil:
		k.breaker.Reset()
		k.m = k.m.Reset()
	case k.bulkhead != nil && k.breaker == nil:
		release, err := k.bulkhead.Acquire(context.Background())
		if (err == nil) != (k.inside < slots) {
			t.Fatalf("Acquire returned %v with %d inside", err, k.inside)
		}
		if err == nil {
			k.inside++
			s.guests = append(s.guests, &guest{give: sync.OnceFunc(func() { release(); k.inside-- })})
		}
	default:
		t.Skip()
	}
}

func (s *groupMachine) Advance(t *rapid.T) {
	set := small()
	d := rapid.SampledFrom([]time.Duration{
		1, time.Second, set.Cooldown - 1, set.Cooldown, slow().SlowCallThreshold + slow().SlowCallThreshold/8,
		set.Window, time.Hour - set.Cooldown, time.Hour - 1, time.Hour, -time.Second,
	}).Draw(t, "d")
	s.clock.Advance(d)
	for _, k := range s.tenants[1:] {
		k.m = k.m.Advance(d)
	}
}

// Check compares all that a Group shows. Looking must change nothing, so all of it is looked at.
func (s *groupMachine) Check(t *rapid.T) {
	s.sum.operations.Add(1)
	members := s.m.Members()
	want := seawall.GroupSnapshot{
		Size: len(members), MaxKeys: s.maxKeys, Evictions: uint64(s.m.Evictions()), Overflow: uint64(s.m.Overflow()),
	}
	if got := s.g.Snapshot(); got != want {
		t.Fatalf("Snapshot:\n got %+v\nwant %+v", got, want)
	}
	i := 0
	for key, p := range s.g.All() {
		if i == len(members) || members[i].Key != key || p != s.tenants[members[i].Policy].policy {
			t.Fatalf("All: entry %d is key %d with the policy %v; want %v", i, key, p, members)
		}
		i++
	}
	for key := -1; key <= 2*s.maxKeys; key++ {
		p, found := s.g.Get(key)
		i := slices.IndexFunc(members, func(k model.Member) bool { return k.Key == key })
		if found != (i >= 0) || found && p != s.tenants[members[i].Policy].policy {
			t.Fatalf("Get(%d): %v %v, want member %d of %v", key, p, found, i, members)
		}
	}
	if s.touched != nil {
		if err := s.touched.check(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRapidGroup runs random stories on Groups of breakers, bulkheads and chains, and on a model that recounts who may
// be evicted. The Groups are small, so that each search for a place sees all members twice.
func TestRapidGroup(t *testing.T) {
	var sum groupFigures
	start := time.Now()
	results := rapid.SampledFrom(results())
	rapidly(t, scaled(500_000, 20_000_000), func(t *rapid.T) {
		s := newGroupMachine(rapid.SampledFrom([]int{1, 2, 3, 5, 8}).Draw(t, "max keys"), results, &sum)
		defer s.finish(t)
		t.Repeat(rapid.StateMachineActions(s))
		sum.evictions.Add(int64(s.m.Evictions()))
		sum.overflow.Add(int64(s.m.Overflow()))
	})
	figures(t, "%d operations, %d evictions (%d of breakers with failures, an hour later), %d calls without a place, 0 differences, in %v",
		sum.operations.Load(), sum.evictions.Load(), sum.forgotten.Load(), sum.overflow.Load(), time.Since(start).Round(time.Second/10))
}

// finish ends all calls, for their goroutines must end.
func (s *groupMachine) finish(t *rapid.T) {
	for _, c := range s.guests {
		s.leave(t, c, result{})
	}
}
