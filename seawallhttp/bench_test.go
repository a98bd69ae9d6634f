package seawallhttp_test

import (
	"io"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seawall-go/seawall"
	"github.com/seawall-go/seawall/seawallhttp"
)

// BenchmarkRoundTrip is a GET over the loopback interface, bare and guarded, by HTTP/1.1 and HTTP/2.
func BenchmarkRoundTrip(b *testing.B) {
	for _, proto := range protocols() {
		for _, impl := range impls(b, proto.start) {
			b.Run("proto="+proto.name+"/impl="+impl.name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					impl.get()
				}
			})
		}
	}
}

// BenchmarkOverhead makes a request of each kind in turns and reports the ratios of the medians: what else the machine does
// meets all alike, and what it does to a single request doesn't show.
func BenchmarkOverhead(b *testing.B) {
	for _, proto := range protocols() {
		impls := impls(b, proto.start)
		b.Run("proto="+proto.name, func(b *testing.B) {
			times := make([][]time.Duration, len(impls))
			for n := 0; b.Loop(); n++ {
				for i := range impls {
					i = (i + n) % len(impls) // None of them always comes after the same one.
					times[i] = append(times[i], took(impls[i].get))
				}
			}
			bare := median(times[0])
			for i, impl := range impls[1:] {
				b.ReportMetric(median(times[i+1])/bare, impl.name+"/bare")
			}
			b.ReportMetric(bare, "bare-ns")
			b.ReportMetric(0, "ns/op") // It would be that of all together.
		})
	}
}

func took(get func()) time.Duration {
	start := time.Now()
	get()
	return time.Since(start)
}

func median(values []time.Duration) float64 {
	slices.Sort(values)
	return float64(values[len(values)/2])
}

type protocol struct {
	name  string
	start starter
}

func protocols() []protocol { return []protocol{{"http1", startHTTP1}, {"http2", startHTTP2}} }

// impl is a way to make a request.
type impl struct {
	name string
	get  func()
}

// impls are the bare transport, one with a breaker for each host, and one with a bulkhead besides.
func impls(b *testing.B, start starter) []impl {
	b.Helper()
	h := start(b, status)
	base := h.Client().Transport
	breaker := over(b, base)
	both := over(b, base, seawallhttp.WithBulkheads(func(key string) (*seawall.Bulkhead, error) {
		return seawall.NewBulkhead(key, 64)
	}))
	return []impl{
		{"bare", getter(b, base, h.URL)},
		{"breaker", getter(b, breaker, h.URL)},
		{"both", getter(b, both, h.URL)},
	}
}

func getter(b *testing.B, transport http.RoundTripper, url string) func() {
	b.Helper()
	client := &http.Client{Transport: transport}
	return func() {
		resp, err := client.Get(url)
		require.NoError(b, err)
		_, err = io.Copy(io.Discard, resp.Body)
		require.NoError(b, err)
		require.NoError(b, resp.Body.Close())
	}
}
