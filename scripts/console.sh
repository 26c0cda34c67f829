#!/usr/bin/env bash
# The console as a test: a world of `hive dev` and a secure one, clicked through in headless Chromium as a person would. Asserts on what is
# seen. Takes about two minutes.
#   HIVE=path/to/hive       the program to test; built (debug) where absent
#   CONSOLE_BASE_PORT       ports of its worlds, as in `hive dev`; 31000 where absent
#   CHROMIUM=path           the browser; else the machine's, else Debian's package is installed; where none can be had, it says so and skips
#   UPDATE_SCREENSHOTS=1    writes the pictures of docs/guides/console.md
set -euo pipefail
cd "$(dirname "$0")/.."
find_browser() {
  local name
  for name in "${CHROMIUM:-}" chromium chromium-browser google-chrome; do
    if [ -n "$name" ] && command -v "$name" >/dev/null; then command -v "$name"; return; fi
  done
}
CHROMIUM="$(find_browser)"
if [ -z "$CHROMIUM" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  (apt-get update && apt-get install --yes --no-install-recommends chromium) >/dev/null 2>&1 || true
  CHROMIUM="$(find_browser)"
fi
if [ -z "$CHROMIUM" ]; then
  echo "console: SKIPPED: there is no Chromium and it cannot be installed; set CHROMIUM to one"
  exit 0
fi
if [ -z "${HIVE:-}" ]; then
  cargo build --quiet --locked --package edge-cli
  HIVE="${CARGO_TARGET_DIR:-target}/debug/hive"
fi
export HIVE CHROMIUM
exec python3 scripts/console/click.py
