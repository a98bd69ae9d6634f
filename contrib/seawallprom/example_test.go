package seawallprom_test

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/seawall-go/seawall"
	"github.com/seawall-go/seawall/contrib/seawallprom"
)

func Example() {
	payments := seawall.Must(seawall.NewBreaker("payments"))
	pool := seawall.Must(seawall.NewBulkhead("pool", 10))

	collector, err := seawallprom.NewCollector(seawallprom.Breakers(payments), seawallprom.Bulkheads(pool))
	if err != nil {
		panic(err) // A name that can't be a label, or one that is there twice.
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collector)

	families, _ := registry.Gather()
	fmt.Println(len(families), "metrics, the first is", families[0].GetName())
	// Output: 11 metrics, the first is bulkhead_calls_total
}

func ExampleGroup() {
	hosts := seawall.Must(seawall.NewGroup(func(host string) (*seawall.Breaker, error) {
		return seawall.NewBreaker(host)
	}))
	collector := seawall.Must(seawallprom.NewCollector(
		seawallprom.Group("hosts", hosts), // All hosts together; GroupByKey tells them apart.
		seawallprom.WithPrefix("myco_"),
	))
	registry := prometheus.NewRegistry()
	registry.MustRegister(collector)

	families, _ := registry.Gather()
	fmt.Println(families[0].GetName(), families[0].GetMetric()[0].GetLabel()[0].GetValue())
	// Output: myco_guard_registry_evictions_total hosts
}
