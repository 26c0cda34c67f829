"""Input that is wrong or hostile, at the configuration, the data directory and every port."""
import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import time

from client import Unreachable
from load import Load
from world import Problem, Skip

# How much a node's memory may grow under hostile input, for good.
GROWTH_KIB_MAX = 48 << 10
REFUSAL_SECONDS = 8


def refused_start(world, number, text, *words, code=None):
    """A start with this node.toml must end by itself, with an error that holds the words."""
    config = world.nodes[number].directory / "bad.toml"
    config.write_text(text)
    try:
        done = world.command("node", "--config", str(config), check=False, timeout=20)
    except subprocess.TimeoutExpired:
        raise Problem(f"a node that should be refused ({words}) runs") from None
    said = done.stderr + done.stdout
    missing = [word for word in words if word not in said]
    if done.returncode == 0 or done.returncode < 0 or missing or "panicked" in said:
        raise Problem(f"a start that should be refused: exit {done.returncode}, lacks {missing}: {said.strip()[-400:]}")


def bad_configurations(run):
    """Every mistake in node.toml refuses the start and names what is wrong."""
    world = run.world("w", regions=("fr-par",) * 3)
    node = world.nodes[1]
    good = world.toml(node)
    text = json.dumps
    twice = good.replace("[region]", f"[[world.members]]\nid = 2\naddress = \"127.0.0.1:1\"\n[region]", 1)
    loose = world.directory / "loose.key"
    shutil.copy(world.directory / "ca" / "node-1.key", loose)
    os.chmod(loose, 0o644)
    mistakes = [
        (good.replace("[http]", "[http]\nlistne = 1"), "listne"),
        ("colour = 1\n" + good, "colour"),
        (twice, "twice"),
        (good + "[tuning]\ntick_ms = 0\n", "tick_ms"),
        (good + "[engine]\ndefault = \"rocks\"\n", "rocks"),
        (good.replace("id = 1", "id = 0", 1), "id"),
        (good.replace(node.http, "127.0.0.1:99999"), "listen"),
        (good[:-20], ""),
        (world.toml(node, key=loose), "loose.key"),
        (world.toml(node, key=world.directory / "absent.key"), "absent.key"),
        (world.toml(node, members=[]), "members"),
        ("x" * (2 << 20), "bytes"),
        ("\x00\x01\x02", "bad.toml"),
    ]
    for mistake, word in mistakes:
        refused_start(world, 1, mistake, word)
    done = world.command("node", "--config", "/none/node.toml", check=False, timeout=20)
    if done.returncode == 0 or "/none/node.toml" not in done.stderr:
        raise Problem(f"a missing node.toml: exit {done.returncode}, {done.stderr[:200]}")
    run.note(f"{len(mistakes) + 1} refused, each naming the thing")


def bad_data(run):
    """A data directory of another world, another node, a newer format, or in use, is refused and left as it is."""
    world = run.started("w", keyspace=3, regions=("fr-par",) * 3)
    load = Load(world, writers=1, counters=1, readers=0).start()
    node = world.nodes[3]
    refused_start(world, 3, world.toml(node), "in use")
    time.sleep(1)
    load.finish()
    world.stop(3)
    marker = node.data / "hive-node.json"
    good = marker.read_text()
    other_world = run.root / "other"
    done = subprocess.run([run.hive, "ca", "init", "--dir", str(other_world), "--world", "other"], capture_output=True)
    done = subprocess.run([run.hive, "ca", "issue", "--dir", str(other_world), "--node", "3"], capture_output=True)
    mistakes = [
        (world.toml(node, world="other", certificate=other_world / "node-3.pem", key=other_world / "node-3.key")
         .replace(str(world.directory / "ca" / "ca.pem"), str(other_world / "ca.pem")), good, ["world"]),
        (world.toml(node), json.dumps({**json.loads(good), "format": 99, "more": {"a": []}}), ["format 99", "newer"]),
        (world.toml(node), json.dumps({**json.loads(good), "node": 2}), ["node 2"]),
        (world.toml(node), "{broken", ["hive-node.json"]),
        (world.toml(node), json.dumps({**json.loads(good), "lanes": 65535}), ["lanes"]),
    ]
    for config, text, words in mistakes:
        marker.write_text(text)
        refused_start(world, 3, config, *words)
    marker.unlink()
    refused_start(world, 3, world.toml(node), "hive-node.json")
    marker.write_text(good)
    world.start(3)
    world.wait_ready(3)
    load.check()
    run.note(f"{len(mistakes) + 2} refused; the directory serves as before afterwards")


def files_of(directory):
    return {path.relative_to(directory): path.read_bytes() for path in sorted(directory.rglob("*"))
            if path.is_file() and not path.name.startswith("lock")}


def bad_engine(run):
    """An engine's directory of another engine or a newer format stops the start with its name, and is left as it is. A damaged one is
    set aside under another name, untouched, and the node has everything again."""
    world = run.started("w", keyspace=3, regions=("fr-par",) * 3)
    load = Load(world, writers=1, counters=1, readers=0).start()
    time.sleep(2)
    load.finish()
    world.stop(3)
    node = world.nodes[3]
    lmdb = next(node.data.rglob("lmdb"))
    marker, data = lmdb / "ENGINE", lmdb / "data.mdb"
    text, bytes_then = marker.read_text(), data.read_bytes()
    newer = re.sub(r"format \d+", "format 99", text)
    assert newer != text, text
    mistakes = [
        ("a newer format", newer, ["lmdb", "99"]),
        ("another engine's", text.replace("lmdb", "redb"), ["lmdb", "redb"]),
        ("something else", "letters to a friend", ["lmdb", "letters"]),
    ]
    for name, wrong, words in mistakes:
        marker.write_text(wrong)
        before = files_of(lmdb)
        refused_start(world, 3, world.toml(node), *words)
        if files_of(lmdb) != before:
            raise Problem(f"{name}: the refused start changed {lmdb}")
        marker.write_text(text)
    damages = [
        ("a cut file", lambda: data.write_bytes(bytes_then[:4096])),
        ("damaged heads", lambda: data.write_bytes(b"\x55" * 8192 + data.read_bytes()[8192:])),
        ("a missing file", data.unlink),
    ]
    for number, (name, spoil) in enumerate(damages, 1):
        spoil()
        before = files_of(lmdb)
        world.start(3)
        world.wait_ready(3)
        load.check()
        kept = sorted(lmdb.parent.glob("lmdb.damaged-*"), key=lambda path: path.stat().st_ino)
        if len(kept) != number or before not in [files_of(path) for path in kept]:
            raise Problem(f"{name}: not kept as it was: {kept}")
        world.stop(3)
    other = lmdb.parent / "redb"
    other.mkdir(exist_ok=True)
    (other / "somebody").write_text("else")
    refused_start(world, 3, world.toml(node), "redb", "somebody")
    shutil.rmtree(other)
    world.start(3)
    world.wait_ready(3)
    load.check()
    run.note(f"{len(mistakes) + 1} refused, each naming the file and leaving all as it was; {len(damages)} set aside untouched")


def expired_certificate(world, number, directory):
    """A certificate of the world's own authority that ended yesterday; its file."""
    if not shutil.which("openssl"):
        raise Skip("openssl, which makes an expired certificate, is not installed")
    directory.mkdir(exist_ok=True)
    authority = world.directory / "ca"
    name = f"node-{number}.{world.name}.hive"
    (directory / "ext").write_text(f"subjectAltName=DNS:{name}\nextendedKeyUsage=serverAuth,clientAuth\n")
    csr, pem = directory / "csr", directory / f"expired-{number}.pem"
    for command in (["req", "-new", "-key", str(authority / f"node-{number}.key"), "-subj", f"/CN={name}", "-out", str(csr)],
                    ["x509", "-req", "-in", str(csr), "-CA", str(authority / "ca.pem"), "-CAkey", str(authority / "ca.key"),
                     "-set_serial", "7", "-days", "-1", "-extfile", str(directory / "ext"), "-out", str(pem)]):
        done = subprocess.run(["openssl", *command], capture_output=True, text=True)
        if done.returncode != 0:
            raise Skip(f"openssl makes no expired certificate here: {done.stderr.strip()[-200:]}")
    return pem


def knock(address, certificate=None, key=None):
    """Whether the peer port takes this client, as far as TLS goes."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if certificate:
        context.load_cert_chain(certificate, key)
    host, port = address.rsplit(":", 1)
    try:
        with socket.create_connection((host, int(port)), timeout=REFUSAL_SECONDS) as plain:
            with context.wrap_socket(plain) as secure:
                secure.settimeout(1)
                try:
                    # TLS 1.3: the server judges our certificate after our handshake is over.
                    return secure.recv(1) != b""
                except socket.timeout:
                    return True
    except (ssl.SSLError, ConnectionError, socket.timeout, OSError):
        return False


def certificates(run):
    """Nobody without a valid certificate of this world's authority speaks to the peer port."""
    world = run.started("w", keyspace=3, regions=("fr-par",) * 3)
    authority = world.directory / "ca"
    foreign = run.root / "foreign"
    subprocess.run([run.hive, "ca", "init", "--dir", str(foreign), "--world", world.name], check=True, capture_output=True)
    subprocess.run([run.hive, "ca", "issue", "--dir", str(foreign), "--node", "3"], check=True, capture_output=True)
    expired = expired_certificate(world, 3, run.root / "expired")
    own = (authority / "node-3.pem", authority / "node-3.key")
    if not knock(world.nodes[1].peer, *own):
        raise Problem("the peer port refuses a certificate of its own world")
    for what, pair in (("no certificate", ()), ("a foreign certificate", (foreign / "node-3.pem", foreign / "node-3.key")),
                       ("an expired certificate", (expired, authority / "node-3.key"))):
        if knock(world.nodes[1].peer, *pair):
            raise Problem(f"the peer port takes {what}")
    if "peer port was refused" not in world.log_text(1):
        raise Problem("node 1 does not tell of refused connections")
    refused_start(world, 1, world.toml(world.nodes[1], data="unused", certificate=expired_certificate(world, 1, run.root / "expired")), "expired")
    refused_start(world, 1, world.toml(world.nodes[1], data="unused", certificate=own[0], key=own[1]), "node-1")
    # A whole node of a foreign authority that bears the same world's name: it is kept out, the others go on.
    load = Load(world, writers=2, counters=1, readers=1, through=[1, 2]).start()
    world.stop(3)
    intruder = world.nodes[3].directory / "intruder.toml"
    intruder.write_text(world.toml(world.nodes[3], certificate=foreign / "node-3.pem", key=foreign / "node-3.key", data="intruder")
                        .replace(str(authority / "ca.pem"), str(foreign / "ca.pem")))
    world.start(3, config=intruder)
    time.sleep(4)
    if world.ready(3):
        raise Problem("a node with a foreign certificate became ready")
    world.stop(3)
    world.start(3)
    world.wait_ready(3)
    # Renewed while they run: new connections use the new certificate.
    for number in world.nodes:
        world.issue(number)
    time.sleep(3)
    world.kill(2)
    world.start(2)
    world.wait_ready(2)
    load.finish().check()
    run.note(f"refused at the peer port and at the start; renewed while running; {load.summary()}")


def hostile(address, payload, seconds=3.0, half_close=True):
    """Sends bytes to a port; what comes back until it closes."""
    host, port = address.rsplit(":", 1)
    try:
        with socket.create_connection((host, int(port)), timeout=seconds) as connection:
            connection.settimeout(seconds)
            connection.sendall(payload)
            if half_close:
                connection.shutdown(socket.SHUT_WR)
            back = b""
            while len(back) < 65536:
                piece = connection.recv(65536)
                if not piece:
                    break
                back += piece
            return back
    except (ConnectionError, socket.timeout, OSError) as error:
        return f"{type(error).__name__}".encode()


def post(body, length=None, extra=b""):
    length = len(body) if length is None else length
    return b"POST / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n" + extra + f"content-length: {length}\r\n\r\n".encode() + body


def hostile_input(run):
    """Garbage at every port, lies about lengths, slow and many connections: clear errors, no crash, no growth."""
    world = run.started("w", keyspace=3, regions=("fr-par",) * 3, limits={"header_timeout_ms": 3000, "body_timeout_ms": 3000})
    node = world.nodes[1]
    load = Load(world, writers=2, counters=1, readers=1, pause=0.005).start()
    time.sleep(2)
    before = world.rss_kib(1)
    expectations = [
        (post(b"", 10 << 30), (b" 413 ",)),
        (post(b"x" * 1000, 10 << 30), (b" 413 ",)),
        (post(b"{}", "+5"), (b" 400 ",)),
        (post(b"0\r\n\r\n", 5, b"transfer-encoding: chunked\r\n"), (b" 400 ",)),
        (b"POST / HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFF\r\n", (b" 400 ",)),
        (post(b"[" * 1_000_000), (b" 400 ", b"nests")),
        (post(b'{"action":"KvPut","action":"KvGet"}'), (b" 400 ", b"DuplicateField")),
        (post(b'{"action":"KvPut","key":"\xff"}'), (b" 400 ",)),
        (post(b'{"action":"Fly"}'), (b" 400 ", b"UnknownAction")),
        (post(b'{"action":"KvGet","kee":"x"}'), (b" 400 ", b"kee")),
        (post(b'{"action":"KvPut","key":"' + b"k" * 5000 + b'","value":"v"}'), (b"KeyTooLarge",)),
        (post(b'{"action":"KvPut","key":"k","value":"v","consistency":"stronk"}'), (b" 400 ", b"stronk")),
        (post(b'{"action":"KvGet","key":"k","cluster":"metadata@none"}'), (b" 404 ",)),
        (b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\nhost: localhost\r\n\r\n", (b" 4",)),
        (b"GET / HTTP/1.1\r\n" + b"".join(b"a%d: b\r\n" % n for n in range(500)) + b"\r\n", (b" 4",)),
        (b"GET /../../etc/passwd HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n", (b" 404 ",)),
    ]
    for payload, words in expectations:
        back = hostile(node.http, payload, half_close=False)
        if any(word not in back for word in words):
            raise Problem(f"{payload[:90]!r}… is answered {back[:200]!r}, expected {words}")
    garbage = [os.urandom(65536), b"\x16\x03\x01\xff\xff" + os.urandom(70000), b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n", b"\x00" * 4096,
               b"*2147483647\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"]
    for round_number in range(10):
        for payload in garbage:
            for address in (node.http, node.peer):
                hostile(address, payload if round_number % 2 else payload[: len(payload) // 2 + 1])
    slow = slow_connections(node, 300)
    lies = lying_connections(node, 40)
    time.sleep(5)
    closed = sum(is_closed(connection) for connection in slow)
    for connection in slow + lies:
        connection.close()
    status, _ = world.client(1).action({"action": "KvGet", "key": "w0-000000"})
    if status != 200:
        raise Problem(f"after hostile input node 1 answers {status}")
    load.finish().check()
    time.sleep(1)
    growth = world.rss_kib(1) - before
    if growth > GROWTH_KIB_MAX:
        raise Problem(f"node 1 grew by {growth >> 10} MiB (from {before >> 10} MiB) under hostile input")
    if closed < len(slow) * 9 // 10:
        raise Problem(f"only {closed} of {len(slow)} silent connections were closed within 5 s (header_timeout_ms 3000)")
    run.note(f"{len(expectations)} clear errors, {10 * len(garbage) * 2} times garbage, {len(slow)} silent connections closed, "
             f"memory {growth / 1024:+.1f} MiB; {load.summary()}")


def slow_connections(node, count):
    """Connections that begin a request, or nothing at all, and stay."""
    host, port = node.http.rsplit(":", 1)
    made = []
    for n in range(count):
        connection = socket.create_connection((host, int(port)), timeout=5)
        if n % 2:
            connection.sendall(b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-le")
        made.append(connection)
    return made


def lying_connections(node, count):
    """Bodies announced at the limit, and never sent: no memory may be taken for them."""
    host, port = node.http.rsplit(":", 1)
    made = []
    for _ in range(count):
        connection = socket.create_connection((host, int(port)), timeout=5)
        connection.sendall(post(b"{", 4 << 20))
        made.append(connection)
    return made


def is_closed(connection):
    """Whether the other side has closed it (it may have answered 408 before)."""
    connection.settimeout(0.2)
    try:
        for _ in range(4):
            if connection.recv(4096) == b"":
                return True
        return False
    except socket.timeout:
        return False
    except OSError:
        return True


# What 1,000 idle clusters may take of a node's anonymous memory.
IDLE_BYTES_MAX = 8_000_000


def idle_clusters(run):
    """1,000 idle clusters: memory and CPU of a node (figures; runs with REAL_IDLE=1)."""
    if os.environ.get("REAL_IDLE") != "1":
        raise Skip("set REAL_IDLE=1 to measure 1,000 idle clusters")
    count = int(os.environ.get("REAL_IDLE_CLUSTERS", "1000"))
    world = run.started("w", keyspace=3, regions=("fr-par",) * 3)
    world.ask(1, action="CreateCluster", name="metadata@idle-first", rule="size=3 location=world failure_domain=chassis", deadline_ms=30000)
    time.sleep(15)
    kinds = ("RssAnon", "VmRSS")
    before = {(n, kind): world.rss_kib(n, kind) for n in world.nodes for kind in kinds}
    start = time.monotonic()
    for n in range(count):
        world.ask(n % 3 + 1, action="CreateCluster", name=f"metadata@idle-{n}",
                  rule="size=3 location=world failure_domain=chassis", deadline_ms=30000)
        if time.monotonic() - start > 80:
            count = n + 1
            break
    made = time.monotonic() - start
    time.sleep(20)
    cpu = {n: world.cpu_seconds(n) for n in world.nodes}
    time.sleep(15)
    busy = {n: (world.cpu_seconds(n) - cpu[n]) / 15 * 100 for n in world.nodes}
    grown = {kind: ", ".join(f"{(world.rss_kib(n, kind) - before[n, kind]) / 1024:+.1f}" for n in world.nodes)
             for kind in kinds}
    status = world.ask(1, action="Status")
    most = max(world.rss_kib(n, "RssAnon") - before[n, "RssAnon"] for n in world.nodes)
    if most * 1024 > IDLE_BYTES_MAX:
        raise Problem(f"{count} idle clusters take {most} KiB of anonymous memory of a node; "
                      f"the bound is {IDLE_BYTES_MAX >> 10} KiB")
    run.note(f"{count} clusters made in {made:.0f} s; memory beyond the first, MiB a node: "
             + f"anonymous {grown['RssAnon']}; with the pages of files {grown['VmRSS']}; CPU over 15 s "
             + ", ".join(f"{value:.1f} %" for value in busy.values()) + f"; quiesced {status['quiesced']} of {status['clusters']}")


CASES = [("bad-configuration", bad_configurations), ("bad-data", bad_data), ("bad-engine", bad_engine), ("certificates", certificates),
         ("hostile-input", hostile_input), ("idle-clusters", idle_clusters)]
