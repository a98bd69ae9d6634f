package seawallpage

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestCount(t *testing.T) {
	for n, want := range map[uint64]string{
		0: "0", 7: "7", 999: "999", 1000: "1,000", 65_536: "65,536", 1_234_567: "1,234,567", 1<<64 - 1: "18,446,744,073,709,551,615",
	} {
		assert.Equal(t, want, count(n))
	}
}

func TestPercent(t *testing.T) {
	for share, want := range map[float64]string{
		0: "0 %", 1: "100 %", 0.5: "50 %", 0.125: "12.5 %", 1. / 3: "33.3 %",
		0.0001: "< 0.1 %", 0.0005: "0.1 %", 0.9999: "> 99.9 %", 0.9994: "99.9 %",
	} {
		assert.Equal(t, want, plain(percent(share)), share)
	}
}

func TestSpan(t *testing.T) {
	const s, h = time.Second, time.Hour
	for d, want := range map[time.Duration]string{
		-s: "0 s", 0: "0 s", 1: "1 ms", time.Millisecond: "1 ms", s - 1: "999 ms",
		s: "1 s", 1260 * time.Millisecond: "1.2 s", 10*s - 1: "9.9 s", 10 * s: "10 s", 59*s + 999*time.Millisecond: "59 s",
		time.Minute: "1 min", 61 * s: "1 min 1 s", h - s: "59 min 59 s", h: "1 h", h + time.Minute + s: "1 h 1 min",
		24*h - 1: "23 h 59 min", 24 * h: "1 d", 49 * h: "2 d 1 h", 1000 * 24 * h: "1000 d",
	} {
		assert.Equal(t, want, plain(span(d)), "%d ns", d)
	}
	assert.Equal(t, "1\u00a0h 1\u00a0min", span(h+time.Minute), "lines are broken between the two only")
}

func TestAgeIsInOneUnit(t *testing.T) {
	now := time.Unix(1e9, 0)
	assert.Equal(t, "1 h", plain(age(now.Add(-119*time.Minute), now)))
	assert.Equal(t, "0 s", plain(age(now.Add(time.Hour), now)), "a guard's clock that is ahead of the page's")
}

func TestTimeOfDayHasTheDateOfAnotherDay(t *testing.T) {
	now := time.Date(2026, 11, 30, 0, 30, 0, 0, time.UTC)
	assert.Equal(t, "00:00:00", timeOfDay(now.Add(-30*time.Minute), now))
	assert.Equal(t, "2026-11-29 23:59:59", timeOfDay(now.Add(-30*time.Minute-1), now))
	berlin := time.FixedZone("CET", 3600)
	assert.Equal(t, "01:00:00", timeOfDay(now.Add(-30*time.Minute), now.In(berlin)), "in the page's zone")
}

// plain puts a common space for one that keeps a number and its unit together.
func plain(s string) string { return strings.ReplaceAll(s, nbsp, " ") }
