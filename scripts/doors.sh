#!/usr/bin/env bash
# Other projects' own tests against a world of Hive (not in `make test`): etcd's tests/common, those of python-etcd3, Redis' Tcl tests, and
# those of redis-py. Their sources are taken from Go's module proxy, PyPI and Debian into the target directory, never into the repository; versions are fixed here.
#   scripts/doors.sh                           builds `hive` (debug)
#   HIVE=PROGRAM scripts/doors.sh              with that program      … --base-port N (as in `hive dev`; 2078 where absent)
# Some of python-etcd3's tests ask 127.0.0.1:2379 and nothing else, which is the first node's etcd door where the base port is 2078.
#   … --suite NAME [--unit NAME]              only a suite ("Redis"), only units of it (type/set)
#   … --only PATTERN                           only tests whose name has it (a regular expression)
# Ends with 0 where every failure has its reason in scripts/doors/reasons.json. What passed is in target/doors/results.json.
set -euo pipefail
cd "$(dirname "$0")/.."
export PYTHONDONTWRITEBYTECODE=1
target="$(realpath -m "${CARGO_TARGET_DIR:-$PWD/target}")"
version=v3.6.5
tools="$target/etcd-clients"
home="$target/doors"
scripts/etcd_clients/build.sh "$tools"
# etcd's tests: all but the three files that bind them to runners of etcd's own, and without the replacements of its go.mod.
source="$(cd "$tools/client-source" && go mod download -json "go.etcd.io/etcd/tests/v3@$version" | python3 -c 'import json, sys; print(json.load(sys.stdin)["Dir"])')"
mkdir -p "$home/etcd/framework"
cp -r --no-preserve=mode "$source/common" "$home/etcd/"
for room in config interfaces testutils; do cp -r --no-preserve=mode "$source/framework/$room" "$home/etcd/framework/"; done
cp -r --no-preserve=mode "$source/fixtures" "$home/etcd/"
rm -f "$home/etcd/common/"{e2e,integration,unit}_test.go "$home/etcd/framework/testutils/"*_test.go
sed '/^replace (/,/^)/d' "$source/go.mod" > "$home/etcd/go.mod"
cp --no-preserve=mode "$source/go.sum" "$home/etcd/go.sum"
cp scripts/doors/etcd/runner_test.go "$home/etcd/common/hive_runner_test.go"
(cd "$home/etcd" && GOFLAGS=-mod=mod go test -c -o common.test ./common)
# python-etcd3's tests are in its sdist only; they were written for the pytest, hypothesis and tenacity of their time.
python="$home/venv/bin/python"
if ! "$python" -c 'import etcd3, pytest, hypothesis, mock' 2>/dev/null; then
  python3 -m venv "$home/venv"
  "$home/venv/bin/pip" install -q etcd3==0.12.0 protobuf==3.20.3 grpcio pytest==6.2.5 hypothesis==5.49.0 tenacity==6.3.1 mock
fi
if [ ! -d "$home/etcd3-0.12.0/tests" ]; then
  "$home/venv/bin/pip" download -q --no-deps --no-binary :all: -d "$home" etcd3==0.12.0
  tar -xf "$home/etcd3-0.12.0.tar.gz" -C "$home"
fi
# redis-py's tests are in its sdist only.
redis_python="$home/redis-venv/bin/python"
if ! "$redis_python" -c 'import redis, pytest, pytest_timeout' 2>/dev/null; then
  python3 -m venv "$home/redis-venv"
  "$home/redis-venv/bin/pip" install -q redis==5.2.1 pytest==8.3.4 pytest-asyncio==0.25.0 pytest-timeout==2.3.1 cachetools numpy packaging
fi
if [ ! -d "$home/redis-5.2.1/tests" ]; then
  "$home/redis-venv/bin/pip" download -q --no-deps --no-binary :all: -d "$home" redis==5.2.1
  tar -xf "$home/redis-5.2.1.tar.gz" -C "$home"
fi
command -v tclsh >/dev/null || { echo "doors.sh: needs tclsh for Redis' tests (Debian: tcl)" >&2; exit 1; }
if [ -z "${HIVE:-}" ]; then
  cargo build --quiet --locked --package edge-cli
  HIVE="$target/debug/hive"
fi
exec python3 scripts/doors/main.py --hive "$HIVE" --home "$home" --tools "$tools" --python "$python" --redis-python "$redis_python" "$@"
