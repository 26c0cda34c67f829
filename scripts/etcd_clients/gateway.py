"""The package etcd3gw, unmodified, at the JSON gateway: keys, a transaction, a watch, a lease, a lock."""

import sys
import threading
import time
from urllib.parse import urlparse

import etcd3gw
from etcd3gw.lock import Lock


def clients():
    for endpoint in sys.argv[1:]:
        url = urlparse(endpoint)
        yield etcd3gw.client(host=url.hostname, port=url.port, api_path="/v3/", timeout=20)


def main():
    one, two, three = clients()
    assert one.status()["version"].startswith("3.")
    assert one.put("gw/a", "1") and two.put("gw/b", "2")
    assert three.get("gw/a") == [b"1"]
    assert [(meta["key"], value) for value, meta in two.get_prefix("gw/")] == [(b"gw/a", b"1"), (b"gw/b", b"2")]
    assert one.create("gw/new", "x") and not two.create("gw/new", "y")
    assert one.replace("gw/new", "x", "z") and not three.replace("gw/new", "x", "q")
    assert two.get("gw/new") == [b"z"]
    watched(one, two)
    lease = one.lease(ttl=60)
    assert two.put("gw/leased", "x", lease=lease) and lease.ttl() > 50 and lease.refresh() == 60
    assert lease.keys() == [b"gw/leased"]
    assert lease.revoke() and three.get("gw/leased") == []
    with Lock("gw", ttl=10, client=one):
        assert not Lock("gw", ttl=10, client=two).acquire()
    assert Lock("gw", ttl=10, client=two).acquire()
    assert one.delete("gw/a") and not two.delete("gw/a")
    assert one.delete_prefix("gw/") and three.get_prefix("gw/") == []


def watched(one, two):
    events, cancel = one.watch("gw/watched")
    timer = threading.Timer(20, cancel)
    timer.start()
    time.sleep(0.5)
    two.put("gw/watched", "1")
    two.delete("gw/watched")
    first, second = next(events), next(events)
    timer.cancel()
    cancel()
    assert first["kv"]["value"] == b"1" and second["type"] == "DELETE", (first, second)


main()
