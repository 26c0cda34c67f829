#!/usr/bin/env bash
# The real-process suite against a built `hive`: called by `make real`. More options: scripts/real/main.py --help.
set -euo pipefail
cd "$(dirname "$0")/.."
hive="${HIVE:-${CARGO_TARGET_DIR:-$PWD/target}/release/hive}"
scripts/real/tools.sh
export PYTHONDONTWRITEBYTECODE=1
exec python3 scripts/real/main.py --hive "$hive" "$@"
