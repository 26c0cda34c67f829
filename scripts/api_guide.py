"""What scripts/api-guide.sh runs: writes docs/guides/api.md with exchanges made while it runs.

Always: nothing shown was written by hand but the prose; an exchange that does not answer with the
status the text says stops the run. Ends only the world it started.
"""
import ctypes
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

import api_guide_s3

HIVE = os.path.abspath(os.environ["HIVE"])
BASE_PORT = int(os.environ.get("API_GUIDE_BASE_PORT", "7000"))
LINE_BYTES = 130
asked = set()
out = []


def url(node, path="/"):
    return f"http://127.0.0.1:{BASE_PORT + 100 + node}{path}"


def fetch(node, path="/", data=None):
    request = urllib.request.Request(url(node, path), data=data)
    try:
        with urllib.request.urlopen(request, timeout=40) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def layout(value, indent=0):
    """JSON on one line where it fits, else one member a line."""
    flat = json.dumps(value, ensure_ascii=False)
    if len(flat) + indent <= LINE_BYTES or not isinstance(value, (dict, list)) or not value:
        return flat
    pad, end = " " * (indent + 2), " " * indent
    if isinstance(value, list):
        return "[\n" + ",\n".join(pad + layout(item, indent + 2) for item in value) + f"\n{end}]"
    rows = [f"{pad}{json.dumps(name)}: {layout(item, indent + 2)}" for name, item in value.items()]
    return "{\n" + ",\n".join(rows) + f"\n{end}}}"


def ask(body, node=1):
    status, answer = fetch(node, data=json.dumps(body).encode())
    return status, json.loads(answer)


def show(body, status=200, node=1, wait=None):
    """Asks and writes down; `wait` repeats until the answer satisfies it."""
    asked.add(body["action"])
    end = time.monotonic() + 30
    got, answer = ask(body, node)
    while wait and not wait(answer) and time.monotonic() < end:
        time.sleep(0.2)
        got, answer = ask(body, node)
    if got != status:
        sys.exit(f"{body} answered {got}, not {status}: {answer}")
    out.append(f"```json\n{layout(body)}\n```\n\n`{got}`\n\n```json\n{layout(answer)}\n```\n")
    return answer


def plain(path, status=200, node=1, posted=None, lines=None):
    got, body = fetch(node, path, posted)
    if got != status:
        sys.exit(f"{path} answered {got}, not {status}: {body}")
    text = body.decode(errors="backslashreplace")
    if lines:
        text = "\n".join(text.splitlines()[:lines]) + "\n…"
    data = f" --data-binary '{posted.decode()}'" if posted else ""
    out.append(f"```text\n$ curl -s{data} '{url(node, path)}'\n{text.rstrip()}\n```\n`{got}`{'' if text.strip() else ', an empty body'}\n")


def say(text):
    out.append(text.strip("\n") + "\n")


def metric_table():
    """Name, kind and meaning of every metric, from /metrics itself."""
    text = fetch(1, "/metrics")[1].decode()
    kinds = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.M))
    helps = dict(re.findall(r"^# HELP (\S+) (.*)$", text, re.M))
    rows = [f"| `{name}{'_total' if kind == 'counter' else ''}` | {kind} | {helps.get(name, '').rstrip('.')} |" for name, kind in kinds.items()]
    return "| metric | kind | meaning |\n|---|---|---|\n" + "\n".join(rows)


def errors_of_source():
    """Every code that the source can give, with the status of its kind; read from the source so that none is missing."""
    status = {"Invalid": 400, "NotFound": 404, "Conflict": 409, "Precondition": 412, "TooLarge": 413, "Overloaded": 429, "Corrupt": 500,
              "Internal": 500, "Unavailable": 503, "Unknown": 504, "Full": 507}
    found = {}
    for directory, _, files in os.walk("crates"):
        for name in files:
            path = os.path.join(directory, name)
            if not name.endswith(".rs") or "test" in path or "proof-" in path:
                continue
            text = open(path).read()
            for kind, code in re.findall(r'ErrorKind::(\w+),\s*"(\w+)"', text):
                found.setdefault(code, set()).add(status[kind])
            for code in re.findall(r'Refusal::invalid\(\s*"(\w+)"', text):
                found.setdefault(code, set()).add(400)
    return found


MEANINGS = {
    "AlreadyAMember": "the node has a replica of this cluster already",
    "EndedLifeKept": "the node keeps data of an ended life of this cluster: discard it (`DiscardEnded`), or name another node",
    "LeaderLives": "`RecoverCluster`: a survivor follows a leader that it is connected to; the cluster serves",
    "LevelZero": "`RecoverCluster`: a region's cluster is recovered through a node of that region",
    "MajorityLives": "`RecoverCluster`: a majority of the voters answers with whole logs; it elects a leader by itself",
    "MemberUp": "`RecoverCluster`: a member did not answer, and the world hears of its node: it is cut off, stuck, or has just died",
    "NewLifeSilent": "`DiscardEnded`: the new life has no leader, so what is kept may be all there is",
    "NoSurvivor": "`RecoverCluster`: no node that answers has a whole log of the cluster's present life",
    "NodeDown": "`DiscardEnded`: the node is down and may come back: start it, or forget it first",
    "NotConfirmed": "`RecoverCluster`: `confirm` is not the cluster's name",
    "NothingKept": "`DiscardEnded`: the node keeps nothing of an ended life of this cluster",
    "SurvivorChanged": "`RecoverCluster`: another survivor than `survivor` is best by now",
    "SurvivorGone": "the replica that was chosen as survivor is no longer on its node",
    "SurvivorUnfit": "the replica that was chosen as survivor cannot begin the new life any more; the message says what it is",
    "TooManyRecoveries": "a cluster was recovered 8 times and data of all its ended lives is kept: discard some",
    "UnknownRecovery": "this life of the cluster was not recovered",
    "BatchCrossesClusters": "the keys of a `KvBatch` live in more than one cluster; a batch is atomic in one only",
    "BucketClosing": "the bucket is being deleted; nodes handle this among themselves",
    "BodyTooLarge": "the body is longer than `limits.body_bytes_max` (4 MiB)",
    "ClusterExists": "a cluster of that name exists",
    "CommittedNotAbsolute": "an absolute write is committed, but a member had not synced it at the deadline; see [Levels](#levels)",
    "CommittedNotInBucket": "an `s3` write is committed, but no bucket had it at the deadline; see [Levels](#levels)",
    "ConditionFailed": "`KvCompareAndSet`: the key has another value than `expected`",
    "Conflict": "something changed meanwhile; read again and retry",
    "CorruptCommand": "a command in a cluster's log cannot be read; call the operator",
    "DeadlineExceeded": "no answer within `deadline_ms`; a read, or a write that was surely not done",
    "DiskFailed": "the node's log could not be written; it takes no writes any more",
    "DiskFull": "the node's disk has less than `limits.disk_free_bytes_min` left",
    "DuplicateField": "a field is given twice",
    "DuplicateNode": "two nodes claim one id",
    "EmptyKey": "a key has at least one byte",
    "ForeignPage": "a page of another site may have caused the request; see [Browsers](#browsers)",
    "Internal": "a bug: report it with the message",
    "InvalidClusterName": "a name is `backend/backend@anything`",
    "InvalidField": "a field has a value of the wrong kind",
    "InvalidKeyspace": "the keyspace's name, partitions, clusters or split keys cannot be",
    "InvalidRequest": "the body is JSON, but no action",
    "InvalidRule": "the rule has a word or a value that cannot be",
    "KeyTooLarge": "a key has at most 1,024 bytes",
    "KeyspaceExists": "a keyspace of that name exists",
    "LimitOutOfRange": "a number or a list is outside its limits",
    "Malformed": "the HTTP request itself is malformed",
    "MalformedJson": "the body is not JSON, or nests too deep",
    "MembershipChangePending": "one change of members at a time: wait for the one under way",
    "MethodNotAllowed": "the route takes another method",
    "MissingField": "a needed field is absent",
    "NoDurableTail": "a write at `s3` on a cluster of which no member that answers keeps it in a bucket; nothing was written",
    "NoLeader": "the cluster has no leader now",
    "NotEqual": "a shard's copy is not equal yet; nodes handle this among themselves",
    "NotAMember": "the node has no replica of this cluster, or no voting one; `DescribeCluster` lists the members",
    "NotFound": "there is no such route, or no such verification",
    "NotLeader": "another node leads; nodes handle this among themselves",
    "NotReady": "not yet: the node has not joined its world (`/ready` tells what is missing), or a keyspace is being created",
    "OutcomeUnknown": "the write may have happened; read, or repeat it with the same `request_id`",
    "Overloaded": "too much is under way on this core: back off and retry",
    "PartitionMoving": "a reshard moves the key's partition; nodes handle this among themselves",
    "PlacementRefused": "the rule cannot be met by the nodes that are up; the message says what is missing",
    "QuorumAtRisk": "the change would leave the cluster without a majority that is up",
    "ReadOnly": "`hive attach` only reads along; ask a node of the world",
    "ReplicaDamaged": "the replica is damaged and is being rebuilt",
    "ReshardRunning": "a reshard of this keyspace is under way; `DescribeKeyspace` tells how far",
    "ShardFrozen": "a bucket's shard is being switched; nodes handle this among themselves",
    "ShuttingDown": "the node is stopping: ask another",
    "SnapshotExpired": "the instant a listing was pinned to is gone; begin the listing anew",
    "SnapshotTooLarge": "the bucket has more shards than one snapshot of a listing may pin; list without `snapshot`",
    "StaleRoute": "a route was out of date; nodes handle this among themselves",
    "Syntax": "a Redis command has wrong arguments",
    "TooManyMembers": "a cluster has at most 15 members",
    "UnknownAction": "there is no action of that name",
    "UnknownBackend": "the cluster has no such backend; its name lists those it has",
    "UnknownCluster": "there is no cluster of that name",
    "UnknownCommand": "the backend has no such command",
    "UnknownEngine": "no node offers that engine",
    "UnknownField": "the action has no such field",
    "UnknownHost": "the `Host` is no name of this node; see [Browsers](#browsers)",
    "UnknownKeyspace": "there is no keyspace of that name",
    "UnknownLevel": "writes know hopeful, eventual, strong, absolute, s3; reads know eventual, strong",
    "UnknownNode": "no node has that id",
    "ValueTooLarge": "a value has at most 1 MiB",
    "WrongGeneration": "the cluster was deleted and created again meanwhile; nodes look it up again by themselves",
    "WrongPartition": "the key's partition has moved; nodes handle this among themselves",
    "WrongShard": "the key's shard has split or merged; nodes handle this among themselves",
    "WouldBlock": "the command waits for data, which the replicated commands do not",
    "WrongType": "the backend's key holds another type",
}


# Statuses that a door or a variable decides, which the search in the source does not see.
ALSO = {"ForeignPage": {403}, "UnknownHost": {403}, "PlacementRefused": {400, 409, 503}, "MethodNotAllowed": {405}, "CommittedNotAbsolute": {504}, "CommittedNotInBucket": {504}, "NoDurableTail": {400}}


def error_table():
    rows = []
    for code, statuses in sorted(errors_of_source().items()):
        statuses = ALSO.get(code, statuses)
        if code not in MEANINGS:
            sys.exit(f"code {code} is in the source and has no meaning in scripts/api_guide.py: add one")
        rows.append(f"| `{code}` | {', '.join(str(s) for s in sorted(statuses))} | {MEANINGS[code]} |")
    return "| code | status | meaning |\n|---|---|---|\n" + "\n".join(rows)


def introduction():
    say("""
# The HTTP JSON API

Written by `scripts/api-guide.sh`, which asks each request below of a five-node world (`hive dev`) and
writes down what it answers. Any node answers any request.

- [A request, an answer, a refusal](#a-request-an-answer-a-refusal) · [Levels](#levels) · [Exactly once](#exactly-once) · [Limits](#limits) · [Browsers](#browsers)
- [Keys and values](#keys-and-values) · [Keyspaces](#keyspaces) · [Objects](#objects) · [Clusters](#clusters) · [Redis commands](#redis-commands) · [The world](#the-world)
- [Plain routes](#plain-routes) · [Error codes](#error-codes)

## A request, an answer, a refusal

There is one route: `POST /` with a JSON object that names its `action`. With curl:
""")
    body = '{"action":"KvPut","key":"greeting","value":"hello"}'
    answer = fetch(1, data=body.encode())[1].decode()
    asked.add("KvPut")
    say(f"```text\n$ curl -s {url(1)} -d '{body}'\n{answer}\n```")
    say("""
Fields every action takes:

| field | meaning |
|---|---|
| `consistency` | the level of a write: `hopeful`, `eventual`, `strong`, `absolute`, `s3`; the cluster's default where absent |
| `read_consistency` | the level of a read: `strong`, `eventual`; the cluster's default where absent |
| `deadline_ms` | how long to wait, 1 to 30,000; 5,000 where absent |
| `request_id` | 1 to 128 bytes of your choice; equal ids apply once |

An answer has `"ok": true`, its result, and where a cluster was asked:

- `at`: where the operation stands in its cluster's one order: the cluster's id, its generation (a cluster
  deleted and created again has a new one), the term and the index of the log entry. Several writes may
  share an entry; `position` is a write's place in it. A read's `at` is the last entry it has seen.
- `level`: the level that was reached, never a lower one than asked for.

A refusal has `"ok": false` and an `error`:
""")
    show({"action": "KvPut", "key": "greeting", "valeu": "hello"}, 400)
    say("""
- `code` is stable, for programs; `message` is for people and says what to do.
- `retryable`: whether the same request may succeed later.
- `outcome`: `not_applied`: the request did nothing and never will. `unknown`: a write may have been
  applied, or may yet be. These are the only two.

Bytes that are no UTF-8 travel as `<field>_base64`, in requests and in answers:
""")
    show({"action": "KvPut", "key_base64": "/wA=", "value_base64": "gIGC"})
    show({"action": "KvGet", "key_base64": "/wA="}, node=4)


def levels():
    say("""
## Levels

All levels of a write are acknowledgements of one log; the order is the same for all.

| level | acknowledged when | after losing the leader |
|---|---|---|
| `hopeful` | it is in the leader's memory | may be lost |
| `eventual` | the leader has synced it | may be lost with the leader's disk, or be overtaken by the next leader |
| `strong` (default) | a majority has synced it and the leader has applied it | kept |
| `absolute` | every member has synced it | kept, even with one disk left |
| `s3` | as `strong`, and a member has it in its bucket | kept, even with every node lost ([engine object](../engines/object.md)) |

| level | a read is answered by | sees |
|---|---|---|
| `strong` (default) | the leader, sure to be it still | every write acknowledged before |
| `eventual` | any member, the nearest first | what that member has applied |
""")
    show({"action": "KvPut", "key": "greeting", "value": "hello", "consistency": "absolute"}, node=2)
    show({"action": "KvGet", "key": "greeting", "read_consistency": "eventual"}, node=5)
    leader = ask({"action": "DescribeCluster", "name": "metadata@ks-default-0"})[1]["cluster"]["leader"]
    victim = 5 if leader != 5 else 4
    say(f"An absolute write while a member is down is committed, but not absolute. At its deadline it says so (node {victim} was killed for this):")
    kill_node(victim)
    show({"action": "KvPut", "key": "greeting", "value": "hello all", "consistency": "absolute", "deadline_ms": 1500, "request_id": "greet-1"}, 504)
    say("""
`committed` tells that the write stands as a strong one, at `at`. Repeating it with its request id applies
nothing twice and waits for the missing member again. Once that is back:
""")
    wait_killed_node()
    show({"action": "KvPut", "key": "greeting", "value": "hello all", "consistency": "absolute", "request_id": "greet-1"})
    say("""
A write at `s3` waits for a member that keeps its replica in a bucket, about `engine.object.lag_ms` (1 s) and a request to the
store. Where no member of the cluster does, nothing is written and it is refused: `NoDurableTail`. If the bucket does not have
it at the deadline, it answers as above with the code `CommittedNotInBucket`; repeated with its request id it waits again.
""")


def exactly_once():
    say("""
## Exactly once

A write that carries a `request_id` applies once, however often and through whichever node it is sent; every
repetition gets the first answer, its `at` included. Send the id of the first attempt again after a timeout
or an `unknown` outcome. Ids are kept at least as long as a request may take (30 s), so use a fresh one for
each write. A request without an id gets one from the node, which covers the node's own retries.
""")
    show({"action": "KvCompareAndSet", "key": "counter", "value": "1", "request_id": "order-4711"})
    show({"action": "KvCompareAndSet", "key": "counter", "value": "1", "request_id": "order-4711"}, node=3)
    say("Without the id the second would be refused, since the key is there now:")
    show({"action": "KvCompareAndSet", "key": "counter", "value": "1"}, 412, node=3)
    say("""
## Limits

A key has 1 to 1,024 bytes, a value up to 1 MiB, a body up to 4 MiB (`limits.body_bytes_max`), a batch up to
1,024 steps, a page up to 10,000 entries or 4 MiB. Bodies that are not whole yet share `limits.unfinished_bytes_max` (256 MiB); where that is used up,
429 `Overloaded`. Beyond `limits.connections_max` connections, 503 to everything but `/health`, `/ready`, `/metrics` and administration. An answer must be
taken: a client that takes none of it for `limits.body_timeout_ms`, or less than 4 KiB a second, is let go.

## Browsers

Programs send what they like. A browser is different: the page of any site can make it send a request to an address that only this machine
or this network reaches. Refused with 403, on `POST /`, `/put`, `/get` and `/clean`, before anything is read:

- `ForeignPage`: the `Origin` is not this door's own address, or `Sec-Fetch-Site` is neither `same-origin` nor `none`, or a browser's GET says
  neither (over plain HTTP to another machine browsers do not say it). No answer allows other origins anything.
- `UnknownHost`: the `Host` is not `localhost`, an IP address, the host of `http.advertise` or `peer.advertise`, or a name of `http.names` in
  `node.toml`: a foreign name may have been pointed at this node. This holds for `/` and `/metrics` too; `/health` and `/ready` answer
  under any name.
""")


def keys_and_values():
    say("""
## Keys and values

Each takes `keyspace` (`default` where absent) or, for a cluster of your own with a `metadata` backend,
`cluster`.

### KvPut

Sets a key.
""")
    show({"action": "KvPut", "keyspace": "default", "key": "fruit/apple", "value": "red"})
    say("### KvGet\n\nReads a key. An absent one is no error.")
    show({"action": "KvGet", "key": "fruit/apple"}, node=3)
    show({"action": "KvGet", "key": "fruit/none"}, node=3)
    say("### KvDelete\n\nRemoves a key and says whether it was there.")
    show({"action": "KvDelete", "key": "fruit/apple"})
    say("""
### KvBatch

Up to 1,024 steps, `put` or `delete`, all or none. All keys must live in one cluster: always so in a
keyspace over one cluster, else the batch is refused with `BatchCrossesClusters`.
""")
    show({"action": "KvBatch", "steps": [
        {"op": "put", "key": "fruit/banana", "value": "yellow"},
        {"op": "put", "key": "fruit/cherry", "value": "red"},
        {"op": "put", "key": "fruit/lime", "value": "green"},
        {"op": "delete", "key": "fruit/apple"}]})
    say("""
### KvScan

Lists keys in order. `prefix`, `start_after` (exclusive) and `end` (exclusive) narrow it; `limit` (1,000
where absent) bounds the page; `reverse` walks down from the end, `start_after` then being the upper bound;
`keys_only` leaves the values out. Where there is more, `next` is the `start_after` of the next page.
""")
    show({"action": "KvScan", "prefix": "fruit/", "limit": 2})
    show({"action": "KvScan", "prefix": "fruit/", "start_after": "fruit/cherry", "keys_only": True}, node=2)
    show({"action": "KvScan", "prefix": "fruit/", "reverse": True, "limit": 1}, node=2)
    say("""
### KvCompareAndSet

Sets a key to `value` (removes it where `value` is absent) if it has the value `expected` (is absent where
`expected` is).
""")
    show({"action": "KvCompareAndSet", "key": "fruit/lime", "expected": "green", "value": "dark green"})
    show({"action": "KvCompareAndSet", "key": "fruit/lime", "expected": "green", "value": "blue"}, 412)


def keyspaces():
    rule = "size=3 location=world failure_domain=region"
    say("""
## Keyspaces

A keyspace spreads keys over a fixed number of virtual partitions, and those over clusters.

### CreateKeyspace

| field | meaning |
|---|---|
| `keyspace` | its name: a-z, 0-9, `-`, `_`, `.` |
| `rule` | where each of its clusters is placed (docs/guides/operations.md) |
| `partition` | `hash` (default): even load; `range`: scans stay in few clusters |
| `partitions` | 16 where absent; fixed for the keyspace's life |
| `clusters` | over how many clusters at first; 1 where absent |
| `split_keys` | range only: the lower bounds of partitions 1…; evenly cut by the first byte where absent |
| `engine` | one the nodes offer: `lmdb`, `redb`, `fjall`, `sqlite`, `memory`; each node's default where absent |
""")
    show({"action": "CreateKeyspace", "keyspace": "users", "partition": "range", "partitions": 4, "clusters": 2, "split_keys": ["g", "n", "t"],
          "rule": rule, "engine": "lmdb"})
    for name in ["anna", "harry", "otto", "zoe"]:
        ask({"action": "KvPut", "keyspace": "users", "key": name, "value": "{}"})
    show({"action": "KvPut", "keyspace": "users", "key": "otto", "value": "{}"}, node=2)
    say("### ListKeyspaces")
    show({"action": "ListKeyspaces"})
    say("### Reshard\n\nSpreads the partitions over another number of clusters while reads and writes go on. Answers at once.")
    show({"action": "Reshard", "keyspace": "users", "clusters": 4})
    say("### DescribeKeyspace\n\nTells partitions and owners; `reshard` is the one under way. After it:")
    show({"action": "DescribeKeyspace", "keyspace": "users"}, node=4, wait=lambda answer: answer["keyspace"]["reshard"] is None)
    say("### DeleteKeyspace\n\nRemoves a keyspace with its clusters and data.")
    show({"action": "DeleteKeyspace", "keyspace": "users"})


def clusters():
    name, rule = "metadata/redis@orders", "size=3 location=fr-par failure_domain=az"
    say("""
## Clusters

A cluster is one Raft group, named `backend/backend@anything`; the backends before the `@` share its log.

### CreateCluster

Places a cluster by its rule, or says why no set of nodes meets it.
""")
    show({"action": "CreateCluster", "name": name, "rule": rule})
    show({"action": "CreateCluster", "name": "redis@far", "rule": "size=3 location=nl-ams failure_domain=az"}, 400)
    say("### ResolveCluster\n\nWhere a cluster is, as the directory says: id, generation, members, and the leader this node last knew.")
    show({"action": "KvPut", "cluster": name, "key": "k", "value": "v"})
    show({"action": "ResolveCluster", "name": name}, node=4)
    say("### DescribeCluster\n\nThe same with the members' progress, asked of the leader; `engine` is what its own replica lies in (others may lie in others, docs/engines).")
    described = show({"action": "DescribeCluster", "name": name}, node=4)
    leader = described["cluster"]["leader"]
    say("""### VerifyCluster

Every member checks every pair its engine holds, at one index, and they are compared. Members that hold the same undamaged
pairs as the majority are `same`; others `differs`, `unclear` (no majority), `damaged` (they mend themselves), `unreadable`, `missed`
(too busy to stand still at an index) or `silent`, and `advice` says what to do. The pairs of a large cluster take longer than
a request may: an answer with `"done": false` comes at the deadline, and the same request with its `run` goes on waiting.
""")
    show({"action": "VerifyCluster", "name": name, "deadline_ms": 20000}, node=5)
    show({"action": "VerifyCluster", "name": name, "run": "0000000000000001"}, 404)
    say("### ListClusters\n\nBy name; `prefix` and `start_after` narrow it, `limit` bounds the page.")
    show({"action": "ListClusters", "prefix": "metadata/", "limit": 10})
    say("### TransferLeader\n\nHands leadership to another member.")
    show({"action": "TransferLeader", "name": name, "node": 1 + leader % 3})
    say("### AddMember\n\nAdds a node's replica: a learner, a snapshot, then a voter. Answers when it votes.")
    show({"action": "AddMember", "name": name, "node": 4, "deadline_ms": 20000})
    say("""### RecoverCluster

What is left of a cluster whose majority is gone for good. Without `confirm` nothing is changed. With the cluster's name as `confirm`, and best with the
`survivor` that the survey named, a new life of the cluster begins on that node ([recover](recover.md)). `held`: nodes whose data of the ended life is kept.
""")
    show({"action": "RecoverCluster", "name": name, "deadline_ms": 20000})
    say("### ListRecoveries\n\nRecoveries of one cluster (`name`), or of all. `state`: `open` until the cluster has as many members as its rule wants, then `whole`.")
    show({"action": "ListRecoveries"})
    say("### DiscardEnded\n\nRemoves what an ended life of a cluster left on a node, for good. Refused until the new life serves.")
    show({"action": "DiscardEnded", "name": name, "node": 3, "deadline_ms": 20000}, status=404)
    say("### RemoveMember")
    show({"action": "RemoveMember", "name": name, "node": 4, "deadline_ms": 20000})
    say("### MoveMember\n\nPuts one replica on another node; without `to` the cluster's rule chooses.")
    show({"action": "MoveMember", "name": name, "from": 3, "to": 4, "deadline_ms": 20000}, status=409)
    say("""### SetEngine

Keeps a cluster (`name`), or all clusters of a keyspace (`keyspace`), in another engine. It answers once that is set; the replicas are then
replaced one by one, and `DescribeCluster` tells those still to come: `"moves": true`, and a warning. Asking again moves nothing twice.
""")
    show({"action": "SetEngine", "name": name, "engine": "btrieve"}, status=400)
    say("### SetDefaultConsistency\n\nThe levels of requests that name none.")
    show({"action": "SetDefaultConsistency", "name": name, "consistency": "strong", "read_consistency": "eventual"})
    say("""
## Redis commands

### Redis

Runs a replicated command of a cluster's `redis` backend. Its reply is Redis's own: a number, a text, `null`,
a list, `"OK"`, or `{"error": …}` for an error of Redis's own kind, which changed nothing. (A door that speaks
the Redis protocol comes later.)
""")
    show({"action": "Redis", "cluster": name, "command": ["HSET", "order:1", "item", "tea", "count", "3"]})
    show({"action": "Redis", "cluster": name, "command": ["HGETALL", "order:1"]}, node=5)
    show({"action": "Redis", "cluster": name, "command": ["INCR", "order:1"]}, node=5)
    say("### DeleteCluster\n\nDeletes a cluster and its data.")
    show({"action": "DeleteCluster", "name": name})
    show({"action": "DescribeCluster", "name": name}, 404)


def world_actions():
    say("""
## The world

### ListNodes

The node map. `score` is load, disk and occupancy; placement takes the lowest first.
""")
    show({"action": "ListNodes"})
    say("### DecommissionNode\n\nEmpties a node: its replicas move to others under their rules; where a rule could not be met it is refused.")
    show({"action": "DecommissionNode", "node": 1, "deadline_ms": 20000}, status=409)
    say("### RecommissionNode")
    show({"action": "RecommissionNode", "node": 1})
    say("### ForgetNode\n\nStrikes a node off the list that is gone for good. Refused while it is up, or a member of any cluster.")
    show({"action": "ForgetNode", "node": 1}, status=409)
    say("### Status\n\nThe world as this node sees it; `warnings` is what an operator should look at.")
    show({"action": "Status"})


def plain_routes():
    say("""
## Plain routes

For shells and health checks. `key`, `value`, `keyspace`, `consistency`, `read_consistency`, `deadline_ms` and
`request_id` go into the query, percent-encoded; `%FF` is one byte. Refusals are the JSON above.

### GET|POST /put
""")
    plain("/put?key=plain&value=hello+world")
    say("A POST without `value` takes its body as the value:")
    plain("/put?key=posted&consistency=absolute", posted=b"any bytes")
    say("### GET /get\n\nThe value's bytes; an empty body where the key is absent, or 404 with `strict=1`.")
    plain("/get?key=plain", node=5)
    plain("/get?key=absent")
    plain("/get?key=absent&strict=1", 404)
    say("### GET /clean\n\nWhat the last reshard of a keyspace moved. There is nothing to clean by hand.")
    plain("/clean?keyspace=default")
    say("### GET /health, /ready, /metrics\n\n`/health`: the process serves. `/ready`: it has joined its world and serves data (503 where not).")
    plain("/health")
    plain("/ready", node=2)
    plain("/metrics", lines=6)
    say("Metrics are in OpenMetrics text, as Prometheus reads it. All of them:")
    say(metric_table())


def errors():
    say("""
## Error codes

| status | kind | what to do |
|---|---|---|
| 400 | the request is wrong | fix it |
| 403 | a page of another site may have caused it | see [Browsers](#browsers) |
| 404 | the thing does not exist | |
| 405 | the method is wrong | |
| 409 | in conflict with what is there | read again, retry |
| 412 | a condition does not hold | read again, retry |
| 413 | too large | |
| 429 | overloaded | back off, retry |
| 500 | damaged, or a bug | call the operator |
| 503 | unavailable | back off, retry |
| 504 | the outcome is unknown, or committed but not absolute | read, or repeat with the same `request_id` |
| 507 | the disk is full | free space |

Every code:
""")
    say(error_table())
    say("The client library and `hive` map them to exit codes: 1 refused, 2 wrong usage, 3 unavailable, 4 outcome unknown.")


def kill_node(node):
    pid = next(each["pid"] for each in json.load(open(ready))["nodes"] if each["id"] == node)
    os.kill(pid, signal.SIGKILL)


def start(data):
    log = open(os.path.join(data, "dev.log"), "wb")
    words = [HIVE, "dev", "--base-port", str(BASE_PORT), "--data", os.path.join(data, "world"), "--ready-file", ready]
    world = subprocess.Popen(words, stdout=log, stderr=log, preexec_fn=lambda: ctypes.CDLL(None).prctl(1, signal.SIGKILL))
    end = time.monotonic() + 100
    while not os.path.exists(ready):
        if world.poll() is not None or time.monotonic() > end:
            sys.exit(open(log.name).read())
        time.sleep(0.1)
    return world


def wait_all_up():
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if all(node["up"] for node in ask({"action": "ListNodes"})[1].get("nodes", [{"up": False}])):
            return
        time.sleep(0.2)
    sys.exit("the killed node did not come back")


def all_actions():
    table = re.search(r"ACTIONS.*?= &\[(.*?)\n\];", open("crates/door-http/src/request.rs").read(), re.S).group(1)
    return set(re.findall(r'\(\s*"([A-Z]\w+)"', table)) | api_guide_s3.names()


def main(path):
    global ready
    data = tempfile.mkdtemp(prefix="hive-api-guide-")
    ready = os.path.join(data, "ready.json")
    world = start(data)
    try:
        introduction()
        levels()
        exactly_once()
        keys_and_values()
        keyspaces()
        api_guide_s3.write(show, say, ask)
        clusters()
        world_actions()
        plain_routes()
        errors()
    finally:
        world.terminate()
        world.wait()
        shutil.rmtree(data, ignore_errors=True)
    missing = all_actions() - asked
    if missing:
        sys.exit(f"actions without an example: {sorted(missing)}")
    with open(path, "w") as file:
        file.write("\n".join(out))
    print(f"{path}: {len(asked)} actions, {sum(part.startswith('```') for part in out)} exchanges")


def wait_killed_node():
    """`hive dev` starts the killed node again after 5 s."""
    time.sleep(6)
    wait_all_up()


main(sys.argv[1])
