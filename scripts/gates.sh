#!/usr/bin/env bash
# What every change must pass before its tests are run: format, the determinism wall of core crates, house rules, licences and
# advisories. Called by `make test` and `make check`.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo fmt --all --check
# The determinism wall: what a core crate may not name (lints/core/clippy.toml tells why, line by line).
core=$(ls -d crates/core-* | xargs -n 1 basename | sed 's/^/--package /')
CLIPPY_CONF_DIR="$PWD/lints/core" cargo clippy $core --lib --locked -- \
  -D warnings -D clippy::disallowed_methods -D clippy::disallowed_types -D clippy::disallowed_macros
cargo xtask tidy
if ! command -v cargo-deny >/dev/null; then
  echo "installing cargo-deny (once)"
  CARGO_TARGET_DIR="${TMPDIR:-/tmp}/cargo-deny-build" cargo install --quiet --locked cargo-deny
fi
# The advisory database lives on GitHub; where that cannot be reached the rest is still checked.
cargo deny --locked --log-level error check licenses bans sources
if ! cargo deny --locked --log-level error check advisories 2>/dev/null; then
  if cargo deny --locked fetch >/dev/null 2>&1; then
    cargo deny --locked check advisories
  fi
  echo "advisories not checked: the advisory database cannot be reached from here"
fi
