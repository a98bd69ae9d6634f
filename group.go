package seawall

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A Group has one [Policy] for each key: for each host, tenant or method. It makes a policy when its key is first
// called, and it is bounded, so that keys which come from outside can't fill the memory; see [WithMaxKeys].
//
// When a new key finds no place, the Group evicts the policy of a key that has not been called for a while, but only
// an idle one, which has nothing to lose:
//
//   - a policy that a call runs under, or that [Group.Acquire] has handed out, is not idle;
//   - a [Breaker] is idle while it is closed with no failure in its window and none since its last success. One that
//     failed and was then left alone is idle an hour after its last result and the end of its cooldown; one that was
//     forced open never is;
//   - a [Bulkhead] is idle while nothing runs and nothing waits;
//   - a [Chain], or another policy that tells its parts by a method Policies() []Policy, is idle if all of them are;
//   - a policy of another type says so itself by a method Idle() bool, which may call the Group. Without it, it is
//     idle unless it is in use.
//
// So keys that somebody makes up push out what has nothing to lose, and never a breaker that is open or on its way
// there. What was changed by hand on a policy, say by SetMode or SetLimit, is lost with it. If nothing can be evicted,
// the call runs under the policy of [WithOverflow].
//
// Make a Group with [NewGroup]. It is safe for use by several goroutines and must not be copied. It has no goroutine:
// there is nothing to close. It keeps its keys in memory; those that an attacker chooses should be short.
type Group[K comparable] struct {
	// Set once in NewGroup.
	policy  func(K) (Policy, error)
	maxKeys int

	members  sync.Map  // of *member[K] by key: written under mu, read without it
	overflow member[K] // serves the calls for keys without a place; it is no member itself

	overflowed atomic.Uint64

	mu        sync.Mutex      // guards the fields below, and is never held while code of the user's runs
	ring      []*member[K]    // the members again, for the hand
	hand      int             // where the latest search for a member to evict ended
	places    int             // taken by members, and by births that have one
	births    map[K]*birth[K] // policies that are being made
	made      uint64          // members so far
	evictions uint64
}

// member is a key and its policy.
type member[K comparable] struct {
	key    K
	policy Policy
	pins   pins
	number uint64 // in order of creation

	slot int    // in ring; guarded by Group.mu
	seen uint64 // arrivals when the hand came by last; guarded by Group.mu
}

// birth is a policy being made by one call, while others may wait for it.
type birth[K comparable] struct {
	over   chan struct{} // closed at the end; until then the fields below belong to the call that makes it
	placed bool          // it has a place
	full   bool          // there was none
	policy Policy
	err    error
	member *member[K] // pinned for the call that made it; nil without a policy
}

// NewGroup returns an empty Group that makes the policy of a key by calling policy: for each key once, and again if
// the key was evicted or removed in between. No lock is held meanwhile. Other calls for the same key wait, those for
// other keys don't. The function may panic, and may use the Group for any other key; a call for the very key would
// wait for itself until its context ends. P is often *Breaker, or Policy if the function returns a [Chain].
//
// NewGroup calls policy once with the zero key and discards the result, so that wrong options come out here and not
// with the first call: policy has to accept that key. The error, if any, joins what policy returned then and one for
// every option that is not legal.
func NewGroup[K comparable, P Policy](policy func(key K) (P, error), opts ...GroupOption) (*Group[K], error) {
	config, err := newGroupConfig(opts)
	if policy == nil {
		return nil, errors.Join(errors.New("seawall: NewGroup: the policy function must not be nil"), err)
	}
	g := &Group[K]{
		policy:   policyMaker(policy),
		maxKeys:  config.maxKeys,
		overflow: member[K]{policy: config.overflow},
		births:   make(map[K]*birth[K]),
	}
	var zero K
	if _, bad := g.policy(zero); bad != nil {
		err = errors.Join(fmt.Errorf("seawall: NewGroup: the policy function fails for the zero key: %w", bad), err)
	}
	if err != nil {
		return nil, err
	}
	return g, nil
}

// Do runs fn under the policy of key, which it makes if there is none, and returns what that policy's Do returns. The
// policy is not evicted before the call has ended. If key has no place, fn runs under the overflow policy; so it does
// if key is not equal to itself, like a NaN, for its policy could never be found again.
//
// If the function given to [NewGroup] returns an error for key, fn does not run, and Do returns an error that wraps
// it and matches [ErrRejected]; the next call asks the function again. If ctx ends while another call makes the
// policy, Do returns an error that matches ErrRejected, ctx.Err() and context.Cause(ctx).
//
// Do panics if ctx or fn is nil, and on a Group that was not made by NewGroup.
func (g *Group[K]) Do(ctx context.Context, key K, fn func(context.Context) error) error {
	g.mustBeMade()
	checkCall(ctx, fn)
	m, err := g.pin(ctx, key)
	if err != nil {
		return err
	}
	defer m.pins.give()
	return m.policy.Do(ctx, fn)
}

// Acquire is for calls that do not fit into one function. It returns the policy that [Group.Do] would run fn under,
// or the error, and keeps the policy from being evicted until release is called, from any goroutine; only the first
// time counts. A policy that is not released keeps its place for ever.
//
// Acquire panics if ctx is nil, and on a Group that was not made by NewGroup.
func (g *Group[K]) Acquire(ctx context.Context, key K) (policy Policy, release func(), err error) {
	g.mustBeMade()
	checkContext(ctx)
	m, err := g.pin(ctx, key)
	if err != nil {
		return nil, nil, err
	}
	return m.policy, once(&m.pins, (*pins).give), nil
}

// Get returns the policy of key and whether there is one. It makes none, and it only looks: the policy may be evicted
// at any time. To make calls use [Group.Do], [Group.Policy] or [Group.Acquire].
func (g *Group[K]) Get(key K) (Policy, bool) {
	g.mustBeMade()
	if m := g.find(key); m != nil {
		return m.policy, true
	}
	return nil, false
}

// Policy returns a Policy for a [Chain] whose Do is [Group.Do] with this key. It finds the policy of key anew for
// each call.
func (g *Group[K]) Policy(key K) Policy {
	g.mustBeMade()
	return keyed[K]{g, key}
}

// All iterates over the keys and their policies in the order in which they were made: those that are there when the
// loop begins. Like [Group.Get] it only looks.
func (g *Group[K]) All() iter.Seq2[K, Policy] {
	g.mustBeMade()
	return func(yield func(K, Policy) bool) {
		for _, m := range g.list() {
			if !yield(m.key, m.policy) {
				return
			}
		}
	}
}

// Remove forgets the policy of key, idle or not: the next call makes a new one. Calls that have begun go on under the
// old one. It does nothing if there is none.
func (g *Group[K]) Remove(key K) {
	g.mustBeMade()
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.births, key) // One that is being made may be of yesterday's settings.
	if m := g.find(key); m != nil {
		m.pins.kill()
		g.dropLocked(m)
		g.places--
	}
}

// Snapshot returns a copy of what the Group knows and changes nothing.
func (g *Group[K]) Snapshot() GroupSnapshot {
	g.mustBeMade()
	g.mu.Lock()
	defer g.mu.Unlock()
	return GroupSnapshot{
		Size:      len(g.ring),
		MaxKeys:   g.maxKeys,
		Evictions: g.evictions,
		Overflow:  g.overflowed.Load(),
	}
}

// A GroupSnapshot is a copy of what a [Group] knows.
type GroupSnapshot struct {
	Size      int    `json:"size"` // keys that have a policy
	MaxKeys   int    `json:"max_keys"`
	Evictions uint64 `json:"evictions"` // keys that lost their policy to another one, since the Group was made
	Overflow  uint64 `json:"overflow"`  // calls under the overflow policy, since the Group was made
}

// A GroupOption configures a [Group]. If one kind of option is given twice the last one holds.
type GroupOption interface {
	applyGroup(*groupConfig) error
}

// WithMaxKeys sets how many keys of a [Group] may have a policy at once.
// Default 1024. Range: from 1 to 1<<20.
func WithMaxKeys(n int) GroupOption {
	return groupOption(func(c *groupConfig) error {
		c.maxKeys = n
		if n < 1 || n > maxLimit {
			return outOfRange("WithMaxKeys", "n", n, "from 1 to 1048576")
		}
		return nil
	})
}

// WithOverflow sets the policy for calls whose key finds no place in a [Group], because none of the policies that it
// looked at may be evicted. All such keys share it: better a [Bulkhead] than a [Breaker], which would let them suffer
// for each other.
// Default: the call just runs. Range: not nil.
func WithOverflow(policy Policy) GroupOption {
	return groupOption(func(c *groupConfig) error {
		c.overflow = policy
		return notNil("WithOverflow", isNil(policy))
	})
}

type groupOption func(*groupConfig) error

func (o groupOption) applyGroup(c *groupConfig) error { return o(c) }

// groupConfig is all that the options decide.
type groupConfig struct {
	maxKeys  int
	overflow Policy
}

func newGroupConfig(opts []GroupOption) (groupConfig, error) {
	c := groupConfig{maxKeys: 1024, overflow: Chain()}
	var errs []error
	for i, o := range opts {
		if o == nil {
			errs = append(errs, nilOption(i))
		} else if err := o.applyGroup(&c); err != nil {
			errs = append(errs, err)
		}
	}
	return c, errors.Join(errs...)
}

// errNoPolicy is the fault of a policy function that returns nothing at all.
var errNoPolicy = errors.New("it returned neither a policy nor an error")

// policyMaker returns a function that returns either a policy or an error. The user's may return both: that of
// NewBreaker becomes a Policy that is not nil but holds a nil pointer.
func policyMaker[K comparable, P Policy](policy func(K) (P, error)) func(K) (Policy, error) {
	return func(key K) (Policy, error) {
		p, err := policy(key)
		if err == nil && isNil(p) {
			err = errNoPolicy
		}
		if err != nil {
			return nil, err
		}
		return p, nil
	}
}

// noPolicyError is what callers get for a key that the policy function has only an error for. It matches ErrRejected
// since fn did not run: a breaker further out must not blame the dependency.
type noPolicyError struct{ err error }

func (e *noPolicyError) Error() string        { return "seawall: no policy for this key: " + e.err.Error() }
func (e *noPolicyError) Is(target error) bool { return target == ErrRejected }
func (e *noPolicyError) Unwrap() error        { return e.err }

// keyed is a Group seen through one key.
type keyed[K comparable] struct {
	group *Group[K]
	key   K
}

func (k keyed[K]) Do(ctx context.Context, fn func(context.Context) error) error {
	return k.group.Do(ctx, k.key, fn)
}

// pin returns the member that a call for key is to run under. It can't be evicted until it is given back. Most calls
// find it at once, by one look and one atomic add.
func (g *Group[K]) pin(ctx context.Context, key K) (*member[K], error) {
	if m := g.find(key); m != nil && m.pins.take() {
		return m, nil
	}
	return g.miss(ctx, key)
}

func (g *Group[K]) find(key K) *member[K] {
	v, _ := g.members.Load(key)
	m, _ := v.(*member[K])
	return m
}

// miss is pin for a key that has no policy: it makes one, or waits for the call that does.
func (g *Group[K]) miss(ctx context.Context, key K) (*member[K], error) {
	if key != key { // A map would take a NaN in each time anew, and never let it go.
		return g.overflowing(), nil
	}
	for {
		m, b, mine := g.begin(key)
		switch {
		case m != nil:
			return m, nil
		case mine:
			g.create(key, b)
		default:
			select {
			case <-b.over:
			case <-ctx.Done():
				return nil, newDoneError("", ctx, ctx.Err())
			}
		}
		switch {
		case b.err != nil:
			return nil, b.err
		case b.full:
			return g.overflowing(), nil
		case mine:
			return b.member, nil
		}
		// There is a policy now, or the function panicked in the other call, and this one is to try it.
	}
}

func (g *Group[K]) overflowing() *member[K] {
	g.overflowed.Add(1)
	g.overflow.pins.take() // Nobody looks at these pins; they spare the callers a special case.
	return &g.overflow
}

// begin looks for key once more, under the lock. It returns its member, pinned, or the birth of one; if that is mine,
// the caller has to see it through.
func (g *Group[K]) begin(key K) (m *member[K], b *birth[K], mine bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if m = g.find(key); m != nil {
		m.pins.take() // What is in members and not dead under the lock stays so.
		return m, nil, false
	}
	if b = g.births[key]; b != nil {
		return nil, b, false
	}
	b = &birth[K]{over: make(chan struct{})}
	g.births[key] = b
	return nil, b, true
}

// create sees a birth through. The place comes first: a policy is not made in vain. If the user's code panics or
// calls runtime.Goexit, the birth ends without policy and error.
func (g *Group[K]) create(key K, b *birth[K]) {
	defer g.settle(key, b)
	if b.placed = g.takePlace(); !b.placed {
		b.full = true
		return
	}
	policy, err := g.policy(key)
	if err != nil {
		b.err = &noPolicyError{err}
		return
	}
	b.policy = policy
}

// settle ends a birth. Its policy becomes a member unless the key was removed meanwhile; then it serves just the call
// that made it.
func (g *Group[K]) settle(key K, b *birth[K]) {
	g.mu.Lock()
	defer g.mu.Unlock()
	defer close(b.over)
	listed := g.births[key] == b
	if listed {
		delete(g.births, key)
	}
	if b.policy != nil {
		b.member = &member[K]{key: key, policy: b.policy}
		b.member.pins.take()
	}
	if listed && b.policy != nil {
		g.addLocked(b.member)
	} else if b.placed {
		g.places--
	}
}

// maxLooks bounds how many members a call looks at for one to evict. For the first half of them, a member that was
// called since the hand came by last gets a second chance; the other half has to do without. So one call does little
// work even in a Group full of failing breakers, and a member that has become idle is found within 2*maxKeys/maxLooks
// calls for new keys.
const maxLooks = 32

// takePlace takes a place for a new member: a free one, or that of a member which it evicts. Whether a member is idle
// is asked without the lock, for the answer may be code of the user's.
func (g *Group[K]) takePlace() bool {
	if g.takeFreePlace() {
		return true
	}
	looks := min(maxLooks, 2*g.maxKeys)
	for i := range looks {
		m, word, ok := g.turn(i < looks/2)
		if ok && idle(m.policy) && g.evict(m, word) {
			return true
		}
	}
	return false
}

func (g *Group[K]) takeFreePlace() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.places == g.maxKeys {
		return false
	}
	g.places++
	return true
}

// turn moves the hand to the next member and reports whether it may be evicted if it is idle. The member can't tell
// how long ago its last call was, for no call reads a clock; but it can tell whether there was one since the last turn.
func (g *Group[K]) turn(secondChance bool) (m *member[K], word uint64, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.ring) == 0 { // All places belong to policies that are being made.
		return nil, 0, false
	}
	g.hand = (g.hand + 1) % len(g.ring)
	m = g.ring[g.hand]
	word = m.pins.word.Load()
	called := arrivals(word) != m.seen
	m.seen = arrivals(word)
	return m, word, holders(word) == 0 && (!called || !secondChance)
}

// evict drops a member if nobody came for it since its word was read. Its place goes to the caller.
func (g *Group[K]) evict(m *member[K], word uint64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !m.pins.killIf(word) {
		return false
	}
	g.dropLocked(m)
	g.evictions++
	return true
}

// addLocked makes m a member. The call that made it does not count as one that the hand would have to respect: a key
// that is called only once deserves no second chance.
func (g *Group[K]) addLocked(m *member[K]) {
	m.number, g.made = g.made, g.made+1
	m.slot = len(g.ring)
	m.seen = arrivals(m.pins.word.Load())
	g.ring = append(g.ring, m)
	g.members.Store(m.key, m)
}

// dropLocked is the opposite of addLocked, for a member that is dead already.
func (g *Group[K]) dropLocked(m *member[K]) {
	g.members.Delete(m.key)
	last := len(g.ring) - 1
	g.ring[m.slot] = g.ring[last]
	g.ring[m.slot].slot = m.slot
	g.ring[last] = nil
	g.ring = g.ring[:last]
}

func (g *Group[K]) list() []*member[K] {
	g.mu.Lock()
	members := slices.Clone(g.ring)
	g.mu.Unlock()
	slices.SortFunc(members, func(a, b *member[K]) int { return cmp.Compare(a.number, b.number) })
	return members
}

func (g *Group[K]) mustBeMade() {
	if g == nil || g.policy == nil {
		panic("seawall: use of a Group that was not made by NewGroup")
	}
}

// pins are one word with all that eviction has to know about the calls of a member: how many hold it, how many ever
// came for it, and whether it is dead. Since it is one word, a compare-and-swap fails if a call came since the word
// was read, even one that has gone again and may have left a failure behind.
type pins struct{ word atomic.Uint64 }

const (
	dead    uint64 = 1 << 31 // Nobody gets hold of it any more. The bits below it count the holders,
	arrival uint64 = 1 << 32 // and those from here on the arrivals, which may wrap.
)

func holders(word uint64) uint64  { return word & (dead - 1) }
func arrivals(word uint64) uint64 { return word / arrival }

// take pins and reports whether that was in time. What it leaves behind in a dead word, nobody looks at.
func (p *pins) take() bool { return p.word.Add(arrival+1)&dead == 0 }
func (p *pins) give()      { p.word.Add(^uint64(0)) }

func (p *pins) kill()                   { p.word.Or(dead) }
func (p *pins) killIf(word uint64) bool { return p.word.CompareAndSwap(word, word|dead) }

// forgetAfter is how long a breaker has to be left alone until what it knows is no longer worth a place. Without such
// an end, dead hosts that nobody calls any more would fill a Group for ever.
const forgetAfter = time.Hour

// idle reports whether p may be forgotten, as far as p itself knows.
func idle(p Policy) bool {
	switch p := p.(type) {
	case interface{ Idle() bool }:
		return p.Idle()
	case interface{ idle() bool }: // Ours, and types that embed them.
		return p.idle()
	case interface{ Policies() []Policy }: // A Chain, or what tells its parts like one.
		return !slices.ContainsFunc(p.Policies(), func(part Policy) bool { return !idle(part) })
	default:
		return true
	}
}

// idle holds while the breaker is closed and knows of no failure. Otherwise it takes forgetAfter without a decision, and
// as long since a call would have been let through, which is never if it was forced open.
func (b *Breaker) idle() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	g, now := b.current.Load(), b.peekLocked()
	if g.state == Closed && !b.failingLocked(g, now) {
		return true
	}
	return now-b.now >= forgetAfter && b.retryAfterLocked(now-forgetAfter) == 0
}

func (b *Breaker) failingLocked(g *generation, now time.Duration) bool {
	successes := g.successes.Load()
	if b.counts.row > 0 && b.counts.booked == successes { // No need for a copy of the window.
		return true
	}
	counts, _ := b.counts.at(now, successes)
	return counts.row > 0 || counts.window.counts().failures > 0
}

func (b *Bulkhead) idle() bool {
	s := b.Snapshot()
	return s.InFlight == 0 && s.Waiting == 0
}
