"""Faults of every kind under clients whose histories a judge of others decides (Porcupine), and our own checks.

Always: each case draws its faults one after the other from one family, with pauses between; all of a case is one history.
Not here: what a fault is (faults.py), what clients do (history.py).
"""
import json
import random
import time

import faults
from faults import Clocks, Place
from history import History, build_judge, run_judge
from world import Problem

FAULT_SECONDS = 4.0
CALM_SECONDS = 1.5
# What `hive` must offer for a clock that is held, not only suspended (docs/guides/clocks.md).
NO_LEASES = {"read_leases": "false"}


def judged(run, place, family, rounds=1, seconds=FAULT_SECONDS):
    """Every fault of a family, `rounds` times in a drawn order, under all clients; then the judge."""
    judge = build_judge()
    drawn = random.Random(random.random())
    place.start()
    history = History(place.world, seed=drawn.random()).prepare().start()
    told = []
    for _ in range(rounds):
        for fault in drawn.sample(family, len(family)):
            time.sleep(CALM_SECONDS)
            mend = fault(place, drawn)
            time.sleep(seconds)
            told.append(mend())
    time.sleep(CALM_SECONDS)
    summary = history.finish().judge(judge, run.root)
    run.note(f"{', '.join(told)}: {summary}")


def processes(run):
    judged(run, Place(run), faults.PROCESSES, rounds=2)


def networks(run):
    judged(run, Place(run, net=True), faults.NETWORKS)


def disks(run):
    judged(run, Place(run), faults.DISKS)


def power(run):
    judged(run, Place(run, disks=True), faults.POWER, rounds=2, seconds=1.0)


def files(run):
    judged(run, Place(run, tuning={"flush_after_ms": 300}), faults.FILES, rounds=2, seconds=1.0)


def directories(run):
    judged(run, Place(run), faults.DIRECTORIES, seconds=1.0)


def suspended(run):
    place = Place(run, net=True)
    place.clocks = Clocks(place)
    judged(run, place, [faults.suspend], rounds=4)


def held(run):
    place = Place(run, net=True, tuning=NO_LEASES)
    place.clocks = Clocks(place)
    judged(run, place, [faults.hold], rounds=4)


# Each a history that is wrong, and must be found so.
WRONG = {
    "stale read": [("register", "put", "1", None), ("register", "put", "2", None), ("register", "get", None, "1")],
    "lost write": [("register", "put", "1", None), ("register", "get", None, None)],
    "deleted key": [("register", "put", "1", None), ("register", "delete", None, None), ("register", "get", None, "1")],
    "set-if twice": [("register", "put", "1", None), ("register", "set-if 1", "2", True), ("register", "set-if 1", "3", True)],
    "lost append": [("list", "append", "1", 1), ("list", "append", "2", 1)],
    "moved item": [("list", "append", "1", 1), ("list", "append", "2", 2), ("list", "read", None, ["2", "1"])],
    "torn batch": [("batch", "write", "1", None), ("batch", "write", "2", None), ("batch", "get", None, "2"), ("batch", "get", None, "1")],
}


def judge_bites(run):
    """The judge finds what it is there to find, and lets a sound history with open operations pass."""
    judge = build_judge()
    for name, steps in WRONG.items():
        lines = []
        for at, (model, op, value, result) in enumerate(steps):
            op, _, expected = op.partition(" ")
            line = {"model": model, "key": "k", "client": 1, "op": op, "value": value or "", "start": 10 * at, "end": 10 * at + 5,
                    "outcome": "ok", "result": result}
            lines.append({**line, "expected": expected} if expected else line)
        path = run.root / "wrong.ndjson"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        if not run_judge(judge, path, run.root)["violations"]:
            raise Problem(f"the judge lets this pass: {name}")
        # With its last write unknown and nothing read of it, a history is sound.
    open_write = {"model": "register", "key": "k", "client": 1, "op": "put", "value": "1", "start": 0, "end": 5, "outcome": "unknown"}
    read = {"model": "register", "key": "k", "client": 2, "op": "get", "start": 10, "end": 15, "outcome": "ok", "result": None}
    late = {**read, "start": 20, "end": 25, "result": "1"}
    path = run.root / "open.ndjson"
    path.write_text("".join(json.dumps(line) + "\n" for line in (open_write, read, late)))
    if run_judge(judge, path, run.root)["violations"]:
        raise Problem("the judge takes an open write that is seen late for a violation")
    run.note(f"{len(WRONG)} wrong histories found, one with an open write passed")


CASES = [("judge-bites", judge_bites), ("judged-processes", processes), ("judged-networks", networks), ("judged-disks", disks),
         ("judged-power", power), ("judged-files", files), ("judged-directories", directories), ("judged-suspend", suspended),
         ("judged-hold", held)]
