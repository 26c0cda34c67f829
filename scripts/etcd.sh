#!/usr/bin/env bash
# Builds etcd, which `hive bench all`, `hive bench availability --beside etcd` and `hive bench etcd-door` measure beside Hive, with its
# etcdctl, its benchmark tool and our crowd of watches (etcd_crowd): into the directory named (target/etcd where absent). Then: PATH=$PWD/target/etcd:$PATH. Needs Go and its module proxy; the version is fixed here, its
# contents by the proxy's checksum database. `go install …@version` refuses etcd, whose go.mod replaces modules.
set -euo pipefail
cd "$(dirname "$0")/.."
version=v3.6.5
here="$PWD/scripts"
out="$(realpath -m "${1:-${CARGO_TARGET_DIR:-target}/etcd}")"
command -v go >/dev/null || { echo "etcd.sh: needs go; or install Debian's etcd-server" >&2; exit 1; }
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir etcd etcdctl
cat > etcd/main.go <<'GO'
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
GO
cat > etcdctl/main.go <<'GO'
package main

import "go.etcd.io/etcd/etcdctl/v3/ctlv3"

func main() { ctlv3.MustStart() }
GO
go mod init etcd-for-bench 2>/dev/null
go get "go.etcd.io/etcd/server/v3@$version" "go.etcd.io/etcd/etcdctl/v3@$version" "go.etcd.io/etcd/v3@$version"
mkdir -p "$out"
go build -trimpath -o "$out/etcd" ./etcd
go build -trimpath -o "$out/etcdctl" ./etcdctl
go build -trimpath -o "$out/benchmark" go.etcd.io/etcd/v3/tools/benchmark
(cd "$here/etcd_crowd" && go build -mod=readonly -trimpath -o "$out/crowd" .)
"$out/etcd" --version
