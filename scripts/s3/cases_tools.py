"""The aws command line, s3cmd and rclone: a directory tree up and down, as a person would."""

import filecmp
import os
import random
import subprocess

from world import case, equal


def run(arguments, env=None, fails=False):
    # Debian's rclone stumbles over a bundle of certificates in the environment; nothing here needs one.
    # And a tool in Python that may not keep its bytecode takes seconds longer to start, each time.
    unwanted = ("AWS_CA_BUNDLE", "PYTHONDONTWRITEBYTECODE")
    inherited = {name: value for name, value in os.environ.items() if name not in unwanted}
    done = subprocess.run(arguments, env={**inherited, **(env or {})}, capture_output=True, text=True, timeout=300)
    if (done.returncode != 0) != fails:
        raise AssertionError(f"{' '.join(arguments)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def tree(w, name):
    """Some directories, small files, an empty one, odd names, and two that go into the data store."""
    root = os.path.join(w.folder, name)
    draw = random.Random(7)
    files = {f"dir{number % 5}/sub{number % 3}/file {number}.txt": draw.randbytes(draw.randrange(3000)) for number in range(60)}
    files.update({"empty": b"", "é ü+&=%.bin": b"odd", "large.bin": draw.randbytes(3 << 20), "parts.bin": draw.randbytes(17 << 20)})
    for path, body in files.items():
        full = os.path.join(root, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "wb") as out:
            out.write(body)
    return root, sorted(files)


def same(left, right, files):
    for path in files:
        assert filecmp.cmp(os.path.join(left, path), os.path.join(right, path), shallow=False), f"{path} differs"


def aws_env(w):
    return {
        "AWS_ACCESS_KEY_ID": w.key, "AWS_SECRET_ACCESS_KEY": w.secret, "AWS_DEFAULT_REGION": w.region,
        "AWS_ENDPOINT_URL": w.at(3), "AWS_CONFIG_FILE": "/dev/null", "AWS_EC2_METADATA_DISABLED": "true",
    }


@case("aws", "CreateBucket", "PutObject", "GetObject", "ListObjectsV2", "DeleteObject", "CopyObject", "DeleteBucket",
      "CreateMultipartUpload", "UploadPart", "UploadPartCopy", "CompleteMultipartUpload", "HeadObject", "ListBuckets")
def aws_sync(w):
    root, files = tree(w, "aws-up")
    down = os.path.join(w.folder, "aws-down")
    name, env = w.name(), aws_env(w)
    run(["aws", "s3", "mb", f"s3://{name}"], env)
    run(["aws", "s3", "sync", "--no-progress", root, f"s3://{name}/tree"], env)
    equal(run(["aws", "s3", "sync", "--no-progress", root, f"s3://{name}/tree"], env).strip(), "")
    run(["aws", "s3", "sync", "--no-progress", f"s3://{name}/tree", down], env)
    same(root, down, files)
    assert "dir0/" in run(["aws", "s3", "ls", f"s3://{name}/tree/"], env)
    assert name in run(["aws", "s3", "ls"], env)
    run(["aws", "s3", "cp", f"s3://{name}/tree/large.bin", f"s3://{name}/at once"], env)
    run(["aws", "s3", "cp", f"s3://{name}/tree/parts.bin", f"s3://{name}/copied"], env)
    run(["aws", "s3", "mv", f"s3://{name}/copied", f"s3://{name}/moved"], env)
    run(["aws", "s3", "cp", f"s3://{name}/moved", os.path.join(down, "moved")], env)
    assert filecmp.cmp(os.path.join(root, "parts.bin"), os.path.join(down, "moved"), shallow=False)
    run(["aws", "s3api", "head-object", "--bucket", name, "--key", "moved"], env)
    assert "NoSuchKey" in run(["aws", "s3api", "get-object", "--bucket", name, "--key", "none", "/dev/null"], env, fails=True)
    run(["aws", "s3", "rb", "--force", f"s3://{name}"], env)


@case("aws", "PutBucketVersioning", "ListObjectVersions", "GetBucketVersioning", "DeleteObjects", "PutBucketTagging",
      "GetBucketTagging")
def aws_api(w):
    name, env = w.bucket(), aws_env(w)
    api = lambda *words: run(["aws", "s3api", words[0], "--bucket", name, *words[1:]], env)
    api("put-bucket-versioning", "--versioning-configuration", "Status=Enabled")
    assert "Enabled" in api("get-bucket-versioning")
    w.put(name, "a", "a", "b")
    assert api("list-object-versions").count('"VersionId"') == 3
    api("put-bucket-tagging", "--tagging", "TagSet=[{Key=a,Value=b}]")
    assert '"a"' in api("get-bucket-tagging")
    deleted = api("delete-objects", "--delete", "Objects=[{Key=a},{Key=b}]")
    equal(deleted.count('"DeleteMarker": true'), 2)


@case("s3cmd", "CreateBucket", "PutObject", "GetObject", "ListObjects", "DeleteObjects", "DeleteObject", "CopyObject",
      "DeleteBucket", "HeadObject", "CreateMultipartUpload", "UploadPart", "CompleteMultipartUpload", "ListBuckets",
      "GetBucketLocation", "PutBucketPolicy", "DeleteBucketPolicy")
def s3cmd_sync(w):
    root, files = tree(w, "s3cmd-up")
    down = os.path.join(w.folder, "s3cmd-down") + "/"
    os.makedirs(down)
    host = w.at(4).split("://")[1]
    config = os.path.join(w.folder, "s3cmd.cfg")
    with open(config, "w") as out:
        out.write(f"""[default]
access_key = {w.key}
secret_key = {w.secret}
host_base = {host}
host_bucket = {host}
use_https = {w.endpoint.startswith('https')}
bucket_location = {w.region}
signature_v2 = False
""")
    name = w.name()
    s3cmd = lambda *words, **more: run(["s3cmd", "-c", config, "--no-progress", *words], **more)
    s3cmd("mb", f"s3://{name}")
    s3cmd("sync", root + "/", f"s3://{name}/tree/")
    s3cmd("sync", f"s3://{name}/tree/", down)
    same(root, down, files)
    assert "dir0/" in s3cmd("ls", f"s3://{name}/tree/")
    assert name in s3cmd("ls")
    assert "parts.bin" in s3cmd("info", f"s3://{name}/tree/parts.bin")
    assert w.region in s3cmd("info", f"s3://{name}")
    s3cmd("cp", f"s3://{name}/tree/large.bin", f"s3://{name}/copied")
    s3cmd("mv", f"s3://{name}/copied", f"s3://{name}/moved")
    s3cmd("get", f"s3://{name}/moved", down + "moved")
    assert filecmp.cmp(os.path.join(root, "large.bin"), down + "moved", shallow=False)
    policy = os.path.join(w.folder, "policy.json")
    with open(policy, "w") as out:
        out.write('{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"AWS":"other"},'
                  f'"Action":"s3:GetObject","Resource":"arn:aws:s3:::{name}/*"}}]}}')
    s3cmd("setpolicy", policy, f"s3://{name}")
    equal(w.other.get_object(Bucket=name, Key="tree/empty")["Body"].read(), b"")
    s3cmd("delpolicy", f"s3://{name}")
    s3cmd("del", "--recursive", "--force", f"s3://{name}/tree/")
    s3cmd("del", f"s3://{name}/moved")
    s3cmd("rb", f"s3://{name}")


def rclone_env(w, node):
    return {
        "RCLONE_CONFIG": "/dev/null", "RCLONE_CONFIG_HIVE_TYPE": "s3", "RCLONE_CONFIG_HIVE_PROVIDER": "Other",
        "RCLONE_CONFIG_HIVE_ACCESS_KEY_ID": w.key, "RCLONE_CONFIG_HIVE_SECRET_ACCESS_KEY": w.secret,
        "RCLONE_CONFIG_HIVE_ENDPOINT": w.at(node), "RCLONE_CONFIG_HIVE_REGION": w.region,
        "RCLONE_CONFIG_HIVE_LOCATION_CONSTRAINT": w.region, "RCLONE_CONFIG_HIVE_FORCE_PATH_STYLE": "true",
        "RCLONE_CONFIG_HIVE_UPLOAD_CUTOFF": "8M", "RCLONE_CONFIG_HIVE_CHUNK_SIZE": "5M",
        "RCLONE_CONFIG_HIVE_LIST_VERSION": "2",
    }


@case("rclone", "CreateBucket", "PutObject", "GetObject", "HeadObject", "ListObjectsV2", "DeleteObject", "CopyObject",
      "DeleteBucket", "CreateMultipartUpload", "UploadPart", "CompleteMultipartUpload", "ListBuckets")
def rclone_sync(w):
    root, files = tree(w, "rclone-up")
    down = os.path.join(w.folder, "rclone-down")
    env, name = rclone_env(w, 1), w.name()
    rclone = lambda *words, **more: run(["rclone", "--retries", "1", *words], env, **more)
    rclone("mkdir", f"hive:{name}")
    rclone("sync", root, f"hive:{name}/tree")
    rclone("check", root, f"hive:{name}/tree")
    rclone("check", "--download", root, f"hive:{name}/tree")
    os.remove(os.path.join(root, "empty"))
    files.remove("empty")
    rclone("sync", root, f"hive:{name}/tree")
    rclone("sync", f"hive:{name}/tree", down)
    same(root, down, files)
    assert not os.path.exists(os.path.join(down, "empty"))
    rclone("copyto", f"hive:{name}/tree/parts.bin", f"hive:{name}/copied")
    rclone("moveto", f"hive:{name}/copied", f"hive:{name}/moved")
    equal(len(rclone("lsf", "-R", "--files-only", f"hive:{name}").splitlines()), len(files) + 1)
    assert f"{name}" in rclone("lsd", "hive:")
    rclone("purge", f"hive:{name}")


@case("rclone", "ListObjectVersions")
def rclone_in_a_bucket_with_versions(w):
    """A tree synced twice: what was changed and what was removed is there in its old version."""
    root, files = tree(w, "rclone-versions")
    down, name = os.path.join(w.folder, "rclone-versions-down"), w.bucket()
    w.s3.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})
    rclone = lambda *words, **more: run(["rclone", "--retries", "1", *words], rclone_env(w, 2), **more)
    rclone("sync", root, f"hive:{name}")
    changed, removed = "dir0/sub0/file 0.txt", "large.bin"
    with open(os.path.join(root, changed), "rb") as old:
        before = old.read()
    with open(os.path.join(root, changed), "wb") as out:
        out.write(b"changed")
    os.remove(os.path.join(root, removed))
    files.remove(removed)
    rclone("sync", root, f"hive:{name}")
    rclone("sync", f"hive:{name}", down)
    same(root, down, files)
    listed = rclone("lsf", "-R", "--files-only", "--s3-versions", f"hive:{name}").splitlines()
    equal(len(listed), len(files) + 2)
    versions = w.s3.list_object_versions(Bucket=name, Prefix=changed)["Versions"]
    equal([entry["IsLatest"] for entry in versions], [True, False])
    old = w.s3.get_object(Bucket=name, Key=changed, VersionId=versions[1]["VersionId"])
    equal(old["Body"].read(), before)
    equal(len(w.s3.list_object_versions(Bucket=name, Prefix=removed)["DeleteMarkers"]), 1)
