#!/usr/bin/env bash
# `make figures`: measures with `hive bench all` and writes one table, target/figures/DATE-COMMIT.md, to add to docs/figures.
# On a machine that does nothing else; etcd is measured in the same run where it is on the PATH.
#   HIVE=path/to/hive      the program; the release build where absent
#   FIGURES_OUT=folder     where the table goes; target/figures where absent
#   scripts/figures.sh --clients 64 …    other words for `hive bench all`; those of docs/figures.md where absent
set -euo pipefail
cd "$(dirname "$0")/.."
hive="${HIVE:-${CARGO_TARGET_DIR:-target}/release/hive}"
[ -x "$hive" ] || { echo "$hive is missing: run 'make build' first, or name another with HIVE=" >&2; exit 1; }
out="${FIGURES_OUT:-${CARGO_TARGET_DIR:-target}/figures}"
words=("$@")
if [ $# = 0 ]; then words=(--clients 256 --seconds 4 --runs 2 --keys 20000); fi
mkdir -p "$out"
"$hive" bench all "${words[@]}" --out "$out" >"$out/report.txt"
table="$out/$(date -u +%F)-$(git rev-parse --short HEAD).md"
python3 scripts/figures.py "$out" "$(git rev-parse --short HEAD)" "$(cut -d' ' -f1-3 /proc/loadavg)" >"$table"
echo "$table"
