"""Runs etcd's tests/common, python-etcd3's tests, Redis' Tcl tests and redis-py's tests against a world of Hive, and tells which passed. Run by scripts/doors.sh.

A failure is explained by the first entry of reasons.json whose `test` matches its name; one that no entry explains fails the run, and an
entry that explains nothing is listed. Not here: how etcd's tests meet a world (etcd/runner_test.go), how Redis' do (redis_suite.py)."""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "etcd_clients"))
import world as worlds  # noqa: E402

import redis_suite  # noqa: E402

SUITE_TIMEOUT_S = 1200
RULE = "size=3 location=world failure_domain=chassis"


def etcd_common(options, world, pattern):
    """Test to outcome, of tests/common."""
    env = {**os.environ, "HIVE_DOORS_READY": world.ready_file}
    command = [os.path.join(options.home, "etcd", "common.test"), "-test.v", f"-test.timeout={SUITE_TIMEOUT_S}s", f"-test.run={pattern or '.'}"]
    log_path = os.path.join(options.home, "etcd-common.log")
    with open(log_path, "w") as log:
        subprocess.run(command, cwd=os.path.join(options.home, "etcd", "common"), env=env, stdout=log, stderr=log, timeout=SUITE_TIMEOUT_S + 60, check=False)
    found = {}
    with open(log_path, errors="replace") as log:
        for line in log:
            if match := re.match(r"\s*--- (PASS|FAIL|SKIP): (\S+) ", line):
                found[match[2]] = {"PASS": "passed", "FAIL": "failed", "SKIP": "skipped"}[match[1]]
            elif line.startswith("panic:"):
                found["(the whole)"] = "failed"
    # A test with parts is its parts.
    return {name: outcome for name, outcome in found.items() if not any(other.startswith(name + "/") for other in found)}


def pytest_outcomes(report):
    """Test to outcome, of a report of pytest's."""
    found = {}
    for test in xml.etree.ElementTree.parse(report).iter("testcase"):
        name = f"{test.get('classname').split('.', 1)[-1]}.{test.get('name')}"
        bad = test.find("failure") is not None or test.find("error") is not None
        skipped = test.find("skipped") is not None
        # A test whose clean-up fails is there twice.
        if found.get(name) != "failed":
            found[name] = "failed" if bad else "skipped" if skipped else "passed"
    return found


def python_etcd3(options, world, pattern):
    world.act(action="DeleteKeyspace", keyspace="etcd")
    world.act(action="CreateKeyspace", keyspace="etcd", kind="versioned", rule=RULE)
    report = os.path.join(options.home, "python-etcd3.xml")
    env = {**os.environ, "PYTHON_ETCD_HTTP_URL": world.endpoints[0], "TEST_ETCD_VERSION": "v3.6.0",
           "PATH": options.tools + os.pathsep + os.environ["PATH"]}
    command = [options.python, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}", "tests"]
    if pattern:
        command += ["-k", pattern]
    with open(os.path.join(options.home, "python-etcd3.log"), "w") as log:
        subprocess.run(command, cwd=os.path.join(options.home, "etcd3-0.12.0"), env=env, stdout=log, stderr=log, timeout=SUITE_TIMEOUT_S, check=False)
    return pytest_outcomes(report)


def redis_py(options, world, pattern):
    """Tests of redis-py that ask a server; those of modules, clusters, sentinels and of redis-py alone are left out."""
    report = os.path.join(options.home, "redis-py.xml")
    files = "commands encoding function hash lock monitor multiprocessing pipeline pubsub scripting".split()
    command = [options.redis_python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--redis-url", world.ready["nodes"][0]["redis"] + "/9",
               "-m", "not redismod and not onlycluster", "--timeout", "60", f"--junitxml={report}", *(f"tests/test_{file}.py" for file in files)]
    if pattern:
        command += ["-k", pattern]
    with open(os.path.join(options.home, "redis-py.log"), "w") as log:
        subprocess.run(command, cwd=os.path.join(options.home, "redis-5.2.1"), stdout=log, stderr=log, timeout=SUITE_TIMEOUT_S, check=False)
    return pytest_outcomes(report)


REDIS = f"Redis {redis_suite.VERSION} tests"
SUITES = {"etcd v3.6.5 tests/common": etcd_common, "python-etcd3 0.12.0": python_etcd3, REDIS: redis_suite.run, "redis-py 5.2.1": redis_py}


def judge(suite, found, reasons):
    """Prints the suite's table; the failures without a reason."""
    count = {outcome: sum(1 for got in found.values() if got == outcome) for outcome in ("passed", "failed", "skipped")}
    print(f"\n{suite}: {count['passed']} passed, {count['failed']} failed, {count['skipped']} skipped by the suite itself")
    unexplained, used = [], set()
    for name, outcome in sorted(found.items()):
        why = ""
        if outcome == "failed":
            entry = next((entry for entry in reasons if re.search(entry["test"], name)), None)
            if entry is None:
                unexplained.append(name)
                why = "NO REASON"
            else:
                used.add(entry["test"])
                why = entry["why"]
        print(f"  {outcome:8} {name}{'  -- ' if why else ''}{why}")
    for entry in reasons:
        if entry["test"] not in used:
            print(f"  (explains nothing in this run: {entry['test']})")
    return count, unexplained


def main():
    parser = argparse.ArgumentParser()
    for name in ("hive", "home", "tools", "python", "redis-python"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--base-port", type=int, default=2078)
    parser.add_argument("--only", default="")
    parser.add_argument("--suite", default="", help="only the suite whose name has it")
    parser.add_argument("--unit", default="", help="only Redis' units whose name has it")
    options = parser.parse_args()
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "reasons.json")) as file:
        reasons = json.load(file)
    folder, world, results, unexplained = tempfile.mkdtemp(prefix="doors-"), None, {}, []
    try:
        world = worlds.World(options.hive, folder, options.base_port)
        for suite, run in SUITES.items():
            if options.suite not in suite:
                continue
            found = run(options, world, options.only)
            count, bad = judge(suite, found, reasons[suite])
            unexplained += bad
            if suite == REDIS:
                passed, all_of = redis_suite.rate_of_data(found)
                print(f"  tests of data commands that apply: {passed} of {all_of} passed")
            results[suite] = {"count": count, "tests": found}
    finally:
        if world:
            world.stop()
        shutil.rmtree(folder, ignore_errors=True)
    with open(os.path.join(options.home, "results.json"), "w") as file:
        json.dump(results, file, indent=1, sort_keys=True)
    shown = "; ".join(f"{suite}: {result['count']['passed']} passed, {result['count']['failed']} failed" for suite, result in results.items())
    print(f"\ndoors: {shown}; {len(unexplained)} failures without a reason")
    sys.exit(1 if unexplained or not results else 0)


if __name__ == "__main__":
    main()
