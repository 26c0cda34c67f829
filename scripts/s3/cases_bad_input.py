"""What no good client sends: raw requests, signed by hand, each with the S3 code it must be refused with."""

import base64
import datetime
import hashlib
import hmac
import http.client
import re
import urllib.parse
import zlib

from world import case, equal, refused


class Raw:
    """Signs (version 4) whatever it is given, right or wrong."""

    def __init__(self, w):
        self.w = w
        self.host = w.endpoint.split("://")[1]

    def send(self, method, path, body=b"", query="", headers=None, secret=None, key=None, now=None, sha=None,
             sign=True, after=None, chunks=None, spoil=None, stream=None, dated_by="x-amz-date"):
        now = now or datetime.datetime.now(datetime.timezone.utc)
        stamp, day = now.strftime("%Y%m%dT%H%M%SZ"), now.strftime("%Y%m%d")
        sha = sha or hashlib.sha256(body).hexdigest()
        all_headers = {"host": self.host, "x-amz-content-sha256": sha}
        all_headers[dated_by] = stamp if dated_by == "x-amz-date" else now.strftime("%a, %d %b %Y %H:%M:%S GMT")
        all_headers.update({name.lower(): value for name, value in (headers or {}).items()})
        names = ";".join(sorted(all_headers))
        canonical_query = "&".join(sorted(pair if "=" in pair else pair + "=" for pair in query.split("&") if pair))
        canonical = "\n".join([method, path, canonical_query] + [f"{name}:{all_headers[name]}" for name in sorted(all_headers)]
                              + ["", names, sha])
        scope = f"{day}/{self.w.region}/s3/aws4_request"
        text = "\n".join(["AWS4-HMAC-SHA256", stamp, scope, hashlib.sha256(canonical.encode()).hexdigest()])
        signing = ("AWS4" + (secret or self.w.secret)).encode()
        for word in (day, self.w.region, "s3", "aws4_request"):
            signing = hmac.new(signing, word.encode(), hashlib.sha256).digest()
        signature = hmac.new(signing, text.encode(), hashlib.sha256).hexdigest()
        self.seed, self.signing, self.scope, self.stamp = signature, signing, scope, stamp
        if chunks is not None:
            body = b"".join(self.chunk(piece) for piece in [*chunks, b""])
            body = spoil(body) if spoil else body
        if stream is not None:
            body = stream()
        if sign:
            all_headers["authorization"] = (
                f"AWS4-HMAC-SHA256 Credential={key or self.w.key}/{scope}, SignedHeaders={names}, Signature={signature}")
        all_headers.update(after or {})
        connection = http.client.HTTPConnection(self.host, timeout=20)
        connection.request(method, path + ("?" + query if query else ""), body=body, headers=all_headers)
        answer = connection.getresponse()
        self.headers = answer.headers
        text = answer.read().decode(errors="replace")
        connection.close()
        found = re.search("<Code>(.*?)</Code>", text)
        return answer.status, found.group(1) if found else None, text

    def chunk(self, piece):
        """One signed piece of a streamed body; each signature is over the one before it."""
        empty = hashlib.sha256(b"").hexdigest()
        text = "\n".join(["AWS4-HMAC-SHA256-PAYLOAD", self.stamp, self.scope, self.seed, empty,
                          hashlib.sha256(piece).hexdigest()])
        self.seed = hmac.new(self.signing, text.encode(), hashlib.sha256).hexdigest()
        return f"{len(piece):x};chunk-signature={self.seed}\r\n".encode() + piece + b"\r\n"

    def trailer(self, line, spoiled=False):
        """What comes behind the last piece: a header, and a signature over it that goes on from the last piece's."""
        text = "\n".join(["AWS4-HMAC-SHA256-TRAILER", self.stamp, self.scope, self.seed,
                          hashlib.sha256(line.encode() + b"\n").hexdigest()])
        signature = hmac.new(self.signing, text.encode(), hashlib.sha256).hexdigest()
        signature = "0" * 64 if spoiled else signature
        return f"{line}\r\nx-amz-trailer-signature:{signature}\r\n\r\n".encode()

    def expect(self, status, code, *arguments, **named):
        got_status, got_code, text = self.send(*arguments, **named)
        assert (got_status, got_code) == (status, code), \
            f"{arguments[:2]} {named.get('query', '')}: {got_status} {got_code}, expected {status} {code}: {text[:300]}"


@case("raw")
def bad_signatures(w):
    name = w.bucket()
    raw = Raw(w)
    equal(raw.send("GET", f"/{name}")[0], 200)
    raw.expect(403, "SignatureDoesNotMatch", "GET", f"/{name}", secret="wrong")
    raw.expect(403, "InvalidAccessKeyId", "GET", f"/{name}", key="nobody")
    hours = datetime.timedelta(hours=1)
    now = datetime.datetime.now(datetime.timezone.utc)
    raw.expect(403, "RequestTimeTooSkewed", "GET", f"/{name}", now=now - hours)
    raw.expect(403, "RequestTimeTooSkewed", "GET", f"/{name}", now=now + hours)
    raw.expect(403, "AccessDenied", "GET", f"/{name}", sign=False)
    raw.expect(400, "XAmzContentSHA256Mismatch", "PUT", f"/{name}/k", body=b"other", sha=hashlib.sha256(b"this").hexdigest())
    status, code, _ = raw.send("GET", f"/{name}", sign=False, after={"authorization": "AWS4-HMAC-SHA256 nonsense"})
    assert 400 <= status < 404, (status, code)
    raw.expect(403, "AccessDenied", "PUT", f"/{name}/k", after={"x-amz-copy-source": f"/{name}/other"})
    raw.expect(403, "AccessDenied", "DELETE", f"/{name}/k", after={"x-amz-bypass-governance-retention": "true"})
    raw.expect(400, "InvalidRequest", "GET", f"/{name}", sign=False, after={"authorization": f"AWS {w.key}:c2lnbmF0dXJl"})
    raw.expect(400, "InvalidRequest", "GET", f"/{name}/k", sign=False, query=f"AWSAccessKeyId={w.key}&Expires=4000000000&Signature=x")


@case("raw")
def bad_names(w):
    raw = Raw(w)
    for bad in ("ab", "UPPER", "a..b", "under_score", "192.168.1.1", "x" * 64, "-lead", "trail-"):
        raw.expect(400, "InvalidBucketName", "PUT", f"/{bad}")
    name = w.bucket()
    raw.expect(400, "KeyTooLongError", "PUT", f"/{name}/" + "k" * 1025, body=b"x")
    equal(raw.send("PUT", f"/{name}/" + "k" * 1024, body=b"x")[0], 200)
    raw.expect(400, "InvalidURI", "PUT", f"/{name}/%ff%fe", body=b"x")


@case("raw")
def bad_xml(w):
    name = w.bucket()
    raw = Raw(w)
    bodies = [b"", b"not xml", b"<Delete><Object>", b"<Other/>", b"<?xml version='1.0'?><Delete></Wrong>"]
    for query in ("delete", "versioning", "tagging", "cors", "lifecycle", "publicAccessBlock", "ownershipControls",
                  "object-lock", "encryption"):
        method = "POST" if query == "delete" else "PUT"
        for body in bodies[1:]:
            raw.expect(400, "MalformedXML", method, f"/{name}", body=body, query=query)
    locked = w.bucket(ObjectLockEnabledForBucket=True)
    w.put(locked, "k")
    for query in ("tagging", "retention", "legal-hold"):
        for body in bodies[1:]:
            raw.expect(400, "MalformedXML", "PUT", f"/{locked}/k", body=body, query=query)
    for at in (f"/{name}", f"/{locked}/k"):
        for body in bodies[1:]:
            raw.expect(400, "MalformedACLError", "PUT", at, body=body, query="acl")
        raw.expect(400, "MissingSecurityHeader", "PUT", at, query="acl")
    equal(w.s3.get_object(Bucket=locked, Key="k")["Body"].read(), b"x")
    for bad in (b"{", b"[]", b'{"Version":"2012-10-17"}', b"\xff\xfe"):
        raw.expect(400, "MalformedPolicy", "PUT", f"/{name}", body=bad, query="policy")
    big = b"<Delete>" + b"<Object><Key>k</Key></Object>" * 1001 + b"</Delete>"
    raw.expect(400, "MalformedXML", "POST", f"/{name}", body=big, query="delete")


@case("raw")
def documents_too_long(w):
    name = w.bucket()
    raw = Raw(w)
    # Refused by its head: the rest is never sent.
    raw.expect(400, "MaxMessageLengthExceeded", "POST", f"/{name}", query="delete", body=b"<Delete>",
               after={"content-length": str((1 << 20) + 1)})
    raw.expect(403, "AccessDenied", "POST", f"/{name}", query="delete", body=b"<Delete>", sign=False)
    raw.expect(501, "NotImplemented", "PUT", f"/{name}", query="notification", body=b"<x>")


@case("raw")
def bad_parts(w):
    name = w.bucket()
    raw = Raw(w)
    upload = w.s3.create_multipart_upload(Bucket=name, Key="k")["UploadId"]
    for number in ("0", "10001", "-1"):
        raw.expect(400, "InvalidArgument", "PUT", f"/{name}/k", body=b"x", query=f"partNumber={number}&uploadId={upload}")
    equal(raw.send("PUT", f"/{name}/k", body=b"x", query=f"partNumber=10000&uploadId={upload}")[0], 200)
    raw.expect(404, "NoSuchUpload", "PUT", f"/{name}/k", body=b"x", query="partNumber=1&uploadId=unknown")
    raw.expect(404, "NoSuchUpload", "PUT", f"/{name}/other", body=b"x", query=f"partNumber=1&uploadId={upload}")
    raw.expect(404, "NoSuchUpload", "GET", f"/{name}/k", query="uploadId=unknown")
    raw.expect(404, "NoSuchUpload", "DELETE", f"/{name}/k", query="uploadId=unknown")
    part = "<Part><PartNumber>{}</PartNumber><ETag>\"{}\"</ETag></Part>"
    complete = lambda parts: ("<CompleteMultipartUpload>" + "".join(parts) + "</CompleteMultipartUpload>").encode()
    raw.expect(400, "MalformedXML", "POST", f"/{name}/k", body=b"junk", query=f"uploadId={upload}")
    many = complete(part.format(number, "0" * 32) for number in range(1, 10_002))
    status, code, text = raw.send("POST", f"/{name}/k", body=many, query=f"uploadId={upload}")
    assert status == 400 and code in ("MalformedXML", "InvalidArgument"), (status, code, text)
    raw.expect(404, "NoSuchUpload", "POST", f"/{name}/k", body=complete([part.format(1, "0" * 32)]), query="uploadId=unknown")
    raw.expect(400, "InvalidPart", "POST", f"/{name}/k", body=complete([part.format(1, "0" * 32)]), query=f"uploadId={upload}")
    twice = complete([part.format(2, "0" * 32), part.format(2, "0" * 32)])
    raw.expect(400, "InvalidPartOrder", "POST", f"/{name}/k", body=twice, query=f"uploadId={upload}")
    too_large = {"content-length": str((5 << 30) + 1)}
    raw.expect(400, "EntityTooLarge", "PUT", f"/{name}/k", query=f"partNumber=1&uploadId={upload}", sha="UNSIGNED-PAYLOAD",
               after=too_large)
    equal(len(w.s3.list_parts(Bucket=name, Key="k", UploadId=upload)["Parts"]), 1)


@case("raw")
def bad_sizes_and_headers(w):
    name = w.bucket()
    raw = Raw(w)
    too_large = str((5 << 30) + 1)
    raw.expect(400, "EntityTooLarge", "PUT", f"/{name}/k", sha="UNSIGNED-PAYLOAD", after={"content-length": too_large})
    metadata = {"x-amz-meta-a": "v" * 2048}
    raw.expect(400, "MetadataTooLarge", "PUT", f"/{name}/k", body=b"x", headers=metadata)
    raw.expect(400, "InvalidArgument", "PUT", f"/{name}/k", body=b"x", headers={"x-amz-acl": "nobody-knows"})
    raw.expect(400, "InvalidStorageClass", "PUT", f"/{name}/k", body=b"x", headers={"x-amz-storage-class": "FROZEN"})
    raw.expect(400, "InvalidTag", "PUT", f"/{name}/k", body=b"x", headers={"x-amz-tagging": "a=1&a=2"})
    raw.expect(400, "InvalidArgument", "GET", f"/{name}", query="list-type=2&max-keys=-1")
    raw.expect(400, "InvalidArgument", "GET", f"/{name}", query="encoding-type=rot13&list-type=2")
    raw.expect(400, "InvalidArgument", "GET", f"/{name}", query="continuation-token=%21&list-type=2")
    raw.expect(404, "NoSuchVersion", "GET", f"/{name}/k", query="versionId=%20")
    raw.expect(404, "NoSuchKey", "GET", f"/{name}/k")


@case("raw", "PutObject")
def streamed_bodies(w):
    """Signed piece by piece; a changed byte, a missing piece or a wrong length leaves the old object."""
    name = w.bucket()
    raw = Raw(w)
    pieces = [b"a" * 70_000, b"b" * 9_000]
    whole = b"".join(pieces)
    streamed = {"sha": "STREAMING-AWS4-HMAC-SHA256-PAYLOAD", "chunks": pieces}
    length = {"x-amz-decoded-content-length": str(len(whole)), "content-encoding": "aws-chunked"}
    equal(raw.send("PUT", f"/{name}/k", headers=length, **streamed)[:2], (200, None))
    got = w.s3.get_object(Bucket=name, Key="k")
    equal((got["Body"].read(), got.get("ContentEncoding")), (whole, None))
    changed = lambda body: body.replace(b"b" * 9_000, b"b" * 8_999 + b"c")
    raw.expect(403, "SignatureDoesNotMatch", "PUT", f"/{name}/k", headers=length, spoil=changed, **streamed)
    cut = lambda body: body[:72_000]
    raw.expect(400, "IncompleteBody", "PUT", f"/{name}/k", headers=length, spoil=cut, **streamed)
    short = {**length, "x-amz-decoded-content-length": "79001"}
    status, code, _ = raw.send("PUT", f"/{name}/k", headers=short, **streamed)
    assert status == 400, (status, code)
    equal(w.s3.get_object(Bucket=name, Key="k")["Body"].read(), whole)
    w.s3.get_object(Bucket=name, Key="k", ExpectedBucketOwner="demo")
    refused("AccessDenied", w.s3.get_object, Bucket=name, Key="k", ExpectedBucketOwner="other", status=403)
    of_another = {"Bucket": name, "ExpectedBucketOwner": "other"}
    tags = {"TagSet": [{"Key": "a", "Value": "b"}]}
    refused("AccessDenied", w.s3.restore_object, Key="k", RestoreRequest={"Days": 1}, status=403, **of_another)
    refused("AccessDenied", w.s3.put_bucket_tagging, Tagging=tags, status=403, **of_another)
    refused("AccessDenied", w.s3.get_bucket_versioning, status=403, **of_another)
    refused("AccessDenied", w.s3.list_objects_v2, status=403, **of_another)
    refused("AccessDenied", w.s3.delete_bucket, status=403, **of_another)


@case("raw", "PutObject", "UploadPart")
def streamed_bodies_with_trailers(w):
    """The checksum comes behind the bytes, signed or not: it is verified and kept; wrong or absent, nothing is put."""
    name = w.bucket()
    raw = Raw(w)
    pieces = [b"a" * 70_000, b"b" * 9_000]
    whole = b"".join(pieces)
    crc = lambda body: base64.b64encode(zlib.crc32(body).to_bytes(4, "big")).decode()
    good = f"x-amz-checksum-crc32:{crc(whole)}"
    headers = {"x-amz-decoded-content-length": str(len(whole)), "content-encoding": "aws-chunked",
               "x-amz-trailer": "x-amz-checksum-crc32"}

    def signed(line, spoiled=False):
        # The last, empty piece ends without a line of its own where a trailer follows.
        body = lambda: b"".join(raw.chunk(piece) for piece in pieces) + raw.chunk(b"")[:-2] + raw.trailer(line, spoiled)
        return {"sha": "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER", "stream": body}

    def unsigned(line):
        chunks = b"".join(f"{len(piece):x}\r\n".encode() + piece + b"\r\n" for piece in pieces)
        end = f"0\r\n{line}\r\n\r\n" if line else "0\r\n\r\n"
        return {"sha": "STREAMING-UNSIGNED-PAYLOAD-TRAILER", "stream": lambda: chunks + end.encode()}

    for way, kind in ((signed, "signed"), (unsigned, "unsigned")):
        equal(raw.send("PUT", f"/{name}/{kind}", headers=headers, **way(good))[:2], (200, None))
        got = w.s3.get_object(Bucket=name, Key=kind, ChecksumMode="ENABLED")
        equal((got["Body"].read(), got["ChecksumCRC32"], got.get("ContentEncoding")), (whole, crc(whole), None))
        wrong = f"x-amz-checksum-crc32:{crc(b'other')}"
        raw.expect(400, "BadDigest", "PUT", f"/{name}/{kind}", headers=headers, **way(wrong))
        upload = w.s3.create_multipart_upload(Bucket=name, Key="parts", ChecksumAlgorithm="CRC32")["UploadId"]
        query = f"partNumber=1&uploadId={upload}"
        raw.expect(400, "BadDigest", "PUT", f"/{name}/parts", headers=headers, query=query, **way(wrong))
        equal(raw.send("PUT", f"/{name}/parts", headers=headers, query=query, **way(good))[:2], (200, None))
        part = w.s3.list_parts(Bucket=name, Key="parts", UploadId=upload)["Parts"][0]
        equal((part["Size"], part["ChecksumCRC32"]), (len(whole), crc(whole)))
    raw.expect(403, "SignatureDoesNotMatch", "PUT", f"/{name}/signed", headers=headers, **signed(good, spoiled=True))
    for line in ("", "x-amz-checksum-sha1:AAAA"):
        status, code, _ = raw.send("PUT", f"/{name}/unsigned", headers=headers, **unsigned(line))
        assert status == 400, (line, status, code)
    for kind in ("signed", "unsigned"):
        equal(w.s3.get_object(Bucket=name, Key=kind)["Body"].read(), whole)


@case("raw")
def broken_uploads_lose_nothing(w):
    """A body that ends early leaves the old object, and a fresh put works."""
    name = w.bucket()
    w.put(name, "k", body=b"old")
    host, port = w.endpoint.split("://")[1].split(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=20)
    url = w.s3.generate_presigned_url("put_object", {"Bucket": name, "Key": "k"})
    path = urllib.parse.urlsplit(url)
    connection.putrequest("PUT", f"{path.path}?{path.query}")
    connection.putheader("content-length", str(1 << 20))
    connection.endheaders()
    connection.send(b"x" * 200_000)
    connection.close()
    equal(w.s3.get_object(Bucket=name, Key="k")["Body"].read(), b"old")
    w.put(name, "k", body=b"new")
    equal(w.s3.get_object(Bucket=name, Key="k")["Body"].read(), b"new")
