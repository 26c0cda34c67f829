#!/usr/bin/env bash
# Every test: unit, script, model, contract, simulation, real clients. Called by `make test` and CI.
set -euo pipefail
cd "$(dirname "$0")/.."
export RUST_BACKTRACE=1
cargo test --workspace --locked
scripts/sim.sh "" "${TEST_SEEDS:-500}"
scripts/first-hour.sh
# `cargo test` has built the example: the S3 gateway over metadata in memory, driven by real clients.
S3_SERVER="${CARGO_TARGET_DIR:-$PWD/target}/debug/examples/s3_memory" scripts/s3-clients.sh
