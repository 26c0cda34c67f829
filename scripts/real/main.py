"""The real-process suite: `make real`. Runs every case against real nodes, prints a table.

  main.py --hive PATH [--base-port 29000] [--only NAME,…] [--keep] [--seed N]

Always: works under a temporary directory of its own, ends the processes it started by their ids, exits 1
if a case failed. A case that the machine cannot run is skipped and says why. Not here: the cases.
"""
import argparse
import os
import pathlib
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback

import case_crashes
import case_disks
import case_doors
import case_engines
import case_inputs
import case_integrity
import case_judged
import case_levels
import case_network
import case_operator
import case_overload
import case_recover
import case_restarts
import case_sharding
from world import Problem, Skip, World

# A case that takes longer is ended and failed (they take 10 to 60 s).
CASE_SECONDS = 150 + int(case_levels.DOWN_SECONDS)
CASES = [*case_crashes.CASES, *case_disks.CASES, *case_sharding.CASES, *case_network.CASES, *case_overload.CASES, *case_inputs.CASES,
         *case_integrity.CASES, *case_engines.CASES, *case_judged.CASES, *case_doors.CASES, *case_levels.CASES,
         *case_recover.CASES, *case_restarts.CASES, *case_operator.CASES]


class Run:
    """What a case is handed: where to work, and a place for what it found."""

    def __init__(self, arguments, root):
        self.hive, self.base_port, self.root = arguments.hive, arguments.base_port, root
        self.worlds, self.notes, self.cleanups = [], [], []

    def world(self, name, **options):
        """A laid-out world, ended with the case; not started."""
        world = World(self.hive, self.root / name, self.base_port, **options).write()
        self.worlds.append(world)
        return world

    def started(self, name, keyspace=5, **options):
        """A world that serves, with the keyspace `default` of that size."""
        world = self.world(name, **options).start()
        world.wait_ready()
        world.wait_root_token()
        if keyspace:
            world.keyspace("default", size=keyspace)
        return world

    def note(self, text):
        self.notes.append(text)

    def close(self):
        for world in self.worlds:
            world.close()
        for cleanup in reversed(self.cleanups):
            cleanup()


def alarm(_signal, _frame):
    raise Problem(f"the case did not end within {CASE_SECONDS} s")


def run_case(name, case, arguments, root):
    """(result, text, seconds) of one case."""
    run, start = Run(arguments, root / name), time.monotonic()
    run.root.mkdir()
    signal.signal(signal.SIGALRM, alarm)
    signal.alarm(CASE_SECONDS)
    try:
        case(run)
        for world in run.worlds:
            world.check_logs()
        result, text = "passed", "; ".join(run.notes)
    except Skip as skip:
        result, text = "skipped", str(skip)
    except Problem as problem:
        result, text = "FAILED", "; ".join([*run.notes, str(problem)])
    except Exception as error:
        where = traceback.format_exc().strip().splitlines()
        result, text = "FAILED", f"{type(error).__name__}: {error} ({where[-3].strip() if len(where) > 2 else ''})"
    finally:
        signal.alarm(0)
        run.close()
    return result, text, time.monotonic() - start


def main():
    parser = argparse.ArgumentParser(description="Hive against real processes, files and networks.")
    parser.add_argument("--hive", required=True)
    parser.add_argument("--base-port", type=int, default=29000)
    parser.add_argument("--only", default="", help="names of cases, separated by commas; a part of a name is enough")
    parser.add_argument("--keep", action="store_true", help="keep the directories of all cases, not only of those that failed")
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4), "big"))
    arguments = parser.parse_args()
    if not os.access(arguments.hive, os.X_OK):
        print(f"{arguments.hive} is no program; build it with `make build`", file=sys.stderr)
        return 2
    wanted = [part for part in arguments.only.split(",") if part]
    cases = [(n, c) for n, c in CASES if not wanted or any(part in n for part in wanted)]
    if not cases:
        print(f"no case has a name like {arguments.only}; there are {', '.join(n for n, _ in CASES)}", file=sys.stderr)
        return 2
    random.seed(arguments.seed)
    threading.stack_size(1 << 20)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    root = pathlib.Path(tempfile.mkdtemp(prefix="hive-real-"))
    print(f"hive real: seed {arguments.seed}, under {root}, ports from {arguments.base_port}", flush=True)
    counts = {"passed": 0, "FAILED": 0, "skipped": 0}
    for name, case in cases:
        result, text, seconds = run_case(name, case, arguments, root)
        counts[result] += 1
        print(f"{result:8} {name:28} {seconds:6.1f} s  {text}", flush=True)
        if result != "FAILED" and not arguments.keep:
            shutil.rmtree(root / name, ignore_errors=True)
    if counts["FAILED"]:
        print(f"logs and data of what failed are kept under {root}")
    elif not arguments.keep:
        shutil.rmtree(root, ignore_errors=True)
    skipped = f", {counts['skipped']} skipped" if counts["skipped"] else ""
    print(f"{counts['passed']} passed, {counts['FAILED']} failed{skipped}")
    return 1 if counts["FAILED"] else 0


if __name__ == "__main__":
    sys.exit(main())
