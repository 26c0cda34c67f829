"""What only a world of nodes can show: every node is a way in, and one that dies takes nothing along."""

import base64
import concurrent.futures
import hashlib
import http.client
import itertools
import json
import os
import secrets
import subprocess
import threading
import time
import urllib.request

import boto3
import botocore.exceptions

import dev
from shapes import MIB, fetch, keys, with_header
from cases_tools import aws_env, rclone_env, run, same
from world import case, equal, refused

# Fewer on a machine that is busy with other things.
LISTED_KEYS = int(os.environ.get("S3_LISTED_KEYS", "20000"))
PATIENCE_S = 60
# Clients that load: many, for writes of one moment share one entry of the log.
LOADERS = 20


class Json:
    """The HTTP JSON API over one kept connection; what is told to be temporary is asked again, of another node."""

    def __init__(self, w, number):
        self.w, self.number, self.connection = w, number, None

    def ask(self, action, **fields):
        fields = {"action": action, "request_id": secrets.token_hex(16), **fields}
        patience = time.monotonic() + PATIENCE_S
        while True:
            try:
                if self.connection is None:
                    host = self.w.nodes.http(self.number).split("://")[1]
                    self.connection = http.client.HTTPConnection(host, timeout=30)
                self.connection.request("POST", "/", body=json.dumps(fields))
                answer = json.loads(self.connection.getresponse().read())
            except (OSError, http.client.HTTPException, json.JSONDecodeError) as error:
                self.connection, self.number = None, self.number + 1
                answer = {"ok": False, "error": {"code": str(error), "retryable": True}}
            if answer["ok"] or not answer["error"]["retryable"] or time.monotonic() > patience:
                return answer
            time.sleep(0.05)

    def done(self, action, **fields):
        answer = self.ask(action, **fields)
        assert answer["ok"], f"{action} {fields}: {answer}"
        return answer


def patient(function, *arguments, **named):
    """Again while it is told to be temporary."""
    patience = time.monotonic() + PATIENCE_S
    while True:
        try:
            return function(*arguments, **named)
        except (botocore.exceptions.ClientError, botocore.exceptions.BotoCoreError) as error:
            status = getattr(error, "response", {}).get("ResponseMetadata", {}).get("HTTPStatusCode", 500)
            if status < 500 or time.monotonic() > patience:
                raise
        time.sleep(0.2)


@case("boto3")
def every_node_is_a_way_in(w):
    """What one node takes all others give back, small and large, by S3 and by JSON."""
    name = w.bucket()
    clients = [w.client(w.key, w.secret, at=number) for number in range(5)]
    bodies = {f"{size}-{number}": os.urandom(size) for number in range(5) for size in (10, 200_000)}
    for at, (key, body) in enumerate(bodies.items()):
        clients[at % 5].put_object(Bucket=name, Key=key, Body=body)
    for client in clients:
        equal(keys(client.list_objects_v2(Bucket=name)), sorted(bodies))
        for key, body in bodies.items():
            equal(client.get_object(Bucket=name, Key=key)["Body"].read(), body)
    door = Json(w, 3)
    put = door.done("PutObject", bucket=name, key="json", body_base64=base64.b64encode(b"by json").decode())
    equal(put["etag"], hashlib.md5(b"by json").hexdigest())
    equal(clients[1].get_object(Bucket=name, Key="json")["Body"].read(), b"by json")
    clients[2].put_object(Bucket=name, Key="by s3", Body=b"hello")
    got = door.done("GetObject", bucket=name, key="by s3")
    equal(base64.b64decode(got["body_base64"]), b"hello")
    count = door.done("CountObjects", bucket=name)
    equal((count["keys"], count["versions"]), (12, 12))
    equal(door.ask("GetObject", bucket=name, key="none")["error"]["code"], "NoSuchKey")


@case("boto3")
def the_local_worlds_own_key(w):
    """The account that `hive dev` makes works, and `hive ctl` shows what it has."""
    own = w.nodes.ready["s3"]
    client = boto3.client("s3", endpoint_url=w.at(4), aws_access_key_id=own["access_key"],
                          aws_secret_access_key=own["secret_key"], region_name=own["region"])
    name = w.name()
    client.create_bucket(Bucket=name)
    for number in range(7):
        client.put_object(Bucket=name, Key=f"k{number}", Body=b"12345")
    assert name in w.nodes.ctl("bucket", "list", own["account"])
    count = json.loads(w.nodes.ctl("bucket", "count", name, "--json"))
    equal((count["keys"], count["versions"], count["bytes"]), (7, 7, 35))
    assert own["account"] in w.nodes.ctl("bucket", "describe", name)
    equal(own["access_key"] in w.nodes.ctl("s3", "key", "list", own["account"]), True)


def real_tree(w, name):
    """A copy of this project's own documents and sources, and the files in it."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    up, files = os.path.join(w.folder, name), []
    for part in ("docs", "crates/base-types", "crates/door-s3", "scripts"):
        subprocess.run(["mkdir", "-p", os.path.join(up, part)], check=True)
        subprocess.run(["cp", "-r", os.path.join(root, part) + "/.", os.path.join(up, part)], check=True)
    for folder, _, names in os.walk(up):
        files += [os.path.relpath(os.path.join(folder, file), up) for file in names]
    assert len(files) > 100, len(files)
    return up, files


@case("rclone", "PutObject", "GetObject", "HeadObject", "ListObjectsV2", "DeleteObject")
def a_real_tree_by_rclone(w):
    """Up by one node and down by another; a folder that goes here goes there."""
    up, files = real_tree(w, "rclone-real-up")
    down, name = os.path.join(w.folder, "rclone-real-down"), w.name()
    rclone = lambda node, *words: run(["rclone", "--retries", "1", *words], rclone_env(w, node))
    rclone(0, "mkdir", f"hive:{name}")
    rclone(0, "sync", up, f"hive:{name}/tree")
    rclone(3, "check", "--download", up, f"hive:{name}/tree")
    rclone(3, "sync", f"hive:{name}/tree", down)
    same(up, down, files)
    subprocess.run(["rm", "-r", os.path.join(down, "docs")], check=True)
    rclone(3, "sync", down, f"hive:{name}/tree")
    left = [file for file in files if not file.startswith("docs/")]
    equal(sorted(rclone(4, "lsf", "-R", "--files-only", f"hive:{name}/tree").splitlines()), sorted(left))


@case("aws", "PutObject", "GetObject", "ListObjectsV2")
def a_real_tree_up_and_down(w):
    """Up by one node and down by another."""
    up, files = real_tree(w, "real-up")
    down, name = os.path.join(w.folder, "real-down"), w.name()
    one, other = aws_env(w), {**aws_env(w), "AWS_ENDPOINT_URL": w.at(1)}
    run(["aws", "s3", "mb", f"s3://{name}"], one)
    run(["aws", "s3", "sync", "--no-progress", up, f"s3://{name}/tree"], one)
    run(["aws", "s3", "sync", "--no-progress", f"s3://{name}/tree", down], other)
    same(up, down, files)
    equal(run(["aws", "s3", "sync", "--no-progress", "--delete", down, f"s3://{name}/tree"], other).strip(), "")


@case("boto3")
def data_in_another_store(w):
    """A second world keeps its objects' data in a bucket of the first: any S3 will do, this one too."""
    store, folder = w.bucket(), os.path.join(w.folder, "second")
    os.makedirs(folder)
    env = {"AWS_ENDPOINT": w.at(0), "AWS_ALLOW_HTTP": "true", "AWS_REGION": w.region,
           "AWS_ACCESS_KEY_ID": w.key, "AWS_SECRET_ACCESS_KEY": w.secret}
    second = dev.Dev(w.nodes.hive, folder, w.nodes.base_port + 1000, nodes=1,
                     more=["--s3-data", f"s3://{store}/data"], env=env)
    try:
        client = boto3.client("s3", endpoint_url=second.endpoints[0], aws_access_key_id="demo-access-key",
                              aws_secret_access_key="demo-secret-key", region_name=w.region)
        client.create_bucket(Bucket="mine", CreateBucketConfiguration={"LocationConstraint": w.region})
        body = os.urandom(9 * MIB)
        client.put_object(Bucket="mine", Key="k", Body=body)
        equal(client.get_object(Bucket="mine", Key="k", Range="bytes=1000000-1000009")["Body"].read(), body[1000000:1000010])
        equal(client.get_object(Bucket="mine", Key="k")["Body"].read(), body)
        stored = w.s3.list_objects_v2(Bucket=store, Prefix="data/")["Contents"]
        equal(sorted(entry["Size"] for entry in stored)[-1], len(body))
        assert "data/store-id" in [entry["Key"] for entry in stored]
    finally:
        second.stop()


@case("boto3")
def fifty_megabytes_and_a_node_that_dies(w):
    name = w.bucket()
    body = os.urandom(50 * MIB)
    pieces = [body[at:at + 5 * MIB] for at in range(0, len(body), 5 * MIB)]
    clients = [w.client(w.key, w.secret, at=number, attempts=2) for number in range(5)]
    at = {"Bucket": name, "Key": "fifty"}
    upload = clients[0].create_multipart_upload(**at)["UploadId"]
    pid, etags = None, []
    for number, piece in enumerate(pieces, 1):
        if number == 4:
            pid = w.nodes.kill(1)
        turn = iter(range(number, number + 10_000))
        etags.append(patient(lambda: clients[next(turn) % 5].upload_part(
            **at, UploadId=upload, PartNumber=number, Body=piece))["ETag"])
    parts = [{"PartNumber": number, "ETag": etag} for number, etag in enumerate(etags, 1)]
    turn = iter(range(2, 10_000))
    done = patient(lambda: clients[next(turn) % 5].complete_multipart_upload(
        **at, UploadId=upload, MultipartUpload={"Parts": parts}))
    w.nodes.wait_back(1, pid)
    for client in clients:
        got = patient(client.get_object, **at)
        equal((got["ETag"], hashlib.md5(got["Body"].read()).digest()), (done["ETag"], hashlib.md5(body).digest()))
    equal(keys(clients[3].list_objects_v2(Bucket=name)), ["fifty"])


def fill(w, name, known, number, count):
    """Puts a part of the keys through a node; each is `known` once it is acknowledged."""
    door = Json(w, number)
    for at in range(number, count, LOADERS):
        key = f"dir{at % 7}/k{at:06}"
        door.done("PutObject", bucket=name, key=key, body_base64="eA==")
        known.append(key)


def walk(client, name, page_keys=1000):
    """All keys of a bucket, page by page; a page that fails is asked for again with the same token."""
    found, more = [], {}
    while True:
        page = patient(client.list_objects_v2, Bucket=name, MaxKeys=page_keys, **more)
        found += keys(page)
        if not page["IsTruncated"]:
            return found
        more = {"ContinuationToken": page["NextContinuationToken"]}


class Deaths:
    """Nodes that are killed one after the other, each at a count; none before the one before it is back."""

    def __init__(self, w, plan):
        self.w, self.plan, self.down = w, list(plan), None

    def go_on(self, count):
        if self.down and not self.w.nodes.is_back(*self.down):
            return
        self.down = None
        if self.plan and count > self.plan[0][1]:
            number = self.plan.pop(0)[0]
            self.down = (number, self.w.nodes.kill(number))

    def alive(self, number):
        """A node that is not down."""
        return [node for node in range(5) if not self.down or node != self.down[0]][number % 4]

    def all(self):
        """Until all have died and are back."""
        while self.plan or self.down:
            if self.down:
                self.w.nodes.wait_back(*self.down)
            self.go_on(LISTED_KEYS + 1)


@case("boto3")
def twenty_thousand_keys_while_shards_split_and_nodes_die(w):
    """Every walk is in order, has no key twice, and has all that was acknowledged before it began. Two nodes are killed, the
    second when the first is back."""
    name = w.bucket()
    known, walks, ended = [], 0, threading.Event()
    clients = [w.client(w.key, w.secret, at=number) for number in range(5)]
    with concurrent.futures.ThreadPoolExecutor(LOADERS) as pool:
        puts = [pool.submit(fill, w, name, known, number, LISTED_KEYS) for number in range(LOADERS)]
        deaths = Deaths(w, [(2, LISTED_KEYS // 3), (4, LISTED_KEYS * 2 // 3)])
        while not ended.is_set():
            # A walk for each eighth of the keys: more would only slow the puts down.
            while len(known) < min(walks * LISTED_KEYS // 8, LISTED_KEYS) and not all(put.done() for put in puts):
                time.sleep(0.05)
            if all(put.done() for put in puts):
                ended.set()
            before = set(known)
            found = walk(clients[deaths.alive(walks)], name)
            equal(found, sorted(set(found)))
            missing = before - set(found)
            assert not missing, f"walk {walks} lost {len(missing)} keys, for example {sorted(missing)[:3]}"
            walks += 1
            deaths.go_on(len(known))
        for put in puts:
            put.result()
    equal(len(known), LISTED_KEYS)
    deaths.all()
    found = walk(clients[2], name)
    equal(found, sorted(known))
    equal(Json(w, 0).done("CountObjects", bucket=name, prefix="dir3/")["keys"],
          sum(key.startswith("dir3/") for key in known))
    listed = patient(clients[2].list_objects_v2, Bucket=name, Delimiter="/")
    equal([group["Prefix"] for group in listed["CommonPrefixes"]], [f"dir{number}/" for number in range(7)])
    shards = w.nodes.ctl("clusters", "--prefix", "shard@").count("shard@")
    print(f"       {walks} walks while it was loaded; {shards} shards in the world")


def fill_in_order(w, name, known, ended):
    """Each key only once the one before is acknowledged: who sees a later one must see all before it. One key
    beside them is put over and over, so that shards that have been split off are written to as well."""
    door, at = Json(w, 0), 0
    while not ended.is_set():
        key = f"{at % 7}/{at:06}"
        door.done("PutObject", bucket=name, key=key, body_base64="eA==")
        known.append(key)
        at += 1
        if at % 16 == 0:
            door.done("PutObject", bucket=name, key="0/again", body_base64="eA==")


@case("boto3")
def a_walk_that_is_a_snapshot_while_shards_split(w):
    """`snapshot: true` of the JSON API: all pages, each of another node, show the bucket at one instant."""
    name = w.bucket()
    known, ended = [], threading.Event()
    with concurrent.futures.ThreadPoolExecutor(LOADERS) as pool:
        other = [pool.submit(fill, w, name, [], number, 8_000) for number in range(LOADERS - 2)]
        writer = pool.submit(fill_in_order, w, name, known, ended)
        try:
            for round_number in range(4):
                while len(known) < 40 * (round_number + 1) and not writer.done():
                    time.sleep(0.05)
                before, found, token, pages = len(known), [], None, 0
                while True:
                    page = Json(w, pages).done("ListObjectsV2", bucket=name, max_keys=400, snapshot=True,
                                               **({"continuation_token": token} if token else {}))
                    found += [entry["key"] for entry in page["contents"]]
                    pages, token = pages + 1, page.get("next_continuation_token")
                    after = len(known) + 1 if pages == 1 else after
                    if not token:
                        break
                equal(found, sorted(set(found)))
                seen = set(found)
                count = sum(key in seen for key in known)
                missing = [key for key in known[:count] if key not in seen]
                assert not missing, f"a later key is shown without {missing[:3]}"
                assert before <= count <= after, f"{count} keys of the instant, {before} before and {after} behind it"
        finally:
            ended.set()
        writer.result()
        for filler in other:
            filler.result()
    whole = Json(w, 1).done("CountObjects", bucket=name, snapshot=True)
    equal(whole["keys"], len(walk(w.s3, name)))
    expired = Json(w, 2).ask("ListObjectsV2", bucket=w.bucket(), snapshot=True, continuation_token=token or "forged")
    equal(expired["error"]["code"], "InvalidArgument")


SNAPSHOT = "x-hive-snapshot"
SNAPSHOT_KEYS = 1500
# With these a shard is split also on a machine that has no CPU to spare: at four times the rows.
KEYS_PER_ROUND, ROUNDS = 1500, 5
assert SNAPSHOT_KEYS + KEYS_PER_ROUND * ROUNDS > 4 * dev.SPLIT_KEYS


def entries(page):
    """What a page of any listing shows of objects and versions."""
    listed = [page.get(kind, []) for kind in ("Contents", "Versions", "DeleteMarkers")]
    return {(entry["Key"], entry.get("VersionId"), entry.get("ETag"), entry.get("IsLatest"), entry["LastModified"])
            for some in listed for entry in some}


def in_query(request, **_):
    """Asks by the query: what a URL signed beforehand can carry."""
    request.url += ("&" if "?" in request.url else "?") + f"{SNAPSHOT}=true"


def snapshot_walks(w, name):
    """Walks of unmodified paginators: two ask by a header on every page, one by the query of its first page only."""
    client = w.client(w.key, w.secret, at=2)
    for operation in ("ListObjects", "ListObjectVersions"):
        with_header(client, operation, x_hive_snapshot="true")
    page = lambda operation: client.get_paginator(operation).paginate(Bucket=name, PaginationConfig={"PageSize": 200})
    once = w.client(w.key, w.secret, at=3)
    once.meta.events.register("before-sign.s3.ListObjectsV2", in_query, unique_id="snapshot")
    rest = iter(once.get_paginator("list_objects_v2").paginate(Bucket=name, PaginationConfig={"PageSize": 200}))
    first = next(rest)
    once.meta.events.unregister("before-sign.s3.ListObjectsV2", in_query, unique_id="snapshot")
    walks = {"list_objects_v2": itertools.chain([first], rest)}
    for operation in ("list_objects", "list_object_versions"):
        walks[operation] = iter(page(operation))
    return walks


def disturb(w, name, round_number, pool):
    """Puts, overwrites and deletes before, at and behind every walk."""
    door = Json(w, round_number)
    for at in range(round_number, SNAPSHOT_KEYS, 100):
        door.done("PutObject", bucket=name, key=f"dir{at % 7}/k{at:06}", body_base64="eXk=")
        door.done("DeleteObject", bucket=name, key=f"dir{(at + 1) % 7}/k{at + 1:06}")
    more = SNAPSHOT_KEYS + KEYS_PER_ROUND * round_number
    for done in [pool.submit(fill, w, name, [], more + number, more + KEYS_PER_ROUND) for number in range(LOADERS)]:
        done.result()


@case("boto3")
def a_snapshot_for_s3_clients(w):
    """`x-hive-snapshot`: whatever is put, deleted and split between pages, all show the instant of the first, exactly."""
    name = w.bucket()
    w.s3.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})
    with concurrent.futures.ThreadPoolExecutor(LOADERS) as pool:
        for done in [pool.submit(fill, w, name, [], number, SNAPSHOT_KEYS) for number in range(LOADERS)]:
            done.result()
        operations = ("list_objects_v2", "list_objects", "list_object_versions")
        whole = lambda operation: set().union(*map(entries, w.s3.get_paginator(operation).paginate(Bucket=name)))
        expected = {operation: whole(operation) for operation in operations}
        walks, found, token = snapshot_walks(w, name), {operation: [] for operation in operations}, None
        shards = lambda: len(Json(w, 0).done("DescribeShards", bucket=name)["shards"])
        before, round_number = shards(), 0
        while walks:
            for operation, pages in list(walks.items()):
                page = next(pages, None)
                if page is None:
                    del walks[operation]
                    continue
                found[operation].append(entries(page))
                token = token or page.get("NextContinuationToken")
            if round_number < ROUNDS:
                disturb(w, name, round_number, pool)
            round_number += 1
            patience = time.monotonic() + (PATIENCE_S if round_number == ROUNDS else 0)
            while shards() == before and time.monotonic() < patience:
                time.sleep(0.2)
    for operation in operations:
        told, pages = set().union(*found[operation]), found[operation]
        assert told == expected[operation], (operation, len(pages), len(told), sorted(told ^ expected[operation])[:4])
        equal((len(told), len(pages) > 7), (sum(map(len, pages)), True))
        assert whole(operation) != expected[operation], f"nothing was changed under {operation}"
    assert shards() > before, f"{before} shards, and none was split"
    what_ends_a_snapshot(w, name, token)


def what_ends_a_snapshot(w, name, token):
    """Soon after its last page it is gone, and says so; a marker of one's own would be no snapshot, and is refused."""
    patience = time.monotonic() + PATIENCE_S * 3
    while True:
        try:
            patient(w.s3.list_objects_v2, Bucket=name, ContinuationToken=token)
        except botocore.exceptions.ClientError as error:
            equal((error.response["Error"]["Code"], error.response["ResponseMetadata"]["HTTPStatusCode"]), ("SnapshotExpired", 409))
            break
        assert time.monotonic() < patience, "the snapshot never ended"
        time.sleep(2)
    client = w.client(w.key, w.secret, at=1)
    for operation in ("ListObjects", "ListObjectVersions", "ListObjectsV2"):
        with_header(client, operation, x_hive_snapshot="true")
    refused("InvalidArgument", client.list_objects, Bucket=name, Marker="dir3/", status=400)
    refused("InvalidArgument", client.list_object_versions, Bucket=name, KeyMarker="dir3/", status=400)
    refused("InvalidArgument", client.list_objects_v2, Bucket=name, ContinuationToken=token[:-2] + "AA", status=400)
    answer = client.list_objects_v2(Bucket=name, MaxKeys=1)
    equal(answer["ResponseMetadata"]["HTTPHeaders"].get(SNAPSHOT), "true")
    url = w.s3.generate_presigned_url("list_objects_v2", {"Bucket": name})
    status, body = fetch(f"{url}&{SNAPSHOT}=true")
    assert status == 403 and b"SignatureDoesNotMatch" in body, (status, body)
    signer = w.client(w.key, w.secret)
    signer.meta.events.register("before-sign.s3.ListObjectsV2", in_query, unique_id="snapshot")
    url = signer.generate_presigned_url("list_objects_v2", {"Bucket": name, "MaxKeys": 1})
    with urllib.request.urlopen(url) as answer:
        equal((answer.status, answer.headers[SNAPSHOT], b"<NextContinuationToken>" in answer.read()), (200, "true", True))


@case("rclone", "ListObjects", "ListObjectsV2")
def a_snapshot_by_rclone(w):
    """Its `--header` goes along with every page, unsigned; it gives both kinds of markers back as they are."""
    name, known = w.bucket(), []
    for number in range(LOADERS):
        fill(w, name, known, number, 500)
    for version in ("1", "2"):
        words = ["--header", f"{SNAPSHOT}: true", "--s3-list-version", version, "--s3-list-chunk", "100"]
        listed = run(["rclone", "--retries", "1", "lsf", "-R", "--files-only", *words, f"hive:{name}"], rclone_env(w, 2))
        equal(sorted(listed.splitlines()), sorted(known))


def bad_json_bodies(w, door, host):
    """What is no request at all."""
    for body, code in ((b"{", "MalformedJson"), (b"\xff", "MalformedJson"), (b"[" * 500, "MalformedJson"), (b"", "MalformedJson"),
                       (b"[]", "InvalidRequest"), (b'{"action":"PutObjekt"}', "UnknownAction"),
                       (b'{"action":"PutObject","action":"PutObject"}', "DuplicateField"),
                       (b'{"action":"PutObject","bucket":"b"}', "MissingField"),
                       (b'{"action":"PutObject","bucket":7,"key":"k"}', "InvalidField"),
                       (b'{"action":"HeadBucket","bucket":"b","key":"k"}', "UnknownField")):
        connection = http.client.HTTPConnection(host, timeout=30)
        connection.request("POST", "/", body=body)
        answer = connection.getresponse()
        told = json.loads(answer.read())
        equal((answer.status, told["ok"], told["error"]["code"]), (400, False, code))
        connection.close()


@case("raw")
def bad_json(w):
    """The JSON API's bad input: S3's own codes where S3 has one, and nothing lost."""
    door, name = Json(w, 2), w.bucket()
    host = w.nodes.http(2).split("://")[1]
    at = {"bucket": name, "key": "k"}
    door.done("PutObject", **at, body_base64="aGk=")
    bad_json_bodies(w, door, host)

    def code(action, **fields):
        answer = door.ask(action, **fields)
        return None if answer["ok"] else answer["error"]["code"]

    for bad in ("ab", "UPPER", "a..b", "under_score", "192.168.1.1", "x" * 64, "-lead", "trail-"):
        equal(code("CreateBucket", bucket=bad, account="demo"), "InvalidBucketName")
    equal(code("PutObject", bucket=name, key="k" * 1025, body_base64="eA=="), "KeyTooLongError")
    large = base64.b64encode(b"x" * 65537).decode()
    equal(code("PutObject", **at, body_base64=large), "EntityTooLarge")
    equal(code("PutObject", **at, body_base64="?"), "InvalidField")
    equal(code("GetObject", **at, version_id="no version"), "NoSuchVersion")
    equal(code("PutBucketPolicy", bucket=name, policy="{"), "MalformedPolicy")
    equal(code("GetBucketPolicyStatus", bucket=name), "NoSuchBucketPolicy")
    equal(code("GetBucketPolicyStatus", bucket="t-is-not-there"), "NoSuchBucket")
    equal(code("GetBucketPolicyStatus", bucket=name, policy="{}"), "UnknownField")
    everybody = {"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": f"arn:aws:s3:::{name}/*"}
    door.done("PutBucketPolicy", bucket=name, policy=json.dumps({"Version": "2012-10-17", "Statement": everybody}))
    equal(door.done("GetBucketPolicyStatus", bucket=name)["policy_status"], {"is_public": True})
    door.done("DeleteBucketPolicy", bucket=name)
    equal(code("GetObject", bucket="t-is-not-there", key="k"), "NoSuchBucket")
    equal(code("PutObject", **at, body_base64="eA==", expected_bucket_owner="other"), "AccessDenied")
    equal(code("PutBucketTagging", bucket=name, tags=[], expected_bucket_owner="other"), "AccessDenied")
    equal(code("GetObject", **at, expected_bucket_owner="demo"), None)
    bad_json_uploads(door, at, code)
    page = door.done("ListObjectsV2", bucket=name, max_keys=1)
    equal((page["is_truncated"], page["contents"][0]["key"]), (True, "k"))
    token, theirs = page["next_continuation_token"], w.name()
    w.other.create_bucket(Bucket=theirs)
    for bucket, bad in ((name, "forged"), (name, token[:-2] + "AA"), (theirs, token), (w.bucket(), token)):
        equal(code("ListObjectsV2", bucket=bucket, continuation_token=bad), "InvalidArgument")
    equal(code("ListObjectsV2", bucket=name, continuation_token=token, prefix="k"), "InvalidArgument")
    equal(base64.b64decode(door.done("GetObject", **at)["body_base64"]), b"hi")
    equal(door.done("ListObjectsV2", bucket=name, continuation_token=token)["contents"][0]["key"], "k2")


def bad_json_uploads(door, at, code):
    """Part numbers, sizes and orders of parts; the upload goes on whatever it is asked."""
    upload = door.done("CreateMultipartUpload", **at)["upload_id"]
    part = lambda number, size=5 * MIB, upload_id=upload: code(
        "UploadPart", **at, upload_id=upload_id, part_number=number, location=f"at/{number}", size=size, etag="%032x" % number)
    for number in (0, 10_001):
        equal(part(number), "InvalidArgument")
    equal(part(1, size=(5 << 30) + 1), "EntityTooLarge")
    equal((part(1), part(2, size=1), part(10_000)), (None, None, None))
    equal(part(1, upload_id="unknown"), "NoSuchUpload")
    complete = lambda *numbers, upload_id=upload: code("CompleteMultipartUpload", **at, upload_id=upload_id, parts=[
        {"part_number": number, "etag": "%032x" % number} for number in numbers])
    equal(complete(1, upload_id="unknown"), "NoSuchUpload")
    equal(complete(2, 1), "InvalidPartOrder")
    equal(complete(1, 3), "InvalidPart")
    equal(complete(1, 2, 10_000), "EntityTooSmall")
    equal(complete(), "MalformedXML")
    equal(complete(*range(1, 10_002)), "MalformedXML")
    equal(code("AbortMultipartUpload", **at, upload_id="unknown"), "NoSuchUpload")
    equal(code("ListParts", **at, upload_id="unknown"), "NoSuchUpload")
    equal(len(door.done("ListParts", **at, upload_id=upload)["parts"]), 3)
    door.done("AbortMultipartUpload", **at, upload_id=upload)
    door.done("PutObject", bucket=at["bucket"], key="k2", body_base64="eA==")


@case("boto3")
def a_slow_put_never_lands_in_anothers_bucket(w):
    """The bucket is removed while the body comes, and its name is taken by another account: the object is refused."""
    name, other = w.bucket(), w.other
    url = w.s3.generate_presigned_url("put_object", {"Bucket": name, "Key": "late"})
    host, path = url.split("://")[1].split("/", 1)
    connection = http.client.HTTPConnection(host, timeout=60)
    connection.putrequest("PUT", "/" + path)
    connection.putheader("content-length", str(200_000))
    connection.endheaders()
    connection.send(b"x" * 100_000)
    time.sleep(1)
    w.s3.delete_bucket(Bucket=name)
    other.create_bucket(Bucket=name)
    connection.send(b"x" * 100_000)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    assert answer.status == 403 and "<Code>AccessDenied</Code>" in text, (answer.status, text)
    equal(keys(other.list_objects_v2(Bucket=name)), [])
