"""A node in moto's S3, killed and lost, comes back out of the bucket; wrong places are refused.

    HIVE=PROGRAM python3 restore.py        (needs moto; scripts/object.sh installs it)

The server between hive and moto delays every request and refuses some: no answer of it may lose anything.
"""

import contextlib
import http.client
import http.server
import json
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
WAIT_S = 60


class Between(http.server.BaseHTTPRequestHandler):
    """Passes requests on, late, and answers some with 503 itself: half of those after the request was done."""

    protocol_version = "HTTP/1.1"
    target = None
    faults = True
    chance = random.Random(7)
    requests = 0

    def log_message(self, *_):
        pass

    def handle_any(self):
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        Between.requests += 1
        time.sleep(LATENCY_S if Between.faults else 0)
        roll = Between.chance.uniform(0, 100) if Between.faults else 100
        if roll < REFUSED_PERCENT / 2:
            return self.answer(503, [], b"<Error><Code>SlowDown</Code></Error>")
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


def free_port():
    with contextlib.closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


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
        with open(self.config, "w") as out:
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
[place]
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


def lives_on(root, url, endpoint, options):
    first = Node(root, "first", url, endpoint)
    first.start()
    first.ready()
    first.ask(action="CreateKeyspace", keyspace="k", partition="hash", partitions=4, rule="size=1")
    for number in range(KEYS):
        first.ask(action="KvPut", keyspace="k", key=f"k{number}", value=f"v{number}", consistency="strong")
    time.sleep(6)  # Far more than the lag, latency and faults included: what is lost behind it is a failure.
    first.kill()
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
    for number in range(KEYS):
        got = first.ask(action="KvGet", keyspace="k", key=f"k{number}", read_consistency="strong")
        assert got.get("value") == f"v{number}", (number, got)
    takeover = time.time() - begun
    first.ask(action="KvPut", keyspace="k", key="more", value="1", consistency="strong")
    first.kill()
    print(f"ok: {KEYS} keys, {len(report['clusters'])} clusters came back from {url}; {takeover:.1f} s from nothing to all read")


def refusals(root, endpoint):
    cases = [
        ("s3://no-such-bucket/x", ("testing", "testing"), "NoSuchBucket", "make the bucket"),
    ]
    for number, (url, keys, code, remedy) in enumerate(cases):
        options = ["--option", f"endpoint={endpoint}", "--option", "region=us-east-1"]
        options += ["--option", f"access_key_id={keys[0]}", "--option", f"secret_access_key={keys[1]}"]
        got = hive("restore", "--from", url, "--data", f"{root}/refused{number}", *options)
        assert got.returncode == 1 and code in got.stderr and remedy in got.stderr, got
        assert not os.path.exists(f"{root}/refused{number}")
    nobody = ["--option", "endpoint=http://127.0.0.1:1", "--option", "access_key_id=a", "--option", "secret_access_key=b"]
    got = hive("restore", "--from", "s3://bucket/x", "--data", f"{root}/refused", *nobody)
    assert got.returncode == 1 and "check the endpoint" in got.stderr, got
    print("ok: a missing bucket and a dead endpoint are refused with their remedies")


def main():
    root = tempfile.mkdtemp(prefix="hive-object-")
    moto = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    moto.start()
    Between.target = moto.get_host_and_port()
    between = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Between)
    threading.Thread(target=between.serve_forever, daemon=True).start()
    endpoint = f"http://127.0.0.1:{between.server_port}"
    try:
        import boto3
        client = boto3.client("s3", endpoint_url="http://%s:%s" % Between.target, aws_access_key_id="testing",
                              aws_secret_access_key="testing", region_name="us-east-1")
        client.create_bucket(Bucket="bucket")
        options = ["--option", f"endpoint={endpoint}", "--option", "region=us-east-1"]
        options += ["--option", "access_key_id=testing", "--option", "secret_access_key=testing"]
        Between.faults = False
        refusals(root, endpoint)
        Between.faults = True
        lives_on(root, "s3://bucket/world", endpoint, options)
        print(f"{Between.requests} requests went through, {REFUSED_PERCENT} % of them refused or their answers lost")
        lives_on(tempfile.mkdtemp(dir=root), f"file://{root}/place", "", [])
    finally:
        moto.stop()
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
