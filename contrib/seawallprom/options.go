package seawallprom

import (
	"errors"
	"fmt"
	"regexp"

	"github.com/seawall-go/seawall"
	"github.com/seawall-go/seawall/internal/metrics"
)

// An Option is for [NewCollector]: guards, or one of the WithX functions. Of such an option given twice the last one
// holds.
type Option interface {
	apply(*config) error
}

// Guards are what a [Collector] tells about. They are made by [Breakers], [Bulkheads], [Group] and [GroupByKey].
type Guards interface {
	Option
	addTo(*Collector) error
}

// Breakers are breakers under their own names.
func Breakers(breakers ...*seawall.Breaker) Guards {
	return guards(func(c *Collector) error {
		var errs []error
		for _, b := range breakers {
			errs = append(errs, prefixed(c.guards.AddBreaker(b)))
		}
		return errors.Join(errs...)
	})
}

// Bulkheads are bulkheads under their own names.
func Bulkheads(bulkheads ...*seawall.Bulkhead) Guards {
	return guards(func(c *Collector) error {
		var errs []error
		for _, b := range bulkheads {
			errs = append(errs, prefixed(c.guards.AddBulkhead(b)))
		}
		return errors.Join(errs...)
	})
}

// Group is a Group, whose breakers and bulkheads are summed up under its name, so that the number of series does not
// depend on its keys. Its circuit_breaker_status is how many breakers are in each state, its
// circuit_breaker_failure_ratio the highest of theirs. Its series, apart from guard_registry_*, are there from when it
// has its first breaker or bulkhead.
//
// What is evicted from the Group stays counted as of the latest scrape before.
func Group[K comparable](name string, g *seawall.Group[K]) Guards {
	return guards(func(c *Collector) error { return prefixed(metrics.AddGroup(c.guards, name, g, 0)) })
}

// GroupByKey is a Group whose breakers and bulkheads are told apart by key, under name/key, for as many keys as
// [WithKeyLimit] says: the first that come. The rest is summed up under name/other. A key is what fmt.Sprint makes of
// it; bytes that are not UTF-8 are replaced, and 128 bytes are the most.
func GroupByKey[K comparable](name string, g *seawall.Group[K]) Guards {
	return guards(func(c *Collector) error { return prefixed(metrics.AddGroup(c.guards, name, g, c.keyLimit)) })
}

// WithPrefix sets what the names of all metrics begin with, as in "myco_".
// Default: nothing. Range: letters, digits and underscores, of which the first is no digit.
func WithPrefix(prefix string) Option {
	return option(func(c *config) error {
		c.prefix = prefix
		if !regexp.MustCompile(`^([a-zA-Z_][a-zA-Z0-9_]*)?$`).MatchString(prefix) {
			return fmt.Errorf("seawallprom: WithPrefix: prefix %q must be of letters, digits and underscores, of which the first is no digit", prefix)
		}
		return nil
	})
}

// WithKeyLimit sets how many keys of each [GroupByKey] have series of their own.
// Default 50. Range: from 1 to 1<<20.
func WithKeyLimit(n int) Option {
	return option(func(c *config) error {
		c.keyLimit = n
		if n < 1 || n > 1<<20 {
			return fmt.Errorf("seawallprom: WithKeyLimit: n %d must be from 1 to 1048576", n)
		}
		return nil
	})
}

type option func(*config) error

func (o option) apply(c *config) error { return o(c) }

type guards func(*Collector) error

func (g guards) addTo(c *Collector) error { return g(c) }

func (g guards) apply(c *config) error {
	c.guards = append(c.guards, g)
	return nil
}

// config is all that the options decide.
type config struct {
	prefix   string
	keyLimit int
	guards   []Guards
}

func newConfig(opts []Option) (config, error) {
	c := config{keyLimit: 50}
	var errs []error
	for i, o := range opts {
		if o == nil {
			errs = append(errs, fmt.Errorf("seawallprom: option %d of the list is nil", i+1))
		} else {
			errs = append(errs, o.apply(&c))
		}
	}
	return c, errors.Join(errs...)
}

func prefixed(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("seawallprom: %w", err)
}
