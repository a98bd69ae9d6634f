module github.com/seawall-go/seawall/proof

go 1.26.0

require github.com/seawall-go/seawall v0.0.0

require (
	github.com/anishathalye/porcupine v1.3.1 // indirect
	pgregory.net/rapid v1.3.0 // indirect
)

replace github.com/seawall-go/seawall => ..
