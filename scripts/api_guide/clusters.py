"""The pages about clusters, Redis commands and the world's nodes."""

NAME = "metadata/redis@orders"


def clusters(guide):
    name, rule = NAME, "size=3 location=fr-par failure_domain=az"
    guide.page("clusters.md", "Clusters", """
A cluster is one Raft group. Its name is `backend/backend@anything`. The backends before the `@` share the cluster's log.

## CreateCluster

Places a cluster by its rule, or says why no set of nodes meets the rule.
""")
    guide.show({"action": "CreateCluster", "name": name, "rule": rule})
    guide.show({"action": "CreateCluster", "name": "redis@far", "rule": "size=3 location=nl-ams failure_domain=az"}, 400)
    guide.say("## ResolveCluster\n\nSays where a cluster is, from the directory: its id, generation and members, and the leader that this node last knew.")
    guide.show({"action": "KvPut", "cluster": name, "key": "k", "value": "v"})
    guide.show({"action": "ResolveCluster", "name": name}, node=4)
    guide.say("""
## DescribeCluster

Asks the leader for the same, and for the progress of each member. `engine` is the engine of the leader's replica; other members may use
another one ([engines](../../engines/README.md)).
""")
    described = guide.show({"action": "DescribeCluster", "name": name}, node=4)
    leader = described["cluster"]["leader"]
    guide.say("""
## VerifyCluster

Every member checks every pair that its engine holds, at one index of the log. The leader then compares the members:

| state of a member | meaning |
|---|---|
| `same` | it holds the same undamaged pairs as the majority |
| `differs` | it holds other pairs than the majority |
| `unclear` | there is no majority to compare with |
| `damaged` | some pairs are damaged; the member repairs itself |
| `unreadable` | its engine could not be read |
| `missed` | it was too busy to check at that index |
| `silent` | it did not answer |

`advice` says what to do. A large cluster takes longer than a request may. At the deadline the answer then has `"done": false` and a `run`. Send
the same request with that `run` to continue waiting.
""")
    guide.show({"action": "VerifyCluster", "name": name, "deadline_ms": 20000}, node=5)
    guide.show({"action": "VerifyCluster", "name": name, "run": "0000000000000001"}, 404)
    guide.say("## ListClusters\n\nLists clusters by name. `prefix` and `start_after` narrow the list; `limit` bounds the page.")
    guide.show({"action": "ListClusters", "prefix": "metadata/", "limit": 10})
    guide.say("## TransferLeader\n\nHands leadership to another member.")
    guide.show({"action": "TransferLeader", "name": name, "node": 1 + leader % 3})
    guide.say("## AddMember\n\nAdds a replica on a node. The replica is a learner first, receives a snapshot, and then votes. The action answers when it votes.")
    guide.show({"action": "AddMember", "name": name, "node": 4, "deadline_ms": 20000})
    guide.say("## RemoveMember\n\nRemoves the replica of a node.")
    guide.show({"action": "RemoveMember", "name": name, "node": 4, "deadline_ms": 20000})
    guide.say("## MoveMember\n\nMoves one replica to another node. Without `to` the cluster's rule chooses the node.")
    guide.show({"action": "MoveMember", "name": name, "from": 3, "to": 4, "deadline_ms": 20000}, status=409)
    guide.say("""
## SetEngine

Keeps a cluster (`name`), or all clusters of a keyspace (`keyspace`), in another engine. The action answers as soon as the engine is set. The
cluster then replaces its replicas one by one. Until it has finished, `DescribeCluster` has `"moves": true` and a warning. Repeating the action moves
nothing twice.
""")
    guide.show({"action": "SetEngine", "name": name, "engine": "btrieve"}, status=400)
    guide.say("## SetDefaultConsistency\n\nSets the levels of requests that name none.")
    guide.show({"action": "SetDefaultConsistency", "name": name, "consistency": "strong", "read_consistency": "eventual"})


def redis(guide):
    guide.page("redis.md", "Redis commands", """
## Redis

Runs a replicated command in a `keyspace` of the kind `redis`, in its database 0, or in a `cluster` that has a `redis` backend. The reply is Redis's
own: a number, a text, `null`, a list or `"OK"`. An error of Redis's own kind is `{"error": …}`; the command then changed nothing.

In a keyspace a command needs the rights `read` or `write` on `redis/KEYSPACE/KEY` for each of its keys. Commands without keys (`DBSIZE`, `SCAN`,
`FLUSHDB`, `PUBLISH`) need them on the whole keyspace. A command that writes and shows what was there (`INCR`, `LPOP`, `SET … GET`) needs both. In a
cluster every command needs both on `cluster/NAME`.
""")
    guide.show({"action": "Redis", "keyspace": "redis", "command": ["SET", "hello", "world", "EX", "60"]})
    guide.show({"action": "Redis", "keyspace": "redis", "command": ["GET", "hello"]}, node=5)
    guide.show({"action": "Redis", "cluster": NAME, "command": ["HSET", "order:1", "item", "tea", "count", "3"]})
    guide.show({"action": "Redis", "cluster": NAME, "command": ["HGETALL", "order:1"]}, node=5)
    guide.show({"action": "Redis", "cluster": NAME, "command": ["INCR", "order:1"]}, node=5)
    guide.page("clusters.md")
    guide.say("## DeleteCluster\n\nDeletes a cluster and its data.")
    guide.show({"action": "DeleteCluster", "name": NAME})
    guide.show({"action": "DescribeCluster", "name": NAME}, 404)


def world_actions(guide):
    guide.page("world.md", "The world", """
## ListNodes

Lists the nodes of the world. `score` combines load, disk and the number of replicas; placement takes the lowest score first.
""")
    guide.show({"action": "ListNodes"})
    guide.say("## DrainNode\n\nThe asked node hands over all that it leads, so that it can be restarted; `\"drained\": false` ends that. Repeat it until `hand_overs_due`, the clusters that other members have yet to take over, is 0. It is `null` while they are counted. Another node refuses (`OtherNode`). See [Restarting a node](../operations/nodes.md#restarting-a-node).")
    guide.show({"action": "DrainNode", "node": 1, "drained": True})
    guide.show({"action": "DrainNode", "node": 1, "drained": False})
    guide.show({"action": "DrainNode", "node": 2}, status=400)
    guide.say("## DecommissionNode\n\nEmpties a node: its replicas move to other nodes by their rules. The action is refused if a rule could not be met without the node.")
    guide.show({"action": "DecommissionNode", "node": 1, "deadline_ms": 20000}, status=409)
    guide.say("## RecommissionNode\n\nTakes a node back into service.")
    guide.show({"action": "RecommissionNode", "node": 1})
    guide.say("## ForgetNode\n\nRemoves a node that is gone for good from the list. The action is refused while the node is up, or while it is a member of a cluster.")
    guide.show({"action": "ForgetNode", "node": 1}, status=409)
    guide.say("""
## UpgradeStatus

Shows which formats the world writes, and which nodes are not ready for newer ones. [Upgrades](../operations/upgrade.md) shows the whole procedure.

| field | meaning |
|---|---|
| `format_level` | the world's format level |
| `target` | the greatest level that the asked node serves |
| `nodes` | each node's version, the greatest level that it serves, and whether it is up |
| `blockers` | why the world cannot be raised to `target` yet, one sentence for each node |
""")
    guide.show({"action": "UpgradeStatus"})
    guide.say("## FinalizeUpgrade\n\nRaises the world to the greatest format level that the asked node serves. Older versions cannot come back afterwards. The answer is that of\nUpgradeStatus. The action is refused with `Conflict` while a node on the list is unreachable or does not serve the level. The message names\neach such node and what to do. If the world already has the level, nothing changes.")
    guide.show({"action": "FinalizeUpgrade"})
    guide.say("""
## Status

Shows the world as this node sees it.

| field | meaning |
|---|---|
| `not_ready` | why this node can do none of its work |
| `degraded` | what this node cannot do although it is ready |
| `warnings` | what an operator should look at |
""")
    guide.show({"action": "Status"})
