#!/usr/bin/env bash
# The first hour of docs/guides/first-hour.md as a test: a real data set through `hive load` into five
# nodes, kill -9 of the leader in the middle, every key compared from every node. Takes about a minute.
#   HIVE=path/to/hive      the program to test; built (debug) where absent
#   FIRST_HOUR_BASE_PORT   ports of its world, as in `hive dev`; 28000 where absent
set -euo pipefail
cd "$(dirname "$0")/.."
if [ -z "${HIVE:-}" ]; then
  cargo build --quiet --locked --package edge-cli
  HIVE="${CARGO_TARGET_DIR:-target}/debug/hive"
fi
export HIVE
exec python3 scripts/first_hour.py
