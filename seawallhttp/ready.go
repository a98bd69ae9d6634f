package seawallhttp

import (
	"errors"
	"fmt"

	"github.com/seawall-go/seawall"
)

// Ready returns nil if none of the breakers rejects calls, and else an error that names those which do: the open ones,
// as far as they are not only observing. Once its cooldown is over a breaker counts as ready, so that the traffic comes
// back that it needs as probes.
//
// THINK TWICE before a readiness check asks it. If a dependency that all replicas share goes down, their breakers open
// together, all of them fail their checks, and what would have been a degraded service is none at all. It is for a
// dependency that is the replica's own, like a local disk or a sidecar, and without which it can serve nothing. Never use
// it for a liveness check: to restart the caller does not heal what it calls.
func Ready(breakers ...*seawall.Breaker) error {
	var errs []error
	for _, b := range breakers {
		if b.State() == seawall.Open && b.Mode() == seawall.Enforce {
			errs = append(errs, fmt.Errorf("seawallhttp: not ready: the breaker %q is open", b.Name()))
		}
	}
	return errors.Join(errs...)
}
