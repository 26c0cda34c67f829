#!/usr/bin/env bash
# Builds etcdctl, etcdutl, etcd and the Go client of this directory into the directory named, from Go's module proxy; skips what is built already.
# The version is fixed here, its contents by the proxy's checksum database.
set -euo pipefail
version=v3.6.5
here="$(cd "$(dirname "$0")" && pwd)"
out="$(realpath -m "$1")"
command -v go >/dev/null || { echo "etcd-clients: needs go" >&2; exit 1; }
mkdir -p "$out"
if [ ! -x "$out/etcdctl" ]; then
  work="$out/etcdctl-source"
  rm -rf "$work" && mkdir -p "$work" && cd "$work"
  printf 'package main\n\nimport "go.etcd.io/etcd/etcdctl/v3/ctlv3"\n\nfunc main() { ctlv3.MustStart() }\n' > main.go
  go mod init etcdctl-for-clients 2>/dev/null
  go get "go.etcd.io/etcd/etcdctl/v3@$version" 2>/dev/null
  go build -trimpath -o "$out/etcdctl" .
fi
# What restores a snapshot, and serves it then. `go install …@version` refuses them, whose go.mod files replace modules.
if [ ! -x "$out/etcdutl" ] || [ ! -x "$out/etcd" ]; then
  work="$out/etcd-source"
  rm -rf "$work" && mkdir -p "$work/etcd" && cd "$work"
  printf 'package main\n\nimport (\n\t"os"\n\n\t"go.etcd.io/etcd/server/v3/etcdmain"\n)\n\nfunc main() { etcdmain.Main(os.Args) }\n' > etcd/main.go
  go mod init etcd-for-clients 2>/dev/null
  go get "go.etcd.io/etcd/etcdutl/v3@$version" "go.etcd.io/etcd/server/v3@$version" 2>/dev/null
  go build -trimpath -o "$out/etcdutl" go.etcd.io/etcd/etcdutl/v3
  go build -trimpath -o "$out/etcd" ./etcd
fi
work="$out/client-source"
mkdir -p "$work"
if [ ! -x "$out/client" ] || ! diff -q -x 'go.*' "$here/go" "$work" >/dev/null; then
  cp "$here"/go/*.go "$work/" && cd "$work"
  [ -f go.mod ] || go mod init etcd-clients 2>/dev/null
  go get "go.etcd.io/etcd/client/v3@$version" 2>/dev/null
  go build -trimpath -o "$out/client" .
fi
