#!/usr/bin/env bash
# Installs what engine-rocksdb's tests need (RocksDB 7.8.3 with headers and tools: Debian 12 has them),
# puts the headers that no package installs into the target directory, and prints what cargo is to leave out of the
# workspace where any of that cannot be had: nothing, or `--exclude engine-rocksdb`. The reason goes to standard error.
set -euo pipefail
header=/usr/include/rocksdb/version.h
number() { awk -v name="ROCKSDB_$1" '$2 == name { print $3 }' "$header"; }
installed() {
  [ -f "$header" ] && [ "$(number MAJOR).$(number MINOR).$(number PATCH)" = 7.8.3 ] && command -v sst_dump >/dev/null
}
if ! installed && [ -f /etc/os-release ] && [ "$(. /etc/os-release && echo "$ID $VERSION_ID")" = "debian 12" ]; then
  echo "installing librocksdb-dev rocksdb-tools with apt-get" >&2
  sudo=""; [ "$(id -u)" = 0 ] || sudo=sudo
  {
    $sudo apt-get update -qq
    DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends librocksdb-dev rocksdb-tools
  } >/dev/null || true
fi
if ! installed; then
  echo "engine-rocksdb is left out: it needs RocksDB 7.8.3 (apt-get install librocksdb-dev rocksdb-tools on Debian 12)" >&2
  echo "--exclude engine-rocksdb"
  exit 0
fi
root=$(cd "$(dirname "$0")/.." && pwd)
if ! "$root/crates/engine-rocksdb/fetch-headers.sh" "${CARGO_TARGET_DIR:-$root/target}/rocksdb-7.8.3"; then
  echo "engine-rocksdb is left out" >&2
  echo "--exclude engine-rocksdb"
fi
