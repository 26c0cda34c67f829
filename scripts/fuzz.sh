#!/usr/bin/env bash
# Every fuzz target for FUZZ_SECONDS (10) each, or those named: scripts/fuzz.sh peer_frame http_body.
# Needs a nightly toolchain (rustup) and cargo-fuzz (installed once); without them the plain tests over
# the same seeds run instead. Logs: fuzz/logs. A failing input: fuzz/artifacts/<target>.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds="${FUZZ_SECONDS:-10}"
# The most memory a target may take; what a decoder may hold for an input is bounded far below by the tests.
memory_mb=2048

plain() {
  echo "fuzz: $1; running the plain tests over fuzz/seeds instead"
  exec cargo test --locked --workspace $(scripts/rocksdb.sh) --test fuzz_corpus
}

command -v rustup >/dev/null || plain "rustup is missing"
rustup run nightly rustc --version >/dev/null 2>&1 || plain "no nightly toolchain (rustup toolchain install nightly)"
if ! command -v cargo-fuzz >/dev/null; then
  echo "installing cargo-fuzz (once)"
  CARGO_TARGET_DIR="${TMPDIR:-/tmp}/cargo-fuzz-build" cargo install --quiet --locked cargo-fuzz || plain "cargo-fuzz cannot be installed"
fi

if [ "$#" -gt 0 ]; then targets=("$@"); else mapfile -t targets < <(cargo +nightly fuzz list); fi
mkdir -p fuzz/logs
# No sanitizer: the decoders are safe Rust, so what is looked for are panics, overflows and memory.
cargo +nightly fuzz build --sanitizer none
failed=()
for target in "${targets[@]}"; do
  mkdir -p "fuzz/corpus/$target"
  log="fuzz/logs/$target.log"
  if cargo +nightly fuzz run --sanitizer none "$target" "fuzz/corpus/$target" "fuzz/seeds/$target" -- \
      -max_total_time="$seconds" -max_len=8192 -timeout=10 -rss_limit_mb="$memory_mb" -print_final_stats=1 >"$log" 2>&1; then
    echo "$target: $(awk '/number_of_executed_units/ {print $2}' "$log") executions in $seconds s, no finding"
  else
    failed+=("$target")
    echo "$target: FINDING, see $log"
    grep -m 3 -E "panicked at|ERROR: libFuzzer|Test unit written" -A 1 "$log" || tail -n 5 "$log"
  fi
done
if [ "${#failed[@]}" -gt 0 ]; then
  echo "fuzz: findings in ${failed[*]}" >&2
  exit 1
fi
