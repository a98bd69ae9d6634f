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
		bare, guarded := benchClients(b, proto.start)
		for _, impl := range []struct {
			name string
			get  func()
		}{{"bare", bare}, {"guarded", guarded}} {
			b.Run("proto="+proto.name+"/impl="+impl.name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					impl.get()
				}
			})
		}
	}
}

// BenchmarkOverhead makes a bare and a guarded request in turns and reports the ratio of the medians: what else the machine
// does meets both alike, and what it does to a single request doesn't show.
func BenchmarkOverhead(b *testing.B) {
	for _, proto := range protocols() {
		bare, guarded := benchClients(b, proto.start)
		b.Run("proto="+proto.name, func(b *testing.B) {
			var without, with []time.Duration
			for b.Loop() {
				without = append(without, took(bare))
				with = append(with, took(guarded))
			}
			b.ReportMetric(median(with)/median(without), "guarded/bare")
			b.ReportMetric(median(without), "bare-ns")
			b.ReportMetric(0, "ns/op") // It would be that of both together.
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

// benchClients returns two functions that make a request, one of them through a breaker and a bulkhead for each host.
func benchClients(b *testing.B, start starter) (bare, guarded func()) {
	b.Helper()
	h := start(b, status)
	base := h.Client().Transport
	transport := over(b, base, seawallhttp.WithBulkheads(func(key string) (*seawall.Bulkhead, error) {
		return seawall.NewBulkhead(key, 64)
	}))
	return getter(b, base, h.URL), getter(b, transport, h.URL)
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
