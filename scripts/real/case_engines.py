"""Replicas in several engines: a cluster that moves from one to another while clients use it.

Always: a replica's engine is asked of the replica itself (`DescribeCluster` while it leads), not guessed from a configuration.
Not here: what an engine does with damage (case_integrity.py), every engine of the build in one cluster
(`cargo test -p core-cluster engines`).
"""
import json
import time

from load import Load
from world import Problem, Skip

CLUSTER = "metadata@ks-default-0"
NAMED = CLUSTER  # The default keyspace's, which `Load` writes to.
LEAD_SECONDS = 20
# For three replicas of a small cluster, beside builds.
MOVE_SECONDS = 180
# What is to lie in a cluster before it is moved.
LOADED_PUTS = 1_000
# In this order a spare node takes over from a member; two more engines than a cluster of one kind has.
ENGINES = ("redb", "fjall", "redb")


def set_engine(world, number, engine):
    """As an operator: node.toml is changed, the node started anew. Replicas that it has stay in what they are in."""
    node = world.nodes[number]
    world.stop(number)
    node.config.write_text(world.toml(node, end=["[engine]", f"default = {json.dumps(engine)}"]))
    world.start(number)
    world.wait_ready(number)


def members(world, through):
    return sorted(member["node"] for member in world.describe(CLUSTER, through)["members"] if not member["learner"])


def change_members(world, what, number, through):
    world.command("ctl", "cluster", "members", what, CLUSTER, str(number), "--deadline-ms", "30000",
                  "--endpoint", f"http://{world.nodes[through].http}")


def engine_of(world, number):
    """What the node's replica says of itself while it leads."""
    end = time.monotonic() + LEAD_SECONDS
    while True:
        cluster = world.describe(CLUSTER, number)
        if cluster["leader"] == number:
            return cluster["engine"]
        if time.monotonic() > end:
            raise Problem(f"node {number} does not lead {CLUSTER} after {LEAD_SECONDS} s: {cluster}")
        if not cluster["leader"]:
            time.sleep(0.2)
            continue
        world.client(number).action({"action": "TransferLeader", "name": CLUSTER, "node": number, "deadline_ms": 5000})
        time.sleep(0.2)


def engines_now(world):
    return {number: engine_of(world, number) for number in members(world, 1)}


def move_engine(run):
    """Three replicas in lmdb, one after the other replaced by one in redb or fjall, under load."""
    world = run.started("w", keyspace=3, regions=("fr-par",) * 4, members=[1, 2, 3])
    # The refusal of a name that is none tells those that there are.
    _, refused = world.client(1).action({"action": "CreateKeyspace", "keyspace": "none", "rule": "size=1", "engine": "btrieve"})
    offered = refused["error"]["message"].rsplit("choose one of ", 1)[-1].split(", ")
    if refused["error"]["code"] != "UnknownEngine" or "lmdb" not in offered:
        raise Problem(f"an engine that nobody has: {refused}")
    if not set(ENGINES) <= set(offered):
        raise Skip(f"needs a hive with {', '.join(sorted(set(ENGINES)))}; it has {', '.join(offered)}")
    before = engines_now(world)
    if set(before.values()) != {"lmdb"}:
        raise Problem(f"the cluster does not begin in lmdb: {before}")
    load = Load(world).start().until(puts=LOADED_PUTS)
    taken = []
    for engine in ENGINES:
        old = next(number for number in members(world, 1) if number not in taken)
        spare = next(number for number in world.nodes if number not in members(world, 1))
        set_engine(world, spare, engine)
        change_members(world, "add", spare, spare)
        change_members(world, "remove", old, spare)
        taken.append(spare)
    load.finish().check()
    after = engines_now(world)
    if sorted(after.values()) != sorted(ENGINES) or sorted(after) != sorted(taken):
        raise Problem(f"moved to {after}; {ENGINES} on {taken} were asked for")
    verify(world, CLUSTER)
    world.kill(*world.nodes)
    world.start()
    world.wait_ready()
    load.check()
    again = engines_now(world)
    if again != after:
        raise Problem(f"after kill -9 of all: {again}, before {after}")
    run.note(f"lmdb to {', '.join(ENGINES)}: {load.summary()}, longest gap {load.longest_gap():.1f} s; the same after kill -9 of all")


def replicas(world):
    return {member["node"]: member["replica"] for member in world.describe(NAMED, 1)["members"]}


def verify(world, name):
    done = world.command("ctl", "verify", name, "--json", "--deadline-ms", "20000", "--endpoint", f"http://{world.nodes[1].http}")
    if json.loads(done.stdout).get("whole") is not True:
        raise Problem(f"hive ctl verify: {done.stdout[-600:]}")


def under_way(world, before):
    """Waits until the first replica has been made anew."""
    end = time.monotonic() + MOVE_SECONDS
    while not any(replica > max(before.values()) for replica in replicas(world).values()):
        if time.monotonic() > end:
            raise Problem(f"no replica was made anew in {MOVE_SECONDS} s: {replicas(world)}")
        time.sleep(0.05)


def move_named_engine(run):
    """A keyspace whose rule names lmdb goes to redb under load: with no node to spare, then with one that is killed meanwhile."""
    world = run.started("w", keyspace=0, regions=("fr-par",) * 3, members=[1, 2, 3])
    endpoint = ("--endpoint", f"http://{world.nodes[1].http}")
    world.command("ctl", "keyspace", "create", "default", "--rule", "size=3 engine=lmdb", *endpoint)
    refused = world.command("ctl", "keyspace", "set-engine", "default", "btrieve", *endpoint, check=False)
    if refused.returncode != 1 or "choose one of" not in refused.stderr:
        raise Problem(f"an engine that nobody has: {refused}")
    if "redb" not in refused.stderr:
        raise Skip(f"needs a hive with redb; {refused.stderr}")
    if set(engines_now(world).values()) != {"lmdb"}:
        raise Problem(f"the cluster does not begin in lmdb: {engines_now(world)}")
    load = Load(world).start().until(puts=LOADED_PUTS)
    summary = []
    for engine in ("redb", "lmdb"):
        before = replicas(world)
        begun = time.monotonic()
        if engine == "redb":
            world.command("ctl", "keyspace", "set-engine", "default", engine, *endpoint, timeout=MOVE_SECONDS)
        else:
            # Whoever works at it dies: the next one goes on.
            world.command("ctl", "cluster", "set-engine", NAMED, engine, "--no-wait", *endpoint)
            under_way(world, before)
            leader = world.describe(NAMED, 1)["leader"] or 2
            world.kill(leader)
            world.start(leader)
            world.wait_ready()
            world.command("ctl", "cluster", "set-engine", NAMED, engine, *endpoint, timeout=MOVE_SECONDS)
        after = replicas(world)
        if sorted(after) != [1, 2, 3] or min(after.values()) <= max(before.values()):
            raise Problem(f"replicas {before} became {after}")
        if set(engines_now(world).values()) != {engine}:
            raise Problem(f"not all in {engine}: {engines_now(world)}")
        summary.append(f"{engine} in {time.monotonic() - begun:.0f} s")
    load.finish().check()
    verify(world, NAMED)
    world.kill(*world.nodes)
    world.start()
    world.wait_ready()
    load.check()
    if set(engines_now(world).values()) != {"lmdb"}:
        raise Problem(f"after kill -9 of all: {engines_now(world)}")
    run.note(f"a rule's engine changed: {', '.join(summary)}; {load.summary()}, longest gap {load.longest_gap():.1f} s")


CASES = [("move-engine", move_engine), ("move-named-engine", move_named_engine)]
