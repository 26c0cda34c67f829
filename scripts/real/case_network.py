"""Nodes in network namespaces: partitions, one-way cuts, delay and loss."""
import ctypes
import fcntl
import os
import pathlib
import struct
import subprocess
import sys
import time

from load import Load
from world import Problem, Skip, die_with_parent

TUNSETIFF, IFF_TUN, IFF_NO_PI, CLONE_NEWNET = 0x400454CA, 0x0001, 0x1000, 0x40000000
SUBNET = "10.77.29"
KEYSPACE_CLUSTER = "metadata@ks-default-0"
NODES = 5
CLIENT = f"{SUBNET}.100"


def ip(*arguments):
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        raise Skip(f"network namespaces are not to be had here: ip {' '.join(arguments)}: {done.stderr.strip()}")


def tun(name):
    """A TUN device in the namespace this thread is in."""
    fd = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI))
    return fd


def inside(namespace, work):
    """Does something with this thread in a namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    home = os.open("/proc/self/ns/net", os.O_RDONLY)
    there = os.open(f"/run/netns/{namespace}", os.O_RDONLY)
    try:
        if libc.setns(there, CLONE_NEWNET) != 0:
            raise Skip(f"a network namespace cannot be entered: {os.strerror(ctypes.get_errno())}")
        return work()
    finally:
        libc.setns(home, CLONE_NEWNET)
        os.close(home)
        os.close(there)


class Net:
    """Namespaces for the nodes, the wire between them."""

    def __init__(self, run):
        self.names = [f"hive-real-{os.getpid()}-{number}" for number in range(1, NODES + 1)]
        run.cleanups.append(self.close)
        self.made, self.switch, fds = [], None, []
        try:
            for number, name in enumerate(self.names, 1):
                ip("netns", "add", name)
                self.made.append(name)
                fds.append((inside(name, lambda: tun("hive0")), f"{SUBNET}.{number}"))
                ip("-n", name, "addr", "add", f"{SUBNET}.{number}/24", "dev", "hive0")
                ip("-n", name, "link", "set", "hive0", "up", "mtu", "9000")
                ip("-n", name, "link", "set", "lo", "up")
            fds.append((tun("hivereal0"), CLIENT))
            ip("addr", "add", f"{CLIENT}/24", "dev", "hivereal0")
            ip("link", "set", "hivereal0", "up", "mtu", "9000")
        except OSError as error:
            raise Skip(f"a TUN device cannot be made here: {error}") from None
        command = [sys.executable, str(pathlib.Path(__file__).with_name("switch.py")), *(f"{fd}:{address}" for fd, address in fds)]
        self.switch = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                       pass_fds=[fd for fd, _ in fds], preexec_fn=die_with_parent)
        for fd, _ in fds:
            os.close(fd)

    def tell(self, text):
        self.switch.stdin.write(text + "\n")
        self.switch.stdin.flush()
        if self.switch.stdout.readline() != "ok\n":
            raise Problem(f"the switch did not take '{text}'")

    def cut(self, one, other, both=True):
        self.tell(f"cut {SUBNET}.{one} {SUBNET}.{other}")
        if both:
            self.tell(f"cut {SUBNET}.{other} {SUBNET}.{one}")

    def isolate(self, number):
        for other in range(1, NODES + 1):
            if other != number:
                self.cut(number, other)

    def close(self):
        if self.switch is not None:
            self.switch.kill()
            self.switch.wait()
        for name in self.made:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)


def network(run):
    net = Net(run)
    world = run.world("w", hosts=[f"{SUBNET}.{number}" for number in range(1, NODES + 1)])
    for number, node in world.nodes.items():
        node.prefix = ["ip", "netns", "exec", net.names[number - 1]]
    world.start()
    world.wait_ready()
    world.keyspace("default", size=5)
    return net, world


def partition(run):
    """The leader is cut off from all others, but not from its clients; then cut off in one direction only."""
    net, world = network(run)
    load = Load(world, writers=3, counters=1, readers=3, attempt=1.5).start()
    moved = []
    for one_way in (False, True):
        time.sleep(2)
        leader = world.leader(KEYSPACE_CLUSTER)
        if one_way:
            net.tell(f"cut {SUBNET}.{leader} *")
        else:
            net.isolate(leader)
        before = len(load.acknowledged)
        time.sleep(6)
        if len(load.acknowledged) == before:
            raise Problem(f"no write was acknowledged while node {leader} was cut off {'in one direction' if one_way else ''}")
        other = leader % NODES + 1
        moved.append(f"{leader}→{world.leader(KEYSPACE_CLUSTER, through=other)}")
        net.tell("heal")
    time.sleep(3)
    load.finish().check()
    run.note(f"leader {', then one way '.join(moved)}: {load.summary()}, longest gap {load.longest_gap():.1f} s")


def minority(run):
    """Two of five nodes are cut off from three, then every link is cut one after the other and mended in another order."""
    import random
    net, world = network(run)
    load = Load(world, writers=3, counters=1, readers=2, attempt=1.5, budget=15).start()
    time.sleep(1)
    for one in (1, 2):
        for other in (3, 4, 5):
            net.cut(one, other)
    time.sleep(5)
    net.tell("heal")
    time.sleep(3)
    links = [(one, other) for one in world.nodes for other in world.nodes if one < other]
    random.shuffle(links)
    for one, other in links:
        net.cut(one, other)
        time.sleep(0.15)
    net.tell("heal")
    start = time.monotonic()
    before = len(load.acknowledged)
    while len(load.acknowledged) == before and time.monotonic() - start < 10:
        time.sleep(0.05)
    converged = time.monotonic() - start
    time.sleep(2)
    load.finish().check()
    run.note(f"first write {converged:.1f} s after healing: {load.summary()}, longest gap {load.longest_gap():.1f} s")


def wan(run):
    """100 ms each way and 1 % loss between all nodes: slow, but no error, no lost write; how often leaders changed is told."""
    net, world = network(run)
    time.sleep(2)
    before = world.describe(KEYSPACE_CLUSTER, 1)
    net.tell("delay 100")
    net.tell("loss 1")
    load = Load(world, writers=6, counters=1, readers=2).start()
    time.sleep(25)
    load.finish()
    net.tell("heal")
    time.sleep(2)
    load.check()
    after = world.describe(KEYSPACE_CLUSTER, 1)
    run.note(f"term {before['term']}→{after['term']}: {load.summary()}, longest gap {load.longest_gap():.1f} s")


CASES = [("net-partition", partition), ("net-minority", minority), ("net-wan", wan)]
