"""Runs the functional suites of minio-go and minio-py, and holds their failures to the list below.

A test that fails and is not explained here fails the run, and so does one that is explained and passes. The table of docs/guides/s3.md
("Other people's suites") comes from here.
"""

import argparse
import collections
import json
import os
import subprocess
import sys
import tempfile

import dev

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
BEGIN, END = "<!-- suites: begin -->", "<!-- suites: end -->"
SUITE_TIMEOUT_S = 1800

VERSION_2 = "signs by version 2, which is refused"
NEW_SUMS = "asks for MD5, SHA512 or xxHash checksums, which Hive does not keep"
REGIONS = "makes buckets in regions where no node stands, and wants them made"

# What fails, and why.
EXPLAINED = {
    "minio-go": {
        **{f"test{name}": VERSION_2 for name in (
            "CopyObjectWithChecksums", "ReplaceObjectWithChecksums", "MakeBucketErrorV2", "GetObjectClosedTwiceV2", "FPutObjectV2",
            "GetObjectReadSeekFunctionalV2", "GetObjectReadAtFunctionalV2", "CopyObjectV2", "FunctionalV2", "MakeBucketRegionsV2",
            "ComposeObjectErrorCasesWrapper", "ComposeMultipleSources", "UserMetadataCopyingWrapper", "PutObject0ByteV2",
            "PutObjectMetadataNonUSASCIIV2", "PutObjectNoLengthV2", "PutObjectsUnknownV2", "GetObjectContextV2", "FPutObjectContextV2",
            "FGetObjectContextV2", "PutObjectContextV2")},
        **{f"test{name}": NEW_SUMS for name in (
            "PutObjectWithChecksums", "PutObjectWithTrailingChecksums", "PutMultipartObjectWithChecksums", "ListObjectsChecksums")},
        **{f"test{name}": REGIONS for name in ("MakeBucketError", "MakeBucketRegions")},
        "testListMultipartUpload": "wants uploads listed without owner, initiator and class, as MinIO does and S3 does not",
        "testFunctional": "wants S3's own words for a bucket that is not there, and Hive names the bucket",
        "testGetObjectACLContext": "wants a public ACL shown as private, as MinIO does and S3 does not",
        "testCors_9_s3_processes_cors_rules_even_when_request_is_not_preflight_if_cors_headers_present_test_get":
            "wants a plain GET judged by its Access-Control-Request-Method, as S3 does; Hive judges it by its own method",
        "testListUnsorted": "wants MinIO's own listing with user metadata",
    },
    "minio-py": {
        "test_set_get_bucket_versioning": "wants MinIO's own ExcludeFolders, which S3 has not",
        "test_upload_snowball_objects": "wants an archive unpacked, which S3 does in its devices alone",
        "test_upload_snowball_objects_with_staging": "wants an archive unpacked, which S3 does in its devices alone",
    },
}


def results(command, env, folder):
    """What each test came to: PASS, NA (the gateway says NotImplemented) or FAIL, and its message."""
    with open(os.path.join(folder, "suite.err"), "wb") as errors:
        done = subprocess.run(command, env={**os.environ, **env}, cwd=folder, stdout=subprocess.PIPE, stderr=errors,
                              timeout=SUITE_TIMEOUT_S, check=False)
    found, said = {}, collections.defaultdict(list)
    rank = {"PASS": 0, "NA": 1, "FAIL": 2}
    for line in done.stdout.decode(errors="replace").splitlines():
        try:
            entry = json.loads(line)
        except json.JSONDecodeError:
            continue
        name, status = str(entry.get("name", "")).split(":")[-1].strip(), entry.get("status")
        if name and status in rank:
            found[name] = max(found.get(name, "PASS"), status, key=rank.get)
            said[name].append(f"{entry.get('message', '')} {entry.get('error', '')}"[:300])
    assert found, f"{command[0]} said nothing: rc {done.returncode}, see {folder}/suite.err"
    return found, said


def judge(suite, found, said):
    """Prints what differs from the list; how many differ."""
    wrong = 0
    explained = EXPLAINED[suite]
    for name in sorted(found):
        if found[name] == "FAIL" and name not in explained:
            wrong += 1
            print(f"FAILED {suite} {name}: {said[name][-1]}")
        if found[name] != "FAIL" and name in explained:
            wrong += 1
            print(f"FAILED {suite} {name}: it passes, and scripts/s3/suites.py explains why it fails")
    for name in sorted(set(explained) - set(found)):
        wrong += 1
        print(f"FAILED {suite} {name}: it is explained, and there is no such test")
    count = collections.Counter(found.values())
    print(f"{suite}: {count['PASS']} pass, {count['NA']} not implemented, {count['FAIL']} fail, {wrong} unexplained")
    return wrong


def table(suites):
    lines = ["| suite | pass | `NotImplemented` | fail | why those fail |", "|---|---|---|---|---|"]
    for suite, found in suites.items():
        count = collections.Counter(found.values())
        whys = collections.Counter(EXPLAINED[suite][name] for name in found if found[name] == "FAIL" and name in EXPLAINED[suite])
        why = "; ".join(f"{number} {text}" for text, number in sorted(whys.items()))
        lines.append(f"| {suite} | {count['PASS']} | {count['NA']} | {count['FAIL']} | {why} |")
    return "\n".join(lines)


def check_or_write(suites, write):
    path = os.path.join(ROOT, "docs/guides/s3.md")
    with open(path) as guide:
        text = guide.read()
    begin, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    fresh = f"\n{table(suites)}\n"
    if write:
        with open(path, "w") as guide:
            guide.write(text[:begin] + fresh + text[end:])
    elif text[begin:end] != fresh:
        print(f"FAILED docs/guides/s3.md: its table of suites differs; run scripts/s3-suites.sh --write-guide:{fresh}")
        return 1
    return 0


def main():
    parser = argparse.ArgumentParser()
    for name in ("--hive", "--minio-go", "--minio-py", "--python"):
        parser.add_argument(name, required=True)
    parser.add_argument("--base-port", type=int, default=29000)
    parser.add_argument("--only", default="")
    parser.add_argument("--write-guide", action="store_true")
    options = parser.parse_args()
    commands = {"minio-go": [options.minio_go], "minio-py": [options.python, os.path.join(HERE, "minio_py.py"), options.minio_py]}
    wrong, suites = 0, {}
    with tempfile.TemporaryDirectory(prefix="s3-suites-") as folder:
        world = dev.Dev(options.hive, folder, options.base_port, more=("--older-bucket-defaults",))
        try:
            for at, (suite, command) in enumerate(commands.items()):
                if options.only not in suite:
                    continue
                env = {"SERVER_ENDPOINT": world.endpoints[at].split("://")[1], "ACCESS_KEY": "demo-access-key",
                       "SECRET_KEY": "demo-secret-key", "ENABLE_HTTPS": "0", "ENABLE_KMS": "0", "MINT_MODE": "full", "RUN_ON_FAIL": "1"}
                found, said = results(command, env, folder)
                suites[suite] = found
                wrong += judge(suite, found, said)
        finally:
            world.stop()
    if not options.only and (not wrong or not options.write_guide):
        wrong += check_or_write(suites, options.write_guide)
    passed = sum(list(found.values()).count("PASS") for found in suites.values())
    print(f"{passed} passed, {wrong} failed")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
