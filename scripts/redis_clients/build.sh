#!/usr/bin/env bash
# Unpacks Debian's redis-cli and builds the Go client of this directory into the directory named; skips what is there already.
# go-redis' version is fixed here, its contents by the proxy's checksum database.
set -euo pipefail
version=v9.7.0
here="$(cd "$(dirname "$0")" && pwd)"
out="$(realpath -m "$1")"
mkdir -p "$out"
if [ ! -x "$out/redis-cli" ]; then
  # redis-cli, and the libraries of its that no other program here needs.
  rm -rf "$out/debian" && mkdir -p "$out/debian" && cd "$out/debian"
  packages=(redis-tools libjemalloc2 liblzf1 libatomic1)
  apt-get download -qq "${packages[@]}" 2>/dev/null || { apt-get update -qq && apt-get download -qq "${packages[@]}"; }
  for package in *.deb; do dpkg -x "$package" .; done
  libraries="$(find "$PWD" -name '*.so.*' -printf '%h\n' | sort -u | paste -sd:)"
  printf '#!/bin/sh\nLD_LIBRARY_PATH=%s exec %s "$@"\n' "$libraries" "$PWD/usr/bin/redis-cli" > "$out/redis-cli"
  chmod +x "$out/redis-cli"
fi
"$out/redis-cli" --version >/dev/null
if ! command -v go >/dev/null; then
  echo "redis-clients: no go: go-redis is left out" >&2
  exit 0
fi
work="$out/client-source"
mkdir -p "$work"
if [ ! -x "$out/client" ] || ! diff -q -x 'go.*' "$here/go" "$work" >/dev/null; then
  cp "$here"/go/*.go "$work/" && cd "$work"
  [ -f go.mod ] || go mod init redis-clients 2>/dev/null
  go get "github.com/redis/go-redis/v9@$version" 2>/dev/null
  go build -trimpath -o "$out/client" .
fi
