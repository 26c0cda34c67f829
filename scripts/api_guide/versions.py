"""The page of versioned keyspaces: transactions, history, watches, leases, pins."""
import json

from guide import layout, url

KEYSPACE = "config"


def versions(guide):
    guide.page("versions.md", "Keyspaces that keep every version", """
A keyspace of the kind `versioned` keeps every version of every key until it is compacted. It has transactions, history, watches and leases. All of it
is one cluster, so it has one order: each commit that changes something has a `stamp` above all before it. The etcd door serves the same keys;
there such a keyspace is a [namespace](../etcd.md), and the stamp is its revision.
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
- `created`: the stamp at which the key came to be.
- `modified`: the stamp of its last put.
- `version`: how many puts since it came to be.
- `lease`: the lease that it is attached to; 0: none.
- `stamp`: of the last commit of the keyspace.
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

If all `conditions` hold, `then` is done, else `else`. All of it is one commit, at one stamp. A condition names keys (`key`, `prefix`, or `start` and `end`)
and compares one thing: `version`, `created`, `modified`, `lease`, `value`, `exists`, or `unchanged_since` (nothing of the keys was put or deleted
after that stamp). `is` is `=` (the default), `!=`, `<` or `>`. Operations are `put`, `delete`, `read` and `transaction`. A key may be changed once in
a commit.
""")
    guide.show({"action": "KvTransaction", "keyspace": KEYSPACE,
                "conditions": [{"key": "color", "modified": newest["modified"]}, {"key": "size", "exists": False}],
                "then": [{"op": "put", "key": "color", "value": "blue", "previous": True}, {"op": "put", "key": "size", "value": "9"}],
                "else": [{"op": "read", "key": "color"}]})
    guide.say("`succeeded` says which branch was done. The same again, which does not hold any more:")
    guide.show({"action": "KvTransaction", "keyspace": KEYSPACE, "conditions": [{"key": "size", "exists": False}],
                "then": [{"op": "delete", "prefix": "c", "previous": True}], "else": [{"op": "read", "prefix": "", "keys_only": True}]})


def history(guide):
    guide.say("""
## KvHistory

The changes of keys in the order of commits, after the position `since` (default: from the first that is kept). `before` asks for what each key was before.
`reached` is the `since` of the next request.
""")
    guide.show({"action": "KvHistory", "keyspace": KEYSPACE, "since": "1", "before": True, "limit": 2})
    guide.say("## KvDescribe\n\nThe newest stamp, what is compacted, and how much there is.")
    guide.show({"action": "KvDescribe", "keyspace": KEYSPACE})
    guide.say("## KvStampAt\n\nThe last stamp that was committed at a time or before, by the clock of the cluster: the `time_ms` of changes.")
    guide.show({"action": "KvStampAt", "keyspace": KEYSPACE, "time_ms": 4_102_444_800_000})


def watch(guide):
    import urllib.request
    guide.say("""
## KvWatch

Changes as they are made, one JSON object a line (`application/x-ndjson`), after the position `since` (default: from now on), until the client goes away.
A line with `reached` alone says that the watch lives and up to where all was given. After a broken connection, watch again with the last line's position:
nothing is lost and nothing comes twice. What ends a watch is its last line, an error as of any action.
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

A lease lives for `ttl_ms` after its last renewal. Keys that were put with it are deleted when it ends, each once.
""")
    guide.show({"action": "KvLeaseGrant", "keyspace": KEYSPACE, "lease": 4711, "ttl_ms": 60000})
    guide.ask({"action": "KvTransaction", "keyspace": KEYSPACE, "then": [{"op": "put", "key": "up/node-1", "value": "yes", "lease": 4711}]})
    guide.say("## KvLeaseKeepAlive\n\nRenews leases. For each the answer has its time to live; 0: there is no such lease.")
    guide.show({"action": "KvLeaseKeepAlive", "keyspace": KEYSPACE, "leases": [4711, 12]})
    guide.say("## KvLease\n\nOne lease, and the keys that are attached to it.")
    guide.show({"action": "KvLease", "keyspace": KEYSPACE, "lease": 4711})
    guide.say("## KvLeases\n\nAll leases.")
    guide.show({"action": "KvLeases", "keyspace": KEYSPACE})
    guide.say("## KvLeaseRevoke\n\nEnds a lease and deletes its keys, up to 4,096 a request; `more`: repeat it.")
    guide.show({"action": "KvLeaseRevoke", "keyspace": KEYSPACE, "lease": 4711})


def compaction(guide):
    guide.say("""
## KvPin

Keeps what is read at a stamp (0: the newest) for a time, whatever is compacted. Pin it again to renew it.
""")
    pinned = guide.show({"action": "KvPin", "keyspace": KEYSPACE, "pin": 1, "keep_ms": 60000})
    guide.say("## KvCompact\n\nReads below the stamp are refused from now on, and history below it goes, in the background.")
    guide.show({"action": "KvCompact", "keyspace": KEYSPACE, "stamp": pinned["stamp"]})
    guide.show({"action": "KvGet", "keyspace": KEYSPACE, "key": "color", "at": 1}, 400)
    guide.say("## KvUnpin\n\nEnds a pin.")
    guide.show({"action": "KvUnpin", "keyspace": KEYSPACE, "pin": 1})
    guide.say("## KvCollect\n\nRemoves history that nobody reads any more, at once; the cluster does it by itself.")
    guide.show({"action": "KvCollect", "keyspace": KEYSPACE})
