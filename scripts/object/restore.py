"""A node in moto's S3, killed and lost, comes back out of the bucket; somebody reads along; writes at level s3 wait
for the bucket; a second writer fences the first; wrong places are refused with their remedies.

    HIVE=PROGRAM python3 restore.py        (needs moto; scripts/object.sh installs it)

PORT_BASE=n: ports from n on, where the machine is shared; otherwise any that are free.

The server between hive and moto delays every request, refuses some, and stalls when told to: nothing of it may lose
anything. It also plays what moto does not: keys that are unknown, wrong, or have no rights (S3's own answers).
"""

import contextlib
import http.client
import http.server
import itertools
import json
import logging
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

from moto.server import ThreadedMotoServer

HIVE = os.environ["HIVE"]
LATENCY_S = 0.03
REFUSED_PERCENT = 5
KEYS = 400
# Of them none: written behind them, and acknowledged as in the bucket.
KEPT = 40
WAIT_S = 60


class Between(http.server.BaseHTTPRequestHandler):
    """Passes requests on, late, and answers some with 503 itself: half of those after the request was done."""

    protocol_version = "HTTP/1.1"
    target = None
    faults = True
    stalled = False
    chance = random.Random(7)
    requests = 0
    # S3's answer to a key, by the key's id: status, code.
    refused_keys = {
        "unknown-key": (403, "InvalidAccessKeyId"),
        "wrong-secret": (403, "SignatureDoesNotMatch"),
        "no-rights": (403, "AccessDenied"),
    }

    def log_message(self, *_):
        pass

    def handle_any(self):
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        Between.requests += 1
        while Between.stalled:
            time.sleep(0.05)
        for key, (status, code) in Between.refused_keys.items():
            if f"Credential={key}/" in (self.headers.get("authorization") or ""):
                return self.answer(status, [], f"<Error><Code>{code}</Code></Error>".encode())
        # A key that may read and not write.
        if "Credential=reads-only/" in (self.headers.get("authorization") or "") and self.command in ("PUT", "DELETE"):
            return self.answer(403, [], b"<Error><Code>AccessDenied</Code></Error>")
        time.sleep(LATENCY_S if Between.faults else 0)
        roll = Between.chance.uniform(0, 100) if Between.faults else 100
        if roll < REFUSED_PERCENT / 2:
            return self.answer(503, [], b"<Error><Code>SlowDown</Code></Error>")
        self.pass_on(body, roll)

    def pass_on(self, body, roll):
        link = http.client.HTTPConnection(*Between.target)
        headers = {name: value for name, value in self.headers.items()}
        link.request(self.command, self.path, body, headers)
        got = link.getresponse()
        data = got.read()
        if roll < REFUSED_PERCENT:
            return self.answer(503, [], b"<Error><Code>InternalError</Code></Error>")
        kept = [(n, v) for n, v in got.getheaders() if n.lower() not in ("transfer-encoding", "connection", "server", "date")]
        self.answer(got.status, kept, data)

    def answer(self, status, headers, data):
        self.send_response(status)
        names = {name.lower() for name, _ in headers}
        for name, value in headers:
            self.send_header(name, value)
        if "content-length" not in names:
            self.send_header("content-length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = handle_any


PORTS = itertools.count(int(os.environ["PORT_BASE"])) if "PORT_BASE" in os.environ else itertools.repeat(0)


def free_port():
    for port in itertools.islice(PORTS, 100):
        with contextlib.closing(socket.socket()) as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return probe.getsockname()[1]
    raise SystemExit("a hundred ports in a row are taken: set PORT_BASE elsewhere")


def hive(*words, **more):
    return subprocess.run([HIVE, *words], capture_output=True, text=True, timeout=240, **more)


class Node:
    """A world of one node."""

    def __init__(self, root, name, url, endpoint, keys=("testing", "testing")):
        self.home = os.path.join(root, name)
        os.makedirs(self.home)
        self.http, peer = free_port(), free_port()
        self.endpoint = f"http://127.0.0.1:{self.http}"
        made = hive("ca", "init", "--dir", f"{self.home}/ca", "--world", "tail")
        assert made.returncode == 0, made.stderr
        issued = hive("ca", "issue", "--dir", f"{self.home}/ca", "--node", "1", "--address", "127.0.0.1")
        assert issued.returncode == 0, issued.stderr
        authority, cert, key = (f"{self.home}/ca/{name}" for name in ("ca.pem", "node-1.pem", "node-1.key"))
        self.config = f"{self.home}/node.toml"
        object_section = f"""
[engine]
default = "{'object' if url else 'lmdb'}"
[engine.object]
url = "{url}"
lag_ms = 300
""" + (f"""
[engine.object.options]
endpoint = "{endpoint}"
region = "us-east-1"
access_key_id = "{keys[0]}"
secret_access_key = "{keys[1]}"
""" if url.startswith("s3") else "")
        # It has a secret in it.
        with open(os.open(self.config, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as out:
            out.write(f"""id = 1
data = "{self.home}/data"
cores = 1
[world]
name = "tail"
[[world.members]]
id = 1
address = "127.0.0.1:{peer}"
[region]
name = "r"
[location]
az = "1"
rack = "r"
chassis = "c"
[http]
listen = "127.0.0.1:{self.http}"
[peer]
listen = "127.0.0.1:{peer}"
[certificates]
authority = "{authority}"
certificate = "{cert}"
key = "{key}"
{object_section}""")
        self.process = None

    def start(self):
        self.log = open(f"{self.home}/log", "a")
        self.process = subprocess.Popen([HIVE, "node", "--config", self.config], stdout=self.log, stderr=self.log)

    def ready(self):
        for _ in range(WAIT_S * 10):
            try:
                with urllib.request.urlopen(self.endpoint + "/ready", timeout=5) as answer:
                    if answer.status == 200:
                        return self
            except OSError:
                pass
            if self.process.poll() is not None:
                break
            time.sleep(0.1)
        raise SystemExit(f"{self.home} is not ready:\n" + open(f"{self.home}/log").read()[-4000:])

    def kill(self):
        if self.process:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()

    def once(self, **action):
        """One try: status and answer."""
        return once(self.endpoint, action)

    def metric(self, name):
        with urllib.request.urlopen(self.endpoint + "/metrics", timeout=5) as answer:
            lines = answer.read().decode().splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith(f"hive_{name}{{"))

    def ask(self, **action):
        data = json.dumps(action).encode()
        request = urllib.request.Request(self.endpoint + "/", data, {"content-type": "application/json"})
        last = None
        for _ in range(100):
            try:
                with urllib.request.urlopen(request, timeout=20) as answer:
                    return json.load(answer)
            except urllib.error.HTTPError as error:
                last = error.read()
            except OSError as error:
                last = error
            time.sleep(0.2)
        raise SystemExit(f"{action}: {last}")


def once(endpoint, action):
    request = urllib.request.Request(endpoint + "/", json.dumps(action).encode(), {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def until(what, holds):
    for _ in range(WAIT_S * 10):
        if holds():
            return
        time.sleep(0.1)
    raise SystemExit(f"not within {WAIT_S} s: {what}")


def behind(node):
    """Clusters of the keyspace whose bucket lacks what they have applied; /metrics would be up to a second old."""
    described = [node.ask(action="DescribeCluster", name=item["name"])["cluster"]
                 for item in node.ask(action="ListClusters", prefix="metadata@ks-k")["clusters"]]
    assert described
    return [cluster["name"] for cluster in described if cluster["members"][0]["kept"] < cluster["applied"]]


def keeps(node):
    """A keyspace whose last writes were acknowledged as in the bucket; how long those took."""
    node.ask(action="CreateKeyspace", keyspace="k", partition="hash", partitions=4, rule="size=1")
    for number in range(KEYS):
        node.ask(action="KvPut", keyspace="k", key=f"k{number}", value=f"v{number}", consistency="strong")
    # Strong writes reach the bucket by themselves; what is lost behind this is a failure.
    until("the bucket has all of it", lambda: not behind(node))
    took = []
    for number in range(KEPT):
        begun = time.time()
        status, answer = node.once(action="KvPut", keyspace="k", key=f"s{number}", value=f"w{number}", consistency="s3", deadline_ms=20000)
        assert status == 200 and answer["level"] == "s3", answer
        took.append(time.time() - begun)
    return sorted(took)


def shows_lag(node):
    described = node.ask(action="ListClusters", prefix="metadata@ks-k")["clusters"][0]["name"]
    cluster = node.ask(action="DescribeCluster", name=described)["cluster"]
    assert cluster["members"][0]["kept"] <= cluster["applied"], cluster
    until("nothing is behind", lambda: node.metric("archive_pending_entries") == 0 and node.metric("archive_lag_seconds") == 0)
    assert node.metric("archive_replicas") >= 2
    shown = hive("ctl", "cluster", "show", described, "--endpoint", node.endpoint)
    assert shown.returncode == 0 and "(0 behind)" in shown.stdout, shown


def reads_along(node, url, options):
    """Another process reads what the node writes, and disturbs nobody."""
    port = free_port()
    words = [HIVE, "attach", "--from", url, "--listen", f"127.0.0.1:{port}", "--follow-ms", "300", *options]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    endpoint = f"http://127.0.0.1:{port}"
    try:
        def answers():
            if process.poll() is not None:
                raise SystemExit(f"attach ended: {process.stderr.read()}")
            try:
                return once(endpoint, {"action": "Status"})[0] == 200
            except OSError:
                return False

        until("somebody reads along", answers)
        for number in range(0, KEYS, 7):
            status, got = once(endpoint, {"action": "KvGet", "keyspace": "k", "key": f"k{number}"})
            assert status == 200 and got["value"] == f"v{number}" and got["level"] == "eventual", got
        scanned = hive("kv", "scan", "--keyspace", "k", "--keys-only", "--endpoint", endpoint)
        assert scanned.returncode == 0 and len(scanned.stdout.split()) == KEYS + KEPT, scanned
        status, refused = once(endpoint, {"action": "KvPut", "keyspace": "k", "key": "x", "value": "y"})
        assert status == 400 and refused["error"]["code"] == "ReadOnly", refused
        node.ask(action="KvPut", keyspace="k", key="along", value="seen", consistency="s3")
        read = {"action": "KvGet", "keyspace": "k", "key": "along"}
        until("what came is seen", lambda: once(endpoint, read)[1].get("value") == "seen")
    finally:
        process.kill()
        process.wait()
    assert node.process.poll() is None, "its writer was disturbed"
    print(f"ok: somebody read along in {url}")


def stalls(node):
    """A bucket that does not answer: strong writes go on, the others say that they are committed, and are kept later."""
    Between.stalled = True
    put = {"action": "KvPut", "keyspace": "k", "key": "late", "value": "kept", "consistency": "s3", "request_id": "late-1"}
    status, answer = node.once(**put, deadline_ms=2000)
    assert status == 504 and answer["error"]["code"] == "CommittedNotInBucket" and answer["error"]["committed"], answer
    began = time.time()
    node.ask(action="KvPut", keyspace="k", key="meanwhile", value="1", consistency="strong")
    assert time.time() - began < 2, "a strong write waited for the bucket"
    assert node.metric("archive_lag_seconds") > 1
    Between.stalled = False
    until("it is kept in the end", lambda: node.once(**put, deadline_ms=5000)[0] == 200)
    print("ok: a stalled bucket held up what waited for it, and nothing else")


def fences(root, node, url, options):
    """Restored while its node lives on: that one may not write there any more, and ends."""
    made = hive("restore", "--from", url, "--data", f"{root}/second", *options)
    assert made.returncode == 0, made
    try:
        status, answer = node.once(action="KvPut", keyspace="k", key="fenced", value="1", consistency="s3", deadline_ms=3000)
        assert status != 200, answer
    except OSError:
        pass  # It ended before it answered.
    until("the first writer ends", lambda: node.process.poll() is not None)
    log = open(f"{node.home}/log").read()
    assert "another process has opened this place" in log, log[-2000:]
    shutil.rmtree(f"{root}/second")
    print("ok: two writers of one place: the first ended, and said why")


def lives_on(root, url, endpoint, options):
    first = Node(root, "first", url, endpoint)
    first.start()
    first.ready()
    took = keeps(first)
    shows_lag(first)
    reads_along(first, url, options)
    if url.startswith("s3"):
        stalls(first)
    status, answer = first.once(action="KvPut", keyspace="k", key="last", value="one", consistency="s3", deadline_ms=20000)
    first.kill()  # At once: it was acknowledged as in the bucket.
    assert status == 200, answer
    shutil.rmtree(f"{first.home}/data")
    begun = time.time()
    listed = hive("restore", "--from", url, "--list", *options)
    assert listed.returncode == 0 and "world=tail node=1" in listed.stdout, listed
    made = hive("restore", "--from", url, "--data", f"{first.home}/data", "--json", *options)
    assert made.returncode == 0, made.stderr
    report = json.loads(made.stdout)
    assert report["world"] == "tail" and len(report["clusters"]) >= 2, report
    twice = hive("restore", "--from", url, "--data", f"{first.home}/data", *options)
    assert twice.returncode == 1 and "there already" in twice.stderr, twice
    text = open(first.config).read()
    with open(first.config, "w") as out:  # Goes on without a tail: the bucket stays as it is.
        out.write(text[: text.index("[engine]")])
    first.start()
    first.ready()
    wanted = {f"k{number}": f"v{number}" for number in range(KEYS)} | {f"s{number}": f"w{number}" for number in range(KEPT)}
    for key, value in (wanted | {"last": "one"}).items():
        got = first.ask(action="KvGet", keyspace="k", key=key, read_consistency="strong")
        assert got.get("value") == value, (key, got)
    takeover = time.time() - begun
    first.ask(action="KvPut", keyspace="k", key="more", value="1", consistency="strong")
    status, refused = first.once(action="KvPut", keyspace="k", key="none", value="1", consistency="s3", deadline_ms=9000)
    assert status == 400 and refused["error"]["code"] == "NoArchiveReplica" and refused["error"]["outcome"] == "not_applied", refused
    first.kill()
    print(f"ok: {len(wanted)} keys, {len(report['clusters'])} clusters came back from {url}; {takeover:.1f} s from nothing to all read")
    print(f"    {KEPT} writes at level s3, one after the other: {took[len(took) // 2]:.2f} s the median, {took[-1]:.2f} s the longest")


def fenced(root, url, endpoint, options):
    node = Node(root, "fenced", url, endpoint)
    node.start()
    node.ready()
    node.ask(action="CreateKeyspace", keyspace="k", partition="hash", partitions=1, rule="size=1")
    node.ask(action="KvPut", keyspace="k", key="k", value="v", consistency="s3", deadline_ms=20000)
    fences(root, node, url, options)
    # The node's directory was made for this place: another one is refused, and nothing is touched.
    text = open(node.config).read()
    with open(node.config, "w") as out:
        out.write(text.replace(url, url + "-elsewhere"))
    node.start()
    until("another place is refused", lambda: node.process.poll() is not None)
    log = open(f"{node.home}/log").read()
    assert "set engine.object.url back" in log, log[-2000:]
    print("ok: a directory made for another place is refused")


def options_of(endpoint, key="testing"):
    options = ["--option", f"endpoint={endpoint}", "--option", "region=us-east-1"]
    # Secrets are not taken from arguments.
    os.environ["AWS_SECRET_ACCESS_KEY"] = "testing"
    return options + ["--option", f"access_key_id={key}"]


def refusals(root, endpoint):
    cases = [
        ("s3://no-such-bucket/x", "testing", "NoSuchBucket", "make the bucket"),
        ("s3://bucket/x", "unknown-key", "InvalidAccessKeyId", "give the right access key"),
        ("s3://bucket/x", "wrong-secret", "SignatureDoesNotMatch", "give the right access key"),
        ("s3://bucket/x", "no-rights", "AccessDenied", "rights"),
    ]
    for number, (url, key, code, remedy) in enumerate(cases):
        for words in (["restore", "--data", f"{root}/refused{number}"], ["attach"]):
            begun = time.time()
            got = hive(*words, "--from", url, *options_of(endpoint, key))
            assert got.returncode == 1 and code in got.stderr and remedy in got.stderr, got
            assert time.time() - begun < 20, "what no retry mends was tried for long"
        assert not os.path.exists(f"{root}/refused{number}")
    for words in (["restore", "--data", f"{root}/refused"], ["attach"]):
        got = hive(*words, "--from", "s3://bucket/x", *options_of("http://127.0.0.1:1"))
        assert got.returncode == 1 and "check the endpoint" in got.stderr, got
        got = hive(*words, "--from", "s3://bucket/nothing-there", *options_of(endpoint))
        assert got.returncode == 1 and "holds no node's data" in got.stderr, got
        got = hive(*words, "--from", "ftp://x")
        assert got.returncode == 1 and "s3://BUCKET/PREFIX" in got.stderr, got
        got = hive(*words, "--from", f"file://{root}/none")
        assert got.returncode == 1 and "holds no node's data" in got.stderr, got
    assert not os.path.exists(f"{root}/refused") and not os.path.exists(f"{root}/none")
    print("ok: missing buckets, unknown and wrong keys, no rights, dead endpoints and empty places are refused with their remedies")


def refused_nodes(root, endpoint):
    """A node whose bucket refuses it does not start with it, and says why; the next start, mended, goes on."""
    for number, (key, code) in enumerate([("unknown-key", "InvalidAccessKeyId"), ("reads-only", "AccessDenied")]):
        node = Node(root, f"refused-node{number}", "s3://bucket/refused", endpoint, (key, "testing"))
        node.start()
        until(f"{key} is refused", lambda: node.process.poll() is not None)
        log = open(f"{node.home}/log").read()
        assert code in log and ("rights" in log or "give the right access key" in log), log[-2000:]
        text = open(node.config).read()
        with open(node.config, "w") as out:
            out.write(text.replace(key, "testing"))
        node.start()
        node.ready()
        node.kill()
    print("ok: nodes whose bucket refuses them end and say why, and go on once that is mended")


def newer_format(root, client, endpoint):
    """What a newer build wrote is not guessed at."""
    names = [found["Key"] for found in client.list_objects_v2(Bucket="bucket", Prefix="world/")["Contents"]]
    owner = next(name for name in names if name.endswith("/owner"))
    text = client.get_object(Bucket="bucket", Key=owner)["Body"].read().decode()
    client.put_object(Bucket="bucket", Key="newer/" + owner.split("/")[1] + "/owner", Body=text.replace("format=2", "format=99").encode())
    for words in (["restore", "--data", f"{root}/newer"], ["attach"]):
        got = hive(*words, "--from", "s3://bucket/newer", *options_of(endpoint))
        assert got.returncode == 1 and "format 99" in got.stderr, got
    assert not os.path.exists(f"{root}/newer")
    print("ok: a newer format is refused")


def main():
    root = tempfile.mkdtemp(prefix="hive-object-")
    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # A line a request otherwise.
    moto = ThreadedMotoServer(ip_address="127.0.0.1", port=free_port())
    moto.start()
    Between.target = moto.get_host_and_port()
    between = http.server.ThreadingHTTPServer(("127.0.0.1", free_port()), Between)
    threading.Thread(target=between.serve_forever, daemon=True).start()
    endpoint = f"http://127.0.0.1:{between.server_port}"
    try:
        import boto3
        client = boto3.client("s3", endpoint_url="http://%s:%s" % Between.target, aws_access_key_id="testing",
                              aws_secret_access_key="testing", region_name="us-east-1")
        client.create_bucket(Bucket="bucket")
        Between.faults = False
        refusals(root, endpoint)
        refused_nodes(root, endpoint)
        Between.faults = True
        lives_on(root, "s3://bucket/world", endpoint, options_of(endpoint))
        print(f"{Between.requests} requests went through, {REFUSED_PERCENT} % of them refused or their answers lost")
        newer_format(root, client, endpoint)
        fenced(root, "s3://bucket/fenced", endpoint, options_of(endpoint))
        lives_on(tempfile.mkdtemp(dir=root), f"file://{root}/place", "", [])
    finally:
        moto.stop()
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
