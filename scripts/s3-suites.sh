#!/usr/bin/env bash
# Drives an S3 gateway with the functional suites of minio-go and minio-py, as their registries have them, in a world of five nodes whose
# new buckets have the older defaults. Go's module proxy and PyPI give the suites. Skips itself where Go is missing.
#   scripts/s3-suites.sh                       builds `hive`         HIVE=PROGRAM scripts/s3-suites.sh   with that program
#   … --base-port N (as in `hive dev`)         --only minio-go       --write-guide  the table of docs/guides/s3.md again
# Fails if a test fails that scripts/s3/suites.py does not explain, or if one that it explains passes.
set -euo pipefail
cd "$(dirname "$0")/.."
export PYTHONDONTWRITEBYTECODE=1
target="${CARGO_TARGET_DIR:-$PWD/target}"
tools="$(realpath -m "$target/s3-suites")"
minio_go=v7.4.1
minio_py=7.2.20
if ! command -v go >/dev/null; then
  echo "s3-suites.sh: skipped: no go, which the suite of minio-go is built by" >&2
  exit 0
fi
mkdir -p "$tools"
if [ ! -x "$tools/minio-go-$minio_go" ]; then
  work="$tools/minio-go-source"
  rm -rf "$work" && mkdir -p "$work" && cd "$work"
  go mod init minio-go-functional 2>/dev/null
  go get "github.com/minio/minio-go/v7@$minio_go" 2>/dev/null
  # As it is, but for its first line: a build constraint that keeps it out of the library's own package.
  tail -n +2 "$(go list -m -f '{{.Dir}}' github.com/minio/minio-go/v7)/functional_tests.go" > main.go
  go mod tidy -e 2>/dev/null
  go build -trimpath -o "$tools/minio-go-$minio_go" .
  cd - >/dev/null
fi
if [ ! -e "$tools/minio-$minio_py/tests/functional/tests.py" ]; then
  python3 -m venv "$tools/venv"
  "$tools/venv/bin/pip" install -q "minio==$minio_py"
  "$tools/venv/bin/pip" download -q --no-deps --no-binary :all: -d "$tools" "minio==$minio_py"
  tar -C "$tools" -xzf "$tools/minio-$minio_py.tar.gz"
fi
if [ -z "${HIVE:-}" ]; then
  cargo build --quiet --locked --package edge-cli
  HIVE="$target/debug/hive"
fi
exec python3 scripts/s3/suites.py --hive "$HIVE" --minio-go "$tools/minio-go-$minio_go" \
  --minio-py "$tools/minio-$minio_py/tests/functional/tests.py" --python "$tools/venv/bin/python" "$@"
