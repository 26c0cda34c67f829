"""Pairs whose bits flip on one node's disk: none is served, all are mended from the other members.

Always: every value read while the node has flipped pairs is the one that was written, or none is given.
Not here: the same under faults (proof-sim's pair_rot), what an engine finds (the engines' own tests).
"""
import json
import pathlib
import random
import subprocess
import time

from world import Problem, Skip

PAIRS = 2000
MEND_SECONDS = 60
# Rounds one behind the other, so that a case does not wait for an hour.
TUNING = {"scrub_interval_ms": 1000, "scrub_bytes_per_second": 64 << 20, "flush_after_ms": 500}
KEYSPACE = "metadata@ks-default-0"
# What a scrub costs is measured over so many pairs and seconds. The bound is of a release build, which `make real` has.
COST_PAIRS = 20_000
COST_SECONDS = 15
COST_PERCENT_MAX = 1.0


def value(number):
    return f"the value of pair {number:06d}, " + "which is long enough to be told from all others " * 2


def filled(run, engines):
    """Three nodes, each with its engine, and the pairs in all of them."""
    world = run.world("w", regions=("fr-par",) * 3, tuning=TUNING)
    for number, engine in engines.items():
        node = world.nodes[number]
        node.config.write_text(world.toml(node, end=["[engine]", f"default = {json.dumps(engine)}"]))
    world.start()
    world.wait_ready()
    world.keyspace("default", size=3)
    for first in range(0, PAIRS, 100):
        steps = [{"op": "put", "key": f"pair-{n:06d}", "value": value(n)} for n in range(first, first + 100)]
        world.ask(1, action="KvBatch", keyspace="default", steps=steps, deadline_ms=20000)
    for number in world.nodes:
        await_flushed(world, number)
    verify(world, 1, whole=True)
    return world


def verify(world, through, whole):
    done = world.command("ctl", "verify", KEYSPACE, "--json", "--deadline-ms", "20000", "--endpoint",
                         f"http://{world.nodes[through].http}", check=False)
    answer = json.loads(done.stdout) if done.stdout else {}
    if whole and (done.returncode != 0 or answer.get("whole") is not True):
        raise Problem(f"hive ctl verify: exit {done.returncode}: {done.stdout[-600:]} {done.stderr[-200:]}")
    return answer


def integrity(world, number):
    done = world.command("ctl", "integrity", "--json", "--endpoint", f"http://{world.nodes[2].http}")
    return next(node for node in json.loads(done.stdout)["nodes"] if node["node"] == number)


def await_flushed(world, number):
    """Until all that the node has applied is in its engines."""
    end = time.monotonic() + MEND_SECONDS
    while True:
        _, body = world.client(number).get("/metrics")
        lines = [line for line in body.decode().splitlines() if line.startswith("hive_overlay_bytes{")]
        if lines and all(float(line.split()[-1]) == 0 for line in lines):
            return
        if time.monotonic() > end:
            raise Problem(f"node {number} does not write out what it has applied: {lines}")
        time.sleep(0.1)


def read_all(world, number):
    """Every pair through one node, eventually consistent: its own copy wherever it is whole."""
    client = world.client(number)
    for n in range(PAIRS):
        status, answer = client.action({"action": "KvGet", "key": f"pair-{n:06d}", "read_consistency": "eventual",
                                        "deadline_ms": 10000})
        if not answer.get("ok") or answer.get("value") != value(n):
            raise Problem(f"pair {n} through node {number}: {status} {json.dumps(answer)[:300]}")


def await_mended(world, number, flipped):
    end = time.monotonic() + MEND_SECONDS
    while True:
        told = integrity(world, number)
        if told.get("scrub_rounds", 0) >= 2 and told["being_mended"] == 0 and (
                told["found_damaged"] >= flipped or told["replicas_rebuilt"] > 0):
            return told
        if time.monotonic() > end:
            raise Problem(f"node {number} is not mended after {MEND_SECONDS} s: {told}; {flipped} pairs were flipped")
        time.sleep(0.3)


def finish(run, world, number, flipped, start):
    world.start(number)
    world.wait_ready(number)
    read_all(world, number)
    told = await_mended(world, number, flipped)
    mended = time.monotonic() - start
    if told["lost"] or told["repaired"] < flipped and not told["replicas_rebuilt"]:
        raise Problem(f"of {flipped} flipped pairs not all are repaired: {told}")
    await_flushed(world, number)
    answer = verify(world, 2, whole=True)
    pairs = {member["pairs"] for member in answer["members"]}
    # And it stays so when the node starts anew from its disk.
    world.stop(number)
    world.start(number)
    world.wait_ready(number)
    read_all(world, number)
    again = await_mended(world, number, 0)
    if again["found_damaged"]:
        raise Problem(f"after a restart pairs are damaged again: {again}")
    run.note(f"{flipped} pairs flipped, {told['found_damaged']} found, {told['repaired']} repaired, "
             f"{told['replicas_rebuilt']} replicas rebuilt, {mended:.1f} s from start; {pairs} pairs each")


def lmdb_flips(run):
    """Bits of values in one node's LMDB files."""
    world = filled(run, {number: "lmdb" for number in (1, 2, 3)})
    world.stop(1)
    start = time.monotonic()
    drawn = random.Random(7)
    chosen = set(drawn.sample(range(PAIRS), PAIRS // 100))
    flipped = set()
    for file in pathlib.Path(world.nodes[1].data).rglob("data.mdb"):
        data = bytearray(file.read_bytes())
        for n in chosen:
            text, at = value(n).encode(), -1
            while (at := data.find(text, at + 1)) >= 0:
                data[at + 15 + drawn.randrange(20)] ^= 1 << drawn.randrange(8)
                flipped.add(n)
        file.write_bytes(data)
    if len(flipped) != len(chosen):
        raise Problem(f"only {len(flipped)} of {len(chosen)} pairs were found in node 1's files")
    finish(run, world, 1, len(flipped), start)


def engine_set_aside(run):
    """One node's LMDB file is damaged where it cannot be opened: it is set aside, never deleted, and made anew from the log or the others."""
    world = filled(run, {number: "lmdb" for number in (1, 2, 3)})
    world.stop(1)
    start = time.monotonic()
    files = sorted(pathlib.Path(world.nodes[1].data).rglob("data.mdb"))
    before = {}
    for file in files:
        before[file] = file.stat().st_size
        with open(file, "r+b") as open_file:
            open_file.write(b"\0" * 8192)
    world.start(1)
    world.wait_ready(1)
    read_all(world, 1)
    aside = sorted(path for path in pathlib.Path(world.nodes[1].data).rglob("lmdb.damaged-*") if path.is_dir())
    kept = [(path / "data.mdb").stat().st_size for path in aside]
    if kept != list(before.values()):
        raise Problem(f"set aside: {[str(path) for path in aside]} of {kept} bytes; damaged were {list(before.values())}")
    if "set aside" not in world.log_text(1):
        raise Problem(f"the log does not say that an engine was set aside: {world.log_tail(1, 20)}")
    await_flushed(world, 1)
    verify(world, 2, whole=True)
    world.stop(1)
    world.start(1)
    world.wait_ready(1)
    read_all(world, 1)
    if len(list(pathlib.Path(world.nodes[1].data).rglob("lmdb.damaged-*"))) != len(aside):
        raise Problem("the engine made anew was set aside too")
    run.note(f"{len(aside)} engines set aside and made anew, {time.monotonic() - start:.1f} s")


def metahive_flips(run):
    """One of a hundred entries of the one MetaHive node, flipped before blocks are sealed: no block checksum tells."""
    flip = pathlib.Path(run.hive).parent / "examples" / "flip"
    if not flip.exists():
        raise Skip("needs a hive with engine-rocksdb, and `cargo build -p engine-rocksdb --example flip` beside it")
    world = filled(run, {1: "rocksdb", 2: "lmdb", 3: "lmdb"})
    world.stop(1)
    start = time.monotonic()
    flipped = 0
    for directory in pathlib.Path(world.nodes[1].data).rglob("rocksdb"):
        done = subprocess.run([flip, directory, "10000", "7"], capture_output=True, text=True, timeout=60)
        if done.returncode != 0:
            raise Problem(f"flip {directory}: {done.stderr[-300:]}")
        flipped += int(done.stdout.split()[0])
    if flipped < PAIRS // 200:
        raise Problem(f"only {flipped} entries were flipped")
    finish(run, world, 1, flipped, start)


def metric(world, number, name):
    _, body = world.client(number).get("/metrics")
    return sum(float(line.split()[-1]) for line in body.decode().splitlines() if line.startswith(f"hive_{name}{{"))


def scrub_cost(run):
    """What a scrub takes of a node that does nothing else: none, at the default rate, and at sixteen times that."""
    world = run.world("w", regions=("fr-par",)).start()
    world.wait_ready()
    world.keyspace("default", size=1)
    for first in range(0, COST_PAIRS, 100):
        steps = [{"op": "put", "key": f"pair-{n:06d}", "value": f"{n:08d}" * 256} for n in range(first, first + 100)]
        world.ask(1, action="KvBatch", keyspace="default", steps=steps, deadline_ms=20000)
    await_flushed(world, 1)
    told = {}
    for rate_mib in (0, 1, 16):
        world.stop(1)
        world.tuning = {"scrub_bytes_per_second": rate_mib << 20, "scrub_interval_ms": 1000}
        world.nodes[1].config.write_text(world.toml(world.nodes[1]))
        world.start(1)
        world.wait_ready(1)
        time.sleep(3)
        before, bytes_before = world.cpu_seconds(1), metric(world, 1, "scrub_bytes_total")
        time.sleep(COST_SECONDS)
        read_mib = (metric(world, 1, "scrub_bytes_total") - bytes_before) / COST_SECONDS / (1 << 20)
        told[rate_mib] = (100 * (world.cpu_seconds(1) - before) / COST_SECONDS, read_mib)
        if read_mib > rate_mib * 1.3 or read_mib < rate_mib * 0.5:
            raise Problem(f"a scrub that may read {rate_mib} MiB/s read {read_mib:.1f}")
    cost = told[1][0] - told[0][0]
    if cost > COST_PERCENT_MAX:
        raise Problem(f"a scrub of 1 MiB/s takes {cost:.2f} % of a core; the bound is {COST_PERCENT_MAX} %: {told}")
    run.note("CPU of a node with 40 MB in lmdb, % of a core: "
             + ", ".join(f"{percent:.2f} reading {read:.1f} MiB/s" for percent, read in told.values()))


CASES = [("scrub-cost", scrub_cost), ("integrity-lmdb", lmdb_flips),
         ("engine-set-aside", engine_set_aside), ("integrity-metahive", metahive_flips)]
