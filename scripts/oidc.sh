#!/usr/bin/env bash
# Users of an OIDC issuer as a test: the package oidc-provider-mock on loopback vouches for them, `hive dev --secure` believes it, and
# boto3's unmodified `sts` and `s3` clients ask. Good tokens and bad ones, roles of groups, sessions, an issuer that is garbage or gone.
#   HIVE=path/to/hive        the program to test; built (debug) where absent
#   SECURE_WORLD_BASE_PORT   ports of its world, as in `hive dev`; 29000 where absent
set -euo pipefail
cd "$(dirname "$0")/.."
export PYTHONDONTWRITEBYTECODE=1
target="${CARGO_TARGET_DIR:-$PWD/target}"
if [ -z "${HIVE:-}" ]; then
  cargo build --quiet --locked --package edge-cli
  HIVE="$target/debug/hive"
fi
export HIVE
python=python3
if ! python3 -c 'import boto3, oidc_provider_mock' 2>/dev/null; then
  python="$target/oidc-venv/bin/python"
  [ -x "$python" ] || python3 -m venv "$target/oidc-venv"
  "$python" -c 'import boto3, oidc_provider_mock' 2>/dev/null || "$target/oidc-venv/bin/pip" install -q boto3 oidc-provider-mock==0.3.4
fi
exec "$python" scripts/oidc/main.py
