#!/usr/bin/env bash
# sim.sh SEED SEEDS: replays one seed, or runs every scenario and then SEEDS seeds on all cores.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo build --quiet --profile sim --locked --package proof-sim
sim="${CARGO_TARGET_DIR:-target}/sim/proof-sim"
if [ -n "$1" ]; then exec "$sim" replay "$1"; fi
"$sim" scenario crates/proof-sim/scenarios/*.toml
# The range leaves its end out: exactly SEEDS seeds.
exec "$sim" run --seeds "1..$(($2 + 1))" --jobs "${SIM_JOBS:-$(nproc)}"
