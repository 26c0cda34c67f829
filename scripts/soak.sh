#!/usr/bin/env bash
# soak.sh HOURS [SEED]: faults of all kinds at random against real nodes, judged; called by `make soak`.
set -euo pipefail
cd "$(dirname "$0")/.."
target="${CARGO_TARGET_DIR:-$PWD/target}"
hive="${HIVE:-$target/release/hive}"
[[ "${1:-}" =~ ^[0-9]+(\.[0-9]+)?$ ]] || { echo "make soak: HOURS '${1:-}' is no number; write for example make soak HOURS=0.5" >&2; exit 2; }
seed=()
[ -z "${2:-}" ] || seed=(--seed "$2")
scripts/real/tools.sh
export PYTHONDONTWRITEBYTECODE=1
exec python3 scripts/real/soak.py --hive "$hive" --hours "$1" --out "$target/soak" "${seed[@]}"
