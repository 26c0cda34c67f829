#!/usr/bin/env bash
# Engine object and `hive restore`: what `make test` leaves out because SlateDB takes minutes to compile.
# Against somebody else's S3 server (scripts/moto.sh).
set -euo pipefail
cd "$(dirname "$0")/.."
cargo test --locked -p base-objects
cargo test --locked -p engine-object --features slatedb
cargo build --locked -p edge-cli --features engine-object
python=$(scripts/moto.sh)
HIVE="${CARGO_TARGET_DIR:-$PWD/target}/debug/hive" exec "$python" scripts/object/restore.py "$@"
