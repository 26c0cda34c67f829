#!/usr/bin/env bash
# Drives the Redis door with unmodified clients: Debian's redis-cli, Python's redis, Go's go-redis (by a program of ours), in a world of three
# nodes, each through other nodes, with a kill -9 of the leader. Nothing is installed in the system: packages are unpacked below target/.
#   scripts/redis-clients.sh                   builds `hive` (debug)
#   HIVE=PROGRAM scripts/redis-clients.sh      with that program      … --base-port N (as in `hive dev`; 30000 where absent)
#   … --only PATTERN                           only cases whose name has it
set -euo pipefail
cd "$(dirname "$0")/.."
export PYTHONDONTWRITEBYTECODE=1
target="${CARGO_TARGET_DIR:-$PWD/target}"
tools="$target/redis-clients"
scripts/redis_clients/build.sh "$tools"
if ! "$tools/venv/bin/python" -c "import redis" 2>/dev/null; then
  python3 -m venv "$tools/venv" && "$tools/venv/bin/pip" install -q redis==5.2.1
fi
if [ -z "${HIVE:-}" ]; then
  cargo build --quiet --locked --package edge-cli
  HIVE="$target/debug/hive"
fi
exec "$tools/venv/bin/python" scripts/redis_clients/main.py --hive "$HIVE" --tools "$tools" "$@"
