package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"strings"
)

// config is what the flags decide.
type config struct {
	demo   bool
	listen string
	routes []route
}

// route leads the requests whose path begins with prefix to an upstream.
type route struct {
	prefix   string // begins and ends with a slash
	upstream *url.URL
}

func parseFlags(args []string, stdout io.Writer) (config, error) {
	var cfg config
	flags := newFlagSet(&cfg)
	flags.SetOutput(io.Discard) // main prints the error, once and without the whole help.
	err := flags.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		_, printed := io.WriteString(stdout, help())
		return config{}, errors.Join(err, printed)
	}
	if err != nil {
		return config{}, err
	}
	if flags.NArg() > 0 {
		return config{}, fmt.Errorf("unexpected argument %q: there are only flags", flags.Arg(0))
	}
	if cfg.demo == (len(cfg.routes) > 0) {
		return config{}, errors.New("give either -demo or at least one -route")
	}
	return cfg, nil
}

func newFlagSet(cfg *config) *flag.FlagSet {
	flags := flag.NewFlagSet("gateway", flag.ContinueOnError)
	flags.BoolVar(&cfg.demo, "demo", false, "show what happens when one of two upstreams hangs")
	flags.StringVar(&cfg.listen, "listen", "127.0.0.1:8080", "the gateway's `address`")
	flags.Func("route", "a `prefix=URL`, like /users/=http://10.0.0.1:80; may be given several times", func(text string) error {
		r, err := parseRoute(text)
		cfg.routes = append(cfg.routes, r)
		return err
	})
	return flags
}

func parseRoute(text string) (route, error) {
	prefix, target, ok := strings.Cut(text, "=")
	if !ok {
		return route{}, errors.New("it must be like /users/=http://10.0.0.1:80")
	}
	if !strings.HasPrefix(prefix, "/") || !strings.HasSuffix(prefix, "/") {
		return route{}, fmt.Errorf("the prefix %q must begin and end with a slash", prefix)
	}
	upstream, err := url.Parse(target)
	if err != nil {
		return route{}, err
	}
	if upstream.Scheme != "http" && upstream.Scheme != "https" || upstream.Host == "" {
		return route{}, fmt.Errorf("%q must be an http or https URL with a host", target)
	}
	return route{prefix, upstream}, nil
}

func help() string {
	var text strings.Builder
	fmt.Fprint(&text, `gateway: a reverse proxy that a sick upstream cannot take down.

usage: go run ./examples/gateway -demo
       go run ./examples/gateway -route prefix=URL [-route prefix=URL ...] [-listen address]

flags:
`)
	flags := newFlagSet(new(config))
	flags.SetOutput(&text)
	flags.PrintDefaults()
	fmt.Fprintf(&text, `
Answers of the gateway itself:
  503  the gateway is full, or the upstream's breaker is open, or its bulkhead full: come back after
       Retry-After
  504  the upstream did not answer within %v
  502  any other failure of the upstream
  404  no route
/healthz is always answered; /guards shows the guards of all upstreams as JSON.

Exit code: 0, also after ctrl-C; 1 if something broke; 2 for a bad flag.
`, upstreamTimeout)
	return text.String()
}
