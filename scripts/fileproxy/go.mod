module github.com/seawall-go/seawall/scripts/fileproxy

go 1.26.0

require golang.org/x/mod v0.43.0
