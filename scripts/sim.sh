#!/usr/bin/env bash
# sim.sh SEED SEEDS [FROM] [LAYER]: replays one seed, or runs every scenario and then SEEDS seeds from FROM (`new`: from a drawn
# one) on all cores: of the whole core, and as many of lanes alone. LAYER (core, lane) runs or replays seeds of that layer only.
# From the environment, for one seed or for SCENARIO (a file): TRACE=1 prints its trace (TRACE=json: as JSON lines), narrowed by
# NODE, CLUSTER, FROM and TO (milliseconds of virtual time); MUTANT plants a bug. PROOF_SIM: a program to run instead of building one.
set -euo pipefail
cd "$(dirname "$0")/.."
seed="$1" seeds="$2" from="${3:-}" layer="${4:-}" scenario="${SCENARIO:-}" trace="${TRACE:-}" mutant="${MUTANT:-}"
refuse() { echo "make sim: $1" >&2; exit 2; }
# What is not a number is refused at once, not after a build and all scenarios.
number() {
  [[ "$2" =~ ^[0-9]{1,18}$ ]] && [ "$((10#$2))" -ge "$3" ] && return
  refuse "$1 '$2' is no number from $3; write for example make sim $1=$4"
}
case "$layer" in "" | core | lane) ;; *) refuse "LAYER '$layer' is no layer; write core or lane" ;; esac
if [ -z "$seed$scenario" ]; then
  for word in TRACE MUTANT; do
    [ -z "${!word:-}" ] || refuse "$word is for one seed or scenario; write for example make sim SEED=17 TRACE=1"
  done
fi
options=()
if [ -n "$seed$scenario" ]; then
  [ -z "$seed" ] || number SEED "$seed" 0 17
  case "$trace" in
    "" | 0) for word in NODE CLUSTER TO; do [ -z "${!word:-}" ] || refuse "$word narrows a trace; add TRACE=1"; done ;;
    1) options=(--trace) ;;
    json) options=(--trace --trace-format json) ;;
    *) refuse "TRACE '$trace' is unknown; write 1 or json" ;;
  esac
  if [ -n "$trace" ] && [ "$trace" != 0 ]; then
    for each in "--node:${NODE:-}" "--cluster:${CLUSTER:-}" "--from:$from" "--to:${TO:-}"; do
      [ -z "${each#*:}" ] || options+=("${each%%:*}" "${each#*:}")
    done
  fi
else
  # Seeds that were made to pass one by one no longer tell what others do: drawn ones do.
  [ "$from" = new ] && from=$((RANDOM * 1000000 + RANDOM * 100 + 10000))
  from="${from:-1}"
  number SEEDS "$seeds" 1 500 && number FROM "$from" 0 new
fi
sim="${PROOF_SIM:-}"
if [ -z "$sim" ]; then
  target="${CARGO_TARGET_DIR:-target}/sim"
  if [ -n "$mutant" ]; then
    cargo build --quiet --profile sim --locked --package proof-sim --features mutants
    # The next `make sim` must not find the build with bugs in it.
    sim="$target/proof-sim-mutants"
    mv "$target/proof-sim" "$sim"
  else
    cargo build --quiet --profile sim --locked --package proof-sim
    sim="$target/proof-sim"
  fi
fi
[ -z "$mutant" ] || options+=(--mutant "$mutant")
if [ -n "$scenario" ]; then exec "$sim" scenario "$scenario" "${options[@]}"; fi
if [ -n "$seed" ]; then exec "$sim" replay "$seed" --layer "${layer:-core}" "${options[@]}"; fi
"$sim" scenario crates/proof-sim/scenarios/*.toml
# The range leaves its end out: exactly SEEDS seeds.
range="$((10#$from))..$((10#$from + 10#$seeds))"
well=0
for each in ${layer:-core lane}; do
  echo "seeds $range, layer $each"
  "$sim" run --seeds "$range" --layer "$each" --jobs "${SIM_JOBS:-$(nproc)}" || well=$?
done
exit "$well"
