"""What suites and tools from outside met: each case holds the line of docs/guides/s3.md ("Held by tests") that names it."""

import base64
import datetime
import hashlib
import json
import re
import urllib.parse
import xml.etree.ElementTree
import xml.sax.saxutils

from cases_bad_input import Raw
from cases_signed import send_form
from shapes import MIB, fetch, with_header
from world import case, equal, refused

ODD_KEYS = ("a\x01b", "a\x0bb", "a\x1fb", "a\ufffeb", "a\rb", "a\tb", "a<&>b")


def post(w, name, key="k", fields=None, conditions=None, body=b"hello", change=None, filename="a b.txt"):
    """An upload by form, its policy naming the fields; what was signed may be changed."""
    fields = dict(fields or {})
    conditions = [{field: value} for field, value in fields.items()] + (conditions or [])
    signed = w.s3.generate_presigned_post(name, key, Fields=fields, Conditions=conditions)
    return send_form(signed["url"], {**signed["fields"], **(change or {})}, body, filename)


@case("boto3")
def form_fields_count(w):
    """Tags, checksums, the file's name, where it lies, and a redirect with a quoted ETag."""
    name = w.bucket()
    tags = "<Tagging><TagSet><Tag><Key>team</Key><Value>a b</Value></Tag></TagSet></Tagging>"
    equal(post(w, name, fields={"tagging": tags})[0], 204)
    equal(w.s3.get_object_tagging(Bucket=name, Key="k")["TagSet"], [{"Key": "team", "Value": "a b"}])
    equal(post(w, name, "in/${filename}")[0], 204)
    w.s3.head_object(Bucket=name, Key="in/a b.txt")
    right = base64.b64encode(hashlib.sha256(b"hello").digest()).decode()
    sums = {"x-amz-checksum-algorithm": "SHA256", "x-amz-checksum-sha256": right}
    equal(post(w, name, "sum", fields=sums)[0], 204)
    equal(w.s3.head_object(Bucket=name, Key="sum", ChecksumMode="ENABLED")["ChecksumSHA256"], right)
    equal(post(w, name, "sum", fields=sums)[1]["x-amz-checksum-sha256"], right)
    status, _, text = post(w, name, "sum", fields=sums, body=b"other")
    equal((status, "BadDigest" in text or "Checksum" in text), (400, True))
    status, headers, _ = post(w, name, "made", fields={"success_action_status": "201"})
    equal(status, 201)
    equal(headers["Location"], f"{w.endpoint}/{name}/made")
    there = w.endpoint + "/nowhere?a=b"
    status, headers = 0, None
    signed = w.s3.generate_presigned_post(name, "k", Fields={"success_action_redirect": there},
                                          Conditions=[{"success_action_redirect": there}])
    status, headers = send_form_unfollowed(signed["url"], signed["fields"], b"hello")
    equal(status, 303)
    etag = urllib.parse.parse_qs(headers["Location"].split("?")[1])["etag"]
    equal(etag, ['"' + hashlib.md5(b"hello").hexdigest() + '"'])


def send_form_unfollowed(url, fields, body):
    import http.client
    edge = "xx-form-boundary"
    parts = [f'--{edge}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n' for name, value in fields.items()]
    parts.append(f'--{edge}\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\n')
    whole = "".join(parts).encode() + body + f"\r\n--{edge}--\r\n".encode()
    split = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(split.netloc, timeout=20)
    connection.request("POST", split.path, whole, {"Content-Type": f"multipart/form-data; boundary={edge}"})
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer.status, answer.headers


@case("boto3")
def forms_beside_their_policy_are_forbidden(w):
    name = w.bucket()
    for change in ({"key": "other"}, {"acl": "private"}, {"x-amz-meta-a": "b"}):
        status, _, text = post(w, name, change=change)
        equal((status, "AccessDenied" in text), (403, True))
    assert 'Policy Condition failed: ["eq", "$key", "k"]' in post(w, name, change={"key": "other"})[2]
    for document in ({"expiration": "soon", "conditions": []}, {"expiration": "2030-13-45T00:00:00Z", "conditions": []},
                     {"conditions": []}, {"expiration": "2030-01-01T00:00:00Z"}, []):
        policy = base64.b64encode(json.dumps(document).encode()).decode()
        status, _, text = signed_form(w, name, policy)
        equal((status, "InvalidPolicyDocument" in text), (400, True))


def signed_form(w, name, policy):
    """A form with this policy, signed by hand: boto3 makes no malformed ones."""
    import hmac
    day = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%d")
    key = ("AWS4" + w.secret).encode()
    for word in (day, w.region, "s3", "aws4_request"):
        key = hmac.new(key, word.encode(), hashlib.sha256).digest()
    fields = {"key": "k", "policy": policy, "x-amz-algorithm": "AWS4-HMAC-SHA256",
              "x-amz-credential": f"{w.key}/{day}/{w.region}/s3/aws4_request", "x-amz-date": f"{day}T000000Z",
              "x-amz-signature": hmac.new(key, policy.encode(), hashlib.sha256).hexdigest()}
    return send_form(f"{w.endpoint}/{name}", fields, b"hello")


@case("boto3")
def governance_becomes_compliance_only_with_bypass(w):
    name = w.bucket(ObjectLockEnabledForBucket=True)
    until = datetime.datetime.now(datetime.timezone.utc).replace(microsecond=0) + datetime.timedelta(hours=1)
    keep = lambda mode, until=until: {"Mode": mode, "RetainUntilDate": until}
    put = w.s3.put_object(Bucket=name, Key="k", Body=b"1", ObjectLockMode="GOVERNANCE", ObjectLockRetainUntilDate=until)
    version = {"Bucket": name, "Key": "k", "VersionId": put["VersionId"]}
    refused("AccessDenied", w.s3.put_object_retention, **version, Retention=keep("COMPLIANCE"), status=403)
    w.s3.put_object_retention(**version, Retention=keep("GOVERNANCE", until + datetime.timedelta(hours=1)))
    w.s3.put_object_retention(**version, Retention=keep("COMPLIANCE", until + datetime.timedelta(hours=2)),
                              BypassGovernanceRetention=True)
    refused("AccessDenied", w.s3.put_object_retention, **version, Retention=keep("GOVERNANCE"), status=403,
            BypassGovernanceRetention=True)


@case("boto3")
def presigned_urls_live_a_week_at_most(w):
    name = w.bucket()
    w.put(name, "k")
    sign = lambda seconds: w.s3.generate_presigned_url("get_object", {"Bucket": name, "Key": "k"}, ExpiresIn=seconds)
    equal(fetch(sign(7 * 24 * 3600))[0], 200)
    equal(fetch(sign(7 * 24 * 3600 + 1))[0], 400)


@case("raw")
def checksum_algorithms_in_any_case(w):
    name = w.bucket()
    raw = Raw(w)
    right = base64.b64encode(hashlib.sha256(b"hello").digest()).decode()
    for word in ("sha256", "Sha256", "SHA256"):
        headers = {"x-amz-checksum-algorithm": word, "x-amz-checksum-sha256": right}
        equal(raw.send("PUT", f"/{name}/k", b"hello", headers=headers)[0], 200)
        equal(raw.send("PUT", f"/{name}/k", b"hello", headers={"x-amz-sdk-checksum-algorithm": word})[0], 200)
        status, _, text = raw.send("POST", f"/{name}/m", query="uploads=", headers={"x-amz-checksum-algorithm": word})
        equal((status, raw.headers["x-amz-checksum-algorithm"]), (200, "SHA256"))
    digest = base64.b64encode(hashlib.md5(b"hello").digest()).decode()
    headers = {"x-amz-checksum-algorithm": "MD5", "content-md5": digest}
    equal(raw.send("PUT", f"/{name}/k", b"hello", headers=headers)[0], 200)
    raw.expect(400, "InvalidRequest", "PUT", f"/{name}/k", b"hello", headers={"x-amz-checksum-algorithm": "ROT13"})


@case("raw")
def answers_have_request_ids(w):
    name = w.bucket()
    w.put(name, "k")
    raw, ids = Raw(w), set()
    for method, path, status in (("GET", f"/{name}", 200), ("GET", f"/{name}/k", 200), ("GET", f"/{name}/none", 404),
                                 ("HEAD", f"/{name}/none", 404), ("DELETE", f"/{name}/none", 204), ("GET", "/UPPER", 400)):
        got, _, text = raw.send(method, path)
        equal(got, status)
        ids.add(raw.headers["x-amz-request-id"])
        assert raw.headers["x-amz-id-2"], f"{method} {path}"
        if status >= 400 and method != "HEAD":
            equal(re.search("<RequestId>(.*?)</RequestId>", text).group(1), raw.headers["x-amz-request-id"])
    equal((len(ids), None in ids), (6, False))
    got, _, text = raw.send("GET", f"/{name}", sign=False, after={"authorization": "AWS x:y"})
    assert raw.headers["x-amz-request-id"] in text, text
    got = w.s3.head_object(Bucket=name, Key="k")["ResponseMetadata"]
    assert got["RequestId"] and got["HostId"], got


@case("raw")
def answers_have_the_headers_of_s3(w):
    """304 names the ETag, 416 the size, 404 a delete marker, HEAD and GET the tags' number."""
    name = w.bucket()
    etag = w.s3.put_object(Bucket=name, Key="k", Body=b"hello", Tagging="a=1&b=2")["ETag"]
    raw = Raw(w)
    for method in ("GET", "HEAD"):
        equal(raw.send(method, f"/{name}/k", headers={"if-none-match": etag})[0], 304)
        equal(raw.headers["etag"], etag)
        equal(raw.send(method, f"/{name}/k", headers={"range": "bytes=9-"})[0], 416)
        equal(raw.headers["content-range"], "bytes */5")
        equal(raw.send(method, f"/{name}/k")[0], 200)
        equal(raw.headers["x-amz-tagging-count"], "2")
    w.s3.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})
    marker = w.s3.delete_object(Bucket=name, Key="k")["VersionId"]
    for method in ("GET", "HEAD"):
        equal(raw.send(method, f"/{name}/k")[0], 404)
        equal((raw.headers["x-amz-delete-marker"], raw.headers["x-amz-version-id"]), ("true", marker))
        equal(raw.send(method, f"/{name}/never")[0], 404)
        equal(raw.headers["x-amz-delete-marker"], None)
    status, _, text = raw.send("GET", f"/{name}/x", query="attributes=", headers={"x-amz-object-attributes": "ETag"})
    equal(status, 404)
    w.put(name, "plain")
    status, _, text = raw.send("GET", f"/{name}/plain", query="attributes=", headers={"x-amz-object-attributes": "ETag"})
    equal(re.search("<ETag>(.*?)</ETag>", text).group(1), hashlib.md5(b"x").hexdigest())


@case("boto3")
def one_part_has_its_checksum(w):
    name = w.bucket()
    upload = w.s3.create_multipart_upload(Bucket=name, Key="k", ChecksumAlgorithm="SHA256")["UploadId"]
    at = {"Bucket": name, "Key": "k", "UploadId": upload}
    parts = []
    for number, body in ((1, b"a" * 5 * MIB), (2, b"b")):
        part = w.s3.upload_part(**at, PartNumber=number, Body=body, ChecksumAlgorithm="SHA256")
        parts.append({"PartNumber": number, "ETag": part["ETag"], "ChecksumSHA256": part["ChecksumSHA256"]})
    w.s3.complete_multipart_upload(**at, MultipartUpload={"Parts": parts})
    for part in parts:
        for call in (w.s3.get_object, w.s3.head_object):
            got = call(Bucket=name, Key="k", PartNumber=part["PartNumber"], ChecksumMode="ENABLED")
            equal((got["ChecksumSHA256"], got["PartsCount"]), (part["ChecksumSHA256"], 2))


@case("boto3")
def expirations_are_told(w):
    """`x-amz-expiration` on puts and reads of what a lifecycle rule will expire."""
    name = w.bucket()
    rules = [{"ID": "logs rule", "Status": "Enabled", "Filter": {"Prefix": "logs/"}, "Expiration": {"Days": 3}},
             {"ID": "later", "Status": "Enabled", "Filter": {"Prefix": "logs/"}, "Expiration": {"Days": 30}},
             {"ID": "off", "Status": "Disabled", "Filter": {"Prefix": ""}, "Expiration": {"Days": 1}}]
    w.s3.put_bucket_lifecycle_configuration(Bucket=name, LifecycleConfiguration={"Rules": rules})
    put = w.s3.put_object(Bucket=name, Key="logs/a", Body=b"x")
    for got in (put, w.s3.head_object(Bucket=name, Key="logs/a"), w.s3.get_object(Bucket=name, Key="logs/a")):
        found = re.fullmatch('expiry-date="(.*)", rule-id="(.*)"', got["Expiration"])
        equal(found.group(2), "logs%20rule")
        when = datetime.datetime.strptime(found.group(1), "%a, %d %b %Y %H:%M:%S GMT")
        days = (when - datetime.datetime.now(datetime.timezone.utc).replace(tzinfo=None)).total_seconds() / 86400
        assert 3 <= days <= 4.01 and (when.hour, when.minute, when.second) == (0, 0, 0), when
    assert "Expiration" not in w.s3.put_object(Bucket=name, Key="a", Body=b"x")


@case("boto3")
def grants_have_display_names(w):
    name = w.bucket(open_to_acls=True)
    w.s3.put_bucket_acl(Bucket=name, GrantRead='id="other"', GrantFullControl='id="demo"')
    names = {grant["Grantee"]["ID"]: grant["Grantee"]["DisplayName"] for grant in w.s3.get_bucket_acl(Bucket=name)["Grants"]}
    equal(names, {"demo": "demo", "other": "other"})


@case("boto3")
def grantees_must_be_known(w):
    name = w.bucket(open_to_acls=True)
    w.put(name, "k")
    for call, more in ((w.s3.put_bucket_acl, {}), (w.s3.put_object_acl, {"Key": "k"})):
        refused("InvalidArgument", call, Bucket=name, **more, GrantRead='id="nobody-there"', status=400)
        owner = {"ID": "demo"}
        grants = [{"Grantee": {"Type": "CanonicalUser", "ID": "nobody-there"}, "Permission": "READ"}]
        refused("InvalidArgument", call, Bucket=name, **more, AccessControlPolicy={"Owner": owner, "Grants": grants})
        call(Bucket=name, **more, GrantRead='id="other"')
    refused("InvalidArgument", w.s3.put_object, Bucket=name, Key="k", GrantRead='id="nobody-there"')


@case("raw")
def odd_characters_of_keys_are_listed_and_deleted(w):
    name = w.bucket()
    for key in ODD_KEYS:
        w.put(name, key)
    raw = Raw(w)
    for query in ("", "list-type=2", "versions=", "prefix=a%01", "delimiter=%01"):
        status, _, text = raw.send("GET", f"/{name}", query=query)
        equal(status, 200)
        parsed = xml.etree.ElementTree.fromstring(text)
        space = "{http://s3.amazonaws.com/doc/2006-03-01/}"
        if query in ("", "list-type=2", "versions="):
            got = [node.text for node in parsed.iter(space + "Key")]
            coded = parsed.findtext(space + "EncodingType") == "url"
            equal(sorted(urllib.parse.unquote_plus(key) if coded else key for key in got), sorted(ODD_KEYS))
    equal(sorted(entry["Key"] for entry in w.s3.list_objects_v2(Bucket=name)["Contents"]), sorted(ODD_KEYS))
    for key in ODD_KEYS:
        raw.send("GET", f"/{name}/" + urllib.parse.quote("no" + key))
        assert raw.headers["content-type"] == "application/xml"
    body = "<Delete>" + "".join(f"<Object><Key>{escaped(key)}</Key></Object>" for key in ODD_KEYS) + "</Delete>"
    digest = base64.b64encode(hashlib.md5(body.encode()).digest()).decode()
    status, code, text = raw.send("POST", f"/{name}", body.encode(), query="delete=", headers={"content-md5": digest})
    equal((status, code), (200, None))
    xml.etree.ElementTree.fromstring(text)
    equal(w.s3.list_objects_v2(Bucket=name)["KeyCount"], 0)


def escaped(key):
    """As boto3 writes it: what XML cannot write goes as it is."""
    return xml.sax.saxutils.escape(key)


@case("boto3")
def initiators_keep_their_uploads(w):
    """Who may only put can abort and list the upload that he began."""
    name = w.bucket()
    allow = {"Effect": "Allow", "Principal": {"AWS": "other"}, "Action": "s3:PutObject", "Resource": f"arn:aws:s3:::{name}/*"}
    w.s3.put_bucket_policy(Bucket=name, Policy=json.dumps({"Version": "2012-10-17", "Statement": [allow]}))
    at = {"Bucket": name, "Key": "k"}
    own = w.other.create_multipart_upload(**at)["UploadId"]
    foreign = w.s3.create_multipart_upload(**at)["UploadId"]
    w.other.upload_part(**at, UploadId=own, PartNumber=1, Body=b"x")
    equal(len(w.other.list_parts(**at, UploadId=own)["Parts"]), 1)
    refused("AccessDenied", w.other.list_parts, **at, UploadId=foreign, status=403)
    refused("AccessDenied", w.other.abort_multipart_upload, **at, UploadId=foreign, status=403)
    w.other.abort_multipart_upload(**at, UploadId=own)
    deny = {**allow, "Effect": "Deny", "Action": "s3:AbortMultipartUpload"}
    own = w.other.create_multipart_upload(**at)["UploadId"]
    w.s3.put_bucket_policy(Bucket=name, Policy=json.dumps({"Version": "2012-10-17", "Statement": [allow, deny]}))
    refused("AccessDenied", w.other.abort_multipart_upload, **at, UploadId=own, status=403)


@case("boto3")
def first_calls_of_tools_make_buckets(w):
    """`us-east-1` is where AWS makes what names no region; tools send it to anybody."""
    name = w.name()
    with_region = lambda region: {"LocationConstraint": region}
    w.s3.create_bucket(Bucket=name, CreateBucketConfiguration=with_region("us-east-1"))
    equal(w.s3.get_bucket_location(Bucket=name)["LocationConstraint"], w.region)
    w.s3.create_bucket(Bucket=w.name(), CreateBucketConfiguration=with_region(w.region))
    refused("InvalidLocationConstraint", w.s3.create_bucket, Bucket=w.name(), status=400,
            CreateBucketConfiguration=with_region("mars-north-1"))


@case("raw")
def a_plain_date_dates_a_signature(w):
    """A signature of version 4 may be dated by `Date`, without `x-amz-date`."""
    name = w.bucket()
    raw = Raw(w)
    equal(raw.send("GET", f"/{name}", dated_by="date")[0], 200)
    old = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(hours=1)
    raw.expect(403, "RequestTimeTooSkewed", "GET", f"/{name}", dated_by="date", now=old)


@case("raw")
def a_listings_prefix_comes_back(w):
    """The first version of the API gives the prefix as it was asked for; boto3 does not decode that one."""
    name = w.bucket()
    prefix = "a b+é/%"
    w.put(name, prefix + "k")
    equal(w.s3.list_objects(Bucket=name, Prefix=prefix)["Prefix"], prefix)
    equal(w.s3.list_objects_v2(Bucket=name, Prefix=prefix)["Prefix"], prefix)
    equal([entry["Key"] for entry in w.s3.list_objects(Bucket=name, Prefix=prefix)["Contents"]], [prefix + "k"])


@case("raw")
def dots_and_hyphens_do_not_meet_in_names(w):
    raw = Raw(w)
    for bad in ("foo.-bar", "foo-.bar", "foo..bar"):
        raw.expect(400, "InvalidBucketName", "PUT", f"/{bad}")


@case("boto3")
def lifecycle_rules_come_back_as_they_were(w):
    name = w.bucket()
    rules = [{"ID": "old", "Status": "Enabled", "Prefix": "logs/", "Expiration": {"Days": 3}},
             {"ID": "new", "Status": "Enabled", "Filter": {"Prefix": "tmp/"}, "Expiration": {"Days": 3}}]
    w.s3.put_bucket_lifecycle_configuration(Bucket=name, LifecycleConfiguration={"Rules": rules})
    equal(w.s3.get_bucket_lifecycle_configuration(Bucket=name)["Rules"], rules)


@case("boto3")
def no_version_has_an_id_that_is_none(w):
    name = w.bucket()
    w.put(name, "k")
    w.s3.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})
    for id in ("not-an-id", "00000000000000000000000000000000"):
        refused("NoSuchVersion", w.s3.get_object, Bucket=name, Key="k", VersionId=id, status=404)
        refused("NoSuchVersion", w.s3.get_object_tagging, Bucket=name, Key="k", VersionId=id, status=404)
        refused("404", w.s3.head_object, Bucket=name, Key="k", VersionId=id, status=404)


@case("boto3")
def policies_know_arn_like(w):
    name = w.bucket()
    w.put(name, "k")
    allow = {"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": "s3:GetObject", "Resource": f"arn:aws:s3:::{name}/*",
             "Condition": {"ArnLike": {"aws:PrincipalArn": "arn:aws:iam::oth*:root"}}}
    w.s3.delete_public_access_block(Bucket=name)
    w.s3.put_bucket_policy(Bucket=name, Policy=json.dumps({"Version": "2012-10-17", "Statement": [allow]}))
    equal(w.other.get_object(Bucket=name, Key="k")["Body"].read(), b"x")
    refused("AccessDenied", w.anonymous.get_object, Bucket=name, Key="k", status=403)


@case("boto3")
def writes_take_an_etag_that_must_not_match(w):
    """`If-None-Match: ETAG`: the write is refused while the current version is that one."""
    name = w.bucket()
    etag = w.s3.put_object(Bucket=name, Key="k", Body=b"1")["ETag"]
    refused("PreconditionFailed", w.s3.put_object, Bucket=name, Key="k", Body=b"2", IfNoneMatch=etag, status=412)
    other = w.s3.put_object(Bucket=name, Key="k", Body=b"2", IfNoneMatch='"00000000000000000000000000000000"')["ETag"]
    w.s3.put_object(Bucket=name, Key="k", Body=b"3", IfNoneMatch=etag)
    w.s3.put_object(Bucket=name, Key="new", Body=b"1", IfNoneMatch=etag)
    equal((w.s3.get_object(Bucket=name, Key="k")["Body"].read(), other != etag), (b"3", True))
    refused("PreconditionFailed", w.s3.put_object, Bucket=name, Key="k", Body=b"4", IfMatch=etag, status=412)
    refused("NoSuchKey", w.s3.put_object, Bucket=name, Key="absent", Body=b"4", IfMatch=etag, status=404)
    current = w.s3.head_object(Bucket=name, Key="k")["ETag"]
    for condition, code in ((current, "PreconditionFailed"), (etag, None)):
        upload = w.s3.create_multipart_upload(Bucket=name, Key="k")["UploadId"]
        at = {"Bucket": name, "Key": "k", "UploadId": upload}
        part = w.s3.upload_part(**at, PartNumber=1, Body=b"part")["ETag"]
        whole = {"MultipartUpload": {"Parts": [{"PartNumber": 1, "ETag": part}]}, "IfNoneMatch": condition}
        if code:
            refused(code, w.s3.complete_multipart_upload, **at, **whole, status=412)
        else:
            w.s3.complete_multipart_upload(**at, **whole)
