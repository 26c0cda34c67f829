"""What a case gets: endpoints, two accounts, clients, fresh bucket names, and checks."""

import collections
import os
import secrets

import boto3
import botocore
import botocore.config
import botocore.exceptions

CASES = []
Case = collections.namedtuple("Case", "name client function calls")


def case(client, *calls):
    """Registers a case. `calls` are the S3 calls that the client makes, where boto3's hooks do not see them."""

    def register(function):
        CASES.append(Case(function.__name__, client, function, calls))
        return function

    return register


class World:
    def __init__(self, endpoints, folder, nodes=None):
        self.endpoints = endpoints
        self.endpoint = endpoints[0]
        self.folder = folder
        self.nodes = nodes
        self.region = os.environ.get("S3_REGION", "fr-par")
        self.key = os.environ.get("S3_KEY", "demo-access-key")
        self.secret = os.environ.get("S3_SECRET", "demo-secret-key")
        self.other_key = os.environ.get("S3_OTHER_KEY", "other-access-key")
        self.other_secret = os.environ.get("S3_OTHER_SECRET", "other-secret-key")
        # Below it buckets are websites: of `hive dev`, and of the gateway alone.
        self.site_domain = os.environ.get("S3_SITES", "s3-website.localhost" if nodes else "site.localhost")
        self.run = secrets.token_hex(4)
        self.number = 0
        self.seen = collections.defaultdict(set)
        self.s3 = self.client(self.key, self.secret)
        self.other = self.client(self.other_key, self.other_secret, at=1)
        self.anonymous = self.client(None, None, at=2)

    def at(self, number):
        """The endpoint of a node; of the only one where there is one."""
        return self.endpoints[number % len(self.endpoints)]

    def client(self, key, secret, style="path", at=0, attempts=1, **config):
        signature = "s3v4" if key else botocore.UNSIGNED
        config = {"s3": {"addressing_style": style}, **config}
        retries = {"total_max_attempts": attempts, "mode": "standard"}
        settings = botocore.config.Config(signature_version=signature, retries=retries, **config)
        client = boto3.client(
            "s3",
            endpoint_url=self.at(at),
            aws_access_key_id=key,
            aws_secret_access_key=secret,
            region_name=self.region,
            config=settings,
        )

        def after(http_response, parsed, model, **_):
            if http_response.status_code < 300:
                self.seen[model.name].add("boto3")

        client.meta.events.register("after-call.s3", after)
        return client

    def tested(self, client, calls):
        for call in calls:
            self.seen[call].add(client)

    def name(self):
        self.number += 1
        return f"t{self.run}-{self.number}"

    def bucket(self, open_to_acls=False, **options):
        name = self.name()
        if open_to_acls:
            options["ObjectOwnership"] = "ObjectWriter"
        self.s3.create_bucket(Bucket=name, **options)
        if open_to_acls:
            self.s3.delete_public_access_block(Bucket=name)
        return name

    def put(self, bucket, *keys, body=b"x"):
        for key in keys:
            self.s3.put_object(Bucket=bucket, Key=key, Body=body)


def refused(code, function, *arguments, status=None, **named):
    """The call must be refused with this S3 code."""
    try:
        answer = function(*arguments, **named)
    except botocore.exceptions.ClientError as error:
        got = error.response["Error"]["Code"]
        http = error.response["ResponseMetadata"]["HTTPStatusCode"]
        assert got == code, f"refused with {got} ({error}), expected {code}"
        assert status is None or http == status, f"{code} came with status {http}, expected {status}"
        return error
    raise AssertionError(f"not refused, expected {code}: {answer}")


def equal(got, expected):
    assert got == expected, f"got {got!r}, expected {expected!r}"
