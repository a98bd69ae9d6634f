package seawall

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The finder of slow calls, with the times passed in.

// ripened is what ripen finds at now: when, and how many calls.
func ripened(s *slowCalls, now time.Duration) (at []time.Duration, calls uint64) {
	s.ripen(now, func(instant time.Duration, n uint64, _ bool) {
		at = append(at, instant)
		calls += n
	})
	return at, calls
}

// beginAt begins a call at now as admission does.
func beginAt(s *slowCalls, now time.Duration) {
	ripened(s, now)
	s.begin(now)
}

// Each row begins one call and says when it is found, to the nanosecond: not before it has run for the threshold, and
// less than an eighth of that later.
func TestSlowCallsAreFoundInTime(t *testing.T) {
	const s = time.Second
	tests := []struct {
		name         string
		threshold    time.Duration
		start, found time.Duration
	}{
		{"first instant of a slot", 8 * s, 0, 9*s - 1},
		{"last instant of a slot", 8 * s, s - 1, 9*s - 1},
		{"middle of a slot", 8 * s, 10*s + 300*time.Millisecond, 19*s - 1},
		{"not divisible by 8", 23, 4, 28},
		{"1 ns", 1, 5, 6},
		{"2 ns", 2, 5, 7},
		{"7 ns", 7, 5, 12},
		{"8 ns", 8, 5, 13},
		{"15 ns", 15, 5, 20},
		{"16 ns, first instant of a slot", 16, 4, 21},
		{"16 ns, last instant of a slot", 16, 5, 21},
		{"late in time", s, latest - 2*s, (latest-2*s)/(s/8)*(s/8) + s/8 - 1 + s},
		{"the end of time", 1, latest - 1, latest},
		{"half of all time", latest / 2, 0, latest/2 + latest/16 - 1},
		{"all of time", latest, 0, math.MaxInt64},
		{"more than there is", math.MaxInt64, 0, math.MaxInt64},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			assert.GreaterOrEqual(t, tt.found-tt.start, tt.threshold, "a row that is early")
			assert.LessOrEqual(t, tt.found-tt.start-tt.threshold, tt.threshold/8, "a row that is late")
			calls := newSlowCalls(tt.threshold)
			beginAt(calls, tt.start)
			before := calls.clone()
			_, n := ripened(calls, min(tt.found-1, latest))
			assert.Zero(t, n, "1 ns before")
			assert.True(t, before.end(tt.start), "it ends before it is slow")

			if tt.found > latest { // Time ends before.
				return
			}
			at, n := ripened(calls, tt.found)
			assert.Equal(t, []time.Duration{tt.found}, at)
			assert.EqualValues(t, 1, n)
			assert.False(t, calls.end(tt.start), "it ends after it was found")
			_, n = ripened(calls, latest)
			assert.Zero(t, n, "found twice")
		})
	}
}

// All slots that have become slow since the last look are found in their order, each with the instant at which it did.
func TestSlowCallsAreFoundInOrder(t *testing.T) {
	s := newSlowCalls(8 * time.Second)
	for i := range 9 {
		for range i + 1 {
			beginAt(s, time.Duration(i)*time.Second+time.Duration(i)*time.Millisecond)
		}
	}
	at, calls := ripened(s, 17*time.Second-2)
	want := make([]time.Duration, 8)
	for i := range want {
		want[i] = time.Duration(9+i)*time.Second - 1
	}
	assert.Equal(t, want, at)
	assert.EqualValues(t, 1+2+3+4+5+6+7+8, calls)
	_, calls = ripened(s, 17*time.Second-1)
	assert.EqualValues(t, 9, calls)
}

// Without a threshold no call is ever slow, and nothing is kept.
func TestSlowCallsWithoutThreshold(t *testing.T) {
	s := newSlowCalls(0)
	beginAt(s, 0)
	_, calls := ripened(s, latest)
	assert.Zero(t, calls)
	assert.True(t, s.end(0))
	assert.False(t, s.before(0, math.MaxInt64))
	assert.Nil(t, s.clone())
	s.clear()
}

// However many calls run, they take one number for each slot, and there are few of those.
func TestSlowCallsTakeLittleMemory(t *testing.T) {
	for d := time.Duration(1); d < 10_000; d++ {
		s := newSlowCalls(d)
		require.LessOrEqual(t, len(s.running), 17, "%v", d)
	}
	s := newSlowCalls(time.Second)
	now := time.Duration(0)
	assert.Zero(t, testing.AllocsPerRun(10_000, func() {
		now += time.Millisecond
		beginAt(s, now)
	}))
}

// A gap is passed in one round of the slots; walking through 292 years of nanoseconds would not come back.
func TestSlowCallsPassAGapInConstantTime(t *testing.T) {
	s := newSlowCalls(1)
	for i := range 300 {
		beginAt(s, time.Duration(i)*(latest/300))
	}
	_, calls := ripened(s, latest)
	assert.EqualValues(t, 1, calls)
}

// A success is among the calls of a slot if it came when some of them may have been slow, and others not.
func TestSlowCallsTellWhetherASuccessCameAmongThem(t *testing.T) {
	for name, tt := range map[string]struct {
		success time.Duration
		mixed   bool
	}{
		"when they begin":       {8 * time.Second, false},
		"before the first":      {16*time.Second - 1, false},
		"with the first":        {16 * time.Second, true},
		"1 ns before the last":  {17*time.Second - 2, true},
		"of the slot before it": {15 * time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSlowCalls(8 * time.Second)
			beginAt(s, 8*time.Second)
			s.succeed(tt.success)
			found := false
			s.ripen(time.Minute, func(at time.Duration, _ uint64, mixed bool) {
				found = true
				assert.Equal(t, 17*time.Second-1, at)
				assert.Equal(t, tt.mixed, mixed)
			})
			assert.True(t, found)
		})
	}
	newSlowCalls(0).succeed(time.Second)
}

// naiveCalls knows every running call and looks at each.
type naiveCalls struct {
	threshold time.Duration
	running   []time.Duration // when they began
	found     uint64          // of those that are running
}

// aged returns how many calls have run for at least d at now.
func (n *naiveCalls) aged(now, d time.Duration) (calls uint64) {
	for _, start := range n.running {
		if now-start >= d {
			calls++
		}
	}
	return calls
}

// Whatever begins and ends when, with any threshold: after each look at least the calls are found that have run for the
// threshold and an eighth, and at most those that have run for the threshold; and each is found once, or not and then
// it is there to be ended.
func TestSlowCallsMatchNaiveModel(t *testing.T) {
	thresholds := []time.Duration{time.Microsecond, 999, time.Second, time.Hour + 1, latest / 2, latest, math.MaxInt64}
	for d := range time.Duration(40) {
		thresholds = append(thresholds, d+1)
	}
	steps := 0
	for _, threshold := range thresholds {
		for seed := range uint64(10) {
			random := rand.New(rand.NewPCG(seed, uint64(threshold)))
			m := slowModel{t: t, naive: naiveCalls{threshold: threshold}, calls: newSlowCalls(threshold)}
			for range 200 {
				m.step(random)
				steps++
			}
			m.finish()
		}
	}
	t.Logf("%d steps", steps)
}

// slowModel holds a slowCalls and the model of it side by side.
type slowModel struct {
	t     *testing.T
	naive naiveCalls
	calls *slowCalls
	now   time.Duration
	story strings.Builder
}

func (m *slowModel) step(random *rand.Rand) {
	d := m.naive.threshold
	switch k := random.IntN(20); {
	case k < 6:
		m.look()
		m.calls.begin(m.now)
		m.naive.running = append(m.naive.running, m.now)
		m.story.WriteString(" begin")
	case k < 10 && len(m.naive.running) > 0:
		m.look()
		m.end(random.IntN(len(m.naive.running)))
	case k == 10 && random.IntN(10) == 0:
		m.calls.clear() // What was found stays so; what was not found is somebody else's from now on.
		m.naive.running = slices.DeleteFunc(m.naive.running, func(start time.Duration) bool {
			return !m.calls.before(start, m.calls.next)
		})
		m.story.WriteString(" clear")
	case k == 11:
		c := m.calls.clone()
		ripened(c, later(m.now, d))
		c.begin(min(latest, later(m.now, d)))
		m.story.WriteString(" clone")
	default:
		m.advance(random)
		m.look()
	}
}

// advance moves the time to where something may happen, often by little and seldom by much.
func (m *slowModel) advance(random *rand.Rand) {
	d, width := m.naive.threshold, max(1, m.naive.threshold/8)
	var by time.Duration
	switch random.IntN(10) {
	case 0:
		by = 1
	case 1:
		by = width - 1
	case 2:
		by = width
	case 3:
		by = d - 1
	case 4:
		by = d
	case 5:
		by = later(d, width)
	case 6:
		if random.IntN(20) == 0 {
			by = time.Duration(random.Int64N(latest))
		}
	default:
		by = time.Duration(random.Int64N(int64(min(later(width, width), latest))))
	}
	m.now = min(latest, later(m.now, by))
	fmt.Fprint(&m.story, " ", m.now)
}

// look compares what is found with what may and what must be.
func (m *slowModel) look() {
	must := m.naive.aged(m.now, later(m.naive.threshold, m.naive.threshold/8))
	may := m.naive.aged(m.now, m.naive.threshold)
	previous := time.Duration(-1)
	m.calls.ripen(m.now, func(at time.Duration, calls uint64, _ bool) {
		m.want(calls > 0, "no call of a slot was found")
		m.want(at > previous, "found out of order")
		m.want(at <= m.now, "found in the future")
		m.naive.found += calls
		previous = at
	})
	m.want(m.naive.found >= must, "found late")
	m.want(m.naive.found <= may, "found early, or twice")
}

// end ends the i-th call.
func (m *slowModel) end(i int) {
	start := m.naive.running[i]
	m.naive.running = slices.Delete(m.naive.running, i, i+1)
	before := m.calls.before(start, m.calls.next)
	running := m.calls.end(start)
	fmt.Fprint(&m.story, " end ", start)
	m.want(before == !running, "end and before disagree whether a call was found")
	if !running {
		m.want(m.naive.found > 0, "a call was found that was not slow")
		m.naive.found--
	}
}

// finish ends all calls. Then nothing is left.
func (m *slowModel) finish() {
	for len(m.naive.running) > 0 {
		m.end(0)
	}
	m.want(m.naive.found == 0, "a call that was found has not ended as such")
	m.want(!slices.ContainsFunc(m.calls.running, func(n uint64) bool { return n > 0 }), "nothing runs, and a slot has calls")
}

func (m *slowModel) want(ok bool, otherwise string) {
	if !ok {
		m.t.Fatalf("%s, with a threshold of %v, after%s", otherwise, m.naive.threshold, m.story.String())
	}
}
