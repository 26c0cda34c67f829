"""A world of real `hive node` processes: laid out, started, killed, wiped.

Always: every process started here is ended by its own id, at the latest by `close`; nothing outside
the world's directory is written. Not here: clients (client.py), what a case does with a world (case_*.py).
"""
import json
import os
import pathlib
import shutil
import signal
import ssl
import subprocess
import time

from client import Client, Unreachable

READY_SECONDS = 60
STOP_SECONDS = 10
# What must never be in a node's log: the marks of a bug, not of a fault.
PANIC_MARKS = ("panicked at", "assertion failed", "found its own state impossible")


class Problem(Exception):
    """A check failed; the text says what was seen."""


class Skip(Exception):
    """The machine lacks what the case needs; the text says what."""


class Node:
    """One node's place: labels, ports, files, process."""

    def __init__(self, world, number, region, az, host):
        self.world, self.number, self.region, self.az, self.host = world, number, region, az, host
        self.http = f"{host}:{world.base_port + 100 + number}"
        self.peer = f"{host}:{world.base_port + 600 + number}"
        self.directory = world.directory / f"node-{number}"
        self.data = self.directory / "data"
        self.log = self.directory / "node.log"
        self.config = self.directory / "node.toml"
        self.prefix = []  # for example: ip netns exec …
        self.hive = None  # another program than the world's
        self.process = None
        self.paused = False

    @property
    def running(self):
        return self.process is not None and self.process.poll() is None


class World:
    """`regions` names each node's region, in order; `members` are the numbers of the world's members."""

    def __init__(self, hive, directory, base_port, regions=("fr-par",) * 3 + ("nl-ams", "pl-waw"), members=None,
                 region_members=None, hosts=None, tuning=None, limits=None, name="real", extra="", secure=False):
        """`secure`: TLS on the HTTP door, and nobody is served without a token; the world's own clients show root's."""
        self.hive, self.directory, self.base_port, self.name = hive, pathlib.Path(directory), base_port, name
        self.tuning, self.limits, self.extra = tuning or {}, limits or {}, extra
        hosts = hosts or ["127.0.0.1"] * len(regions)
        seen = {}
        self.nodes = {}
        for number, region in enumerate(regions, 1):
            seen[region] = seen.get(region, 0) + 1
            self.nodes[number] = Node(self, number, region, f"{region}-{seen[region]}", hosts[number - 1])
        self.members = members or list(self.nodes)
        self.region_members = region_members
        self.secure, self.tls, self.token = secure, None, None
        self.loads = []

    # -- laying out ---------------------------------------------------------------------------------

    def write(self):
        self.directory.mkdir(parents=True, exist_ok=True)
        authority = self.directory / "ca"
        self.command("ca", "init", "--dir", str(authority), "--world", self.name)
        if self.secure:
            clients = str(self.clients_authority)
            self.command("ca", "init", "--clients", "--dir", clients, "--world", self.name)
            for node in self.nodes.values():
                self.command("ca", "issue", "--dir", clients, "--server", str(node.number), "--address", f"{node.host},localhost")
            self.tls = ssl.create_default_context(cafile=str(self.clients_authority / "ca.pem"))
        for node in self.nodes.values():
            node.directory.mkdir(parents=True, exist_ok=True)
            self.issue(node.number)
            node.config.write_text(self.toml(node))
        return self

    @property
    def clients_authority(self):
        return self.directory / "clients-ca"

    def issue(self, number, days=365):
        node = self.nodes[number]
        self.command("ca", "issue", "--dir", str(self.directory / "ca"), "--node", str(number),
                     "--address", f"{node.host},127.0.0.1,localhost", "--days", str(days))

    def toml(self, node, **change):
        """The node's configuration; `change` replaces single values (for bad input)."""
        text = json.dumps
        authority = self.directory / "ca"
        lines = [f"id = {change.get('id', node.number)}", f"data = {text(change.get('data', 'data'))}", "cores = 1"]
        lines += change.get("top", [])
        lines += ["[world]", f"name = {text(change.get('world', self.name))}"]
        for number in change.get("members", self.members):
            lines += ["[[world.members]]", f"id = {number}", f"address = {text(self.nodes[number].peer)}"]
        lines += ["[region]", f"name = {text(node.region)}"]
        region_members = self.region_members
        if region_members is None:
            region_members = [n.number for n in self.nodes.values() if n.region == node.region]
        for number in region_members:
            if self.nodes[number].region == node.region:
                lines += ["[[region.members]]", f"id = {number}", f"address = {text(self.nodes[number].peer)}"]
        lines += ["[location]", f"az = {text(node.az)}", f"rack = {text(node.az + '-rack')}",
                  f"chassis = {text(node.az + '-chassis')}"]
        lines += ["[http]", f"listen = {text(node.http)}", "[peer]", f"listen = {text(node.peer)}"]
        lines += ["[certificates]", f"authority = {text(str(authority / 'ca.pem'))}",
                  f"certificate = {text(str(change.get('certificate', authority / f'node-{node.number}.pem')))}",
                  f"key = {text(str(change.get('key', authority / f'node-{node.number}.key')))}"]
        if self.secure:
            made = self.clients_authority / f"server-{node.number}"
            lines += ["[tls]", f"certificate = {text(f'{made}.pem')}", f"key = {text(f'{made}.key')}", "[access]", "required = true"]
        for section, values in (("limits", self.limits), ("tuning", self.tuning)):
            if values:
                lines += [f"[{section}]"] + [f"{name} = {value}" for name, value in values.items()]
        return "\n".join(lines + change.get("end", [])) + "\n"

    def command(self, *arguments, check=True, timeout=60):
        """Runs `hive …`; its output, or a Problem."""
        done = subprocess.run([self.hive, *arguments], capture_output=True, text=True, timeout=timeout)
        if check and done.returncode != 0:
            raise Problem(f"hive {' '.join(arguments)} ended with {done.returncode}: {done.stderr.strip()}")
        return done

    # -- processes ----------------------------------------------------------------------------------

    def start(self, *numbers, config=None):
        for number in numbers or self.nodes:
            node = self.nodes[number]
            assert not node.running, f"node {number} runs already"
            with open(node.log, "ab") as log:
                command = [*node.prefix, node.hive or self.hive, "node", "--config", str(config or node.config)]
                node.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                                preexec_fn=die_with_parent)
            node.paused = False
        return self

    def kill(self, *numbers):
        running = [self.nodes[number] for number in numbers if self.nodes[number].running]
        for node in running:
            node.process.send_signal(signal.SIGKILL)
        for node in running:
            node.process.wait()

    def stop(self, *numbers):
        """In order, with SIGTERM; the exit codes."""
        stopped = [self.nodes[number] for number in numbers or self.nodes if self.nodes[number].running]
        for node in stopped:
            node.process.send_signal(signal.SIGTERM)
        end = time.monotonic() + STOP_SECONDS
        late = []
        for node in stopped:
            try:
                node.process.wait(max(0.1, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                late.append(node.number)
                self.kill(node.number)
        if late:
            raise Problem(f"nodes {late} did not end within {STOP_SECONDS} s of SIGTERM")
        return {node.number: node.process.returncode for node in stopped}

    def pause(self, number):
        self.nodes[number].process.send_signal(signal.SIGSTOP)
        self.nodes[number].paused = True

    def resume(self, number):
        self.nodes[number].process.send_signal(signal.SIGCONT)
        self.nodes[number].paused = False

    def serving(self):
        return any(node.running for node in self.nodes.values())

    def wipe(self, number):
        assert not self.nodes[number].running
        shutil.rmtree(self.nodes[number].data)

    def close(self):
        # Clients of a case that failed must not go on against the next case's world.
        for load in self.loads:
            load.stopping.set()
        for node in self.nodes.values():
            if node.running and node.paused:
                self.resume(node.number)
        self.kill(*self.nodes)
        for load in self.loads:
            load.join()

    # -- looking ------------------------------------------------------------------------------------

    def client(self, number, timeout=5.0):
        return Client(self.nodes[number].http, timeout, self.tls, self.root_token())

    def root_token(self):
        """Of a secure world, as soon as a node has made it."""
        if self.secure and not self.token:
            made = [node.data / "root-token" for node in self.nodes.values() if (node.data / "root-token").exists()]
            self.token = made[0].read_text().strip() if made else None
        return self.token

    def wait_root_token(self, seconds=READY_SECONDS):
        end = time.monotonic() + seconds
        while self.secure and not self.root_token():
            if time.monotonic() > end:
                raise Problem(f"no node has made the root token after {seconds} s: {self.log_tail(1)}")
            time.sleep(0.1)

    def ask(self, number, timeout=35.0, **fields):
        """One action; its answer, or a Problem."""
        status, answer = self.client(number, timeout).action(fields)
        if not answer.get("ok"):
            raise Problem(f"{fields} through node {number}: {status} {json.dumps(answer)[:400]}")
        return answer

    def ready(self, number):
        try:
            return self.client(number, 2.0).get("/ready")[0] == 200
        except Unreachable:
            return False

    def wait_ready(self, *numbers, seconds=READY_SECONDS):
        """Until they are ready; how long that took."""
        start = time.monotonic()
        waiting = list(numbers or self.nodes)
        while waiting:
            for number in list(waiting):
                node = self.nodes[number]
                if not node.running:
                    raise Problem(f"node {number} ended while starting (exit {node.process.returncode}): {self.log_tail(number)}")
                if self.ready(number):
                    waiting.remove(number)
            if waiting and time.monotonic() - start > seconds:
                body = ""
                try:
                    body = self.client(waiting[0], 2.0).get("/ready")[1].decode(errors="replace")[:600]
                except Unreachable as error:
                    body = str(error)
                raise Problem(f"nodes {waiting} are not ready after {seconds} s: {body}; log: {self.log_tail(waiting[0])}")
            time.sleep(0.1)
        return time.monotonic() - start

    def keyspace(self, name="default", size=5, partitions=16, clusters=1, partition="hash", location="world", through=1, **more):
        rule = f"size={size} location={location} failure_domain=chassis"
        return self.ask(through, action="CreateKeyspace", keyspace=name, partition=partition, partitions=partitions,
                        clusters=clusters, rule=rule, deadline_ms=30000, **more)

    def clusters(self, through):
        return {item["name"]: item for item in self.ask(through, action="ListClusters", limit=1000)["clusters"]}

    def describe(self, name, through):
        return self.ask(through, action="DescribeCluster", name=name, deadline_ms=10000)["cluster"]

    def leader(self, name, through=1, seconds=20):
        end = time.monotonic() + seconds
        while True:
            try:
                leader = self.describe(name, through)["leader"]
                if leader:
                    return leader
            except (Problem, Unreachable):
                pass
            if time.monotonic() > end:
                raise Problem(f"{name} has no leader after {seconds} s, asked through node {through}")
            time.sleep(0.2)

    def rss_kib(self, number, kind="VmRSS"):
        """Resident memory; kind RssAnon: without the pages of files (LMDB's map, the program), which can be had back."""
        for line in pathlib.Path(f"/proc/{self.pid(number)}/status").read_text().splitlines():
            if line.startswith(kind + ":"):
                return int(line.split()[1])
        return 0

    def cpu_seconds(self, number):
        fields = pathlib.Path(f"/proc/{self.pid(number)}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def pid(self, number):
        return self.nodes[number].process.pid

    def log_text(self, number):
        try:
            return self.nodes[number].log.read_text(errors="replace")
        except FileNotFoundError:
            return ""

    def log_tail(self, number, lines=4):
        return " | ".join(self.log_text(number).splitlines()[-lines:])

    def check_logs(self):
        """No node may have panicked, in any of its lives."""
        for number in self.nodes:
            for line in self.log_text(number).splitlines():
                if any(mark in line for mark in PANIC_MARKS):
                    raise Problem(f"node {number} panicked: {line[:400]}")


def die_with_parent():
    """In the child, before exec: the kernel ends it when this program dies, however that happens."""
    import ctypes
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
