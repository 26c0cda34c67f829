#!/usr/bin/env bash
# mutants.sh SEEDS [NAME]: plants each bug and hunts it over at most SEEDS seeds; fails where one survives.
# The table goes to target/mutants.md; TABLE=docs/proof/mutants.md writes the page.
set -euo pipefail
cd "$(dirname "$0")/.."
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$PWD/target}"
cargo build --quiet --profile sim --locked --package proof-sim --features mutants
hunt="$CARGO_TARGET_DIR/sim/proof-sim-mutants"
# The next `make sim` must not find the build with bugs in it.
mv "$CARGO_TARGET_DIR/sim/proof-sim" "$hunt"
only=()
if [ -n "${2:-}" ]; then only=(--only "$2"); fi
# A few mutants no story of the simulator leads to: their own crate hunts them (the shards', all of theirs).
if [ -z "${2:-}" ]; then
  cargo test --quiet --locked --package core-backends --features mutants --lib -- --ignored
  cargo test --quiet --locked --package door-s3 --features mutants --lib -- --ignored
  cargo test --quiet --locked --package door-etcd --features mutants --lib -- --ignored
  cargo test --quiet --locked --package core-cluster --features mutants --lib -- --ignored every_planted_bug_is_noticed
  cargo test --quiet --locked --package core-node --features mutants --lib -- --ignored --test-threads 1 planted_bug
  # The command that a planted bug's failing seed prints shows the violation.
  cargo test --quiet --locked --package proof-sim --features mutants --test command_line planted
fi
exec nice -n 10 "$hunt" mutants --seeds "$1" --table "${TABLE:-$CARGO_TARGET_DIR/mutants.md}" "${only[@]}"
