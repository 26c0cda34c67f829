#!/usr/bin/env bash
# Writes the pages of docs/guides/api again (all but errors.md): sends every request on them to worlds started for it.
#   HIVE=path/to/hive     the program; target/release/hive where absent
#   API_GUIDE_BASE_PORT   ports of its worlds, as in `hive dev`; 7000 where absent
set -euo pipefail
cd "$(dirname "$0")/.."
export PYTHONDONTWRITEBYTECODE=1
export HIVE="${HIVE:-${CARGO_TARGET_DIR:-target}/release/hive}"
[ -x "$HIVE" ] || { echo "$HIVE is missing: run 'make build' first, or name another with HIVE=" >&2; exit 1; }
exec python3 scripts/api_guide/main.py docs/guides/api
