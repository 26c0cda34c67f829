#!/usr/bin/env bash
# fetch-headers.sh FOLDER: puts the headers of RocksDB 7.8.3 that its packages do not install into FOLDER, out of Debian's source
# package, each checked against headers.sha256. Does nothing, offline too, where they lie there already.
# Always: FOLDER holds all of them as released, or is not there.
# HIVE_ROCKSDB_SOURCE=/path/to/rocksdb_7.8.3.orig.tar.gz: from this file, on a machine that reaches no Debian mirror.
set -euo pipefail
[ $# = 1 ] || { echo "usage: fetch-headers.sh FOLDER" >&2; exit 2; }
sums=$(cd "$(dirname "$0")" && pwd)/headers.sha256
package=rocksdb=7.8.3-2
archive=rocksdb_7.8.3.orig.tar.gz
mirror=http://deb.debian.org/debian/
keys=/usr/share/keyrings/debian-archive-keyring.gpg
folder=$1

sound() { [ -d "$1" ] && (cd "$1" && sha256sum --check --status --strict "$sums"); }
sound "$folder" && exit 0

fail() {
  echo "the headers of RocksDB 7.8.3 cannot be had: $1" >&2
  echo "get $archive (source package $package of Debian 12) and set HIVE_ROCKSDB_SOURCE to its path, or build without engine-rocksdb" >&2
  exit 1
}

mkdir -p "$(dirname "$folder")"
# Beside FOLDER, so that the rename at the end cannot be half done.
work=$(mktemp -d "$folder.XXXXXX")
trap 'rm -rf "$work"' EXIT

# Debian's source package, by apt's own way and signatures, with lists of its own: the machine's settings stay as they are.
download() {
  mkdir -p "$work/apt/lists/partial" "$work/apt/cache/archives/partial"
  # The mirror that the machine itself uses.
  local own
  own=$(apt-get indextargets --format '$(REPO_URI) $(CODENAME) $(COMPONENT)' 'Created-By: Packages' 2>/dev/null |
    awk '$2 == "bookworm" && $3 == "main" { print $1; exit }') || true
  echo "deb-src [signed-by=$keys] ${own:-$mirror} bookworm main" >"$work/apt/sources.list"
  # Where it runs as root, apt would fetch as a user who may not write here.
  local options=(-q -o "Dir::Etc::sourcelist=$work/apt/sources.list" -o Dir::Etc::sourceparts=- -o "Dir::State::lists=$work/apt/lists"
    -o "Dir::Cache=$work/apt/cache" -o APT::Sandbox::User=)
  (cd "$work/apt" && apt-get "${options[@]}" update && apt-get "${options[@]}" source --download-only "$package") >"$work/apt/log" 2>&1
}

source_archive=${HIVE_ROCKSDB_SOURCE:-}
if [ -z "$source_archive" ]; then
  command -v apt-get >/dev/null || fail "there is no apt-get here"
  [ -f "$keys" ] || fail "there is no $keys (apt-get install debian-archive-keyring)"
  echo "fetching the source package $package for headers that its packages do not install" >&2
  download || fail "apt-get says: $(grep -m 1 '^[EW]:' "$work/apt/log" || tail -n 1 "$work/apt/log")"
  source_archive=$work/apt/$archive
fi
[ -f "$source_archive" ] || fail "there is no file $source_archive"

mkdir "$work/headers"
mapfile -t names < <(sed 's|^[0-9a-f]*  |rocksdb-7.8.3/|' "$sums")
tar -xzf "$source_archive" -C "$work/headers" --strip-components=1 "${names[@]}" 2>/dev/null ||
  fail "$source_archive lacks some of the files that headers.sha256 names"
sound "$work/headers" || fail "some file of $source_archive differs from headers.sha256"
# Another build may have put them there in between; what is damaged goes.
if ! sound "$folder"; then
  rm -rf "$folder"
  mv -T "$work/headers" "$folder" 2>/dev/null || sound "$folder" || fail "$folder cannot be written"
fi
