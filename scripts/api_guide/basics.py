"""The pages that are not about clusters or S3: the index, levels, retries, limits, keys, keyspaces, routes, metrics."""
import re

from guide import RESTART_SECONDS, fetch, url
import time


def index(guide):
    guide.page("README.md", "The HTTP JSON API", """
There is one route: `POST /` with a JSON object that names its `action`. Any node answers any request.
`scripts/api-guide.sh` writes these pages: it sends every request below to a world of five nodes (`hive dev`) and writes down the answer.

This page says how requests and answers look, how [deadlines](#deadlines) work, and what the [levels](#levels) mean. The other pages:

{{pages}}
- [Error codes](errors.md)
""")
    guide.say("## A request, an answer, a refusal\n\nWith curl:")
    body = '{"action":"KvPut","key":"greeting","value":"hello"}'
    answer = fetch(1, data=body.encode())[1].decode()
    guide.asked.add("KvPut")
    guide.exchanges += 1
    guide.say(f"```text\n$ curl -s {url(1)} -d '{body}'\n{answer}\n```")
    guide.include("fields.md")
    guide.show({"action": "KvPut", "key": "greeting", "valeu": "hello"}, 400)
    guide.include("refusals.md")
    guide.show({"action": "KvPut", "key_base64": "/wA=", "value_base64": "gIGC"})
    guide.include("deadlines.md")


def levels(guide, world):
    guide.include("levels.md")
    guide.show({"action": "KvPut", "key": "greeting", "value": "hello", "consistency": "absolute"}, node=2)
    guide.show({"action": "KvGet", "key": "greeting", "read_consistency": "eventual"}, node=5)
    leader = guide.ask({"action": "DescribeCluster", "name": "metadata@ks-default-0"})[1]["cluster"]["leader"]
    victim = 5 if leader != 5 else 4
    guide.say(f"While a member is down, an absolute write is committed but cannot become absolute. Here node {victim} was killed. "
              "At its deadline the write says so:")
    world.kill(victim)
    put = {"action": "KvPut", "key": "greeting", "value": "hello all", "consistency": "absolute"}
    guide.show({**put, "deadline_ms": 1500, "request_id": "greet-1"}, 504)
    guide.say("""
`committed` means that the write is a strong one, at `at`, and will not be undone. Repeat the write with its `request_id`: nothing is applied twice, and the
node waits for the missing member again. After that member is back:
""")
    time.sleep(RESTART_SECONDS)
    world.wait_all_up(guide)
    guide.show({**put, "request_id": "greet-1"})
    guide.include("levels-s3.md")


def retries(guide):
    guide.page("retries.md", "Retries and sessions")
    guide.include("exactly-once.md")
    put = {"action": "KvCompareAndSet", "key": "counter", "value": "1"}
    guide.say("The same write twice, through two nodes; both answers are the first one's:")
    guide.show({**put, "request_id": "order-4711"})
    at = guide.show({**put, "request_id": "order-4711"}, node=3)["at"]
    guide.say("Without the id the cluster refuses the second write, because the key exists now:")
    guide.show(put, 412, node=3)
    guide.include("sessions.md")
    after = f"{at['id']}.{at['generation']}.{at['index']}"
    guide.show({"action": "KvGet", "key": "counter", "read_consistency": "eventual", "after": after}, node=4)
    guide.include("sessions-end.md")


def limits(guide):
    guide.page("limits.md")
    guide.include("limits.md")


def keys(guide):
    guide.page("keys.md", "Keys and values", """
Every action here takes `keyspace` (default: `default`). For a cluster of your own that has a `metadata` backend, give `cluster` instead.

## KvPut

Sets a key.
""")
    guide.show({"action": "KvPut", "keyspace": "default", "key": "fruit/apple", "value": "red"})
    guide.say("## KvGet\n\nReads a key. An absent key is not an error: `found` is false.")
    guide.show({"action": "KvGet", "key": "fruit/apple"}, node=3)
    guide.show({"action": "KvGet", "key": "fruit/none"}, node=3)
    guide.say("## KvDelete\n\nRemoves a key and says whether the key existed.")
    guide.show({"action": "KvDelete", "key": "fruit/apple"})
    guide.say("""
## KvBatch

Carries out up to 1,024 steps, all or none. A step is `put` or `delete`. All keys must live in one cluster. In a keyspace over one cluster they
always do; otherwise the node refuses the batch with `BatchCrossesClusters`.
""")
    guide.show({"action": "KvBatch", "steps": [
        {"op": "put", "key": "fruit/banana", "value": "yellow"},
        {"op": "put", "key": "fruit/cherry", "value": "red"},
        {"op": "put", "key": "fruit/lime", "value": "green"},
        {"op": "delete", "key": "fruit/apple"}]})
    guide.say("""
## KvScan

Lists keys in order.

| field | meaning |
|---|---|
| `prefix` | only keys that begin so |
| `start_after` | only keys after this one |
| `end` | only keys before this one |
| `limit` | the longest page. Default: 1,000 |
| `reverse` | from the last key down; `start_after` is then the upper bound |
| `keys_only` | leaves the values out |

If there is more, the answer has `next`. Send it as the `start_after` of the next page.
""")
    guide.show({"action": "KvScan", "prefix": "fruit/", "limit": 2})
    guide.show({"action": "KvScan", "prefix": "fruit/", "start_after": "fruit/cherry", "keys_only": True}, node=2)
    guide.show({"action": "KvScan", "prefix": "fruit/", "reverse": True, "limit": 1}, node=2)
    guide.say("""
## KvCompareAndSet

Sets a key to `value` if it has the value `expected`. Without `expected` the key must be absent. Without `value` the key is removed.
""")
    guide.show({"action": "KvCompareAndSet", "key": "fruit/lime", "expected": "green", "value": "dark green"})
    guide.show({"action": "KvCompareAndSet", "key": "fruit/lime", "expected": "green", "value": "blue"}, 412)


def keyspaces(guide):
    guide.page("keyspaces.md", "Keyspaces", """
A keyspace divides its keys into a fixed number of virtual partitions, and spreads the partitions over clusters.

## CreateKeyspace

| field | meaning |
|---|---|
| `keyspace` | the name: a-z, 0-9, `-`, `_`, `.` |
| `rule` | where each cluster of the keyspace is placed ([rules](../operations/clusters.md#rules)) |
| `partition` | `hash` (default) spreads the load evenly; with `range` a scan stays in few clusters |
| `partitions` | how many partitions; they can never be changed. Default: 16 |
| `clusters` | over how many clusters at first. Default: 1 |
| `split_keys` | `range` only: the lower bounds of the partitions after the first. Default: an even division by the first byte |
| `engine` | an engine that the nodes offer (`hive --version --engines` on a node lists its own; [engines](../../engines/README.md)). Default: each node's own |
""")
    guide.show({"action": "CreateKeyspace", "keyspace": "users", "partition": "range", "partitions": 4, "clusters": 2,
                "split_keys": ["g", "n", "t"], "rule": "size=3 location=world failure_domain=region", "engine": "lmdb"})
    for name in ["anna", "harry", "otto", "zoe"]:
        guide.ask({"action": "KvPut", "keyspace": "users", "key": name, "value": "{}"})
    guide.show({"action": "KvPut", "keyspace": "users", "key": "otto", "value": "{}"}, node=2)
    guide.say("## ListKeyspaces")
    guide.show({"action": "ListKeyspaces"})
    guide.say("""
## Reshard

Spreads the partitions over another number of clusters. Reads and writes continue meanwhile. The action answers at once.
""")
    guide.show({"action": "Reshard", "keyspace": "users", "clusters": 4})
    guide.say("## DescribeKeyspace\n\nShows which cluster owns each partition. `reshard` is the reshard under way. After the reshard above:")
    done = lambda answer: answer["keyspace"]["reshard"] is None
    guide.show({"action": "DescribeKeyspace", "keyspace": "users"}, node=4, wait=done)
    guide.say("## DeleteKeyspace\n\nDeletes a keyspace with its clusters and data.")
    guide.show({"action": "DeleteKeyspace", "keyspace": "users"})


def plain_routes(guide):
    guide.page("routes.md", "Plain routes", """
These routes are for shells and health checks. The query takes `key`, `value`, `keyspace`, `consistency`, `read_consistency`, `deadline_ms` and
`request_id`, percent-encoded; `%FF` is one byte. A refusal is the same JSON as for `POST /`.

## GET|POST /put
""")
    guide.plain("/put?key=plain&value=hello+world")
    guide.say("A POST without `value` takes its body as the value:")
    guide.plain("/put?key=posted&consistency=absolute", posted=b"any bytes")
    guide.say("## GET /get\n\nAnswers the bytes of the value. If the key is absent, the body is empty; with `strict=1` the status is then 404.")
    guide.plain("/get?key=plain", node=5)
    guide.plain("/get?key=absent")
    guide.plain("/get?key=absent&strict=1", 404)
    guide.say("""
## GET /clean

Carries on with the reshard of a keyspace that is unfinished: moves what is left, and removes from the old owners what was moved. The answer comes when that is done, or
at the deadline (`deadline_ms`, 5 s) with `"resharding":true`; the work continues, and the next `/clean` says how far it is. If no reshard is unfinished, nothing is left to
remove, and the answer says what the last one moved. Nobody has to call it: a reshard whose node died is taken up by another. Who may inspect the keyspace but not
configure it waits for the reshard, and does not start it again.
""")
    guide.plain("/clean?keyspace=default")
    guide.say("## GET /health\n\nAnswers 200 while the process lives. It looks at nothing else.")
    guide.plain("/health")
    guide.say("""
## GET /ready

- 200: this node can do some of its work. `degraded` lists what it cannot do.
- 503: this node can do none of its work. `not_ready` says why.

Both become true within two election timeouts. If only the world's or a region's cluster has lost its majority, the answer stays 200.
""")
    guide.plain("/ready", node=2)
    guide.say("## GET /metrics\n\nMetrics in OpenMetrics text. [All metrics](metrics.md)")
    guide.plain("/metrics", lines=6)
    guide.say("""
## GET /alarms

What is wrong, as this node knows it, the worst first, and what to do about each. `severity` is `bad` (somebody should act now) or `warn`. `id` stays the same while
texts may change; `runbook` is a section of the [runbook](../operations/alerts.md). The caller needs the right to ask for `Status` and `ListNodes`.
""")
    guide.plain("/alarms", node=2)


def metrics(guide):
    guide.page("metrics.md", "Metrics")
    guide.include("metrics.md")
    text = fetch(1, "/metrics")[1].decode()
    kinds = re.findall(r"^# TYPE (\S+) (\S+)$", text, re.M)
    helps = dict(re.findall(r"^# HELP (\S+) (.*)$", text, re.M))
    rows = []
    for name, kind in kinds:
        sample = re.search(rf"^{name}(?:_total|_count)?\{{(.*)\}} ", text, re.M)
        labels = [label for label in re.findall(r'(\w+)="', sample.group(1)) if label != "le"] if sample else []
        shown = f"{name}{'_total' if kind == 'counter' else ''}" + (f"{{{', '.join(labels)}}}" if labels else "")
        rows.append(f"| `{shown}` | {kind} | {helps.get(name, '').rstrip('.')} |")
    guide.say("| metric | kind | meaning |\n|---|---|---|\n" + "\n".join(rows))
