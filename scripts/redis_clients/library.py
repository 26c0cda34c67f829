"""Cases of redis-py, unmodified, at a world of Hive: each connection through another node. Imported by main.py."""

import threading
import time

import redis

CALL_TIMEOUT_S = 15


def check(holds, *shown):
    if not holds:
        raise AssertionError(" ".join(str(part) for part in shown))


def clients(ports, **more):
    return [redis.Redis(port=port, decode_responses=True, socket_timeout=CALL_TIMEOUT_S, **more) for port in ports]


def raises(word, run):
    try:
        run()
    except redis.RedisError as error:
        check(word in str(error), error)
        return
    raise AssertionError(f"no error with {word!r}")


def strings(one, two, three):
    check(one.set("py:s", "v", nx=True) is True and two.set("py:s", "w", nx=True) is None)
    check(three.set("py:s", "x", get=True) == "v" and two.get("py:s") == "x")
    check([client.incrby("py:n", 3) for client in (one, two, three)] == [3, 6, 9])
    check(two.append("py:s", "yz") == 3 and one.getrange("py:s", 1, 2) == "yz" and three.strlen("py:s") == 3)
    raises("not an integer", lambda: one.incr("py:s"))
    raises("WRONGTYPE", lambda: two.lpush("py:s", 1))
    one.mset({"py:m1": "1", "py:m2": "2"})
    check(two.mget("py:m1", "py:none", "py:m2") == ["1", None, "2"] and three.delete("py:m1", "py:m2", "py:none") == 2)


def times(one, two, three):
    one.set("py:ttl", "v", px=1500)
    check(0 < two.pttl("py:ttl") <= 1500 and two.ttl("py:n") == -1 and two.ttl("py:none") == -2)
    two.set("py:kept", "v", ex=100)
    check(three.persist("py:kept") == 1 and one.ttl("py:kept") == -1)
    one.set("py:dated", "v", exat=int(time.time()) + 100)
    check(95 <= two.ttl("py:dated") <= 100, two.ttl("py:dated"))
    until = time.monotonic() + 10
    while one.get("py:ttl") and time.monotonic() < until:
        time.sleep(0.1)
    check([client.exists("py:ttl") for client in (one, two, three)] == [0, 0, 0], "a key did not expire")


def collections(one, two, three):
    check(one.hset("py:h", mapping={"a": 1, "b": 2}) == 2 and two.hgetall("py:h") == {"a": "1", "b": "2"})
    check(three.hincrby("py:h", "a", 4) == 5 and one.hdel("py:h", "b", "c") == 1 and two.hlen("py:h") == 1)
    check(one.rpush("py:l", *range(5)) == 5 and two.lrange("py:l", 1, -2) == ["1", "2", "3"])
    check(three.lpop("py:l", 2) == ["0", "1"] and two.lmove("py:l", "py:l2", "RIGHT", "LEFT") == "4" and one.llen("py:l") == 2)
    check(one.sadd("py:a", 1, 2, 3) == 3 and two.sadd("py:b", 2, 3, 4) == 3)
    check(three.sinter("py:a", "py:b") == {"2", "3"} and one.sunionstore("py:c", "py:a", "py:b") == 4)
    check(one.zadd("py:z", {"a": 1, "b": 2.5, "c": 3}) == 3)
    check(two.zrange("py:z", 0, -1, withscores=True) == [("a", 1.0), ("b", 2.5), ("c", 3.0)])
    check(three.zincrby("py:z", 5, "a") == 6.0 and one.zrevrangebyscore("py:z", "+inf", "(2.5") == ["a", "c"] and two.zrank("py:z", "a") == 2)


def streams(one, two, three):
    ids = [client.xadd("py:x", {"n": n}) for n, client in enumerate((one, two, three))]
    check(ids == sorted(ids) and two.xlen("py:x") == 3 and [found for found, _ in one.xrange("py:x")] == ids)
    check(one.xgroup_create("py:x", "g", id="0"))
    first = two.xreadgroup("g", "c1", {"py:x": ">"}, count=2)
    rest = three.xreadgroup("g", "c2", {"py:x": ">"})
    check([found for found, _ in first[0][1]] == ids[:2] and [found for found, _ in rest[0][1]] == ids[2:], first, rest)
    check(one.xpending("py:x", "g")["pending"] == 3 and two.xack("py:x", "g", *ids) == 3 and one.xpending("py:x", "g")["pending"] == 0)


def transactions(one, two, three):
    with one.pipeline() as pipe:
        pipe.set("py:t", 1).incr("py:t").lpush("py:t", "x").get("py:t")
        done = pipe.execute(raise_on_error=False)
    check(done[:2] == [True, 2] and isinstance(done[2], redis.ResponseError) and done[3] == "2", done)
    with two.pipeline() as pipe:
        pipe.watch("py:t")
        three.set("py:t", "changed")
        pipe.multi()
        pipe.set("py:t", "lost")
        try:
            pipe.execute()
            raise AssertionError("a transaction was done although a watched key had changed")
        except redis.WatchError:
            pass
    check(one.get("py:t") == "changed")


def blocking(one, two, three):
    """A client that waits at one node takes what another pushes at another node."""
    taken = []
    waiting = threading.Thread(target=lambda: taken.append(one.blpop(["py:q1", "py:q2"], timeout=10)))
    begun = time.monotonic()
    waiting.start()
    time.sleep(0.7)
    check(not taken, "a client did not wait", taken)
    two.rpush("py:q2", "job")
    waiting.join(CALL_TIMEOUT_S)
    took = time.monotonic() - begun
    check(taken == [("py:q2", "job")] and took < 5 and three.llen("py:q2") == 0, taken, took)
    begun = time.monotonic()
    check(three.blpop("py:q1", timeout=1) is None and 0.9 <= time.monotonic() - begun < 4)


def subscriptions(one, two, three):
    heard = one.pubsub()
    heard.subscribe("py:channel")
    heard.psubscribe("py:pat*")
    kinds = [heard.get_message(timeout=CALL_TIMEOUT_S)["type"] for _ in range(2)]
    check(kinds == ["subscribe", "psubscribe"], kinds)
    two.publish("py:channel", "by two")
    three.publish("py:pattern", "by three")
    messages = []
    until = time.monotonic() + CALL_TIMEOUT_S
    while len(messages) < 2 and time.monotonic() < until:
        message = heard.get_message(timeout=1)
        if message:
            messages.append((message["type"], message["channel"], message["data"]))
    heard.close()
    check(messages == [("message", "py:channel", "by two"), ("pmessage", "py:pattern", "by three")], messages)


def scripts(one, two, three):
    text = "redis.call('SET', KEYS[1], ARGV[1]); return {redis.call('GET', KEYS[1]), #KEYS, 7}"
    check(one.eval(text, 1, "py:e", "v") == ["v", 1, 7] and two.get("py:e") == "v")
    digest = two.script_load("return tonumber(ARGV[1]) + 1")
    check(two.evalsha(digest, 0, 41) == 42)
    raises("py-error", lambda: three.eval("return redis.error_reply('py-error happened')", 0))
    # What a script has done before its error stays undone, or was done: never half seen by a reader between.
    raises("WRONGTYPE", lambda: one.eval("redis.call('SET', KEYS[1], 'x'); return redis.call('LPUSH', KEYS[1], 'y')", 1, "py:e2"))


def scans(one, two, three):
    names = {f"py:scan:{n}" for n in range(250)}
    with one.pipeline(transaction=False) as pipe:
        for name in names:
            pipe.set(name, "v")
        pipe.execute()
    check(set(two.scan_iter(match="py:scan:*", count=50)) == names)
    three.sadd("py:scanned", *range(300))
    check({int(member) for member in one.sscan_iter("py:scanned")} == set(range(300)))
    check(three.type("py:scanned") == "set" and sorted(two.scan_iter(match="py:*", _type="zset")) == ["py:z"])


def databases(one, two, three, other):
    one.set("py:db", "zero")
    other.set("py:db", "three")
    check(two.get("py:db") == "zero" and other.get("py:db") == "three" and other.dbsize() == 1)
    other.flushdb()
    check(other.dbsize() == 0 and three.get("py:db") == "zero")


def resp3(port):
    client = redis.Redis(port=port, decode_responses=True, protocol=3, socket_timeout=CALL_TIMEOUT_S)
    client.zadd("py:3", {"a": 1.5})
    check(client.zrange("py:3", 0, -1, withscores=True) == [["a", 1.5]], client.zrange("py:3", 0, -1, withscores=True))
    check(client.execute_command("HELLO")["proto"] == 3)


CASES = [
    ("strings and counters", strings), ("times to live", times), ("hashes, lists, sets, sorted sets", collections), ("streams and groups", streams),
    ("MULTI, EXEC, WATCH", transactions), ("a blocking pop across two nodes", blocking), ("messages across nodes", subscriptions),
    ("scripts", scripts), ("SCAN and its kin", scans),
]
