"""Backups of real worlds: `hive backup` as an operator runs it, against `hive dev`. Run by scripts/backup.sh.

Always: what was restored is compared, key by key, with what the source holds at the backup's stamp. Ends only processes it started.
Not here: every bad input (tests of crates/edge-backup)."""

import argparse
import base64
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "etcd_clients"))
import world as worlds  # noqa: E402

CASES = []
KEYS = 3_000
VALUE_BYTES = 6_000
COMMAND_TIMEOUT_S = 180
# A throttle that makes a backup of KEYS keys take long enough to be stopped in the middle.
SLOW_MB = 2
# Writes that are under way before something is done to them.
WRITES_WAITED = 100
RULE = "size=3 location=world failure_domain=chassis"


def case(name):
    def register(run):
        CASES.append((name, run))
        return run
    return register


def check(true, *what):
    if not true:
        raise AssertionError(" ".join(str(part) for part in what))


def data(item, name):
    if name in item:
        return item[name].encode()
    return base64.b64decode(item[name + "_base64"])


class Here:
    def __init__(self, hive, folder, world):
        self.hive, self.folder, self.world = os.path.abspath(hive), folder, world
        self.environment = {**os.environ, "HIVE_BACKUP_KEY": os.path.join(folder, "backup.key")}

    def endpoints(self, world=None):
        return ",".join(node["http"] for node in (world or self.world).ready["nodes"])

    def path(self, name):
        return os.path.join(self.folder, name)

    def start(self, *words, world=None):
        command = [self.hive, *words]
        environment = {**self.environment, "HIVE_ENDPOINT": self.endpoints(world)}
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)

    def run(self, *words, world=None, fails=False):
        """A command's standard output; where it must fail, its standard error."""
        process = self.start(*words, world=world)
        out, error = process.communicate(timeout=COMMAND_TIMEOUT_S)
        check((process.returncode != 0) == fails, "hive", *words, "ended with", process.returncode, out, error)
        return error if fails else out

    def backup(self, *words, world=None):
        return json.loads(self.run("backup", *words, "--json", world=world))

    def act(self, world=None, **action):
        """An action, through nodes in turn until one answers."""
        until = time.monotonic() + 60
        while True:
            for node in (world or self.world).ready["nodes"]:
                request = urllib.request.Request(node["http"], data=json.dumps(action).encode())
                try:
                    with urllib.request.urlopen(request, timeout=25) as answer:
                        return json.load(answer)
                except urllib.error.HTTPError as error:
                    answer = json.load(error)
                    if not answer["error"]["retryable"]:
                        raise AssertionError(answer)
                except OSError:
                    pass
            check(time.monotonic() < until, "no node answers", action["action"])
            time.sleep(0.2)

    def content(self, keyspace, world=None, at=None, pin=0, prefix=""):
        """All keys and values, at a stamp or now."""
        found, after = {}, {}
        while True:
            stamp = {} if at is None else {"at": at, "pin": pin}
            page = self.act(world=world, action="KvScan", keyspace=keyspace, limit=10_000, prefix=prefix, **stamp, **after)
            for item in page["entries"]:
                found[data(item, "key")] = data(item, "value")
            name = "next" if page.get("next") is not None else "next_base64"
            if page.get(name) is None:
                return found
            after = {name.replace("next", "start_after"): page[name]}

    def load(self, keyspace, keys, value_bytes, seed=1):
        """Keys through `hive load`; half of the values are no UTF-8."""
        draw, path = random.Random(seed), self.path(f"{keyspace}.jsonl")
        with open(path, "w") as file:
            for number in range(keys):
                value = draw.randbytes(value_bytes)
                fields = {"value_base64": base64.b64encode(value).decode()} if number % 2 else {"value": value.hex()[:value_bytes]}
                file.write(json.dumps({"key": f"{number % 10}/{number:08}", **fields}) + "\n")
        self.run("load", path, "--keyspace", keyspace, "--json")
        os.remove(path)


class Writes:
    """Puts and deletes that continue while something else happens."""

    def __init__(self, here, keyspace):
        self.here, self.keyspace, self.count, self.over = here, keyspace, 0, threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)

    def run(self):
        draw = random.Random(7)
        while not self.over.is_set():
            number = draw.randrange(KEYS)
            key = f"{number % 10}/{number:08}"
            if self.count % 5 == 0:
                self.here.act(action="KvDelete", keyspace=self.keyspace, key=key)
            else:
                self.here.act(action="KvPut", keyspace=self.keyspace, key=key, value=f"later {self.count}")
            self.count += 1

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join(60)

    def wait(self, count=WRITES_WAITED):
        """Until so many more were answered."""
        wanted, until = self.count + count, time.monotonic() + 60
        while self.count < wanted:
            check(time.monotonic() < until and self.thread.is_alive(), "writes stopped after", self.count)
            time.sleep(0.02)


@case("a backup is of one instant while writes continue, and is restored beside")
def instant(here):
    here.act(action="CreateKeyspace", keyspace="shop", kind="versioned", rule=RULE)
    here.load("shop", KEYS, VALUE_BYTES)
    with Writes(here, "shop") as writes:
        made = here.backup("create", here.path("full"), "--keyspace", "shop", "--rate", str(SLOW_MB * 3))
    check(writes.count > 20, "only", writes.count, "writes during the backup")
    check(made["parts"] > 1 and made["entries"] > KEYS * 9 // 10, made)
    here.keys = made["entries"]
    verified = here.backup("verify", here.path("full"))
    check(verified["ok"] and verified["backup"] == made["backup"], verified)
    restored = here.backup("restore", here.path("full"), "--as", "shop-then")
    check(restored["written"] == here.keys, restored)
    then = here.content("shop", at=made["stamp"])
    check(here.content("shop-then") == then, "the restored keyspace is not what the stamp holds")
    check(then != here.content("shop"), "the writes changed nothing")
    check(here.act(action="KvDescribe", keyspace="shop")["pins"] == 0, "the pin stayed")
    refused = here.run("backup", "restore", here.path("full"), "--as", "shop-then", fails=True)
    check("holds keys" in refused, refused)
    check("a whole backup" in here.run("backup", "create", here.path("full"), "--keyspace", "shop", fails=True))


def stop_in_the_middle(process, folder):
    """kill -9 of a command when its backup has a part that is noted."""
    until = time.monotonic() + 60
    while True:
        check(process.poll() is None and time.monotonic() < until, "the backup ended too early", process.poll())
        try:
            with open(os.path.join(folder, "unfinished.jsonl")) as file:
                if len(file.readlines()) > 1:
                    break
        except FileNotFoundError:
            pass
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=20)


@case("a killed backup continues at its instant, after a compaction and a killed leader")
def killed(here):
    folder = here.path("stopped")
    words = ["backup", "create", folder, "--keyspace", "shop"]
    stop_in_the_middle(here.start(*words, "--rate", str(SLOW_MB)), folder)
    check("unfinished" in here.run("backup", "verify", folder, fails=True))
    check("unfinished" in here.run("backup", "restore", folder, "--as", "never", fails=True))
    with open(os.path.join(folder, "unfinished.jsonl")) as file:
        stamp = json.loads(file.readline())["instant"]["stamp"]
    here.act(action="KvPin", keyspace="shop", pin=1, stamp=stamp, keep_ms=600_000)
    before = here.content("shop", at=stamp, pin=1)
    with Writes(here, "shop") as writes:
        writes.wait()
        here.act(action="KvCompact", keyspace="shop", stamp=here.act(action="KvDescribe", keyspace="shop")["stamp"])
        leader = here.act(action="DescribeCluster", name="versioned@ks-shop-0")
        process = here.start(*words, "--rate", str(SLOW_MB * 3), "--json")
        time.sleep(0.5)
        node = leader["leader"] if isinstance(leader.get("leader"), int) else here.world.ready["nodes"][0]["id"]
        killed_process = here.world.kill(node)
        out, error = process.communicate(timeout=COMMAND_TIMEOUT_S)
        check(process.returncode == 0, "the continued backup ended with", process.returncode, out, error)
    made = json.loads(out)
    check(made["stamp"] == stamp and made["parts_kept"] >= 1 and made["not_continued"] is None, made)
    here.backup("restore", folder, "--as", "shop-stopped")
    check(here.content("shop-stopped") == before, "the continued backup is not what its stamp held")
    here.act(action="KvUnpin", keyspace="shop", pin=1)
    here.world.wait_back(node, killed_process)
    here.world.ready = here.world.now()


@case("a killed restore is resumed; in place and by prefix a keyspace becomes what it was")
def restored(here):
    process = here.start("backup", "restore", here.path("full"), "--as", "shop-again", "--rate", str(SLOW_MB))
    until = time.monotonic() + 60
    while True:
        try:
            if here.content("shop-again", prefix="0/"):
                break
        except AssertionError:
            pass
        check(time.monotonic() < until, "the restore wrote nothing")
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=20)
    resumed = here.backup("restore", here.path("full"), "--as", "shop-again", "--resume")
    check(resumed["unchanged"] > 0 and resumed["unchanged"] + resumed["written"] == here.keys, resumed)
    wanted = here.content("shop-then")
    check(here.content("shop-again") == wanted, "the resumed restore differs")
    with Writes(here, "shop-again") as writes:
        writes.wait()
    here.act(action="KvPut", keyspace="shop-again", key="0/extra", value="x")
    check("--yes" in here.run("backup", "restore", here.path("full"), "--in-place=shop-again", fails=True))
    part = here.backup("restore", here.path("full"), "--in-place=shop-again", "--prefix", "0/", "--yes")
    check(part["deleted"] >= 1, part)
    check(here.content("shop-again", prefix="0/") == here.content("shop-then", prefix="0/"), "the prefix differs")
    check(here.content("shop-again") != wanted, "more than the prefix was restored")
    here.backup("restore", here.path("full"), "--in-place=shop-again", "--yes")
    check(here.content("shop-again") == wanted, "the keyspace is not what it was")


@case("increments hold what changed, and are restored with their base")
def increments(here):
    with Writes(here, "shop") as writes:
        writes.wait()
    here.act(action="KvPut", keyspace="shop", key="new", value="n")
    one = here.backup("create", here.path("one"), "--keyspace", "shop", "--base", here.path("full"))
    check(0 < one["entries"] < KEYS and one["deletions"] > 0, one)
    two = here.backup("create", here.path("two"), "--keyspace", "shop", "--base", here.path("one"))
    check(two["entries"] == 0, two)
    check(here.backup("verify", here.path("two"))["chain"] == 3)
    here.backup("restore", here.path("two"), "--as", "shop-two")
    check(here.content("shop-two") == here.content("shop", at=two["stamp"]), "the chain is not what the stamp holds")
    states = {os.path.basename(found["dir"]): found["state"] for found in here.backup("list", here.folder)["backups"]}
    check(states["full"] == states["one"] == states["two"] == "whole", states)


@case("a keyspace is restored into another world")
def elsewhere(here):
    folder = here.path("other")
    os.mkdir(folder)
    other = worlds.World(here.hive, folder, here.base_port + 50, nodes=1)
    try:
        here.backup("restore", here.path("full"), "--as", "shop", "--rule", "size=1 location=world failure_domain=chassis", world=other)
        check(here.content("shop", world=other) == here.content("shop-then"), "the other world's keyspace differs")
    finally:
        other.stop()


@case("a plain keyspace over several clusters has no instant, and comes back")
def plain(here):
    here.act(action="CreateKeyspace", keyspace="carts", rule=RULE, partitions=6, clusters=3)
    here.load("carts", KEYS // 3, 2_000, seed=2)
    made = here.backup("create", here.path("plain"), "--keyspace", "carts")
    with open(os.path.join(here.path("plain"), "manifest.json")) as file:
        check(json.load(file)["instant"] is None)
    check("no one instant" in here.run("backup", "verify", here.path("plain")))
    restored = here.backup("restore", here.path("plain"), "--as", "carts-then")
    check(restored["written"] == made["entries"] == KEYS // 3, restored)
    check(here.content("carts-then") == here.content("carts"), "the restored keyspace differs")
    check("increments are of versioned" in here.run("backup", "create", here.path("x"), "--keyspace", "carts", "--base", here.path("plain"), fails=True))
    here.act(action="CreateKeyspace", keyspace="sets", kind="redis", rule=RULE)
    check("cannot be backed up" in here.run("backup", "create", here.path("x"), "--keyspace", "sets", fails=True))


@case("a backup lies in a bucket, is stopped and continued there, and is restored from it")
def bucket(here):
    keys = here.world.ready["s3"]
    here.act(action="CreateBucket", bucket="backups", account="dev")
    here.environment.update({
        "AWS_ACCESS_KEY_ID": keys["access_key"], "AWS_SECRET_ACCESS_KEY": keys["secret_key"], "AWS_REGION": keys["region"],
        "AWS_ENDPOINT": here.world.ready["nodes"][0]["s3"], "AWS_ALLOW_HTTP": "true",
    })
    words = ["backup", "create", "s3://backups/of/shop", "--keyspace", "shop"]
    process = here.start(*words, "--rate", "1")
    until = time.monotonic() + 60
    while here.backup("list", "s3://backups/of")["backups"] == [] and time.monotonic() < until:
        time.sleep(0.1)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=20)
    listed = here.backup("list", "s3://backups/of")["backups"]
    check([found["state"] for found in listed] == ["unfinished"], listed)
    check("unfinished" in here.run("backup", "verify", "s3://backups/of/shop", fails=True))
    made = here.backup(*words[1:])
    check(here.backup("verify", "s3://backups/of/shop")["backup"] == made["backup"])
    one = here.backup("create", "s3://backups/of/shop-later", "--keyspace", "shop", "--base", "s3://backups/of/shop")
    here.backup("restore", "s3://backups/of/shop-later", "--as", "shop-bucket")
    check(here.content("shop-bucket") == here.content("shop", at=one["stamp"]), "what came from the bucket differs")


@case("damaged, newer and foreign backups are refused before anything is written")
def damaged(here):
    folder = here.path("full")
    part, manifest = os.path.join(folder, "part-000002"), os.path.join(folder, "manifest.json")
    for path, change in [
        (part, lambda good: good[:-1]), (part, lambda good: good[:900] + bytes([good[900] ^ 4]) + good[901:]),
        (manifest, lambda good: good.replace(b'"format": 1', b'"format": 7')),
        (manifest, lambda good: good.replace(b'"keyspace"', b'"Keyspace"')),
    ]:
        with open(path, "rb") as file:
            good = file.read()
        try:
            with open(path, "wb") as file:
                file.write(change(good))
            here.run("backup", "verify", folder, fails=True)
            here.run("backup", "restore", folder, "--as", "never", fails=True)
        finally:
            with open(path, "wb") as file:
                file.write(good)
    stranger = here.run("backup", "restore", folder, "--as", "never", "--sign-key", here.path("stranger.key"), fails=True)
    check("nobody here trusts" in stranger, stranger)
    names = [found["name"] for found in here.act(action="ListKeyspaces")["keyspaces"]]
    check("never" not in names, names)
    here.backup("verify", folder)
    public = here.run("backup", "key")
    with open(here.path("signer.pub"), "w") as file:
        file.write(public)
    here.backup("verify", folder, "--sign-key", here.path("stranger.key"), "--trust", here.path("signer.pub"))
    command = ["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", here.path("signer.pub"), "-rawin", "-in", manifest, "-sigfile", os.path.join(folder, "manifest.sig")]
    try:
        check(subprocess.run(command, capture_output=True).returncode == 0, "openssl does not verify the signature")
    except FileNotFoundError:
        print("       openssl is not installed: its verification is skipped", flush=True)


def measure(here, megabytes):
    """Values of 10 kB that hardly compress, in one versioned keyspace of three members."""
    here.act(action="CreateKeyspace", keyspace="big", kind="versioned", rule=RULE)
    start = time.monotonic()
    here.load("big", megabytes * 100, 10_000)
    print(f"loaded {megabytes} MB in {time.monotonic() - start:.0f} s", flush=True)
    for what, words in [
        ("backup", ["create", here.path("big"), "--keyspace", "big"]), ("verify", ["verify", here.path("big")]),
        ("restore", ["restore", here.path("big"), "--as", "big-then"]),
    ]:
        done = here.backup(*words)
        print(f"{what}: {done['bytes'] / 1e6:.0f} MB in {done['seconds']:.1f} s, {done['bytes'] / 1e6 / done['seconds']:.0f} MB/s", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--hive", required=True)
    parser.add_argument("--base-port", type=int, default=36000)
    parser.add_argument("--only", default="")
    parser.add_argument("--measure", type=int)
    options = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory(prefix="hive-backup-", ignore_cleanup_errors=True) as folder:
        world = worlds.World(options.hive, folder, options.base_port)
        try:
            here = Here(options.hive, folder, world)
            here.base_port = options.base_port
            if options.measure:
                measure(here, options.measure)
                return
            # All build on what the first one makes.
            for name, run in [known for known in CASES if known[1] is instant or options.only in known[0]]:
                start = time.monotonic()
                try:
                    run(here)
                    print(f"ok     {name} ({time.monotonic() - start:.1f} s)", flush=True)
                except Exception as error:  # noqa: BLE001
                    failed += 1
                    print(f"FAILED {name}: {error!r}", flush=True)
        finally:
            world.stop()
    print("all passed" if not failed else f"{failed} failed", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
