#!/usr/bin/env bash
# sim.sh SEED SEEDS [FROM] [LAYER]: replays one seed, or runs every scenario and then SEEDS seeds from FROM (`new`: from a drawn
# one) on all cores: of the whole core, and as many of lanes alone. LAYER (core, lane) runs or replays seeds of that layer only.
set -euo pipefail
cd "$(dirname "$0")/.."
# What is no number is told at once, not behind a build and all scenarios.
number() {
  [[ "$2" =~ ^[0-9]{1,18}$ ]] && [ "$((10#$2))" -ge "$3" ] && return
  echo "make sim: $1 '$2' is no number from $3; write for example make sim $1=$4" >&2
  exit 2
}
from="${3:-1}"
# Seeds that were made to pass one by one no longer tell what others do: drawn ones do.
[ "$from" = new ] && from=$((RANDOM * 1000000 + RANDOM * 100 + 10000))
layer="${4:-}"
case "$layer" in "" | core | lane) ;; *) echo "make sim: LAYER '$layer' is no layer; write core or lane" >&2; exit 2 ;; esac
if [ -n "$1" ]; then number SEED "$1" 0 17; else number SEEDS "$2" 1 500 && number FROM "$from" 0 new; fi
cargo build --quiet --profile sim --locked --package proof-sim
sim="${CARGO_TARGET_DIR:-target}/sim/proof-sim"
if [ -n "$1" ]; then exec "$sim" replay "$1" --layer "${layer:-core}"; fi
"$sim" scenario crates/proof-sim/scenarios/*.toml
# The range leaves its end out: exactly SEEDS seeds.
range="$((10#$from))..$((10#$from + 10#$2))"
well=0
for each in ${layer:-core lane}; do
  echo "seeds $range, layer $each"
  "$sim" run --seeds "$range" --layer "$each" --jobs "${SIM_JOBS:-$(nproc)}" || well=$?
done
exit "$well"
