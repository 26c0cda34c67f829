"""Unmodified Redis clients at a world of Hive, through different nodes: Debian's redis-cli, redis-py, go-redis. The leader of the database's
cluster is killed (kill -9) while go-redis counts. Run by scripts/redis-clients.sh.

Not here: Redis' own tests."""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "etcd_clients"))
import library  # noqa: E402
import world as worlds  # noqa: E402
from library import check  # noqa: E402

# Longer than the Go client's cases may take.
GO_TIMEOUT_S = 60
CALL_TIMEOUT_S = 20
KILL_AFTER_S = 3
SECURE = "redis-cli: TLS, tokens, users and what they may do"

CASES = []


def case(name):
    def register(run):
        CASES.append((name, run))
        return run
    return register


class Here:
    def __init__(self, world, tools):
        self.world, self.tools = world, tools
        self.ports = [int(node["redis"].rsplit(":", 1)[1]) for node in world.ready["nodes"]]

    def cli(self, *words, node=0, given=None, fails=False):
        """What redis-cli prints, at one node; its errors are lines of what it prints, and with -e its exit code."""
        command = [os.path.join(self.tools, "redis-cli"), "-e", "-p", str(self.ports[node % len(self.ports)]), *words]
        done = subprocess.run(command, input=given, stdin=None if given else subprocess.DEVNULL, capture_output=True, text=True, timeout=CALL_TIMEOUT_S)
        check((done.returncode != 0) == fails, "redis-cli", *words, "ended with", done.returncode, done.stdout, done.stderr)
        return (done.stdout + done.stderr).rstrip("\n")


@case("redis-cli: first things to try")
def first(here):
    for node, words, wanted in [
        (0, ["set", "hello", "world"], "OK"), (2, ["get", "hello"], "world"),
        (1, ["incr", "cli:n"], "1"), (2, ["--no-raw", "incr", "cli:n"], "(integer) 2"),
        (0, ["-3", "--no-raw", "hset", "cli:h", "a", "1"], "(integer) 1"), (1, ["-3", "--no-raw", "hgetall", "cli:h"], '1# "a" => "1"'),
        (1, ["ping"], "PONG"),
    ]:
        answer = here.cli(*words, node=node)
        check(answer == wanted, *words, "was answered", repr(answer))
    check("ERR unknown command" in here.cli("nosuch", "x", fails=True))
    check(here.cli("-x", "set", "cli:large", given="l" * 900_000) == "OK" and here.cli("strlen", "cli:large", node=1) == "900000")
    check("redis_version:" in here.cli("info", "server"))


@case("redis-cli: commands of a pipe, in their order")
def pipe(here):
    given = "".join(f"SET cli:pipe:{n} {n}\n" for n in range(300)) + "GET cli:pipe:299\n"
    answers = here.cli(given=given, node=1).split("\n")
    check(answers == ["OK"] * 300 + ["299"], answers[-3:])
    check("replies: 300" in here.cli("--pipe", given="".join(f"SET cli:mass:{n} {n}\r\n" for n in range(300)), node=2))
    check(len(here.cli("--scan", "--pattern", "cli:mass:*").split()) == 300)


@case("JSON: the same keys, and a keyspace of its own by `user@database`")
def json_door(here):
    def say(*words, keyspace="redis"):
        return here.world.act(action="Redis", keyspace=keyspace, command=list(words))["reply"]
    here.cli("set", "cli:json", "by redis", node=2)
    check(say("GET", "cli:json") == "by redis" and say("SET", "cli:json", "by JSON") == "OK")
    check(here.cli("get", "cli:json", node=1) == "by JSON")
    here.world.act(action="CreateKeyspace", keyspace="other", kind="redis", rule="size=3 location=world failure_domain=chassis")
    there = ("--user", "any@other", "--pass", "any", "--no-auth-warning")
    check(here.cli(*there, "set", "only-here", "x", node=1) == "OK" and here.cli(*there, "get", "only-here", node=2) == "x")
    check(here.cli("get", "only-here") == "" and say("GET", "only-here", keyspace="other") == "x")
    kinds = {known["name"]: known["kind"] for known in here.world.act(action="ListKeyspaces")["keyspaces"]}
    check(kinds["redis"] == kinds["other"] == "redis", kinds)


@case("JSON and redis-cli: a plain keyspace is a database of strings")
def plain(here):
    here.world.act(action="CreateKeyspace", keyspace="shared", partitions=8, clusters=2, rule="size=3 location=world failure_domain=chassis")
    into = ["--user", "any@shared", "--pass", "any", "--no-auth-warning"]

    def ask(*words, node=0, fails=False):
        return here.cli(*into, *words, node=node, fails=fails)

    check(ask("set", "a", "1") == "OK" and here.world.act(action="KvGet", keyspace="shared", key="a")["value"] == "1")
    here.world.act(action="KvPut", keyspace="shared", key="b", value="41")
    check(ask("incr", "b", node=2) == "42" and ask("mget", "a", "b", "c", node=1) == "1\n42")
    check(ask("set", "b", "x", "nx") == "" and ask("getset", "b", "y", node=1) == "42" and ask("del", "a", "nosuch", node=2) == "1")
    for words in (["lpush", "l", "1"], ["set", "a", "1", "ex", "10"], ["rename", "b", "c"], ["publish", "c", "m"], ["-n", "1", "set", "a", "1"]):
        check("ERR" in ask(*words, fails=True), *words)
    # Programs that count through all nodes and both doors: none of them is lost.
    threads, times = [], 25
    for node in range(3):
        given = "INCR count\n" * times
        threads.append(threading.Thread(target=lambda node=node, given=given: here.cli(*into, given=given, node=node)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    value = here.world.act(action="KvGet", keyspace="shared", key="count")["value"]
    check(value == str(3 * times), "counted", value)
    check(sorted(ask("keys", "*").split()) == ["b", "count"])
    here.world.act(action="DeleteKeyspace", keyspace="shared")


def with_library(passed, failed, here, only):
    nodes = library.clients(here.ports)
    for name, run in library.CASES:
        if only in f"redis-py: {name}":
            attempt(f"redis-py: {name}", lambda run=run: run(*nodes), passed, failed)
    if only in "redis-py: databases":
        other = library.clients(here.ports[:1], db=3)[0]
        attempt("redis-py: databases", lambda: library.databases(*nodes, other), passed, failed)
    if only in "redis-py: RESP3":
        attempt("redis-py: RESP3", lambda: library.resp3(here.ports[1]), passed, failed)


def leader_of(world, keyspace):
    name = world.act(action="DescribeKeyspace", keyspace=keyspace)["keyspace"]["owners"][0]
    return world.act(action="DescribeCluster", name=name)["cluster"]["leader"]


def under_kill(here, passed, failed):
    """go-redis' cases, with the leader killed meanwhile; then what redis-cli wrote before is there through every node."""
    here.cli("set", "before-the-kill", "x")
    leader = leader_of(here.world, "redis")
    addresses = ",".join(f"127.0.0.1:{port}" for port in here.ports)
    with open(os.path.join(here.tools, "client.log"), "w") as log:
        client = subprocess.Popen([os.path.join(here.tools, "client"), addresses], stdout=subprocess.PIPE, stderr=log, text=True)
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
            tell(f"go-redis: {shown['case']}", shown["note"], shown["ok"], passed, failed)
    finally:
        guard.cancel()
        killer.cancel()
        client.wait(CALL_TIMEOUT_S)
    tell("go-redis: all cases ended, a leader was killed", f"node {leader}, exit code {client.returncode}", bool(killed) and seen > 0 and client.returncode == 0, passed, failed)

    def after():
        for node in range(3):
            if node + 1 != leader:
                check(here.cli("get", "before-the-kill", node=node) == "x")
        check(bool(killed), "no leader was killed")
        here.world.wait_back(leader, killed[0])
        check(here.cli("get", "before-the-kill", node=leader - 1) == "x")
        counts = {here.cli("get", "go:count", node=node) for node in range(3)}
        check(len(counts) == 1, counts)
    attempt("redis-cli: through all nodes after the kill", after, passed, failed)


def secure(folder, options):
    """A world that asks who comes (TLS, tokens)."""
    world = worlds.World(options.hive, folder, options.base_port, more=["--secure"])
    try:
        here = Here(world, options.tools)
        tls = ("--tls", "--cacert", world.ready["ca"], "--no-auth-warning")
        hive = [os.path.abspath(options.hive)]

        def ctl(*words):
            environment = dict(os.environ, HIVE_CA=world.ready["ca"], HIVE_ENDPOINT=world.ready["nodes"][0]["http"], HIVE_TOKEN=world.ready["token"])
            done = subprocess.run([*hive, *words], env=environment, capture_output=True, text=True, timeout=CALL_TIMEOUT_S)
            check(done.returncode == 0, *words, done.stdout, done.stderr)
            return done.stdout

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

        root = ("-a", world.ready["token"])
        check("NOAUTH" in here.cli(*tls, "get", "a", fails=True))
        check("WRONGPASS" in here.cli(*tls, "-a", "wrong", "get", "a", fails=True))
        check(here.cli(*tls, *root, "set", "theirs", "1") == "OK" and here.cli(*tls, *root, "get", "theirs", node=2) == "1")
        check(here.cli(*tls, "--user", "root", "--pass", world.ready["token"], "get", "theirs", node=1) == "1")
        ctl("user", "create", "ann", "--role", "writer on redis/redis/app:")
        token = next(word for word in ctl("token", "create", "ann").split() if word.startswith("hive_"))
        ann = ("--user", "ann", "--pass", token)
        check(known(lambda: here.cli(*tls, *ann, "set", "app:a", "1", node=1)) == "OK")
        check(known(lambda: here.cli(*tls, *ann, "get", "app:a", node=2)) == "1")
        for words in (["get", "theirs"], ["set", "theirs", "2"], ["mset", "app:a", "1", "theirs", "2"], ["dbsize"], ["flushall"], ["keys", "*"], ["publish", "c", "m"]):
            check("NOPERM" in here.cli(*tls, *ann, *words, node=1, fails=True), words)
        # Of one pipeline, what is allowed is done and the rest is refused.
        answers = here.cli(*tls, *ann, node=2, given="SET app:b 2\nGET theirs\nGET app:b\n").split()
        check(answers[:2] == ["OK", "NOPERM"] and answers[-1] == "2", answers)
        check(here.cli(*tls, *root, "get", "theirs", node=1) == "1")
        ctl("user", "delete", "ann")
        known(lambda: check("WRONGPASS" in here.cli(*tls, *ann, "get", "app:a", node=1, fails=True)))
        plain = here.cli("ping", fails=True)
        check("TLS" in plain or "closed" in plain or "reset" in plain, plain)
    finally:
        world.stop()


def attempt(name, run, passed, failed):
    begun = time.monotonic()
    try:
        run()
        tell(name, f"{time.monotonic() - begun:.1f} s", True, passed, failed)
    except Exception as error:  # noqa: BLE001 (a case may fail by anything)
        tell(name, f"{type(error).__name__}: {error}", False, passed, failed)


def tell(name, note, ok, passed, failed):
    (passed if ok else failed).append(name)
    print(f"{'ok  ' if ok else 'FAIL'} {name}{': ' if note else ''}{note}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--hive", required=True)
    parser.add_argument("--tools", required=True, help="where redis-cli and the Go client are")
    parser.add_argument("--base-port", type=int, default=30000)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="redis-clients-")
    passed, failed, world = [], [], None
    try:
        world = worlds.World(options.hive, folder, options.base_port)
        here = Here(world, options.tools)
        for name, run in CASES:
            if options.only in name:
                attempt(name, lambda run=run: run(here), passed, failed)
        with_library(passed, failed, here, options.only)
        if not os.path.exists(os.path.join(options.tools, "client")):
            print("skip go-redis: no go here", flush=True)
        elif options.only in "go-redis: ":
            under_kill(here, passed, failed)
        world.stop()
        if options.only in SECURE:
            attempt(SECURE, lambda: secure(folder, options), passed, failed)
    finally:
        if world:
            world.stop()
        shutil.rmtree(folder, ignore_errors=True)
    print(f"redis clients: {len(passed)} passed, {len(failed)} failed")
    sys.exit(1 if failed or not passed else 0)


if __name__ == "__main__":
    main()
