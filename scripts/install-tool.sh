#!/bin/sh
# install-tool.sh PACKAGE@VERSION installs a command into .tools, unless it is there in this version.
set -eu
cd "$(dirname "$0")/.."

package=${1%@*}
version=${1#*@}
binary=.tools/$(basename "$package")

# A line of `go version -m` reads: mod, module, version, checksum.
installed=$(go version -m "$binary" 2>/dev/null | awk '$1 == "mod" { print $3 }')
if [ "$installed" != "$version" ]; then
  echo "installing $1"
  GOBIN=$PWD/.tools go install "$1"
fi
