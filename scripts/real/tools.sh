#!/usr/bin/env bash
# Installs what the faults of the real-process suite need and this machine lacks. A case whose tool cannot be had is skipped.
set -u
missing=()
command -v strace >/dev/null || missing+=(strace)
command -v ip >/dev/null || missing+=(iproute2)
command -v mkfs.ext4 >/dev/null || missing+=(e2fsprogs)
[ "${#missing[@]}" -gt 0 ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || exit 0
echo "installing ${missing[*]} with apt-get" >&2
{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"; } >/dev/null || exit 0
