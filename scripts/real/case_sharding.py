"""Keyspaces that are spread over more or fewer clusters under load, and static topologies."""
import json
import time

from client import Unreachable
from load import Load
from world import Problem

RESHARD_SECONDS = 90
# Beyond the readiness of all nodes: a look at each shard, no more.
TOPOLOGY_SECONDS = 3


def await_resharded(world, keyspace, clusters):
    """Waits for its end; how long it took, and the keyspace then."""
    start = time.monotonic()
    while True:
        info = world.ask(2, action="DescribeKeyspace", keyspace=keyspace, deadline_ms=10000)["keyspace"]
        owners = len(set(info["owners"]))
        if info["reshard"] is None and owners == clusters:
            return time.monotonic() - start, info
        if time.monotonic() - start > RESHARD_SECONDS:
            raise Problem(f"the reshard to {clusters} clusters is not done after {RESHARD_SECONDS} s: {json.dumps(info)[:400]}")
        time.sleep(0.2)


def reshard(run, partition, kill=False):
    world = run.started("w", keyspace=0)
    more = {"split_keys": ["w1", "w2", "w3"]} if partition == "range" else {}
    partitions = 4 if partition == "range" else 16
    world.keyspace("moving", size=3, partitions=partitions, clusters=1, partition=partition, **more)
    load = Load(world, keyspace="moving", writers=4, counters=1, readers=2).start()
    time.sleep(2)
    took, killed = [], []
    for clusters in (3, 2):
        victim = world.leader("metadata@ks-moving-0") if kill else None
        world.ask(1, action="Reshard", keyspace="moving", clusters=clusters, deadline_ms=30000)
        if kill:
            time.sleep(0.2)
            world.kill(victim)
            killed.append(victim)
            time.sleep(1)
            world.start(victim)
            world.wait_ready(victim)
        seconds, info = await_resharded(world, "moving", clusters)
        took.append(seconds)
        time.sleep(1)
    load.finish().check()
    status, body = world.client(3).get("/clean?keyspace=moving")
    clean = json.loads(body)
    if status != 200 or clean.get("moved_partitions", 0) == 0 or clean.get("resharding") is not False:
        raise Problem(f"/clean does not tell what the reshard moved: {status} {body[:300]!r}")
    left = [name for name in world.clusters(1) if name.startswith("metadata@ks-moving-") and name not in set(info["owners"])]
    run.note(f"1→3 in {took[0]:.1f} s, 3→2 in {took[1]:.1f} s{f', killed {killed} meanwhile' if kill else ''}: {load.summary()}, "
             f"longest gap {load.longest_gap():.1f} s; /clean: {clean['moved_partitions']} partitions, {clean['moved_keys']} keys"
             + (f"; clusters left behind: {left}" if left else ""))


def static_topology(run):
    """The second paper's Figure 1: one YAML document a shard, plain routes. Once its nodes are ready all is as the file says, and each
    shard has a third member on another node that it names."""
    world = run.world("w", regions=("fr-par",) * 6)
    shards = [("shard0", 0, 1, [4]), ("shard1", 1, 2, [5]), ("shard2", 2, 3, [6])]
    documents = []
    for name, index, master, replicas in shards:
        addresses = ", ".join(world.nodes[n].http for n in replicas)
        documents.append(f"Shard:\n  Name: {name}\n  Index: {index}\n  Address: {world.nodes[master].http}\n  Replicas: [{addresses}]\n")
    (world.directory / "topology.yaml").write_text("---\n".join(documents))
    for node in world.nodes.values():
        node.config.write_text(world.toml(node, top=[f"topology = {json.dumps(str(world.directory / 'topology.yaml'))}"]))
    world.start()
    world.wait_ready()
    start = time.monotonic()
    while True:
        seen = {}
        for _, index, master, replicas in shards:
            try:
                cluster = world.describe(f"metadata@ks-default-{index}", 1)
                members = sorted(m["node"] for m in cluster["members"] if not m["learner"])
                named = {master, *replicas} <= set(members) and len(members) == 3
                seen[index] = (named and cluster["leader"] == master, members, cluster["leader"])
            except (Problem, Unreachable) as error:
                seen[index] = (False, str(error)[:200], None)
        if all(state[0] for state in seen.values()):
            break
        if time.monotonic() - start > TOPOLOGY_SECONDS:
            raise Problem(f"ready nodes whose topology is not as the file says: {seen}; node 1's log: {world.log_tail(1)}")
        time.sleep(0.3)
    took = time.monotonic() - start
    for n in range(100):
        status, body = world.client(n % 6 + 1).get(f"/put?key=k{n}&value=v{n}")
        if status != 200:
            raise Problem(f"/put of k{n}: {status} {body!r}")
    for n in range(100):
        status, body = world.client((n + 3) % 6 + 1).get(f"/get?key=k{n}")
        if (status, body) != (200, f"v{n}".encode()):
            raise Problem(f"/get of k{n}: {status} {body!r}")
    for path, want in (("/get?key=none", (200, b"")), ("/get?key=none&strict=1", (404, None))):
        status, body = world.client(2).get(path)
        if status != want[0] or want[1] not in (None, body):
            raise Problem(f"{path}: {status} {body!r}")
    status, body = world.client(2).get("/clean")
    if status != 200:
        raise Problem(f"/clean: {status} {body!r}")
    world.stop()
    world.start()
    world.wait_ready()
    status, body = world.client(6).get("/get?key=k42")
    if body != b"v42":
        raise Problem(f"after a restart /get of k42: {status} {body!r}")
    run.note(f"3 shards in place {took:.1f} s after the nodes were ready; 100 keys through the plain routes; kept over a restart")


def bad_topology(run):
    """Topologies that cannot be: the start is refused, with what is wrong."""
    world = run.world("w", regions=("fr-par",))
    shard = "Shard:\n  Name: {}\n  Index: {}\n  Address: {}\n  Replicas: []\n"
    address = world.nodes[1].http
    cases = {
        "gap": (shard.format("a", 0, address) + "---\n" + shard.format("b", 2, address), "index"),
        "unknown key": ("Shard:\n  Name: a\n  Index: 0\n  Adress: x\n", "Adress"),
        "no yaml": ("Shard: [", "topology.yaml"),
        "empty": ("", "topology"),
    }
    for name, (text, word) in cases.items():
        (world.directory / "topology.yaml").write_text(text)
        config = world.directory / "bad.toml"
        config.write_text(world.toml(world.nodes[1], top=[f"topology = {json.dumps(str(world.directory / 'topology.yaml'))}"]))
        done = world.command("node", "--config", str(config), check=False, timeout=20)
        if done.returncode in (0, None) or word not in done.stderr:
            raise Problem(f"topology with {name}: exit {done.returncode}, {done.stderr.strip()[:300]}")
    run.note(f"{len(cases)} refused, each naming what is wrong")


CASES = [("reshard-hash", lambda run: reshard(run, "hash")), ("reshard-range", lambda run: reshard(run, "range")),
         ("reshard-killed", lambda run: reshard(run, "hash", kill=True)),
         ("static-topology", static_topology), ("bad-topology", bad_topology)]
