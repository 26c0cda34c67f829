"""The page of versioned keyspaces: transactions, history, watches, leases, pins."""
import json

from guide import layout, url

KEYSPACE = "config"


def versions(guide):
    guide.page("versions.md", "Keyspaces that keep every version", """
A keyspace of the kind `versioned` keeps every version of every key until it is compacted. It has transactions, history, watches and leases. Such a keyspace
is one cluster, so all its commits have one order. Each commit that changes something has a `stamp`, a number above the stamps of all earlier commits. The etcd door serves
the same keys; there such a keyspace is a [namespace](../etcd.md), and the stamp is its revision.
""")
    guide.say("## CreateKeyspace of versions\n\n`kind` is `versioned`; `partitions` and `clusters` are 1.")
    guide.show({"action": "CreateKeyspace", "keyspace": KEYSPACE, "kind": "versioned",
                "rule": "size=3 location=world failure_domain=az"})
    guide.say("`KvPut`, `KvGet`, `KvDelete`, `KvBatch`, `KvScan` (forward) and `KvCompareAndSet` work as in any keyspace. "
              "With `at`, a read gives a key as it was at a stamp (0: the newest), and its versions:")
    guide.ask({"action": "KvPut", "keyspace": KEYSPACE, "key": "color", "value": "red"})
    guide.ask({"action": "KvPut", "keyspace": KEYSPACE, "key": "color", "value": "green"})
    newest = guide.show({"action": "KvGet", "keyspace": KEYSPACE, "key": "color", "at": 0})
    guide.show({"action": "KvGet", "keyspace": KEYSPACE, "key": "color", "at": newest["modified"] - 1})
    guide.say("""
- `created`: the stamp of the put that created the key.
- `modified`: the stamp of its last put.
- `version`: the number of puts since the key was created.
- `lease`: the lease that the key is attached to; 0: none.
- `stamp`: the stamp of the keyspace's last commit.
""")
    guide.show({"action": "KvScan", "keyspace": KEYSPACE, "prefix": "c", "at": newest["modified"]})
    transactions(guide, newest)
    history(guide)
    watch(guide)
    leases(guide)
    compaction(guide)
    guide.show({"action": "DeleteKeyspace", "keyspace": KEYSPACE})


def transactions(guide, newest):
    guide.say("""
## KvTransaction

If all `conditions` hold, the cluster carries out `then`, otherwise `else`. This is one commit with one stamp. A condition names keys (`key`, `prefix`, or `start` and `end`)
and compares one thing: `version`, `created`, `modified`, `lease`, `value`, `exists`, or `unchanged_since` (nothing of the keys was put or deleted
after that stamp). `is` is `=` (the default), `!=`, `<` or `>`. Operations are `put`, `delete`, `read` and `transaction`. A key may be changed once in
a commit.
""")
    guide.show({"action": "KvTransaction", "keyspace": KEYSPACE,
                "conditions": [{"key": "color", "modified": newest["modified"]}, {"key": "size", "exists": False}],
                "then": [{"op": "put", "key": "color", "value": "blue", "previous": True}, {"op": "put", "key": "size", "value": "9"}],
                "else": [{"op": "read", "key": "color"}]})
    guide.say("`succeeded` is true if `then` was carried out. The same request again; its conditions no longer hold:")
    guide.show({"action": "KvTransaction", "keyspace": KEYSPACE, "conditions": [{"key": "size", "exists": False}],
                "then": [{"op": "delete", "prefix": "c", "previous": True}], "else": [{"op": "read", "prefix": "", "keys_only": True}]})


def history(guide):
    guide.say("""
## KvHistory

Lists changes of keys in the order of commits, after the position `since` (default: from the oldest change that is kept). With `before`, each change also shows the key's earlier version.
`reached` is the `since` of the next request.
""")
    guide.show({"action": "KvHistory", "keyspace": KEYSPACE, "since": "1", "before": True, "limit": 2})
    guide.say("## KvDescribe\n\nShows the newest stamp, up to which stamp history is compacted, and how much the keyspace holds.")
    guide.show({"action": "KvDescribe", "keyspace": KEYSPACE})
    guide.say("## KvStampAt\n\nGives the last stamp that was committed at or before a time. The time is that of the cluster's clock, as in `time_ms` of a change.")
    guide.show({"action": "KvStampAt", "keyspace": KEYSPACE, "time_ms": 4_102_444_800_000})


def watch(guide):
    import urllib.request
    guide.say("""
## KvWatch

Streams changes when they are committed, one JSON object on each line (`application/x-ndjson`). It begins after the position `since` (default: now) and ends when the client
closes the connection. A line with only `reached` shows that the watch lives, and that all changes up to this position have been sent. After a broken connection, watch again
with the position of the last line: you miss no change and get none twice. If the node ends the watch, the last line is an error, as of any action.
""")
    guide.asked.add("KvWatch")
    body = json.dumps({"action": "KvWatch", "keyspace": KEYSPACE, "prefix": "c", "since": "1"})
    with urllib.request.urlopen(urllib.request.Request(url(2), data=body.encode()), timeout=40) as stream:
        lines = [json.loads(stream.readline()) for _ in range(3)]
    guide.exchanges += 1
    shown = "\n".join(layout(line) for line in lines)
    guide.say(f"```text\n$ curl -sN {url(2)} -d '{body}'\n{shown}\n…\n```")


def leases(guide):
    guide.say("""
## KvLeaseGrant

A lease lives for `ttl_ms` after its last renewal. When it ends, the cluster deletes the keys that were put with it, each once.
""")
    guide.show({"action": "KvLeaseGrant", "keyspace": KEYSPACE, "lease": 4711, "ttl_ms": 60000})
    guide.ask({"action": "KvTransaction", "keyspace": KEYSPACE, "then": [{"op": "put", "key": "up/node-1", "value": "yes", "lease": 4711}]})
    guide.say("## KvLeaseKeepAlive\n\nRenews leases. The answer has the time to live of each; 0: there is no such lease.")
    guide.show({"action": "KvLeaseKeepAlive", "keyspace": KEYSPACE, "leases": [4711, 12]})
    guide.say("## KvLease\n\nShows one lease, and the keys that are attached to it.")
    guide.show({"action": "KvLease", "keyspace": KEYSPACE, "lease": 4711})
    guide.say("## KvLeases\n\nAll leases.")
    guide.show({"action": "KvLeases", "keyspace": KEYSPACE})
    guide.say("## KvLeaseRevoke\n\nEnds a lease and deletes its keys, at most 4,096 in one request. If the answer has `more`, repeat the request.")
    guide.show({"action": "KvLeaseRevoke", "keyspace": KEYSPACE, "lease": 4711})


def compaction(guide):
    guide.say("""
## KvPin

Keeps the state at a stamp (0: the newest) readable for a time, even if a compaction passes it. Repeat the request to renew the pin.
A read below the compaction names the pin: `KvScan` with `at` and `KvHistory` take `pin`. `KvScan` with `at` also takes `modified_min`: only keys
that were put at this stamp or later.
""")
    pinned = guide.show({"action": "KvPin", "keyspace": KEYSPACE, "pin": 1, "keep_ms": 60000})
    guide.say("## KvCompact\n\nFrom now on the cluster refuses reads below the stamp. It removes the history below it in the background.")
    guide.show({"action": "KvCompact", "keyspace": KEYSPACE, "stamp": pinned["stamp"]})
    guide.show({"action": "KvGet", "keyspace": KEYSPACE, "key": "color", "at": 1}, 400)
    guide.say("## KvUnpin\n\nEnds a pin.")
    guide.show({"action": "KvUnpin", "keyspace": KEYSPACE, "pin": 1})
    guide.say("## KvCollect\n\nRemoves compacted history at once. The cluster also does this by itself.")
    guide.show({"action": "KvCollect", "keyspace": KEYSPACE})
