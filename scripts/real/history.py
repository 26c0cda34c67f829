"""Clients that write down every operation, for a judge that knows nothing of Hive (judge/main.go: Porcupine).

  register   put, get, set-if on single keys of a keyspace
  list       RPUSH and LRANGE of a Redis list: what was appended, in which order
  batch      KvBatch writes one value to every key of a group; a get reads any one of them: a torn batch shows

Always: an operation whose answer did not come is `unknown` and its client goes on under another name; half of the writes
are repeated through other nodes under their request id, and stay one operation. What was refused for certain is left out.
After the faults every key is read once more, so that what was acknowledged and lost shows.
Not here: faults (faults.py), whether a history is right (judge/, and `own_checks` for what needs no search).
"""
import json
import os
import pathlib
import random
import shutil
import subprocess
import threading
import time
import uuid

from client import Unreachable
from world import Problem, Skip

DEADLINE_MS = 2000
ATTEMPT_SECONDS = 2.5
# How long a write is repeated under its request id; less than the ids are kept.
REPEAT_SECONDS = 8.0
# A key is left for the next one after so many operations or seconds: short histories are searched quickly.
KEY_OPERATIONS = 150
KEY_SECONDS = 3.0
KEYS = {"register": 4, "list": 2, "batch": 2}
GROUP = 3
LIST_CLUSTER = "redis@judged"
SEARCH_SECONDS = 60
# Final reads: until every node answers, or the world counts as not healed.
FINAL_SECONDS = 60.0
PAUSE_SECONDS = 0.004


def build_judge():
    """The judge, built once a machine; a Skip where Go or its modules cannot be had."""
    if shutil.which("go") is None:
        raise Skip("needs Go, for the judge (Porcupine)")
    source = pathlib.Path(__file__).with_name("judge")
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", source.parents[2] / "target")) / "judge"
    done = subprocess.run(["go", "build", "-mod=readonly", "-o", str(target), "."], cwd=source, capture_output=True, text=True,
                          timeout=120)
    if done.returncode != 0:
        raise Skip(f"the judge cannot be built: {done.stderr.strip()[-300:]}")
    return target


class Slot:
    """One of the keys that clients share; the next one after a while."""

    def __init__(self, model, number):
        self.model, self.number, self.turn, self.count, self.since = model, number, 0, 0, time.monotonic()
        self.names = []
        self.next()

    def next(self):
        self.turn += 1
        self.count, self.since = 0, time.monotonic()
        self.names.append(f"{self.model}-{self.number}-{self.turn}")

    def name(self):
        self.count += 1
        if self.count > KEY_OPERATIONS or time.monotonic() - self.since > KEY_SECONDS:
            self.next()
        return self.names[-1]


class History:
    """Clients and what they saw; `through` may be exchanged while they run."""

    def __init__(self, world, clients=9, keyspace="default", seed=0):
        self.world, self.keyspace, self.through = world, keyspace, list(world.nodes)
        self.random = random.Random(seed)
        self.lock, self.stopping = threading.Lock(), threading.Event()
        self.slots = {model: [Slot(model, n) for n in range(count)] for model, count in KEYS.items()}
        self.records, self.broken, self.names, self.value, self.refusals = [], [], 0, 0, {}
        self.started = time.monotonic_ns()
        self.last_ok = time.monotonic()
        self.longest_gap = 0.0
        world.loads.append(self)
        models = list(KEYS)
        self.threads = [threading.Thread(target=self.guard, args=(models[n % len(models)], n), daemon=True) for n in range(clients)]

    # -- running ------------------------------------------------------------------------------------

    def prepare(self):
        rule = f"size={len(self.world.nodes)} location=world failure_domain=chassis"
        self.world.ask(1, action="CreateCluster", name=LIST_CLUSTER, rule=rule, deadline_ms=30000)
        return self

    def start(self):
        self.last_ok = time.monotonic()
        for thread in self.threads:
            thread.start()
        return self

    def join(self):
        for thread in self.threads:
            if thread.ident is not None:
                thread.join(REPEAT_SECONDS + 2 * ATTEMPT_SECONDS)
        return not any(thread.is_alive() for thread in self.threads)

    def finish(self):
        """Ends the clients and reads every key once more, strongly, each through a drawn node."""
        self.stopping.set()
        if not self.join():
            raise Problem("a client did not end; an answer never came")
        if self.broken:
            raise Problem("the suite itself broke: " + self.broken[0])
        self.through = list(self.world.nodes)
        state = {}
        for model, slots in self.slots.items():
            for name in (name for slot in slots for name in slot.names):
                members = range(GROUP) if model == "batch" else [0]
                for member in members:
                    self.final_read(state, model, name, member)
        return self

    def guard(self, model, number):
        try:
            drawn, state = random.Random(self.random.random() + number), {}
            client = self.another_name()
            while not self.stopping.is_set():
                client = self.one(state, drawn, model, client)
                time.sleep(PAUSE_SECONDS)
        except Exception as error:  # a bug of this suite must not look like a quiet client
            self.broken.append(f"{type(error).__name__} {error}")

    def another_name(self):
        with self.lock:
            self.names += 1
            return self.names

    def another_value(self):
        with self.lock:
            self.value += 1
            return str(self.value)

    # -- one operation ------------------------------------------------------------------------------

    def one(self, state, drawn, model, client):
        with self.lock:
            name = drawn.choice(self.slots[model]).name()
        record = {"model": model, "key": name, "client": client}
        if model == "list":
            record["op"] = drawn.choice(["append", "append", "read"])
        elif model == "batch":
            record["op"] = drawn.choice(["write", "get", "get"])
        else:
            record["op"] = drawn.choice(["put", "get", "get", "set-if"])
        if record["op"] not in ("get", "read"):
            record["value"] = self.another_value()
        if record["op"] == "set-if":
            expected, known = self.peek(state, drawn, name)
            if not known:
                return client
            if expected is not None:
                record["expected"] = expected
        fields = self.fields(record, drawn.randrange(GROUP))
        repeat = drawn.random() < 0.5 and record["op"] not in ("get", "read")
        record["start"] = time.monotonic_ns() - self.started
        outcome, answer = self.ask(state, drawn, fields, repeat)
        record["end"] = time.monotonic_ns() - self.started
        if outcome == "refused":
            return client
        record["outcome"] = outcome
        if outcome == "ok":
            record["result"] = self.result(record, answer)
        with self.lock:
            self.records.append(record)
            if outcome == "ok":
                now = time.monotonic()
                self.longest_gap = max(self.longest_gap, now - self.last_ok)
                self.last_ok = now
        # After an unknown outcome the client may not go on under its name: its operation is still open.
        return client if outcome == "ok" else self.another_name()

    def peek(self, state, drawn, name):
        """(value, whether it is known) of a register, for a set-if that has a chance; not part of the history."""
        outcome, answer = self.ask(state, drawn, {"action": "KvGet", "keyspace": self.keyspace, "key": name,
                                                  "read_consistency": "eventual", "deadline_ms": DEADLINE_MS}, False)
        return (answer.get("value"), True) if outcome == "ok" else (None, False)

    def fields(self, record, member):
        op, name = record["op"], record["key"]
        if record["model"] == "list":
            command = ["RPUSH", name, record["value"]] if op == "append" else ["LRANGE", name, "0", "-1"]
            asked = {"action": "Redis", "cluster": LIST_CLUSTER, "command": command}
        elif op == "write":
            steps = [{"op": "put", "key": f"{name}/{at}", "value": record["value"]} for at in range(GROUP)]
            asked = {"action": "KvBatch", "keyspace": self.keyspace, "steps": steps}
        elif op == "get":
            key = f"{name}/{member}" if record["model"] == "batch" else name
            asked = {"action": "KvGet", "keyspace": self.keyspace, "key": key}
        elif op == "put":
            asked = {"action": "KvPut", "keyspace": self.keyspace, "key": name, "value": record["value"]}
        else:
            asked = {"action": "KvCompareAndSet", "keyspace": self.keyspace, "key": name, "value": record["value"]}
            if "expected" in record:
                asked["expected"] = record["expected"]
        if op in ("get", "read"):
            asked["read_consistency"] = "strong"
        else:
            asked["request_id"] = uuid.uuid4().hex
        return {**asked, "deadline_ms": DEADLINE_MS}

    def result(self, record, answer):
        if record["op"] == "get":
            return answer.get("value")
        if record["op"] == "set-if":
            return bool(answer.get("ok"))
        if record["op"] in ("append", "read"):
            return answer.get("reply")
        return None

    def ask(self, state, drawn, fields, repeat):
        """("ok" | "refused" | "unknown", answer). `repeat`: through other nodes, under the same request id."""
        end, sent = time.monotonic() + (REPEAT_SECONDS if repeat else 0), False
        while True:
            number = drawn.choice(self.through)
            client = state.setdefault(number, self.world.client(number, ATTEMPT_SECONDS))
            try:
                status, answer = client.action(fields)
                sure = answer.get("error", {}).get("outcome") == "not_applied"
            except Unreachable as error:
                status, answer, sure = 0, {}, "refused" in str(error)
            if answer.get("ok") or status == 412:
                return "ok", answer
            # Definite only while no earlier try of the same id may have been applied.
            sent = sent or not sure
            if status:
                self.refused(status, answer)
            if time.monotonic() > end or self.stopping.is_set():
                return ("unknown" if sent else "refused"), answer
            time.sleep(0.05)

    def refused(self, status, answer):
        with self.lock:
            code = f"{status} {answer.get('error', {}).get('code')}"
            self.refusals[code] = self.refusals.get(code, 0) + 1

    def final_read(self, state, model, name, member):
        record = {"model": model, "key": name, "client": self.another_name(), "op": "read" if model == "list" else "get"}
        fields, end, drawn = self.fields(record, member), time.monotonic() + FINAL_SECONDS, self.random
        while True:
            record["start"] = time.monotonic_ns() - self.started
            outcome, answer = self.ask(state, drawn, fields, False)
            if outcome == "ok":
                break
            if time.monotonic() > end:
                raise Problem(f"{name} cannot be read {FINAL_SECONDS:.0f} s after the faults: {json.dumps(answer)[:300]}")
            time.sleep(0.2)
        record.update(end=time.monotonic_ns() - self.started, outcome="ok", result=self.result(record, answer), final=True)
        self.records.append(record)

    # -- judging ------------------------------------------------------------------------------------

    def judge(self, judge, directory):
        """Asks the judge and checks ourselves; a summary, or a Problem."""
        path = pathlib.Path(directory) / "history.ndjson"
        path.write_text("".join(json.dumps(record) + "\n" for record in self.records))
        verdict = run_judge(judge, path, directory)
        if verdict["violations"]:
            raise Problem(f"not linearizable: {verdict['violations']} of {path}")
        if verdict["gave_up"]:
            raise Problem(f"the judge did not end within {SEARCH_SECONDS} s a key: {verdict['gave_up']} of {path}")
        for problem in own_checks(self.records):
            raise Problem(f"{problem}; {path}")
        refusals = ", ".join(f"{count}× {code}" for code, count in sorted(self.refusals.items())) or "none"
        return (f"{verdict['operations']} operations on {verdict['keys']} keys linearizable, {verdict['unknown']} of unknown "
                f"outcome, longest gap {self.longest_gap:.1f} s, refusals {refusals}")


def run_judge(judge, path, directory):
    done = subprocess.run([str(judge), "-seconds", str(SEARCH_SECONDS), "-pictures", str(directory), str(path)],
                          capture_output=True, text=True)
    if done.returncode not in (0, 1, 3):
        raise Problem(f"the judge ended with {done.returncode}: {done.stderr.strip()[-300:]}")
    return json.loads(done.stdout)


def own_checks(records):
    """What needs no search: nothing invented, no append lost or doubled, no element moved."""
    written, appended, final = {}, {}, {}
    for record in records:
        if record["op"] in ("put", "set-if", "write"):
            written.setdefault((record["model"], record["key"]), set()).add(record["value"])
        elif record["op"] == "append":
            appended.setdefault(record["key"], {})[record["value"]] = record["outcome"]
        if record.get("final") and record["op"] == "read":
            final[record["key"]] = record["result"]
    for record in records:
        if record["outcome"] != "ok":
            continue
        if record["op"] == "get" and record["result"] is not None:
            if record["result"] not in written.get((record["model"], record["key"]), ()):
                yield f"{record['key']} showed {record['result']}, which nobody wrote"
        if record["op"] == "read" and record["key"] in final:
            seen, whole = record["result"], final[record["key"]]
            if seen != whole[:len(seen)]:
                yield f"list {record['key']} showed {seen[-3:]} at {len(seen)}, its end is {whole[max(0, len(seen) - 3):len(seen)]}"
    for key, items in final.items():
        if len(set(items)) != len(items):
            yield f"list {key} has an item twice"
        for value, outcome in appended.get(key, {}).items():
            if outcome == "ok" and value not in items:
                yield f"list {key} lost {value}, which was acknowledged"
        for value in items:
            if value not in appended.get(key, {}):
                yield f"list {key} has {value}, which nobody appended"
