#!/usr/bin/env bash
# Prints the Secret with the certificates of a world's nodes: secrets.sh WORLD NODES [DIR]. The authorities are kept in DIR
# (./authorities), the namespace is NAMESPACE (hive); run it again with more NODES, or to renew, and what nodes have stays valid. Needs `hive` on the PATH.
set -euo pipefail
world=${1:?usage: secrets.sh WORLD NODES [DIR]} nodes=${2:?usage: secrets.sh WORLD NODES [DIR]} dir=${3:-authorities}
client=hive-client.${NAMESPACE:-hive}.svc
umask 077
[ -e "$dir/nodes/ca.pem" ] || hive ca init --dir "$dir/nodes" --world "$world" >&2
[ -e "$dir/clients/ca.pem" ] || hive ca init --clients --dir "$dir/clients" --world "$world" >&2

entry() { printf '  %s: %s\n' "$1" "$(base64 -w0 < "$2")"; }

printf 'apiVersion: v1\nkind: Secret\nmetadata:\n  name: hive-certificates\n  labels: { app.kubernetes.io/name: hive }\ndata:\n'
entry ca.pem "$dir/nodes/ca.pem"
entry clients-ca.pem "$dir/clients/ca.pem"
for node in $(seq 1 "$nodes"); do
  pod=hive-$((node - 1))
  hive ca issue --dir "$dir/nodes" --node "$node" --address "$pod.hive-peers" >&2
  hive ca issue --dir "$dir/clients" --server "$node" --address "$pod.hive-peers,hive-client,$client,localhost" >&2
  for file in "nodes/node-$node" "clients/server-$node"; do
    entry "$(basename "$file").pem" "$dir/$file.pem"
    entry "$(basename "$file").key" "$dir/$file.key"
  done
done
