"""boto3: ways to a bucket: presigned URLs, virtual hosts, HTML forms."""

import json
import os
import urllib.error
import urllib.request

from shapes import MIB, fetch
from world import case, equal, refused


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
