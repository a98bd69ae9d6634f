#!/bin/sh
# fuzz.sh DURATION fuzzes every target of every module, one after the other: go test takes one at a time.
set -eu
cd "$(dirname "$0")/.."
out=$(mktemp)
trap 'rm -f "$out"' EXIT

fuzz() { # PACKAGE TARGET DURATION
  (cd "$1" && go test -run '^$' -fuzz "^$2\$" -fuzztime "$3" -fuzzminimizetime 10x . </dev/null) >"$out" 2>&1 && status=0 || status=$?
  cat "$out"
}

# internal/cases has targets in texts that its tests read.
grep -ro --include='*_test.go' --exclude-dir=cases '^func Fuzz[A-Za-z0-9_]*' . | sort | while IFS=: read -r file func; do
  target=${func#func }
  package=$(dirname "$file")
  echo "# $package: $target for $1"
  fuzz "$package" "$target" "$1"
  # Go 1.26 may take the end of the time for a failure, https://go.dev/issue/75804: no input is written then.
  if [ "$status" != 0 ] && grep -q 'context deadline exceeded' "$out" && ! grep -q 'Failing input written' "$out"; then
    fuzz "$package" "$target" "$1"
  fi
  [ "$status" = 0 ] || exit "$status"
done
