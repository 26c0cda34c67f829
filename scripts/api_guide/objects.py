"""The pages about S3: every call of `base_types::s3::S3Action`."""

import re
import time

ABOUT = """
Every call of the S3 API that touches metadata is an action of the same name, with its fields in snake_case. The [S3 guide](../s3.md) describes
the gateway, which speaks S3's own protocol. `crates/base-types/src/s3/` has every field.

The JSON API checks no signature, no ACL and no bucket policy. With `access.required` the [user's roles](../access.md) decide. A call on a bucket also takes `expected_bucket_owner`. If the bucket belongs to another account when
the call is carried out, the answer is `AccessDenied` and nothing changes.
"""
MORE = "[Accounts and buckets](buckets.md) says how calls of S3 look as actions."


def names():
    """Every call's name, from the one table that has them."""
    table = re.search(r"^actions! \{(.*?)^\}", open("crates/base-types/src/s3/action.rs").read(), re.S | re.M).group(1)
    return set(re.findall(r"^    (\w+) (?:read|write);", table, re.M))


def write(guide):
    guide.page("buckets.md", "Accounts and buckets", ABOUT)
    accounts(guide)
    guide.page("objects.md", "Objects", MORE)
    objects(guide)
    of_one_object(guide)
    guide.page("listings.md", "Listings, counts and shards", MORE)
    listings(guide)
    guide.page("uploads.md", "Uploads in parts", MORE)
    uploads(guide)
    guide.page("buckets.md")
    settings(guide)
    guide.page("objects.md")
    data(guide)
    guide.page("buckets.md")
    removals(guide)


def accounts(guide):
    guide.say("## CreateAccount, ListAccounts\n\nAn account owns buckets. Its access keys sign requests to the S3 gateway.")
    guide.show({"action": "CreateAccount", "account": "ann", "display_name": "Ann"})
    guide.show({"action": "ListAccounts"}, node=2)
    guide.say("## CreateAccessKey, GetAccessKey, ListAccessKeys, DeleteAccessKey\n\nIf you give no key or secret, Hive draws them.")
    guide.show({"action": "CreateAccessKey", "account": "ann", "access_key": "ann-key", "secret_key": "ann-secret-key"})
    guide.show({"action": "GetAccessKey", "access_key": "ann-key"}, node=3)
    guide.show({"action": "ListAccessKeys", "account": "ann"}, node=3)
    guide.show({"action": "DeleteAccessKey", "access_key": "ann-key"})
    guide.say("## CreateBucket, HeadBucket, GetBucketLocation, ListBuckets\n\nA bucket's name is unique in the world.")
    guide.show({"action": "CreateBucket", "bucket": "fruits", "account": "ann"}, node=2)
    guide.show({"action": "HeadBucket", "bucket": "fruits"}, node=4)
    guide.show({"action": "HeadBucket", "bucket": "fruits", "expected_bucket_owner": "ben"}, 403, node=4)
    guide.show({"action": "GetBucketLocation", "bucket": "fruits"})
    guide.show({"action": "ListBuckets", "account": "ann"})


def objects(guide):
    guide.say("""
## PutObject

Hive itself keeps an object of up to 64 KiB; its bytes travel as `body_base64`. The caller stores a larger object elsewhere, and sends `location`, `size` and
`etag` instead. Conditions are fields too.
""")
    guide.show({"action": "PutObject", "bucket": "fruits", "key": "green/lime", "body_base64": "bGltZQ==",
          "content_type": "text/plain", "metadata": {"taste": "sour"}})
    guide.show({"action": "PutObject", "bucket": "fruits", "key": "green/lime", "body_base64": "bGltZQ==",
          "if_none_match": "*"}, 412, node=3)
    for key in ("green/pear", "red/apple", "red/cherry"):
        guide.ask({"action": "PutObject", "bucket": "fruits", "key": key, "body_base64": "eA=="})
    guide.say("## GetObject, HeadObject, GetObjectAttributes\n\n`HeadObject` and `GetObjectAttributes` answer the same without the bytes.")
    guide.show({"action": "GetObject", "bucket": "fruits", "key": "green/lime"}, node=4)
    guide.show({"action": "GetObject", "bucket": "fruits", "key": "none"}, 404)
    guide.show({"action": "HeadObject", "bucket": "fruits", "key": "red/apple"})
    guide.show({"action": "GetObjectAttributes", "bucket": "fruits", "key": "red/apple"})
    guide.say("## CopyObject\n\nHive copies the bytes that it keeps itself. The caller copies other bytes and says in `location` where they are now.")
    guide.show({"action": "CopyObject", "bucket": "fruits", "key": "yellow/lemon",
          "copy_source": {"bucket": "fruits", "key": "green/lime"}, "if_none_match": "*"})
    guide.say("## DeleteObject, DeleteObjects\n\n`DeleteObjects` answers one result for each object, in the order of the request.")
    guide.show({"action": "DeleteObject", "bucket": "fruits", "key": "red/cherry"})
    guide.show({"action": "DeleteObjects", "bucket": "fruits", "objects": [
        {"key": "yellow/lemon"}, {"key": "green/lime", "conditions": {"if_match": "another"}}]})


def of_one_object(guide):
    at = {"bucket": "fruits", "key": "green/lime"}
    guide.say("## GetObjectTagging, PutObjectTagging, DeleteObjectTagging")
    guide.show({"action": "PutObjectTagging", **at, "tags": [{"key": "season", "value": "autumn"}]})
    guide.show({"action": "GetObjectTagging", **at})
    guide.show({"action": "DeleteObjectTagging", **at})
    guide.say("## GetObjectAcl, PutObjectAcl")
    guide.show({"action": "GetObjectAcl", **at})
    guide.show({"action": "PutObjectAcl", **at, "acl": {"owner": {"id": "ann", "display_name": "Ann"}, "grants": [
        {"grantee": {"canonical_user": "ann"}, "permission": "FULL_CONTROL"}]}})
    guide.say("## GetObjectLegalHold, PutObjectLegalHold, GetObjectRetention, PutObjectRetention\n\nThese need a bucket that was created with `object_lock_enabled_for_bucket`.")
    guide.ask({"action": "CreateBucket", "bucket": "seeds", "account": "ann", "object_lock_enabled_for_bucket": True})
    guide.ask({"action": "PutObject", "bucket": "seeds", "key": "k", "body_base64": "eA=="})
    seed = {"bucket": "seeds", "key": "k"}
    guide.show({"action": "PutObjectLegalHold", **seed, "legal_hold": True})
    guide.show({"action": "GetObjectLegalHold", **seed})
    until = int(time.time() * 1000) + 3_600_000
    guide.show({"action": "PutObjectRetention", **seed, "retention": {"mode": "GOVERNANCE", "retain_until_ms": until}})
    guide.show({"action": "GetObjectRetention", **seed})
    guide.show({"action": "GetObjectRetention", **at}, 400)
    guide.say("## RestoreObject\n\nHive archives nothing, so it refuses this call.")
    guide.show({"action": "RestoreObject", **at, "days": 1}, 403)


def listings(guide):
    guide.say("## ListObjectsV2, ListObjects\n\nContinuation tokens are opaque. They stay valid when shards split or merge, and when a leader dies.")
    guide.show({"action": "ListObjectsV2", "bucket": "fruits", "delimiter": "/"}, node=5)
    page = guide.show({"action": "ListObjectsV2", "bucket": "fruits", "prefix": "green/", "max_keys": 1}, node=5)
    token = page["next_continuation_token"]
    guide.show({"action": "ListObjectsV2", "bucket": "seeds", "prefix": "green/", "continuation_token": token}, 400)
    guide.say("With `snapshot`, all pages of one walk show one instant:")
    guide.show({"action": "ListObjectsV2", "bucket": "fruits", "snapshot": True, "max_keys": 1000})
    guide.show({"action": "ListObjects", "bucket": "fruits", "marker": "green/pear"})
    guide.say("## ListObjectVersions")
    guide.show({"action": "ListObjectVersions", "bucket": "seeds"})
    guide.say("## CountObjects, CutPoints\n\n`CountObjects` is exact, and its time does not grow with the number of keys. `CutPoints` divides the keys evenly, for listing in parallel. Both are Hive's own calls.")
    guide.show({"action": "CountObjects", "bucket": "fruits", "prefix": "red/"})
    guide.show({"action": "CutPoints", "bucket": "fruits", "parts": 2})
    guide.say("## DescribeShards\n\nLists the shards of a bucket in the order of keys. This is Hive's own call; the command is `hive ctl shards fruits`.")
    guide.show({"action": "DescribeShards", "bucket": "fruits"})


def uploads(guide):
    at = {"bucket": "fruits", "key": "basket"}
    guide.say("""
## CreateMultipartUpload, UploadPart, UploadPartCopy

Every part but the last has 5 MiB or more, so the caller stores it and sends its `location`. A small part may come with its bytes.
""")
    upload = guide.show({"action": "CreateMultipartUpload", **at, "content_type": "text/plain"})["upload_id"]
    part = {**at, "upload_id": upload}
    first = "0123456789abcdef0123456789abcdef"
    guide.show({"action": "UploadPart", **part, "part_number": 1, "location": "store/1", "size": 5 << 20, "etag": first})
    copied = guide.show({"action": "UploadPartCopy", **part, "part_number": 2, "copy_source": {"bucket": "fruits", "key": "green/lime"},
                   "copy_source_range": [0, 1]})
    guide.show({"action": "UploadPart", **part, "part_number": 0, "body_base64": "eA=="}, 400)
    guide.say("## ListParts, ListMultipartUploads")
    guide.show({"action": "ListParts", **part})
    guide.show({"action": "ListMultipartUploads", "bucket": "fruits"})
    guide.say("## CompleteMultipartUpload, AbortMultipartUpload")
    guide.show({"action": "CompleteMultipartUpload", **part, "parts": [
        {"part_number": 1, "etag": first}, {"part_number": 2, "etag": copied["etag"]}]})
    guide.show({"action": "AbortMultipartUpload", **at, "upload_id": "unknown"}, 404)
    other = guide.ask({"action": "CreateMultipartUpload", **at})[1]["upload_id"]
    guide.show({"action": "AbortMultipartUpload", **at, "upload_id": other})


def settings(guide):
    own = {"bucket": "fruits"}
    guide.say("## The settings of a bucket\n\nHive answers a change when it holds on every node, after 1.15 s. Changes of tags and lifecycle rules are answered at once.")
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
        ("BucketWebsite", "PutBucketWebsite", {"website": {"index_suffix": "index.html", "error_key": "error.html"}},
         "GetBucketWebsite", "DeleteBucketWebsite"),
        ("BucketLogging", "PutBucketLogging", {"logging": {"bucket": "fruits", "prefix": "log/"}}, "GetBucketLogging", None),
    ]
    for _, put, fields, get, delete in rows:
        at = {"bucket": "seeds"} if put == "PutObjectLockConfiguration" else own
        status = "GetBucketPolicyStatus" if put == "PutBucketPolicy" else None
        guide.say("## " + ", ".join(filter(None, [put, get, status, delete])))
        guide.show({"action": put, **at, **fields})
        for asked in filter(None, [get, status]):
            guide.show({"action": asked, **at})
        if delete:
            guide.show({"action": delete, **at})
    guide.say("""
## PutBucketEncryption, GetBucketEncryption, DeleteBucketEncryption

Hive encrypts nothing at rest. It refuses `PutBucketEncryption`, and an object with `server_side_encryption`. No bucket has this setting.
""")
    guide.show({"action": "PutBucketEncryption", **own, "encryption": {"sse_algorithm": "AES256"}}, 501)
    guide.show({"action": "GetBucketEncryption", **own}, 404)
    guide.show({"action": "DeleteBucketEncryption", **own})


def data(guide):
    guide.say("""
## LookupData, ListFreedData, ForgetFreedData

These are Hive's own calls, for the program that stores the bytes of larger objects:

- `LookupData` says which of the given locations a version or part of the key names.
- `ListFreedData` lists the locations that deletes and overwrites have freed at least a minute ago.
- `ForgetFreedData` reports that the program has removed the bytes.
""")
    guide.show({"action": "LookupData", "bucket": "fruits", "key": "basket", "locations": ["store/1", "store/2"]})
    guide.show({"action": "ListFreedData", "max": 10})
    guide.show({"action": "ForgetFreedData", "locations": ["store/9"]})


def removals(guide):
    guide.say("## DeleteBucket, DeleteAccount\n\nBoth must be empty. With `expected_bucket_owner`, the bucket must also belong to that account.")
    guide.show({"action": "DeleteBucket", "bucket": "fruits"}, 409)
    guide.show({"action": "DeleteAccount", "account": "ann"}, 403)
