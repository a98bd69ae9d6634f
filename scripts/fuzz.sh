#!/bin/sh
# fuzz.sh DURATION fuzzes every target of every module, one after the other: go test takes one at a time.
set -eu
cd "$(dirname "$0")/.."

grep -ro --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' . | sort | while IFS=: read -r file func; do
  target=${func#func }
  package=$(dirname "$file")
  echo "# $package: $target for $1"
  (cd "$package" && go test -run '^$' -fuzz "^$target\$" -fuzztime "$1" -fuzzminimizetime 10x . </dev/null)
done
