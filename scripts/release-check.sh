#!/usr/bin/env bash
# release-check.sh [FOLDER...] builds and tests nested modules, by default those in contrib, as their users get them:
# without replace lines. What these stand for comes from a proxy then, in the version that go.mod requires: of its tag,
# or of the working tree if there is no such tag yet.
set -euo pipefail
cd "$(dirname "$0")/.."

root=$PWD
core=$(go list -m)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The modules go into a cache of their own: the next release must not find what this one tried.
goproxy=$(go env GOMODCACHE)/cache/download,$(go env GOPROXY)
export GOPROXY=file://$work/proxy,file://$goproxy GOMODCACHE=$work/cache GONOSUMDB=$core GOWORK=off
# Without paths in it, what is compiled can be used again.
export GOFLAGS="-modcacherw -mod=mod -trimpath"
mkdir "$work/proxy" "$work/tree"
(cd scripts/fileproxy && go build -o "$work/fileproxy" .)

# The working tree, without what git ignores.
git ls-files -z --cached --others --exclude-standard | while IFS= read -r -d '' file; do
  if [ -e "$file" ]; then printf '%s\0' "$file"; fi
done | tar --null --files-from=- -cf - | tar -xf - -C "$work/tree"

# serve MODULE VERSION puts a module of this repository into the proxy.
serve() {
  local folder=${1#"$core"} source tag
  folder=${folder#/}
  tag=${folder:+$folder/}$2
  source=$work/tree
  if git rev-parse --quiet --verify "refs/tags/$tag" >/dev/null; then
    source=$work/tags/$tag
    mkdir -p "$source"
    git archive "$tag" | tar -xf - -C "$source"
  fi
  echo "  $1 $2 from ${source#"$work/"}"
  "$work/fileproxy" "$work/proxy" "$1@$2" "$source/$folder"
}

# replaced FOLDER prints the modules that its go.mod replaces, with the versions that it requires.
replaced() {
  (cd "$1" && go list -m -f '{{if and .Replace (not .Main)}}{{.Path}} {{.Version}}{{end}}' all)
}

if [ $# -eq 0 ]; then
  set -- $(cd contrib && find . -name go.mod -exec dirname {} \; | sed 's|^\.|contrib|' | sort)
fi
for folder; do
  echo "# $folder"
  replaced "$work/tree/$folder" | while read -r module version; do
    serve "$module" "$version"
  done
done
for folder; do
  echo "# $folder"
  cd "$work/tree/$folder"
  go mod edit $(replaced . | sed 's|\([^ ]*\) .*|-dropreplace=\1|')
  go vet ./...
  go test ./...
done
cd "$root"
