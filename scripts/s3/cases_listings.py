"""boto3: listings of objects and of versions."""

import concurrent.futures

from shapes import groups, keys, with_header
from world import case, equal, refused


@case("boto3")
def listings(w):
    name = w.bucket()
    stored = ["a", "b/1", "b/2", "b/c/1", "c", "d/1", "z\x01", "é ü+&"]
    w.put(name, *stored)
    for call in (w.s3.list_objects, w.s3.list_objects_v2):
        equal(keys(call(Bucket=name)), stored)
        page = call(Bucket=name, Delimiter="/")
        equal((keys(page), groups(page)), (["a", "c", "z\x01", "é ü+&"], ["b/", "d/"]))
        page = call(Bucket=name, Delimiter="/", Prefix="b/")
        equal((keys(page), groups(page)), (["b/1", "b/2"], ["b/c/"]))
        equal(keys(call(Bucket=name, Prefix="none")), [])
        equal(keys(call(Bucket=name, MaxKeys=0)), [])
        refused("InvalidArgument", call, Bucket=name, MaxKeys=-1)
        raw = call(Bucket=name, Prefix="é", EncodingType="url")
        equal([raw["Contents"][0]["Key"], raw["EncodingType"]], ["%C3%A9%20%C3%BC%2B%26", "url"])
    found, token = [], None
    while True:
        more = {"ContinuationToken": token} if token else {}
        page = w.s3.list_objects_v2(Bucket=name, Delimiter="/", MaxKeys=1, **more)
        equal(page["KeyCount"], 1)
        found += keys(page) + groups(page)
        if not page["IsTruncated"]:
            break
        token = page["NextContinuationToken"]
    equal(found, ["a", "b/", "c", "d/", "z\x01", "é ü+&"])
    found, marker = [], ""
    while True:
        page = w.s3.list_objects(Bucket=name, Delimiter="/", MaxKeys=2, Marker=marker)
        found += keys(page) + groups(page)
        if not page["IsTruncated"]:
            break
        marker = page["NextMarker"]
    equal(sorted(found), sorted(["a", "b/", "c", "d/", "é ü+&", "z\x01"]))
    equal(keys(w.s3.list_objects_v2(Bucket=name, StartAfter="b/2")), stored[3:])
    entry = w.s3.list_objects_v2(Bucket=name, FetchOwner=True)["Contents"][0]
    equal((entry["Size"], entry["StorageClass"], entry["Owner"]["ID"]), (1, "STANDARD", "demo"))
    assert "Owner" not in w.s3.list_objects_v2(Bucket=name)["Contents"][0]
    token = w.s3.list_objects_v2(Bucket=name, MaxKeys=1)["NextContinuationToken"]
    refused("InvalidArgument", w.s3.list_objects_v2, Bucket=w.bucket(), ContinuationToken=token, status=400)
    refused("InvalidArgument", w.s3.list_objects_v2, Bucket=name, ContinuationToken="forged", status=400)
    refused("InvalidArgument", w.s3.list_objects_v2, Bucket=name, ContinuationToken=token[:-2] + "AA", status=400)
    refused("InvalidArgument", w.s3.list_objects_v2, Bucket=name, ContinuationToken=token, Prefix="b", status=400)
    tokens_of_others(w, token)
    words_for_snapshots(w, name)
    w.put(name, "more/é 1", "more/é 2")
    w.s3.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})
    raw = w.s3.list_object_versions(Bucket=name, Prefix="more/é", MaxKeys=1, EncodingType="url")
    equal((raw["Versions"][0]["Key"], raw["NextKeyMarker"]), ("more/%C3%A9%201", "more/%C3%A9%201"))
    w.s3.create_multipart_upload(Bucket=name, Key="é 1")
    equal(w.s3.list_multipart_uploads(Bucket=name, EncodingType="url")["Uploads"][0]["Key"], "%C3%A9%201")


def words_for_snapshots(w, name):
    """Nothing but true and false, and only where there are snapshots."""
    for word, code, status in (("yes", "InvalidArgument", 400), ("", "InvalidArgument", 400), ("true", "NotImplemented", 501)):
        client = w.client(w.key, w.secret)
        lists = {"ListMultipartUploads": client.list_multipart_uploads}
        if code == "InvalidArgument":
            lists |= {"ListObjects": client.list_objects, "ListObjectsV2": client.list_objects_v2,
                      "ListObjectVersions": client.list_object_versions}
        for operation, call in lists.items():
            with_header(client, operation, x_hive_snapshot=word)
            refused(code, call, Bucket=name, status=status)
    client = w.client(w.key, w.secret)
    with_header(client, "ListObjectsV2", x_hive_snapshot="false")
    answer = client.list_objects_v2(Bucket=name)
    assert "x-hive-snapshot" not in answer["ResponseMetadata"]["HTTPHeaders"], answer


def tokens_of_others(w, token):
    """A token is its own bucket's: another account's takes it as little, and so does a bucket that is recreated."""
    theirs = w.name()
    w.other.create_bucket(Bucket=theirs)
    w.other.put_object(Bucket=theirs, Key="a", Body=b"")
    refused("InvalidArgument", w.other.list_objects_v2, Bucket=theirs, ContinuationToken=token, status=400)
    name = w.bucket()
    w.put(name, "a", "b")
    old = w.s3.list_objects_v2(Bucket=name, MaxKeys=1)["NextContinuationToken"]
    w.s3.delete_objects(Bucket=name, Delete={"Objects": [{"Key": "a"}, {"Key": "b"}]})
    w.s3.delete_bucket(Bucket=name)
    w.other.create_bucket(Bucket=name)
    refused("InvalidArgument", w.other.list_objects_v2, Bucket=name, ContinuationToken=old, status=400)
    refused("AccessDenied", w.s3.list_objects_v2, Bucket=name, ContinuationToken=old, status=403)


@case("boto3")
def many_pages(w):
    name = w.bucket()
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda number: w.put(name, f"k{number:05}"), range(2500)))
    pages = list(w.s3.get_paginator("list_objects_v2").paginate(Bucket=name))
    equal([len(keys(page)) for page in pages], [1000, 1000, 500])
    equal([key for page in pages for key in keys(page)], [f"k{number:05}" for number in range(2500)])


@case("boto3")
def versions(w):
    name = w.bucket()
    w.put(name, "k", body=b"0")
    equal(w.s3.get_bucket_versioning(Bucket=name).get("Status"), None)
    w.s3.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})
    equal(w.s3.get_bucket_versioning(Bucket=name)["Status"], "Enabled")
    ids = [w.s3.put_object(Bucket=name, Key="k", Body=str(n).encode())["VersionId"] for n in (1, 2)]
    get = lambda **more: w.s3.get_object(Bucket=name, Key="k", **more)["Body"].read()
    equal((get(), get(VersionId=ids[0]), get(VersionId="null")), (b"2", b"1", b"0"))
    marker = w.s3.delete_object(Bucket=name, Key="k")
    equal(marker["DeleteMarker"], True)
    refused("NoSuchKey", get)
    refused("MethodNotAllowed", get, VersionId=marker["VersionId"], status=405)
    page = w.s3.list_object_versions(Bucket=name)
    equal([entry["VersionId"] for entry in page["Versions"]], [ids[1], ids[0], "null"])
    equal((page["DeleteMarkers"][0]["VersionId"], page["DeleteMarkers"][0]["IsLatest"]), (marker["VersionId"], True))
    equal(w.s3.delete_object(Bucket=name, Key="k", VersionId=marker["VersionId"])["DeleteMarker"], True)
    equal(get(), b"2")
    gone = w.s3.put_object(Bucket=name, Key="gone", Body=b"")["VersionId"]
    w.s3.delete_object(Bucket=name, Key="gone", VersionId=gone)
    refused("NoSuchVersion", get, VersionId=gone, status=404)
    refused("NoSuchVersion", get, VersionId="no version", status=404)
    found, more = [], {}
    while True:
        page = w.s3.list_object_versions(Bucket=name, MaxKeys=1, **more)
        found += [entry["VersionId"] for entry in page.get("Versions", [])]
        if not page["IsTruncated"]:
            break
        more = {"KeyMarker": page["NextKeyMarker"], "VersionIdMarker": page["NextVersionIdMarker"]}
    equal(found, [ids[1], ids[0], "null"])
    w.s3.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Suspended"})
    equal(w.s3.put_object(Bucket=name, Key="k", Body=b"3")["VersionId"], "null")
    equal((get(VersionId="null"), get(VersionId=ids[0])), (b"3", b"1"))
    w.s3.copy_object(Bucket=name, Key="c", CopySource={"Bucket": name, "Key": "k", "VersionId": ids[0]})
    equal(w.s3.get_object(Bucket=name, Key="c")["Body"].read(), b"1")
    refused("BucketNotEmpty", w.s3.delete_bucket, Bucket=name)
    for entry in w.s3.list_object_versions(Bucket=name)["Versions"]:
        w.s3.delete_object(Bucket=name, Key=entry["Key"], VersionId=entry["VersionId"])
    w.s3.delete_bucket(Bucket=name)
