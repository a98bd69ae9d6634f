package main

import (
	"cmp"
	"errors"
	"net"

	"github.com/seawall-go/seawall/seawallpage"
)

// page is a live page of the guards, for a browser.
type page struct {
	*serving
	url string
}

// openPage serves the page at an address, until close. Whoever reaches it may take the breaker in hand: it is only a
// demonstration.
func openPage(address string, g *guard, network network) (*page, error) {
	handler, err := seawallpage.NewHandler(
		seawallpage.Breakers(g.breaker),
		seawallpage.Bulkheads(g.bulkhead),
		seawallpage.WithControl(),
	)
	if err != nil {
		return nil, err
	}
	listener, err := network.listen(address)
	if err != nil {
		return nil, err
	}
	url, err := pageURL(address, listener.Addr())
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return &page{serving: serve(listener, handler), url: url}, nil
}

// pageURL is made of the host that was asked for and the port that it became, which may have been 0.
func pageURL(address string, got net.Addr) (string, error) {
	host, _, err := net.SplitHostPort(address)
	_, port, err2 := net.SplitHostPort(got.String())
	return "http://" + net.JoinHostPort(cmp.Or(host, "localhost"), port) + "/", errors.Join(err, err2)
}
