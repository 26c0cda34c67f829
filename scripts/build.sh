#!/usr/bin/env bash
# The release binary `hive`. With engines to add (`scripts/build.sh all`, `sqlite,object`) it has those too, or it is not built:
# engines take minutes to compile, and rocksdb needs a library (rocksdb.sh). FEATURES_ONLY=1 prints cargo's arguments.
set -euo pipefail
cd "$(dirname "$0")/.."
known="redb fjall sqlite rocksdb object"
engines=${1:-}
if [ "$engines" = all ]; then engines=${known// /,}; fi
features=""
for engine in ${engines//,/ }; do
  case " $known lmdb memory " in
    *" $engine "*) ;;
    *) echo "there is no engine '$engine'; ENGINES is all, or some of ${known// /,}" >&2; exit 2 ;;
  esac
  # Every binary has these two.
  case "$engine" in lmdb|memory) continue ;; esac
  if [ "$engine" = rocksdb ] && [ -z "${FEATURES_ONLY:-}" ] && [ -n "$(scripts/rocksdb.sh)" ]; then
    echo "rocksdb cannot be built here (the reason is above); leave it out: make build ENGINES=sqlite,object" >&2; exit 1
  fi
  features="$features${features:+,}engine-$engine"
done
arguments=(build --release --package edge-cli ${features:+--features "$features"})
if [ -n "${FEATURES_ONLY:-}" ]; then echo "${arguments[*]}"; exit 0; fi
cargo "${arguments[@]}"
if [ -n "$engines" ]; then "${CARGO_TARGET_DIR:-$PWD/target}/release/hive" --version --engines; fi
