#!/usr/bin/env bash
# Every figure of docs/engines and of the embedded store, one behind the other: `make engine-figures`. On a machine that
# does nothing else: about an hour beside the builds; QUICK=1: some minutes, for a first look. All of it is in OUT/figures.txt.
#   scripts/engine-figures.sh [OUT]     (target/engine-figures)
#   ONLY=ycsb,object scripts/engine-figures.sh     parts by name: compare ycsb object simple-kv embedded scrub
# Moto's S3 listens at MOTO_PORT (17040), worlds from BASE_PORT (17100) on.
set -euo pipefail
cd "$(dirname "$0")/.."
target="${CARGO_TARGET_DIR:-$PWD/target}"
out="${1:-target/engine-figures}"
only="${ONLY:-compare,ycsb,object,simple-kv,embedded,scrub}"
mkdir -p "$out"
work=$(mktemp -d "${TMPDIR:-/tmp}/hive-figures-XXXXXX")
server=
ended() { if [ -n "$server" ]; then kill "$server" 2>/dev/null || true; fi; rm -rf "$work"; }
trap ended EXIT

# Sizes: of a first look, and those of the paper (2,000,000 operations a mix): all cached; through the system's cache with 8 MiB of
# RocksDB's own, as the paper's release has it; from the disk, data 37 times the cache.
if [ -n "${QUICK:-}" ]; then
  compare=(20000 8192) cached=(100000 100000 256) paper=(200000 100000 1) large=(200000 30000 1) pairs=20000 small=1000 operations=2000 runs=1
else
  compare=(100000 8192) cached=(300000 2000000 256) paper=(1000000 2000000 8) large=(1000000 2000000 3) pairs=1000000 small=10000 operations=20000 runs=3
fi

wanted() { case ",$only," in *",$1,"*) true ;; *) false ;; esac; }
say() { echo "$@" | tee -a "$out/figures.txt"; }
run() { say "\$ $*"; "$@" 2>&1 | tee -a "$out/figures.txt"; }

features=engine-sqlite
without=$(scripts/rocksdb.sh)
if [ -z "$without" ]; then features="$features,engine-rocksdb"; fi
build() { cargo build --quiet --release --locked "$@"; }
if wanted compare; then build -p engine-lmdb --example compare; fi
if wanted ycsb && [ -z "$without" ]; then build -p engine-rocksdb --example ycsb; fi
if wanted object; then build -p engine-object --features slatedb --example figures; fi
if wanted simple-kv || wanted embedded || wanted scrub; then build -p edge-cli --features "$features"; fi

say "commit $(git rev-parse --short HEAD), $(date -u +%FT%RZ), $(nproc) cores of $(awk -F': ' '/model name/ {print $2; exit}' /proc/cpuinfo), load $(cut -d' ' -f1-3 /proc/loadavg)"
if wanted compare; then run "$target/release/examples/compare" "$work/compare" "${compare[@]}"; fi
if wanted ycsb && [ -z "$without" ]; then
  run "$target/release/examples/ycsb" "$work/cached" "${cached[@]}"
  run "$target/release/examples/ycsb" "$work/paper" "${paper[@]}"
  run "$target/release/examples/ycsb" "$work/large" "${large[@]}" direct
fi
if wanted object; then
  figures="$target/release/examples/figures"
  run "$figures" "file://$work/objects" "$pairs" 1000
  run "$figures" memory: "$pairs" 1000 --latency-ms 30
  run "$figures" memory: "$small" 10 --latency-ms 30
  port="${MOTO_PORT:-17040}"
  python=$(scripts/moto.sh)
  "$python" -m moto.server -H 127.0.0.1 -p "$port" >"$work/moto.log" 2>&1 &
  server=$!
  export AWS_ENDPOINT_URL="http://127.0.0.1:$port" AWS_ACCESS_KEY_ID=testing AWS_SECRET_ACCESS_KEY=testing AWS_REGION=us-east-1
  for _ in $(seq 100); do curl -sf -X PUT "$AWS_ENDPOINT_URL/figures" >/dev/null && break; sleep 0.2; done
  run "$figures" s3://figures/thousands "$((pairs / 10))" 1000 --latency-ms 30
  run "$figures" s3://figures/tens "$((small / 2))" 10 --latency-ms 30
fi
if wanted simple-kv; then
  names=lmdb,redb,fjall,sqlite
  if [ -z "$without" ]; then names="$names,rocksdb"; fi
  run "$target/release/hive" bench simple-kv --engine "$names" --nodes 1 --operations "$operations" --runs "$runs" --base-port "${BASE_PORT:-17100}" --out "$out/simple-kv"
fi
if wanted embedded; then
  run "$target/release/hive" bench embedded --value-bytes 100 --runs "$runs" --out "$out/embedded"
fi
if wanted scrub; then
  HIVE="$target/release/hive" run scripts/real.sh --base-port "${BASE_PORT:-17100}" --only scrub-cost
fi
say "all of it: $out/figures.txt"
