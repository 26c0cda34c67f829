"""Unmodified clients of etcd at a world of Hive, through different nodes: etcdctl, etcd's Go client, Python's etcd3gw and etcd3. The
leader is killed (kill -9) while the Go client works. Run by scripts/etcd-clients.sh.

Not here: etcd's own tests (scripts/doors.sh)."""

import argparse
import base64
import collections
import concurrent.futures
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import world as worlds  # noqa: E402

# Longer than the Go client's cases may take.
GO_TIMEOUT_S = 60
CALL_TIMEOUT_S = 30
KILL_AFTER_S = 3
# Calls of the case of many namespaces, at a time.
MANY_AT_A_TIME = 8
CONFIGURED = "node.toml: automatic compaction, a listener of a namespace"
SECURE = "etcdctl: users and roles in a world with TLS"

CASES = []


def case(name, only_if=None):
    def register(run):
        CASES.append((name, only_if, run))
        return run
    return register


def check(holds, *shown):
    if not holds:
        raise AssertionError(" ".join(str(part) for part in shown))


class Here:
    def __init__(self, world, tools, python3gw, python3, folder, base_port, namespaces):
        self.world, self.tools, self.python3gw, self.python3 = world, tools, python3gw, python3
        self.folder, self.base_port, self.namespaces = folder, base_port, namespaces
        self.etcdctl_path = os.path.join(tools, "etcdctl")

    def endpoint(self, node):
        return self.world.endpoints[node % len(self.world.endpoints)].removeprefix("http://")

    def command(self, *words, node=0):
        return [self.etcdctl_path, "--endpoints", self.endpoint(node), "--command-timeout", "10s", *words]

    def etcdctl(self, *words, node=0, given=None, fails=False):
        """What etcdctl writes, to one node; with fails: what it writes as the error."""
        done = subprocess.run(self.command(*words, node=node), input=given, capture_output=True, text=True, timeout=CALL_TIMEOUT_S)
        check((done.returncode != 0) == fails, "etcdctl", *words, "ended with", done.returncode, done.stdout, done.stderr)
        return done.stderr if fails else done.stdout

    def json(self, *words, node=0):
        return json.loads(self.etcdctl(*words, "-w", "json", node=node))

    def wait_for(self, process, text):
        """Reads lines of a process until one has the text."""
        seen = []
        timer = threading.Timer(CALL_TIMEOUT_S, process.kill)
        timer.start()
        try:
            for line in process.stdout:
                seen.append(line)
                if text in line:
                    return seen
        finally:
            timer.cancel()
        raise AssertionError(f"no line with {text!r} within {CALL_TIMEOUT_S} s: {seen}")

    def started(self, *words, node=0):
        return subprocess.Popen(self.command(*words, node=node), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def ended(process):
    process.kill()
    process.wait()
    process.stdout.close()
    process.stdin.close()


@case("etcdctl: put, get, del, ranges, through all nodes")
def keys(here):
    for i in range(5):
        check(here.etcdctl("put", f"ctl/{i}", f"v{i}", node=i) == "OK\n")
    check(here.etcdctl("get", "ctl/", "--prefix", "--keys-only", node=1).split() == [f"ctl/{i}" for i in range(5)])
    check(here.etcdctl("get", "ctl/1", "ctl/4", "--print-value-only", node=2).split() == ["v1", "v2", "v3"])
    newest_first = here.json("get", "ctl/", "--prefix", "--limit", "2", "--sort-by", "MODIFY", "--order", "DESCEND", node=1)
    check(len(newest_first["kvs"]) == 2 and newest_first["more"] and newest_first["count"] == 5, newest_first)
    revision = newest_first["header"]["revision"]
    check(here.etcdctl("del", "ctl/3", "--from-key", "--prev-kv", node=1).split() == ["2", "ctl/3", "v3", "ctl/4", "v4"])
    check(here.etcdctl("get", "ctl/4", "--rev", str(revision), "--print-value-only", node=2) == "v4\n")


@case("etcdctl: txn, both branches")
def txn(here):
    here.etcdctl("put", "txn", "a")
    text = 'value("txn") = "a"\nversion("txn") = "1"\n\nput txn b\nget txn\n\nget txn\n\n'
    check(here.etcdctl("txn", given=text, node=1).split() == ["SUCCESS", "OK", "txn", "b"])
    check(here.etcdctl("txn", given=text, node=2).split() == ["FAILURE", "txn", "b"])


@case("etcdctl: watch from a revision, with previous values")
def watch(here):
    begin = here.json("put", "watch/a", "1")["header"]["revision"]
    watcher = here.started("watch", "watch/", "--prefix", "--rev", str(begin), "--prev-kv", node=1)
    try:
        here.wait_for(watcher, "1")
        here.etcdctl("put", "watch/a", "2", node=2)
        here.etcdctl("del", "watch/a", node=0)
        seen = "".join(here.wait_for(watcher, "DELETE"))
        check("PUT\nwatch/a\n1\nwatch/a\n2\n" in seen, seen)
    finally:
        ended(watcher)


@case("etcdctl: lease with keys, kept alive, revoked, expired")
def lease(here):
    lease = here.etcdctl("lease", "grant", "3").split()[1]
    here.etcdctl("put", "leased", "x", "--lease", lease, node=1)
    keeper = here.started("lease", "keep-alive", lease, node=2)
    try:
        until = time.monotonic() + 5
        here.wait_for(keeper, "keepalived")
        while time.monotonic() < until:
            here.wait_for(keeper, "keepalived")
        shown = here.etcdctl("lease", "timetolive", lease, "--keys", node=1)
        check("leased" in shown and "granted with TTL(3s)" in shown, shown)
    finally:
        ended(keeper)
    check(lease in here.etcdctl("lease", "list"))
    other = here.etcdctl("lease", "grant", "60").split()[1]
    here.etcdctl("put", "revoked", "x", "--lease", other)
    here.etcdctl("lease", "revoke", other, node=1)
    check(here.etcdctl("get", "revoked", node=2) == "")
    until = time.monotonic() + 20
    while here.etcdctl("get", "leased") and time.monotonic() < until:
        time.sleep(0.3)
    check(here.etcdctl("get", "leased", node=1) == "", "the lease did not end")


@case("etcdctl: lock excludes, elect leads and resigns")
def lock(here):
    first = here.started("lock", "mutex", node=0)
    second = None
    try:
        here.wait_for(first, "mutex/")
        second = here.started("lock", "mutex", node=1)
        time.sleep(0.5)
        check(here.json("get", "mutex/", "--prefix")["count"] == 2)
        first.send_signal(2)
        here.wait_for(second, "mutex/")
        second.send_signal(2)
        leader = here.started("elect", "election", "one", node=2)
        try:
            here.wait_for(leader, "one")
            check("one" in here.etcdctl("get", "election/", "--prefix"))
        finally:
            leader.send_signal(2)
            leader.wait(CALL_TIMEOUT_S)
            ended(leader)
        check(here.etcdctl("get", "election/", "--prefix") == "")
    finally:
        ended(first)
        if second:
            ended(second)


@case("etcdctl: compaction, physical; what is older is refused")
def compaction(here):
    old = here.json("put", "compacted", "1")["header"]["revision"]
    new = here.json("put", "compacted", "2", node=1)["header"]["revision"]
    here.etcdctl("compaction", str(new), "--physical", node=2)
    check("required revision has been compacted" in here.etcdctl("get", "compacted", "--rev", str(old), fails=True))
    check("required revision has been compacted" in here.etcdctl("compaction", str(old), node=1, fails=True))
    check("future revision" in here.etcdctl("get", "compacted", "--rev", str(new + 1000), node=1, fails=True))
    check(here.etcdctl("get", "compacted", "--print-value-only", node=1) == "2\n")


@case("etcdctl: endpoint health, status, hashkv; members; alarms; defrag")
def maintenance(here):
    every = ",".join(here.endpoint(node) for node in range(3))
    run = lambda *words: subprocess.run([here.etcdctl_path, "--endpoints", every, *words], capture_output=True, text=True, timeout=CALL_TIMEOUT_S)  # noqa: E731
    for words in (["endpoint", "health"], ["endpoint", "status", "-w", "table"], ["alarm", "list"], ["defrag"]):
        done = run(*words)
        check(done.returncode == 0, *words, done.stdout, done.stderr)
    hashes = json.loads(run("endpoint", "hashkv", "-w", "json").stdout)
    check(len({shown["HashKV"]["hash"] for shown in hashes}) == 1, hashes)
    statuses = json.loads(run("endpoint", "status", "-w", "json").stdout)
    check(len({shown["Status"]["leader"] for shown in statuses}) == 1, statuses)
    for node in range(3):
        members = here.json("member", "list", node=node)["members"]
        urls = sorted(url for member in members for url in member["clientURLs"])
        check(urls == sorted(here.world.endpoints[:3]), node, members)


@case("etcdctl: snapshot; etcdutl restores it, and etcd serves the same keys, revisions and leases")
def snapshot(here):
    lease = here.etcdctl("lease", "grant", "300").split()[1]
    here.etcdctl("put", "snapshot/leased", "x", "--lease", lease)
    for i in range(40):
        here.etcdctl("put", f"snapshot/{i % 25:02}", f"v{i}", node=i)
    here.etcdctl("txn", given='version("snapshot/none") = "0"\n\nput snapshot/t2 b\nput snapshot/t1 a\n\n\n')
    here.etcdctl("put", "snapshot/large", given="l" * 1_000_000)
    here.etcdctl("put", "snapshot/gone", "x")
    revision = here.json("del", "snapshot/gone", node=1)["header"]["revision"]
    path, data = os.path.join(here.folder, "snapshot.db"), os.path.join(here.folder, "restored")
    here.etcdctl("snapshot", "save", path, node=2)
    etcdutl = lambda *words: subprocess.run([os.path.join(here.tools, "etcdutl"), "snapshot", *words], capture_output=True, text=True, timeout=CALL_TIMEOUT_S)  # noqa: E731
    status = etcdutl("status", path, "-w", "json")
    check(status.returncode == 0, status.stdout, status.stderr)
    ours = here.json("get", "", "--prefix", "--rev", str(revision), node=1)
    check(json.loads(status.stdout)["totalKey"] == ours["count"], status.stdout, ours["count"])
    done = etcdutl("restore", path, "--data-dir", data)
    check(done.returncode == 0, done.stdout, done.stderr)
    client, peer = (f"http://127.0.0.1:{here.base_port + port}" for port in (980, 981))
    command = [os.path.join(here.tools, "etcd"), "--data-dir", data, "--listen-client-urls", client, "--advertise-client-urls", client, "--listen-peer-urls", peer]
    with open(os.path.join(here.folder, "restored.log"), "w") as log:
        etcd = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        there = lambda *words: subprocess.run([here.etcdctl_path, "--endpoints", client, *words, "-w", "json"], capture_output=True, text=True, timeout=CALL_TIMEOUT_S)  # noqa: E731
        until = time.monotonic() + CALL_TIMEOUT_S
        while there("endpoint", "health").returncode != 0 and time.monotonic() < until:
            time.sleep(0.2)
        theirs = json.loads(there("get", "", "--prefix").stdout)
        check(theirs["kvs"] == ours["kvs"], "the keys differ", theirs["kvs"][:3], ours["kvs"][:3])
        check(theirs["header"]["revision"] == revision, theirs["header"], revision)
        shown = json.loads(there("lease", "timetolive", lease, "--keys").stdout)
        check(shown["granted-ttl"] == 300 and len(shown["keys"]) == 1, shown)
        check(json.loads(there("put", "after", "1").stdout)["header"]["revision"] == revision + 1)
        check(there("get", "snapshot/00", "--rev", str(revision - 1)).returncode != 0)
    finally:
        etcd.kill()
        etcd.wait()


@case("etcdctl: a user picks a namespace")
def namespaces(here):
    here.world.act(action="CreateKeyspace", keyspace="other", kind="versioned", rule="size=3 location=world failure_domain=chassis")
    there = ("--user", "any@other:any")
    check(here.etcdctl(*there, "put", "only-here", "x", node=1) == "OK\n")
    check(here.etcdctl(*there, "get", "only-here", "--print-value-only", node=2) == "x\n")
    check(here.etcdctl("get", "only-here", node=1) == "")


@case("JSON gateway: many namespaces, each an etcd of its own, led by all nodes")
def many_namespaces(here):
    names = [f"many-{i:05}" for i in range(here.namespaces)]

    def post(node, path, body, token=None):
        headers = {"Authorization": token} if token else {}
        request = urllib.request.Request(here.world.endpoints[node % 3] + path, data=json.dumps(body).encode(), headers=headers)
        with urllib.request.urlopen(request, timeout=CALL_TIMEOUT_S) as answer:
            return json.load(answer)

    def made(name):
        here.world.act(action="CreateKeyspace", keyspace=name, kind="versioned", rule="size=3 location=world failure_domain=chassis")

    def used(number):
        """One key in each, put through one node and read through another: the cluster, its leader, its revision."""
        token = post(number, "/v3/auth/authenticate", {"name": f"any@{names[number]}", "password": "any"})["token"]
        value = base64.b64encode(names[number].encode()).decode()
        put = post(number, "/v3/kv/put", {"key": "YQ==", "value": value}, token)
        token = post(number + 1, "/v3/auth/authenticate", {"name": f"any@{names[number]}", "password": "any"})["token"]
        got = post(number + 1, "/v3/kv/range", {"key": "AA==", "range_end": "AA=="}, token)
        check([kv["value"] for kv in got["kvs"]] == [value], names[number], got)
        status = post(number + 2, "/v3/maintenance/status", {}, post(number + 2, "/v3/auth/authenticate", {"name": f"any@{names[number]}", "password": "any"})["token"])
        return put["header"]["cluster_id"], status["leader"], put["header"]["revision"]

    with concurrent.futures.ThreadPoolExecutor(MANY_AT_A_TIME) as pool:
        list(pool.map(made, names))
        found = list(pool.map(used, range(len(names))))
    check(len({cluster for cluster, _, _ in found}) == len(names), "namespaces share a cluster")
    check({revision for _, _, revision in found} == {"2"}, "revisions are not each namespace's own")
    led = collections.Counter(leader for _, leader, _ in found)
    check(len(led) == 3 and min(led.values()) >= len(names) / 6, "the nodes lead", led)
    return f"{len(names)} namespaces, led by {dict(led)}"


@case("JSON and etcdctl: the same keys, KvWatch hears both")
def mixed_doors(here):
    begin = here.world.act(action="KvDescribe", keyspace="etcd")["stamp"]
    body = json.dumps({"action": "KvWatch", "keyspace": "etcd", "prefix": "mixed/", "since": str(begin)}).encode()
    request = urllib.request.Request(here.world.ready["nodes"][1]["http"], data=body)
    with urllib.request.urlopen(request, timeout=CALL_TIMEOUT_S) as stream:
        check(stream.headers["content-type"] == "application/x-ndjson", stream.headers)
        here.etcdctl("put", "mixed/a", "by etcd", node=2)
        check(here.world.act(action="KvGet", keyspace="etcd", key="mixed/a")["value"] == "by etcd")
        here.world.act(action="KvPut", keyspace="etcd", key="mixed/a", value="by JSON")
        check(here.etcdctl("get", "mixed/a", "--print-value-only", node=1) == "by JSON\n")
        here.etcdctl("del", "mixed/a", node=0)
        lines = [json.loads(stream.readline()) for _ in range(3)]
    stamps = [int(line["at"].split(".")[0]) for line in lines]
    check(stamps == sorted(stamps) and stamps[0] > begin, lines)
    check([line.get("value") for line in lines] == ["by etcd", "by JSON", None] and lines[2]["deleted"], lines)
    # From the position of the first line on: nothing twice, nothing left out.
    body = json.dumps({"action": "KvWatch", "keyspace": "etcd", "prefix": "mixed/", "since": lines[0]["at"]}).encode()
    request = urllib.request.Request(here.world.ready["nodes"][0]["http"], data=body)
    with urllib.request.urlopen(request, timeout=CALL_TIMEOUT_S) as stream:
        check([json.loads(stream.readline()) for _ in range(2)] == lines[1:])
    page = urllib.request.Request(here.world.endpoints[0] + "/v3/kv/range", data=b'{"key":"YQ=="}', headers={"Origin": "http://evil.example"})
    try:
        urllib.request.urlopen(page, timeout=CALL_TIMEOUT_S)
        raise AssertionError("a page of another site was answered")
    except urllib.error.HTTPError as refused:
        check(refused.code == 403, refused.code)


@case("etcd3gw: JSON gateway", only_if="python3gw")
def gateway(here):
    python(here, here.python3gw, "gateway.py")


@case("etcd3: Python over gRPC", only_if="python3")
def python_etcd3(here):
    python(here, here.python3, "grpc_client.py")


def python(here, interpreter, program):
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), program)
    done = subprocess.run([interpreter, path, *here.world.endpoints], capture_output=True, text=True, timeout=2 * CALL_TIMEOUT_S)
    check(done.returncode == 0, done.stdout, done.stderr[-3000:])


def under_kill(here, passed, failed):
    """The Go client's cases, with the leader killed meanwhile; then every key that etcdctl wrote is there still."""
    here.etcdctl("put", "before-the-kill", "x")
    leader = here.json("endpoint", "status")[0]["Status"]["leader"]
    with open(os.path.join(here.tools, "client.log"), "w") as log:
        client = subprocess.Popen([os.path.join(here.tools, "client"), ",".join(here.world.endpoints)], stdout=subprocess.PIPE, stderr=log, text=True)
    guard = threading.Timer(GO_TIMEOUT_S, client.kill)
    guard.start()
    killed, seen = [], 0
    killer = threading.Timer(KILL_AFTER_S, lambda: killed.append(here.world.kill(leader)))
    try:
        for line in client.stdout:
            shown = json.loads(line)
            if shown.get("begun"):
                killer.start()
                continue
            seen += 1
            tell(f"Go: {shown['case']}", shown["note"], shown["ok"], passed, failed)
    finally:
        guard.cancel()
        killer.cancel()
        client.wait(CALL_TIMEOUT_S)
    tell("Go: all cases ended, a leader was killed", f"node {leader}, exit code {client.returncode}", bool(killed) and seen > 0 and client.returncode == 0, passed, failed)
    try:
        for node in range(3):
            if node + 1 != leader:
                check(here.etcdctl("get", "before-the-kill", "--print-value-only", node=node) == "x\n")
        if killed:
            here.world.wait_back(leader, killed[0])
            check(here.etcdctl("get", "before-the-kill", "--print-value-only", node=leader - 1) == "x\n")
        tell("etcdctl: through all nodes after the kill", "", True, passed, failed)
    except (AssertionError, subprocess.TimeoutExpired) as error:
        tell("etcdctl: through all nodes after the kill", error, False, passed, failed)


def configured(here, folder):
    """node.toml: history goes by itself after two seconds, and a namespace has a listener of its own. Needs restarts, so it comes last."""
    ports = {node: here.base_port + 970 + node for node in (1, 2, 3)}
    # The kill of the case before was one; nodes are killed one after the other, so that two are always up.
    for node, port in ports.items():
        path = os.path.join(folder, "world", f"node-{node}", "node.toml")
        with open(path) as file:
            lines = file.read().splitlines()
        at = lines.index("[etcd]")
        lines.insert(at + 1, 'auto_compaction = "2s"')
        with open(path, "w") as file:
            file.write("\n".join(lines) + f'\n\n[[etcd.namespaces]]\nname = "picked"\nlisten = "127.0.0.1:{port}"\n')
        here.world.wait_back(node, here.world.kill(node))
    here.world.act(action="CreateKeyspace", keyspace="picked", kind="versioned", rule="size=3 location=world failure_domain=chassis")
    there = lambda node, *words: subprocess.run([here.etcdctl_path, "--endpoints", f"127.0.0.1:{ports[node]}", *words], capture_output=True, text=True, timeout=CALL_TIMEOUT_S)  # noqa: E731
    check(there(1, "put", "of-the-listener", "x").stdout == "OK\n")
    check(there(3, "get", "of-the-listener", "--print-value-only").stdout == "x\n")
    check(here.etcdctl("get", "of-the-listener") == "" and there(2, "get", "before-the-kill").stdout == "")
    urls = {url for member in json.loads(there(1, "member", "list", "-w", "json").stdout)["members"] for url in member["clientURLs"]}
    check(urls == {f"http://127.0.0.1:{port}" for port in ports.values()}, urls)
    old = here.json("put", "superseded", "1")["header"]["revision"]
    here.etcdctl("put", "superseded", "2", node=1)
    check(here.etcdctl("get", "superseded", "--rev", str(old), "--print-value-only", node=2) == "1\n", "it went before its time")
    until = time.monotonic() + CALL_TIMEOUT_S
    while time.monotonic() < until:
        done = subprocess.run(here.command("get", "superseded", "--rev", str(old)), capture_output=True, text=True, timeout=CALL_TIMEOUT_S)
        if "required revision has been compacted" in done.stderr:
            break
        time.sleep(0.3)
    check("required revision has been compacted" in done.stderr, "history stays", done.stdout, done.stderr)
    check(here.etcdctl("get", "superseded", "--print-value-only", node=1) == "2\n")


def attempt(name, run, passed, failed):
    begun = time.monotonic()
    try:
        note = run()
        tell(name, f"{time.monotonic() - begun:.1f} s{f', {note}' if note else ''}", True, passed, failed)
    except Exception as error:  # noqa: BLE001 (a case may fail by anything)
        tell(name, f"{type(error).__name__}: {error}", False, passed, failed)


def secure(here, folder, options):
    """A world that asks who comes (TLS, tokens): users and roles by etcdctl, and what they may do."""
    world = worlds.World(options.hive, folder, options.base_port, more=["--secure"])
    try:
        def ctl(user, *words, node=0, given=None, fails=False):
            who = ("--user", user) if user else ()
            command = [here.etcdctl_path, "--endpoints", world.endpoints[node], "--cacert", world.ready["ca"], *who, "--command-timeout", "10s", *words]
            done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=CALL_TIMEOUT_S)
            check((done.returncode != 0) == fails, *words, "ended with", done.returncode, done.stdout, done.stderr)
            return done.stderr if fails else done.stdout

        def known(what):
            """Nodes hear of a change of the directory within two seconds."""
            until = time.monotonic() + 10
            while True:
                try:
                    return what()
                except AssertionError:
                    if time.monotonic() > until:
                        raise
                    time.sleep(0.2)

        root, ann = f"root:{world.ready['token']}", "ann:a-long-password"
        ctl(None, "get", "a", fails=True)
        check("authentication failed" in ctl("root:wrong", "get", "a", fails=True))
        ctl(root, "put", "theirs/a", "1")
        ctl(root, "user", "add", ann, node=1)
        ctl(root, "role", "add", "app")
        ctl(root, "role", "grant-permission", "app", "--prefix=true", "readwrite", "app/", node=2)
        ctl(root, "user", "grant-role", "ann", "app", node=1)
        check("app/" in ctl(root, "role", "get", "app") and "app" in ctl(root, "user", "get", "ann", node=2).split())
        known(lambda: ctl(ann, "put", "app/a", "1", node=1))
        check(known(lambda: ctl(ann, "get", "app/", "--prefix", "--print-value-only", node=2)) == "1\n")
        for words in (["get", "theirs/a"], ["put", "theirs/a", "2"], ["del", "", "--prefix"], ["user", "list"]):
            check("permission denied" in ctl(ann, *words, node=1, fails=True), words)
        ctl(root, "put", "single", "1")
        ctl(root, "put", "singles", "1")
        ctl(root, "role", "grant-permission", "app", "read", "single")
        ctl(root, "role", "grant-permission", "app", "readwrite", "m", "p", node=1)
        shown = ctl(root, "role", "get", "app", node=2)
        check("single\n" in shown and "[m, p)" in shown, shown)
        check(known(lambda: ctl(ann, "get", "single", "--print-value-only", node=1)) == "1\n")
        known(lambda: ctl(ann, "put", "nn", "1", node=2))
        check(ctl(ann, "get", "m", "p", "--print-value-only", node=1) == "1\n")
        for words in (["get", "singles"], ["get", "single", "--prefix"], ["put", "single", "2"], ["put", "p", "1"], ["get", "m", "q"]):
            check("permission denied" in ctl(ann, *words, node=2, fails=True), words)
        ctl(root, "role", "revoke-permission", "app", "single", node=2)
        known(lambda: check("permission denied" in ctl(ann, "get", "single", node=1, fails=True)))
        # A user's own namespace: where it picks none.
        def hive(*words):
            at = ["--endpoint", world.ready["nodes"][0]["http"], "--ca", world.ready["ca"]]
            done = subprocess.run([options.hive, *words, *at], capture_output=True, text=True, timeout=CALL_TIMEOUT_S, env={**os.environ, "HIVE_TOKEN": world.ready["token"]})
            check(done.returncode == 0, words, done.stdout, done.stderr)
            return done.stdout

        hive("ctl", "namespace", "create", "team", "--rule", "size=3 location=world failure_domain=chassis")
        hive("role", "create", "team-writer", "--allow", "read,list,write,delete on kv/team")
        secret = os.path.join(folder, "password")
        with open(os.open(secret, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
            file.write("a-long-password")
        hive("user", "create", "bob", "--role", "team-writer", "--namespace", "team", "--password-file", secret)
        bob = "bob:a-long-password"
        known(lambda: ctl(bob, "put", "bobs", "1", node=1))
        check(ctl(bob, "get", "bobs", "--print-value-only", node=2) == "1\n")
        check(ctl("bob@team:a-long-password", "get", "bobs", "--print-value-only", node=2) == "1\n")
        check(ctl(root, "get", "bobs", node=1) == "", "it is in the namespace of the listener")
        check("permission denied" in ctl("bob@etcd:a-long-password", "get", "bobs", node=1, fails=True))
        hive("user", "set", "bob", "--no-namespace")
        known(lambda: check("permission denied" in ctl(bob, "get", "bobs", node=1, fails=True)))
        hive("user", "set", "bob", "--namespace", "team")
        check(known(lambda: ctl(bob, "get", "bobs", "--print-value-only", node=2)) == "1\n")
        # The secure world's nodes show that users changed.
        revision = lambda: json.loads(ctl(root, "auth", "status", "-w", "json"))["authRevision"]  # noqa: E731
        before = revision()
        hive("user", "set", "bob", "--no-namespace")
        known(lambda: check(revision() > before, "the auth revision does not grow"))
        hive("user", "set", "bob", "--namespace", "team")
        known(lambda: ctl(bob, "get", "bobs", node=2))
        check("team" in hive("ctl", "namespace", "list"))
        hive("ctl", "namespace", "delete", "team", "--yes")
        check("team" not in hive("ctl", "namespace", "list"))
        ctl(bob, "get", "bobs", node=1, fails=True)
        ctl(root, "user", "revoke-role", "ann", "app")
        known(lambda: check("permission denied" in ctl(ann, "get", "app/a", node=2, fails=True)))
        ctl(root, "user", "delete", "ann", node=2)
        known(lambda: check("authentication failed" in ctl(ann, "get", "app/a", node=1, fails=True)))
    finally:
        world.stop()


def tell(name, note, ok, passed, failed):
    (passed if ok else failed).append(name)
    print(f"{'ok  ' if ok else 'FAIL'} {name}{': ' if note else ''}{note}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--hive", required=True)
    parser.add_argument("--tools", required=True, help="where etcdctl and the Go client are")
    parser.add_argument("--python3gw", help="a python that has etcd3gw")
    parser.add_argument("--python3", help="a python that has etcd3")
    parser.add_argument("--base-port", type=int, default=29000)
    parser.add_argument("--only", default="")
    parser.add_argument("--namespaces", type=int, default=60, help="how many the case of many namespaces makes")
    options = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="etcd-clients-")
    passed, failed, world = [], [], None
    try:
        world = worlds.World(options.hive, folder, options.base_port)
        here = Here(world, options.tools, options.python3gw, options.python3, folder, options.base_port, options.namespaces)
        for name, only_if, run in CASES:
            if options.only not in name:
                continue
            if only_if and not getattr(options, only_if):
                print(f"skip {name}: no python has that package here", flush=True)
                continue
            attempt(name, lambda run=run: run(here), passed, failed)
        if options.only in "Go: ":
            under_kill(here, passed, failed)
        if options.only in CONFIGURED:
            attempt(CONFIGURED, lambda: configured(here, folder), passed, failed)
        world.stop()
        if options.only in SECURE:
            attempt(SECURE, lambda: secure(here, folder, options), passed, failed)
    finally:
        if world:
            world.stop()
        shutil.rmtree(folder, ignore_errors=True)
    print(f"etcd clients: {len(passed)} passed, {len(failed)} failed")
    sys.exit(1 if failed or not passed else 0)


if __name__ == "__main__":
    main()
