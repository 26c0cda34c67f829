#!/usr/bin/env bash
# Lints of the whole workspace, then the gates that `make test` begins with (gates.sh).
set -euo pipefail
cd "$(dirname "$0")/.."
cargo clippy --workspace $(scripts/rocksdb.sh) --all-targets --locked -- -D warnings
scripts/gates.sh
