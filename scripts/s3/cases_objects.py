"""boto3: objects: what is put, read, copied and deleted, and under which conditions."""

import base64
import concurrent.futures
import datetime
import hashlib
import io
import os
import zlib

import botocore

from shapes import MIB, keys, with_header
from world import case, equal, refused


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
