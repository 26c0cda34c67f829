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
  DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq "${missing[@]}" >/dev/null
fi

if ! command -v cargo >/dev/null && [ -f "$HOME/.cargo/env" ]; then . "$HOME/.cargo/env"; fi
if ! command -v cargo >/dev/null; then
  # Debian's Rust is older than ours; rustup is the way Rust itself names.
  if command -v rustup >/dev/null; then
    rustup toolchain install stable --profile minimal
  else
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq rustup >/dev/null 2>&1 && rustup default stable || {
      echo "cargo is missing: install Rust 1.95 or newer from https://rustup.rs and run this again" >&2; exit 1; }
  fi
fi
have=$(rustc --version | awk '{print $2}')
want=1.95.0
if [ "$(printf '%s\n%s\n' "$want" "$have" | sort -V | head -n 1)" != "$want" ]; then
  echo "rustc $have is older than $want: run 'rustup update stable'" >&2; exit 1
fi
