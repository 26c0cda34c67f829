#!/usr/bin/env bash
# Every test: unit, script, model, contract, simulation, real clients. Called by `make test` and CI.
set -euo pipefail
cd "$(dirname "$0")/.."
export RUST_BACKTRACE=1
cargo test --workspace --locked
scripts/sim.sh "" "${TEST_SEEDS:-500}"
scripts/first-hour.sh
