#!/usr/bin/env bash
# Loads the alert rules of deploy/prometheus with promtool, and evaluates them against a healthy world and against each fault.
# promtool is of Debian's package prometheus, fetched once into the target directory. Where it cannot be had: a line that says so,
# and success, since names of metrics are checked by `cargo xtask tidy` in any case.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
tools=${CARGO_TARGET_DIR:-$root/target}/promtool
promtool=$tools/usr/bin/promtool
if [ ! -x "$promtool" ]; then
  mkdir -p "$tools"
  if ! (cd "$tools" && apt-get download -qq prometheus >/dev/null 2>&1 && dpkg-deb -x prometheus_*.deb . && rm -f prometheus_*.deb); then
    echo "alerts.sh: the package prometheus cannot be had here; the rules were not evaluated" >&2
    exit 0
  fi
fi
cd "$root/deploy/prometheus"
"$promtool" check rules alerts.yaml
"$promtool" check config prometheus.yaml
"$promtool" test rules alerts_test.yaml
