package proof_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seawall-go/seawall"
)

// house is a Group whose policies say who they are to the calls that run under them.
type house struct {
	g       *seawall.Group[int]
	made    atomic.Int64
	inside  atomic.Int64 // calls under a policy of their key
	outside atomic.Int64 // calls under the overflow policy
	strange atomic.Pointer[string]

	mu    sync.Mutex
	rooms map[int]room // by key
}

// room is what runs for a key.
type room struct {
	lodger *lodger
	calls  int
}

// lodger is a policy. It is a Breaker to the Group, which asks it whether it is idle.
type lodger struct {
	*seawall.Breaker
	key   int
	house *house
}

// Do tells the house who runs the call, and sees that the Group still has him in the middle of it.
func (l *lodger) Do(ctx context.Context, fn func(context.Context) error) error {
	l.house.inside.Add(1)
	return l.Breaker.Do(ctx, func(ctx context.Context) error {
		l.house.enter(l)
		defer l.house.leave(l)
		l.requireKept()
		defer l.requireKept()
		return fn(ctx)
	})
}

func (l *lodger) requireKept() {
	if l.key >= removable {
		return
	}
	if p, found := l.house.g.Get(l.key); !found || p != seawall.Policy(l) {
		l.house.complain("key %d has another policy or none while a call runs under this one", l.key)
	}
}

func (h *house) complain(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	h.strange.CompareAndSwap(nil, &text)
}

func (h *house) enter(l *lodger) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.rooms[l.key]
	if r.calls > 0 && r.lodger != l && l.key < removable {
		h.complain("key %d has two policies at once", l.key)
	}
	h.rooms[l.key] = room{l, r.calls + 1}
}

func (h *house) leave(l *lodger) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.rooms[l.key]
	h.rooms[l.key] = room{r.lodger, r.calls - 1}
}

// The keys: those of hosts that are down come first, keys from removable on are removed now and then.
const (
	down      = 3
	removable = 40
	keys      = 50
)

func newHouse(maxKeys int) *house {
	h := &house{rooms: make(map[int]room)}
	h.g = seawall.Must(seawall.NewGroup(func(key int) (*lodger, error) {
		h.made.Add(1)
		time.Sleep(time.Millisecond) // So that others come meanwhile.
		return &lodger{newBreaker(), key, h}, nil
	}, seawall.WithMaxKeys(maxKeys), seawall.WithOverflow(seawall.PolicyFunc(
		func(ctx context.Context, fn func(context.Context) error) error { h.outside.Add(1); return fn(ctx) },
	))))
	h.made.Store(0) // The trial.
	return h
}

// visit makes random calls. Some fail, and now and then time passes until that is forgotten.
func (h *house) visit(r *rand.Rand, calls int, remove bool) {
	for range calls {
		key := down + r.IntN(keys-down)
		if remove && key >= removable && r.IntN(3) == 0 {
			h.g.Remove(key)
		}
		stay, res := time.Duration(r.IntN(4))*time.Millisecond, error(nil)
		if r.IntN(50) == 0 {
			res = errBoom
		}
		err := h.g.Do(context.Background(), key, func(context.Context) error {
			time.Sleep(stay)
			return res
		})
		if err != res && !errors.Is(err, seawall.ErrOpen) { //nolint:errorlint // The very value must come back.
			h.complain("a call that returned %v came back with %v", res, err)
		}
		if s := h.g.Snapshot(); s.Size > s.MaxKeys {
			h.complain("%d keys, and %d is the most", s.Size, s.MaxKeys)
		}
		pause := time.Millisecond
		if r.IntN(20) == 0 {
			pause = time.Second
		}
		time.Sleep(time.Duration(r.IntN(12)) * pause)
	}
}

// fallIll lets hosts fail that nobody calls later: one once, another until its breaker opens, and one whose breaker is
// forced open. It returns their policies.
func (h *house) fallIll(t *testing.T) (sick [down]seawall.Policy) {
	t.Helper()
	for key := range down {
		require.ErrorIs(t, h.g.Do(t.Context(), key, boom), errBoom)
		sick[key], _ = h.g.Get(key)
	}
	b := sick[1].(*lodger).Breaker
	require.ErrorIs(t, b.Do(t.Context(), boom), errBoom)
	require.Equal(t, seawall.Open, b.State())
	sick[2].(*lodger).ForceOpen()
	return sick
}

// Whatever comes between what: a key has one policy at a time, none is evicted while a call runs under it, what failed
// stays, there are never more than the bound, and all adds up. Issue 5; group.go.
func TestSyncGroupKeepsWhatIsInUse(t *testing.T) {
	for _, remove := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			h := newHouse(12)
			sick := h.fallIll(t)
			var wg sync.WaitGroup
			const visitors, calls = 24, 400
			for v := range visitors {
				wg.Go(func() { h.visit(rand.New(rand.NewPCG(uint64(v), 7)), calls, remove) })
			}
			wg.Wait()
			if text := h.strange.Load(); text != nil {
				t.Fatal(*text)
			}
			s := h.g.Snapshot()
			assert.EqualValues(t, visitors*calls+down, h.inside.Load()+h.outside.Load())
			for key, p := range sick {
				got, found := h.g.Get(key)
				require.True(t, found && got == p, "key %d failed, and its breaker is gone", key)
			}
			n := 0
			for key, p := range h.g.All() {
				require.Equal(t, key, p.(*lodger).key)
				n++
			}
			assert.Equal(t, s.Size, n)
			assert.EqualValues(t, h.outside.Load(), s.Overflow)
			if !remove {
				assert.Equal(t, uint64(h.made.Load()), uint64(s.Size)+s.Evictions, "whoever was made is there or was evicted")
				assert.Positive(t, s.Overflow)
			}
			assert.Greater(t, s.Evictions, uint64(100))
			figures(t, "%d calls for %d keys in %d places, with removals: %v: %d evictions, %d calls without a place, no policy lost",
				visitors*calls, keys, s.MaxKeys, remove, s.Evictions, s.Overflow)
		})
	}
}
