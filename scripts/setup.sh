#!/usr/bin/env bash
# Installs what building and testing Hive needs and this machine lacks. Safe to run again; quiet when
# there is nothing to do. Needs root only for apt-get.
set -euo pipefail

missing=()
command -v cc >/dev/null || missing+=(build-essential)
command -v curl >/dev/null || missing+=(curl)
command -v python3 >/dev/null || missing+=(python3)
if [ "${#missing[@]}" -gt 0 ]; then
  echo "installing ${missing[*]} with apt-get"
  sudo=""; [ "$(id -u)" = 0 ] || sudo=sudo
  $sudo apt-get update -qq
  $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "${missing[@]}" >/dev/null
fi

# Where rustup puts cargo (the Makefile looks there, too): a shell that was open before does not know it yet.
export PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"
# Debian's Rust is older than ours; rustup is the way Rust itself names. What https://sh.rustup.rs does, without its questions.
install_rust() {
  echo "installing Rust with rustup"
  local init from="https://static.rust-lang.org/rustup/dist/$(uname -m)-unknown-linux-gnu/rustup-init"
  # By this name: under another one it takes itself for what that names.
  init="$(mktemp -d)/rustup-init" && curl --proto '=https' --tlsv1.2 -sSfo "$init" "$from" && chmod +x "$init" &&
    "$init" -y --quiet --no-modify-path --profile minimal --component clippy --component rustfmt && rm -r "${init%/*}"
}
if ! command -v cargo >/dev/null; then
  if command -v rustup >/dev/null; then
    rustup toolchain install stable --profile minimal --component clippy --component rustfmt
  else
    install_rust || { echo "cargo is missing: install Rust 1.95 or newer from https://rustup.rs and run this again" >&2; exit 1; }
  fi
fi
# What `make test` begins with (gates.sh).
if ! cargo fmt --version >/dev/null 2>&1 || ! cargo clippy --version >/dev/null 2>&1; then
  command -v rustup >/dev/null || { echo "rustfmt or clippy is missing: install them with your Rust" >&2; exit 1; }
  echo "installing rustfmt and clippy with rustup"
  rustup component add rustfmt clippy >/dev/null 2>&1
fi
have=$(rustc --version | awk '{print $2}')
want=1.95.0
if [ "$(printf '%s\n%s\n' "$want" "$have" | sort -V | head -n 1)" != "$want" ]; then
  echo "rustc $have is older than $want: run 'rustup update stable'" >&2; exit 1
fi
