"""boto3: uploads in several parts."""

import base64
import hashlib
import io
import os
import zlib

import boto3.s3.transfer

from shapes import MIB, groups
from world import case, equal, refused


@case("boto3")
def multipart(w):
    name = w.bucket()
    body = os.urandom(50 * MIB)
    config = boto3.s3.transfer.TransferConfig(multipart_threshold=8 * MIB, multipart_chunksize=8 * MIB, max_concurrency=4)
    w.s3.upload_fileobj(io.BytesIO(body), name, "fifty", Config=config, ExtraArgs={"Metadata": {"a": "b"}})
    got = io.BytesIO()
    w.s3.download_fileobj(name, "fifty", got, Config=config)
    assert got.getvalue() == body
    head = w.s3.head_object(Bucket=name, Key="fifty")
    assert head["ETag"].endswith('-7"') and head["Metadata"] == {"a": "b"}, head
    edge = 8 * MIB
    part = w.s3.get_object(Bucket=name, Key="fifty", Range=f"bytes={edge - 5}-{edge + 4}")["Body"].read()
    equal(part, body[edge - 5:edge + 5])
    part = w.s3.get_object(Bucket=name, Key="fifty", PartNumber=7)
    equal((part["Body"].read(), part["PartsCount"]), (body[48 * MIB:], 7))
    parts = w.s3.get_object_attributes(Bucket=name, Key="fifty", ObjectAttributes=["ObjectParts", "Checksum"])
    equal((parts["ObjectParts"]["TotalPartsCount"], parts["ObjectParts"]["Parts"][6]["Size"]), (7, 2 * MIB))
    w.s3.copy({"Bucket": name, "Key": "fifty"}, name, "copy", Config=config)
    got = io.BytesIO()
    w.s3.download_fileobj(name, "copy", got, Config=config)
    assert got.getvalue() == body


@case("boto3")
def multipart_by_hand(w):
    name = w.bucket()
    begin = lambda key="k", **more: w.s3.create_multipart_upload(Bucket=name, Key=key, **more)["UploadId"]
    upload = begin(ContentType="a/b")
    at = {"Bucket": name, "Key": "k", "UploadId": upload}
    first, last = os.urandom(5 * MIB), b"tail"
    one = w.s3.upload_part(**at, PartNumber=1, Body=b"replaced")["ETag"]
    one = w.s3.upload_part(**at, PartNumber=1, Body=first)["ETag"]
    nine = w.s3.upload_part(**at, PartNumber=9, Body=last)["ETag"]
    unused = w.s3.upload_part(**at, PartNumber=10, Body=b"unused")["ETag"]
    listed = w.s3.list_parts(**at, MaxParts=2)
    equal([part["PartNumber"] for part in listed["Parts"]], [1, 9])
    equal((listed["IsTruncated"], listed["NextPartNumberMarker"]), (True, 9))
    equal([part["PartNumber"] for part in w.s3.list_parts(**at, PartNumberMarker=9)["Parts"]], [10])
    equal([entry["UploadId"] for entry in w.s3.list_multipart_uploads(Bucket=name)["Uploads"]], [upload])
    complete = lambda parts, **more: w.s3.complete_multipart_upload(
        **at, MultipartUpload={"Parts": [{"PartNumber": number, "ETag": etag} for number, etag in parts]}, **more)
    refused("InvalidPart", complete, [(1, one), (2, one)], status=400)
    refused("InvalidPart", complete, [(1, nine), (9, nine)], status=400)
    refused("InvalidPartOrder", complete, [(9, nine), (1, one)], status=400)
    refused("EntityTooSmall", complete, [(1, one), (9, nine), (10, unused)], status=400)
    refused("MalformedXML", complete, [], status=400)
    refused("InvalidRequest", complete, [(1, one), (9, nine)], MpuObjectSize=7, status=400)
    done = complete([(1, one), (9, nine)], MpuObjectSize=5 * MIB + 4)
    equal(complete([(1, one), (9, nine)])["ETag"], done["ETag"])
    md5 = hashlib.md5(hashlib.md5(first).digest() + hashlib.md5(last).digest()).hexdigest()
    equal(done["ETag"], f'"{md5}-2"')
    got = w.s3.get_object(Bucket=name, Key="k")
    equal((got["Body"].read(), got["ContentType"]), (first + last, "a/b"))
    refused("NoSuchUpload", w.s3.upload_part, **at, PartNumber=1, Body=b"x", status=404)
    aborted = {"Bucket": name, "Key": "k", "UploadId": begin()}
    w.s3.upload_part(**aborted, PartNumber=1, Body=first)
    w.s3.abort_multipart_upload(**aborted)
    refused("NoSuchUpload", w.s3.list_parts, **aborted, status=404)
    refused("NoSuchUpload", w.s3.abort_multipart_upload, **aborted, status=404)
    copied = {"Bucket": name, "Key": "copied", "UploadId": begin("copied")}
    source = {"Bucket": name, "Key": "k"}
    a = w.s3.upload_part_copy(**copied, PartNumber=1, CopySource=source, CopySourceRange=f"bytes=0-{5 * MIB - 1}")
    b = w.s3.upload_part_copy(**copied, PartNumber=2, CopySource=source, CopySourceRange=f"bytes={5 * MIB}-{5 * MIB + 3}")
    refused("InvalidArgument", w.s3.upload_part_copy, **copied, PartNumber=3, CopySource=source, CopySourceRange="bytes=0-99999999")
    etags = [a["CopyPartResult"]["ETag"], b["CopyPartResult"]["ETag"]]
    w.s3.complete_multipart_upload(**copied, MultipartUpload={"Parts": [
        {"PartNumber": number + 1, "ETag": etag} for number, etag in enumerate(etags)]})
    equal(w.s3.get_object(Bucket=name, Key="copied")["Body"].read(), first + last)
    for key in ("p/a", "p/b", "q"):
        begin(key)
    page = w.s3.list_multipart_uploads(Bucket=name, Delimiter="/")
    equal(([entry["Key"] for entry in page["Uploads"]], groups(page)), (["q"], ["p/"]))
    page = w.s3.list_multipart_uploads(Bucket=name, MaxUploads=2)
    equal(([entry["Key"] for entry in page["Uploads"]], page["IsTruncated"]), (["p/a", "p/b"], True))
    page = w.s3.list_multipart_uploads(Bucket=name, KeyMarker=page["NextKeyMarker"], UploadIdMarker=page["NextUploadIdMarker"])
    equal([entry["Key"] for entry in page["Uploads"]], ["q"])


@case("boto3")
def multipart_checksums(w):
    name = w.bucket()
    parts = [os.urandom(5 * MIB), b"end"]
    whole = b"".join(parts)
    for algorithm, kind in (("CRC32", "FULL_OBJECT"), ("CRC32", "COMPOSITE"), ("SHA256", "COMPOSITE")):
        key = f"{algorithm}-{kind}"
        at = {"Bucket": name, "Key": key}
        upload = w.s3.create_multipart_upload(**at, ChecksumAlgorithm=algorithm, ChecksumType=kind)["UploadId"]
        sent = []
        for number, part in enumerate(parts, 1):
            answer = w.s3.upload_part(**at, UploadId=upload, PartNumber=number, Body=part, ChecksumAlgorithm=algorithm)
            field = f"Checksum{algorithm}"
            sent.append({"PartNumber": number, "ETag": answer["ETag"], field: answer[field]})
        refused("InvalidRequest", w.s3.upload_part, **at, UploadId=upload, PartNumber=3, Body=b"x", ChecksumAlgorithm="SHA1")
        more = {}
        if kind == "FULL_OBJECT":
            more = {"ChecksumCRC32": base64.b64encode(zlib.crc32(whole).to_bytes(4, "big")).decode()}
            wrong = {"ChecksumCRC32": base64.b64encode(b"0000").decode()}
            refused("BadDigest", w.s3.complete_multipart_upload, **at, UploadId=upload, MultipartUpload={"Parts": sent}, **wrong)
        done = w.s3.complete_multipart_upload(**at, UploadId=upload, MultipartUpload={"Parts": sent}, **more)
        equal(done["ChecksumType"], kind)
        if kind == "FULL_OBJECT":
            equal(done["ChecksumCRC32"], more["ChecksumCRC32"])
        else:
            assert done[field].endswith("-2"), done
    refused("InvalidRequest", w.s3.create_multipart_upload, Bucket=name, Key="k", ChecksumAlgorithm="SHA256", ChecksumType="FULL_OBJECT")
