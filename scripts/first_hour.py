"""What scripts/first-hour.sh runs: load a real tree of files, kill the leader, lose nothing.

    first_hour.py             the test
    first_hour.py data-set    only the data set, as JSON lines for `hive load`

Always: ends within LIMIT_S; ends only processes it started, by their ids; leaves no data behind.
Each check prints one line, `ok` or `FAILED`; the last line sums up; any failure makes the exit code 1.
"""
import base64
import ctypes
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

HIVE = os.path.abspath(os.environ.get("HIVE", "target/release/hive"))
BASE_PORT = int(os.environ.get("FIRST_HOUR_BASE_PORT", "28000"))
NODES = 5
LIMIT_S = 240
FILES_MAX = 20_000
HEAD_BYTES = 2048
# The first of these that exists is the data set.
TREES = ["/usr/share/doc", "/usr/share", "/usr/lib", "/etc"]
FILES_MIN = 200
KEYSPACE = "files"

passed, failed = 0, 0


def check(what, true, detail=""):
    global passed, failed
    passed, failed = passed + bool(true), failed + (not true)
    print(f"{'ok    ' if true else 'FAILED'} {what}" + (f": {detail}" if detail else ""), flush=True)
    return true


def say(text):
    print(f"       {text}", flush=True)


def text_or_base64(name, data):
    """A field as the API writes it: text where the bytes are UTF-8, base64 elsewhere."""
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {name + "_base64": base64.b64encode(data).decode()}


def bytes_of(item, name):
    if name in item:
        return item[name].encode()
    return base64.b64decode(item[name + "_base64"])


def files_of(tree):
    for directory, names, files in os.walk(os.fsencode(tree)):
        names.sort()
        for name in sorted(files):
            path = os.path.join(directory, name)
            if os.path.isfile(path) and not os.path.islink(path):
                yield path


def describe(path):
    """A file as a value: size, time, checksum and its first bytes."""
    with open(path, "rb") as file:
        content = file.read()
    told = {"size": len(content), "modified": int(os.stat(path).st_mtime), "sha256": hashlib.sha256(content).hexdigest()}
    told.update(text_or_base64("head", content[:HEAD_BYTES]))
    return json.dumps(told, sort_keys=True).encode()


def data_set():
    """Path -> description of every readable file of the first tree that has enough of them."""
    for tree in TREES:
        records = {}
        for path in files_of(tree) if os.path.isdir(tree) else []:
            if len(records) >= FILES_MAX:
                break
            try:
                records[path] = describe(path)
            except OSError:
                continue
        if len(records) >= FILES_MIN:
            return tree, records
    sys.exit("no tree of files to load; looked at " + ", ".join(TREES))


def json_line(path, value):
    """A record as `hive load` reads it."""
    return json.dumps(text_or_base64("key", path) | text_or_base64("value", value)).encode() + b"\n"


def die_with_me():
    """The child is killed when this process ends, however it ends (prctl PR_SET_PDEATHSIG)."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def post(node, body, timeout=35):
    """An action, asked of one node: its status and its answer."""
    url = f"http://127.0.0.1:{BASE_PORT + 100 + node}/"
    request = urllib.request.Request(url, data=json.dumps(body).encode())
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def hive(*words, nodes=range(1, NODES + 1), **options):
    """A command of `hive`, told to use these nodes."""
    endpoints = ",".join(f"http://127.0.0.1:{BASE_PORT + 100 + node}" for node in nodes)
    environment = dict(os.environ, HIVE_ENDPOINT=endpoints)
    return subprocess.Popen([HIVE, *words], env=environment, preexec_fn=die_with_me, **options)


def wait_for(what, seconds, ready):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if ready():
                return True
        except (OSError, ValueError):
            pass
        time.sleep(0.1)
    return check(f"{what} within {seconds} s", False)


class Prober(threading.Thread):
    """A client beside the load: one small write after another, each through another node."""

    def __init__(self):
        super().__init__(daemon=True)
        self.stop, self.dead, self.written, self.errors, self.slowest_ms = threading.Event(), None, 0, [], 0

    def run(self):
        while not self.stop.is_set():
            node = 1 + self.written % NODES
            if node == self.dead:
                node = 1 + node % NODES
            body = {"action": "KvPut", "keyspace": KEYSPACE, "key": f"probe/{self.written:06}", "value": "v"}
            start = time.monotonic()
            try:
                status, answer = post(node, body)
                if status != 200:
                    self.errors.append(answer["error"]["message"])
            except OSError as error:
                # A request that was under way on the killed node itself: its connection is gone.
                if node != self.dead:
                    self.errors.append(f"node {node}: {error}")
            self.slowest_ms = max(self.slowest_ms, (time.monotonic() - start) * 1000)
            self.written += 1
            time.sleep(0.01)


def start_world(data, ready_file):
    log = open(os.path.join(data, "dev.log"), "wb")
    world = hive("dev", "--nodes", str(NODES), "--base-port", str(BASE_PORT), "--data", os.path.join(data, "world"),
                 "--ready-file", ready_file, "--no-restart", stdout=log, stderr=log)
    start = time.monotonic()
    if not wait_for("the world is ready", 100, lambda: world.poll() is not None or os.path.exists(ready_file)) or world.poll() is not None:
        sys.stderr.write(open(os.path.join(data, "dev.log"), errors="replace").read())
        sys.exit("hive dev did not start")
    check(f"a world of {NODES} nodes is ready", True, f"{time.monotonic() - start:.1f} s")
    told = lambda: b"open to every program of this machine, and to none beyond it" in open(log.name, "rb").read()
    check("hive dev says that it asks nobody who they are", wait_for("it says so", 10, told))
    return world


def create_keyspace():
    rule = f"size={NODES} location=world failure_domain=chassis"
    status, answer = post(1, {"action": "CreateKeyspace", "keyspace": KEYSPACE, "partition": "hash", "partitions": 16,
                              "clusters": 2, "rule": rule, "deadline_ms": 30000})
    check(f"keyspace {KEYSPACE} over 2 clusters of {NODES} replicas", status == 200, "" if status == 200 else str(answer))


def leader_of(cluster):
    # Asking the cluster something makes sure that it has elected.
    post(1, {"action": "KvGet", "keyspace": KEYSPACE, "key": "x"})
    status, answer = post(1, {"action": "DescribeCluster", "name": cluster, "deadline_ms": 20000})
    return answer["cluster"]["leader"] if status == 200 else None


def load_and_kill(records, leader, pid, prober, data):
    """Feeds the load line by line; in the middle of it the leader is killed."""
    report_file = os.path.join(data, "report.json")
    load = hive("load", "--keyspace", KEYSPACE, "--deadline-ms", "30000", "--report", report_file, "-", stdin=subprocess.PIPE)
    kill_at = len(records) * 2 // 5
    for count, (path, value) in enumerate(records.items()):
        if count == kill_at:
            load.stdin.flush()
            prober.dead = leader
            os.kill(pid, signal.SIGKILL)
            say(f"kill -9 of node {leader}, the leader, after {count} of {len(records)} lines")
        load.stdin.write(json_line(path, value))
    load.stdin.close()
    code = load.wait()
    report = json.load(open(report_file))
    rate = f"{report['loaded']} keys, {report['bytes'] >> 10} KiB in {report['seconds']:.1f} s, {report['loaded'] / report['seconds']:.0f}/s"
    if not check("every line is loaded, the leader's death included", code == 0 and report["loaded"] == len(records), rate):
        say(json.dumps(report)[:2000])


def listing(node, prefix, level="strong"):
    """Everything behind a prefix, listed by `hive kv scan` through one node only."""
    scan = hive("kv", "scan", "--keyspace", KEYSPACE, "--prefix", prefix, "--read-consistency", level, "--deadline-ms", "30000",
                "--json", nodes=[node], stdout=subprocess.PIPE)
    out = scan.stdout.read()
    if scan.wait() != 0:
        return None
    return [(bytes_of(entry, "key"), bytes_of(entry, "value")) for entry in json.loads(out)["entries"]]


def difference(found, expected):
    """Empty where both are the same, in order; else what differs."""
    if found is None:
        return "the scan failed"
    if found == expected:
        return ""
    have, want = dict(found), dict(expected)
    missing = [key for key in want if key not in have]
    strange = [key for key in have if key not in want]
    wrong = [key for key in want if key in have and have[key] != want[key]]
    return (f"{len(missing)} missing {missing[:3]}, {len(strange)} too many {strange[:3]}, {len(wrong)} with another value {wrong[:3]}, "
            f"{len(found) - len(have)} twice")


def compare(node, tree, records, when):
    expected = sorted(records.items())
    start = time.monotonic()
    wrong = difference(listing(node, tree), expected)
    check(f"node {node} lists all {len(expected)} keys {when}", not wrong, wrong or f"{time.monotonic() - start:.1f} s")


def compare_directories(tree, records):
    """Smaller listings too: by the prefix of some directories, each from another node."""
    directories = sorted({os.path.dirname(path) for path in records})
    picked = directories[:: max(1, len(directories) // 10)][:10]
    wrong = []
    for at, directory in enumerate(picked):
        prefix = os.fsdecode(directory) + "/"
        expected = sorted(item for item in records.items() if item[0].startswith(directory + b"/"))
        try:
            prefix.encode()
        except UnicodeEncodeError:
            continue
        found = difference(listing(1 + at % NODES, prefix), expected)
        wrong += [f"{prefix}: {found}"] if found else []
    check(f"{len(picked)} directories listed by prefix", not wrong, "; ".join(wrong))


def same_commands(data):
    """`hive kv exec` says the same of a world as of an embedded store's directory. The values are so long that a world
    answers the scan in several pages."""
    file = os.path.join(data, "commands")
    long = [f"put exec/{number} {chr(97 + number) * (700 << 10)}" for number in range(9)]
    with open(file, "w") as out:
        out.write("\n".join(["# nine long values", *long, "put exec/x \\x00\\xff  two spaces", "get exec/x", "get exec/none", "del exec/3",
                             "delete exec/none", "scan exec/ 5", "scan exec/", "scan exec/x 1", "scan exec/none"]) + "\n")
    told = []
    for words in (["--keyspace", KEYSPACE, "--deadline-ms", "30000"], ["--store", os.path.join(data, "store")]):
        ran = hive("kv", "exec", file, *words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        out, errors = ran.communicate()
        told.append((ran.returncode, out, errors))
    lines = told[0][1].decode().splitlines()
    scanned = [line.split("\t")[0] for line in lines if "\t" in line]
    expected = [f"exec/{name}" for name in (*"01245", *"0124567", "8", "x", "x")]
    check("hive kv exec says the same on the world as on an embedded store", told[0][0] == 0 and told[0] == told[1] and scanned == expected,
          "" if told[0] == told[1] else f"{[(code, out[-200:], errors[-200:]) for code, out, errors in told]}")
    with open(file, "w") as out:
        out.write("put exec/4 changed\nputt exec/5 changed\n")
    wrong = hive("kv", "exec", file, "--keyspace", KEYSPACE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    errors = wrong.communicate()[1].decode()
    kept = [value for key, value in listing(1, "exec/") or [] if key == b"exec/4"]
    check("a misspelt line is refused before the first is run", wrong.returncode == 2 and "line 2" in errors and kept[0][:1] == b"e", errors.strip())


def curl(*words):
    done = subprocess.run(["curl", "-s", "--max-time", "20", *words], capture_output=True, text=True)
    return done.stdout


def only_for_its_user(data, ready_file):
    """curl is served as the README shows, a foreign page is not; other users of the machine read nothing."""
    door, put = f"http://127.0.0.1:{BASE_PORT + 101}", '{"action":"KvPut","key":"hello","value":"world"}'
    if shutil.which("curl"):
        read = [curl(f"{door}/", "-d", put)[:11], curl(f"{door}/put?key=plain&value=route")[:1] != "{", curl(f"{door}/get?key=hello"),
                curl(f"{door}/get?key=plain")]
        check("curl -d '{...}' and curl '.../put?...' write", read == ['{"ok":true,', True, "world", "route"], str(read))
        page = ["-H", "Origin: http://evil.example"]
        refused = [curl(f"{door}/", "-d", put, *page), curl(f"{door}/put?key=hello&value=evil", "-H", "Sec-Fetch-Site: cross-site"),
                   curl(f"{door}/put?key=hello&value=evil", "-H", "Host: evil.example")]
        kept = curl(f"{door}/get?key=hello")
        good = all('"ForeignPage"' in answer for answer in refused[:2]) and '"UnknownHost"' in refused[2] and kept == "world"
        check("what a foreign page causes is refused", good, "" if good else f"{refused} {kept}")
    open_files = [path for path in [ready_file, *below(os.path.join(data, "world"))] if os.stat(path).st_mode & 0o077]
    check("files of the world are its user's only", not open_files, " ".join(open_files[:5]))
    ready = json.load(open(ready_file))
    secret, told = ready["s3"]["secret_key"].encode(), []
    for node in ready["nodes"]:
        for path in (f"/proc/{node['pid']}/cmdline", node["log"]):
            with open(path, "rb") as file:
                told += [path] if secret in file.read() else []
    check("the S3 secret is in no node's arguments and log", not told, " ".join(told))


def below(directory):
    for path, _, names in os.walk(directory):
        yield path
        yield from (os.path.join(path, name) for name in names)


def come_back(node, data, tree, records):
    """Starts the killed node again on its disk, as an operator's service manager would."""
    config = os.path.join(data, "world", f"node-{node}", "node.toml")
    log = open(os.path.join(data, "again.log"), "wb")
    again = subprocess.Popen([HIVE, "node", "--config", config], stdout=log, stderr=log, preexec_fn=die_with_me)
    start = time.monotonic()
    url = f"http://127.0.0.1:{BASE_PORT + 100 + node}/ready"
    if wait_for(f"node {node} is ready again", 60, lambda: urllib.request.urlopen(url, timeout=2).status == 200):
        check(f"node {node} is started again and ready", True, f"{time.monotonic() - start:.1f} s")
    for each in range(1, NODES + 1):
        compare(each, tree, records, "with all nodes up")
    expected, wrong, start = sorted(records.items()), "", time.monotonic()
    while time.monotonic() - start < 30:
        wrong = difference(listing(node, tree, "eventual"), expected)
        if not wrong:
            break
    check(f"node {node} has caught up: its own copy, read at level eventual, is complete", not wrong, wrong)
    return again


def run(data):
    tree, records = data_set()
    say(f"{len(records)} files of {tree}, {sum(map(len, records.values())) >> 10} KiB of values")
    ready_file = os.path.join(data, "ready.json")
    world, again = start_world(data, ready_file), None
    try:
        only_for_its_user(data, ready_file)
        create_keyspace()
        pids = {node["id"]: node["pid"] for node in json.load(open(ready_file))["nodes"]}
        leader = leader_of(f"metadata@ks-{KEYSPACE}-0")
        if not check("the keyspace's first cluster has a leader", leader in pids, f"node {leader}"):
            return
        prober = Prober()
        prober.start()
        load_and_kill(records, leader, pids[leader], prober, data)
        prober.stop.set()
        prober.join()
        detail = f"{prober.written} writes beside the load, the slowest took {prober.slowest_ms:.0f} ms"
        check("no client of another node saw an error", not prober.errors, "; ".join(prober.errors[:3]) or detail)
        for node in sorted(set(pids) - {leader}):
            compare(node, tree, records, f"with node {leader} dead")
        again = come_back(leader, data, tree, records)
        compare_directories(tree, records)
        same_commands(data)
    finally:
        for process in filter(None, [again, world]):
            process.terminate()
        for process in filter(None, [again, world]):
            process.wait()


def main():
    def too_long(*_):
        check(f"done within {LIMIT_S} s", False)
        raise SystemExit(1)

    signal.signal(signal.SIGALRM, too_long)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    signal.alarm(LIMIT_S)
    data = tempfile.mkdtemp(prefix="hive-first-hour-")
    ended = False
    try:
        run(data)
        ended = True
    finally:
        if not ended:
            check("the run came to its end", False)
        if failed and os.environ.get("FIRST_HOUR_KEEP"):
            say(f"kept: {data}")
        else:
            shutil.rmtree(data, ignore_errors=True)
        print(f"first hour: {passed} passed, {failed} failed", flush=True)
    sys.exit(1 if failed else 0)


if sys.argv[1:] == ["data-set"]:
    for record in data_set()[1].items():
        sys.stdout.buffer.write(json_line(*record))
else:
    main()
