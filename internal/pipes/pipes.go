// Package pipes is a network in memory, for tests. Unlike sockets, its connections may block in a synctest bubble, so a
// program that uses net/http can be run there on virtual time.
package pipes

import (
	"context"
	"errors"
	"net"
	"sync"
)

// A Network joins its listeners and those who dial them. Make one with [New]; it is safe for use by several goroutines.
type Network struct {
	mu        sync.Mutex
	listeners map[string]*listener
}

// New returns a Network on which nobody listens yet.
func New() *Network { return &Network{listeners: map[string]*listener{}} }

// Listen listens at an address of the Network's own choice, which the listener tells. It never fails.
func (n *Network) Listen(string) (net.Listener, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := &listener{
		addr:   address("server-" + string(rune('a'+len(n.listeners))) + ":80"),
		conns:  make(chan net.Conn),
		closed: make(chan struct{}),
	}
	n.listeners[l.addr.String()] = l
	return l, nil
}

// Dial connects to a listener by its address. If nobody listens there, or no more, or ctx ends first, it fails.
func (n *Network) Dial(ctx context.Context, _, addr string) (net.Conn, error) {
	n.mu.Lock()
	l := n.listeners[addr]
	n.mu.Unlock()
	if l == nil {
		return nil, errors.New("connection refused")
	}
	client, server := net.Pipe()
	select {
	case l.conns <- server:
		return client, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

type listener struct {
	addr   address
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *listener) Addr() net.Addr { return l.addr }

type address string

func (address) Network() string  { return "pipe" }
func (a address) String() string { return string(a) }
