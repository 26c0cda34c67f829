"""Clients that write and read while a case breaks things, and the checks of what they saw.

  Writers    each its own keys, strong puts with request ids; every acknowledged pair must be there at the end
  Counter    one key, compare-and-set by all threads; its value must be the number of acknowledged sets
  Register   one writer counts up, readers read strongly: never less than what was acknowledged, or read by
             anyone, before the read began

Always: an operation is tried again, with its request id, through another node until its budget ends;
only then is it an error. A refusal that is not retryable is an error at once.
"""
import random
import threading
import time
import uuid

from client import Unreachable
from world import Problem

# What one operation may take, over all its attempts. A node's own deadline is shorter (`DEADLINE_MS`).
BUDGET_SECONDS = 10.0
# A case waits no longer for its load to have got going.
START_SECONDS = 30.0
DEADLINE_MS = 4000
# An answer must come within the deadline; a little later it is taken for lost.
ATTEMPT_SECONDS = 4.5
FAILURES_KEPT = 20


class Load:
    """Threads that run until `finish`; `endpoints` may be exchanged while they run."""

    def __init__(self, world, keyspace="default", writers=4, counters=2, readers=2, budget=BUDGET_SECONDS,
                 value_bytes=200, prefix="w", through=None, attempt=ATTEMPT_SECONDS, pause=0.0):
        self.world, self.keyspace, self.budget, self.prefix = world, keyspace, budget, prefix
        self.value_bytes, self.attempt, self.pause = value_bytes, attempt, pause
        self.through = list(through or world.nodes)
        self.lock = threading.Lock()
        self.stopping = threading.Event()
        self.acknowledged = {}   # key -> value
        self.unknown = {}        # key -> value that may be there
        self.counted = 0         # acknowledged sets of the counter
        self.count_unknown = 0   # sets whose outcome never became known
        self.register_floor = 0  # acknowledged, or read by someone
        self.register_started = 0
        self.failures = []
        self.operations = 0
        self.attempts = 0
        self.slowest = 0.0
        self.acks = []           # (when, slowest of it) of acknowledged writes, for gaps
        roles = [self.write] * writers + [self.count] * counters
        if readers:
            roles += [self.register_write] + [self.register_read] * readers
        world.loads.append(self)
        self.threads = [threading.Thread(target=self.guard, args=(role, n), daemon=True) for n, role in enumerate(roles)]

    def start(self):
        for thread in self.threads:
            thread.start()
        return self

    def guard(self, role, number):
        try:
            role(number)
        except Exception as error:  # a bug of this suite must not look like a quiet client
            self.fail(f"thread {number} broke: {type(error).__name__} {error}")

    # -- one operation ------------------------------------------------------------------------------

    def run(self, state, fields, budget=None):
        """Until it is answered or the budget ends: (answer or None, why not)."""
        start = time.monotonic()
        last = "never tried"
        while time.monotonic() - start < (budget or self.budget):
            number = random.choice(self.through)
            client = state.setdefault(number, self.world.client(number, self.attempt))
            with self.lock:
                self.attempts += 1
            try:
                status, answer = client.action(fields)
            except Unreachable as error:
                last = f"node {number}: {error}"
                if self.stopping.is_set() and not self.world.serving():
                    break
                time.sleep(0.05)
                continue
            if answer.get("ok") or status == 412:
                took = time.monotonic() - start
                with self.lock:
                    self.operations += 1
                    self.slowest = max(self.slowest, took)
                return answer, None
            error = answer.get("error", {})
            last = f"node {number}: {status} {error.get('code')} {error.get('message')}"
            # 504 is 'unknown': to be asked again with the same request id.
            if status not in (503, 504, 429, 507):
                return None, last
            time.sleep(0.05)
        return None, f"no answer within {budget or self.budget:g} s; last {last}"

    def fail(self, text):
        with self.lock:
            if len(self.failures) < FAILURES_KEPT:
                self.failures.append(text)

    # -- roles --------------------------------------------------------------------------------------

    def write(self, number):
        state, count = {}, 0
        while not self.stopping.is_set():
            key = f"{self.prefix}{number}-{count:06}"
            value = f"{uuid.uuid4().hex}{'x' * self.value_bytes}"
            answer, why = self.run(state, {"action": "KvPut", "keyspace": self.keyspace, "key": key, "value": value,
                                           "request_id": uuid.uuid4().hex, "deadline_ms": DEADLINE_MS})
            with self.lock:
                if answer:
                    self.acknowledged[key] = value
                    self.acks.append(time.monotonic())
                else:
                    self.unknown[key] = value
            if not answer:
                self.fail(f"put {key}: {why}")
            count += 1
            if self.pause:
                time.sleep(self.pause)

    def count(self, _number):
        state, key = {}, f"{self.prefix}-counter"
        while not self.stopping.is_set():
            read, why = self.run(state, {"action": "KvGet", "keyspace": self.keyspace, "key": key,
                                         "read_consistency": "strong", "deadline_ms": DEADLINE_MS})
            if not read:
                self.fail(f"get {key}: {why}")
                continue
            old = read.get("value")
            fields = {"action": "KvCompareAndSet", "keyspace": self.keyspace, "key": key, "value": str(int(old or 0) + 1),
                      "request_id": uuid.uuid4().hex, "deadline_ms": DEADLINE_MS}
            if old is not None:
                fields["expected"] = old
            answer, why = self.run(state, fields)
            with self.lock:
                if answer and answer.get("ok"):
                    self.counted += 1
                elif not answer:
                    self.count_unknown += 1
            if not answer:
                self.fail(f"compare-and-set {key}: {why}")
            time.sleep(self.pause or 0.002)

    def register_write(self, _number):
        state = {}
        while not self.stopping.is_set():
            with self.lock:
                self.register_started += 1
                value = self.register_started
            answer, why = self.run(state, {"action": "KvPut", "keyspace": self.keyspace, "key": f"{self.prefix}-register",
                                           "value": str(value), "request_id": uuid.uuid4().hex, "deadline_ms": DEADLINE_MS})
            if answer:
                with self.lock:
                    self.register_floor = max(self.register_floor, value)
            else:
                self.fail(f"put of the register: {why}")
            time.sleep(self.pause or 0.005)

    def register_read(self, _number):
        state = {}
        while not self.stopping.is_set():
            with self.lock:
                floor = self.register_floor
            answer, why = self.run(state, {"action": "KvGet", "keyspace": self.keyspace, "key": f"{self.prefix}-register",
                                           "read_consistency": "strong", "deadline_ms": DEADLINE_MS})
            if not answer:
                self.fail(f"get of the register: {why}")
                continue
            value = int(answer.get("value") or 0)
            with self.lock:
                ceiling = self.register_started
                self.register_floor = max(self.register_floor, value)
            if value < floor:
                self.fail(f"stale strong read: {value}, but {floor} had been acknowledged or read before; at {answer.get('at')}")
            if value > ceiling:
                self.fail(f"read from nowhere: {value}, but only {ceiling} were begun")
            time.sleep(self.pause or 0.002)

    # -- the end ------------------------------------------------------------------------------------

    def until(self, puts):
        """Lets it go on until so many puts are acknowledged."""
        end = time.monotonic() + START_SECONDS
        while len(self.acknowledged) < puts:
            if time.monotonic() > end:
                raise Problem(f"{len(self.acknowledged)} puts acknowledged after {START_SECONDS:.0f} s, not {puts}; {self.summary()}")
            time.sleep(0.05)
        return self

    def finish(self):
        self.stopping.set()
        if not self.join():
            raise Problem("a client thread did not end; an answer never came")
        return self

    def join(self):
        """Whether every thread has ended."""
        for thread in self.threads:
            if thread.ident is not None:
                thread.join(self.budget + 2 * self.attempt)
        return not any(thread.is_alive() for thread in self.threads)

    def longest_gap(self):
        times = sorted(self.acks)
        return max((b - a for a, b in zip(times, times[1:])), default=0.0)

    def check(self, through=None, errors_allowed=0):
        """Every acknowledged pair is there, the counter is exact, no client saw an error."""
        if len(self.failures) > errors_allowed:
            raise Problem(f"{len(self.failures)} client errors: " + "; ".join(self.failures[:3]))
        state = {}
        self.through = list(through or self.world.nodes)
        self.check_pairs(state)
        read, why = self.run(state, {"action": "KvGet", "keyspace": self.keyspace, "key": f"{self.prefix}-counter",
                                     "read_consistency": "strong"})
        if not read:
            raise Problem(f"the counter cannot be read: {why}")
        value = int(read.get("value") or 0)
        if not self.counted <= value <= self.counted + self.count_unknown:
            raise Problem(f"the counter is {value}; {self.counted} sets were acknowledged, {self.count_unknown} unknown")
        return self

    def check_pairs(self, state):
        stored = self.scan(state)
        lost = [key for key, value in self.acknowledged.items() if stored.get(key) != value]
        if lost:
            seen = stored.get(lost[0], "nothing")[:40]
            raise Problem(f"{len(lost)} of {len(self.acknowledged)} acknowledged writes are lost or wrong, "
                          f"the first {lost[0]}: {seen}")
        for key, value in self.unknown.items():
            if key in stored and stored[key] != value:
                raise Problem(f"{key} holds a value nobody wrote")

    def scan(self, state):
        """All pairs of the writers, by pages; order and doubles are checked on the way."""
        pairs, after = {}, None
        while True:
            fields = {"action": "KvScan", "keyspace": self.keyspace, "prefix": self.prefix, "limit": 1000,
                      "read_consistency": "strong"}
            if after is not None:
                fields["start_after"] = after
            page, why = self.run(state, fields)
            if not page:
                raise Problem(f"the keyspace cannot be listed: {why}")
            entries = page.get("entries") or page.get("items") or []
            for entry in entries:
                key, value = entry["key"], entry.get("value", "")
                if after is not None and key <= after:
                    raise Problem(f"the listing is out of order or doubled: {key} after {after}")
                after = key
                pairs[key] = value
            if not page.get("next"):
                return pairs

    def summary(self):
        return (f"{len(self.acknowledged)} puts and {self.counted} sets acknowledged, "
                f"{self.attempts - self.operations} attempts repeated, slowest {self.slowest:.1f} s")
