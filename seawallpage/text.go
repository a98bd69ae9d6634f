package seawallpage

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/seawall-go/seawall"
)

// count writes a number with commas between its thousands.
func count(n uint64) string {
	digits := strconv.FormatUint(n, 10)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// nbsp keeps a number and its unit together.
const nbsp = "\u00a0"

// percent writes a share with a decimal if it has one. What is not quite nothing, or not quite all, does not look so.
func percent(share float64) string {
	tenths := math.Round(1000 * share)
	switch {
	case share > 0 && tenths == 0:
		return "<" + nbsp + "0.1" + nbsp + "%"
	case share < 1 && tenths == 1000:
		return ">" + nbsp + "99.9" + nbsp + "%"
	default:
		return strconv.FormatFloat(tenths/10, 'f', -1, 64) + nbsp + "%"
	}
}

// span writes a duration in the unit in which it reads best, or in two with a space between them. What is not quite
// over is not 0.
func span(d time.Duration) string {
	switch d = max(d, 0); {
	case d == 0:
		return "0" + nbsp + "s"
	case d < time.Second:
		return units(max(d, time.Millisecond), time.Millisecond, "ms")
	case d < 10*time.Second:
		return strconv.FormatFloat(math.Floor(d.Seconds()*10)/10, 'f', -1, 64) + nbsp + "s"
	case d < time.Minute:
		return units(d, time.Second, "s")
	case d < time.Hour:
		return units(d, time.Minute, "min") + rest(d%time.Minute, time.Second, "s")
	case d < 24*time.Hour:
		return units(d, time.Hour, "h") + rest(d%time.Hour, time.Minute, "min")
	default:
		return units(d, 24*time.Hour, "d") + rest(d%(24*time.Hour), time.Hour, "h")
	}
}

func units(d, unit time.Duration, name string) string {
	return strconv.FormatInt(int64(d/unit), 10) + nbsp + name
}

func rest(d, unit time.Duration, name string) string {
	if d < unit {
		return ""
	}
	return " " + units(d, unit, name)
}

func words(r seawall.Reason) string { return strings.ReplaceAll(r.String(), "_", " ") }

func newMoment(at, now time.Time) *moment { return &moment{At: at, Ago: age(at, now)} }

// age writes how long ago an instant is, roughly.
func age(at, now time.Time) string {
	first, _, _ := strings.Cut(span(now.Sub(at)), " ")
	return first
}

// timeOfDay writes when an instant was, with the date unless that is today's.
func timeOfDay(at, now time.Time) string {
	at = at.In(now.Location())
	if at.Format(time.DateOnly) == now.Format(time.DateOnly) {
		return at.Format(time.TimeOnly)
	}
	return at.Format(time.DateTime)
}
