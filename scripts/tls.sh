#!/usr/bin/env bash
# One node whose client ports speak TLS, asked by unmodified clients: curl, hive, boto3, aws.
#   scripts/tls.sh                     builds `hive`
#   HIVE=PROGRAM scripts/tls.sh        with that program      BASE_PORT=N (29900 where absent): N+1 HTTP, N+2 S3, N+3 peers
# Each step says what it tests; the first that fails ends it with exit code 1.
set -euo pipefail
cd "$(dirname "$0")/.."
target="${CARGO_TARGET_DIR:-$PWD/target}"
base="${BASE_PORT:-29900}"
if [ -z "${HIVE:-}" ]; then
  cargo build --quiet --locked --package edge-cli
  HIVE="$target/debug/hive"
fi
python=python3
if ! python3 -c 'import boto3' 2>/dev/null || ! command -v aws >/dev/null; then
  [ -x "$target/s3-venv/bin/aws" ] || { python3 -m venv "$target/s3-venv" && "$target/s3-venv/bin/pip" install -q boto3 awscli; }
  export PATH="$target/s3-venv/bin:$PATH"
  python="$target/s3-venv/bin/python"
fi

home="$(mktemp -d)"
node=""
finish() {
  [ -z "$node" ] || { kill "$node" 2>/dev/null && wait "$node" 2>/dev/null; } || true
  rm -rf "$home"
}
trap finish EXIT
step() { echo "tls: $*"; }
fails() { echo "tls: FAILED: $*; the node's log:"; tail -20 "$home/log"; exit 1; }
says() { # says TEXT COMMAND…: its output holds the text, whatever its exit code
  local text=$1 out
  shift
  out="$("$@" 2>&1)" || true
  case "$out" in *"$text"*) ;; *) fails "'$*' says '$out' and not '$text'" ;; esac
}

cd "$home"
"$HIVE" ca init --dir ca --world prod >/dev/null
"$HIVE" ca issue --dir ca --node 1 >/dev/null
"$HIVE" ca init --clients --dir clients --world prod >/dev/null
"$HIVE" ca issue --dir clients --server 1 --address localhost,127.0.0.1 >/dev/null
"$HIVE" ca issue --dir clients --user ann >/dev/null
"$HIVE" ca issue --dir clients --user gone >/dev/null
"$HIVE" ca revoke --dir clients --user gone >/dev/null
cat >node.toml <<TOML
id = 1
data = "data"
cores = 1
[world]
name = "prod"
[[world.members]]
id = 1
address = "127.0.0.1:$((base + 3))"
[region]
name = "fr-par"
[location]
az = "1"
rack = "r1"
chassis = "c1"
[http]
listen = "0.0.0.0:$((base + 1))"
advertise = "localhost:$((base + 1))"
[s3]
listen = "0.0.0.0:$((base + 2))"
data = "s3-data"
[peer]
listen = "127.0.0.1:$((base + 3))"
[certificates]
authority = "ca/ca.pem"
certificate = "ca/node-1.pem"
key = "ca/node-1.key"
[tuning]
s3_rule = "size=1 location=world failure_domain=chassis"
[tls]
certificate = "clients/server-1.pem"
key = "clients/server-1.key"
client_authority = "clients/ca.pem"
client_revocations = "clients/crl.pem"
client_certificates = "required"
TOML
step "a node beyond loopback with TLS and required certificates starts without insecure = true"
"$HIVE" node --config node.toml --check >/dev/null
"$HIVE" node --config node.toml >log 2>&1 &
node=$!
http="https://localhost:$((base + 1))"
s3="https://localhost:$((base + 2))"
for _ in $(seq 100); do
  curl -sf --cacert clients/ca.pem "$http/ready" >/dev/null && break
  kill -0 "$node" || fails "the node has ended"
  sleep 0.2
done

step "curl: a user's certificate, none, plain text"
says '"ready":true' curl -s --cacert clients/ca.pem "$http/ready"
says CertificateRequired curl -s --cacert clients/ca.pem "$http/metrics"
says hive_turns_total curl -s --cacert clients/ca.pem --cert clients/user-ann.pem --key clients/user-ann.key "$http/metrics"
says 'write https://' curl -s "http://localhost:$((base + 1))/ready"

step "hive: by its arguments and its environment, wrong authority, none"
export HIVE_ENDPOINT="$http"
files=(--ca clients/ca.pem --cert clients/user-ann.pem --key clients/user-ann.key)
"$HIVE" ctl keyspace create default --rule "size=1 location=world failure_domain=chassis" "${files[@]}" >/dev/null
"$HIVE" kv put k v "${files[@]}" >/dev/null
HIVE_CA=clients/ca.pem HIVE_CERT=clients/user-ann.pem HIVE_KEY=clients/user-ann.key says v "$HIVE" kv get k
says 'not of the authority given' "$HIVE" kv get k --ca ca/ca.pem
says 'needs an authority' "$HIVE" kv get k
says CertificateRequired "$HIVE" kv get k --ca clients/ca.pem
says ', 0 errors' "$HIVE" bench kv-put --endpoint "$http" "${files[@]}" --clients 4 --seconds 1 --out bench

step "boto3 and aws: --ca-bundle"
"$HIVE" ctl s3 account create ann "${files[@]}" >/dev/null
echo secret-of-forty-characters-for-this-test >secret
"$HIVE" ctl s3 key create ann --access-key ann-access-key --secret-key-file secret "${files[@]}" >/dev/null
export AWS_ACCESS_KEY_ID=ann-access-key AWS_SECRET_ACCESS_KEY=secret-of-forty-characters-for-this-test AWS_DEFAULT_REGION=fr-par
export AWS_CA_BUNDLE="$home/clients/ca.pem"
"$python" - "$s3" <<'PYTHON' || fails "boto3"
import sys
import boto3
client = boto3.client("s3", endpoint_url=sys.argv[1])
client.create_bucket(Bucket="first")
body = b"x" * 300_000
client.put_object(Bucket="first", Key="large", Body=body)
assert client.get_object(Bucket="first", Key="large")["Body"].read() == body
PYTHON
says large aws --endpoint-url "$s3" s3 ls s3://first
unset AWS_CA_BUNDLE
says SSL aws --endpoint-url "$s3" s3 ls s3://first
says large aws --endpoint-url "$s3" --ca-bundle clients/ca.pem s3 ls s3://first

step "a revoked certificate: refused once the list is taken up, others continue"
"$HIVE" ca issue --dir clients --user bob >/dev/null
"$HIVE" ca revoke --dir clients --user bob >/dev/null
bob=(--ca clients/ca.pem --cert clients/user-bob.pem --key clients/user-bob.key)
for _ in $(seq 50); do "$HIVE" kv get k "${bob[@]}" >/dev/null 2>&1 || break; kill -HUP "$node"; sleep 0.2; done
says evoked "$HIVE" kv get k "${bob[@]}"
says v "$HIVE" kv get k "${files[@]}"

step "renewal on SIGHUP: new connections see it, and a bad file is left aside"
shown() { echo | openssl s_client -connect "localhost:$((base + 1))" -CAfile clients/ca.pem 2>/dev/null | openssl x509 -noout -serial; }
before="$(shown)"
"$HIVE" ca issue --dir clients --server 1 --address localhost >/dev/null
kill -HUP "$node"
for _ in $(seq 50); do [ "$(shown)" = "$before" ] || break; sleep 0.1; done
[ "$(shown)" != "$before" ] || fails "the certificate is the one before"
after="$(shown)"
echo nonsense >clients/server-1.pem
kill -HUP "$node"
for _ in $(seq 50); do curl -s --cacert clients/ca.pem "$http/ready" | grep -q 'not in use' && break; sleep 0.1; done
says 'not in use' curl -s --cacert clients/ca.pem "$http/ready"
[ "$(shown)" = "$after" ] || fails "a bad file took the certificate away"
step "all passed"
