"""Faults from outside, each with a beginning and an end: what `case_judged.py` and `soak.py` draw from.

A fault is a function (place, drawn) that breaks something, and returns a function that mends it and says in a few words
what was done. `Place` holds the world, its wire and its disks.

Always: a fault breaks at most a minority of the nodes for good, and what it changed is as before after the mending: every
node runs, every link is whole, every disk writes. A node that refuses to start after its files were harmed must say which;
then an operator's remedy is applied: the directory is emptied. Not here: who judges (history.py), what is expected besides.
"""
import fcntl
import os
import pathlib
import re
import shutil
import signal
import struct
import subprocess
import tempfile
import time

from case_network import NODES, SUBNET, Net
from world import Problem, Skip

# EXT4_IOC_SHUTDOWN with EXT4_GOING_FLAGS_NOLOGFLUSH: what the journal has not is gone, as when the power fails.
EXT4_SHUTDOWN, SHUTDOWN_NO_FLUSH = 0x8004587D, 2
DISK_MIB = 768
START_SECONDS = 60
# A leader whose clock was stopped stays cut off for this long after it goes on.
AWAKE_SECONDS = 1.5
# A refused start names the place: a file or directory of the node.
REFUSAL = re.compile(r"(data directory|log|segment|engine|lane-\d+|hive-node|\.seg|\.mdb)")


class Place:
    """A world whose nodes have namespaces (`net`) or disks of their own (`disks`), as the case needs."""

    def __init__(self, run, name="w", net=False, disks=False, **options):
        self.run, self.net, self.disks, self.notes, self.tracers = run, None, {}, [], []
        if net:
            self.net = Net(run)
            options["hosts"] = [f"{SUBNET}.{number}" for number in range(1, NODES + 1)]
        self.world = run.world(name, **options)
        if net:
            for number, node in self.world.nodes.items():
                node.prefix = ["ip", "netns", "exec", self.net.names[number - 1]]
        if disks:
            for number in self.world.nodes:
                self.disks[number] = Disk(run, self.world.nodes[number].data)
        run.cleanups.insert(0, self.end_tracers)

    def start(self, keyspace=5):
        self.world.start()
        self.world.wait_ready()
        self.world.keyspace("default", size=keyspace)
        return self

    def end_tracers(self):
        for tracer in self.tracers:
            if tracer.poll() is None:
                tracer.send_signal(signal.SIGINT)
                tracer.wait()
        self.tracers = []

    def running(self):
        return [number for number, node in self.world.nodes.items() if node.running]

    def revive(self, number):
        """Starts a node that ended; one that refuses because of its files is emptied first, as its message asks. What was done."""
        world, node = self.world, self.world.nodes[number]
        for wiped in (False, True):
            if not node.running:
                world.start(number)
            end = time.monotonic() + START_SECONDS
            while node.running and not world.ready(number):
                if time.monotonic() > end:
                    raise Problem(f"node {number} runs but is not ready after {START_SECONDS} s: {world.log_tail(number)}")
                time.sleep(0.1)
            if node.running:
                return " (emptied)" if wiped else ""
            said = world.log_tail(number, 6)
            if wiped or not REFUSAL.search(said):
                raise Problem(f"node {number} ended with {node.process.returncode} and names no file: {said}")
            self.empty(number)
        raise Problem(f"node {number} does not start")

    def empty(self, number):
        for item in pathlib.Path(self.world.nodes[number].data).iterdir():
            shutil.rmtree(item) if item.is_dir() else item.unlink()


class Disk:
    """An ext4 of its own under a node's data directory, so that its power can fail without the machine's."""

    def __init__(self, run, data):
        self.data, self.image = pathlib.Path(data), pathlib.Path(data).with_name("disk.img")
        self.data.mkdir(parents=True, exist_ok=True)
        with open(self.image, "wb") as image:
            image.truncate(DISK_MIB << 20)
        for command in (["mkfs.ext4", "-q", "-F", str(self.image)], self.mount_command()):
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode != 0:
                raise Skip(f"an ext4 of a node's own cannot be had here: {' '.join(command)}: {done.stderr.strip()}")
        run.cleanups.insert(0, self.close)
        shutil.rmtree(self.data / "lost+found", ignore_errors=True)
        os.chmod(self.data, 0o700)

    def mount_command(self):
        return ["mount", "-o", "loop", str(self.image), str(self.data)]

    def cut_power(self):
        handle = os.open(self.data, os.O_RDONLY)
        try:
            fcntl.ioctl(handle, EXT4_SHUTDOWN, struct.pack("I", SHUTDOWN_NO_FLUSH))
        except OSError as error:
            raise Skip(f"the power of an ext4 cannot be cut here: {error}") from None
        finally:
            os.close(handle)

    def power_up(self):
        subprocess.run(["umount", str(self.data)], check=True, capture_output=True)
        subprocess.run(self.mount_command(), check=True, capture_output=True)

    def close(self):
        subprocess.run(["umount", "-l", str(self.data)], capture_output=True)
        self.image.unlink(missing_ok=True)


# -- processes ------------------------------------------------------------------------------------------


def killed(place, numbers, what):
    place.world.kill(*numbers)

    def mend():
        place.world.start(*numbers)
        told = "".join(place.revive(number) for number in numbers)
        return f"killed {what}{told}"
    return mend


def kill_one(place, drawn):
    return killed(place, [drawn.choice(place.running())], "one")


def kill_some(place, drawn):
    return killed(place, drawn.sample(place.running(), 2), "two")


def kill_all(place, _drawn):
    numbers = place.running()
    place.world.kill(*numbers)

    def mend():
        place.world.start(*numbers)
        place.world.wait_ready(*numbers)
        return "killed all"
    return mend


def pause(place, drawn):
    number = drawn.choice(place.running())
    place.world.pause(number)

    def mend():
        place.world.resume(number)
        return "paused one"
    return mend


# -- networks -------------------------------------------------------------------------------------------


def wire(place, cuts, what):
    for one, other in cuts:
        place.net.tell(f"cut {SUBNET}.{one} {SUBNET}.{other}")

    def mend():
        place.net.tell("heal")
        return what
    return mend


def between(some, others):
    return [(a, b) for a in some for b in others] + [(b, a) for a in some for b in others]


def leader_of(place):
    """Who leads the keyspace; any node where nobody says so just now."""
    try:
        return place.world.leader("metadata@ks-default-0", seconds=3)
    except Problem:
        return 1


def split_off(place, drawn, with_leader):
    leader = leader_of(place)
    others = [number for number in place.world.nodes if number != leader]
    drawn.shuffle(others)
    some = [leader, others[0]] if with_leader else others[:2]
    rest = [number for number in place.world.nodes if number not in some]
    return wire(place, between(some, rest), "partition, leader in the " + ("minority" if with_leader else "majority"))


def leader_in_minority(place, drawn):
    return split_off(place, drawn, True)


def leader_in_majority(place, drawn):
    return split_off(place, drawn, False)


def deaf(place, _drawn):
    leader = leader_of(place)
    return wire(place, [(other, leader) for other in place.world.nodes if other != leader], "deaf leader")


def mute(place, _drawn):
    leader = leader_of(place)
    return wire(place, [(leader, other) for other in place.world.nodes if other != leader], "mute leader")


def ring(place, _drawn):
    count = len(place.world.nodes)
    return wire(place, [(a, b) for a in place.world.nodes for b in place.world.nodes
                        if a != b and (a - b) % count not in (1, count - 1)], "ring")


def loss(place, drawn):
    percent = drawn.choice([5, 20, 40])
    place.net.tell(f"loss {percent}")
    place.net.tell(f"delay {drawn.choice([0, 5, 30])}")

    def mend():
        place.net.tell("heal")
        return f"loss {percent} %"
    return mend


# -- disks ----------------------------------------------------------------------------------------------


def injected(place, drawn, injection, what):
    """Through strace: the system calls that write and sync, of one node, from a drawn one on."""
    if shutil.which("strace") is None:
        raise Skip("needs strace")
    number = drawn.choice(place.running())
    calls = "pwrite64,pwritev,pwritev2,writev,fdatasync,fsync,msync"
    command = ["strace", "-f", "-qq", "-o", "/dev/null", "-p", str(serving_pid(place.world.nodes[number])),
               "-e", f"trace={calls}", "-e", f"inject={calls}:{injection}"]
    tracer = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    time.sleep(0.3)
    # It also ends when the node does, which the injected error may well lead to.
    if tracer.poll() is not None and place.world.nodes[number].running:
        raise Skip(f"strace cannot attach here: {tracer.stderr.read().strip()[-200:]}")
    place.tracers.append(tracer)

    def mend():
        place.end_tracers()
        return what + place.revive(number)
    return mend


def serving_pid(node):
    """The node's own process: `ip netns exec` becomes what it runs, so it is the one that was started."""
    return node.process.pid


def write_error(place, drawn):
    return injected(place, drawn, f"error=EIO:when={drawn.randrange(1, 60)}", "EIO")


def no_space(place, drawn):
    return injected(place, drawn, f"error=ENOSPC:when={drawn.randrange(1, 60)}", "ENOSPC")


def slow_disk(place, drawn):
    return injected(place, drawn, f"delay_enter={drawn.choice([20, 200, 1000]) * 1000}:when=1+{drawn.choice([1, 5])}", "slow disk")


def power_one(place, drawn):
    number = drawn.choice(place.running())
    return power(place, [number], "power of one")


def power_all(place, _drawn):
    return power(place, place.running(), "power of all")


def power(place, numbers, what):
    for number in numbers:
        place.disks[number].cut_power()
    place.world.kill(*numbers)

    def mend():
        for number in numbers:
            place.disks[number].power_up()
        if len(numbers) == 1:
            return what + place.revive(numbers[0])
        # Nobody may be emptied here: what all have synced must suffice.
        place.world.start(*numbers)
        place.world.wait_ready(*numbers)
        return what
    return mend


# -- files ----------------------------------------------------------------------------------------------


def flipped(place, drawn, choose, what):
    """Some bits of a killed node's files."""
    number = drawn.choice(place.running())
    place.world.kill(number)
    flips = choose(pathlib.Path(place.world.nodes[number].data), drawn)

    def mend():
        return f"{what} ({flips} bits){place.revive(number)}"
    return mend


def flip_at(path, places, drawn):
    """Flips one bit at each place; how many."""
    with open(path, "r+b") as file:
        for at in places:
            file.seek(at)
            byte = file.read(1)
            if byte:
                file.seek(at)
                file.write(bytes([byte[0] ^ 1 << drawn.randrange(8)]))
    return len(places)


def engine_bits(data, drawn):
    """Anywhere in what was written of the engine's files, pages, keys and values alike."""
    count = 0
    for path in data.rglob("data.mdb"):
        size = path.stat().st_size
        count += flip_at(path, [drawn.randrange(size) for _ in range(drawn.choice([1, 5, 40]))] if size else [], drawn)
    return count


def key_bits(data, drawn):
    """In stored keys of the load, found by their names."""
    count = 0
    for path in data.rglob("data.mdb"):
        found = [match.start() for match in re.finditer(rb"(register|batch|list)-\d-\d+", path.read_bytes())]
        count += flip_at(path, [at + drawn.randrange(8) for at in drawn.sample(found, min(len(found), 20))], drawn)
    return count


def log_bits(data, drawn, tail=False):
    """In the newest segment of a log: anywhere, or in its last 64 KiB that are not zero."""
    count = 0
    for directory in data.glob("lane-*/log"):
        segments = sorted(directory.glob("*.seg"), key=lambda path: path.stat().st_mtime)
        if not segments:
            continue
        content = segments[-1].read_bytes()
        end = len(content.rstrip(b"\0"))
        begin = max(4096, end - (64 << 10)) if tail else min(4096, end)
        if end > begin:
            count += flip_at(segments[-1], [drawn.randrange(begin, end) for _ in range(drawn.choice([1, 3]))], drawn)
    return count


def flip_engine(place, drawn):
    return flipped(place, drawn, engine_bits, "flipped engine pages")


def flip_keys(place, drawn):
    return flipped(place, drawn, key_bits, "flipped keys")


def flip_log(place, drawn):
    return flipped(place, drawn, log_bits, "flipped log")


def flip_log_tail(place, drawn):
    return flipped(place, drawn, lambda data, drawn: log_bits(data, drawn, tail=True), "flipped log tail")


def wiped(place, drawn):
    number = drawn.choice(place.running())
    place.world.kill(number)
    place.empty(number)

    def mend():
        return "wiped" + place.revive(number)
    return mend


def log_gone(place, drawn):
    """The log's volume is not mounted: its files are gone, everything else is there."""
    number = drawn.choice(place.running())
    place.world.kill(number)
    for directory in pathlib.Path(place.world.nodes[number].data).glob("lane-*/log"):
        for path in directory.iterdir():
            path.unlink()

    def mend():
        told = place.revive(number)
        if not told:
            raise Problem(f"node {number} started without its log and said nothing")
        return "log gone" + told
    return mend


def swapped(place, drawn):
    """Two nodes get each other's directories: both must refuse; then they get their own back."""
    world = place.world
    one, other = drawn.sample(place.running(), 2)
    world.kill(one, other)

    def exchange():
        for number, source in ((one, other), (other, one)):
            shutil.move(str(world.nodes[source].data), str(world.nodes[number].directory / "foreign"))
        for number in (one, other):
            shutil.move(str(world.nodes[number].directory / "foreign"), str(world.nodes[number].data))
    exchange()
    world.start(one, other)
    end = time.monotonic() + START_SECONDS
    while world.nodes[one].running or world.nodes[other].running:
        if time.monotonic() > end:
            raise Problem(f"nodes {one} and {other} run with each other's directories")
        time.sleep(0.1)

    def mend():
        exchange()
        for number in (one, other):
            if place.revive(number):
                raise Problem(f"node {number} does not start with its own directory any more")
        return "swapped directories, refused"
    return mend


# -- clocks ---------------------------------------------------------------------------------------------


class Clocks:
    """A library between the nodes and their clocks, through which a stop can hide time from them.

    `suspend`: CLOCK_MONOTONIC misses the time, CLOCK_BOOTTIME counts it, as when a machine sleeps.
    `hold`: both miss it, as when a hypervisor holds a guest and its clocks.
    """

    def __init__(self, place):
        if shutil.which("cc") is None:
            raise Skip("needs cc, for a clock that can be held")
        self.place, self.directory = place, pathlib.Path(tempfile.mkdtemp(prefix="hive-clock-", dir=place.run.root))
        library = self.directory / "clock.so"
        source = pathlib.Path(__file__).with_name("clock.c")
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"], check=True)
        for number, node in place.world.nodes.items():
            self.offsets(number, 0, 0)
            node.prefix = [*node.prefix, "env", f"LD_PRELOAD={library}", f"HIVE_TEST_CLOCK={self.file(number)}"]

    def file(self, number):
        return self.directory / f"offsets-{number}"

    def offsets(self, number, monotonic, boottime):
        """Nanoseconds that each clock has missed. One write of 16 bytes: the library maps the file."""
        path = self.file(number)
        if not path.exists():
            path.write_bytes(bytes(16))
        with open(path, "r+b") as file:
            file.write(struct.pack("qq", monotonic, boottime))

    def missed(self, number):
        return struct.unpack("qq", self.file(number).read_bytes())


def stopped_clock(place, hold):
    """The leader is cut off from the others, not from its clients, and stopped while they elect another; its clocks miss that."""
    number = leader_of(place)
    place.net.isolate(number)
    place.world.pause(number)
    start = time.monotonic_ns()

    def mend():
        monotonic, boottime = place.clocks.missed(number)
        gone = time.monotonic_ns() - start
        place.clocks.offsets(number, monotonic + gone, boottime + (gone if hold else 0))
        place.world.resume(number)
        # It must not answer from what it knew.
        time.sleep(AWAKE_SECONDS)
        place.net.tell("heal")
        return "held" if hold else "suspended"
    return mend


def suspend(place, _drawn):
    return stopped_clock(place, hold=False)


def hold(place, _drawn):
    return stopped_clock(place, hold=True)


PROCESSES = [kill_one, kill_some, kill_all, pause]
NETWORKS = [leader_in_minority, leader_in_majority, deaf, mute, ring, loss]
DISKS = [write_error, no_space, slow_disk]
POWER = [power_one, power_all]
FILES = [flip_engine, flip_keys, flip_log, flip_log_tail]
DIRECTORIES = [wiped, log_gone, swapped]
