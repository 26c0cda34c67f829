#!/usr/bin/env bash
# Builds etcd, which `hive bench all` and `hive bench availability --beside etcd` measure beside Hive: into the directory named
# (target/etcd where absent). Then: PATH=$PWD/target/etcd:$PATH. Needs Go and its module proxy; the version is fixed here, its
# contents by the proxy's checksum database. `go install …@version` refuses etcd, whose go.mod replaces modules.
set -euo pipefail
cd "$(dirname "$0")/.."
version=v3.6.5
out="$(realpath -m "${1:-${CARGO_TARGET_DIR:-target}/etcd}")"
command -v go >/dev/null || { echo "etcd.sh: needs go; or install Debian's etcd-server" >&2; exit 1; }
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
cd "$work"
cat > main.go <<'GO'
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
GO
go mod init etcd-for-bench 2>/dev/null
go get "go.etcd.io/etcd/server/v3@$version"
mkdir -p "$out"
go build -trimpath -o "$out/etcd" .
"$out/etcd" --version
