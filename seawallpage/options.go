package seawallpage

import (
	"errors"
	"fmt"

	"github.com/seawall-go/seawall"
)

// An Option is for [NewHandler]: guards to show, or what the page may do.
type Option interface {
	apply(*config) error
}

// Breakers are breakers under their own names. Two of one name are shown both.
// Range: none of them nil.
func Breakers(breakers ...*seawall.Breaker) Option { return guards("Breakers", breakers) }

// Bulkheads are bulkheads under their own names. Two of one name are shown both.
// Range: none of them nil.
func Bulkheads(bulkheads ...*seawall.Bulkhead) Option { return guards("Bulkheads", bulkheads) }

// Group is a Group with the breakers and bulkheads of its keys, also those in a [seawall.Chain]. They have the names
// name/key, where key is what fmt.Sprint makes of it: bytes that are not UTF-8 are replaced, and 128 bytes are the most.
// Range: g not nil.
func Group[K comparable](name string, g *seawall.Group[K]) Option {
	return option(func(c *config) error {
		if g == nil {
			return fmt.Errorf("seawallpage: Group %q: the group must not be nil", name)
		}
		c.groups = append(c.groups, func() groupLook { return groupLook{name, g.Snapshot()} })
		c.sources = append(c.sources, func(yield func(place, seawall.Policy) bool) {
			for key, p := range g.All() {
				if !yield(place{inGroup: true, Group: name, Key: keyText(key)}, p) {
					return
				}
			}
		})
		return nil
	})
}

// WithControl lets those who see the page take breakers in hand: force them open, reset them, and switch between
// [seawall.Enforce] and [seawall.Observe]. Requests that another site makes a browser send are refused, by
// [http.CrossOriginProtection]; who else may send them, the page doesn't know: mount it behind an authentication of
// your own.
// Default: the page is read-only.
func WithControl() Option {
	return option(func(c *config) error {
		c.control = true
		return nil
	})
}

type option func(*config) error

func (o option) apply(c *config) error { return o(c) }

// config is all that the options decide.
type config struct {
	control bool
	sources []source
	groups  []func() groupLook
}

func newConfig(opts []Option) (config, error) {
	var c config
	var errs []error
	for i, o := range opts {
		if o == nil {
			errs = append(errs, fmt.Errorf("seawallpage: option %d of the list is nil", i+1))
		} else {
			errs = append(errs, o.apply(&c))
		}
	}
	return c, errors.Join(errs...)
}

func guards[G interface {
	comparable
	seawall.Policy
}](kind string, all []G) Option {
	return option(func(c *config) error {
		var none G
		var errs []error
		for i, g := range all {
			if g == none {
				errs = append(errs, fmt.Errorf("seawallpage: %s: number %d of %d is nil", kind, i+1, len(all)))
			}
		}
		c.sources = append(c.sources, func(yield func(place, seawall.Policy) bool) {
			for _, g := range all {
				if !yield(place{}, g) {
					return
				}
			}
		})
		return errors.Join(errs...)
	})
}
