"""The table of docs/guides/s3.md: call by call, supported or refused, tested by which client.

Supported is what the gateway's own table says (crates/door-s3/src/gateway/api.rs), tested is what the
cases just did; a guide that says something else is an error.
"""

import os
import re

BEGIN, END = "<!-- calls: begin -->", "<!-- calls: end -->"

# Every call of the S3 API that the gateway answers with NotImplemented, and why.
REFUSED = {
    "CreateSession": "directory buckets",
    "CreateBucketMetadataTableConfiguration": "metadata tables",
    "GetBucketMetadataTableConfiguration": "metadata tables",
    "DeleteBucketMetadataTableConfiguration": "metadata tables",
    "PutBucketAccelerateConfiguration": "acceleration",
    "PutBucketAnalyticsConfiguration": "analytics",
    "DeleteBucketAnalyticsConfiguration": "analytics",
    "PutBucketIntelligentTieringConfiguration": "one storage class",
    "DeleteBucketIntelligentTieringConfiguration": "one storage class",
    "PutBucketInventoryConfiguration": "inventories",
    "DeleteBucketInventoryConfiguration": "inventories",
    "PutBucketMetricsConfiguration": "metrics are at /metrics",
    "DeleteBucketMetricsConfiguration": "metrics are at /metrics",
    "PutBucketNotificationConfiguration": "notifications",
    "PutBucketReplication": "replication is the cluster's own",
    "PutBucketRequestPayment": "the owner pays",
    "GetObjectTorrent": "torrents", "ListDirectoryBuckets": "directory buckets",
    "SelectObjectContent": "queries", "WriteGetObjectResponse": "object lambdas",
}

# Sent elsewhere than to the endpoint that a client is given, so that no gateway ever sees them.
BEYOND_CLIENTS = {"CreateSession", "ListDirectoryBuckets", "WriteGetObjectResponse"}

# Carried out, but for Hive there is only one answer.
ONE_ANSWER = {"RestoreObject": "`InvalidObjectState`: nothing is archived",
              "GetBucketEncryption": "`ServerSideEncryptionConfigurationNotFoundError`: no bucket has the setting",
              "PutBucketEncryption": "`NotImplemented`: nothing is encrypted at rest",
              "GetBucketAccelerateConfiguration": "no status: acceleration is not offered",
              "GetBucketNotificationConfiguration": "empty: notifications are not offered",
              "GetBucketRequestPayment": "`BucketOwner`",
              "GetBucketReplication": "`ReplicationConfigurationNotFoundError`: replication is the cluster's own",
              "DeleteBucketReplication": "done: there is none",
              "GetBucketAnalyticsConfiguration": "`NoSuchConfiguration`", "ListBucketAnalyticsConfigurations": "an empty list",
              "GetBucketIntelligentTieringConfiguration": "`NoSuchConfiguration`: one storage class",
              "ListBucketIntelligentTieringConfigurations": "an empty list",
              "GetBucketInventoryConfiguration": "`NoSuchConfiguration`", "ListBucketInventoryConfigurations": "an empty list",
              "GetBucketMetricsConfiguration": "`NoSuchConfiguration`: metrics are at /metrics",
              "ListBucketMetricsConfigurations": "an empty list"}


def supported(root):
    with open(os.path.join(root, "crates/door-s3/src/gateway/api.rs")) as table:
        text = table.read()
    return sorted(re.findall(r"^    \w+ on_\w+ (\w+)Input \w+Output;", text, re.M))


def table(root, seen):
    lines = ["| call | | tested by |", "|---|---|---|"]
    for call in supported(root):
        clients = ", ".join(sorted(seen.get(call, []))) or "boto3 (its refusal)"
        lines.append(f"| {call} | {ONE_ANSWER.get(call, 'supported')} | {clients} |")
    for call, why in sorted(REFUSED.items()):
        lines.append(f"| {call} | `NotImplemented`: {why} | |")
    return "\n".join(lines)


def check_or_write(root, seen, write):
    """What is wrong with the guide, if anything."""
    path = os.path.join(root, "docs/guides/s3.md")
    with open(path) as guide:
        text = guide.read()
    begin, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    fresh = f"\n{table(root, seen)}\n"
    if text[begin:end] == fresh:
        return None
    if not write:
        return "its table is not what was tested; run scripts/s3-clients.sh --write-guide"
    with open(path, "w") as guide:
        guide.write(text[:begin] + fresh + text[end:])
    return None
