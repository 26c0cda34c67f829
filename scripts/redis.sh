#!/usr/bin/env bash
# Unpacks Debian's redis-server, redis-cli and redis-benchmark, which `hive bench redis-door` measures beside Hive, into the directory named
# (target/redis where absent). Nothing is installed in the system. Then: PATH=$PWD/target/redis:$PATH.
set -euo pipefail
cd "$(dirname "$0")/.."
out="$(realpath -m "${1:-${CARGO_TARGET_DIR:-target}/redis}")"
programs=(redis-server redis-cli redis-benchmark)
if [ ! -x "$out/redis-server" ]; then
  rm -rf "$out/debian" && mkdir -p "$out/debian" && cd "$out/debian"
  # The programs, and the libraries of theirs that no other program here needs.
  packages=(redis-server redis-tools libjemalloc2 liblzf1 liblua5.1-0 lua-cjson lua-bitop libatomic1 libhiredis0.14)
  apt-get download -qq "${packages[@]}" 2>/dev/null || { apt-get update -qq && apt-get download -qq "${packages[@]}"; }
  for package in *.deb; do dpkg -x "$package" .; done
  libraries="$(find "$PWD" -name '*.so*' -printf '%h\n' | sort -u | paste -sd:)"
  for program in "${programs[@]}"; do
    printf '#!/bin/sh\nLD_LIBRARY_PATH=%s exec %s "$@"\n' "$libraries" "$PWD/usr/bin/$program" > "$out/$program"
    chmod +x "$out/$program"
  done
fi
"$out/redis-server" --version
