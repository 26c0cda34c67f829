#!/usr/bin/env bash
# The Debian package: target/package/hive_VERSION_ARCH.deb with its SHA-256, and beside it what is in it (SBOM.json).
# `scripts/package.sh` builds all; PROFILE=dev takes the debug build, for looking at the package only. PRINT_FLAGS=1 prints the
# environment that makes a build the same in every directory (docs/guides/operations/packages.md).
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
export PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"
target=${CARGO_TARGET_DIR:-$root/target}
profile=${PROFILE:-release}
out=$root/target/package

# No path of this machine goes into the program, and no time but the commit's.
cargo_home=${CARGO_HOME:-$HOME/.cargo}
remap="--remap-path-prefix=$root=/hive --remap-path-prefix=$cargo_home=/cargo --remap-path-prefix=$(rustc --print sysroot)=/rust"
maps="-ffile-prefix-map=$root=/hive -ffile-prefix-map=$cargo_home=/cargo -ffile-prefix-map=$target=/target"
flags=("RUSTFLAGS=${RUSTFLAGS:-} $remap" "CFLAGS=${CFLAGS:-} $maps" "CXXFLAGS=${CXXFLAGS:-} $maps" "SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)" "CARGO_INCREMENTAL=0")
if [ -n "${PRINT_FLAGS:-}" ]; then printf '%s\n' "${flags[@]}"; exit 0; fi
if [ "$profile" = release ]; then export "${flags[@]}"; fi

need() { # COMMAND CRATE
  command -v "$1" >/dev/null || { echo "installing $2 (once)"; CARGO_TARGET_DIR="${TMPDIR:-/tmp}/$2-build" RUSTFLAGS="" cargo install --quiet --locked "$2"; }
}
need cargo-deb cargo-deb
need cargo-cyclonedx cargo-cyclonedx

cargo build --locked --package edge-cli --profile "$profile" ${CARGO_JOBS:+-j"$CARGO_JOBS"}
hive=$target/$([ "$profile" = dev ] && echo debug || echo "$profile")/hive

rm -rf "$out"; mkdir -p "$out"
"$hive" man --out "$out/man"
gzip -9 -n "$out"/man/*.1
"$hive" completions bash > "$out/hive.bash"
"$hive" completions zsh > "$out/_hive"
"$hive" completions fish > "$out/hive.fish"
bash -n "$out/hive.bash"

# What is in the program: every crate with version, licence and checksum.
# It writes one for every program of the workspace, beside each Cargo.toml; of ours no path of this machine stays in it.
cargo cyclonedx --quiet --manifest-path crates/edge-cli/Cargo.toml --format json --spec-version 1.5 --describe binaries
sed "s#$root/#/hive/#g" crates/edge-cli/hive_bin.cdx.json > "$out/SBOM.json"
find crates xtask -maxdepth 2 -name '*.cdx.json' -delete

CARGO_TARGET_DIR=$target cargo deb --quiet --locked --no-build --profile "$profile" --package edge-cli --output "$out/"
deb=$(ls "$out"/hive_*.deb)
dpkg-deb --info "$deb" | grep -E '^ (Package|Version|Architecture|Depends|Installed-Size)'
(cd "$out" && sha256sum "$(basename "$deb")" | tee "$(basename "$deb").sha256")

# The unit, where systemd is at hand. Without /usr/bin/hive `verify` cannot find the program: it looks at a copy that names ours.
if command -v systemd-analyze >/dev/null; then
  mkdir -p "$out/unit"
  sed "s#/usr/bin/hive#$hive#" deploy/systemd/hive.service > "$out/unit/hive.service"
  systemd-analyze verify --man=no "$out/unit/hive.service"
  systemd-analyze security --offline=true --threshold=20 --no-pager "$out/unit/hive.service" | tail -1
fi
echo "$deb"
