#!/usr/bin/env bash
# Every test: gates, unit, script, model, contract, simulation, real clients. Called by `make test` and CI.
set -euo pipefail
cd "$(dirname "$0")/.."
export RUST_BACKTRACE=1
scripts/gates.sh
without=$(scripts/rocksdb.sh)
cargo test --workspace $without --locked
# The plain tests above run over the fuzz targets' seeds; where the nightly toolchain is, a moment of each under cargo fuzz too.
if rustup run nightly rustc --version >/dev/null 2>&1; then FUZZ_SECONDS="${FUZZ_SECONDS:-1}" scripts/fuzz.sh; fi
scripts/sim.sh "" "${TEST_SEEDS:-500}"
# The alert rules, evaluated by promtool against a healthy world and against each fault.
scripts/alerts.sh
scripts/first-hour.sh
# A world as in production: tokens and TLS at every door.
HIVE="${CARGO_TARGET_DIR:-$PWD/target}/debug/hive" scripts/secure-world.sh
# The console, clicked through in headless Chromium.
HIVE="${CARGO_TARGET_DIR:-$PWD/target}/debug/hive" scripts/console.sh
# Tokens of an OIDC issuer at the JSON door, and temporary S3 credentials for them, by boto3.
HIVE="${CARGO_TARGET_DIR:-$PWD/target}/debug/hive" scripts/oidc.sh
# The S3 gateway driven by real clients: in a world of five nodes.
HIVE="${CARGO_TARGET_DIR:-$PWD/target}/debug/hive" scripts/s3-clients.sh
# The etcd door driven by etcdctl, etcd's Go client and two Python clients, with a leader killed meanwhile.
HIVE="${CARGO_TARGET_DIR:-$PWD/target}/debug/hive" scripts/etcd-clients.sh
# The Redis door driven by redis-cli, redis-py and go-redis, with a leader killed meanwhile.
HIVE="${CARGO_TARGET_DIR:-$PWD/target}/debug/hive" scripts/redis-clients.sh
# Client ports that speak TLS, asked by curl, hive, boto3 and aws.
HIVE="${CARGO_TARGET_DIR:-$PWD/target}/debug/hive" scripts/tls.sh
