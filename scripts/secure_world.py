"""A world as in production (`hive dev --secure`): who asks is known at every door, what they may do is decided, and a token that
is revoked is taken by no node within two seconds. Run by scripts/secure-world.sh.

Not here: what is decided for which action (base-access has the table), certificates (edge-node)."""

import base64
import hashlib
import json
import os
import secrets
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time

HIVE = os.environ["HIVE"]
BASE = int(os.environ.get("SECURE_WORLD_BASE_PORT", "29000"))
# Longer than a world of five debug nodes takes on a busy machine.
READY_S = 180
REVOKED_S = 2.0
# Longer than the gateway's deadline, after which it answers that a bucket has no majority.
S3_ANSWER_S = 40
# A request for a user of this name makes a node of a debug build panic, with the whole request in the panic's text.
PANICS = "panics-on-purpose"
# What is thrown at a connection of HTTP/2: streams, bytes of one head; and what that may cost a node.
HTTP2_STREAMS = 20_000
HTTP2_HEAD_BYTES = 64 << 20
FLOOD_BYTES_MAX = 48 << 20
# More than is read ahead of a throttled backup.
BACKUP_KEYS = 150
# Longer than a new user takes to every node of a busy machine.
KNOWN_S = 10


def fail(message):
    print(f"secure world: {message}", file=sys.stderr)
    sys.exit(1)


def check(holds, message):
    if not holds:
        fail(message)


def arguments_of(process):
    """As any user of the machine can read them. They are empty for a moment after the program has begun."""
    with open(f"/proc/{process.pid}/cmdline", "rb") as shown:
        while process.poll() is None:
            shown.seek(0)
            if text := shown.read():
                return text
    return b""


class World:
    def __init__(self, home, *options):
        self.home = home
        self.canaries = []
        self.signers = {}
        # What every user of the machine saw of the commands that ran.
        self.arguments = []
        self.ready_file = os.path.join(home, "ready.json")
        self.log = open(os.path.join(home, "dev.log"), "w")
        self.process = subprocess.Popen(
            [HIVE, "dev", "--secure", "--base-port", str(BASE), "--data", os.path.join(home, "data"), "--no-restart",
             "--ready-file", self.ready_file, *options],
            stdout=self.log, stderr=self.log, env={**os.environ, "HIVE_DEBUG_PANIC_ON_USER": PANICS})
        until = time.time() + READY_S
        while not os.path.exists(self.ready_file):
            if self.process.poll() is not None or time.time() > until:
                print(open(os.path.join(home, "dev.log")).read(), file=sys.stderr)
                fail("the world did not become ready")
            time.sleep(0.2)
        self.ready = json.load(open(self.ready_file))
        self.nodes = self.ready["nodes"]
        self.root = os.path.join(home, "root")
        self.keep(self.root, self.ready["token"])

    def keep(self, path, token):
        with os.fdopen(os.open(path, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "w") as out:
            out.write(token + "\n")

    def hive(self, *arguments, node=0, token=None, endpoint=None, environment=None):
        env = {name: value for name, value in os.environ.items() if not name.startswith("HIVE_")}
        env["HIVE_CA"] = self.ready["ca"]
        env["HIVE_ENDPOINT"] = endpoint or self.nodes[node]["http"]
        if token:
            env["HIVE_TOKEN_FILE"] = token
        env.update(environment or {})
        process = subprocess.Popen([HIVE, *arguments], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.arguments.append(arguments_of(process))
        try:
            out, err = process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        return subprocess.CompletedProcess(arguments, process.returncode, out, err)

    def done(self, *arguments, **how):
        result = self.hive(*arguments, **how)
        check(result.returncode == 0, f"{' '.join(arguments)}: {result.stderr}")
        return result.stdout

    def refused(self, code, *arguments, **how):
        result = self.hive(*arguments, **how)
        check(result.returncode != 0 and code in result.stderr,
              f"{' '.join(arguments)} should be refused {code}: {result.returncode} {result.stdout} {result.stderr}")

    def curl(self, node, path, *arguments):
        command = ["curl", "-s", "-m", "20", "-o", "/dev/null", "-w", "%{http_code}", "--cacert", self.ready["ca"],
                   *arguments, self.nodes[node]["http"] + path]
        return subprocess.run(command, capture_output=True, text=True).stdout

    def said(self, mark):
        """The lines of all logs that have the mark."""
        lines = []
        for folder, _, files in os.walk(self.home):
            for name in files:
                if name.endswith(".log"):
                    with open(os.path.join(folder, name), errors="replace") as log:
                        lines += [line for line in log if mark in line]
        return "".join(lines)

    def redis(self, node, sent):
        """The first line of the answer of a node's Redis door to these bytes."""
        with self.door(node, "redis") as door:
            door.sendall(sent)
            return door.recv(4096).decode(errors="replace").split("\r\n")[0]

    def door(self, node, name, protocols=None):
        """A TLS connection to a node's door."""
        host, port = self.nodes[node][name].split("//")[1].split(":")
        context = ssl.create_default_context(cafile=self.ready["ca"])
        if protocols:
            context.set_alpn_protocols(protocols)
        plain = socket.create_connection((host, int(port)), timeout=20)
        return context.wrap_socket(plain, server_hostname=host)

    def canary(self, name):
        """A secret that nothing else contains. Each has a name, so that a find says how it got there."""
        secret = f"canary.{name}." + secrets.token_hex(16)
        self.canaries.append((name, secret))
        return secret

    def search(self, where, content):
        for name, secret in self.canaries:
            # The random part by itself: a log could cut or escape what is around it.
            check(secret.rsplit(".", 1)[1].encode() not in content, f"the secret `{name}` is in {where}")

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait(timeout=60)


def main():
    with tempfile.TemporaryDirectory(prefix="hive-secure-") as home:
        world = World(home)
        try:
            doors(world)
            roles(world)
            take_overs(world)
            revocation(world)
            open_doors(world)
            backups(world)
            http2_floods(world)
            s3_keys(world)
            break_glass(world)
            canaries(world)
            canaries_of_databases(world)
            panic_on_purpose(world)
            majority_lost(world)
            secrets_stay(world)
        finally:
            world.stop()
    print("secure world: every step held")


def doors(world):
    """Nobody gets in without a credential, but for who asks whether the node lives."""
    check(all(node["http"].startswith("https://") for node in world.nodes), "an address is not https")
    check(oct(os.stat(world.ready_file).st_mode)[-3:] == "600", "others may read the ready file")
    made = [path for node in world.nodes if os.path.exists(path := os.path.join(node["data"], "root-token"))]
    check(len(made) == 1 and oct(os.stat(made[0]).st_mode)[-3:] == "600", f"root's first token is in {made}, or others may read it")
    check(open(made[0]).read().strip() == world.ready["token"], "the ready file has another token")
    named = [path for path in made if path in world.said("root-token")]
    check(named == made, f"no log says that root's first token is in {made}")
    check("every door speaks TLS and asks for a credential" in world.said("every door"), "hive dev --secure does not say what it asks for")
    check(world.curl(0, "/health") == "200" and world.curl(1, "/ready") == "200", "/health or /ready asks who it is")
    for path in ["/metrics", "/get?key=k", "/put?key=k&value=v"]:
        check(world.curl(0, path) == "401", f"{path} is answered to nobody")
    check(world.curl(0, "/", "-d", '{"action":"KvGet","key":"k"}') == "401", "KvGet is answered to nobody")
    check(world.curl(0, "/", "-u", "root:" + world.ready["token"], "-d", '{"action":"ListNodes"}') == "200",
          "root's token is no password")
    check(world.curl(0, "/", "-H", "Authorization: Bearer hive_0", "-d", '{"action":"ListNodes"}') == "401",
          "a malformed token gets in")
    plain = subprocess.run(["curl", "-s", "-m", "20", world.nodes[0]["http"].replace("https", "http") + "/health"],
                           capture_output=True, text=True).stdout
    check("https" in plain, f"plain text is not turned away with what to do: {plain}")


def roles(world):
    root = world.root
    world.done("user", "create", "ann", "--role", "writer on kv/default/ann/", token=root)
    ann = os.path.join(world.home, "ann")
    world.keep(ann, world.done("token", "create", "ann", "--expires", "1h", token=root).strip())
    for node in range(len(world.nodes)):
        world.done("kv", "put", f"ann/{node}", "v", node=node, token=ann)
        world.refused("PermissionDenied", "kv", "put", "bob", "v", node=node, token=ann)
        world.refused("PermissionDenied", "kv", "scan", node=node, token=ann)
        world.refused("PermissionDenied", "ctl", "nodes", node=node, token=ann)
        world.refused("PermissionDenied", "user", "list", node=node, token=ann)
    check(world.done("kv", "scan", "--prefix", "ann/", token=ann).count("\n") >= 5, "ann does not see her keys")
    # A tenant's administrator reaches what the tenant owns, and nothing else.
    world.done("tenant", "create", "shop", "--owns", "kv/shop-*", token=root)
    world.done("user", "create", "eve@shop", "--role", "tenant-admin", token=root)
    eve = os.path.join(world.home, "eve")
    world.keep(eve, world.done("token", "create", "eve@shop", token=root).strip())
    world.done("user", "create", "bot@shop", "--service", "--role", "writer", token=eve)
    world.refused("PermissionDenied", "user", "create", "spy", "--role", "reader", token=eve)
    world.refused("PermissionDenied", "kv", "get", "ann/1", token=eve)
    who = world.done("user", "whoami", token=eve)
    check("kv/shop-*" in who and "bucket" not in who, f"eve has too much: {who}")


def take_overs(world):
    """A security-admin gives what it has and what root marked, and comes by nothing else: each way is tried through another node."""
    root = world.root
    guard = os.path.join(world.home, "guard")
    world.done("user", "create", "guard", "--role", "security-admin", "--role", "reader on kv/default/guard/", token=root)
    world.keep(guard, world.done("token", "create", "guard", token=root).strip())
    world.done("user", "create", "vic", "--role", "writer on kv/default/vic/", token=root)
    world.done("user", "create", "new", token=root)
    world.done("role", "create", "team", "--allow", "read on kv/default/team/", token=root)
    world.done("user", "grant", "guard", "team", token=root)
    world.done("group", "create", "devs", "--issuer", "https://issuer.example", "--role", "writer on kv/default/dev/", token=root)
    world.done("ctl", "s3", "account", "create", "vault-keeper", token=root)
    password = os.path.join(world.home, "guards-guess")
    world.keep(password, secrets.token_hex(16))
    group = ["group", "create", "devs", "--issuer", "https://issuer.example", "--replace"]
    tries = [
        ["user", "grant", "guard", "root"], ["user", "grant", "guard", "writer"], ["user", "grant", "guard", "operator"],
        ["user", "grant", "new", "reader", "--on", "kv/default"],
        ["user", "create", "spy", "--role", "tenant-admin"],
        ["role", "create", "mine", "--allow", "all on kv/*"],
        ["role", "create", "mine", "--allow", "read on bucket/*", "--grantable"],
        ["role", "create", "team", "--allow", "read on kv/default", "--replace"],
        ["user", "password", "vic", "--password-file", password], ["user", "password", "root", "--password-file", password],
        ["token", "create", "vic"], ["token", "create", "root"],
        ["key", "create", "vic"], ["key", "create", "new"], ["key", "create", "guard"],
        ["ctl", "s3", "key", "create", "vault-keeper"],
        [*group, "--claim", "guards-own", "--role", "writer on kv/default/dev/"],
        [*group, "--role", "writer on kv/default"],
        ["user", "delete", "root"], ["user", "disable", "root"], ["user", "revoke", "root", "root"],
    ]
    for number, words in enumerate(tries):
        world.refused("PermissionDenied", *words, node=number % len(world.nodes), token=guard)
    shown = world.hive("user", "grant", "new", "reader", "--on", "kv/default/vic/", token=guard).stderr
    check('"read,list on kv/default/vic/"' in shown and "--grantable" in shown, f"a refusal says not what to do: {shown}")
    # By way of a user that is disabled: to take is allowed, to give back is not.
    world.done("user", "disable", "vic", token=guard)
    world.refused("PermissionDenied", "token", "create", "vic", token=guard)
    world.refused("PermissionDenied", "user", "enable", "vic", token=guard)
    world.done("user", "enable", "vic", token=root)
    world.done("user", "revoke", "vic", "writer", "--on", "kv/default/vic/", token=guard)
    # What it has, and what root says that it may give.
    world.done("user", "grant", "new", "reader", "--on", "kv/default/guard/", token=guard)
    world.done("role", "create", "data", "--allow", "read,write on kv/default/data/", "--grantable", token=root)
    world.done("user", "grant", "new", "data", token=guard)
    fresh = os.path.join(world.home, "new")
    world.keep(fresh, world.done("token", "create", "new", token=guard).strip())
    world.done("kv", "put", "data/1", "v", node=1, token=fresh)
    world.refused("PermissionDenied", "kv", "put", "data", "v", node=1, token=fresh)
    for words in (["kv", "get", "ann/1"], ["kv", "get", "vic/1"], ["kv", "get", "data/1"], ["ctl", "clusters"]):
        world.refused("PermissionDenied", *words, token=guard)


def revocation(world):
    root, ann = world.root, os.path.join(world.home, "ann")
    tokens = json.loads(world.done("token", "list", "--user", "ann", "--json", token=root))["tokens"]
    world.done("token", "revoke", tokens[0]["id"], node=2, token=root)
    since = time.time()
    for node in range(len(world.nodes)):
        while world.hive("kv", "get", "ann/1", node=node, token=ann).returncode == 0:
            check(time.time() - since < REVOKED_S, f"node {node + 1} takes a token {REVOKED_S} s after it was revoked")
    world.keep(ann, world.done("token", "create", "ann", token=root).strip())
    world.done("user", "disable", "ann", token=root)
    since = time.time()
    while world.hive("kv", "get", "ann/1", node=4, token=ann).returncode == 0:
        check(time.time() - since < REVOKED_S, f"node 5 takes a token of a user {REVOKED_S} s after it was disabled")
    world.refused("Unauthenticated", "kv", "get", "ann/1", node=4, token=ann)
    world.done("user", "enable", "ann", token=root)
    world.done("kv", "get", "ann/1", node=0, token=ann)


def resp(*words):
    """A command of Redis."""
    return f"*{len(words)}\r\n".encode() + b"".join(f"${len(word)}\r\n{word}\r\n".encode() for word in words)


def heard(door, seconds):
    """What a connection says within this time; it may end before."""
    content, until = b"", time.time() + seconds
    while (left := until - time.time()) > 0:
        door.settimeout(left)
        try:
            more = door.recv(65_536)
        except (TimeoutError, OSError):
            break
        if not more:
            break
        content += more
    return content


def open_doors(world):
    """What is open when its user goes (connections, subscriptions, watches, consoles) gives and takes nothing more after two seconds: by a
    user that is disabled, and by a token that expires."""
    root = world.root
    with open(root) as file:
        roots = file.read().strip()
    for name in ("dora", "dirk"):
        world.done("user", "create", name, "--role", "reader on redis/redis", "--role", "reader on kv/etcd", "--role", "reader on kv/default", token=root)
    short = 12
    tokens = {name: world.done("token", "create", name, *more, token=root).strip()
              for name, more in (("dora", []), ("dirk", ["--expires", f"{short}s"]))}
    expires = time.time() + short

    def etcd(body, path, token, *arguments):
        return ["curl", "-sN", "--cacert", world.ready["ca"], "-H", f"Authorization: {token}", *arguments, "-d", json.dumps(body),
                world.nodes[3]["etcd"] + path]

    def publish(text):
        with world.door(0, "redis") as door:
            door.sendall(resp("AUTH", roots) + resp("PUBLISH", "news", text))
            heard(door, 0.5)
        put = {"key": "bmV3cw==", "value": base64.b64encode(text.encode()).decode()}
        told = subprocess.run(etcd(put, "/v3/kv/put", roots, "-m", "20"), capture_output=True, text=True).stdout
        check('"revision"' in told, f"etcd does not take a put of root's: {told}")

    opened, watches = {}, []
    for name, token in tokens.items():
        asks, listens = world.door(3, "redis"), world.door(3, "redis")
        asks.sendall(resp("AUTH", token) + resp("GET", "k"))
        listens.sendall(resp("AUTH", token) + resp("SUBSCRIBE", "news"))
        check(b"+OK" in heard(asks, 1) and b"subscribe" in heard(listens, 1), f"{name} does not get in at the Redis door")
        out = open(os.path.join(world.home, f"watch-of-{name}"), "w+")
        watch = etcd({"create_request": {"key": "bmV3cw=="}}, "/v3/watch", token, "-m", "60")
        opened[name] = (asks, listens, out, subprocess.Popen(watch, stdout=out))
        lines = open(os.path.join(world.home, f"lines-of-{name}"), "w")
        action = {"action": "KvWatch", "keyspace": "etcd", "prefix": "news", "since": "0"}
        watches.append(subprocess.Popen(
            ["curl", "-sN", "--cacert", world.ready["ca"], "-m", "60", "-H", f"Authorization: Bearer {token}", "-d", json.dumps(action),
             world.nodes[3]["http"]], stdout=lines))

    def watched(name):
        with open(os.path.join(world.home, f"watch-of-{name}")) as file:
            return file.read()

    def lines_of(name):
        with open(os.path.join(world.home, f"lines-of-{name}")) as file:
            return file.read()
    since = time.time()
    while not all('"created":true' in watched(name) for name in opened):
        check(time.time() - since < KNOWN_S, f"etcd's door gives no watch: {[watched(name) for name in opened]}")
        time.sleep(0.1)
    publish("early")
    since = time.time()
    while not all(base64.b64encode(b"early").decode() in watched(name) and "early" in lines_of(name) for name in opened):
        check(time.time() - since < KNOWN_S, f"a watch hears nothing: {[watched(name) + lines_of(name) for name in opened]}")
        time.sleep(0.1)
    check(all(b"early" in heard(listens, 1) for _, listens, _, _ in opened.values()), "a subscriber hears nothing")
    console = ["-H", f"Authorization: Bearer {tokens['dora']}", "-d", '{"action":"WhoAmI"}']
    check(world.curl(3, "/", *console) == "200", "the console does not get in")
    world.done("user", "disable", "dora", node=1, token=root)
    ended = {"dora": time.time(), "dirk": expires}
    for name, (asks, listens, _, watch) in opened.items():
        time.sleep(max(0.0, ended[name] + REVOKED_S - time.time()))
        publish(f"secret-{name}")
        asks.sendall(resp("GET", "k") + resp("PUBSUB", "CHANNELS"))
        got, late = heard(asks, 1), heard(listens, 1)
        check(got.count(b"-NOAUTH") == 2, f"a Redis connection of {name} is answered: {got}")
        check(f"secret-{name}".encode() not in late, f"a subscription of {name} goes on: {late}")
        check(base64.b64encode(f"secret-{name}".encode()).decode() not in watched(name), f"a watch of {name} goes on: {watched(name)}")
        check(f"secret-{name}" not in lines_of(name), f"KvWatch of {name} goes on: {lines_of(name)}")
        check("Unauthenticated" in lines_of(name), f"KvWatch of {name} is not ended: {lines_of(name)}")
        check('"canceled":true' in watched(name), f"a watch of {name} is not ended: {watched(name)}")
        watch.kill()
        watch.wait()
    for watch in watches:
        watch.kill()
        watch.wait()
    check(world.curl(3, "/", *console) == "401", "the console still gets in")


def http2_floods(world):
    """Streams that are reset as soon as they begin, and a head that never ends: the connection is ended, in bounded memory, and others are
    served."""
    node = world.nodes[2]

    def frame(kind, flags, stream, payload=b""):
        return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload

    def resident():
        with open(f"/proc/{node['pid']}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    path, host = b"/etcdserverpb.KV/Range", b"localhost"
    head = (bytes([0x83, 0x87, 0x04, len(path)]) + path + bytes([0x01, len(host)]) + host + bytes([0x0F, 0x10, 16]) + b"application/grpc")
    resets = b"".join(frame(1, 4, stream, head) + frame(3, 0, stream, (8).to_bytes(4, "big"))
                      for stream in range(1, 2 * HTTP2_STREAMS, 2))
    line = bytes([0x00, 1]) + b"x" + bytes([0x7F, 0x81, 0x7E]) + b"y" * 16_256
    endless = frame(1, 0, 1, head) + frame(9, 0, 1, line) * (HTTP2_HEAD_BYTES // len(line))
    for what, sent in (("streams that are reset", resets), ("a head without end", endless)):
        before = resident()
        with world.door(2, "etcd", protocols=["h2"]) as door:
            check(door.selected_alpn_protocol() == "h2", "etcd's door speaks no HTTP/2")
            door.settimeout(20)
            said, ended = b"", False
            try:
                door.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0))
                for at in range(0, len(sent), 65_536):
                    door.sendall(sent[at:at + 65_536])
            except (ssl.SSLError, OSError):
                ended = True
            try:
                while not ended and (more := door.recv(65_536)):
                    said += more
                ended = True
            except (ssl.SSLError, ConnectionError):
                ended = True
            except TimeoutError:
                pass
        check(ended, f"a connection with {what} goes on: {said[:200]}")
        grown = resident() - before
        check(grown < FLOOD_BYTES_MAX, f"{what} take {grown} bytes")
        check(world.curl(2, "/health") == "200", f"nobody is served beside {what}")


def backups(world):
    """`hive backup` here: with a role of its own, and not without; a user that is disabled ends one that is under way."""
    root, key = world.root, {"HIVE_BACKUP_KEY": os.path.join(world.home, "backup.key")}

    def backup(*words, token=None, fails=None):
        result = world.hive("backup", *words, token=token, environment=key)
        check((result.returncode != 0) == bool(fails) and (fails or "") in result.stderr, f"backup {' '.join(words)}: {result.returncode} {result.stdout} {result.stderr}")
        return result.stdout

    world.done("role", "create", "saver", "--allow", "inspect,list,read,write on kv/shop",
               "--allow", "inspect on node/*", token=root)
    world.done("role", "create", "restorer", "--allow", "inspect,configure,list,read,write,delete on kv/shop", "--allow",
               "inspect,configure,list,read,write,delete on kv/then", "--allow", "inspect on node/*", token=root)
    for kind in ("versioned", "plain"):
        user, restorer, folder = f"saver-{kind}", f"restorer-{kind}", os.path.join(world.home, f"backup-{kind}")
        for name, role in ((user, "saver"), (restorer, "restorer")):
            world.done("user", "create", name, "--role", role, token=root)
            world.keep(os.path.join(world.home, name), world.done("token", "create", name, token=root).strip())
        own, other = os.path.join(world.home, user), os.path.join(world.home, restorer)
        world.done("ctl", "keyspace", "create", "shop", "--kind", kind, "--rule", "size=3 location=world failure_domain=chassis", token=root)
        lines = os.path.join(world.home, "shop.jsonl")
        with open(lines, "w") as file:
            file.writelines(json.dumps({"key": f"k/{number}", "value": secrets.token_hex(50_000)}) + "\n" for number in range(BACKUP_KEYS))
        world.done("load", lines, "--keyspace", "shop", token=root)
        backup("create", folder, "--keyspace", "shop", fails="Unauthenticated")
        backup("create", folder, "--keyspace", "shop", token=os.path.join(world.home, "ann"), fails="PermissionDenied")
        check(not os.path.exists(os.path.join(folder, "manifest.json")), "a backup without the right is whole")
        backup("create", folder, "--keyspace", "shop", token=own)
        check(f" {BACKUP_KEYS} keys" in backup("verify", folder), "the backup has not all keys")
        backup("restore", folder, "--as", "then", token=own, fails="PermissionDenied")
        check(f"{BACKUP_KEYS} keys written" in backup("restore", folder, "--as", "then", token=other), "not all is restored")
        world.done("kv", "del", "k/3", "--keyspace", "shop", token=root)
        check("1 keys written" in backup("restore", folder, "--in-place", "--yes", token=other), "not all is restored in place")
        # Slow enough to be under way for a while.
        cut = os.path.join(world.home, f"cut-{kind}")
        env = {**os.environ, **key, "HIVE_CA": world.ready["ca"], "HIVE_ENDPOINT": world.nodes[4]["http"], "HIVE_TOKEN_FILE": own}
        slow = subprocess.Popen([HIVE, "backup", "create", cut, "--keyspace", "shop", "--rate", "1"], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        time.sleep(1)
        check(slow.poll() is None, "the slow backup has ended before its user was disabled")
        world.done("user", "disable", user, token=root)
        _, shown = slow.communicate(timeout=60)
        check(slow.returncode != 0 and "Unauthenticated" in shown, f"a backup goes on without its user: {slow.returncode} {shown}")
        check(not os.path.exists(os.path.join(cut, "manifest.json")), "a backup whose user was disabled is whole")
        for name in ("shop", "then"):
            world.done("ctl", "keyspace", "delete", name, "--yes", token=root)


def s3(world, pair, method, path, node=0):
    """The body and the status of a request that curl signs."""
    command = ["curl", "-s", "-m", str(S3_ANSWER_S), "-w", "%{http_code}", "--cacert", world.ready["ca"],
               "--aws-sigv4", "aws:amz:us-east-1:s3", "--user", ":".join(pair), world.nodes[node]["s3"] + path]
    body = "body" if method == "PUT" and path.count("/") > 1 else ""
    command += ["-H", "x-amz-content-sha256: " + hashlib.sha256(body.encode()).hexdigest()]
    command += ["-I"] if method == "HEAD" else ["-X", method]
    return subprocess.run([*command, "-d", body, "-H", "content-type: text/plain"] if method == "PUT" else command,
                          capture_output=True, text=True).stdout


def s3_keys(world):
    """A user's S3 key: its roles and bounds at the S3 door, its secret nowhere, and its end."""
    root = world.root

    def pair_of(lines):
        pair = dict(line.split("=", 1) for line in lines.splitlines())
        world.canaries.append(("s3-key", "." + pair["AWS_SECRET_ACCESS_KEY"]))
        return pair["AWS_ACCESS_KEY_ID"], pair["AWS_SECRET_ACCESS_KEY"]

    def key(*arguments):
        return pair_of(world.done("key", "create", *arguments, token=root))

    def expect(expected, pair, method, path, why, node=0):
        got = s3(world, pair, method, path, node)
        check(got.endswith(str(expected)), f"S3 {method} {path}: {got}, not {expected}: {why}")

    world.done("user", "create", "olga", "--role", "root", token=root)
    world.done("user", "create", "sam", "--role", "writer on bucket/vault/in/", token=root)
    olga, sam = key("olga", "--expires-in", "1h"), key("sam")
    expect(200, olga, "PUT", "/vault", "a user who may configure a bucket makes it")
    expect(200, sam, "PUT", "/vault/in/a", "a role is enough", node=3)
    expect(403, sam, "PUT", "/vault/out/a", "beyond the role")
    expect(403, sam, "PUT", "/sams-own", "a writer makes no bucket")
    narrow = key("olga", "--on", "bucket/vault/in/")
    expect(200, narrow, "GET", "/vault/in/a", "within the key's bound", node=2)
    expect(200, olga, "PUT", "/vault/out/b", "its owner")
    expect(403, narrow, "GET", "/vault/out/b", "beyond the key's bound, though its user owns the bucket")
    world.done("key", "revoke", sam[0], node=1, token=root)
    since = time.time()
    for node in range(len(world.nodes)):
        while s3(world, sam, "GET", "/vault/in/a", node).endswith("200"):
            check(time.time() - since < REVOKED_S, f"node {node + 1} takes an S3 key {REVOKED_S} s after it was revoked")
    # A key with a bound sees the buckets that it reaches, and those alone.
    expect(200, olga, "PUT", "/cellar", "another bucket")
    names = s3(world, narrow, "GET", "/")
    check(names.endswith("200") and "vault" in names and "cellar" not in names, f"a key with a bound lists {names}")
    expect(200, narrow, "HEAD", "/vault", "a part of it is enough to see that it is there")
    expect(403, narrow, "HEAD", "/cellar", "beyond the key's bound")
    # A key of an S3 account: sealed in its row, and shown once.
    world.done("ctl", "s3", "account", "create", "acme", token=root)
    acme = pair_of(world.done("ctl", "s3", "key", "create", "acme", token=root))
    expect(200, acme, "PUT", "/acme", "an account makes buckets", node=1)
    expect(200, acme, "PUT", "/acme/a", "and puts objects", node=4)
    with open(root) as file:
        allowed = ["-H", f"Authorization: Bearer {file.read().strip()}"]
    body = json.dumps({"action": "GetAccessKey", "access_key": acme[0]})
    shown = subprocess.run(["curl", "-s", "-m", "20", "--cacert", world.ready["ca"], *allowed, "-d", body, world.nodes[2]["http"]],
                           capture_output=True, text=True).stdout
    check('"account":"acme"' in shown.replace(" ", "") and acme[1] not in shown, f"GetAccessKey shows {shown}")
    check("1 access keys" in world.done("ctl", "s3", "key", "seal", "acme", token=root), "a key is not sealed")
    expect(200, acme, "GET", "/acme/a", "a key that was sealed again", node=3)
    spare = pair_of(world.done("ctl", "s3", "key", "create", "acme", token=root))
    for node in range(len(world.nodes)):
        expect(200, spare, "GET", "/acme/a", "a second key of the account", node=node)
    world.done("ctl", "s3", "key", "delete", spare[0], node=1, token=root)
    since = time.time()
    for node in range(len(world.nodes)):
        while s3(world, spare, "GET", "/acme/a", node).endswith("200"):
            check(time.time() - since < REVOKED_S, f"node {node + 1} takes an account's key {REVOKED_S} s after it was deleted")
    world.signers = {"a user": olga, "an account": acme}


def break_glass(world):
    """Without any token: through the socket in a node's data directory."""
    socket = os.path.join(world.nodes[1]["data"], "admin.sock")
    check(oct(os.stat(socket).st_mode)[-3:] == "600", "others may write to the Unix socket")
    made = world.done("token", "create", "root", endpoint=f"unix:{socket}").strip()
    fresh = os.path.join(world.home, "fresh")
    world.keep(fresh, made)
    world.done("ctl", "nodes", node=3, token=fresh)


def canaries(world):
    """Secrets through every door and setting that takes one, well-formed and not; `secrets_stay` searches for them afterwards."""
    root, node = world.root, world.nodes[0]
    password = world.canary("password")
    kept = os.path.join(world.home, "password")
    world.keep(kept, password)
    world.done("user", "create", "pat", "--role", "reader on kv/default/pat/", "--password-file", kept, token=root)
    since = time.time()
    while world.curl(1, "/", "-u", f"pat:{password}", "-d", '{"action":"WhoAmI"}') != "200":
        check(time.time() - since < KNOWN_S, "a new user's password does not get in at another node")
    basic = lambda secret: ["-u", f"pat:{secret}", "-d", '{"action":"WhoAmI"}']
    bearer = lambda secret: ["-H", f"Authorization: Bearer hive_0000000000000001_{secret}", "-d", '{"action":"WhoAmI"}']
    tries = [
        ("wrong-password", "401", basic), ("wrong-token", "401", bearer),
        ("no-scheme", "401", lambda secret: ["-H", f"Authorization: {secret}", "-d", '{"action":"WhoAmI"}']),
        ("other-header", "401", lambda secret: ["-H", f"X-Auth-Token: {secret}", "-d", '{"action":"WhoAmI"}']),
        ("cookie", "401", lambda secret: ["-H", f"Cookie: session={secret}", "-d", '{"action":"WhoAmI"}']),
    ]
    for name, expected, arguments in tries:
        for each in range(len(world.nodes)):
            got = world.curl(each, "/", *arguments(world.canary(name)))
            check(got == expected, f"{name}: {got}, not {expected}")
    with open(root) as file:
        allowed = ["-H", f"Authorization: Bearer {file.read().strip()}"]
    bodies = [
        ("changed-password", "200", '{"action":"ChangeUser","user":"pat","password":"%s"}'),
        ("no-such-user", "404", '{"action":"ChangeUser","user":"nobody","password":"%s"}'),
        ("unknown-field", "400", '{"action":"ChangeUser","user":"pat","pasword":"%s"}'),
        ("wrong-type", "400", '{"action":"ChangeUser","user":"pat","password":["%s"]}'),
        ("cut-off", "400", '{"action":"ChangeUser","user":"pat","password":"%s'),
        ("too-short", "400", '{"action":"CreateUser","user":"x","password":"%.11s"}'),
    ]
    for name, expected, body in bodies:
        got = world.curl(2, "/", *allowed, "-d", body % world.canary(name))
        check(got == expected, f"{name}: {got}, not {expected}")
    got = world.curl(3, "/get?key=k&token=" + world.canary("query"))
    check(got == "401", f"a token in the query: {got}")
    s3 = node["s3"] + "/canary-bucket/key"
    credential = "Credential=AKIA0000000000000000/20261124/us-east-1/s3/aws4_request, SignedHeaders=host, Signature="
    for name, expected, arguments in [
            ("s3-header", "400", lambda secret: ["-H", f"Authorization: AWS4-HMAC-SHA256 {credential}{secret}", s3]),
            ("s3-session", "400", lambda secret: ["-H", f"x-amz-security-token: {secret}", s3]),
            ("s3-query", "400", lambda secret: [f"{s3}?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Signature={secret}"]),
            ("s3-form", "400", lambda secret: ["-F", f"x-amz-signature={secret}", "-F", "file=x", node["s3"] + "/canary-bucket"]),
            ("s3-document", "404", lambda secret: ["-X", "POST", "-d", f"<Delete><Key>{secret}</Key", node["s3"] + "/canary-bucket?delete"])]:
        command = ["curl", "-s", "-m", "20", "-o", "/dev/null", "-w", "%{http_code}", "--cacert", world.ready["ca"]]
        got = subprocess.run([*command, *arguments(world.canary(name))], capture_output=True, text=True).stdout
        check(got == expected, f"{name}: {got}, not {expected}")
    # On the command line of hive itself a secret is a file or an environment variable; the processes are searched meanwhile.
    for word, file in [("--password-file", kept), ("--token-file", kept)]:
        world.hive("user", "create", "pat", word, file, token=root)
    for each in world.nodes:
        with open(f"/proc/{each['pid']}/cmdline", "rb") as arguments:
            world.search("the arguments of a node", arguments.read())
    for each in range(len(world.nodes)):
        command = ["curl", "-s", "-m", "20", "--cacert", world.ready["ca"], *allowed, world.nodes[each]["http"] + "/metrics"]
        world.search("metrics", subprocess.run(command, capture_output=True).stdout)


def canaries_of_databases(world):
    """The same through the doors of Redis and etcd, which take passwords, too."""
    kept, password = os.path.join(world.home, "password-of-zoe"), world.canary("zoe")
    world.keep(kept, password)
    world.done("user", "create", "zoe", "--role", "reader on kv/default/zoe/", "--password-file", kept, token=world.root)
    os.unlink(kept)
    for node in (0, 1):
        since = time.time()
        while world.curl(node, "/", "-u", f"zoe:{password}", "-d", '{"action":"WhoAmI"}') != "200":
            check(time.time() - since < KNOWN_S, "a new user's password does not get in")

    got = world.redis(1, resp("AUTH", "zoe", password))
    check(got == "+OK", f"a password does not get in at the Redis door: {got}")
    for node, (name, expected, sent) in enumerate([
            ("redis-wrong", "-WRONGPASS", lambda secret: resp("AUTH", "zoe", secret)),
            ("redis-alone", "-WRONGPASS", lambda secret: resp("AUTH", secret)),
            ("redis-hello", "-WRONGPASS", lambda secret: resp("HELLO", "3", "AUTH", "zoe", secret)),
            ("redis-too-long", "-ERR Protocol error", lambda secret: f"*2\r\n$4\r\nAUTH\r\n$999999999\r\n{secret}".encode()),
            ("redis-inline", "-ERR Protocol error", lambda secret: f'AUTH zoe "{secret}\r\n'.encode()),
            ("redis-unknown", "-", lambda secret: resp("AUTHENTICATE", secret)),
            ("redis-before", "-NOAUTH", lambda secret: resp("ACL", "SETUSER", "x", ">" + secret))]):
        got = world.redis(node % 2, sent(world.canary(name)))
        check(got.startswith(expected), f"{name}: {got}, not {expected}")

    def etcd(node, path, body, *arguments):
        asked = ["curl", "-s", "-m", "20", "-w", "%{http_code}", "--cacert", world.ready["ca"], *arguments,
                 "-d", body, world.nodes[node]["etcd"] + path]
        told = subprocess.run(asked, capture_output=True, text=True).stdout
        return told[-3:], told[:-3]
    named = '{"name":"zoe","password":"%s"}'
    got = etcd(0, "/v3/auth/authenticate", named % password)
    check(got[0] == "200", f"a password does not get in at etcd's door: {got}")
    for name, expected, path, body, arguments in [
            ("etcd-wrong", "400", "/v3/auth/authenticate", named, []),
            ("etcd-cut-off", "400", "/v3/auth/authenticate", named[:-1], []),
            ("etcd-token", "401", "/v3/kv/range", '{"key":"aw=="}', ["-H", "Authorization: %s"]),
            ("etcd-user", "400", "/v3/auth/user/add", named, [])]:
        secret = world.canary(name)
        fill = lambda text: text.replace("%s", secret)
        got = etcd(1, path, fill(body), *map(fill, arguments))
        check(got[0] == expected, f"{name}: {got}, not {expected}")


def panic_on_purpose(world):
    """A panic whose text has a request with a password in it: `secrets_stay` looks into the log for that, too."""
    with open(f"/proc/{world.process.pid}/cmdline", "rb") as arguments:
        world.search("the arguments of hive dev", arguments.read())
    kept = os.path.join(world.home, "password-of-panic")
    world.keep(kept, world.canary("panic"))
    own = world.hive("user", "create", PANICS, "--password-file", kept, node=4, token=world.root)
    os.unlink(kept)
    if own.returncode == 0:
        print("secure world: no debug build, so nothing panics on purpose: that step is left out")
        return
    since, shown = time.time(), False
    while not shown:
        check(time.time() - since < KNOWN_S, "no log has the panic on purpose")
        for folder, _, files in os.walk(world.home):
            for name in files:
                if name.endswith(".log"):
                    with open(os.path.join(folder, name), "rb") as file:
                        content = file.read()
                    # The text with the request, its password hidden: the panic was shown, and with what could have held it.
                    shown = shown or (b"on purpose: Request" in content and PANICS.encode() in content)
        time.sleep(0.1)


def majority_lost(world):
    """The loss of the world's majority stops nobody who was known before."""
    ann = os.path.join(world.home, "ann")
    for pair in world.signers.values():
        for node in (0, 1):
            check(s3(world, pair, "GET", "/acme", node)[-3:] in ("200", "403"), "a signature is not judged")
    for node in world.nodes[2:]:
        try:
            os.kill(node["pid"], signal.SIGKILL)
        except ProcessLookupError:
            pass  # The one that panicked on purpose has ended.
    time.sleep(3)
    for node in (0, 1):
        read = world.hive("kv", "get", "ann/1", "--read-consistency", "eventual", node=node, token=ann)
        check(read.returncode == 0, f"a known user is stopped by the loss of the world's majority: {read.stderr}")
        world.refused("PermissionDenied", "kv", "get", "bob", "--read-consistency", "eventual", node=node, token=ann)
        check(world.curl(node, "/get?key=ann/1") == "401", "nobody is asked who it is any more")
    # Buckets have lost their majority, too: a right signature is answered 503, and a wrong one still 403.
    for who, (access_key, secret) in world.signers.items():
        for node in (0, 1):
            got = s3(world, (access_key, secret), "GET", "/vault/in/a", node)
            check(got.endswith("503"), f"the key of {who} is not known without the world's majority: {got}")
            got = s3(world, (access_key, "x" * len(secret)), "GET", "/vault/in/a", node)
            check(got.endswith("403") and "SignatureDoesNotMatch" in got, f"a wrong secret of {who}: {got}")


def secrets_stay(world):
    """No token, password or canary is in any file (logs and panics among them) but those made for it."""
    seen = [arguments for arguments in world.arguments if arguments]
    check(len(seen) > len(world.arguments) // 2, "most commands had ended before their arguments were looked at")
    world.search("the arguments of a command", b"\0".join(seen))
    wanted = [open(os.path.join(world.home, name)).read().strip() for name in ("root", "ann", "eve", "fresh", "guard", "new")]
    own = {os.path.join(world.home, name)
           for name in ("root", "ann", "eve", "fresh", "guard", "new", "password", "ready.json")}
    for folder, _, files in os.walk(world.home):
        for name in files:
            path = os.path.join(folder, name)
            if path in own or name == "root-token" or not os.path.isfile(path):
                continue
            with open(path, "rb") as file:
                content = file.read()
            world.search(path, content)
            for secret in wanted:
                check(secret.encode() not in content and secret.split("_")[2].encode() not in content,
                      f"a token is in {path}")


if __name__ == "__main__":
    main()
