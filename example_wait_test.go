package seawall_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/seawall-go/seawall"
)

// Mailer sends what it finds in a queue, for as long as its context lives.
type Mailer struct {
	breaker *seawall.Breaker
	queue   chan string
	send    func(ctx context.Context, mail string) error
}

// Run is the loop of one worker; there may be several. It asks the breaker before it pulls, so that while the server is
// down mails stay in the queue instead of being tried in vain. Once Wait has returned a done it has to be called, also
// if there was nothing to do: it may be a probe that holds a place.
func (m *Mailer) Run(ctx context.Context) error {
	for {
		done, err := m.breaker.Wait(ctx)
		if err != nil {
			return context.Cause(ctx)
		}
		select {
		case mail := <-m.queue:
			err := m.send(ctx, mail)
			if err != nil {
				m.queue <- mail // Back into the queue; a real one does that by itself.
			}
			done(err)
		case <-ctx.Done():
			done(seawall.MarkIgnored(ctx.Err()))
		}
	}
}

// A pull loop has no caller to reject, so it waits until a call may be made. The clock of this example leaps over
// the wait.
func ExampleBreaker_Wait_pullLoop() {
	clk := &leapingClock{now: time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)}
	ctx, stop := context.WithCancelCause(context.Background())
	tries := 0
	mailer := &Mailer{
		breaker: seawall.Must(seawall.NewBreaker("mail", seawall.WithConsecutiveFailures(2), seawall.WithClock(clk))),
		queue:   make(chan string, 10),
		send: func(ctx context.Context, mail string) error {
			tries++
			if tries <= 3 {
				fmt.Println(clk.Now().Format(time.TimeOnly), mail, "failed")
				return errors.New("server down")
			}
			fmt.Println(clk.Now().Format(time.TimeOnly), mail, "sent")
			if mail == "third" {
				stop(errors.New("end of the example"))
			}
			return nil
		},
	}
	for _, mail := range []string{"first", "second", "third"} {
		mailer.queue <- mail
	}

	fmt.Println(mailer.Run(ctx))
	fmt.Println(mailer.breaker.Snapshot().Totals.Rejected, "rejected")
	// Output:
	// 12:00:00 first failed
	// 12:00:00 second failed
	// 12:00:05 third failed
	// 12:00:10 first sent
	// 12:00:10 second sent
	// 12:00:10 third sent
	// end of the example
	// 0 rejected
}

// leapingClock stands still, and leaps ahead when somebody would have to wait for it.
type leapingClock struct {
	mu  sync.Mutex
	now time.Time
}

// Now returns where the clock stands.
func (c *leapingClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// After returns a channel that has its time already.
func (c *leapingClock) After(d time.Duration) <-chan time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	alarm := make(chan time.Time, 1)
	alarm <- c.now
	return alarm
}
