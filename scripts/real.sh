#!/usr/bin/env bash
# The real-process suite against a built `hive`: called by `make real`. More options: scripts/real/main.py --help.
set -euo pipefail
cd "$(dirname "$0")/.."
hive="${HIVE:-${CARGO_TARGET_DIR:-$PWD/target}/release/hive}"
scripts/real/tools.sh
export PYTHONDONTWRITEBYTECODE=1
# Findings 3, 4, 8 and 10 of the first review of security again: what a stranger's attack leaves of another's requests. Only in whole runs.
if [ $# = 0 ]; then HIVE="$hive" python3 scripts/neighbours.py --seconds 4 --bound-ms 2000; fi
exec python3 scripts/real/main.py --hive "$hive" "$@"
