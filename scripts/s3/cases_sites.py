"""Buckets as websites, and access logs of buckets."""

import http.client
import json
import re
import time

from cases_bad_input import Raw
from world import case, equal, refused

# What a node waits before it puts its access logs, and some more.
LOGS_WAIT_S = 120


def visit(w, host, path, method="GET", **headers):
    """What a browser is answered; no redirect is followed."""
    server = w.endpoint.split("://")[1]
    connection = http.client.HTTPConnection(server, timeout=20)
    headers = {"Host": host, **{name.replace("_", "-"): value for name, value in headers.items()}}
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    text = answer.read().decode(errors="replace")
    connection.close()
    return answer.status, answer.headers, text


def published(w):
    """A bucket that anybody may read."""
    name = w.bucket()
    w.s3.delete_public_access_block(Bucket=name)
    allow = {"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": f"arn:aws:s3:::{name}/*"}
    w.s3.put_bucket_policy(Bucket=name, Policy=json.dumps({"Version": "2012-10-17", "Statement": [allow]}))
    return name


@case("boto3")
def websites_come_back_as_they_were(w):
    name = w.bucket()
    refused("NoSuchWebsiteConfiguration", w.s3.get_bucket_website, Bucket=name, status=404)
    rule = {"Condition": {"KeyPrefixEquals": "docs/"}, "Redirect": {"ReplaceKeyPrefixWith": "documents/", "HttpRedirectCode": "302"}}
    for site in ({"IndexDocument": {"Suffix": "index.html"}, "ErrorDocument": {"Key": "error.html"}, "RoutingRules": [rule]},
                 {"RedirectAllRequestsTo": {"HostName": "example.org", "Protocol": "https"}}):
        w.s3.put_bucket_website(Bucket=name, WebsiteConfiguration=site)
        found = w.s3.get_bucket_website(Bucket=name)
        equal({key: value for key, value in found.items() if key != "ResponseMetadata"}, site)
    w.s3.delete_bucket_website(Bucket=name)
    refused("NoSuchWebsiteConfiguration", w.s3.get_bucket_website, Bucket=name, status=404)
    bad = ({}, {"IndexDocument": {"Suffix": "a/b"}}, {"ErrorDocument": {"Key": "e"}},
           {"RedirectAllRequestsTo": {"HostName": "h"}, "IndexDocument": {"Suffix": "i"}},
           {"RedirectAllRequestsTo": {"HostName": "h", "Protocol": "ftp"}},
           {"IndexDocument": {"Suffix": "i"}, "RoutingRules": [{"Redirect": {"HttpRedirectCode": "200"}}]},
           {"IndexDocument": {"Suffix": "i"}, "RoutingRules": [{"Redirect": {"ReplaceKeyWith": "a", "ReplaceKeyPrefixWith": "b"}}]})
    for site in bad:
        refused("InvalidArgument", w.s3.put_bucket_website, Bucket=name, WebsiteConfiguration=site, status=400)
    refused("AccessDenied", w.other.put_bucket_website, Bucket=name, WebsiteConfiguration={"IndexDocument": {"Suffix": "i"}})


@case("raw")
def websites_are_served_to_anybody(w):
    name = published(w)
    host = f"{name}.{w.site_domain}"
    equal(visit(w, host, "/")[0], 404)
    for key, body in (("index.html", "home"), ("docs/index.html", "docs"), ("error.html", "sorry"), ("a b.txt", "plain")):
        w.s3.put_object(Bucket=name, Key=key, Body=body.encode(), ContentType="text/html")
    w.s3.put_object(Bucket=name, Key="moved", Body=b"", WebsiteRedirectLocation="https://example.org/there")
    rules = [{"Condition": {"KeyPrefixEquals": "old/"}, "Redirect": {"ReplaceKeyPrefixWith": "docs/", "HttpRedirectCode": "302"}},
             {"Condition": {"HttpErrorCodeReturnedEquals": "404", "KeyPrefixEquals": "lost/"}, "Redirect": {"HostName": "found.example"}},
             {"Condition": {"HttpErrorCodeReturnedEquals": "403", "KeyPrefixEquals": "lost/"}, "Redirect": {"HostName": "found.example"}}]
    site = {"IndexDocument": {"Suffix": "index.html"}, "ErrorDocument": {"Key": "error.html"}, "RoutingRules": rules}
    w.s3.put_bucket_website(Bucket=name, WebsiteConfiguration=site)
    for path, text in (("/", "home"), ("/docs/", "docs"), ("/index.html", "home"), ("/a%20b.txt", "plain")):
        status, headers, got = visit(w, host, path)
        equal((status, got, headers["content-type"]), (200, text, "text/html"))
    equal(visit(w, host, "/", "HEAD")[0::2], (200, ""))
    status, headers, _ = visit(w, host, "/index.html", Range="bytes=0-1")
    equal((status, headers["content-range"]), (206, "bytes 0-1/4"))
    for path, status, there in (("/docs", 302, "/docs/"), ("/old/x", 302, f"http://{host}/docs/x"),
                                ("/lost/y", 301, "http://found.example/lost/y"), ("/moved", 301, "https://example.org/there")):
        got, headers, _ = visit(w, host, path)
        equal((got, headers["location"]), (status, there))
    status, _, text = visit(w, host, "/nowhere")
    assert status in (403, 404) and text == "sorry", (status, text)
    for method in ("PUT", "POST", "DELETE"):
        equal(visit(w, host, "/x", method)[0], 405)
    # Nobody is more than anybody here, whatever is signed.
    w.put(name, "private")
    deny = {"Effect": "Deny", "Principal": "*", "Action": "s3:GetObject", "Resource": f"arn:aws:s3:::{name}/private",
            "Condition": {"StringEquals": {"aws:PrincipalType": "Anonymous"}}}
    policy = json.loads(w.s3.get_bucket_policy(Bucket=name)["Policy"])
    policy["Statement"].append(deny)
    w.s3.put_bucket_policy(Bucket=name, Policy=json.dumps(policy))
    signed = w.s3.generate_presigned_url("get_object", {"Bucket": name, "Key": "private"})
    status, _, text = visit(w, host, "/private?" + signed.split("?")[1])
    equal((status, text), (403, "sorry"))
    status, _, text = visit(w, f"{w.name()}.{w.site_domain}", "/")
    assert status == 404 and "NoSuchBucket" in text, text
    w.s3.put_bucket_website(Bucket=name, WebsiteConfiguration={"RedirectAllRequestsTo": {"HostName": "example.org", "Protocol": "https"}})
    status, headers, _ = visit(w, host, "/a%20b?c=d")
    equal((status, headers["location"]), (301, "https://example.org/a%20b?c=d"))


@case("raw")
def access_logs_go_where_their_owner_may_put(w):
    name, logs = w.bucket(), w.bucket()
    assert "LoggingEnabled" not in w.s3.get_bucket_logging(Bucket=name)
    enabled = lambda bucket, **more: {"LoggingEnabled": {"TargetBucket": bucket, "TargetPrefix": "log/", **more}}
    foreign = w.name()
    w.other.create_bucket(Bucket=foreign)
    for target in (w.name(), foreign):
        refused("InvalidTargetBucketForLogging", w.s3.put_bucket_logging, Bucket=name, BucketLoggingStatus=enabled(target), status=400)
    grants = [{"Grantee": {"Type": "CanonicalUser", "ID": "other"}, "Permission": "READ"}]
    refused("NotImplemented", w.s3.put_bucket_logging, Bucket=name, BucketLoggingStatus=enabled(logs, TargetGrants=grants))
    w.s3.put_bucket_logging(Bucket=name, BucketLoggingStatus=enabled(logs))
    equal(w.s3.get_bucket_logging(Bucket=name)["LoggingEnabled"], {"TargetBucket": logs, "TargetPrefix": "log/"})
    w.put(name, "a key", body=b"hello")
    raw = Raw(w)
    equal(raw.send("GET", f"/{name}/a%20key", headers={"user-agent": 'an "agent"'})[0], 200)
    request = raw.headers["x-amz-request-id"]
    refused("404", w.s3.head_object, Bucket=name, Key="none")
    refused("AccessDenied", w.anonymous.get_object, Bucket=name, Key="a key")
    lines = wait_for_lines(w, logs, 4)
    fields = [re.findall(r'\[[^\]]*\]|"[^"]*"|\S+', line) for line in lines]
    by = {(field[6], field[9]): field for field in fields}
    got = next(field for field in fields if field[5] == request)
    equal(got[:2] + got[4:5] + got[6:10], ["demo", name, "demo", "REST.GET.OBJECT", "a%20key", f'"GET /{name}/a%20key HTTP/1.1"', "200"])
    equal((got[11], got[12], got[16]), ("5", "5", '"an _agent_"'))
    equal(by["REST.HEAD.OBJECT", "404"][4], "demo")
    denied = by["REST.GET.OBJECT", "403"]
    equal((denied[4], denied[10]), ("-", "AccessDenied"))
    equal(by["REST.PUT.OBJECT", "200"][7], "a%20key")
    w.s3.put_bucket_logging(Bucket=name, BucketLoggingStatus={})
    assert "LoggingEnabled" not in w.s3.get_bucket_logging(Bucket=name)


def wait_for_lines(w, logs, count):
    patience = time.monotonic() + LOGS_WAIT_S
    while time.monotonic() < patience:
        lines = []
        for entry in w.s3.list_objects_v2(Bucket=logs, Prefix="log/").get("Contents", []):
            assert re.fullmatch(r"log/\d{4}(-\d\d){5}-[0-9A-F]{16}", entry["Key"]), entry["Key"]
            lines += w.s3.get_object(Bucket=logs, Key=entry["Key"])["Body"].read().decode().splitlines()
        if len([line for line in lines if ".OBJECT" in line]) >= count:
            return lines
        time.sleep(1)
    raise AssertionError(f"{len(lines)} lines within {LOGS_WAIT_S} s: {lines}")
