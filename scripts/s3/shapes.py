"""What cases of several subjects share: sizes, keys of a page, calls with headers, plain HTTP."""

import urllib.error
import urllib.request

MIB = 1 << 20


def keys(page):
    return [entry["Key"] for entry in page.get("Contents", [])]


def groups(page):
    return [entry["Prefix"] for entry in page.get("CommonPrefixes", [])]


def with_header(client, operation, **headers):
    """A client's calls of an operation with headers that this boto3 has no word for."""
    def add(params, **_):
        params["headers"].update({name.replace("_", "-"): value for name, value in headers.items()})
    client.meta.events.register_last(f"before-call.s3.{operation}", add, unique_id=f"more headers of {operation}")


def fetch(url, method="GET", body=None, headers=None):
    request = urllib.request.Request(url, method=method, data=body, headers=headers or {})
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()
