#!/usr/bin/env bash
# An operator's day by the guides alone: set up, secure, load, watch, back up, lose a node, add two, decommission one, restart all,
# restore into a second world. It is the case operators-day of `make real`.
#   HIVE=path/to/hive     the program; target/release/hive where absent
set -euo pipefail
cd "$(dirname "$0")/.."
export PYTHONDONTWRITEBYTECODE=1
HIVE="${HIVE:-${CARGO_TARGET_DIR:-target}/release/hive}"
[ -x "$HIVE" ] || { echo "$HIVE is missing: run 'make build' first, or name another with HIVE=" >&2; exit 1; }
exec python3 scripts/real/main.py --hive "$HIVE" --only operators-day "$@"
