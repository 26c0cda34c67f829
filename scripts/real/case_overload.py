"""Three times what the nodes can do, by JSON and by S3, then a normal load.

  closed loop (what they can do, slowed) ──▶ open loop at three times that ──▶ full speed, one request after the other

Nodes are slowed by stopping them for most of the time, so that one Python process can ask for more than they can do. Every
operation puts a key of its own.

Always: an operation that was refused is never applied, one that was acknowledged is there; what is neither may be either. No time
is judged. Not here: how much they can do (`hive bench overload`).
"""
import asyncio
import datetime
import hashlib
import hmac
import http.client
import json
import re
import threading
import time

from world import Problem

# What a node's run of 10 ms is followed by, until a third of what Python can ask for is more than the nodes can do.
STOPS_MS = (30, 90, 180)
RUN_MS = 10
TIMES = 3
RATE_MAX = 3000
LOAD_SECONDS = 12
CLOSED_SECONDS = 4
CLOSED_CLIENTS = 256
# More connections than the nodes take.
CONNECTIONS_MAX = 600
CONNECTIONS = 900
# Less than CONNECTIONS_MAX divided by what the nodes can do: leaders must refuse most writes before they begin with them (decision 0078).
DEADLINE_MS = 1000
# Longer than any deadline of a node: what is not answered then never is.
ANSWER_SECONDS = 30.0
AFTER = 50
READ_MAX = 400
GROWTH_KIB_MAX = 256 << 10
VALUE = "v" * 200
# Codes that an overloaded node may give, each before anything is applied, or with an unknown outcome.
JSON_CODES = {"Overloaded", "DeadlineExceeded", "NoLeader", "NotLeader", "OutcomeUnknown"}
S3_CODES = {"SlowDown", "ServiceUnavailable"}


class Slowed:
    """Nodes that are stopped for most of the time, until left."""

    def __init__(self, world, stop_ms):
        self.world, self.stop_ms, self.done = world, stop_ms, threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)

    def run(self):
        while not self.done.is_set():
            for number in self.world.nodes:
                self.world.pause(number)
            time.sleep(self.stop_ms / 1000)
            for number in self.world.nodes:
                self.world.resume(number)
            time.sleep(RUN_MS / 1000)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.done.set()
        self.thread.join()


class Json:
    name = "JSON"

    def __init__(self, world):
        self.world, self.addresses = world, [node.http for node in world.nodes.values()]

    def put(self, key, address):
        body = json.dumps({"action": "KvPut", "key": key, "value": VALUE, "deadline_ms": DEADLINE_MS}).encode()
        return b"POST / HTTP/1.1\r\nhost: %s\r\ncontent-length: %d\r\n\r\n%s" % (address.encode(), len(body), body)

    def judge(self, status, body):
        """applied, refused or unknown; a Problem where it is no answer of an overloaded node."""
        if status == 200:
            return "applied"
        if status == 503 and not body:
            return "refused"  # more connections than the node takes
        error = json.loads(body)["error"]
        if error["code"] not in JSON_CODES or status not in (429, 503, 504):
            raise Problem(f"a put by JSON is answered {status} {body[:300]!r}")
        return "refused" if error["outcome"] == "not_applied" else "unknown"

    def is_there(self, key):
        return self.world.ask(1, action="KvGet", key=key, read_consistency="strong", deadline_ms=20000)["found"]


class S3:
    name = "S3"

    def __init__(self, world, addresses):
        self.addresses = addresses
        endpoint = ("--endpoint", f"http://{world.nodes[1].http}")
        world.command("ctl", "s3", "account", "create", "ann", *endpoint)
        text = world.command("ctl", "s3", "key", "create", "ann", *endpoint).stdout
        found = {name: re.search(name + r"\W+([\w/+]+)", text) for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")}
        if not all(found.values()):
            raise Problem(f"hive ctl s3 key create prints no keys: {text[:300]}")
        self.key, self.secret = (found[name].group(1) for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"))
        status, body = self.ask("PUT", "/overload")
        if status != 200:
            raise Problem(f"the bucket cannot be made: {status} {body[:300]!r}")

    def signed(self, method, path, address):
        """Header lines of signature version 4, the body unsigned."""
        now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
        scope = f"{now[:8]}/fr-par/s3/aws4_request"
        headers = {"host": address, "x-amz-content-sha256": "UNSIGNED-PAYLOAD", "x-amz-date": now}
        names = ";".join(headers)
        request = "\n".join([method, path, "", *(f"{name}:{value}" for name, value in headers.items()), "", names, "UNSIGNED-PAYLOAD"])
        text = "\n".join(["AWS4-HMAC-SHA256", now, scope, hashlib.sha256(request.encode()).hexdigest()])
        key = ("AWS4" + self.secret).encode()
        for part in scope.split("/"):
            key = hmac.digest(key, part.encode(), "sha256")
        signature = hmac.digest(key, text.encode(), "sha256").hex()
        headers["authorization"] = f"AWS4-HMAC-SHA256 Credential={self.key}/{scope}, SignedHeaders={names}, Signature={signature}"
        return headers

    def put(self, key, address):
        lines = [f"{name}: {value}" for name, value in self.signed("PUT", f"/overload/{key}", address).items()]
        head = "\r\n".join([f"PUT /overload/{key} HTTP/1.1", *lines, f"content-length: {len(VALUE)}", "", ""])
        return (head + VALUE).encode()

    def ask(self, method, path):
        connection = http.client.HTTPConnection(self.addresses[0], timeout=ANSWER_SECONDS)
        try:
            connection.request(method, path, headers=self.signed(method, path, self.addresses[0]))
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def judge(self, status, body):
        if status == 200:
            return "applied"
        code = re.search(rb"<Code>(\w+)</Code>", body)
        if status != 503 or (body and (code is None or code.group(1).decode() not in S3_CODES)):
            raise Problem(f"a put by S3 is answered {status} {body[:300]!r}")
        # S3's answers do not say what became of a write, except where nobody has read the request.
        return "unknown" if body and code.group(1) != b"SlowDown" else "refused"

    def is_there(self, key):
        status, body = self.ask("GET", f"/overload/{key}")
        if status not in (200, 404):
            raise Problem(f"a get by S3 is answered {status} {body[:300]!r}")
        return status == 200


class Push:
    """Puts through one door, all connections in one thread."""

    def __init__(self, door, prefix):
        self.door, self.prefix = door, prefix
        self.free = {address: [] for address in door.addresses}
        self.number = self.not_sent = self.unanswered = 0
        self.keys = {"applied": [], "refused": [], "unknown": []}
        self.applied_at = []
        self.problem = None

    async def one(self):
        self.number += 1
        key, address = f"{self.prefix}-{self.number:07}", self.door.addresses[self.number % len(self.door.addresses)]
        try:
            outcome = await asyncio.wait_for(self.ask(key, address), ANSWER_SECONDS)
        except (OSError, EOFError, asyncio.IncompleteReadError, asyncio.TimeoutError):
            outcome = "unknown"
            self.unanswered += 1
        except Problem as problem:
            self.problem, outcome = problem, "unknown"
        self.keys[outcome].append(key)
        if outcome == "applied":
            self.applied_at.append(time.monotonic())

    async def ask(self, key, address):
        """A connection that was kept may have been closed meanwhile: then the outcome is unknown, as for any client."""
        if self.free[address]:
            reader, writer = self.free[address].pop()
        else:
            host, port = address.rsplit(":", 1)
            reader, writer = await asyncio.open_connection(host, int(port))
        kept = False
        try:
            writer.write(self.door.put(key, address))
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            length = re.search(rb"content-length: *(\d+)", head)
            body = await reader.readexactly(int(length.group(1))) if length else b""
            kept = b"connection: close" not in head
            return self.door.judge(int(head.split()[1]), body)
        finally:
            if kept:
                self.free[address].append((reader, writer))
            else:
                writer.close()

    async def closed(self):
        """What the nodes can do: clients that wait for each answer, a second."""
        end, before = time.monotonic() + CLOSED_SECONDS, len(self.applied_at)

        async def client():
            while time.monotonic() < end:
                await self.one()

        await asyncio.gather(*(client() for _ in range(CLOSED_CLIENTS)))
        return (len(self.applied_at) - before) / CLOSED_SECONDS

    async def opened(self, rate):
        """So many a second, whatever becomes of them; how many were answered in each third of the time."""
        start, due, tasks = time.monotonic(), 0, set()
        while (now := time.monotonic()) < start + LOAD_SECONDS:
            while due < (now - start) * rate:
                due += 1
                if len(tasks) >= CONNECTIONS:
                    self.not_sent += 1
                    continue
                task = asyncio.create_task(self.one())
                tasks.add(task)
                task.add_done_callback(tasks.discard)
            await asyncio.sleep(0.002)
        thirds = [0, 0, 0]
        for at in self.applied_at:
            if start <= at < start + LOAD_SECONDS:
                thirds[int((at - start) * 3 / LOAD_SECONDS)] += 1
        return due, thirds, tasks


async def push(world, door, prefix):
    """Slows the nodes, finds what they can do, asks for three times that; what to say of it, and the operations."""
    for stop_ms in STOPS_MS:
        with Slowed(world, stop_ms):
            load = Push(door, f"{prefix}-{stop_ms}")
            capacity = await load.closed()
            if load.problem:
                raise load.problem
            if capacity < 1:
                raise Problem(f"{door.name}: nodes that run {RUN_MS} of {RUN_MS + stop_ms} ms answer nothing: { {how: len(keys) for how, keys in load.keys.items()} }")
            if capacity * TIMES > RATE_MAX and stop_ms != STOPS_MS[-1]:
                continue
            asked, thirds, tasks = await load.opened(min(capacity * TIMES, RATE_MAX))
        break
    # At full speed again, what is under way comes to its end.
    await asyncio.gather(*tasks)
    for _, writer in (kept for free in load.free.values() for kept in free):
        writer.close()
        await asyncio.wait([asyncio.create_task(writer.wait_closed())])
    if load.problem:
        raise load.problem
    said = (f"{door.name}: {capacity:.0f}/s closed, {asked // LOAD_SECONDS}/s asked, answered {'+'.join(map(str, thirds))}, "
            f"{len(load.keys['refused'])} refused, {len(load.keys['unknown'])} unknown ({load.unanswered} of them without an answer), {load.not_sent} not sent")
    if 0 in thirds:
        raise Problem(f"nothing is answered in a third of the overload; {said}")
    if not load.keys["refused"]:
        raise Problem(f"nothing was refused, so this was no overload; {said}")
    return said, load


def check(door, load, said):
    def some(keys):
        return keys[:: max(1, len(keys) // READ_MAX)]

    lost = [key for key in some(load.keys["applied"]) if not door.is_there(key)]
    done = [key for key in some(load.keys["refused"]) if door.is_there(key)]
    if lost or done:
        raise Problem(f"{len(lost)} acknowledged puts are not there ({lost[:3]}), {len(done)} refused ones are ({done[:3]}); {said}")


def overload(run, door_of, name):
    world = run.world("w", regions=("fr-par",) * 3, limits={"connections_max": CONNECTIONS_MAX})
    addresses = []
    for node in world.nodes.values():
        addresses.append(f"{node.host}:{world.base_port + 400 + node.number}")
        node.config.write_text(world.toml(node, end=["[s3]", f"listen = {json.dumps(addresses[-1])}", f"data = {json.dumps(str(world.directory / 's3'))}"]))
    (world.directory / "s3").mkdir()
    world.start()
    world.wait_ready()
    world.keyspace("default", size=3)
    door = door_of(world, addresses)
    before = [world.rss_kib(number, "RssAnon") for number in world.nodes]
    said, load = asyncio.run(push(world, door, name))
    run.note(said)
    # Normal again: one after the other, each with an ordinary deadline.
    for number in range(AFTER):
        through = number % len(world.nodes) + 1
        status, answer = world.client(through, ANSWER_SECONDS).action({"action": "KvPut", "key": f"after-{number}", "value": VALUE, "deadline_ms": 5000})
        if status != 200:
            raise Problem(f"put {number} after the overload, through node {through}: {status} {str(answer)[:300]}; {said}")
    check(door, load, said)
    after = [world.rss_kib(number, "RssAnon") for number in world.nodes]
    if any(end > start + GROWTH_KIB_MAX for start, end in zip(before, after)):
        raise Problem(f"memory of the nodes, before and after: {before} and {after} KiB")
    run.note(f"{AFTER} of {AFTER} puts answered afterwards, nodes at {max(after) >> 10} MiB of their own at most")


def by_json(run):
    """Three times what the nodes can do, by JSON."""
    overload(run, lambda world, _: Json(world), "json")


def by_s3(run):
    """Three times what the nodes can do, by S3."""
    overload(run, S3, "s3")


CASES = [("overload-json", by_json), ("overload-s3", by_s3)]
