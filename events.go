package seawall

import (
	"sync"
	"time"
)

// outbox brings state changes to the hooks: each once, in order, one at a time, and under no lock. There is no
// goroutine for it; whoever made a change calls deliver after unlocking, and delivers what is there. A nil outbox has
// no hooks.
type outbox struct {
	hooks []func(event) // set once

	mu    sync.Mutex // guards the fields below; taken after Breaker.mu where both are held
	queue []*message
	busy  bool // a hook is running
}

// event is a state change with what only the log tells besides.
type event struct {
	StateChange
	cooldown time.Duration // how long the breaker is open now; 0 if it does not open, or was forced to
	opens    uint64        // changes to Open so far
	rejected uint64        // calls since the change before that were rejected, or in mode Observe would have been
}

// message is an event on its way to the hooks.
type message struct {
	event event
	hook  int  // the next one to get it
	held  bool // not to be delivered yet, nor anything behind it
}

// with returns o with one more hook; o may be nil.
func (o *outbox) with(hook func(event)) *outbox {
	if o == nil {
		o = new(outbox)
	}
	o.hooks = append(o.hooks, hook)
	return o
}

// put queues an event. A held one stays, with all that come after it, until release.
func (o *outbox) put(e event, held bool) *message {
	if o == nil {
		return nil
	}
	m := &message{event: e, held: held}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.queue = append(o.queue, m)
	return m
}

func (o *outbox) release(m *message) {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	m.held = false
}

// deliver calls the hooks with all that is queued. If a hook is running already, also one further up this very call
// stack, its goroutine goes on with the rest.
func (o *outbox) deliver() {
	for o != nil && o.deliverOne() {
	}
}

// deliverOne calls one hook with one event and reports whether there was something to do.
func (o *outbox) deliverOne() bool {
	hook, e, ok := o.take()
	if !ok {
		return false
	}
	returned := false
	defer func() {
		o.done()
		if !returned { // The hook panicked or called runtime.Goexit: what is behind it must still go out.
			o.deliver()
		}
	}()
	hook(e)
	returned = true
	return true
}

func (o *outbox) take() (hook func(event), e event, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.busy || len(o.queue) == 0 || o.queue[0].held {
		return nil, event{}, false
	}
	o.busy = true
	m := o.queue[0]
	hook = o.hooks[m.hook]
	if m.hook++; m.hook == len(o.hooks) {
		o.queue[0] = nil
		o.queue = o.queue[1:]
	}
	return hook, m.event, true
}

func (o *outbox) done() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.busy = false
}
