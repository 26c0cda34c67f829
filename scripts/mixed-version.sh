#!/usr/bin/env bash
# mixed-version.sh: the last release and this source in one world under load, both directions; called by `make mixed`.
#
#   commit of the newest row of RELEASES.md ──▶ a worktree of its own ──▶ old hive ┐
#   this source (with a trial format level, where it has none of its own) ──▶ new hive ┴──▶ scripts/real/mixed.py
#
# OLD_HIVE, NEW_HIVE: programs that are there already. PROFILE=dev builds faster ones. PORT: the first of the ports.
# Always: the worktree is removed again; both are built in a folder of their own, so that target/release/hive stays what it is.
set -euo pipefail
cd "$(dirname "$0")/.."
root="${CARGO_TARGET_DIR:-$PWD/target}/mixed"
profile="${PROFILE:-release}"
folder="$profile"
[ "$profile" != dev ] || folder=debug
mkdir -p "$root"

# The newest release with a commit: version, greatest level, commit.
row=$(grep -E '^\| [0-9]+\.[0-9]+\.[0-9]+ \|.*`[0-9a-f]{7,40}`' RELEASES.md | head -1) ||
  { echo "mixed: RELEASES.md names no commit of a release" >&2; exit 2; }
read -r version released commit < <(awk -F'|' '{ gsub(/[ `]/, "", $0); n = split($3, levels, "to"); print $2, levels[n], $4 }' <<<"$row")

if [ -z "${OLD_HIVE:-}" ]; then
  git rev-parse --quiet --verify "$commit^{commit}" >/dev/null ||
    { echo "mixed: $commit, the commit of $version, is not here; fetch the whole history" >&2; exit 2; }
  git worktree remove --force "$root/source" 2>/dev/null || rm -rf "$root/source"
  trap 'git worktree remove --force "$root/source" 2>/dev/null || true; git worktree prune' EXIT
  git worktree prune
  git worktree add --quiet --detach --force "$root/source" "$commit"
  echo "building hive $version ($commit)"
  (cd "$root/source" && CARGO_TARGET_DIR="$root/build" cargo build --quiet --locked --profile "$profile" --package edge-cli)
  OLD_HIVE="$root/hive-$version"
  cp "$root/build/$folder/hive" "$OLD_HIVE"
fi

if [ -z "${NEW_HIVE:-}" ]; then
  level=$(sed -n 's/.*cfg!(feature = "next-level").* else { *\([0-9]*\) *}.*/\1/p' crates/base-types/src/format_level.rs | head -1)
  features=()
  [ "$level" -gt "$released" ] || features=(--features next-level)
  echo "building this source, which serves level $level${features:+, with the trial level}"
  CARGO_TARGET_DIR="$root/build" cargo build --quiet --locked --profile "$profile" --package edge-cli "${features[@]}"
  NEW_HIVE="$root/hive-new"
  cp "$root/build/$folder/hive" "$NEW_HIVE"
fi

export PYTHONDONTWRITEBYTECODE=1
python3 scripts/real/mixed.py --old "$OLD_HIVE" --new "$NEW_HIVE" --base-port "${PORT:-29000}"
