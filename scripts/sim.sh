#!/usr/bin/env bash
# sim.sh SEED SEEDS: replays one seed, or runs seeds 1..SEEDS on all cores.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo build --quiet --profile sim --locked --package proof-sim
sim="${CARGO_TARGET_DIR:-target}/sim/proof-sim"
if [ -n "$1" ]; then exec "$sim" replay "$1"; fi
exec "$sim" run --seeds "1..$2" --jobs "$(nproc)"
