package seawall_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seawall-go/seawall"
)

// What functions of the user's may do to a breaker: everything.

// A stage is a breaker in which one of the user's functions does something unforeseen.
type stage struct {
	b   *seawall.Breaker
	clk *fakeClock
	j   journal
	ctx context.Context
	err error // what failing calls return
	ran atomic.Int64

	calls atomic.Int64 // of the function in question
	at    int64        // which of them is the one
	act   func()       // what it does then
}

// point is where the function in question begins.
func (s *stage) point() {
	if s.calls.Add(1) == s.at {
		s.act()
	}
}

// do makes a call as somebody would who expects anything, and returns what it panicked with.
func (s *stage) do(err error) (recovered any) {
	onItsOwn(func() {
		defer func() { recovered = recover() }()
		_ = s.b.Do(s.ctx, func(context.Context) error { s.ran.Add(1); return err })
	})
	return recovered
}

// play trips the breaker, lets a probe fail and one succeed. It returns what calls panicked with.
func (s *stage) play() (recovered []any) {
	call := func(err error) {
		if r := s.do(err); r != nil {
			recovered = append(recovered, r)
		}
	}
	for range 3 {
		call(s.err)
	}
	s.clk.Advance(time.Minute)
	call(s.err)
	s.clk.Advance(time.Minute)
	call(nil)
	for range 3 {
		call(s.err)
	}
	return recovered
}

// userFunctions are all the functions that a user can give to a breaker. Each is set to call point.
func userFunctions() map[string]func(s *stage) []seawall.BreakerOption {
	return map[string]func(s *stage) []seawall.BreakerOption{
		"classifier": func(s *stage) []seawall.BreakerOption {
			return []seawall.BreakerOption{seawall.WithClassifier(func(context.Context, error) seawall.Outcome {
				s.point()
				return seawall.Failure
			})}
		},
		"hook": func(s *stage) []seawall.BreakerOption {
			return []seawall.BreakerOption{seawall.WithOnStateChange(func(seawall.StateChange) { s.point() })}
		},
		"cooldown function": func(s *stage) []seawall.BreakerOption {
			return []seawall.BreakerOption{seawall.WithCooldownFunc(func(seawall.Trip) time.Duration {
				s.point()
				return time.Minute
			})}
		},
		"Error":      func(s *stage) []seawall.BreakerOption { s.err = hostileError{s, "Error"}; return nil },
		"Is":         func(s *stage) []seawall.BreakerOption { s.err = hostileError{s, "Is"}; return nil },
		"As":         func(s *stage) []seawall.BreakerOption { s.err = hostileError{s, "As"}; return nil },
		"Unwrap":     func(s *stage) []seawall.BreakerOption { s.err = hostileError{s, "Unwrap"}; return nil },
		"RetryAfter": func(s *stage) []seawall.BreakerOption { s.err = hostileError{s, "RetryAfter"}; return nil },
		"methods of a Context": func(s *stage) []seawall.BreakerOption {
			s.ctx = hostileContext{s.ctx, s}
			return nil
		},
		"methods of a Context that is done": func(s *stage) []seawall.BreakerOption {
			done, cancel := context.WithCancel(s.ctx)
			cancel()
			s.ctx = hostileContext{done, s}
			return nil
		},
	}
}

// hostileError is an error one of whose methods is the function in question.
type hostileError struct {
	s      *stage
	method string
}

func (e hostileError) point(method string) {
	if e.method == method {
		e.s.point()
	}
}

func (e hostileError) Error() string             { e.point("Error"); return "hostile" }
func (e hostileError) Is(error) bool             { e.point("Is"); return false }
func (e hostileError) As(any) bool               { e.point("As"); return false }
func (e hostileError) Unwrap() error             { e.point("Unwrap"); return nil }
func (e hostileError) RetryAfter() time.Duration { e.point("RetryAfter"); return 0 }

// hostileContext is a context whose methods are the function in question.
type hostileContext struct {
	context.Context
	s *stage
}

func (c hostileContext) Err() error        { c.s.point(); return c.Context.Err() }
func (c hostileContext) Value(key any) any { c.s.point(); return c.Context.Value(key) }

// onEachStage runs a test with each user function as the one in question, at its first call, its second and so on.
func onEachStage(t *testing.T, test func(t *testing.T, s *stage, function string)) {
	t.Helper()
	for function, set := range userFunctions() {
		for at := range int64(5) {
			t.Run(fmt.Sprintf("%s %d", function, at+1), func(t *testing.T) {
				s := &stage{clk: newClock(), ctx: t.Context(), err: errBoom, at: at + 1}
				s.b = br(t, s.clk, append(set(s), s.j.hook())...)
				test(t, s, function)
			})
		}
	}
}

// wantWell checks that the breaker has come out of the play unharmed.
func (s *stage) wantWell(t *testing.T) {
	t.Helper()
	s.at = -1
	now := s.b.Snapshot()
	wantSound(t, now, 1)
	assert.Zero(t, now.ProbesInFlight, "I1: nothing runs, so nothing holds a place")
	assert.EqualValues(t, now.Generation, len(s.j.all()), "every change was reported")
	from := seawall.Closed
	for i, c := range s.j.all() {
		assert.EqualValues(t, i+1, c.Generation, "I5: in order")
		assert.Equal(t, from, c.From)
		from = c.To
	}

	if now.Forced { // I4: unless forced, waiting is all it takes.
		s.b.Reset()
	}
	s.clk.Advance(time.Minute)
	wantAdmitted(t, s.b)
	wantState(t, s.b, seawall.Closed)
}

// I8: any method of a breaker may be called from any function of the user's, at any moment in the life of a breaker.
// G25: so a classifier may ask for the state.
func TestAnyMethodFromAnyUserFunction(t *testing.T) {
	for method, call := range everyMethod() {
		t.Run(method, func(t *testing.T) {
			onEachStage(t, func(t *testing.T, s *stage, _ string) {
				s.act = func() { call(s.b) }
				finishes(t, func() { assert.Empty(t, s.play()) })
				s.wantWell(t)
			})
		})
	}
}

// Any function of the user's may panic or call runtime.Goexit. The panic reaches a caller, no place is lost, and all
// changes are reported.
func TestAnyUserFunctionMayPanic(t *testing.T) {
	for name, act := range map[string]func(){
		"panic":  func() { panic("hostile") },
		"Goexit": runtime.Goexit,
	} {
		t.Run(name, func(t *testing.T) {
			onEachStage(t, func(t *testing.T, s *stage, function string) {
				s.act = act
				var recovered []any
				finishes(t, func() { recovered = s.play() })
				if name == "panic" && s.calls.Load() >= s.at {
					assert.Equal(t, []any{"hostile"}, recovered)
				} else {
					assert.Empty(t, recovered)
				}
				totals := s.b.Snapshot().Totals
				settled := int64(totals.Successes + totals.Failures + totals.Ignored + totals.Late)
				notRun := settled - s.ran.Load()
				if function == "hook" && notRun == 1 {
					notRun = 0 // A hook between admission and fn: the call counts as Ignored without having run.
				}
				assert.Zero(t, notRun, "I3")
				s.wantWell(t)
			})
		})
	}
}

// Any function of the user's may block for as long as it likes; nobody else waits for it.
func TestAnyUserFunctionMayBlock(t *testing.T) {
	onEachStage(t, func(t *testing.T, s *stage, _ string) {
		inside, leave := make(chan struct{}), make(chan struct{})
		s.act = func() { close(inside); <-leave }
		played := make(chan struct{})
		go func() { defer close(played); s.play() }()
		select {
		case <-inside:
			finishes(t, func() {
				for _, call := range everyMethod() {
					call(s.b)
				}
			})
			close(leave)
			<-played
		case <-played: // The play had no use for that many calls of the function.
		}
		s.wantWell(t)
	})
}

// The user's functions are called at all; without that the tests above would show nothing.
func TestUserFunctionsAreCalled(t *testing.T) {
	onEachStage(t, func(t *testing.T, s *stage, function string) {
		s.act = func() {}
		s.play()
		if function == "Error" {
			assert.Zero(t, s.calls.Load(), "nobody asks for the text")
		} else if s.at <= 3 {
			assert.GreaterOrEqual(t, s.calls.Load(), s.at)
		}
	})
}

// B76: a hook that panics after a place was taken and before fn has run gives the place back; fn doesn't run, and the
// panic reaches the caller.
func TestHookThatPanicsAfterAdmission(t *testing.T) {
	for name, call := range map[string]func(*seawall.Breaker, func(context.Context) error){
		"Do": func(b *seawall.Breaker, fn func(context.Context) error) { _ = do(b, fn) },
		"Allow": func(b *seawall.Breaker, fn func(context.Context) error) {
			done, err := b.Allow(context.Background())
			if err == nil {
				done(fn(context.Background()))
			}
		},
	} {
		for way, out := range map[string]func(){"panic": func() { panic("hook") }, "Goexit": runtime.Goexit} {
			t.Run(name+" "+way, func(t *testing.T) {
				var j journal
				hostile := true
				clk := newClock()
				b := br(t, clk, j.hook(), seawall.WithOnStateChange(func(c seawall.StateChange) {
					if c.To == seawall.HalfOpen && hostile {
						out()
					}
				}), j.hook())
				half(t, b, clk)
				var c counter
				var recovered any
				onItsOwn(func() {
					defer func() { recovered = recover() }()
					call(b, c.fn)
				})
				if way == "panic" {
					assert.Equal(t, "hook", recovered)
				}
				assert.Zero(t, c.count(), "fn must not run")
				s := b.Snapshot()
				assert.Equal(t, seawall.HalfOpen, s.State)
				assert.Zero(t, s.ProbesInFlight)
				assert.EqualValues(t, 1, s.Totals.Ignored)
				assert.Len(t, j.all(), 4, "the other hooks were called")

				hostile = false
				wantAdmitted(t, b)
				assert.Equal(t, []string{edgeTripped, edgeTripped, edgeCooled, edgeCooled, edgeClosed, edgeClosed}, j.edges())
			})
		}
	}
}

// A hook that makes the admission void by changing the state lets fn run, whose result is late then.
func TestHookThatChangesTheStateAfterAdmission(t *testing.T) {
	clk := newClock()
	var b *seawall.Breaker
	b = br(t, clk, seawall.WithOnStateChange(func(c seawall.StateChange) {
		if c.To == seawall.HalfOpen {
			b.Reset()
			b.ForceOpen()
		}
	}))
	half(t, b, clk)
	wantAdmitted(t, b)
	s := b.Snapshot()
	assert.True(t, s.Forced)
	assert.EqualValues(t, 1, s.Totals.Late)
}

// When several hooks panic on several changes, every hook has seen every change in the end.
func TestManyHooksPanic(t *testing.T) {
	var first, second journal
	var b *seawall.Breaker
	hostile := func(j *journal) seawall.BreakerOption {
		return seawall.WithOnStateChange(func(c seawall.StateChange) {
			j.add(c)
			if c.Generation == 1 { // From within a hook, so that there is something left to deliver.
				b.Reset()
				b.ForceOpen()
			}
			panic(c.Generation)
		})
	}
	b = br(t, newClock(), hostile(&first), hostile(&second))
	assert.Panics(t, func() { b.ForceOpen() })
	want := []string{
		"closed → open: forced", "open → closed: reset", "closed → open: forced", "open → closed: reset", "closed → open: forced",
	}
	assert.Equal(t, want, first.edges())
	assert.Equal(t, want, second.edges())
}

// G83: a panic of fn reaches the caller on its own goroutine and with its own stack: nobody has recovered it on the
// way.
func TestPanicKeepsItsStack(t *testing.T) {
	b := br(t, newClock())
	func() {
		defer func() {
			assert.Equal(t, errBoom, recover())
			assert.Contains(t, string(debug.Stack()), "explode")
		}()
		_ = do(b, explode)
	}()
	assert.EqualValues(t, 1, b.Snapshot().Failures)
}

func explode(context.Context) error { panic(errBoom) }

// G01: Goexit ends the goroutine, runs its deferred calls and counts as a failure.
func TestGoexitGoesOn(t *testing.T) {
	b := br(t, newClock())
	deferred, after := false, false
	onItsOwn(func() {
		defer func() { deferred = true }()
		_ = do(b, func(context.Context) error { runtime.Goexit(); return nil })
		after = true
	})
	assert.True(t, deferred)
	assert.False(t, after)
	assert.EqualValues(t, 1, b.Snapshot().Failures)
}

// B30: calls are inside of fn at the same time, and a call may make another one on the same breaker.
func TestCallsRunAtTheSameTime(t *testing.T) {
	b := br(t, newClock())
	var barrier, calls sync.WaitGroup
	barrier.Add(5)
	finishes(t, func() {
		for range 5 {
			calls.Go(func() {
				assert.NoError(t, do(b, func(context.Context) error {
					barrier.Done()
					barrier.Wait()
					return do(b, ok)
				}))
			})
		}
		calls.Wait()
	})
	assert.EqualValues(t, 10, b.Snapshot().Totals.Successes)
}

// A probe that makes a call on its own breaker is turned away like anybody else and has a verdict to itself.
func TestProbeInsideAProbe(t *testing.T) {
	clk := newClock()
	b := br(t, clk)
	half(t, b, clk)
	require.NoError(t, do(b, func(context.Context) error {
		wantRejected(t, b)
		return nil
	}))
	wantState(t, b, seawall.Closed)
}

// A nil pointer that is an error, and whose methods panic for it, is a failure.
func TestTypedNilError(t *testing.T) {
	b := br(t, newClock())
	var none *nilError
	assert.Panics(t, func() { _ = do(b, func(context.Context) error { return none }) })
	assert.EqualValues(t, 1, b.Snapshot().Failures)
}

type nilError struct{ err error }

func (e *nilError) Error() string { return e.err.Error() }
func (e *nilError) Unwrap() error { return e.err }

// An error that claims to be whatever it is asked for, and hands out nothing, is a failure like any other.
func TestErrorThatClaimsToBeAnything(t *testing.T) {
	b := br(t, newClock())
	assert.NotPanics(t, func() { _ = do(b, returns(boastfulError{})) })
	assert.EqualValues(t, 1, b.Snapshot().Failures)
}

type boastfulError struct{}

func (boastfulError) Error() string { return "boastful" }
func (boastfulError) As(any) bool   { return true }

// Whatever happens to a call, only the first end of it counts: a done that panics on the way out of a hook has been
// used up.
func TestDoneThatPanicsIsUsedUp(t *testing.T) {
	b := newBreaker(t, seawall.WithConsecutiveFailures(1), seawall.WithOnStateChange(func(seawall.StateChange) { panic("hook") }))
	done, err := b.Allow(t.Context())
	require.NoError(t, err)
	assert.PanicsWithValue(t, "hook", func() { done(errBoom) })
	done(nil)
	s := b.Snapshot()
	assert.Equal(t, seawall.Open, s.State)
	assert.EqualValues(t, 1, s.Totals.Failures)
	assert.Zero(t, s.Totals.Late)
}

// Both directions at once: two goroutines use one breaker's done functions and its methods without order.
func TestDoneFromManyGoroutines(t *testing.T) {
	b := newBreaker(t, seawall.WithFailureRate(1, never))
	var all sync.WaitGroup
	for range 100 {
		done, err := b.Allow(t.Context())
		require.NoError(t, err)
		for _, result := range []error{nil, errBoom, errors.New("other")} {
			all.Go(func() { done(result) })
		}
	}
	all.Wait()
	totals := b.Snapshot().Totals
	assert.EqualValues(t, 100, totals.Successes+totals.Failures)
}
