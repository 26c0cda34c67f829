"""Disks that are lost or full."""
import pathlib
import subprocess
import time

from client import Unreachable
from load import Load
from world import Problem, Skip

HEAL_SECONDS = 40
# Two regions with config clusters of their own; world members 1, 2, 4; node 5 is member of nothing by configuration.
# nl-ams has no cluster of its own: with two members it could not outlive the loss of one disk.
REGIONS = ("fr-par", "fr-par", "fr-par", "nl-ams", "nl-ams")


def members_of(world, number, through):
    """cluster -> (generation, replica id) of every cluster that counts this node a member."""
    found = {}
    for name, cluster in world.clusters(through).items():
        try:
            cluster = world.describe(name, through)
        except Problem:
            pass
        for member in cluster["members"]:
            if member["node"] == number:
                found[name] = (cluster["generation"], member["replica"])
    return found


def await_healed(world, number, before, through, seconds=HEAL_SECONDS):
    """Until each cluster has the node back as a voter, caught up, with a new replica id; how long that took."""
    start = time.monotonic()
    while True:
        waiting = []
        for name, old in before.items():
            try:
                cluster = world.describe(name, through)
            except (Problem, Unreachable) as error:
                waiting.append(f"{name}: {str(error)[:120]}")
                continue
            here = [m for m in cluster["members"] if m["node"] == number]
            if name.startswith("metadata@config-") and not here and cluster["leader"] and cluster["members"]:
                continue  # had no majority without the lost disk: its owner made it anew, elsewhere
            if len(here) != 1 or here[0]["learner"] or (cluster["generation"], here[0]["replica"]) == old or here[0]["matched"] < cluster["commit"]:
                waiting.append(f"{name}: commit {cluster['commit']}, this node {here}")
        if not waiting:
            return time.monotonic() - start
        if time.monotonic() - start > seconds:
            raise Problem(f"node {number} is not back in {len(waiting)} of {len(before)} clusters after {seconds} s: "
                          + "; ".join(waiting[:3]))
        time.sleep(0.3)


def lose(run, world, number, through, what):
    before = members_of(world, number, through)
    if not before:
        raise Problem(f"node {number} is in no cluster before it is wiped")
    world.stop(number)
    world.wipe(number)
    start = time.monotonic()
    world.start(number)
    ready = world.wait_ready(number)
    healed = ready + await_healed(world, number, before, through)
    status = world.command("ctl", "status", "--endpoint", f"http://{world.nodes[number].http}", check=False)
    if status.returncode != 0:
        raise Problem(f"hive ctl status through node {number}: exit {status.returncode}: {status.stdout[-200:]} {status.stderr[-200:]}")
    run.note(f"{what}: {len(before)} replicas, ready {ready:.1f} s, all back {max(healed, time.monotonic() - start):.1f} s")
    return before


def disk_loss(run):
    """A node's data is deleted; it comes back by itself, everywhere, as a new replica."""
    world = run.started("w", keyspace=3, regions=REGIONS, members=[1, 2, 4], region_members=[1, 2, 3])
    load = Load(world, writers=2, counters=1, readers=2).start()
    time.sleep(3)
    kept = {m["node"] for m in world.describe("metadata@ks-default-0", 1)["members"]}
    lose(run, world, 1, 2, "world and region member")
    member = next(iter(kept - {1, 2}), 2)
    lose(run, world, member, 1 if member != 1 else 2, f"keyspace member {member}")
    outside = next(iter(set(world.nodes) - kept - {member}), 5)
    lose(run, world, outside, 1 if outside != 1 else 2, f"non-member {outside} of the keyspace")
    load.finish().check()
    run.note(load.summary())


def disk_loss_in_turn(run):
    """Two nodes after one another in the world of `hive dev` (every node a world member), the second at once after the first."""
    world = run.started("w", keyspace=5)
    load = Load(world, writers=2, counters=1, readers=1).start()
    time.sleep(2)
    # Node 5 is alone in its region: no configuration cluster can be had there.
    lose(run, world, 5, 1, "alone in its region")
    lose(run, world, 2, 1, "second")
    load.finish().check()
    world.stop()
    world.start()
    world.wait_ready()
    load.check()
    run.note(load.summary() + ", all there after a restart")


# How long all disks stay full, and how long a read may take then.
FULL_SECONDS = 45
READ_MS = 5_000


def small_disks(run, numbers):
    """A world of three nodes in one region; the data of those named is on a small file system each. -> world, the directories"""
    world = run.world("w", regions=("fr-par",) * 3, limits={"disk_free_bytes_min": 16 << 20},
                      tuning={"log_segment_bytes": 8 << 20, "flush_after_ms": 1000, "flush_bytes": 4 << 20})
    return world, [mount_small(run, world.nodes[number].directory / "data") for number in numbers]


def mount_small(run, directory):
    directory.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=160m,mode=0700", "hive-real", str(directory)], capture_output=True, text=True)
    if done.returncode != 0:
        raise Skip(f"a small file system cannot be mounted here: {done.stderr.strip()}")
    run.cleanups.append(lambda: subprocess.run(["umount", "-l", str(directory)], capture_output=True))
    return directory


def full_disks(run):
    """The disks of all nodes are full at once: writes are refused with 507, reads go on, also after a leader is killed."""
    world, smalls = small_disks(run, (1, 2, 3))
    world.start()
    world.wait_ready()
    world.keyspace("default", size=3)
    load = Load(world, writers=2, counters=1, readers=1, pause=0.01).start()
    time.sleep(2)
    load.finish().check()
    for small in smalls:
        fill(small / "filler")
    refused = await_status(world, "default", 507, 30)
    slowest = read_while_full(world, FULL_SECONDS)
    leader = world.leader("metadata@ks-default-0")
    world.kill(leader)
    world.start(leader)
    world.wait_ready(leader)
    slowest = max(slowest, read_while_full(world, FULL_SECONDS / 3))
    for small in smalls:
        (small / "filler").unlink()
    back = await_status(world, "default", 200, 20)
    again = Load(world, writers=2, counters=0, readers=0, prefix="again", pause=0.01).start()
    time.sleep(2)
    again.finish().check_pairs({})
    world.stop()
    world.start()
    world.wait_ready()
    load.check()
    again.check_pairs({})
    run.note(f"507 after {refused:.1f} s; reads went on, the slowest took {slowest:.1f} s; taken again {back:.1f} s after there was room; {load.summary()}")


def read_while_full(world, seconds):
    """Strong and eventual reads through each node in turn, none of which may fail; how long the slowest took."""
    slowest, end = 0.0, time.monotonic() + seconds
    while time.monotonic() < end:
        for number in world.nodes:
            for level in ("strong", "eventual"):
                start = time.monotonic()
                read = world.ask(number, action="KvGet", key="w0-000000", read_consistency=level, deadline_ms=READ_MS)
                slowest = max(slowest, time.monotonic() - start)
                if not read["found"]:
                    raise Problem(f"a {level} read through node {number} misses a key while all disks are full")
            status, answer = put(world, number, "default", "while-full")
            if status not in (200, 507):
                raise Problem(f"a put through node {number} is answered {status} {answer} while all disks are full")
        time.sleep(0.5)
    return slowest


def full_disk(run):
    """One node's data directory on a small file system: filled, then room is made."""
    world, (small,) = small_disks(run, (3,))
    world.start()
    world.wait_ready()
    world.keyspace("default", size=3)
    # One keyspace that lives on the small disk alone: nobody can take its writes over.
    others = [f"{node.region}/{node.az}/{node.az}-rack/{node.az}-chassis" for number, node in world.nodes.items() if number != 3]
    rule = "size=1 location=world failure_domain=chassis exclude=" + ",".join(others)
    world.ask(1, action="CreateKeyspace", keyspace="alone", partitions=1, clusters=1, rule=rule, deadline_ms=30000)
    put(world, 1, "alone", "before")
    lead(world, "metadata@ks-default-0", 3)
    load = Load(world, writers=2, counters=1, readers=1, pause=0.01).start()
    time.sleep(2)
    load.finish().check()
    fill(small / "filler")
    alone = await_status(world, "alone", 507, 20)
    time.sleep(10)
    # Led from the full disk, a shared keyspace may refuse or move; what it may not is fail otherwise, or hang.
    answers = sorted(put(world, n % 3 + 1, "default", f"full-{n}")[0] for n in range(9))
    if set(answers) - {200, 507}:
        raise Problem(f"puts to a keyspace led from a full disk are answered {answers}")
    read = world.ask(2, action="KvGet", key="w0-000000", read_consistency="strong")
    if not read["found"]:
        raise Problem("a strong read misses a key while the leader's disk is full")
    if not world.nodes[3].running:
        raise Problem(f"the node ended on a full disk: {world.log_tail(3)}")
    led = world.leader("metadata@ks-default-0")
    (small / "filler").unlink()
    back = await_status(world, "alone", 200, 20)
    again = Load(world, writers=2, counters=0, readers=0, prefix="again", pause=0.01).start()
    time.sleep(2)
    again.finish().check_pairs({})
    world.stop(3)
    world.start(3)
    world.wait_ready(3)
    load.check()
    again.check_pairs({})
    if again.failures:
        raise Problem(f"client errors after there was room: {again.failures[:3]}")
    for key in ("before", "probe"):
        world.ask(1, action="KvGet", keyspace="alone", key=key, read_consistency="strong")
    run.note(f"507 after {alone:.1f} s, taken again {back:.1f} s after there was room; the shared keyspace then led by node {led}, "
             f"puts to it {sorted(set(answers))}; {load.summary()}")


def put(world, through, keyspace, key):
    """(status, answer) of one put; no answer is status 0."""
    try:
        return world.client(through).action({"action": "KvPut", "keyspace": keyspace, "key": key, "value": "x", "deadline_ms": 3000})
    except Unreachable as error:
        return 0, {"error": str(error)}


def await_status(world, keyspace, wanted, seconds):
    """Puts until one is answered so; how long that took."""
    start = time.monotonic()
    while True:
        status, answer = put(world, 1, keyspace, "probe")
        if status == wanted:
            return time.monotonic() - start
        if time.monotonic() - start > seconds:
            raise Problem(f"a put to {keyspace} is not answered {wanted} after {seconds} s: {status} {answer}; log: {world.log_tail(3)}")
        time.sleep(0.2)


def lead(world, cluster, node):
    """Hands leadership to a node."""
    if world.leader(cluster) != node:
        world.ask(1, action="TransferLeader", name=cluster, node=node, deadline_ms=10000)


def fill(path):
    """Until the file system has no byte left."""
    with open(path, "wb", buffering=0) as out:
        for size in (1 << 20, 4096, 1):
            try:
                while out.write(b"f" * size) == size:
                    pass
            except OSError:
                continue


CASES = [("disk-loss", disk_loss), ("disk-loss-in-turn", disk_loss_in_turn), ("disk-full", full_disk), ("disks-full", full_disks)]
