#!/usr/bin/env bash
# Drives `hive backup` against real worlds of `hive dev`: backups while writes continue, a tool and a leader that are killed (kill -9),
# restores beside, in place, by prefix and into another world, increments, and backups that are damaged. Takes about two minutes.
#   scripts/backup.sh                          builds `hive` (debug)
#   HIVE=PROGRAM scripts/backup.sh             with that program      … --base-port N (as in `hive dev`; 36000 where absent)
#   … --only PATTERN                           only cases whose name has it
#   … --measure MB                             no cases: how fast a backup, its verification and a restore of so many MB are
set -euo pipefail
cd "$(dirname "$0")/.."
export PYTHONDONTWRITEBYTECODE=1
if [ -z "${HIVE:-}" ]; then
  cargo build --quiet --locked --package edge-cli
  HIVE="${CARGO_TARGET_DIR:-target}/debug/hive"
fi
exec python3 scripts/backup/main.py --hive "$HIVE" "$@"
