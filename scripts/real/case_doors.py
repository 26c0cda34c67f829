"""Two doors on the same keys: etcd's Go client or go-redis, and JSON, write, read and compare through all nodes, and Porcupine judges them as
one history.

Always: a world of `hive dev`, whose nodes are killed (kill -9, by the ids in its ready file) and started again; once a run the recorded
history is bent, and the judge has to find that.
Not here: the clients (doors/main.go), the judge (judge/main.go), other faults (case_judged.py).
"""
import importlib.util
import json
import os
import pathlib
import random
import shutil
import subprocess
import time

from history import build_judge, run_judge
from world import Problem, Skip

# How long clients work, and how many kills that has room for (`hive dev` starts a node again after five seconds).
SECONDS = int(os.environ.get("HIVE_REAL_DOORS_SECONDS", "40"))
KILL_EVERY_SECONDS = 9.0
NODES = 3
HERE = pathlib.Path(__file__).parent


def dev_world():
    """The world of scripts/etcd_clients; its name is taken here."""
    spec = importlib.util.spec_from_file_location("dev_world", HERE.parent / "etcd_clients" / "world.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.World


def build_clients():
    if shutil.which("go") is None:
        raise Skip("needs Go, for the doors' clients")
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", HERE.parents[1] / "target")) / "doors"
    done = subprocess.run(["go", "build", "-mod=readonly", "-o", str(target), "."], cwd=HERE / "doors", capture_output=True, text=True,
                          timeout=300)
    if done.returncode != 0:
        raise Skip(f"the clients cannot be built: {done.stderr.strip()[-300:]}")
    return target


def killed_meanwhile(world, drawn, clients):
    """Kills a node, or two at once, every few seconds while the clients work; what was killed."""
    killed, until = [], time.monotonic() + SECONDS - KILL_EVERY_SECONDS
    time.sleep(2)
    while time.monotonic() < until and clients.poll() is None:
        nodes = drawn.sample(range(1, NODES + 1), drawn.choice([1, 1, 2]))
        was = [(node, world.kill(node)) for node in nodes]
        killed.append("+".join(str(node) for node in nodes))
        time.sleep(KILL_EVERY_SECONDS - 2)
        for node, process in was:
            world.wait_back(node, process)
        time.sleep(2)
    return killed


def bent(records):
    """The same with one get more: by JSON, at the end, of what an acknowledged put of the other door wrote and others have put over since."""
    for record in records:
        if record["op"] != "put" or record["door"] == "json" or record["outcome"] != "ok":
            continue
        of_key = [other for other in records if other["key"] == record["key"]]
        later = [other for other in of_key if other["op"] == "put" and other["outcome"] == "ok" and other["start"] > record["end"]]
        if later:
            end = max(other["end"] for other in records)
            stale = {**record, "op": "get", "door": "json", "client": 10**9, "start": end + 1, "end": end + 2, "result": record["value"]}
            return of_key + [stale]
    raise Problem("no put of the other door in the history was put over by another; let the clients work longer")


def write(path, records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def doors(run, other="etcd", keyspace="etcd", options=()):
    judge, clients, drawn = build_judge(), build_clients(), random.Random(random.random())
    world = dev_world()(run.hive, str(run.root), run.base_port, NODES)
    run.cleanups.append(world.stop)
    nodes = world.ready["nodes"]
    path = run.root / "history.ndjson"
    asked = [str(clients), *options, "-keyspace", keyspace, "-seconds", str(SECONDS), "-seed", str(drawn.randrange(1 << 30)), "-history",
             str(path), ",".join(node[other] for node in nodes), ",".join(node["http"] for node in nodes)]
    with subprocess.Popen(asked, stderr=subprocess.PIPE, text=True) as process:
        run.cleanups.append(process.kill)
        killed = killed_meanwhile(world, drawn, process)
        _, told = process.communicate(timeout=SECONDS + 90)
    if process.returncode != 0:
        raise Problem(f"the clients ended with {process.returncode}: {told.strip()[-300:]}")
    verdict = run_judge(judge, path, run.root)
    if verdict["violations"]:
        raise Problem(f"not linearizable: {verdict['violations']} of {path}")
    if verdict["gave_up"]:
        raise Problem(f"the judge did not end: {verdict['gave_up']} of {path}")
    records = [json.loads(line) for line in path.read_text().splitlines()]
    if not run_judge(judge, write(run.root / "bent.ndjson", bent(records)), run.root)["violations"]:
        raise Problem("the judge lets a get pass that shows what had been put over")
    by = {door: sum(record["door"] == door for record in records) for door in (other, "json")}
    run.note(f"killed {', '.join(killed)}: {verdict['operations']} operations ({by[other]} by {other}, {by['json']} by JSON) on {verdict['keys']} "
             f"keys linearizable, {verdict['unknown']} of unknown outcome; the bent history was found")


def plain_keyspace(run):
    """A plain keyspace as a database of Redis clients (decision 0095)."""
    doors(run, "redis", "default", ["-redis"])


CASES = [("judged-doors", doors), ("judged-redis", plain_keyspace)]
