"""Processes that are killed, paused and started again while clients write."""
import random
import time

from load import Load
from world import Problem

# Ten election timeouts of the default tuning (30 ms × 10 ticks, drawn up to twice that).
PAUSE_SECONDS = 10 * 0.6
KEYSPACE_CLUSTER = "metadata@ks-default-0"


def kill_loop(run):
    """kill -9 of one random node after the other under load, then of all at once."""
    world = run.started("w")
    load = Load(world).start()
    kills = 0
    end = time.monotonic() + 20
    while time.monotonic() < end:
        number = random.choice(list(world.nodes))
        world.kill(number)
        kills += 1
        time.sleep(random.uniform(0.2, 1.5))
        world.start(number)
        world.wait_ready(number)
        time.sleep(random.uniform(0.0, 0.5))
    load.finish().check()
    run.note(f"{kills} kills: {load.summary()}, longest gap {load.longest_gap():.1f} s")


def kill_leader(run):
    """kill -9 of the keyspace's leader, again and again."""
    world = run.started("w")
    gaps, total = [], None
    for round_number in range(4):
        load = Load(world, prefix=f"r{round_number}-").start()
        time.sleep(1.5)
        leader = world.leader(KEYSPACE_CLUSTER)
        world.kill(leader)
        time.sleep(3)
        world.start(leader)
        world.wait_ready(leader)
        total = load.finish().check()
        gaps.append(total.longest_gap())
    run.note(f"gaps {', '.join(f'{gap:.2f}' for gap in gaps)} s; last round {total.summary()}")


def kill_all(run):
    """All nodes at once, three times, under load: everything acknowledged is back."""
    world = run.started("w")
    load = Load(world, budget=40).start()
    times = []
    for _ in range(3):
        time.sleep(2)
        world.kill(*world.nodes)
        world.start()
        times.append(world.wait_ready())
    time.sleep(1)
    load.finish().check()
    run.note(f"ready again after {', '.join(f'{t:.1f}' for t in times)} s: {load.summary()}")


def pause_leader(run):
    """The leader is stopped for ten election timeouts and goes on: no stale strong read, writes go on."""
    world = run.started("w")
    load = Load(world, writers=3, counters=1, readers=4, attempt=1.5).start()
    for _ in range(2):
        time.sleep(1)
        leader = world.leader(KEYSPACE_CLUSTER)
        others = [number for number in world.nodes if number != leader]
        load.through = others
        world.pause(leader)
        before = len(load.acknowledged)
        time.sleep(PAUSE_SECONDS)
        elsewhere = len(load.acknowledged) - before
        if elsewhere == 0:
            raise Problem(f"no write was acknowledged while node {leader} was paused")
        # It must not answer from what it knew: asked at once, directly, while it wakes.
        load.through = [leader] * 5 + others
        world.resume(leader)
        time.sleep(1)
        load.through = list(world.nodes)
    load.finish().check()
    run.note(f"{load.summary()}, longest gap {load.longest_gap():.1f} s")


def restart(run):
    """All stopped in order and started: everything is there; exit codes are 0."""
    world = run.started("w")
    load = Load(world)
    load.start()
    time.sleep(4)
    load.finish().check()
    codes = world.stop()
    if any(codes.values()):
        raise Problem(f"exit codes after SIGTERM: {codes}")
    world.start()
    took = world.wait_ready()
    load.check()
    run.note(f"{load.summary()}; ready again after {took:.1f} s")


def dev_restarts(run):
    """`hive dev` tells of a killed node, starts it again, and leaves none behind when it is killed itself."""
    import json
    import os
    import signal
    import subprocess
    from world import die_with_parent
    ready = run.root / "ready.json"
    out = open(run.root / "dev.out", "wb")
    dev = subprocess.Popen([run.hive, "dev", "--nodes", "3", "--data", str(run.root / "data"), "--base-port", str(run.base_port),
                            "--ready-file", str(ready)], stdin=subprocess.DEVNULL, stdout=out, stderr=out, preexec_fn=die_with_parent)
    run.cleanups.append(lambda: (dev.poll() is None and (dev.kill(), dev.wait())))

    def read_ready(seconds, want):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if ready.exists() and want(state := json.loads(ready.read_text())):
                return state
            if dev.poll() is not None:
                raise Problem(f"hive dev ended with {dev.returncode}: {(run.root / 'dev.out').read_text()[-400:]}")
            time.sleep(0.1)
        raise Problem(f"hive dev: the ready file does not tell what was awaited after {seconds} s")

    first = read_ready(60, lambda state: True)
    pid = first["nodes"][1]["pid"]
    os.kill(pid, signal.SIGKILL)
    start = time.monotonic()
    second = read_ready(30, lambda state: state["nodes"][1]["pid"] != pid)
    took = time.monotonic() - start
    alive = [n["pid"] for n in second["nodes"]]
    if [n["pid"] for n in first["nodes"]][0] != alive[0]:
        raise Problem("another node than the killed one was restarted")
    dev.kill()
    dev.wait()
    time.sleep(1)
    left = [pid for pid in alive if os.path.exists(f"/proc/{pid}") and "Z" not in open(f"/proc/{pid}/stat").read().split()[2]]
    if left:
        raise Problem(f"nodes outlive a killed hive dev: {left}")
    run.note(f"started again after {took:.1f} s; none outlives hive dev")


CASES = [("kill-loop", kill_loop), ("kill-leader", kill_leader), ("kill-all", kill_all), ("pause-leader", pause_leader),
         ("restart", restart), ("dev", dev_restarts)]
