#!/usr/bin/env bash
# Drives the etcd door with unmodified clients: etcdctl, etcd's Go client (by a program of ours), Python's etcd3gw and etcd3, in a world of
# three nodes, each through other nodes, with a kill -9 of the leader. Skips itself where Go is missing.
#   scripts/etcd-clients.sh                    builds `hive` (debug)
#   HIVE=PROGRAM scripts/etcd-clients.sh       with that program      … --base-port N (as in `hive dev`; 29000 where absent)
#   … --only PATTERN                           only cases whose name has it
#   … --namespaces N                           the case of many namespaces makes so many (60)
set -euo pipefail
cd "$(dirname "$0")/.."
export PYTHONDONTWRITEBYTECODE=1
target="${CARGO_TARGET_DIR:-$PWD/target}"
tools="$target/etcd-clients"
if ! command -v go >/dev/null; then
  echo "etcd-clients.sh: skipped: no go, which etcdctl and the Go client are built by" >&2
  exit 0
fi
scripts/etcd_clients/build.sh "$tools"
# Two environments: the generated code of etcd3 wants an old protobuf.
venv() { # NAME IMPORT PACKAGES…
  local home="$tools/$1" import="$2"; shift 2
  "$home/bin/python" -c "import $import" 2>/dev/null && return
  python3 -m venv "$home" && "$home/bin/pip" install -q "$@"
}
venv venv-gw etcd3gw etcd3gw==2.7.0
venv venv-etcd3 etcd3 etcd3==0.12.0 protobuf==3.20.3 grpcio
if [ -z "${HIVE:-}" ]; then
  cargo build --quiet --locked --package edge-cli
  HIVE="$target/debug/hive"
fi
exec python3 scripts/etcd_clients/main.py --hive "$HIVE" --tools "$tools" --python3gw "$tools/venv-gw/bin/python" \
  --python3 "$tools/venv-etcd3/bin/python" "$@"
