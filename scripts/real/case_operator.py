"""An operator's day, by the commands of the guides alone: three nodes are set up and secured, loaded, watched and backed up; one is lost,
two are added, one is decommissioned, all are restarted one by one, and the backup is restored into a second world.

Always: a load runs from the first key to the last restart, and none of its operations may fail; what is acknowledged is compared at the
end. Every step is a command of `hive` or a request that a guide shows; the page stands beside each step.
Not here: packages and systemd (docs/guides/operations/packages.md), Prometheus (scripts/alerts.sh).
"""
import json
import os
import time

from load import Load
from world import Problem

REGION = "fr-par"
FIRST, ADDED, LOST = (1, 2, 3), (4, 5), 3
KEYS = 2_000
OF_THE_MACHINE = ("disk-fills", "machine-busy")
# Longer than node 3 may be silent before its place is taken by an operator's order.
EMPTY_SECONDS = 120


class Operator:
    """Runs `hive …` with what an operator has in the environment: endpoints, authority, a token's file."""

    def __init__(self, world, through):
        self.world, self.through = world, through
        self.token = world.directory / "root-token"

    def environment(self):
        endpoints = ",".join(f"https://{self.world.nodes[number].http}" for number in self.through)
        return {"HIVE_ENDPOINT": endpoints, "HIVE_CA": str(self.world.clients_authority / "ca.pem"), "HIVE_TOKEN_FILE": str(self.token),
                "HIVE_BACKUP_KEY": str(self.world.directory.parent / "backup.key")}

    def hive(self, *words, fails=False, timeout=EMPTY_SECONDS):
        for name, value in self.environment().items():
            os.environ[name] = value
        try:
            done = self.world.command(*words, check=False, timeout=timeout)
        finally:
            for name in self.environment():
                del os.environ[name]
        if (done.returncode != 0) != fails:
            raise Problem(f"hive {' '.join(words)} ended with {done.returncode}: {done.stdout[-500:]} {done.stderr[-500:]}")
        return done.stdout + (done.stderr if fails else "")

    def ask(self, *words):
        return json.loads(self.hive(*words, "--json"))

    def alarms(self):
        """The command ends with 1 where one of them is bad."""
        for fails in (False, True):
            try:
                return json.loads(self.hive("ctl", "alarms", "--json", fails=fails).splitlines()[0])["alarms"]
            except Problem:
                if fails:
                    raise

    def until(self, what, holds, seconds=60):
        end = time.monotonic() + seconds
        while not holds():
            if time.monotonic() > end:
                raise Problem(f"after {seconds} s: not {what}")
            time.sleep(0.3)


def day(run):
    world = run.world("w", regions=(REGION,) * 5, members=list(FIRST), region_members=list(FIRST), secure=True)
    operator = set_up(world)
    load = fill(run, world, operator)
    watch(operator)
    stamp = back_up(run, operator)
    grow(run, world, operator)
    lose(world, operator)
    restart_all(run, world, operator)
    load.finish().check(through=[1])
    run.note(f"load: {load.summary()}, longest gap {load.longest_gap():.2f} s")
    without_alarms(operator)
    operator.hive("ctl", "status")
    restore(run, world, operator, stamp)


def set_up(world):
    """configure.md, tls.md, access.md: certificates and node.toml stand (world.write); the checks, the start, the root token, a user."""
    for number in FIRST:
        world.command("config", "check", str(world.nodes[number].config))
    world.start(*FIRST).wait_ready(*FIRST)
    world.wait_root_token()
    operator = Operator(world, FIRST)
    # The production checklist: the token is taken off the node.
    made = next(node.data / "root-token" for node in world.nodes.values() if (node.data / "root-token").exists())
    operator.token.write_text(made.read_text())
    operator.token.chmod(0o600)
    made.unlink()
    operator.hive("ctl", "world", "members", "list")
    for kind in ("plain", "versioned"):
        rule = f"size=3 location={REGION} failure_domain=chassis"
        operator.hive("ctl", "keyspace", "create", "default" if kind == "plain" else "shop", "--kind", kind, "--rule", rule)
    return operator


def fill(run, world, operator):
    """first-hour.md: a file of keys is loaded into the versioned keyspace; a program writes and reads the plain one all day."""
    lines = run.root / "shop.tsv"
    lines.write_text("".join(f"item-{number:05}\tvalue of {number}\n" for number in range(KEYS)))
    operator.hive("load", str(lines), "--keyspace", "shop")
    return Load(world, through=list(FIRST[:2]), writers=2, pause=0.02).start().until(puts=50)


def watch(operator):
    """watch.md: status, alarms, `hive top`."""
    operator.hive("ctl", "status")
    without_alarms(operator)
    top = operator.hive("top", "--once")
    if REGION not in top:
        raise Problem(f"hive top shows no region: {top[:400]}")


def without_alarms(operator, seconds=60):
    """But for those about the machine that this runs on: its disk, its load."""
    end = time.monotonic() + seconds
    while alarms := [alarm for alarm in operator.alarms() if alarm["id"] not in OF_THE_MACHINE]:
        if time.monotonic() > end:
            raise Problem(f"after {seconds} s there still are alarms: {alarms}")
        time.sleep(0.3)


def back_up(run, operator):
    """backup.md: a whole backup, verified."""
    place = str(run.root / "backup" / "shop-1")
    made = operator.ask("backup", "create", place, "--keyspace", "shop")
    operator.hive("backup", "verify", place)
    return made


def grow(run, world, operator):
    """nodes.md: two nodes are added while the load runs."""
    for number in ADDED:
        world.command("config", "check", str(world.nodes[number].config))
    world.start(*ADDED).wait_ready(*ADDED)
    operator.until("five nodes up", lambda: sum(node["up"] for node in operator.ask("ctl", "nodes")["nodes"]) == 5)


def lose(world, operator):
    """damage.md, nodes.md: node 3 dies with its disk; it is decommissioned and removed, and its places are taken by others."""
    world.kill(LOST)
    world.wipe(LOST)
    operator.through = (1, 2, 4, 5)
    operator.until("an alarm of the node that is down", lambda: any(
        f"Node {LOST}" in json.dumps(alarm) and "down" in json.dumps(alarm) for alarm in operator.alarms()), 30)
    operator.hive("ctl", "node", "decommission", str(LOST))
    operator.until("node 3 removed", lambda: removed(operator), EMPTY_SECONDS)
    # Each node learns it with its next heartbeat.
    operator.until("off the list", lambda: LOST not in [node["id"] for node in operator.ask("ctl", "nodes")["nodes"]], 10)


def removed(operator):
    """Whether the node is off the list; it stays while a cluster has it as a member."""
    try:
        operator.hive("ctl", "node", "remove", str(LOST))
        return True
    except Problem as problem:
        if "is a member of" in str(problem) or "is up" in str(problem):
            return False
        raise


def restart_all(run, world, operator):
    """nodes.md, upgrade.md: every node is drained, stopped, started, and ready before the next; then leaders are spread again."""
    for number in (1, 2, 4, 5):
        operator.through = tuple(other for other in (1, 2, 4, 5) if other != number) + (number,)
        operator.hive("ctl", "node", "drain", str(number))
        codes = world.stop(number)
        if codes[number] != 0:
            raise Problem(f"node {number} ended with {codes[number]} at SIGTERM: {world.log_tail(number)}")
        world.start(number)
        world.wait_ready(number)
        operator.until("four nodes up", lambda: sum(node["up"] for node in operator.ask("ctl", "nodes")["nodes"]) == 4)
    operator.ask("ctl", "rebalance", "--plan")
    operator.hive("ctl", "rebalance")
    plan = operator.ask("ctl", "rebalance", "--plan")
    if plan["moves"]:
        raise Problem(f"leaders are to move again right after a rebalance: {plan}")
    run.note(f"leaders after the rebalance: {[one['leads'] for one in plan['after']]}")


def restore(run, world, operator, made):
    """backup.md: the keyspace as it was, in a second world."""
    world.stop()
    second = run.world("second", regions=(REGION,) * 3, secure=True)
    second.start().wait_ready()
    second.wait_root_token()
    there = Operator(second, FIRST)
    there.token.write_text(second.root_token())
    there.token.chmod(0o600)
    place = str(run.root / "backup" / "shop-1")
    there.hive("backup", "restore", place, "--as", "shop")
    keys = [line.split("\t") for line in there.hive("kv", "scan", "--keyspace", "shop", "--limit", str(KEYS * 2)).splitlines()]
    wanted = [[f"item-{number:05}", f"value of {number}"] for number in range(KEYS)]
    if keys != wanted:
        raise Problem(f"the restored keyspace has {len(keys)} keys, not the {KEYS} that were backed up; the first are {keys[:2]}")
    run.note(f"restored {len(keys)} keys at stamp {made.get('stamp')} into a second world")


CASES = [("operators-day", day)]
