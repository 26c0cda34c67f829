"""The part of docs/guides/api.md about S3: every call of `base_types::s3::S3Action`, asked of the world that api_guide.py started."""

import re
import time


def names():
    """Every call's name, from the one table that has them."""
    table = re.search(r"^actions! \{(.*?)^\}", open("crates/base-types/src/s3/action.rs").read(), re.S | re.M).group(1)
    return set(re.findall(r"^    (\w+) (?:read|write);", table, re.M))


def write(show, say, ask):
    say("""
## Objects

Every call of the S3 API that touches metadata is an action of the same name, its fields in snake_case. The [S3 guide](s3.md)
tells about the gateway that speaks S3's own protocol, `crates/base-types/src/s3/` every field. No signature or policy is
checked here. A call on a bucket takes `expected_bucket_owner` beside its own fields: where the bucket is another account's by the time the
call is carried out, it is `AccessDenied` and nothing is touched.
""")
    accounts(show, say)
    objects(show, say, ask)
    of_one_object(show, say, ask)
    listings(show, say)
    uploads(show, say, ask)
    settings(show, say)
    data(show, say, ask)
    removals(show, say, ask)


def accounts(show, say):
    say("### CreateAccount, ListAccounts\n\nAn account owns buckets, and has access keys for the gateway.")
    show({"action": "CreateAccount", "account": "ann", "display_name": "Ann"})
    show({"action": "ListAccounts"}, node=2)
    say("### CreateAccessKey, GetAccessKey, ListAccessKeys, DeleteAccessKey\n\nKey and secret are drawn where none are given.")
    show({"action": "CreateAccessKey", "account": "ann", "access_key": "ann-key", "secret_key": "ann-secret-key"})
    show({"action": "GetAccessKey", "access_key": "ann-key"}, node=3)
    show({"action": "ListAccessKeys", "account": "ann"}, node=3)
    show({"action": "DeleteAccessKey", "access_key": "ann-key"})
    say("### CreateBucket, HeadBucket, GetBucketLocation, ListBuckets\n\nA bucket's name is unique in the world.")
    show({"action": "CreateBucket", "bucket": "fruits", "account": "ann"}, node=2)
    show({"action": "HeadBucket", "bucket": "fruits"}, node=4)
    show({"action": "HeadBucket", "bucket": "fruits", "expected_bucket_owner": "ben"}, 403, node=4)
    show({"action": "GetBucketLocation", "bucket": "fruits"})
    show({"action": "ListBuckets", "account": "ann"})


def objects(show, say, ask):
    say("""
### PutObject

Up to 64 KiB are kept by Hive itself (`body_base64`); of larger ones `location`, `size` and `etag` say where the caller has put
them. Conditions are fields too.
""")
    show({"action": "PutObject", "bucket": "fruits", "key": "green/lime", "body_base64": "bGltZQ==",
          "content_type": "text/plain", "metadata": {"taste": "sour"}})
    show({"action": "PutObject", "bucket": "fruits", "key": "green/lime", "body_base64": "bGltZQ==",
          "if_none_match": "*"}, 412, node=3)
    for key in ("green/pear", "red/apple", "red/cherry"):
        ask({"action": "PutObject", "bucket": "fruits", "key": key, "body_base64": "eA=="})
    say("### GetObject, HeadObject, GetObjectAttributes\n\nHeadObject and GetObjectAttributes are the same without the bytes.")
    show({"action": "GetObject", "bucket": "fruits", "key": "green/lime"}, node=4)
    show({"action": "GetObject", "bucket": "fruits", "key": "none"}, 404)
    show({"action": "HeadObject", "bucket": "fruits", "key": "red/apple"})
    show({"action": "GetObjectAttributes", "bucket": "fruits", "key": "red/apple"})
    say("### CopyObject\n\nBytes that are inline are copied here; of others `location` says where the caller has copied them.")
    show({"action": "CopyObject", "bucket": "fruits", "key": "yellow/lemon",
          "copy_source": {"bucket": "fruits", "key": "green/lime"}, "if_none_match": "*"})
    say("### DeleteObject, DeleteObjects\n\nOf many each has a result of its own, in the order asked.")
    show({"action": "DeleteObject", "bucket": "fruits", "key": "red/cherry"})
    show({"action": "DeleteObjects", "bucket": "fruits", "objects": [
        {"key": "yellow/lemon"}, {"key": "green/lime", "conditions": {"if_match": "another"}}]})


def of_one_object(show, say, ask):
    at = {"bucket": "fruits", "key": "green/lime"}
    say("### GetObjectTagging, PutObjectTagging, DeleteObjectTagging")
    show({"action": "PutObjectTagging", **at, "tags": [{"key": "season", "value": "autumn"}]})
    show({"action": "GetObjectTagging", **at})
    show({"action": "DeleteObjectTagging", **at})
    say("### GetObjectAcl, PutObjectAcl")
    show({"action": "GetObjectAcl", **at})
    show({"action": "PutObjectAcl", **at, "acl": {"owner": {"id": "ann", "display_name": "Ann"}, "grants": [
        {"grantee": {"canonical_user": "ann"}, "permission": "FULL_CONTROL"}]}})
    say("### GetObjectLegalHold, PutObjectLegalHold, GetObjectRetention, PutObjectRetention\n\nIn a bucket whose objects can be locked.")
    ask({"action": "CreateBucket", "bucket": "seeds", "account": "ann", "object_lock_enabled_for_bucket": True})
    ask({"action": "PutObject", "bucket": "seeds", "key": "k", "body_base64": "eA=="})
    seed = {"bucket": "seeds", "key": "k"}
    show({"action": "PutObjectLegalHold", **seed, "legal_hold": True})
    show({"action": "GetObjectLegalHold", **seed})
    until = int(time.time() * 1000) + 3_600_000
    show({"action": "PutObjectRetention", **seed, "retention": {"mode": "GOVERNANCE", "retain_until_ms": until}})
    show({"action": "GetObjectRetention", **seed})
    show({"action": "GetObjectRetention", **at}, 400)
    say("### RestoreObject\n\nNothing is archived, so there is nothing to bring back.")
    show({"action": "RestoreObject", **at, "days": 1}, 403)


def listings(show, say):
    say("### ListObjectsV2, ListObjects\n\nTokens are opaque; they survive splits, merges and failovers.")
    show({"action": "ListObjectsV2", "bucket": "fruits", "delimiter": "/"}, node=5)
    page = show({"action": "ListObjectsV2", "bucket": "fruits", "prefix": "green/", "max_keys": 1}, node=5)
    token = page["next_continuation_token"]
    show({"action": "ListObjectsV2", "bucket": "seeds", "prefix": "green/", "continuation_token": token}, 400)
    say("With `snapshot` all pages of one walk show one instant:")
    show({"action": "ListObjectsV2", "bucket": "fruits", "snapshot": True, "max_keys": 1000})
    show({"action": "ListObjects", "bucket": "fruits", "marker": "green/pear"})
    say("### ListObjectVersions")
    show({"action": "ListObjectVersions", "bucket": "seeds"})
    say("### CountObjects, CutPoints\n\nExact, in time that does not grow with the number of keys; and even cuts for listing in parallel.")
    show({"action": "CountObjects", "bucket": "fruits", "prefix": "red/"})
    show({"action": "CutPoints", "bucket": "fruits", "parts": 2})
    say("### DescribeShards\n\nThe shards of a bucket in the order of keys (Hive's own call): `hive ctl shards fruits`.")
    show({"action": "DescribeShards", "bucket": "fruits"})


def uploads(show, say, ask):
    at = {"bucket": "fruits", "key": "basket"}
    say("""
### CreateMultipartUpload, UploadPart, UploadPartCopy

All parts but the last have 5 MiB or more, and so lie in the caller's data store; a small one may come with its bytes.
""")
    upload = show({"action": "CreateMultipartUpload", **at, "content_type": "text/plain"})["upload_id"]
    part = {**at, "upload_id": upload}
    first = "0123456789abcdef0123456789abcdef"
    show({"action": "UploadPart", **part, "part_number": 1, "location": "store/1", "size": 5 << 20, "etag": first})
    copied = show({"action": "UploadPartCopy", **part, "part_number": 2, "copy_source": {"bucket": "fruits", "key": "green/lime"},
                   "copy_source_range": [0, 1]})
    show({"action": "UploadPart", **part, "part_number": 0, "body_base64": "eA=="}, 400)
    say("### ListParts, ListMultipartUploads")
    show({"action": "ListParts", **part})
    show({"action": "ListMultipartUploads", "bucket": "fruits"})
    say("### CompleteMultipartUpload, AbortMultipartUpload")
    show({"action": "CompleteMultipartUpload", **part, "parts": [
        {"part_number": 1, "etag": first}, {"part_number": 2, "etag": copied["etag"]}]})
    show({"action": "AbortMultipartUpload", **at, "upload_id": "unknown"}, 404)
    other = ask({"action": "CreateMultipartUpload", **at})[1]["upload_id"]
    show({"action": "AbortMultipartUpload", **at, "upload_id": other})


def settings(show, say):
    own = {"bucket": "fruits"}
    say("### The settings of a bucket\n\nA change is answered when it holds on every node, after 1.15 s; of tags and lifecycle rules at once.")
    resource = "arn:aws:s3:::fruits/*"
    policy = '{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"AWS":"ben"},"Action":"s3:GetObject","Resource":"%s"}]}' % resource
    acl = {"owner": {"id": "ann", "display_name": "Ann"}, "grants": [{"grantee": {"canonical_user": "ann"}, "permission": "FULL_CONTROL"}]}
    rows = [
        ("BucketVersioning", "PutBucketVersioning", {"status": "Enabled"}, "GetBucketVersioning", None),
        ("BucketAcl", "PutBucketAcl", {"acl": acl}, "GetBucketAcl", None),
        ("BucketPolicy", "PutBucketPolicy", {"policy": policy}, "GetBucketPolicy", "DeleteBucketPolicy"),
        ("BucketCors", "PutBucketCors", {"cors_rules": [{"allowed_methods": ["GET"], "allowed_origins": ["https://*.example"]}]},
         "GetBucketCors", "DeleteBucketCors"),
        ("BucketLifecycle", "PutBucketLifecycleConfiguration",
         {"rules": [{"id": "old", "enabled": True, "filter": {"prefix": "logs/"}, "expiration": {"days": 30}}]},
         "GetBucketLifecycleConfiguration", "DeleteBucketLifecycle"),
        ("BucketTagging", "PutBucketTagging", {"tags": [{"key": "team", "value": "fruit"}]}, "GetBucketTagging", "DeleteBucketTagging"),
        ("BucketOwnershipControls", "PutBucketOwnershipControls", {"object_ownership": "BucketOwnerPreferred"},
         "GetBucketOwnershipControls", "DeleteBucketOwnershipControls"),
        ("PublicAccessBlock", "PutPublicAccessBlock", {"public_access_block": {"block_public_acls": True}},
         "GetPublicAccessBlock", "DeletePublicAccessBlock"),
        ("ObjectLockConfiguration", "PutObjectLockConfiguration",
         {"object_lock": {"enabled": True, "default_retention": {"mode": "GOVERNANCE", "days": 1}}}, "GetObjectLockConfiguration", None),
        ("BucketQuota", "PutBucketQuota", {"quota": {"bytes_max": 1_000_000_000, "keys_max": 100_000}},
         "GetBucketQuota", "DeleteBucketQuota"),
    ]
    for _, put, fields, get, delete in rows:
        at = {"bucket": "seeds"} if put == "PutObjectLockConfiguration" else own
        status = "GetBucketPolicyStatus" if put == "PutBucketPolicy" else None
        say("### " + ", ".join(filter(None, [put, get, status, delete])))
        show({"action": put, **at, **fields})
        for asked in filter(None, [get, status]):
            show({"action": asked, **at})
        if delete:
            show({"action": delete, **at})


def data(show, say, ask):
    say("""
### LookupData, ListFreedData, ForgetFreedData

For who keeps the bytes: which places versions and parts of a key name; what deletes and overwrites have freed, a minute old;
and that it was removed. (Hive's own calls.)
""")
    show({"action": "LookupData", "bucket": "fruits", "key": "basket", "locations": ["store/1", "store/2"]})
    show({"action": "ListFreedData", "max": 10})
    show({"action": "ForgetFreedData", "locations": ["store/9"]})


def removals(show, say, ask):
    say("### DeleteBucket, DeleteAccount\n\nOnly what is empty; a bucket with `expected_bucket_owner` only where it is that account's.")
    show({"action": "DeleteBucket", "bucket": "fruits"}, 409)
    show({"action": "DeleteAccount", "account": "ann"}, 403)
