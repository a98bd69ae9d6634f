// Package bench measures seawall beside its peers. Every implementation is a
// row of one table, every scenario a benchmark over the rows that can take
// part in it, and cmd/ratios runs them in turns and prints the ratios.
package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	sentinel "github.com/alibaba/sentinel-golang/api"
	sentinelbreaker "github.com/alibaba/sentinel-golang/core/circuitbreaker"
	sentinelconfig "github.com/alibaba/sentinel-golang/core/config"
	"github.com/alibaba/sentinel-golang/logging"
	eapachebreaker "github.com/eapache/go-resiliency/breaker"
	eapachedeadline "github.com/eapache/go-resiliency/deadline"
	eapachesemaphore "github.com/eapache/go-resiliency/semaphore"
	"github.com/failsafe-go/failsafe-go"
	failsafebulkhead "github.com/failsafe-go/failsafe-go/bulkhead"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	failsafetimeout "github.com/failsafe-go/failsafe-go/timeout"
	mercari "github.com/mercari/go-circuitbreaker"
	"github.com/seawall-go/seawall"
	"github.com/sony/gobreaker/v2"
	zerobreaker "github.com/zeromicro/go-zero/core/breaker"
	"github.com/zeromicro/go-zero/core/stat"
	"github.com/zeromicro/go-zero/core/syncx"
	"golang.org/x/sync/semaphore"
)

// A do runs fn under one breaker, one bulkhead or one stack of both.
type do func(ctx context.Context, fn func(context.Context) error) error

// A call is a do whose fn returns a value.
type call func(ctx context.Context, fn func(context.Context) (int, error)) (int, error)

// All breakers trip when failureRate of at least minCalls in the window failed.
const (
	failureRate = 0.5
	minCalls    = 20
)

// config is what scenarios vary about a breaker.
type config struct {
	window   time.Duration
	buckets  int
	cooldown time.Duration
}

// alike is the configuration of every breaker unless the scenario is about
// the window or about recovery.
func alike() config {
	return config{window: 10 * time.Second, buckets: 10, cooldown: time.Hour}
}

// An impl is one row of the table: a library, a variant of one, or a floor.
// What it doesn't offer is nil.
type impl struct {
	name     string
	deviates string   // how it departs from the common configuration
	remark   string   // what else there is to know of one that does not
	skip     []string // scenarios it can't take part in
	buckets  bool     // lets the number of buckets be chosen

	breaker  func(config) do
	call     func(config) call
	bulkhead func(limit int, wait bool) do
	stack    func(limit int, timeout time.Duration) do // timeout 0 is none
}

// isFloor reports whether the row protects nothing and only says what its
// ingredients cost.
func (i impl) isFloor() bool { return strings.HasPrefix(i.name, "floor-") }

func impls() []impl {
	return []impl{
		{name: "floor-ctx-fn", breaker: ctxFnFloor, call: ctxFnFloorCall, bulkhead: ctxFnFloorBulkhead, stack: ctxFnFloorStack},
		{name: "floor-clock-add", breaker: clockAddFloor},
		{name: "floor-window", breaker: windowFloor},
		{name: "floor-window-sharded", breaker: shardedWindowFloor(atRandom)},
		{name: "floor-window-by-stack", breaker: shardedWindowFloor(byStack)},
		{name: "floor-mutex", breaker: mutexFloor},
		{name: "floor-channel", breaker: channelFloor, bulkhead: channelFloorBulkhead},

		{name: "gobreaker", buckets: true, breaker: gobreakerDo, call: gobreakerCall, stack: gobreakerStack},
		{
			name: "mercari", breaker: mercariDo, call: mercariCall,
			remark: "counts in a fixed window that a goroutine empties; lets every call through while half-open",
			skip:   []string{"HalfOpen"},
		},
		{
			name: "sentinel", buckets: true, breaker: sentinelDo,
			remark: "runs its whole chain of slots",
			skip:   []string{"Many", "Memory"},
		},
		{name: "failsafe", breaker: failsafeDo, call: failsafeCall, bulkhead: failsafeBulkhead, stack: failsafeStack},
		{
			name: "failsafe-permit", breaker: failsafePermit, bulkhead: failsafeBulkheadPermit,
			remark: "has no defer here: a panic would keep its permit",
		},
		{
			name: "go-zero", breaker: zeroDo, stack: zeroStack,
			deviates: "has no states but rejects by chance, the more calls fail the more often; its window has 40 buckets; its limit ignores ctx",
			skip:     []string{"HalfOpen"},
		},
		{
			name: "eapache", breaker: eapacheDo, bulkhead: eapacheBulkhead, stack: eapacheStack,
			deviates: "keeps no window and no rate but trips at the 10th error if no hour passed without one; lets every call through while half-open; its bulkhead ignores ctx and, told not to wait, sometimes rejects when free",
			skip:     []string{"Failures", "HalfOpen"},
		},
		{name: "xsync", bulkhead: xsyncBulkhead},
		{name: "channel", bulkhead: channelBulkhead},

		{
			name: "seawall", buckets: true, breaker: seawallDo(timeWindow), call: seawallCall, bulkhead: seawallBulkhead, stack: seawallStack,
			remark: "also trips at 10 failures in a row",
		},
		{
			name: "seawall-consecutive", breaker: seawallDo(timeWindow, seawall.WithConsecutiveFailures(10)),
			deviates: "has the consecutive rule only: trips at 10 failures in a row",
		},
		{name: "seawall-slow", breaker: seawallDo(timeWindow, seawall.WithSlowCallThreshold(time.Minute))},
		{name: "seawall-count", breaker: seawallDo(countWindow)},
	}
}

// errRejected is the rejection of rows that are used through permits.
var errRejected = errors.New("rejected")

// seawall

func timeWindow(c config) seawall.BreakerOption { return seawall.WithWindow(c.window, c.buckets) }

// countWindow is as long as the others see in a test: the last 100 calls.
func countWindow(config) seawall.BreakerOption { return seawall.WithCountWindow(100) }

// newSeawall makes a breaker with the default rules, which are the common
// ones and 10 consecutive failures, unless more says otherwise.
func newSeawall(window func(config) seawall.BreakerOption, c config, more ...seawall.BreakerOption) *seawall.Breaker {
	opts := []seawall.BreakerOption{window(c), seawall.WithCooldown(c.cooldown), seawall.WithProbeTimeout(time.Hour)}
	return seawall.Must(seawall.NewBreaker("bench", append(opts, more...)...))
}

func seawallDo(window func(config) seawall.BreakerOption, more ...seawall.BreakerOption) func(config) do {
	return func(c config) do { return newSeawall(window, c, more...).Do }
}

func seawallCall(c config) call {
	b := newSeawall(timeWindow, c)
	return func(ctx context.Context, fn func(context.Context) (int, error)) (int, error) {
		return seawall.Call(ctx, b, fn)
	}
}

func newSeawallBulkhead(limit int, wait bool) *seawall.Bulkhead {
	if wait {
		return seawall.Must(seawall.NewBulkhead("bench", limit))
	}
	return seawall.Must(seawall.NewBulkhead("bench", limit, seawall.WithMaxWait(0)))
}

func seawallBulkhead(limit int, wait bool) do { return newSeawallBulkhead(limit, wait).Do }

func seawallStack(limit int, timeout time.Duration) do {
	policies := []seawall.Policy{newSeawall(timeWindow, alike()), newSeawallBulkhead(limit, true)}
	if timeout > 0 {
		policies = append(policies, seawall.Must(seawall.NewTimeout(timeout)))
	}
	return seawall.Chain(policies...).Do
}

// gobreaker, with x/sync/semaphore and context.WithTimeout by hand

func newGobreaker[T any](c config) *gobreaker.CircuitBreaker[T] {
	return gobreaker.NewCircuitBreaker[T](gobreaker.Settings{
		Name:         "bench",
		Interval:     c.window,
		BucketPeriod: c.window / time.Duration(c.buckets),
		Timeout:      c.cooldown,
		ReadyToTrip: func(n gobreaker.Counts) bool {
			return n.Requests >= minCalls && float64(n.TotalFailures)/float64(n.Requests) >= failureRate
		},
	})
}

func gobreakerDo(c config) do {
	b := newGobreaker[struct{}](c)
	return func(ctx context.Context, fn func(context.Context) error) error {
		_, err := b.Execute(func() (struct{}, error) { return struct{}{}, fn(ctx) })
		return err
	}
}

func gobreakerCall(c config) call {
	b := newGobreaker[int](c)
	return func(ctx context.Context, fn func(context.Context) (int, error)) (int, error) {
		return b.Execute(func() (int, error) { return fn(ctx) })
	}
}

func gobreakerStack(limit int, timeout time.Duration) do {
	b, sem := newGobreaker[struct{}](alike()), semaphore.NewWeighted(int64(limit))
	return func(ctx context.Context, fn func(context.Context) error) error {
		_, err := b.Execute(func() (struct{}, error) {
			if err := sem.Acquire(ctx, 1); err != nil {
				return struct{}{}, err
			}
			defer sem.Release(1)
			return struct{}{}, withTimeout(ctx, timeout, fn)
		})
		return err
	}
}

// withTimeout is what the stacks made by hand do for a timeout.
func withTimeout(ctx context.Context, timeout time.Duration, fn func(context.Context) error) error {
	if timeout == 0 {
		return fn(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return fn(ctx)
}

// mercari/go-circuitbreaker, whose window is fixed: a goroutine empties it when it has passed

func newMercari(c config) *mercari.CircuitBreaker {
	return mercari.New(
		mercari.WithTripFunc(mercari.NewTripFuncFailureRate(minCalls, failureRate)),
		mercari.WithCounterResetInterval(c.window),
		mercari.WithOpenTimeout(c.cooldown),
		mercari.WithHalfOpenMaxSuccesses(1),
	)
}

func mercariDo(c config) do {
	b := newMercari(c)
	return func(ctx context.Context, fn func(context.Context) error) error {
		_, err := b.Do(ctx, func() (any, error) { return nil, fn(ctx) })
		return err
	}
}

func mercariCall(c config) call {
	b := newMercari(c)
	return func(ctx context.Context, fn func(context.Context) (int, error)) (int, error) {
		v, err := b.Do(ctx, func() (any, error) { return fn(ctx) })
		n, _ := v.(int)
		return n, err
	}
}

// alibaba/sentinel-golang, whose breakers are rules for named resources

// silentSentinel keeps sentinel from writing files and from watching the machine.
type silentSentinel struct{ logging.Logger }

func (silentSentinel) DebugEnabled() bool { return false }
func (silentSentinel) InfoEnabled() bool  { return false }
func (silentSentinel) WarnEnabled() bool  { return false }
func (silentSentinel) ErrorEnabled() bool { return false }

func (silentSentinel) Debug(string, ...any)        {}
func (silentSentinel) Info(string, ...any)         {}
func (silentSentinel) Warn(string, ...any)         {}
func (silentSentinel) Error(error, string, ...any) {}

var initSentinel = sync.OnceValue(func() error {
	entity := sentinelconfig.NewDefaultConfig()
	entity.Sentinel.Log.Logger = silentSentinel{}
	entity.Sentinel.Log.Metric.FlushIntervalSec = 0
	entity.Sentinel.Stat.System = sentinelconfig.SystemStatConfig{}
	return sentinel.InitWithConfig(entity)
})

var sentinelResources atomic.Int64

// newSentinel makes a rule and returns the name of its resource.
func newSentinel(c config) string {
	seawall.Must(struct{}{}, initSentinel())
	name := fmt.Sprint("bench-", sentinelResources.Add(1))
	seawall.Must(sentinelbreaker.LoadRulesOfResource(name, []*sentinelbreaker.Rule{{
		Resource:                     name,
		Strategy:                     sentinelbreaker.ErrorRatio,
		RetryTimeoutMs:               uint32(c.cooldown.Milliseconds()),
		MinRequestAmount:             minCalls,
		StatIntervalMs:               uint32(c.window.Milliseconds()),
		StatSlidingWindowBucketCount: uint32(c.buckets),
		Threshold:                    failureRate, // ProbeNum stays 0: else every call is let through while half-open.
	}}))
	return name
}

func sentinelDo(c config) do {
	name := newSentinel(c)
	return func(ctx context.Context, fn func(context.Context) error) error {
		entry, blocked := sentinel.Entry(name)
		if blocked != nil {
			return errRejected
		}
		defer entry.Exit()
		err := fn(ctx)
		if err != nil {
			sentinel.TraceError(entry, err)
		}
		return err
	}
}

// failsafe-go, through its executor and through bare permits

func newFailsafe[T any](c config) circuitbreaker.CircuitBreaker[T] {
	return circuitbreaker.NewBuilder[T]().
		WithFailureRateThreshold(failureRate, minCalls, c.window).
		WithSuccessThreshold(1).
		WithDelay(c.cooldown).
		Build()
}

// failsafeRun gives each call its own ctx, as a server would.
func failsafeRun(policies ...failsafe.Policy[any]) do {
	executor := failsafe.With(policies...)
	return func(ctx context.Context, fn func(context.Context) error) error {
		return executor.WithContext(ctx).RunWithExecution(func(e failsafe.Execution[any]) error { return fn(e.Context()) })
	}
}

func failsafeDo(c config) do { return failsafeRun(newFailsafe[any](c)) }

func failsafeCall(c config) call {
	executor := failsafe.With[int](newFailsafe[int](c))
	return func(ctx context.Context, fn func(context.Context) (int, error)) (int, error) {
		return executor.WithContext(ctx).GetWithExecution(func(e failsafe.Execution[int]) (int, error) { return fn(e.Context()) })
	}
}

func newFailsafeBulkhead(limit int, wait bool) failsafebulkhead.Bulkhead[any] {
	b := failsafebulkhead.NewBuilder[any](uint(limit))
	if wait {
		b.WithMaxWaitTime(time.Minute)
	}
	return b.Build()
}

func failsafeBulkhead(limit int, wait bool) do { return failsafeRun(newFailsafeBulkhead(limit, wait)) }

func failsafeStack(limit int, timeout time.Duration) do {
	policies := []failsafe.Policy[any]{newFailsafe[any](alike()), newFailsafeBulkhead(limit, true)}
	if timeout > 0 {
		policies = append(policies, failsafetimeout.New[any](timeout))
	}
	return failsafeRun(policies...)
}

func failsafePermit(c config) do {
	b := newFailsafe[any](c)
	return func(ctx context.Context, fn func(context.Context) error) error {
		if !b.TryAcquirePermit() {
			return errRejected
		}
		err := fn(ctx)
		b.RecordError(err)
		return err
	}
}

func failsafeBulkheadPermit(limit int, wait bool) do {
	b := newFailsafeBulkhead(limit, wait)
	return func(ctx context.Context, fn func(context.Context) error) error {
		if wait {
			if err := b.AcquirePermit(ctx); err != nil {
				return err
			}
		} else if !b.TryAcquirePermit() {
			return errRejected
		}
		defer b.ReleasePermit()
		return fn(ctx)
	}
}

// go-zero

// newZero also keeps rejections out of the log.
func newZero() zerobreaker.Breaker {
	stat.SetReporter(nil)
	return zerobreaker.NewBreaker()
}

func zeroDo(config) do {
	b := newZero()
	return func(ctx context.Context, fn func(context.Context) error) error {
		return b.DoCtx(ctx, func() error { return fn(ctx) })
	}
}

func zeroStack(limit int, timeout time.Duration) do {
	b, l := newZero(), syncx.NewLimit(limit)
	return func(ctx context.Context, fn func(context.Context) error) error {
		return b.DoCtx(ctx, func() error {
			l.Borrow()
			defer func() { _ = l.Return() }()
			return withTimeout(ctx, timeout, fn)
		})
	}
}

// eapache/go-resiliency

func newEapache(c config) *eapachebreaker.Breaker {
	return eapachebreaker.New(minCalls*failureRate, 1, c.cooldown)
}

func newEapacheBulkhead(limit int, wait bool) *eapachesemaphore.Semaphore {
	if wait {
		return eapachesemaphore.New(limit, time.Minute)
	}
	return eapachesemaphore.New(limit, 0)
}

func eapacheDo(c config) do {
	b := newEapache(c)
	return func(ctx context.Context, fn func(context.Context) error) error {
		return b.Run(func() error { return fn(ctx) })
	}
}

func eapacheBulkhead(limit int, wait bool) do {
	s := newEapacheBulkhead(limit, wait)
	return func(ctx context.Context, fn func(context.Context) error) error {
		if err := s.Acquire(); err != nil {
			return err
		}
		defer s.Release()
		return fn(ctx)
	}
}

func eapacheStack(limit int, timeout time.Duration) do {
	b, s, d := newEapache(alike()), newEapacheBulkhead(limit, true), eapachedeadline.New(timeout)
	return func(ctx context.Context, fn func(context.Context) error) error {
		return b.Run(func() error {
			if err := s.Acquire(); err != nil {
				return err
			}
			defer s.Release()
			if timeout == 0 {
				return fn(ctx)
			}
			return d.Run(func(<-chan struct{}) error { return fn(ctx) })
		})
	}
}

// x/sync and the bare channel

func xsyncBulkhead(limit int, wait bool) do {
	s := semaphore.NewWeighted(int64(limit))
	return func(ctx context.Context, fn func(context.Context) error) error {
		if wait {
			if err := s.Acquire(ctx, 1); err != nil {
				return err
			}
		} else if !s.TryAcquire(1) {
			return errRejected
		}
		defer s.Release(1)
		return fn(ctx)
	}
}

func channelBulkhead(limit int, wait bool) do {
	slots := make(chan struct{}, limit)
	return func(ctx context.Context, fn func(context.Context) error) error {
		if wait {
			select {
			case slots <- struct{}{}:
			case <-ctx.Done():
				return ctx.Err()
			}
		} else {
			select {
			case slots <- struct{}{}:
			default:
				return errRejected
			}
		}
		defer func() { <-slots }()
		return fn(ctx)
	}
}
