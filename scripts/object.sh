#!/usr/bin/env bash
# Engine object and `hive restore`: what `make test` leaves out because SlateDB takes minutes to compile.
# Against somebody else's S3 server: moto, installed from PyPI into a directory of its own.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo test --locked -p base-objects
cargo test --locked -p engine-object --features slatedb
cargo build --locked -p edge-cli --features engine-object
python="${TMPDIR:-/tmp}/hive-moto"
if ! "$python/bin/python3" -c 'import moto, flask' 2>/dev/null; then
  python3 -m venv "$python"
  "$python/bin/pip" install --quiet 'moto[server,s3]==5.*'
fi
HIVE="${CARGO_TARGET_DIR:-$PWD/target}/debug/hive" exec "$python/bin/python3" scripts/object/restore.py "$@"
