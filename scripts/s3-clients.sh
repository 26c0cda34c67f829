#!/usr/bin/env bash
# Drives an S3 gateway with unmodified clients: boto3, raw signed requests, aws, s3cmd, rclone.
#   scripts/s3-clients.sh                      builds `hive` and starts a world of five nodes, clients at different nodes
#   HIVE=PROGRAM scripts/s3-clients.sh         with that program      … --base-port N   (as in `hive dev`; 29000 where absent)
#   scripts/s3-clients.sh --memory             the gateway alone, over metadata in memory (example s3_memory)
#   scripts/s3-clients.sh --endpoint URL       uses one that runs; keys by S3_KEY, S3_SECRET, S3_OTHER_KEY, S3_OTHER_SECRET
#   … --only PATTERN                           only cases whose file and name have it      --write-guide  docs/guides/s3.md again
# What was tested by which client goes to target/s3-clients.json.
set -euo pipefail
cd "$(dirname "$0")/.."
export PYTHONDONTWRITEBYTECODE=1
target="${CARGO_TARGET_DIR:-$PWD/target}"

missing=()
command -v s3cmd >/dev/null || missing+=(s3cmd)
command -v rclone >/dev/null || missing+=(rclone)
if [ "${#missing[@]}" -gt 0 ]; then
  sudo=""; [ "$(id -u)" = 0 ] || sudo=sudo
  $sudo apt-get update -qq
  DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq "${missing[@]}" >/dev/null
fi
python=python3
if ! python3 -c 'import boto3' 2>/dev/null || ! command -v aws >/dev/null; then
  [ -x "$target/s3-venv/bin/aws" ] || { python3 -m venv "$target/s3-venv" && "$target/s3-venv/bin/pip" install -q boto3 awscli; }
  export PATH="$target/s3-venv/bin:$PATH"
  python="$target/s3-venv/bin/python"
fi

case " $* " in
  *" --endpoint "*) exec "$python" scripts/s3/main.py "$@" ;;
esac
case " $* " in
  *" --memory "*)
    cargo build --quiet --package door-s3 --features testing --example s3_memory
    arguments=(); for word in "$@"; do [ "$word" = --memory ] || arguments+=("$word"); done
    exec "$python" scripts/s3/main.py --server "$target/debug/examples/s3_memory" "${arguments[@]}" ;;
esac
if [ -z "${HIVE:-}" ]; then
  cargo build --quiet --locked --package edge-cli
  HIVE="$target/debug/hive"
fi
exec "$python" scripts/s3/main.py --hive "$HIVE" "$@"
