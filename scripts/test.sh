#!/usr/bin/env bash
# Every test: unit, script, model, contract, simulation, real clients. Called by `make test` and CI.
set -euo pipefail
cd "$(dirname "$0")/.."
export RUST_BACKTRACE=1
without=$(scripts/rocksdb.sh)
cargo test --workspace $without --locked
scripts/sim.sh "" "${TEST_SEEDS:-500}"
scripts/first-hour.sh
# The S3 gateway driven by real clients: in a world of five nodes.
HIVE="${CARGO_TARGET_DIR:-$PWD/target}/debug/hive" scripts/s3-clients.sh
