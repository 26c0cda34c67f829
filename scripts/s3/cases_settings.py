"""boto3: settings of buckets and objects: tags, access, browsers, lifecycle, locks, and what is not offered."""

import datetime
import json
import urllib.error
import urllib.request

import botocore

import guide
from shapes import keys
from world import case, equal, refused


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
    found = w.s3.get_bucket_notification_configuration(Bucket=name)
    equal([key for key in found if key != "ResponseMetadata"], [])
    equal(w.s3.get_bucket_request_payment(Bucket=name)["Payer"], "BucketOwner")
    refused("ReplicationConfigurationNotFoundError", w.s3.get_bucket_replication, Bucket=name, status=404)
    w.s3.delete_bucket_replication(Bucket=name)
    for kind in ("analytics", "intelligent_tiering", "inventory", "metrics"):
        equal(getattr(w.s3, f"list_bucket_{kind}_configurations")(Bucket=name)["IsTruncated"], False)
        refused("NoSuchConfiguration", getattr(w.s3, f"get_bucket_{kind}_configuration"), Bucket=name, Id="x", status=404)
    refused("AccessDenied", w.other.get_bucket_request_payment, Bucket=name, status=403)
    refused("NoSuchBucket", w.s3.get_bucket_request_payment, Bucket=w.name(), status=404)


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
