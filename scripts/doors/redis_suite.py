"""Redis' own Tcl tests against a Redis door of a world of Hive, unit by unit. Used by main.py.

The suite is taken as it is but for one thing (`adapt`): CONFIG SET of what a unit wants before it begins, and of thresholds between Redis'
encodings, may be refused, for Hive has neither. Tests with the tags below do not apply. Not here: which failures have a reason (reasons.json)."""

import glob
import hashlib
import os
import re
import subprocess
import tarfile
import urllib.request

VERSION = "7.0.15"
# Debian's source package.
SOURCE = f"http://deb.debian.org/debian/pool/main/r/redis/redis_{VERSION}.orig.tar.gz"
SHA256 = "4b1dc4ee6d622a09fff9c6777191209750fb5e5a725ef78ea012d6eef4c22982"
# Tags whose tests do not apply, and why.
NOT_APPLICABLE = {
    "needs:repl": "asks a server to be replicated by SYNC; Hive replicates by its log",
    "needs:debug": "asks DEBUG for what only Redis has (encodings, reloads, jumps of its clock)",
    "needs:pfdebug": "asks PFDEBUG for Redis' own encodings of HyperLogLogs",
    "needs:config-maxmemory": "sets a limit of memory and evictions; Hive evicts nothing",
    "needs:config-resetstat": "resets Redis' statistics",
    "needs:save": "writes an RDB file",
    "slow": "minutes of large random data; the same commands are in other tests",
}
UNITS = (
    "auth bitfield bitops expire functions geo hyperloglog info info-command introspection introspection-2 keyspace limits multi networking "
    "other printver protocol pubsub pubsubshard querybuf quit scan scripting slowlog sort tracking type/hash type/incr type/list type/list-2 "
    "type/list-3 type/set type/stream type/stream-cgroups type/string type/zset violations wait"
).split()
# Units about data commands: the goal of 95 % is about them.
DATA_UNITS = {unit for unit in UNITS if unit.startswith("type/")} | set("bitfield bitops expire geo hyperloglog keyspace multi scan sort".split())
UNIT_TIMEOUT_S = 600


def fetch(home):
    """The suite's folder, unpacked below `home`."""
    folder = os.path.join(home, f"redis-{VERSION}")
    if not os.path.isdir(os.path.join(folder, "tests")):
        with urllib.request.urlopen(SOURCE, timeout=120) as answer:
            source = answer.read()
        if hashlib.sha256(source).hexdigest() != SHA256:
            raise SystemExit(f"{SOURCE} is not what it was")
        path = os.path.join(home, "redis.tar.gz")
        with open(path, "wb") as file:
            file.write(source)
        with tarfile.open(path) as archive:
            archive.extractall(home, members=[each for each in archive if "/tests/" in each.name or each.name.endswith("/tests")])
        adapt(folder)
    return folder


def adapt(folder):
    """What is set before and after a unit, and thresholds of encodings, may be refused."""
    path = os.path.join(folder, "tests", "support", "server.tcl")
    with open(path) as file:
        text = file.read()
    changed = text.replace("        r config set $param $val\n", "        catch {r config set $param $val}\n")
    changed = changed.replace("    r function flush\n", "    catch {r function flush}\n")
    if changed.count("catch {r config set $param $val}") != 2:
        raise SystemExit("the harness of Redis' tests is not what it was")
    with open(path, "w") as file:
        file.write(changed)
    for path in glob.glob(os.path.join(folder, "tests", "unit", "**", "*.tcl"), recursive=True):
        with open(path, encoding="latin-1") as file:
            text = file.read()
        with open(path, "w", encoding="latin-1") as file:
            file.write(re.sub(r"(?m)^(\s*)(r config set (?:hash|list|set|zset|stream)-\S+ .*)$", r"\1catch {\2}", text))


def run(options, world, pattern):
    """Test to outcome, of all units."""
    folder, found = fetch(options.home), {}
    host, port = world.ready["nodes"][0]["redis"].split("//")[1].rsplit(":", 1)
    denied = [word for tag in NOT_APPLICABLE for word in ("--tags", "-" + tag)]
    for unit in UNITS:
        if options.unit and options.unit not in unit:
            continue
        command = ["tclsh", "tests/test_helper.tcl", "--host", host, "--port", port, "--single", f"unit/{unit}", "--durable",
                   "--ignore-encoding", "--ignore-digest", "--no-latency", *denied]
        command += ["--only", "/" + pattern] if pattern else []
        log_path = os.path.join(options.home, f"redis-{unit.replace('/', '-')}.log")
        with open(log_path, "w") as log:
            try:
                subprocess.run(command, cwd=folder, stdout=log, stderr=log, timeout=UNIT_TIMEOUT_S, check=False)
            except subprocess.TimeoutExpired:
                found[f"{unit}: (the whole)"] = "failed"
        with open(log_path, errors="replace") as log:
            found.update({f"{unit}: {name}": outcome for name, outcome in outcomes(log)})
        got = [outcome for name, outcome in found.items() if name.startswith(unit + ": ")]
        print(f"redis {unit}: {got.count('passed')} passed, {got.count('failed')} failed, {got.count('skipped')} do not apply", flush=True)
    return found


def outcomes(log):
    """(test, outcome) of the suite's lines."""
    for line in log:
        # Colours are the suite's own, whatever it writes to.
        line = re.sub(r"\x1b\[[0-9;]*m", "", line)
        if match := re.match(r"\[ok\]: (.*) \(\d+ ms\)$", line):
            yield match[1], "passed"
        elif match := re.match(r"\[err\]: (.*?) in tests/", line):
            yield match[1], "failed"
        elif line.startswith("[err]:") or line.startswith("[exception]"):
            yield "(outside of a test)", "failed"
        elif match := re.match(r"\[ignore\]: (.*): (?:Tag|Not supported|large memory)", line):
            yield match[1], "skipped"


def rate_of_data(found):
    """Passed and all of the tests about data commands that apply."""
    of = [outcome for name, outcome in found.items() if name.split(":")[0] in DATA_UNITS and outcome != "skipped"]
    return of.count("passed"), len(of)
