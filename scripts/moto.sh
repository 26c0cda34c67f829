#!/usr/bin/env bash
# Installs moto, somebody else's S3 server, from PyPI into a directory of its own, once; prints the python that has it.
set -euo pipefail
home="${TMPDIR:-/tmp}/hive-moto"
if ! "$home/bin/python3" -c 'import moto, flask' 2>/dev/null; then
  echo "installing moto from PyPI into $home" >&2
  python3 -m venv "$home" >&2
  "$home/bin/pip" install --quiet 'moto[server,s3]==5.*' >&2
fi
echo "$home/bin/python3"
