"""A cluster whose majority is gone for good, recovered while clients write to it; and its dead, who come back.

Always: what was acknowledged is looked for by its place in the log: up to the survivor's last entry nothing may be missing,
beyond it nothing must be there. Not here: every order of deaths and messages (proof-sim, leaning `recovery`).
"""
import json
import threading
import time

from client import Unreachable
from world import Problem

CLUSTER = "metadata@ks-default-0"
WORLD = "allocator/reference@world"
WRITERS = 3
# Until the cluster has members again, and until nodes have heard of their end, beside builds.
WAIT_SECONDS = 60
BEFORE_SECONDS, AFTER_SECONDS = 3.0, 2.0


class Writer(threading.Thread):
    """Puts one key after the other through any node; remembers what was acknowledged, and where."""

    def __init__(self, world, number):
        super().__init__(daemon=True)
        self.world, self.number, self.stopping, self.done = world, number, threading.Event(), []

    def run(self):
        count, clients = 0, {}
        while not self.stopping.is_set():
            count += 1
            key = f"w{self.number}-{count}"
            node = 1 + (count + self.number) % len(self.world.nodes)
            client = clients.setdefault(node, self.world.client(node, 3.0))
            try:
                _, answer = client.action({"action": "KvPut", "key": key, "value": key, "consistency": "strong", "deadline_ms": 2000})
            except Unreachable:
                continue
            if answer.get("ok"):
                self.done.append((key, answer["at"]))


def until(what, condition, seconds=WAIT_SECONDS):
    end = time.monotonic() + seconds
    while True:
        try:
            found = condition()
        except (Problem, Unreachable) as problem:
            found, last = None, problem
        if found:
            return found
        if time.monotonic() > end:
            raise Problem(f"not within {seconds} s: {what}")
        time.sleep(0.3)


def endpoint(world, number):
    return ["--endpoint", f"http://{world.nodes[number].http}"]


def ctl(world, number, *arguments, check=True):
    return world.command("ctl", *arguments, "--json", *endpoint(world, number), check=check)


def value(world, number, key, level="strong"):
    return world.ask(number, action="KvGet", key=key, read_consistency=level, deadline_ms=10000).get("value")


def ended(world, number):
    body = json.loads(world.client(number, 2.0).get("/ready")[1])
    return any("it serves nothing" in reason for reason in body["degraded"])


def surveyed(world, asked, name=CLUSTER):
    survey = json.loads(ctl(world, asked, "recover", name).stdout)["recovery"]
    return survey if survey["survivor"] else None


def recover(run):
    """Two of three members die under load; the third begins a new life; the two come back, end, and are discarded."""
    world = run.started("w", keyspace=3, regions=("fr-par",) * 6, members=[1, 2, 3, 4, 5])
    members = [member["node"] for member in world.describe(CLUSTER, 1)["members"]]
    leader = world.leader(CLUSTER)
    survivor = next(number for number in members if number != leader)
    gone = [number for number in members if number != survivor]
    writers = [Writer(world, number) for number in range(WRITERS)]
    world.loads.extend(writers)
    [writer.start() for writer in writers]
    time.sleep(BEFORE_SECONDS)
    world.kill(*gone)
    asked = next(number for number in world.nodes if number not in gone)
    # Looked at, and not confirmed: nothing happens. Those who have just died count as up for some seconds.
    survey = until("a survey", lambda: surveyed(world, asked))
    if (survey["state"], survey["survivor"], sorted(survey["silent"])) != ("surveyed", survivor, sorted(gone)):
        raise Problem(f"the survey of {CLUSTER} without nodes {gone}: {survey}")
    wrong = ctl(world, asked, "recover", CLUSTER, "--confirm", "metadata@ks-default-1", "--from", str(survivor), check=False)
    if wrong.returncode != 1 or "NotConfirmed" not in wrong.stdout:
        raise Problem(f"a wrong confirmation: exit {wrong.returncode} {wrong.stdout}")
    other = ctl(world, asked, "recover", CLUSTER, "--confirm", CLUSTER, "--from", str(gone[0]), check=False)
    if other.returncode != 1 or "SurvivorChanged" not in other.stdout:
        raise Problem(f"a survivor that is not the best: exit {other.returncode} {other.stdout}")
    begun = time.monotonic()
    done = json.loads(ctl(world, asked, "recover", CLUSTER, "--confirm", CLUSTER, "--from", str(survivor)).stdout)["recovery"]
    last = next(one["last"] for one in done["survivors"] if one["node"] == survivor)
    until("a read of the new life", lambda: value(world, asked, "w0-1") == "w0-1")
    run.note(f"serves {time.monotonic() - begun:.1f} s after the word")
    time.sleep(AFTER_SECONDS)
    for writer in writers:
        writer.stopping.set()
        writer.join()
    writes = [write for writer in writers for write in writer.done]
    kept = [key for key, at in writes if at["generation"] > 1 or at["index"] <= last]
    lost = len(writes) - len(kept)
    missing = [key for key in kept if value(world, asked, key) != key]
    if missing:
        raise Problem(f"{len(missing)} of {len(kept)} acknowledged writes that the survivor held are missing: {missing[:5]}")
    new = [key for key, at in writes if at["generation"] > 1]
    if not new or lost == len(writes):
        raise Problem(f"{len(writes)} writes were acknowledged, {len(new)} of them in the new life: too few to judge")
    run.note(f"{len(kept)} acknowledged writes there, {lost} beyond the survivor's last entry, {len(new)} in the new life")
    until("three members again", lambda: len([m for m in world.describe(CLUSTER, asked)["members"] if not m["learner"]]) == 3)
    # A majority of the old life comes back at once.
    world.start(*gone)
    world.wait_ready(*gone)
    until("both have ended", lambda: all(ended(world, number) for number in gone))
    for number in gone:
        for level in ("strong", "eventual"):
            if value(world, number, new[-1], level) != new[-1]:
                raise Problem(f"node {number} does not answer from the new life at level {level}")
        if world.command("ctl", "status", *endpoint(world, number), check=False).returncode != 1:
            raise Problem(f"`hive ctl status` of node {number} does not say that it keeps data of an ended life")
    for number in gone:
        ctl(world, asked, "recover", CLUSTER, "--discard", str(number))
    kept = json.loads(ctl(world, asked, "recover").stdout)["recoveries"]
    if [(one["name"], one["state"], one["held"]) for one in kept] != [(CLUSTER, "whole", [])]:
        raise Problem(f"what the recoveries come to: {kept}")
    until("nobody is degraded", lambda: not any(ended(world, number) for number in world.nodes))


def names_found(world, through, name):
    """A keyspace that `through` makes: names are given again."""
    world.keyspace(name, size=3, location="nl-ams", through=through)
    world.ask(through, action="KvPut", keyspace=name, key="k", value=name, deadline_ms=10000)


def recover_world(run):
    """Two of the world's three members die, the third is recovered after a restart; the two come back, end, and join again."""
    world = run.started("w", keyspace=None, regions=("fr-par",) * 3 + ("nl-ams",) * 3, members=[1, 2, 3])
    world.keyspace("default", size=3, location="nl-ams")
    for count in range(50):
        world.ask(4, action="KvPut", key=f"before-{count}", value=str(count))
    leader = world.leader(WORLD)
    survivor = next(number for number in (1, 2, 3) if number != leader)
    gone = [number for number in (1, 2, 3) if number != survivor]
    world.kill(1, 2, 3)
    world.start(survivor)
    until("other clusters serve", lambda: value(world, 4, "before-49") == "49")
    survey = until("a survey", lambda: surveyed(world, survivor, WORLD))
    if (survey["state"], survey["survivor"], sorted(survey["silent"])) != ("surveyed", survivor, sorted(gone)):
        raise Problem(f"the survey of {WORLD} without nodes {gone}: {survey}")
    if not any("they are the ones that end" in finding for finding in survey["findings"]):
        raise Problem(f"nothing warns of members that live: {survey}")
    begun = time.monotonic()
    done = json.loads(ctl(world, survivor, "recover", WORLD, "--confirm", WORLD, "--from", str(survivor)).stdout)["recovery"]
    if sorted(done["held"]) != sorted(gone):
        raise Problem(f"the recovery of {WORLD}: {done}")
    until("new names are given", lambda: names_found(world, 5, "fresh") or True)
    run.note(f"gives names {time.monotonic() - begun:.1f} s after the word")
    region = "reference@region-fr-par"
    until("a survey of the region", lambda: surveyed(world, survivor, region))
    ctl(world, survivor, "recover", region, "--confirm", region, "--from", str(survivor))
    world.wait_ready(survivor, 4, 5, 6)
    until("the status says what is missing", lambda: any(
        "hive ctl world members add" in warning for warning in world.ask(survivor, action="Status")["warnings"]))
    # A majority of the old life comes back at once.
    world.start(*gone)
    until("both have ended", lambda: all(ended(world, number) for number in gone))
    for number in world.nodes:
        found = world.describe(WORLD, number)
        if found["leader"] != survivor or [member["node"] for member in found["members"]] != [survivor]:
            raise Problem(f"the world as node {number} finds it: {found}")
    for number in gone:
        for name in (WORLD, region):
            # It counts as down until the world has heard of it.
            until("a discard", lambda: ctl(world, survivor, "recover", name, "--discard", str(number)))
        ctl(world, survivor, "world", "members", "add", str(number))
    until("three members again", lambda: len([m for m in world.describe(WORLD, 5)["members"] if not m["learner"]]) == 3)
    # The survivor is one of three again: it may go.
    world.kill(*world.nodes)
    world.start(*gone, 4, 5, 6)
    world.wait_ready(*gone, 4, 5, 6)
    if (value(world, gone[0], "before-7"), world.ask(4, action="KvGet", keyspace="fresh", key="k")["value"]) != ("7", "fresh"):
        raise Problem("what was written is not there after a restart without the survivor")
    names_found(world, 6, "fresher")
    world.start(survivor)
    world.wait_ready(survivor)


CASES = [("recover", recover), ("recover-world", recover_world)]
