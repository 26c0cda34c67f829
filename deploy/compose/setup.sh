#!/bin/sh
# Runs once in the service `setup`: makes the authorities, each node's certificates, and each node's node.toml, in /etc/hive.
# Always: what is there stays as it is, so that it may run at every start.
set -eu

authorities=/etc/hive/authorities
members='[{ id = 1, address = "hive-1:7601" }, { id = 2, address = "hive-2:7601" }, { id = 3, address = "hive-3:7601" }]'

[ -e "$authorities/nodes/ca.pem" ] || hive ca init --dir "$authorities/nodes" --world compose
[ -e "$authorities/clients/ca.pem" ] || hive ca init --clients --dir "$authorities/clients" --world compose

for node in 1 2 3; do
  home=/etc/hive/hive-$node
  if [ -e "$home/node.toml" ]; then continue; fi
  mkdir -p "$home"
  hive ca issue --dir "$authorities/nodes" --node "$node" --address "hive-$node"
  hive ca issue --dir "$authorities/clients" --server "$node" --address "hive-$node,localhost,127.0.0.1"
  cp "$authorities/nodes/ca.pem" "$authorities/nodes/node-$node.pem" "$authorities/nodes/node-$node.key" "$home/"
  cp "$authorities/clients/server-$node.pem" "$authorities/clients/server-$node.key" "$home/"
  cp "$authorities/clients/ca.pem" "$home/clients-ca.pem"
  hive config init --out "$home/node.toml" \
    --set id="$node" --set data=/var/lib/hive/data --set world.name=compose --set world.members="$members" \
    --set location.chassis="chassis$node" --set location.rack="rack$node" \
    --set http.listen=0.0.0.0:7101 --set http.advertise="hive-$node:7101" \
    --set peer.listen=0.0.0.0:7601 --set peer.advertise="hive-$node:7601" \
    --set certificates.certificate="node-$node.pem" --set certificates.key="node-$node.key" \
    --set tls.certificate="server-$node.pem" --set tls.key="server-$node.key" \
    --set tls.client_authority=clients-ca.pem --set access.required=true \
    ${CORES:+--set cores="$CORES"}
done
echo "certificates and configurations are in place"
