package seawall_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seawall-go/seawall"
)

// Whatever is done in whatever order, the Group does what a trivially correct model of it does. Groups of up to 16 keys
// look at all of them before they give up, so the model can say exactly when a call overflows.
func TestGroupMatchesModel(t *testing.T) {
	for seed := range uint64(100) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 0))
			d := newGroupDrive(t, 1+r.IntN(16))
			for range 200 {
				d.step(t, r)
				d.compare(t)
			}
		})
	}
}

// groupDrive does the same to a Group and to its model.
type groupDrive struct {
	real *seawall.Group[int]
	want seawall.GroupSnapshot
	made int          // how often the function was called
	ops  []string     // what was done so far, for the failure message
	keys []groupModel // in order of creation
	free []func()     // releases of policies that are gone
}

// groupModel is what the model knows about a key that has a policy.
type groupModel struct {
	key      int
	policy   *plain
	releases []func()
}

func (m groupModel) idle() bool { return len(m.releases) == 0 && !m.policy.busy.Load() }

func newGroupDrive(t *testing.T, maxKeys int) *groupDrive {
	t.Helper()
	d := &groupDrive{want: seawall.GroupSnapshot{MaxKeys: maxKeys}}
	d.real = newGroup(t, func(key int) (*plain, error) { d.made++; return newPlain(key) }, seawall.WithMaxKeys(maxKeys))
	d.made = 0 // The trial does not count.
	return d
}

func (d *groupDrive) step(t *testing.T, r *rand.Rand) {
	t.Helper()
	key := r.IntN(2 * d.want.MaxKeys)
	i := slices.IndexFunc(d.keys, func(m groupModel) bool { return m.key == key })
	switch op := r.IntN(10); {
	case op < 6:
		d.acquire(t, key, i, r.IntN(3) > 0)
	case i < 0:
	case op < 7:
		busy := !d.keys[i].policy.busy.Load()
		d.ops = append(d.ops, fmt.Sprintf("busy(%d, %v)", key, busy))
		d.keys[i].policy.busy.Store(busy)
	case op < 9:
		d.release(i)
	default:
		d.ops = append(d.ops, fmt.Sprintf("remove(%d)", key))
		d.real.Remove(key)
		d.free = append(d.free, d.keys[i].releases...)
		d.keys = slices.Delete(d.keys, i, i+1)
	}
	if r.IntN(5) == 0 && len(d.free) > 0 { // A call of a policy that is gone ends at last.
		d.free[0]()
		d.free = d.free[1:]
	}
}

// acquire calls for a key, and brings the model to where that must have led. i is the key's place in keys, or -1.
func (d *groupDrive) acquire(t *testing.T, key, i int, release bool) {
	t.Helper()
	d.ops = append(d.ops, fmt.Sprintf("acquire(%d)", key))
	before := d.made
	policy, give, err := d.real.Acquire(t.Context(), key)
	require.NoError(t, err)
	if release {
		give()
	}
	switch {
	case i >= 0:
		require.Same(t, d.keys[i].policy, policy, "after %v", d.ops)
		require.Equal(t, before, d.made, "after %v", d.ops)
	case len(d.keys) < d.want.MaxKeys:
		i = d.add(t, key, policy)
	case slices.ContainsFunc(d.keys, groupModel.idle):
		gone := slices.IndexFunc(d.keys, func(m groupModel) bool { _, found := d.real.Get(m.key); return !found })
		require.GreaterOrEqual(t, gone, 0, "one must have been evicted after %v", d.ops)
		require.True(t, d.keys[gone].idle(), "%d was in use after %v", d.keys[gone].key, d.ops)
		d.keys = slices.Delete(d.keys, gone, gone+1)
		d.want.Evictions++
		i = d.add(t, key, policy)
	default:
		require.IsNotType(t, &plain{}, policy, "the overflow policy after %v", d.ops)
		require.Equal(t, before, d.made, "after %v", d.ops)
		d.want.Overflow++
		give()
		return
	}
	if !release {
		d.keys[i].releases = append(d.keys[i].releases, give)
	}
}

func (d *groupDrive) add(t *testing.T, key int, p seawall.Policy) int {
	t.Helper()
	require.IsType(t, &plain{}, p, "after %v", d.ops)
	require.Equal(t, key, p.(*plain).key, "after %v", d.ops)
	d.keys = append(d.keys, groupModel{key: key, policy: p.(*plain)})
	return len(d.keys) - 1
}

func (d *groupDrive) release(i int) {
	if m := &d.keys[i]; len(m.releases) > 0 {
		d.ops = append(d.ops, fmt.Sprintf("release(%d)", m.key))
		m.releases[0]()
		m.releases[0]() // Which does nothing.
		m.releases = m.releases[1:]
	}
}

func (d *groupDrive) compare(t *testing.T) {
	t.Helper()
	d.want.Size = len(d.keys)
	require.Equal(t, d.want, d.real.Snapshot(), "after %v", d.ops)
	var got []groupModel
	for key, p := range d.real.All() {
		got = append(got, groupModel{key: key, policy: p.(*plain)})
	}
	require.True(t, slices.EqualFunc(d.keys, got, func(a, b groupModel) bool {
		return a.key == b.key && a.policy == b.policy
	}), "All is %v after %v", got, d.ops)
}

// One key has one policy at a time, and a call never runs under one that was evicted: eviction does not race with calls
// that come and go, with few places and many keys.
func TestStressGroupEvictsNothingInUse(t *testing.T) {
	const keys = 16
	for _, maxKeys := range []int{1, 2, 5, 15} {
		t.Run(fmt.Sprint(maxKeys), func(t *testing.T) {
			var current [2 * keys]atomic.Pointer[tracked]
			g := newGroup(t, func(key int) (*tracked, error) {
				p := &tracked{current: &current[key]}
				if old := p.current.Swap(p); old != nil {
					assert.Zero(t, old.inside.Load(), "the policy of %d was evicted under a call", key)
				}
				return p, nil
			}, seawall.WithMaxKeys(maxKeys))

			var calls atomic.Uint64
			load(t, func(r *rand.Rand) {
				key, ran := r.IntN(keys), false
				err := g.Do(t.Context(), key, func(context.Context) error { ran = true; return nil })
				assert.NoError(t, err)
				assert.True(t, ran, "fn runs, under a policy or under none")
				calls.Add(1)
				if s := g.Snapshot(); s.Size > maxKeys {
					assert.Fail(t, "too many keys", "%+v", s)
				}
			})
			t.Logf("%d calls, %+v", calls.Load(), g.Snapshot())
			wantAllEvictable(t, g, keys)
		})
	}
}

// tracked is a policy that knows whether it is still the one of its key.
type tracked struct {
	current *atomic.Pointer[tracked]
	inside  atomic.Int64
}

func (p *tracked) Do(ctx context.Context, fn func(context.Context) error) error {
	p.inside.Add(1)
	defer p.inside.Add(-1)
	before := p.current.Load()
	err := fn(ctx)
	if before != p || p.current.Load() != p {
		return errors.New("a call ran under a policy that was evicted")
	}
	return err
}

// I1: when nothing runs, nothing is pinned and no place has got lost: as many new keys find a place as there are.
func wantAllEvictable(t *testing.T, g *seawall.Group[int], firstNew int) {
	t.Helper()
	n := g.Snapshot().MaxKeys
	var want []int
	for key := firstNew; key < firstNew+n; key++ {
		_, release, err := g.Acquire(t.Context(), key)
		require.NoError(t, err)
		defer release()
		want = append(want, key)
	}
	assert.Equal(t, want, keysOf(g))
}

// All methods at once, with breakers and bulkheads that trip and fill, and a function that fails and panics at times.
func TestStressGroupAllMethods(t *testing.T) {
	const keys = 12
	var broken atomic.Bool
	var turn atomic.Uint64
	g := newGroup(t, func(key int) (seawall.Policy, error) {
		if broken.Load() {
			switch turn.Add(1) % 20 {
			case 0:
				return nil, errBoom
			case 1:
				panic("boom")
			}
		}
		return seawall.Chain(
			seawall.Must(seawall.NewBreaker("", seawall.WithConsecutiveFailures(3), seawall.WithCooldown(time.Millisecond))),
			seawall.Must(seawall.NewBulkhead("", 2, seawall.WithMaxWait(time.Millisecond))),
		), nil
	}, seawall.WithMaxKeys(8))
	broken.Store(true)
	load(t, func(r *rand.Rand) {
		key := r.IntN(keys)
		fn := ok
		if r.IntN(4) == 0 {
			fn = bad
		}
		defer func() {
			if value := recover(); value != nil {
				assert.Equal(t, "boom", value)
			}
		}()
		switch r.IntN(20) {
		case 0:
			g.Remove(key)
		case 1:
			for _, p := range g.All() {
				_ = do(p, ok) // Without a pin, which nobody should do.
			}
		case 2:
			if p, release, err := g.Acquire(t.Context(), key); err == nil {
				_ = do(p, fn)
				release()
			}
		case 3:
			g.Get(key)
		default:
			_ = g.Do(t.Context(), key, fn)
		}
		if s := g.Snapshot(); s.Size > s.MaxKeys {
			assert.Fail(t, "too many keys", "%+v", s)
		}
	})
	broken.Store(false)
	t.Logf("%+v", g.Snapshot())
	for key := range keys { // Only what is not idle may stay now; it is not in use, though.
		g.Remove(key)
	}
	assert.Zero(t, g.Snapshot().Size)
	wantAllEvictable(t, g, keys)
}

// load runs call again and again in 8 goroutines, for the time of a stress test.
func load(t *testing.T, call func(*rand.Rand)) {
	t.Helper()
	end := time.Now().Add(stressTime(t))
	var all sync.WaitGroup
	for i := range uint64(8) {
		all.Go(func() {
			r := rand.New(rand.NewPCG(i, 1))
			for time.Now().Before(end) {
				call(r)
			}
		})
	}
	all.Wait()
}
