module github.com/seawall-go/seawall/proof

go 1.26.0

require (
	github.com/anishathalye/porcupine v1.3.1
	github.com/seawall-go/seawall v0.0.0
	go.uber.org/goleak v1.3.0
	pgregory.net/rapid v1.3.0
)

require (
	github.com/stretchr/testify v1.12.1
	go.yaml.in/yaml/v3 v3.0.5 // indirect
)

replace github.com/seawall-go/seawall => ..
