#!/usr/bin/env bash
# A world as in production, `hive dev --secure`, as a test: who gets in, who may do what, what a revoked token is worth, the way in
# when all tokens are lost, and the loss of the world's majority. Takes about a minute.
#   HIVE=path/to/hive        the program to test; built (debug) where absent
#   SECURE_WORLD_BASE_PORT   ports of its world, as in `hive dev`; 29000 where absent
set -euo pipefail
cd "$(dirname "$0")/.."
if [ -z "${HIVE:-}" ]; then
  cargo build --quiet --locked --package edge-cli
  HIVE="${CARGO_TARGET_DIR:-target}/debug/hive"
fi
export HIVE
exec python3 scripts/secure_world.py
