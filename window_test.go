package seawall

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The time window, with the times passed in.

const ns = time.Nanosecond

func success() tally { return tally{calls: 1} }
func failure() tally { return tally{calls: 1, failures: 1} }

// addAt books t as of now.
func addAt(w *timeWindow, now time.Duration, t tally) {
	w.turn(now)
	w.book(t)
}

// countAt returns what w counts as of now, and leaves w alone.
func countAt(w *timeWindow, now time.Duration) tally {
	c := w.clone()
	c.turn(now)
	return c.counts()
}

// Each row books one call and asks how many there are at some later time.
func TestWindowForgetsByBuckets(t *testing.T) {
	const s = time.Second
	tests := []struct {
		name       string
		d          time.Duration
		buckets    int
		booked, at time.Duration
		want       uint64
	}{
		{"at once", 10 * s, 10, 0, 0, 1},
		{"first instant of a bucket, 1 ns before the window has passed", 10 * s, 10, 0, 10*s - ns, 1},
		{"first instant of a bucket, the window has passed", 10 * s, 10, 0, 10 * s, 0},
		{"last instant of a bucket, 9 buckets later", 10 * s, 10, 1*s - ns, 10*s - ns, 1},
		{"last instant of a bucket, 1 ns more", 10 * s, 10, 1*s - ns, 10 * s, 0},
		{"middle of a bucket, before its end is d ago", 10 * s, 10, 3500 * time.Millisecond, 13*s - ns, 1},
		{"middle of a bucket, when it is", 10 * s, 10, 3500 * time.Millisecond, 13 * s, 0},
		{"much later", 10 * s, 10, 0, 1000 * s, 0},
		{"one bucket, before it ends", s, 1, 0, s - ns, 1},
		{"one bucket, when it ends", s, 1, 0, s, 0},
		{"one bucket, over its end", s, 1, s - ns, s, 0},
		{"two buckets", 2 * s, 2, s - ns, 2*s - ns, 1},
		{"two buckets, the end", 2 * s, 2, s - ns, 2 * s, 0},
		{"the most and narrowest buckets", s, 1000, 0, s - ns, 1},
		{"the most and narrowest buckets, the end", s, 1000, 0, s, 0},
		{"the widest", math.MaxInt64, 10, 0, math.MaxInt64 / 10 * 10, 0},
		{"the widest, 1 ns before", math.MaxInt64, 10, 0, math.MaxInt64/10*10 - ns, 1},
		{"the widest, one bucket, the end of time", math.MaxInt64, 1, 0, latest, 1},
		{"the end of time", 10 * s, 10, latest, latest, 1},
		{"the end of time, from just before", 10 * s, 10, latest - ns, latest, 1},
		{"the end of time, from long before", 10 * s, 10, latest - 11*s, latest, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newTimeWindow(tt.d, tt.buckets)
			addAt(w, tt.booked, failure())
			assert.Equal(t, tally{calls: tt.want, failures: tt.want}, countAt(w, tt.at))
			assert.Equal(t, failure(), w.counts(), "looking ahead changes nothing")
		})
	}
}

// end says until when turn has nothing to do.
func TestWindowEndIsWhereTheCurrentBucketEnds(t *testing.T) {
	w := newTimeWindow(10*time.Second, 10)
	for _, tt := range []struct{ now, end time.Duration }{
		{0, time.Second},
		{time.Second - ns, time.Second},
		{time.Second, 2 * time.Second},
		{5 * time.Second, 6 * time.Second},
		{3 * time.Second, 6 * time.Second}, // A bucket that is over never becomes the current one again.
		{time.Hour, time.Hour + time.Second},
		{latest, math.MaxInt64},
	} {
		w.turn(tt.now)
		assert.Equal(t, tt.end, w.end(), "at %v", tt.now)
	}
}

// A result that is booked as of an earlier time than the current bucket's is booked in the current one.
func TestWindowBooksNothingInThePast(t *testing.T) {
	w := newTimeWindow(10*time.Second, 10)
	addAt(w, 5*time.Second, failure())
	addAt(w, 2*time.Second, success())
	assert.Equal(t, tally{calls: 2, failures: 1}, countAt(w, 15*time.Second-ns))
	assert.Zero(t, countAt(w, 15*time.Second))
}

// clear forgets the results but not the time.
func TestWindowClear(t *testing.T) {
	w := newTimeWindow(10*time.Second, 10)
	for now := range 7 {
		addAt(w, time.Duration(now)*time.Second, failure())
	}
	w.clear()
	assert.Zero(t, w.counts())
	assert.Equal(t, 7*time.Second, w.end())
	addAt(w, 6500*time.Millisecond, success())
	assert.Equal(t, success(), countAt(w, 16*time.Second-ns))
	assert.Zero(t, countAt(w, 16*time.Second))
}

// A clone goes its own way.
func TestWindowClone(t *testing.T) {
	w := newTimeWindow(10*time.Second, 10)
	addAt(w, 0, failure())
	c := w.clone()
	c.turn(time.Second)
	c.book(success())
	assert.Equal(t, failure(), w.counts())
	w.book(failure())
	assert.Equal(t, tally{calls: 2, failures: 1}, c.counts())
}

// B43: however far time jumps, turn takes no more steps than there are buckets; one that walked through a gap of 292
// years bucket by bucket would not come back.
func TestWindowJumpsInConstantTime(t *testing.T) {
	w := newTimeWindow(time.Millisecond, 1)
	addAt(w, 0, failure())
	addAt(w, latest, failure())
	assert.Equal(t, failure(), w.counts())

	w = newTimeWindow(time.Second, 1000)
	for i := range 300 {
		addAt(w, time.Duration(i)*(latest/300), failure())
		assert.Equal(t, failure(), w.counts())
	}
}

// Turning and booking allocate nothing.
func TestWindowAllocatesNothing(t *testing.T) {
	w := newTimeWindow(time.Second, 100)
	now := time.Duration(0)
	assert.Zero(t, testing.AllocsPerRun(1000, func() {
		now += 7 * time.Millisecond
		addAt(w, now, failure())
	}))
}

// I7: the counts equal those of a window that keeps every result and counts them again each time. G58, G60: so they
// do whatever the steps of time, to the very nanosecond.
func TestWindowMatchesANaiveRecount(t *testing.T) {
	for _, shape := range []struct {
		d       time.Duration
		buckets int
	}{
		{10 * time.Second, 10},
		{10 * time.Second, 1},
		{time.Second, 1000},
		{7*time.Millisecond + 3, 7},
		{time.Second + 1, 3},
		{math.MaxInt64, 10},
	} {
		t.Run(fmt.Sprintf("%v in %d", shape.d, shape.buckets), func(t *testing.T) {
			for seed := range uint64(8) {
				random := rand.New(rand.NewPCG(seed, 0))
				w := newTimeWindow(shape.d, shape.buckets)
				naive := naiveWindow{width: shape.d / time.Duration(shape.buckets), buckets: int64(shape.buckets)}
				now := time.Duration(0)
				for range 250 {
					now = later(now, step(random, shape.d, naive.width, now))
					now = min(now, latest)
					what := success()
					if random.IntN(2) == 0 {
						what = failure()
					}
					if random.IntN(3) > 0 {
						addAt(w, now, what)
						naive.add(now, what)
					}
					require.Equal(t, naive.at(now), countAt(w, now), "seed %d at %d", seed, now)
					ahead := min(later(now, step(random, shape.d, naive.width, now)), latest)
					require.Equal(t, naive.at(ahead), countAt(w, ahead), "seed %d at %d, from %d", seed, ahead, now)
				}
			}
		})
	}
}

// step draws how far time goes: mostly to where something could go wrong.
func step(random *rand.Rand, d, width, now time.Duration) time.Duration {
	toNext := width - now%width // To the first instant of the next bucket.
	switch random.IntN(8) {
	case 0:
		return 0
	case 1:
		return 1
	case 2:
		return toNext - 1
	case 3:
		return toNext
	case 4:
		return d - width
	case 5:
		return d - 1
	case 6:
		return d
	default:
		return time.Duration(random.Int64N(int64(width)))
	}
}

// naiveWindow keeps every result with its time.
type naiveWindow struct {
	width   time.Duration
	buckets int64
	times   []time.Duration
	results []tally
}

func (n *naiveWindow) add(now time.Duration, t tally) {
	n.times, n.results = append(n.times, now), append(n.results, t)
}

// at counts the results in the bucket that now lies in and in those before it that the window covers.
func (n *naiveWindow) at(now time.Duration) tally {
	var sum tally
	for i, t := range n.times {
		if int64(now/n.width)-int64(t/n.width) < n.buckets {
			sum.calls += n.results[i].calls
			sum.failures += n.results[i].failures
		}
	}
	return sum
}

// later saturates.
func TestLaterDoesNotOverflow(t *testing.T) {
	for _, tt := range []struct{ t, d, want time.Duration }{
		{0, 0, 0},
		{1, 2, 3},
		{math.MaxInt64 - 1, 1, math.MaxInt64},
		{math.MaxInt64 - 1, 2, math.MaxInt64},
		{math.MaxInt64, math.MaxInt64, math.MaxInt64},
		{0, math.MaxInt64, math.MaxInt64},
	} {
		assert.Equal(t, tt.want, later(tt.t, tt.d))
	}
}

// A count window makes room as results come, and never for more than it may hold.
func TestCountWindowTakesNoMoreRoomThanItNeeds(t *testing.T) {
	const most = 100
	w := &countWindow{max: most}
	w.book(tally{calls: 1})
	assert.Less(t, cap(w.results), most)
	w.book(tally{calls: 3 * most})
	assert.Len(t, w.results, most)
	assert.Equal(t, most, cap(w.results))
}

// A count window makes room for its results a few times, not for each of them.
func TestCountWindowSeldomGrows(t *testing.T) {
	fill := func() {
		w := countWindow{max: 1 << 12}
		w.push(failed, 1<<12)
	}
	assert.LessOrEqual(t, testing.AllocsPerRun(10, fill), 12.0)
}
