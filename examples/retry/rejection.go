package retry

import (
	"context"
	"errors"
	"time"

	"github.com/seawall-go/seawall"
)

// waitFor returns how long a loop is to wait after err, and whether that makes sense: as long as an open breaker says,
// unless the context ends before that. After any other error it is the pause of the loop's own.
func waitFor(ctx context.Context, err error, pause time.Duration) (wait time.Duration, ok bool) {
	open, ok := errors.AsType[*seawall.OpenError](err)
	if !ok {
		return pause, true
	}
	wait = open.RetryAfter()
	deadline, bounded := ctx.Deadline()
	return wait, !bounded || wait < time.Until(deadline)
}
