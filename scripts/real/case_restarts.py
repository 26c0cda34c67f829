"""Restarts of every node in turn, as an operator does them: drained first, then stopped with SIGTERM, or stopped alone.

Always: only one node is down at a time, and the next one is touched when the one before is ready.
Not here: nodes that are killed (case_crashes.py), restarts while the world's cluster has no majority (case_levels.py).
"""
import json
import time

from load import Load
from world import Problem

CLUSTERS = 40


def leaders(world, number):
    status = json.loads(world.command("ctl", "status", "--json", "--endpoint", f"http://{world.nodes[number].http}", check=False).stdout)
    return status["leaders"]


def restart_all(world, drain):
    led = []
    for number in world.nodes:
        through = number % len(world.nodes) + 1
        endpoint = ("--endpoint", f"http://{world.nodes[through].http}")
        if drain:
            before = leaders(world, number)
            world.command("ctl", "node", "drain", str(number), *endpoint, timeout=60)
            left = leaders(world, number)
            led.append((before, left))
            if left:
                raise Problem(f"node {number} is drained and leads {left} of {before} clusters")
        world.stop(number)
        world.start(number)
        world.wait_ready(number)
        settled(world, through)
    return led


def settled(world, through, seconds=20):
    """The others see the node up again."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        nodes = world.ask(through, action="ListNodes")["nodes"]
        if all(node["up"] for node in nodes):
            return
        time.sleep(0.1)
    raise Problem(f"node {through} does not see all nodes up after {seconds} s: {nodes}")


def restarts(run):
    """Every node is drained and restarted, then every node is restarted without that: no operation fails."""
    # In one region of five nodes every cluster has several members, so that each can be led by another node.
    world = run.started("w", keyspace=0, regions=("fr-par",) * 5)
    world.keyspace("default", size=3, partitions=CLUSTERS, clusters=CLUSTERS)
    load = Load(world, writers=4, pause=0.005).start().until(puts=200)
    led = restart_all(world, drain=True)
    if not any(before for before, _ in led):
        raise Problem("no node led anything: nothing was drained")
    restart_all(world, drain=False)
    load.finish().check()
    run.note(f"five nodes drained and restarted, then restarted with SIGTERM alone: {load.summary()}, longest gap {load.longest_gap():.2f} s, "
             f"leaders before and after each drain {led}")


CASES = [("nodes-restart-in-turn", restarts)]
