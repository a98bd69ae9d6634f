module github.com/seawall-go/seawall/examples/retry

go 1.26.0

require (
	github.com/avast/retry-go/v5 v5.1.1
	github.com/benbjohnson/clock v1.3.5
	github.com/cenkalti/backoff/v5 v5.0.3
	github.com/hashicorp/go-retryablehttp v0.7.8
	github.com/seawall-go/seawall v0.0.0
	github.com/sethvargo/go-retry v0.5.0
	github.com/stretchr/testify v1.12.1
	go.uber.org/goleak v1.3.0
)

require (
	github.com/hashicorp/go-cleanhttp v0.5.2 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
)

replace github.com/seawall-go/seawall => ../..
