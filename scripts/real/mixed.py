"""Two versions of `hive` in one world, under load: upgraded node by node, put back, upgraded again, finalised.

  mixed.py --old PATH --new PATH [--base-port 29000] [--keep] [--seed N]

  all old ─▶ one new, two new, all new ─▶ back to old, node by node ─▶ all new again ─▶ finalize ─▶ old is refused ─▶ all restarted

Always: clients write and read all the while; no client sees an error, and no acknowledged write is lost. `finalize` is refused while a
node is old or down, and names it. Not here: which programs these are (scripts/mixed-version.sh).
"""
import argparse
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

from client import Unreachable
from load import Load
from world import Problem, World

NODES = (1, 2, 3)
# Mixed versions serve for so long after each step.
STEP_SECONDS = 2.0
# All of it takes no longer, of debug builds neither.
ALL_SECONDS = 600
# After it is raised, every node keeps the level within this time.
KEPT_SECONDS = 15
# A node's registration, with its version, reaches the allocator within this time.
REGISTERED_SECONDS = 20
# An old program refuses the start within this time.
REFUSED_SECONDS = 30


class Mixed:
    """A world whose nodes run either program."""

    def __init__(self, world, old, new):
        self.world, self.old, self.new = world, old, new
        self.restarts = 0

    def say(self, text):
        print(f"  {text}", flush=True)

    def install(self, number, program, killed=False):
        """Replaces a node's program: stopped in order, or killed."""
        if killed:
            self.world.kill(number)
        else:
            self.world.stop(number)
        self.world.nodes[number].hive = program
        self.world.start(number)
        self.world.wait_ready(number)
        self.restarts += 1
        time.sleep(STEP_SECONDS)

    def status(self, through):
        return self.world.ask(through, action="UpgradeStatus", deadline_ms=5000)

    def finalize(self, through):
        return self.world.client(through, 35.0).action({"action": "FinalizeUpgrade", "deadline_ms": 20000})

    def registered(self, through, wanted):
        """Until the world lists these greatest levels, node by node."""
        end, seen = time.monotonic() + REGISTERED_SECONDS, None
        while seen != wanted:
            try:
                seen = {int(node["id"]): node["format_level_max"] for node in self.status(through)["nodes"] if node["up"]}
            except (Problem, Unreachable) as error:
                seen = str(error)
            if time.monotonic() > end:
                raise Problem(f"the world lists levels {seen}, and not {wanted}, after {REGISTERED_SECONDS} s")
            time.sleep(0.2)

    def refuses(self, through, *words):
        status, answer = self.finalize(through)
        message = json.dumps(answer)
        if answer.get("ok") or status != 409 or not all(word in message for word in words):
            raise Problem(f"finalize was to be refused with {words}, and was answered {status} {message[:500]}")

    def kept(self, number):
        marker = json.loads((self.world.nodes[number].data / "hive-node.json").read_text())
        return marker.get("level", 1)

    # -- the story ----------------------------------------------------------------------------------

    def learn_levels(self):
        """What each program serves, as a node of each says it."""
        first = self.status(1)
        self.install(1, self.new)
        self.low, self.high = first["target"], self.status(1)["target"]
        if first["format_level"] != self.low:
            raise Problem(f"a new world of the old program is at level {first['format_level']}, and not {self.low}")
        self.say(f"the old program serves levels up to {self.low}, the new one up to {self.high}")

    def upgrade_rest(self, first):
        for number in NODES:
            levels = {n: self.high if n < number or (first and n == 1) else self.low for n in NODES}
            if first and number == 1:
                continue
            if self.high > self.low:
                through = 1 if levels[1] == self.high else None
                if through:
                    self.registered(through, levels)
                    old = [n for n in NODES if levels[n] == self.low]
                    self.refuses(through, *(f"node {n} runs hive" for n in old))
            self.install(number, self.new, killed=number == 2)
        self.registered(1, {n: self.high for n in NODES})

    def way_back(self):
        for number in NODES:
            self.install(number, self.old, killed=number == 3)
        self.registered(1, {n: self.low for n in NODES})

    def raise_level(self):
        if self.high > self.low:
            self.world.stop(3)
            end = time.monotonic() + REGISTERED_SECONDS
            # Until the world knows that it is down, its record says that it is there and new.
            while all(node["up"] for node in self.status(1)["nodes"]):
                if time.monotonic() > end:
                    raise Problem(f"node 3 is stopped, and is listed as up after {REGISTERED_SECONDS} s")
                time.sleep(0.2)
            self.refuses(1, "node 3 is not reachable")
            self.say("finalize is refused while node 3 is down")
            self.world.start(3)
            self.world.wait_ready(3)
            self.registered(1, {n: self.high for n in NODES})
        if any(self.kept(n) != self.low for n in NODES):
            raise Problem(f"before finalize nodes have kept levels {[self.kept(n) for n in NODES]}")
        status, answer = self.finalize(1)
        if not answer.get("ok") or answer.get("format_level") != self.high:
            raise Problem(f"finalize was answered {status} {json.dumps(answer)[:500]}")
        end = time.monotonic() + KEPT_SECONDS
        while any(self.kept(n) != self.high for n in NODES):
            if time.monotonic() > end:
                raise Problem(f"{KEPT_SECONDS} s after finalize nodes have kept levels {[self.kept(n) for n in NODES]}")
            time.sleep(0.1)
        self.say(f"finalized: every node has kept level {self.high}")
        time.sleep(STEP_SECONDS)

    def old_is_refused(self):
        self.world.stop(2)
        node = self.world.nodes[2]
        done = subprocess.run([self.old, "node", "--config", str(node.config)], capture_output=True, text=True,
                              timeout=REFUSED_SECONDS)
        said = (done.stdout + done.stderr).strip().splitlines()[-1:]
        if done.returncode == 0 or not any(f"format level {self.high}" in line and "install" in line for line in said):
            raise Problem(f"the old program was to be refused, and ended with {done.returncode}: {said}")
        self.say(f"the old program is refused: {said[0][:230]}")
        self.world.start(2)
        self.world.wait_ready(2)
        time.sleep(STEP_SECONDS)


def story(world, old, new):
    for node in world.nodes.values():
        node.hive = old
    world.start().wait_ready()
    world.keyspace("default", size=3)
    mixed, load = Mixed(world, old, new), Load(world, pause=0.01).start()
    load.until(50)
    mixed.learn_levels()
    mixed.upgrade_rest(first=True)
    mixed.say(f"upgraded node by node: {load.summary()}")
    mixed.way_back()
    mixed.say(f"put back node by node: {load.summary()}")
    mixed.upgrade_rest(first=False)
    mixed.say(f"upgraded again: {load.summary()}")
    mixed.raise_level()
    if mixed.high > mixed.low:
        mixed.old_is_refused()
    load.finish().check()
    mixed.say(f"no client error, no lost write; {mixed.restarts} programs exchanged: {load.summary()}, longest gap {load.longest_gap():.1f} s")
    world.stop()
    world.start().wait_ready()
    load.check()
    world.check_logs()
    mixed.say("all nodes restarted: every acknowledged write is there")


def main():
    parser = argparse.ArgumentParser(description="Two versions of Hive in one world, under load.")
    parser.add_argument("--old", required=True)
    parser.add_argument("--new", required=True)
    parser.add_argument("--base-port", type=int, default=29000)
    parser.add_argument("--keep", action="store_true", help="keep the world's directory")
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4), "big"))
    arguments = parser.parse_args()
    random.seed(arguments.seed)
    threading.stack_size(1 << 20)

    def alarm(_signal, _frame):
        raise Problem(f"it did not end within {ALL_SECONDS} s")

    signal.signal(signal.SIGALRM, alarm)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    signal.alarm(ALL_SECONDS)
    root = pathlib.Path(tempfile.mkdtemp(prefix="hive-mixed-"))
    print(f"hive mixed: seed {arguments.seed}, under {root}, ports from {arguments.base_port}", flush=True)
    world = World(arguments.new, root / "w", arguments.base_port, regions=("fr-par",) * 3)
    start, failed = time.monotonic(), None
    try:
        story(world.write(), arguments.old, arguments.new)
    except (Problem, Unreachable) as problem:
        failed = problem
    finally:
        signal.alarm(0)
        world.close()
    if failed or arguments.keep:
        print(f"logs and data are kept under {root}")
    else:
        shutil.rmtree(root, ignore_errors=True)
    print(f"FAILED after {time.monotonic() - start:.0f} s: {failed}" if failed else f"passed in {time.monotonic() - start:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
