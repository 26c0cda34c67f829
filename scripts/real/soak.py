"""Hours of faults of all kinds at random, from a seed, under all clients: `make soak HOURS=n [SEED=n]`. Ends with a verdict page.

  soak.py --hive PATH --hours N [--seed N] [--out DIR] [--base-port 29000]

Works in rounds of some minutes: a round is a world whose nodes live on, one history, one verdict; the next round has another
layout of wire, disks and tuning. A round that fails keeps its directory, and the soak goes on with the next one.

Always: the draws of a round come from its seed alone (timing does not); memory is bounded by a round's history; every process
and mount is ended with its round. Exit code 1 if a round failed, 2 for bad usage. Not here: faults, clients, the judge.
"""
import argparse
import html
import json
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

import faults
from case_judged import NO_LEASES
from faults import Clocks, Place
from history import History, build_judge
from main import Run
from world import Problem, Skip

ROUND_SECONDS = 180.0
# A round that takes longer than this beyond its faults hangs somewhere, and has failed.
ROUND_GRACE_SECONDS = 300
FAULT_SECONDS_MAX = 8.0
CALM_SECONDS_MAX = 4.0
# Two faults at a time only of kinds that together still leave a majority whole.
PAIRS = [(faults.loss, faults.kill_one), (faults.loss, faults.pause), (faults.slow_disk, faults.leader_in_minority),
         (faults.loss, faults.flip_log), (faults.ring, faults.kill_one)]
# Nodes hold what they are given in memory and files of their own; the machine has 24 GiB.
TUNINGS = [{}, {"flush_after_ms": 300}, {"flush_after_ms": 300, "flush_bytes": 65536}, {"quiesce_after_ticks": 3}]


def layout(run, drawn):
    """(place, the faults that it can have) of a round."""
    kind = drawn.choice(["wire", "wire", "disks", "clocks"])
    tuning = dict(drawn.choice(TUNINGS))
    common = faults.PROCESSES + faults.FILES + [faults.wiped, faults.log_gone]
    if kind == "wire":
        return Place(run, net=True, tuning=tuning), common + faults.NETWORKS + faults.DISKS
    if kind == "disks":
        return Place(run, disks=True, tuning=tuning), faults.PROCESSES + faults.FILES + faults.POWER + [faults.wiped] + faults.DISKS
    hold = drawn.random() < 0.5
    place = Place(run, net=True, tuning={**tuning, **(NO_LEASES if hold else {})})
    place.clocks = Clocks(place)
    return place, faults.PROCESSES + faults.NETWORKS + [faults.hold if hold else faults.suspend] * 4


def break_things(place, family, drawn, end, told):
    while time.monotonic() < end:
        time.sleep(drawn.uniform(0.2, CALM_SECONDS_MAX))
        pairs = [pair for pair in PAIRS if all(fault in family for fault in pair)]
        chosen = drawn.choice(pairs) if pairs and drawn.random() < 0.2 else (drawn.choice(family),)
        mends = [fault(place, drawn) for fault in chosen]
        time.sleep(drawn.uniform(0.3, FAULT_SECONDS_MAX))
        told.append(" + ".join(mend() for mend in reversed(mends)))


def one_round(run, judge, seed, seconds):
    """(what was done, what was seen) of a round; raises what went wrong."""
    drawn, told = random.Random(seed), []
    place, family = layout(run, drawn)
    place.start(keyspace=drawn.choice([3, 5]))
    history = History(place.world, seed=drawn.random()).prepare().start()
    try:
        break_things(place, family, drawn, time.monotonic() + seconds, told)
    except Problem as problem:
        raise Problem(f"{problem}; before: {', '.join(told)}") from None
    summary = history.finish().judge(judge, run.root)
    for world in run.worlds:
        world.check_logs()
    return told, summary


def alarm(_signal, _frame):
    raise Problem("the round did not end; something hangs")


def run_round(arguments, judge, root, number, seed, seconds):
    """One row of the verdict."""
    run, start = Run(arguments, root / f"round-{number}"), time.monotonic()
    run.root.mkdir()
    signal.alarm(int(seconds) + ROUND_GRACE_SECONDS)
    row = {"round": number, "seed": seed}
    try:
        told, summary = one_round(run, judge, seed, seconds)
        row.update(result="passed", faults=told, seen=summary)
    except Skip as skip:
        row.update(result="skipped", seen=str(skip))
    except Problem as problem:
        row.update(result="FAILED", seen=str(problem))
    except Exception as error:
        row.update(result="FAILED", seen=f"{type(error).__name__}: {error}: {traceback.format_exc()[-400:]}")
    finally:
        signal.alarm(0)
        run.close()
    row["seconds"] = round(time.monotonic() - start, 1)
    if row["result"] == "passed":
        shutil.rmtree(run.root, ignore_errors=True)
    return row


def page(rows, arguments, root):
    """The verdict as a page and as JSON; the page's path."""
    out = pathlib.Path(arguments.out)
    out.mkdir(parents=True, exist_ok=True)
    counts = {result: sum(row["result"] == result for row in rows) for result in ("passed", "FAILED", "skipped")}
    kinds = {}
    for row in rows:
        for told in row.get("faults", []):
            for kind in told.split(" + "):
                kinds[kind] = kinds.get(kind, 0) + 1
    verdict = {"seed": arguments.seed, "hours": arguments.hours, "counts": counts, "faults": kinds, "rounds": rows}
    (out / "verdict.json").write_text(json.dumps(verdict, indent=1))
    cells = "".join(f"<tr class={row['result']}><td>{row['round']}<td>{row['seed']}<td>{row['result']}<td>{row['seconds']}"
                    f"<td>{html.escape(', '.join(row.get('faults', [])))}<td>{html.escape(row['seen'])}</tr>\n" for row in rows)
    faults_told = "".join(f"<tr><td>{html.escape(kind)}<td>{count}</tr>\n" for kind, count in sorted(kinds.items()))
    result = "passed" if not counts["FAILED"] else "FAILED"
    (out / "verdict.html").write_text(f"""<!doctype html><meta charset=utf-8><title>Hive soak: {result}</title>
<style>body{{font:14px sans-serif;margin:2em}}td{{border-top:1px solid #ccc;padding:3px 8px;vertical-align:top}}
.FAILED{{background:#fdd}}</style>
<h1>Hive soak: {result}</h1>
<p>Seed {arguments.seed}, {arguments.hours} hours; {counts['passed']} rounds passed, {counts['FAILED']} failed, {counts['skipped']} skipped.
Again: <code>make soak HOURS={arguments.hours} SEED={arguments.seed}</code>. What failed is kept under {html.escape(str(root))}.</p>
<h2>Rounds</h2><table><tr><th>round<th>seed<th>result<th>s<th>faults<th>seen</tr>
{cells}</table><h2>Faults</h2><table>{faults_told}</table>
""")
    return out / "verdict.html", counts


def main():
    parser = argparse.ArgumentParser(description="Faults of all kinds at random, judged.")
    parser.add_argument("--hive", required=True)
    parser.add_argument("--hours", type=float, required=True)
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4), "big"))
    parser.add_argument("--out", required=True)
    parser.add_argument("--base-port", type=int, default=29000)
    arguments = parser.parse_args()
    if arguments.hours <= 0 or not os.access(arguments.hive, os.X_OK):
        print(f"--hours must be above 0 and {arguments.hive} a program; build it with `make build`", file=sys.stderr)
        return 2
    try:
        judge = build_judge()
    except Skip as skip:
        print(f"the soak needs its judge: {skip}", file=sys.stderr)
        return 2
    threading.stack_size(1 << 20)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    signal.signal(signal.SIGALRM, alarm)
    root = pathlib.Path(tempfile.mkdtemp(prefix="hive-soak-"))
    print(f"hive soak: seed {arguments.seed}, {arguments.hours} hours, under {root}", flush=True)
    end, drawn, rows = time.monotonic() + arguments.hours * 3600, random.Random(arguments.seed), []
    while time.monotonic() < end:
        seconds = min(ROUND_SECONDS, max(10.0, end - time.monotonic()))
        row = run_round(arguments, judge, root, len(rows) + 1, drawn.getrandbits(32), seconds)
        rows.append(row)
        print(f"{row['result']:8} round {row['round']:4} {row['seconds']:6.1f} s  {row['seen']}", flush=True)
        # Written after every round: a soak that is ended early has its verdict up to there.
        path, counts = page(rows, arguments, root)
    print(f"verdict: {path}")
    skipped = f", {counts['skipped']} skipped" if counts["skipped"] else ""
    print(f"{counts['passed']} passed, {counts['FAILED']} failed{skipped}")
    if not counts["FAILED"]:
        shutil.rmtree(root, ignore_errors=True)
    return 1 if counts["FAILED"] or not counts["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
