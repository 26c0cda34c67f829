"""boto3: every call of the gateway, as a program would make it."""

import base64
import concurrent.futures
import datetime
import hashlib
import io
import json
import os
import urllib.error
import urllib.request
import zlib

import boto3.s3.transfer
import botocore

import guide
from world import case, equal, refused

MIB = 1 << 20


def keys(page):
    return [entry["Key"] for entry in page.get("Contents", [])]


def groups(page):
    return [entry["Prefix"] for entry in page.get("CommonPrefixes", [])]


@case("boto3")
def buckets(w):
    name = w.bucket()
    w.s3.head_bucket(Bucket=name)
    assert name in [bucket["Name"] for bucket in w.s3.list_buckets()["Buckets"]]
    equal(w.s3.get_bucket_location(Bucket=name)["LocationConstraint"], w.region)
    refused("BucketAlreadyOwnedByYou", w.s3.create_bucket, Bucket=name, status=409)
    refused("BucketAlreadyExists", w.other.create_bucket, Bucket=name, status=409)
    refused("InvalidLocationConstraint", w.s3.create_bucket, Bucket=w.name(),
            CreateBucketConfiguration={"LocationConstraint": "mars-1"})
    w.put(name, "k")
    refused("BucketNotEmpty", w.s3.delete_bucket, Bucket=name, status=409)
    w.s3.delete_object(Bucket=name, Key="k")
    w.s3.delete_bucket(Bucket=name)
    refused("404", w.s3.head_bucket, Bucket=name, status=404)
    refused("NoSuchBucket", w.s3.list_objects_v2, Bucket=name, status=404)
    w.s3.create_bucket(Bucket=name)
    w.s3.delete_bucket(Bucket=name)
    page = w.s3.list_buckets(Prefix="t", MaxBuckets=1)
    assert len(page["Buckets"]) <= 1


@case("boto3")
def objects(w):
    name = w.bucket()
    put = w.s3.put_object(Bucket=name, Key="a/é b+c&d", Body=b"hello", ContentType="text/plain",
                          CacheControl="no-cache", ContentDisposition="inline", ContentLanguage="en",
                          ContentEncoding="identity", Metadata={"Colour": "blue"},
                          Expires=datetime.datetime(2030, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc))
    equal(put["ETag"], '"5d41402abc4b2a76b9719d911017c592"')
    got = w.s3.get_object(Bucket=name, Key="a/é b+c&d")
    equal(got["Body"].read(), b"hello")
    equal((got["ContentType"], got["CacheControl"], got["ContentDisposition"]), ("text/plain", "no-cache", "inline"))
    equal((got["ContentLanguage"], got["ContentEncoding"], got["Metadata"]), ("en", "identity", {"colour": "blue"}))
    equal(got["ExpiresString"], "Wed, 02 Jan 2030 03:04:05 GMT")
    head = w.s3.head_object(Bucket=name, Key="a/é b+c&d")
    equal((head["ContentLength"], head["ETag"]), (5, put["ETag"]))
    w.put(name, "empty", body=b"")
    equal(w.s3.get_object(Bucket=name, Key="empty")["Body"].read(), b"")
    refused("NoSuchKey", w.s3.get_object, Bucket=name, Key="none", status=404)
    refused("404", w.s3.head_object, Bucket=name, Key="none", status=404)
    w.s3.delete_object(Bucket=name, Key="none")
    long = "k" * 1024
    w.put(name, long, "//double//slash/", "dot/../dot", "new\nline\x01")
    for key in (long, "//double//slash/", "dot/../dot", "new\nline\x01"):
        equal(w.s3.get_object(Bucket=name, Key=key)["Body"].read(), b"x")
    got = w.s3.get_object(Bucket=name, Key="empty", ResponseContentType="a/b", ResponseCacheControl="max-age=1")
    equal((got["ContentType"], got["CacheControl"]), ("a/b", "max-age=1"))
    equal(w.s3.head_object(Bucket=name, Key="empty")["ContentType"], "binary/octet-stream")


@case("boto3")
def an_empty_body_and_then_another(w):
    """botocore waits for `100 Continue`, which nobody says of an empty body; what it then keeps must not meet its next request."""
    name = w.bucket()
    for size in (0, 5, 0, 70_000):
        body = b"x" * size
        put = w.s3.put_object(Bucket=name, Key=f"size-{size}", Body=io.BytesIO(body))
        equal(put["ETag"], '"' + hashlib.md5(body).hexdigest() + '"')


@case("boto3")
def sizes_and_ranges(w):
    name = w.bucket()
    for size in (65535, 65536, 65537, 300_000, 5 * MIB + 3):
        body = os.urandom(size)
        key = f"size-{size}"
        w.s3.put_object(Bucket=name, Key=key, Body=body)
        equal(w.s3.get_object(Bucket=name, Key=key)["Body"].read(), body)
        for range_, part in (
            ("bytes=0-0", body[:1]),
            ("bytes=10-99", body[10:100]),
            ("bytes=65530-", body[65530:]),
            ("bytes=-7", body[-7:]),
            (f"bytes=0-{size * 2}", body),
        ):
            got = w.s3.get_object(Bucket=name, Key=key, Range=range_)
            equal(got["Body"].read(), part)
            equal(got["ResponseMetadata"]["HTTPStatusCode"], 206)
            assert got["ContentRange"].endswith(f"/{size}"), got["ContentRange"]
        refused("InvalidRange", w.s3.get_object, Bucket=name, Key=key, Range=f"bytes={size}-", status=416)
    head = w.s3.head_object(Bucket=name, Key="size-300000", Range="bytes=1-5")
    equal((head["ContentLength"], head["ContentRange"]), (5, "bytes 1-5/300000"))


def with_header(client, operation, **headers):
    """A client's calls of an operation with headers that this boto3 has no word for."""
    def add(params, **_):
        params["headers"].update({name.replace("_", "-"): value for name, value in headers.items()})
    client.meta.events.register_last(f"before-call.s3.{operation}", add, unique_id=f"more headers of {operation}")


def conditions_on_what_is_written_over(w, name, etag):
    """Of copies and completions: what must hold of the object that is there."""
    client = w.client(w.key, w.secret)
    copy = lambda key: client.copy_object(Bucket=name, Key=key, CopySource={"Bucket": name, "Key": "new"})
    with_header(client, "CopyObject", if_none_match="*")
    refused("PreconditionFailed", copy, "k", status=412)
    copy("copied")
    client = w.client(w.key, w.secret)
    with_header(client, "CopyObject", if_match='"other"')
    refused("PreconditionFailed", copy, "k", status=412)
    refused("NoSuchKey", copy, "absent", status=404)
    equal(w.s3.get_object(Bucket=name, Key="k")["ETag"], etag)
    client = w.client(w.key, w.secret)
    with_header(client, "CopyObject", if_match=etag)
    copy("k")
    for key, condition, code in (("k", {"IfNoneMatch": "*"}, "PreconditionFailed"), ("k", {"IfMatch": '"other"'}, "PreconditionFailed"),
                                 ("absent", {"IfMatch": '"other"'}, "NoSuchKey"), ("k", {"IfMatch": "now"}, None),
                                 ("absent", {"IfNoneMatch": "*"}, None)):
        at = {"Bucket": name, "Key": key, "UploadId": w.s3.create_multipart_upload(Bucket=name, Key=key)["UploadId"]}
        part = w.s3.upload_part(**at, PartNumber=1, Body=b"completed")["ETag"]
        if condition.get("IfMatch") == "now":
            condition = {"IfMatch": w.s3.head_object(Bucket=name, Key=key)["ETag"]}
        complete = lambda **more: w.s3.complete_multipart_upload(
            **at, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": part}]}, **more)
        if code:
            refused(code, complete, **condition)
            # It is open still, and its parts are there.
            equal(len(w.s3.list_parts(**at)["Parts"]), 1)
            w.s3.abort_multipart_upload(**at)
        else:
            complete(**condition)
            equal(w.s3.get_object(Bucket=name, Key=key)["Body"].read(), b"completed")


def conditions_of_deletes(w, name):
    """One by one, and each of many: by etag, length and time."""
    w.put(name, "k", "many/a", "many/b", "many/c", body=b"1")
    head = w.s3.head_object(Bucket=name, Key="k")
    etag, hour = head["ETag"], datetime.timedelta(hours=1)
    delete = lambda **more: w.s3.delete_object(Bucket=name, Key="k", **more)
    for wrong in ({"IfMatch": '"other"'}, {"IfMatchSize": 2}, {"IfMatchLastModifiedTime": head["LastModified"] + hour}):
        refused("PreconditionFailed", delete, status=412, **wrong)
    delete(IfMatch=etag, IfMatchSize=1, IfMatchLastModifiedTime=head["LastModified"])
    refused("NoSuchKey", w.s3.get_object, Bucket=name, Key="k")
    many = [{"Key": "many/a", "ETag": etag}, {"Key": "many/b", "ETag": '"other"'}, {"Key": "many/c", "Size": 2}]
    answer = w.s3.delete_objects(Bucket=name, Delete={"Objects": many})
    equal([entry["Key"] for entry in answer["Deleted"]], ["many/a"])
    equal([(error["Key"], error["Code"]) for error in answer["Errors"]],
          [("many/b", "PreconditionFailed"), ("many/c", "PreconditionFailed")])
    equal(keys(w.s3.list_objects_v2(Bucket=name, Prefix="many/")), ["many/b", "many/c"])


@case("boto3")
def conditions(w):
    name = w.bucket()
    etag = w.s3.put_object(Bucket=name, Key="k", Body=b"1")["ETag"]
    get = lambda **more: w.s3.get_object(Bucket=name, Key="k", **more)
    modified = w.s3.head_object(Bucket=name, Key="k")["LastModified"]
    hour = datetime.timedelta(hours=1)
    get(IfMatch=etag)
    get(IfMatch="*")
    get(IfNoneMatch='"other"')
    get(IfModifiedSince=modified - hour)
    get(IfUnmodifiedSince=modified + hour)
    get(IfMatch=etag, IfUnmodifiedSince=modified - hour)
    refused("PreconditionFailed", get, IfMatch='"other"', status=412)
    refused("304", get, IfNoneMatch=etag, status=304)
    refused("304", get, IfModifiedSince=modified, status=304)
    refused("PreconditionFailed", get, IfUnmodifiedSince=modified - hour, status=412)
    put = lambda key, **more: w.s3.put_object(Bucket=name, Key=key, Body=b"2", **more)
    refused("PreconditionFailed", put, "k", IfNoneMatch="*", status=412)
    refused("PreconditionFailed", put, "k", IfMatch='"other"', status=412)
    refused("NoSuchKey", put, "absent", IfMatch=etag, status=404)
    refused("NotImplemented", put, "k", IfNoneMatch='"other"', status=501)
    put("k", IfMatch=etag)
    put("new", IfNoneMatch="*")
    source = {"Bucket": name, "Key": "k"}
    etag = w.s3.head_object(Bucket=name, Key="k")["ETag"]
    w.s3.copy_object(Bucket=name, Key="c", CopySource=source, CopySourceIfMatch=etag)
    refused("PreconditionFailed", w.s3.copy_object, Bucket=name, Key="c", CopySource=source,
            CopySourceIfNoneMatch=etag, status=412)
    conditions_on_what_is_written_over(w, name, etag)
    conditions_of_deletes(w, name)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        def race(number):
            try:
                w.s3.put_object(Bucket=name, Key="race", Body=str(number).encode(), IfNoneMatch="*")
                return 1
            except w.s3.exceptions.ClientError as error:
                equal(error.response["Error"]["Code"], "PreconditionFailed")
                return 0
        equal(sum(pool.map(race, range(24))), 1)


@case("boto3")
def checksums(w):
    name = w.bucket()
    body = b"checksum me"
    for algorithm in ("CRC32", "SHA1", "SHA256"):
        put = w.s3.put_object(Bucket=name, Key=algorithm, Body=body, ChecksumAlgorithm=algorithm)
        got = w.s3.get_object(Bucket=name, Key=algorithm, ChecksumMode="ENABLED")
        equal(got["Body"].read(), body)
        equal(got[f"Checksum{algorithm}"], put[f"Checksum{algorithm}"])
    good = base64.b64encode(zlib.crc32(body).to_bytes(4, "big")).decode()
    put = w.s3.put_object(Bucket=name, Key="own", Body=body, ChecksumCRC32=good)
    equal((put["ChecksumCRC32"], put["ChecksumType"]), (good, "FULL_OBJECT"))
    bad = base64.b64encode((zlib.crc32(body) ^ 1).to_bytes(4, "big")).decode()
    refused("BadDigest", w.s3.put_object, Bucket=name, Key="bad", Body=body, ChecksumCRC32=bad, status=400)
    refused("BadDigest", w.s3.put_object, Bucket=name, Key="bad", Body=os.urandom(MIB), ChecksumCRC32=bad, status=400)
    refused("InvalidRequest", w.s3.put_object, Bucket=name, Key="bad", Body=body, ChecksumCRC32="AA==", status=400)
    md5 = base64.b64encode(hashlib.md5(body).digest()).decode()
    w.s3.put_object(Bucket=name, Key="md5", Body=body, ContentMD5=md5)
    wrong = base64.b64encode(hashlib.md5(b"other").digest()).decode()
    refused("BadDigest", w.s3.put_object, Bucket=name, Key="bad", Body=body, ContentMD5=wrong, status=400)
    refused("InvalidDigest", w.s3.put_object, Bucket=name, Key="bad", Body=body, ContentMD5="AAAA", status=400)
    refused("NoSuchKey", w.s3.get_object, Bucket=name, Key="bad")
    crc64 = w.client(w.key, w.secret, request_checksum_calculation="when_required")
    put = crc64.put_object(Bucket=name, Key="default", Body=b"123456789")
    equal(put["ChecksumCRC64NVME"], "rosUhgp5mIg=")
    found = w.s3.get_object_attributes(Bucket=name, Key="default",
                                       ObjectAttributes=["ETag", "Checksum", "ObjectSize", "StorageClass"])
    equal(found["Checksum"]["ChecksumCRC64NVME"], "rosUhgp5mIg=")
    equal((found["ObjectSize"], found["StorageClass"]), (9, "STANDARD"))


@case("boto3")
def copies(w):
    name, second = w.bucket(), w.bucket()
    body = os.urandom(200_000)
    w.s3.put_object(Bucket=name, Key="small é", Body=b"s", Metadata={"a": "1"}, ContentType="a/b", Tagging="t=1")
    w.s3.put_object(Bucket=name, Key="large", Body=body)
    copied = w.s3.copy_object(Bucket=second, Key="small", CopySource={"Bucket": name, "Key": "small é"})
    equal(copied["CopyObjectResult"]["ETag"], w.s3.head_object(Bucket=name, Key="small é")["ETag"])
    got = w.s3.get_object(Bucket=second, Key="small")
    equal((got["Metadata"], got["ContentType"], got["TagCount"]), ({"a": "1"}, "a/b", 1))
    w.s3.copy_object(Bucket=second, Key="large", CopySource=f"{name}/large")
    w.s3.delete_object(Bucket=name, Key="large")
    equal(w.s3.get_object(Bucket=second, Key="large")["Body"].read(), body)
    w.s3.copy_object(Bucket=second, Key="small", CopySource=f"{second}/small", MetadataDirective="REPLACE",
                     Metadata={"b": "2"}, TaggingDirective="REPLACE", Tagging="u=2")
    got = w.s3.head_object(Bucket=second, Key="small")
    equal(got["Metadata"], {"b": "2"})
    equal(w.s3.get_object_tagging(Bucket=second, Key="small")["TagSet"], [{"Key": "u", "Value": "2"}])
    refused("InvalidRequest", w.s3.copy_object, Bucket=second, Key="small", CopySource=f"{second}/small")
    refused("NoSuchKey", w.s3.copy_object, Bucket=second, Key="x", CopySource=f"{name}/none", status=404)
    refused("NoSuchBucket", w.s3.copy_object, Bucket=second, Key="x", CopySource=f"{w.name()}/none", status=404)


@case("boto3")
def deletes_of_many(w):
    name = w.bucket()
    all_keys = [f"k{number:04}" for number in range(1000)]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda key: w.put(name, key), all_keys))
    deleted = w.s3.delete_objects(Bucket=name, Delete={"Objects": [{"Key": key} for key in all_keys[:500]]})
    equal(len(deleted["Deleted"]), 500)
    quiet = w.s3.delete_objects(Bucket=name, Delete={"Objects": [{"Key": key} for key in all_keys[500:]], "Quiet": True})
    assert not quiet.get("Deleted") and not quiet.get("Errors"), quiet
    equal(keys(w.s3.list_objects_v2(Bucket=name)), [])
    w.put(name, "a")
    mixed = w.s3.delete_objects(Bucket=name, Delete={"Objects": [{"Key": "a"}, {"Key": "none"}]})
    equal(len(mixed["Deleted"]), 2)
    refused("MalformedXML", w.s3.delete_objects, Bucket=name,
            Delete={"Objects": [{"Key": str(number)} for number in range(1001)]}, status=400)


@case("boto3")
def listings(w):
    name = w.bucket()
    stored = ["a", "b/1", "b/2", "b/c/1", "c", "d/1", "z\x01", "é ü+&"]
    w.put(name, *stored)
    for call in (w.s3.list_objects, w.s3.list_objects_v2):
        equal(keys(call(Bucket=name)), stored)
        page = call(Bucket=name, Delimiter="/")
        equal((keys(page), groups(page)), (["a", "c", "z\x01", "é ü+&"], ["b/", "d/"]))
        page = call(Bucket=name, Delimiter="/", Prefix="b/")
        equal((keys(page), groups(page)), (["b/1", "b/2"], ["b/c/"]))
        equal(keys(call(Bucket=name, Prefix="none")), [])
        equal(keys(call(Bucket=name, MaxKeys=0)), [])
        refused("InvalidArgument", call, Bucket=name, MaxKeys=-1)
        raw = call(Bucket=name, Prefix="é", EncodingType="url")
        equal([raw["Contents"][0]["Key"], raw["EncodingType"]], ["%C3%A9%20%C3%BC%2B%26", "url"])
    found, token = [], None
    while True:
        more = {"ContinuationToken": token} if token else {}
        page = w.s3.list_objects_v2(Bucket=name, Delimiter="/", MaxKeys=1, **more)
        equal(page["KeyCount"], 1)
        found += keys(page) + groups(page)
        if not page["IsTruncated"]:
            break
        token = page["NextContinuationToken"]
    equal(found, ["a", "b/", "c", "d/", "z\x01", "é ü+&"])
    found, marker = [], ""
    while True:
        page = w.s3.list_objects(Bucket=name, Delimiter="/", MaxKeys=2, Marker=marker)
        found += keys(page) + groups(page)
        if not page["IsTruncated"]:
            break
        marker = page["NextMarker"]
    equal(sorted(found), sorted(["a", "b/", "c", "d/", "é ü+&", "z\x01"]))
    equal(keys(w.s3.list_objects_v2(Bucket=name, StartAfter="b/2")), stored[3:])
    entry = w.s3.list_objects_v2(Bucket=name, FetchOwner=True)["Contents"][0]
    equal((entry["Size"], entry["StorageClass"], entry["Owner"]["ID"]), (1, "STANDARD", "demo"))
    assert "Owner" not in w.s3.list_objects_v2(Bucket=name)["Contents"][0]
    token = w.s3.list_objects_v2(Bucket=name, MaxKeys=1)["NextContinuationToken"]
    refused("InvalidArgument", w.s3.list_objects_v2, Bucket=w.bucket(), ContinuationToken=token, status=400)
    refused("InvalidArgument", w.s3.list_objects_v2, Bucket=name, ContinuationToken="forged", status=400)
    refused("InvalidArgument", w.s3.list_objects_v2, Bucket=name, ContinuationToken=token[:-2] + "AA", status=400)
    refused("InvalidArgument", w.s3.list_objects_v2, Bucket=name, ContinuationToken=token, Prefix="b", status=400)
    tokens_of_others(w, token)
    words_for_snapshots(w, name)
    w.put(name, "more/é 1", "more/é 2")
    w.s3.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})
    raw = w.s3.list_object_versions(Bucket=name, Prefix="more/é", MaxKeys=1, EncodingType="url")
    equal((raw["Versions"][0]["Key"], raw["NextKeyMarker"]), ("more/%C3%A9%201", "more/%C3%A9%201"))
    w.s3.create_multipart_upload(Bucket=name, Key="é 1")
    equal(w.s3.list_multipart_uploads(Bucket=name, EncodingType="url")["Uploads"][0]["Key"], "%C3%A9%201")


def words_for_snapshots(w, name):
    """Nothing but true and false, and only where there are snapshots."""
    for word, code, status in (("yes", "InvalidArgument", 400), ("", "InvalidArgument", 400), ("true", "NotImplemented", 501)):
        client = w.client(w.key, w.secret)
        lists = {"ListMultipartUploads": client.list_multipart_uploads}
        if code == "InvalidArgument":
            lists |= {"ListObjects": client.list_objects, "ListObjectsV2": client.list_objects_v2,
                      "ListObjectVersions": client.list_object_versions}
        for operation, call in lists.items():
            with_header(client, operation, x_hive_snapshot=word)
            refused(code, call, Bucket=name, status=status)
    client = w.client(w.key, w.secret)
    with_header(client, "ListObjectsV2", x_hive_snapshot="false")
    answer = client.list_objects_v2(Bucket=name)
    assert "x-hive-snapshot" not in answer["ResponseMetadata"]["HTTPHeaders"], answer


def tokens_of_others(w, token):
    """A token is its own bucket's: another account's takes it as little, and so does a bucket that is made anew."""
    theirs = w.name()
    w.other.create_bucket(Bucket=theirs)
    w.other.put_object(Bucket=theirs, Key="a", Body=b"")
    refused("InvalidArgument", w.other.list_objects_v2, Bucket=theirs, ContinuationToken=token, status=400)
    name = w.bucket()
    w.put(name, "a", "b")
    old = w.s3.list_objects_v2(Bucket=name, MaxKeys=1)["NextContinuationToken"]
    w.s3.delete_objects(Bucket=name, Delete={"Objects": [{"Key": "a"}, {"Key": "b"}]})
    w.s3.delete_bucket(Bucket=name)
    w.other.create_bucket(Bucket=name)
    refused("InvalidArgument", w.other.list_objects_v2, Bucket=name, ContinuationToken=old, status=400)
    refused("AccessDenied", w.s3.list_objects_v2, Bucket=name, ContinuationToken=old, status=403)


@case("boto3")
def many_pages(w):
    name = w.bucket()
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda number: w.put(name, f"k{number:05}"), range(2500)))
    pages = list(w.s3.get_paginator("list_objects_v2").paginate(Bucket=name))
    equal([len(keys(page)) for page in pages], [1000, 1000, 500])
    equal([key for page in pages for key in keys(page)], [f"k{number:05}" for number in range(2500)])


@case("boto3")
def versions(w):
    name = w.bucket()
    w.put(name, "k", body=b"0")
    equal(w.s3.get_bucket_versioning(Bucket=name).get("Status"), None)
    w.s3.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})
    equal(w.s3.get_bucket_versioning(Bucket=name)["Status"], "Enabled")
    ids = [w.s3.put_object(Bucket=name, Key="k", Body=str(n).encode())["VersionId"] for n in (1, 2)]
    get = lambda **more: w.s3.get_object(Bucket=name, Key="k", **more)["Body"].read()
    equal((get(), get(VersionId=ids[0]), get(VersionId="null")), (b"2", b"1", b"0"))
    marker = w.s3.delete_object(Bucket=name, Key="k")
    equal(marker["DeleteMarker"], True)
    refused("NoSuchKey", get)
    refused("MethodNotAllowed", get, VersionId=marker["VersionId"], status=405)
    page = w.s3.list_object_versions(Bucket=name)
    equal([entry["VersionId"] for entry in page["Versions"]], [ids[1], ids[0], "null"])
    equal((page["DeleteMarkers"][0]["VersionId"], page["DeleteMarkers"][0]["IsLatest"]), (marker["VersionId"], True))
    equal(w.s3.delete_object(Bucket=name, Key="k", VersionId=marker["VersionId"])["DeleteMarker"], True)
    equal(get(), b"2")
    gone = w.s3.put_object(Bucket=name, Key="gone", Body=b"")["VersionId"]
    w.s3.delete_object(Bucket=name, Key="gone", VersionId=gone)
    refused("NoSuchVersion", get, VersionId=gone, status=404)
    refused("InvalidArgument", get, VersionId="no version", status=400)
    found, more = [], {}
    while True:
        page = w.s3.list_object_versions(Bucket=name, MaxKeys=1, **more)
        found += [entry["VersionId"] for entry in page.get("Versions", [])]
        if not page["IsTruncated"]:
            break
        more = {"KeyMarker": page["NextKeyMarker"], "VersionIdMarker": page["NextVersionIdMarker"]}
    equal(found, [ids[1], ids[0], "null"])
    w.s3.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Suspended"})
    equal(w.s3.put_object(Bucket=name, Key="k", Body=b"3")["VersionId"], "null")
    equal((get(VersionId="null"), get(VersionId=ids[0])), (b"3", b"1"))
    w.s3.copy_object(Bucket=name, Key="c", CopySource={"Bucket": name, "Key": "k", "VersionId": ids[0]})
    equal(w.s3.get_object(Bucket=name, Key="c")["Body"].read(), b"1")
    refused("BucketNotEmpty", w.s3.delete_bucket, Bucket=name)
    for entry in w.s3.list_object_versions(Bucket=name)["Versions"]:
        w.s3.delete_object(Bucket=name, Key=entry["Key"], VersionId=entry["VersionId"])
    w.s3.delete_bucket(Bucket=name)


@case("boto3")
def tags(w):
    name = w.bucket()
    refused("NoSuchTagSet", w.s3.get_bucket_tagging, Bucket=name, status=404)
    set_ = [{"Key": "a", "Value": "1"}, {"Key": "b c", "Value": ""}]
    w.s3.put_bucket_tagging(Bucket=name, Tagging={"TagSet": set_})
    equal(w.s3.get_bucket_tagging(Bucket=name)["TagSet"], set_)
    w.s3.delete_bucket_tagging(Bucket=name)
    refused("NoSuchTagSet", w.s3.get_bucket_tagging, Bucket=name)
    w.s3.put_object(Bucket=name, Key="k", Body=b"", Tagging="x=1&y%20z=2")
    equal(len(w.s3.get_object_tagging(Bucket=name, Key="k")["TagSet"]), 2)
    w.s3.put_object_tagging(Bucket=name, Key="k", Tagging={"TagSet": set_})
    equal(w.s3.get_object_tagging(Bucket=name, Key="k")["TagSet"], set_)
    w.s3.delete_object_tagging(Bucket=name, Key="k")
    equal(w.s3.get_object_tagging(Bucket=name, Key="k")["TagSet"], [])
    many = [{"Key": str(number), "Value": ""} for number in range(11)]
    refused("InvalidTag", w.s3.put_object_tagging, Bucket=name, Key="k", Tagging={"TagSet": many}, status=400)
    twice = [{"Key": "a", "Value": ""}, {"Key": "a", "Value": ""}]
    refused("InvalidTag", w.s3.put_object_tagging, Bucket=name, Key="k", Tagging={"TagSet": twice}, status=400)


@case("boto3")
def acls(w):
    closed = w.bucket()
    w.put(closed, "k")
    refused("AccessControlListNotSupported", w.s3.put_object, Bucket=closed, Key="k", Body=b"", ACL="public-read")
    refused("AccessControlListNotSupported", w.s3.put_bucket_acl, Bucket=closed, ACL="public-read")
    equal(w.s3.get_bucket_acl(Bucket=closed)["Owner"]["ID"], "demo")
    refused("AccessDenied", w.anonymous.get_object, Bucket=closed, Key="k", status=403)
    refused("AccessDenied", w.other.get_object, Bucket=closed, Key="k", status=403)
    refused("AccessDenied", w.other.list_objects_v2, Bucket=closed, status=403)
    refused("AccessDenied", w.other.get_object, Bucket=closed, Key="none", status=403)
    name = w.bucket(open_to_acls=True)
    w.s3.put_object(Bucket=name, Key="open", Body=b"o", ACL="public-read")
    w.s3.put_object(Bucket=name, Key="own", Body=b"x")
    equal(w.anonymous.get_object(Bucket=name, Key="open")["Body"].read(), b"o")
    refused("AccessDenied", w.anonymous.get_object, Bucket=name, Key="own")
    w.s3.put_object_acl(Bucket=name, Key="own", GrantRead='id="other"')
    equal(w.other.get_object(Bucket=name, Key="own")["Body"].read(), b"x")
    grants = w.s3.get_object_acl(Bucket=name, Key="own")["Grants"]
    equal([(grant["Grantee"]["ID"], grant["Permission"]) for grant in grants], [("other", "READ")])
    refused("AccessDenied", w.other.put_object, Bucket=name, Key="theirs", Body=b"")
    w.s3.put_bucket_acl(Bucket=name, ACL="public-read-write")
    w.other.put_object(Bucket=name, Key="theirs", Body=b"t")
    refused("AccessDenied", w.s3.get_object, Bucket=name, Key="theirs")
    equal(keys(w.anonymous.list_objects_v2(Bucket=name)), ["open", "own", "theirs"])
    policy = w.s3.get_bucket_acl(Bucket=name)
    policy = {"Owner": policy["Owner"], "Grants": policy["Grants"]}
    w.s3.put_bucket_acl(Bucket=name, AccessControlPolicy=policy)
    w.s3.put_public_access_block(Bucket=name, PublicAccessBlockConfiguration={"IgnorePublicAcls": True, "BlockPublicAcls": True})
    refused("AccessDenied", w.anonymous.get_object, Bucket=name, Key="open")
    refused("AccessDenied", w.s3.put_object_acl, Bucket=name, Key="open", ACL="public-read")
    equal(w.s3.get_public_access_block(Bucket=name)["PublicAccessBlockConfiguration"]["BlockPublicPolicy"], False)
    w.s3.delete_public_access_block(Bucket=name)
    refused("NoSuchPublicAccessBlockConfiguration", w.s3.get_public_access_block, Bucket=name)


@case("boto3")
def ownership(w):
    name = w.bucket()
    rules = w.s3.get_bucket_ownership_controls(Bucket=name)["OwnershipControls"]["Rules"]
    equal(rules, [{"ObjectOwnership": "BucketOwnerEnforced"}])
    preferred = {"Rules": [{"ObjectOwnership": "BucketOwnerPreferred"}]}
    w.s3.put_bucket_ownership_controls(Bucket=name, OwnershipControls=preferred)
    w.s3.put_bucket_acl(Bucket=name, GrantWrite='id="other"', GrantFullControl='id="demo"')
    w.other.put_object(Bucket=name, Key="given", Body=b"g", ACL="bucket-owner-full-control")
    equal(w.s3.get_object_acl(Bucket=name, Key="given")["Owner"]["ID"], "demo")
    w.s3.delete_bucket_ownership_controls(Bucket=name)
    refused("OwnershipControlsNotFoundError", w.s3.get_bucket_ownership_controls, Bucket=name, status=404)


@case("boto3")
def policies(w):
    name = w.bucket()
    w.put(name, "open/k", "shut/k")
    for call in (w.s3.get_bucket_policy, w.s3.get_bucket_policy_status):
        refused("NoSuchBucketPolicy", call, Bucket=name, status=404)
    resource = f"arn:aws:s3:::{name}"
    statement = {"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": f"{resource}/open/*"}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    refused("AccessDenied", w.s3.put_bucket_policy, Bucket=name, Policy=policy)
    w.s3.delete_public_access_block(Bucket=name)
    w.s3.put_bucket_policy(Bucket=name, Policy=policy)
    equal(json.loads(w.s3.get_bucket_policy(Bucket=name)["Policy"]), json.loads(policy))
    equal(w.s3.get_bucket_policy_status(Bucket=name)["PolicyStatus"]["IsPublic"], True)
    refused("AccessDenied", w.other.get_bucket_policy_status, Bucket=name, status=403)
    equal(w.anonymous.get_object(Bucket=name, Key="open/k")["Body"].read(), b"x")
    refused("AccessDenied", w.anonymous.get_object, Bucket=name, Key="shut/k")
    refused("AccessDenied", w.anonymous.get_object, Bucket=name, Key="open/none")
    two = [
        {"Effect": "Allow", "Principal": {"AWS": "arn:aws:iam::other:root"}, "Action": "s3:*", "Resource": [resource, f"{resource}/*"]},
        {"Effect": "Deny", "Principal": "*", "Action": "s3:DeleteObject", "Resource": f"{resource}/*"},
        {"Effect": "Deny", "Principal": {"AWS": "other"}, "Action": "s3:ListBucket", "Resource": resource,
         "Condition": {"StringNotLike": {"s3:prefix": "open/*"}}},
    ]
    w.s3.put_bucket_policy(Bucket=name, Policy=json.dumps({"Version": "2012-10-17", "Statement": two}))
    w.other.put_object(Bucket=name, Key="theirs", Body=b"t")
    equal(w.s3.get_object(Bucket=name, Key="theirs")["Body"].read(), b"t")
    equal(keys(w.other.list_objects_v2(Bucket=name, Prefix="open/")), ["open/k"])
    refused("AccessDenied", w.other.list_objects_v2, Bucket=name, Prefix="shut/")
    refused("AccessDenied", w.other.delete_object, Bucket=name, Key="theirs")
    refused("AccessDenied", w.s3.delete_object, Bucket=name, Key="theirs")
    answer = w.s3.delete_objects(Bucket=name, Delete={"Objects": [{"Key": "theirs"}]})
    equal([error["Code"] for error in answer["Errors"]], ["AccessDenied"])
    w.s3.delete_bucket_policy(Bucket=name)
    w.s3.delete_object(Bucket=name, Key="theirs")
    for bad in ("", "{}", '{"Version":"2012-10-17","Statement":[{"Effect":"Allow"}]}'):
        refused("MalformedPolicy", w.s3.put_bucket_policy, Bucket=name, Policy=bad, status=400)


@case("boto3")
def cors_lifecycle_encryption(w):
    name = w.bucket()
    refused("NoSuchCORSConfiguration", w.s3.get_bucket_cors, Bucket=name, status=404)
    rules = [{"ID": "r", "AllowedMethods": ["GET", "PUT"], "AllowedOrigins": ["https://*.example"],
              "AllowedHeaders": ["*"], "ExposeHeaders": ["ETag"], "MaxAgeSeconds": 60}]
    w.s3.put_bucket_cors(Bucket=name, CORSConfiguration={"CORSRules": rules})
    equal(w.s3.get_bucket_cors(Bucket=name)["CORSRules"], rules)
    w.s3.delete_bucket_cors(Bucket=name)
    bad = [{"AllowedMethods": ["PATCH"], "AllowedOrigins": ["*"]}]
    refused("InvalidRequest", w.s3.put_bucket_cors, Bucket=name, CORSConfiguration={"CORSRules": bad})
    refused("NoSuchLifecycleConfiguration", w.s3.get_bucket_lifecycle_configuration, Bucket=name, status=404)
    rules = [
        {"ID": "a", "Status": "Enabled", "Filter": {"Prefix": "logs/"}, "Expiration": {"Days": 3}},
        {"ID": "b", "Status": "Disabled", "Filter": {"And": {"Prefix": "x", "Tags": [{"Key": "k", "Value": "v"}]}},
         "NoncurrentVersionExpiration": {"NoncurrentDays": 2, "NewerNoncurrentVersions": 5}},
        {"ID": "c", "Status": "Enabled", "Filter": {"Prefix": ""}, "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 7}},
    ]
    put = lambda rules: w.s3.put_bucket_lifecycle_configuration(Bucket=name, LifecycleConfiguration={"Rules": rules})
    put(rules)
    equal(w.s3.get_bucket_lifecycle_configuration(Bucket=name)["Rules"], rules)
    refused("InvalidArgument", put, [{"Status": "Enabled", "Filter": {"Prefix": ""}, "Expiration": {"Days": 0}}])
    w.s3.delete_bucket_lifecycle(Bucket=name)
    # Nothing is encrypted at rest, so nothing is answered as if it were.
    refused("ServerSideEncryptionConfigurationNotFoundError", w.s3.get_bucket_encryption, Bucket=name, status=404)
    for algorithm in ("AES256", "aws:kms"):
        rules = {"Rules": [{"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": algorithm}}]}
        refused("NotImplemented", w.s3.put_bucket_encryption, Bucket=name, ServerSideEncryptionConfiguration=rules, status=501)
        refused("NotImplemented", w.s3.put_object, Bucket=name, Key="k", ServerSideEncryption=algorithm, status=501)
        refused("NotImplemented", w.s3.create_multipart_upload, Bucket=name, Key="k", ServerSideEncryption=algorithm, status=501)
    w.s3.delete_bucket_encryption(Bucket=name)
    equal("ServerSideEncryption" in w.s3.put_object(Bucket=name, Key="k", Body=b"x"), False)


def least(shape, name):
    """The least input of a call: what must be there, and a bucket's name where one is asked for."""
    if shape.type_name == "structure":
        return {key: least(member, name) if key != "Bucket" else name
                for key, member in shape.members.items() if key in shape.required_members}
    values = {"string": (getattr(shape, "enum", None) or ["x"])[0], "integer": 1, "long": 1, "boolean": False,
              "timestamp": datetime.datetime(2030, 1, 1), "blob": b"x", "map": {}}
    return [least(shape.member, name)] if shape.type_name == "list" else values[shape.type_name]


@case("boto3")
def what_is_not_offered_says_so(w):
    """Every call that the guide's table has as `NotImplemented` is refused so, and not passed over in silence."""
    name = w.bucket()
    w.put(name, "x")
    client = w.client(w.key, w.secret, s3={"addressing_style": "path", "disable_s3_express_session_auth": True})
    model, asked = client.meta.service_model, 0
    for call in sorted(guide.REFUSED):
        if call in guide.BEYOND_CLIENTS or call not in model.operation_names:
            continue
        shape = model.operation_model(call).input_shape
        method = getattr(client, botocore.xform_name(call))
        refused("NotImplemented", method, status=501, **(least(shape, name) if shape else {}))
        asked += 1
    assert asked > 15, asked
    equal(w.s3.get_object(Bucket=name, Key="x")["Body"].read(), b"x")


@case("boto3")
def settings_that_nobody_made(w):
    """What tools read routinely is answered as S3 answers it of a bucket without the setting."""
    name = w.bucket()
    assert "Status" not in w.s3.get_bucket_accelerate_configuration(Bucket=name)
    assert "LoggingEnabled" not in w.s3.get_bucket_logging(Bucket=name)
    found = w.s3.get_bucket_notification_configuration(Bucket=name)
    equal([key for key in found if key != "ResponseMetadata"], [])
    equal(w.s3.get_bucket_request_payment(Bucket=name)["Payer"], "BucketOwner")
    refused("NoSuchWebsiteConfiguration", w.s3.get_bucket_website, Bucket=name, status=404)
    refused("ReplicationConfigurationNotFoundError", w.s3.get_bucket_replication, Bucket=name, status=404)
    w.s3.delete_bucket_website(Bucket=name)
    w.s3.delete_bucket_replication(Bucket=name)
    for kind in ("analytics", "intelligent_tiering", "inventory", "metrics"):
        equal(getattr(w.s3, f"list_bucket_{kind}_configurations")(Bucket=name)["IsTruncated"], False)
        refused("NoSuchConfiguration", getattr(w.s3, f"get_bucket_{kind}_configuration"), Bucket=name, Id="x", status=404)
    refused("AccessDenied", w.other.get_bucket_logging, Bucket=name, status=403)
    refused("NoSuchBucket", w.s3.get_bucket_logging, Bucket=w.name(), status=404)


@case("raw")
def browsers_from_elsewhere(w):
    name = w.bucket()
    w.put(name, "k")
    rules = [{"AllowedMethods": ["GET", "PUT"], "AllowedOrigins": ["https://*.example"], "AllowedHeaders": ["x-amz-*"],
              "ExposeHeaders": ["ETag"], "MaxAgeSeconds": 60}]
    w.s3.put_bucket_cors(Bucket=name, CORSConfiguration={"CORSRules": rules})

    def ask(method, origin, path="/k", **headers):
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        request = urllib.request.Request(f"{w.endpoint}/{name}{path}", method=method, headers={"Origin": origin, **headers})
        try:
            with urllib.request.urlopen(request) as answer:
                return answer.status, dict(answer.headers)
        except urllib.error.HTTPError as error:
            return error.code, dict(error.headers)

    status, headers = ask("OPTIONS", "https://a.example", Access_Control_Request_Method="PUT",
                          Access_Control_Request_Headers="x-amz-date")
    equal((status, headers["access-control-allow-origin"]), (200, "https://a.example"))
    equal((headers["access-control-allow-headers"], headers["access-control-max-age"]), ("x-amz-date", "60"))
    equal(ask("OPTIONS", "https://a.other", Access_Control_Request_Method="PUT")[0], 403)
    equal(ask("OPTIONS", "https://a.example", Access_Control_Request_Method="DELETE")[0], 403)
    status, headers = ask("GET", "https://a.example")
    equal((status, headers["access-control-expose-headers"]), (403, "ETag"))
    assert "access-control-allow-origin" not in ask("GET", "https://a.other")[1]


@case("boto3")
def object_lock(w):
    name = w.bucket(ObjectLockEnabledForBucket=True)
    equal(w.s3.get_bucket_versioning(Bucket=name)["Status"], "Enabled")
    equal(w.s3.get_object_lock_configuration(Bucket=name)["ObjectLockConfiguration"], {"ObjectLockEnabled": "Enabled"})
    put = w.s3.put_object(Bucket=name, Key="k", Body=b"1")
    version = {"Bucket": name, "Key": "k", "VersionId": put["VersionId"]}
    w.s3.put_object_legal_hold(**version, LegalHold={"Status": "ON"})
    equal(w.s3.get_object_legal_hold(**version)["LegalHold"]["Status"], "ON")
    refused("AccessDenied", w.s3.delete_object, **version, status=403)
    w.s3.put_object_legal_hold(**version, LegalHold={"Status": "OFF"})
    now = datetime.datetime.now(datetime.timezone.utc).replace(microsecond=0)
    soon, later = now + datetime.timedelta(hours=1), now + datetime.timedelta(hours=2)
    keep = lambda until, mode="GOVERNANCE": {"Mode": mode, "RetainUntilDate": until}
    refused("NoSuchObjectLockConfiguration", w.s3.get_object_retention, **version, status=404)
    w.s3.put_object_retention(**version, Retention=keep(later))
    equal(w.s3.get_object_retention(**version)["Retention"], keep(later))
    refused("AccessDenied", w.s3.put_object_retention, **version, Retention=keep(soon))
    w.s3.put_object_retention(**version, Retention=keep(soon), BypassGovernanceRetention=True)
    refused("AccessDenied", w.s3.delete_object, **version)
    w.s3.delete_object(Bucket=name, Key="k")
    w.s3.delete_object(**version, BypassGovernanceRetention=True)
    default = {"ObjectLockEnabled": "Enabled", "Rule": {"DefaultRetention": {"Mode": "COMPLIANCE", "Days": 1}}}
    w.s3.put_object_lock_configuration(Bucket=name, ObjectLockConfiguration=default)
    put = w.s3.put_object(Bucket=name, Key="c", Body=b"1")
    equal(w.s3.head_object(Bucket=name, Key="c")["ObjectLockMode"], "COMPLIANCE")
    refused("AccessDenied", w.s3.delete_object, Bucket=name, Key="c", VersionId=put["VersionId"],
            BypassGovernanceRetention=True)
    plain = w.bucket()
    refused("ObjectLockConfigurationNotFoundError", w.s3.get_object_lock_configuration, Bucket=plain, status=404)
    refused("InvalidBucketState", w.s3.put_object_lock_configuration, Bucket=plain, ObjectLockConfiguration=default)
    w.put(plain, "k")
    refused("InvalidRequest", w.s3.put_object_legal_hold, Bucket=plain, Key="k", LegalHold={"Status": "ON"})
    refused("InvalidObjectState", w.s3.restore_object, Bucket=plain, Key="k", RestoreRequest={"Days": 1}, status=403)


def fetch(url, method="GET", body=None, headers=None):
    request = urllib.request.Request(url, method=method, data=body, headers=headers or {})
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


@case("boto3")
def presigned_urls(w):
    name = w.bucket()
    put = w.s3.generate_presigned_url("put_object", {"Bucket": name, "Key": "a b/é"}, ExpiresIn=60)
    equal(fetch(put, "PUT", b"signed")[0], 200)
    get = w.s3.generate_presigned_url("get_object", {"Bucket": name, "Key": "a b/é", "ResponseContentType": "a/b"})
    equal(fetch(get), (200, b"signed"))
    digit = "1" if get[-1] == "0" else "0"
    status, body = fetch(get[:-1] + digit)
    assert status == 403 and b"SignatureDoesNotMatch" in body, (status, body)
    status, body = fetch(f"{w.endpoint}/{name}/a%20b/%C3%A9")
    assert status == 403 and b"AccessDenied" in body, (status, body)
    delete = w.s3.generate_presigned_url("delete_object", {"Bucket": name, "Key": "a b/é"})
    equal(fetch(delete, "DELETE")[0], 204)
    equal(fetch(get)[0], 404)


@case("boto3")
def virtual_hosts(w):
    port = w.endpoint.rsplit(":", 1)[1]
    name = w.bucket()
    w.put(name, "a/b", body=b"by host")
    request = urllib.request.Request(f"{w.endpoint}/a/b", headers={"Host": f"{name}.localhost"})
    try:
        urllib.request.urlopen(request)
        raise AssertionError("an unsigned request was let through")
    except urllib.error.HTTPError as error:
        assert error.code == 403, error.code
    w.s3.delete_public_access_block(Bucket=name)
    policy = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": f"arn:aws:s3:::{name}/*"}]}
    w.s3.put_bucket_policy(Bucket=name, Policy=json.dumps(policy))
    with urllib.request.urlopen(request) as answer:
        equal(answer.read(), b"by host")
    assert port


@case("boto3")
def multipart(w):
    name = w.bucket()
    body = os.urandom(50 * MIB)
    config = boto3.s3.transfer.TransferConfig(multipart_threshold=8 * MIB, multipart_chunksize=8 * MIB, max_concurrency=4)
    w.s3.upload_fileobj(io.BytesIO(body), name, "fifty", Config=config, ExtraArgs={"Metadata": {"a": "b"}})
    got = io.BytesIO()
    w.s3.download_fileobj(name, "fifty", got, Config=config)
    assert got.getvalue() == body
    head = w.s3.head_object(Bucket=name, Key="fifty")
    assert head["ETag"].endswith('-7"') and head["Metadata"] == {"a": "b"}, head
    edge = 8 * MIB
    part = w.s3.get_object(Bucket=name, Key="fifty", Range=f"bytes={edge - 5}-{edge + 4}")["Body"].read()
    equal(part, body[edge - 5:edge + 5])
    part = w.s3.get_object(Bucket=name, Key="fifty", PartNumber=7)
    equal((part["Body"].read(), part["PartsCount"]), (body[48 * MIB:], 7))
    parts = w.s3.get_object_attributes(Bucket=name, Key="fifty", ObjectAttributes=["ObjectParts", "Checksum"])
    equal((parts["ObjectParts"]["TotalPartsCount"], parts["ObjectParts"]["Parts"][6]["Size"]), (7, 2 * MIB))
    w.s3.copy({"Bucket": name, "Key": "fifty"}, name, "copy", Config=config)
    got = io.BytesIO()
    w.s3.download_fileobj(name, "copy", got, Config=config)
    assert got.getvalue() == body


@case("boto3")
def multipart_by_hand(w):
    name = w.bucket()
    begin = lambda key="k", **more: w.s3.create_multipart_upload(Bucket=name, Key=key, **more)["UploadId"]
    upload = begin(ContentType="a/b")
    at = {"Bucket": name, "Key": "k", "UploadId": upload}
    first, last = os.urandom(5 * MIB), b"tail"
    one = w.s3.upload_part(**at, PartNumber=1, Body=b"replaced")["ETag"]
    one = w.s3.upload_part(**at, PartNumber=1, Body=first)["ETag"]
    nine = w.s3.upload_part(**at, PartNumber=9, Body=last)["ETag"]
    unused = w.s3.upload_part(**at, PartNumber=10, Body=b"unused")["ETag"]
    listed = w.s3.list_parts(**at, MaxParts=2)
    equal([part["PartNumber"] for part in listed["Parts"]], [1, 9])
    equal((listed["IsTruncated"], listed["NextPartNumberMarker"]), (True, 9))
    equal([part["PartNumber"] for part in w.s3.list_parts(**at, PartNumberMarker=9)["Parts"]], [10])
    equal([entry["UploadId"] for entry in w.s3.list_multipart_uploads(Bucket=name)["Uploads"]], [upload])
    complete = lambda parts, **more: w.s3.complete_multipart_upload(
        **at, MultipartUpload={"Parts": [{"PartNumber": number, "ETag": etag} for number, etag in parts]}, **more)
    refused("InvalidPart", complete, [(1, one), (2, one)], status=400)
    refused("InvalidPart", complete, [(1, nine), (9, nine)], status=400)
    refused("InvalidPartOrder", complete, [(9, nine), (1, one)], status=400)
    refused("EntityTooSmall", complete, [(1, one), (9, nine), (10, unused)], status=400)
    refused("MalformedXML", complete, [], status=400)
    refused("InvalidRequest", complete, [(1, one), (9, nine)], MpuObjectSize=7, status=400)
    done = complete([(1, one), (9, nine)], MpuObjectSize=5 * MIB + 4)
    equal(complete([(1, one), (9, nine)])["ETag"], done["ETag"])
    md5 = hashlib.md5(hashlib.md5(first).digest() + hashlib.md5(last).digest()).hexdigest()
    equal(done["ETag"], f'"{md5}-2"')
    got = w.s3.get_object(Bucket=name, Key="k")
    equal((got["Body"].read(), got["ContentType"]), (first + last, "a/b"))
    refused("NoSuchUpload", w.s3.upload_part, **at, PartNumber=1, Body=b"x", status=404)
    aborted = {"Bucket": name, "Key": "k", "UploadId": begin()}
    w.s3.upload_part(**aborted, PartNumber=1, Body=first)
    w.s3.abort_multipart_upload(**aborted)
    refused("NoSuchUpload", w.s3.list_parts, **aborted, status=404)
    refused("NoSuchUpload", w.s3.abort_multipart_upload, **aborted, status=404)
    copied = {"Bucket": name, "Key": "copied", "UploadId": begin("copied")}
    source = {"Bucket": name, "Key": "k"}
    a = w.s3.upload_part_copy(**copied, PartNumber=1, CopySource=source, CopySourceRange=f"bytes=0-{5 * MIB - 1}")
    b = w.s3.upload_part_copy(**copied, PartNumber=2, CopySource=source, CopySourceRange=f"bytes={5 * MIB}-{5 * MIB + 3}")
    refused("InvalidArgument", w.s3.upload_part_copy, **copied, PartNumber=3, CopySource=source, CopySourceRange="bytes=0-99999999")
    etags = [a["CopyPartResult"]["ETag"], b["CopyPartResult"]["ETag"]]
    w.s3.complete_multipart_upload(**copied, MultipartUpload={"Parts": [
        {"PartNumber": number + 1, "ETag": etag} for number, etag in enumerate(etags)]})
    equal(w.s3.get_object(Bucket=name, Key="copied")["Body"].read(), first + last)
    for key in ("p/a", "p/b", "q"):
        begin(key)
    page = w.s3.list_multipart_uploads(Bucket=name, Delimiter="/")
    equal(([entry["Key"] for entry in page["Uploads"]], groups(page)), (["q"], ["p/"]))
    page = w.s3.list_multipart_uploads(Bucket=name, MaxUploads=2)
    equal(([entry["Key"] for entry in page["Uploads"]], page["IsTruncated"]), (["p/a", "p/b"], True))
    page = w.s3.list_multipart_uploads(Bucket=name, KeyMarker=page["NextKeyMarker"], UploadIdMarker=page["NextUploadIdMarker"])
    equal([entry["Key"] for entry in page["Uploads"]], ["q"])


@case("boto3")
def multipart_checksums(w):
    name = w.bucket()
    parts = [os.urandom(5 * MIB), b"end"]
    whole = b"".join(parts)
    for algorithm, kind in (("CRC32", "FULL_OBJECT"), ("CRC32", "COMPOSITE"), ("SHA256", "COMPOSITE")):
        key = f"{algorithm}-{kind}"
        at = {"Bucket": name, "Key": key}
        upload = w.s3.create_multipart_upload(**at, ChecksumAlgorithm=algorithm, ChecksumType=kind)["UploadId"]
        sent = []
        for number, part in enumerate(parts, 1):
            answer = w.s3.upload_part(**at, UploadId=upload, PartNumber=number, Body=part, ChecksumAlgorithm=algorithm)
            field = f"Checksum{algorithm}"
            sent.append({"PartNumber": number, "ETag": answer["ETag"], field: answer[field]})
        refused("InvalidRequest", w.s3.upload_part, **at, UploadId=upload, PartNumber=3, Body=b"x", ChecksumAlgorithm="SHA1")
        more = {}
        if kind == "FULL_OBJECT":
            more = {"ChecksumCRC32": base64.b64encode(zlib.crc32(whole).to_bytes(4, "big")).decode()}
            wrong = {"ChecksumCRC32": base64.b64encode(b"0000").decode()}
            refused("BadDigest", w.s3.complete_multipart_upload, **at, UploadId=upload, MultipartUpload={"Parts": sent}, **wrong)
        done = w.s3.complete_multipart_upload(**at, UploadId=upload, MultipartUpload={"Parts": sent}, **more)
        equal(done["ChecksumType"], kind)
        if kind == "FULL_OBJECT":
            equal(done["ChecksumCRC32"], more["ChecksumCRC32"])
        else:
            assert done[field].endswith("-2"), done
    refused("InvalidRequest", w.s3.create_multipart_upload, Bucket=name, Key="k", ChecksumAlgorithm="SHA256", ChecksumType="FULL_OBJECT")


def send_form(url, fields, body, filename="a b.txt"):
    """Sends a form as a browser does; its status, headers and text."""
    edge = "xx-form-boundary"
    parts = [f'--{edge}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()
             for name, value in fields.items()]
    parts.append(f'--{edge}\r\nContent-Disposition: form-data; name="file"; filename="{filename}"\r\n'
                 "Content-Type: text/plain\r\n\r\n".encode() + body + f"\r\n--{edge}--\r\n".encode())
    request = urllib.request.Request(url, data=b"".join(parts), method="POST",
                                     headers={"Content-Type": f"multipart/form-data; boundary={edge}"})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.headers, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read().decode()


@case("boto3")
def forms(w):
    name = w.bucket()
    post = w.s3.generate_presigned_post(name, "in/${filename}", Conditions=[["content-length-range", 1, 3 * MIB]])
    body = os.urandom(2 * MIB)
    status, headers, _ = send_form(post["url"], post["fields"], body)
    equal(status, 204)
    got = w.s3.get_object(Bucket=name, Key="in/a b.txt")
    assert got["Body"].read() == body and headers["ETag"] == got["ETag"]
    for size, code in ((0, "EntityTooSmall"), (3 * MIB + 1, "EntityTooLarge")):
        status, _, text = send_form(post["url"], post["fields"], b"x" * size, "other")
        assert status == 400 and f"<Code>{code}</Code>" in text, f"{size}: {status} {text}"
    refused("404", w.s3.head_object, Bucket=name, Key="in/other", status=404)
    more = {"Content-Type": "text/plain", "x-amz-meta-colour": "blue", "success_action_status": "201"}
    conditions = [{field: value} for field, value in more.items()]
    post = w.s3.generate_presigned_post(name, "k", Fields=dict(more), Conditions=conditions)
    status, _, text = send_form(post["url"], post["fields"], b"hello")
    assert status == 201 and f"<Bucket>{name}</Bucket><Key>k</Key>" in text, f"{status} {text}"
    head = w.s3.head_object(Bucket=name, Key="k")
    equal((head["ContentType"], head["Metadata"]), ("text/plain", {"colour": "blue"}))
    spoiled = {
        "acl": "public-read", "key": "elsewhere", "x-amz-signature": "00" * 32, "x-amz-copy-source": "/a/b",
        "x-amz-date": "20200101T000000Z",
    }
    for field, value in spoiled.items():
        status, _, text = send_form(post["url"], {**post["fields"], field: value}, b"hello")
        assert status in (400, 403), f"{field}: {status} {text}"
    status, _, text = send_form(post["url"], {"key": "k"}, b"hello")
    assert status == 403 and "AccessDenied" in text, f"anonymous: {status} {text}"
    expired = w.s3.generate_presigned_post(name, "k", ExpiresIn=-10)
    status, _, text = send_form(expired["url"], expired["fields"], b"hello")
    assert status == 403 and "expired" in text, f"{status} {text}"


@case("boto3")
def presigned_urls_hold_what_was_signed(w):
    name, other = w.bucket(), w.bucket()
    w.put(other, "private", body=b"secret")
    url = w.s3.generate_presigned_url("put_object", {"Bucket": name, "Key": "k"}, ExpiresIn=60)
    for header, value in (("x-amz-copy-source", f"/{other}/private"), ("x-amz-acl", "public-read"),
                          ("x-amz-meta-a", "b")):
        request = urllib.request.Request(url, data=b"", method="PUT", headers={header: value})
        try:
            urllib.request.urlopen(request, timeout=30)
            raise AssertionError(f"{header} was taken")
        except urllib.error.HTTPError as error:
            text = error.read().decode()
            assert error.code == 403 and "not signed" in text, f"{header}: {error.code} {text}"
    refused("404", w.s3.head_object, Bucket=name, Key="k", status=404)
    long = w.s3.generate_presigned_url("get_object", {"Bucket": other, "Key": "private"}, ExpiresIn=8 * 24 * 3600)
    try:
        urllib.request.urlopen(long, timeout=30)
        raise AssertionError("a URL of eight days was taken")
    except urllib.error.HTTPError as error:
        equal((error.code, "AuthorizationQueryParametersError" in error.read().decode()), (400, True))
