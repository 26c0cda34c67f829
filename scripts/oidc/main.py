"""Users of an OIDC issuer: at the JSON door by its tokens, at the S3 door by sessions of STS. Run by scripts/oidc.sh.

Not here: every way in which a token can be wrong (edge-node's tests have them); here are those that a client can meet."""

import base64
import json
import os
import ssl
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
import warnings

os.environ["AUTHLIB_INSECURE_TRANSPORT"] = "1"
warnings.simplefilter("ignore")
sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))

import boto3  # noqa: E402
import flask  # noqa: E402
import oidc_provider_mock  # noqa: E402
import werkzeug.serving  # noqa: E402
from authlib import jose  # noqa: E402
from botocore.config import Config  # noqa: E402
from botocore.exceptions import ClientError  # noqa: E402
from secure_world import BASE, KNOWN_S, REVOKED_S, World, check, fail  # noqa: E402

ISSUER_PORT = BASE + 900
# A node asks an issuer at most once in ten seconds.
ASKED_AGAIN_S = 30
LINE_BYTES_MAX = 4096
GROWTH_KIB_MAX = 32 << 10
# Presigned URLs have the old signature without it, and Hive refuses that.
FEW_TRIES_S3 = Config(retries={"max_attempts": 2}, s3={"addressing_style": "path"}, signature_version="s3v4")
FEW_TRIES = Config(retries={"max_attempts": 2}, s3={"addressing_style": "path"})


class Quiet(werkzeug.serving.WSGIRequestHandler):
    def log(self, *_):
        pass


class Issuer:
    """The provider of the package, and what the test changes of it."""

    def __init__(self):
        self.url = f"http://localhost:{ISSUER_PORT}"
        self.garbage = False
        self.app = oidc_provider_mock.app(issue_refresh_token=False)
        self.server = werkzeug.serving.make_server("localhost", ISSUER_PORT, self.answer, threaded=True,
                                                   request_handler=Quiet)
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()
        with self.app.test_request_context():
            self.app.preprocess_request()
            self.key = flask.g.oidc_provider_mock_storage.jwk

    def answer(self, environ, start):
        if self.garbage and environ["PATH_INFO"] == "/jwks":
            start("200 OK", [("content-type", "application/json")])
            return [b'{"keys": "' + b"\x1b[31m<garbage>" * 5_000]
        return self.app.wsgi_app(environ, start)

    def stop(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join(timeout=10)

    def ask(self, path, form=None, put=None):
        data = urllib.parse.urlencode(form).encode() if form else json.dumps(put).encode() if put is not None else None
        request = urllib.request.Request(self.url + path, data=data, method="PUT" if put is not None else None)
        if put is not None:
            request.add_header("content-type", "application/json")

        class Stay(urllib.request.HTTPRedirectHandler):
            def redirect_request(self, *_):
                return None

        try:
            return urllib.request.build_opener(Stay).open(request, timeout=20)
        except urllib.error.HTTPError as answer:
            if answer.code == 302:
                return answer
            fail(f"the issuer answers {answer.code} to {path}: {answer.read()[:500]}")

    def token(self, user, groups, audience="hive"):
        """An id token by the usual flow of a browser."""
        self.ask(f"/users/{user}", put={"groups": groups})
        back = "http://localhost/back"
        query = urllib.parse.urlencode({"client_id": audience, "redirect_uri": back, "response_type": "code", "scope": "openid"})
        there = self.ask(f"/oauth2/authorize?{query}", form={"sub": user}).headers["location"]
        code = urllib.parse.parse_qs(urllib.parse.urlparse(there).query)["code"][0]
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": back, "client_id": audience,
                "client_secret": "any"}
        return json.load(self.ask("/oauth2/token", form=form))["id_token"]

    def forged(self, head=None, key=None, **changes):
        """A token that the issuer's own key signs, with other claims; or another key."""
        now = int(time.time())
        claims = {"iss": self.url, "aud": ["hive"], "sub": "ann", "groups": ["devs"], "iat": now, "exp": now + 600}
        claims.update(changes)
        key = key or self.key
        header = {"alg": "RS256", "kid": key.as_dict().get("kid"), **(head or {})}
        return jose.jwt.encode(header, claims, key.as_dict(is_private=True)).decode()


def part(value):
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def bad_tokens(issuer):
    """What is wrong, the token, and STS's code for it."""
    now = int(time.time())
    other = jose.JsonWebKey.generate_key("RSA", 2048, {"kid": "unknown"}, is_private=True)
    good = issuer.forged()
    unsigned = part({"alg": "none"}) + "." + good.split(".")[1] + "."
    return [
        ("expired", issuer.forged(exp=now - 3600), "ExpiredTokenException"),
        ("wrong audience", issuer.token("ann", ["devs"], audience="other"), "InvalidIdentityToken"),
        ("wrong issuer", issuer.forged(iss="http://localhost:1"), "InvalidIdentityToken"),
        ("unknown kid", issuer.forged(key=other), "InvalidIdentityToken"),
        ("another key by the issuer's kid", issuer.forged(head={"kid": issuer.key.as_dict()["kid"]}, key=other),
         "InvalidIdentityToken"),
        ("alg none", unsigned, "InvalidIdentityToken"),
        ("alg HS256 by the public key", good.replace(good.split(".")[0], part({"alg": "HS256"})), "InvalidIdentityToken"),
        ("huge", issuer.forged(groups=["g" * 20_000]), "InvalidIdentityToken"),
        ("not yet", issuer.forged(nbf=now + 3600), "InvalidIdentityToken"),
        ("an end in words", issuer.forged(exp="tomorrow"), "InvalidIdentityToken"),
        ("garbage", "a.b.c", "InvalidIdentityToken"),
        ("more garbage", "{}" * 100, "InvalidIdentityToken"),
    ]


class Clients:
    def __init__(self, world):
        self.world = world

    def make(self, service, node=0, **credentials):
        return boto3.client(service, endpoint_url=self.world.nodes[node]["s3"], region_name="us-east-1", config=FEW_TRIES_S3 if service == "s3" else FEW_TRIES,
                            verify=self.world.ready["ca"], **credentials)

    def assume(self, token, node=0, role="arn:aws:iam::hive:role/*", **more):
        # Clients of STS want some credentials, and send none with this call.
        sts = self.make("sts", node, aws_access_key_id="none", aws_secret_access_key="none")
        return sts.assume_role_with_web_identity(RoleArn=role, RoleSessionName="ci", WebIdentityToken=token, **more)

    def session(self, answer):
        own = answer["Credentials"]
        return {"aws_access_key_id": own["AccessKeyId"], "aws_secret_access_key": own["SecretAccessKey"],
                "aws_session_token": own["SessionToken"]}


def refused(code, why, call, *arguments, **named):
    try:
        call(*arguments, **named)
    except ClientError as error:
        got = error.response["Error"]["Code"]
        check(got == code, f"{why}: {got}, not {code}: {error}")
        check(len(str(error)) < LINE_BYTES_MAX, f"{why}: a long error")
        return
    fail(f"{why} is let through")


def main():
    issuer = Issuer()
    with tempfile.TemporaryDirectory(prefix="hive-oidc-") as home:
        world = World(home, "--nodes", "3", "--oidc-issuer", issuer.url)
        try:
            clients = Clients(world)
            setup(world, issuer)
            json_door(world, issuer)
            sessions(world, issuer, clients)
            session_policies(issuer, clients)
            session_forms(issuer, clients)
            bad(world, issuer, clients)
            revocation(world, issuer, clients)
            lost_issuer(world, issuer, clients)
            bounded(world)
        finally:
            world.stop()
    print("oidc: every step held")


def setup(world, issuer):
    root = world.root
    world.done("group", "create", "devs", "--issuer", issuer.url, "--role", "writer on kv/default/dev/", "--role",
               "writer on bucket/vault/dev/", token=root)
    world.done("group", "create", "makers", "--issuer", issuer.url, "--claim", "/platform/makers", "--role",
               "tenant-admin", token=root)
    listed = world.done("group", "list", token=root)
    check("/platform/makers" in listed and "writer on bucket/vault/dev/" in listed, f"groups: {listed}")
    world.refused("GroupExists", "group", "create", "devs", "--issuer", issuer.url, token=root)


def json_door(world, issuer):
    ann = os.path.join(world.home, "ann.jwt")
    world.keep(ann, issuer.token("ann", ["devs", "strangers"]))
    nobody = os.path.join(world.home, "nobody.jwt")
    world.keep(nobody, issuer.token("eve", ["strangers"]))
    since = time.time()
    # The nodes have just started, and may not have heard of the issuer's keys or the groups yet.
    for node in range(len(world.nodes)):
        while world.hive("kv", "put", f"dev/{node}", "v", node=node, token=ann).returncode != 0:
            check(time.time() - since < ASKED_AGAIN_S, f"node {node + 1}: " + world.hive("user", "whoami", node=node, token=ann).stderr)
            time.sleep(0.2)
        world.refused("PermissionDenied", "kv", "put", "other", "v", node=node, token=ann)
        world.refused("PermissionDenied", "user", "list", node=node, token=ann)
        world.refused("PermissionDenied", "kv", "get", "dev/0", node=node, token=nobody)
    who = world.done("user", "whoami", token=ann)
    check("oidc:ann" in who and "devs" in who and "strangers" not in who, f"whoami: {who}")
    check("oidc:eve" in world.done("user", "whoami", token=nobody), "a user without groups does not learn who it is")
    for what, token, _ in bad_tokens(issuer):
        path = os.path.join(world.home, "bad.jwt")
        world.keep(path, token)
        world.refused("Unauthenticated", "user", "whoami", token=path)


def sessions(world, issuer, clients):
    maker = clients.session(clients.assume(issuer.token("mia", ["/platform/makers"])))
    clients.make("s3", **maker).create_bucket(Bucket="vault")
    token = issuer.token("ann", ["devs"])
    answer = clients.assume(token, node=1, DurationSeconds=900)
    check(answer["SubjectFromWebIdentityToken"] == "ann" and answer["Provider"] == issuer.url, f"{answer}")
    life = answer["Credentials"]["Expiration"].timestamp() - time.time()
    check(800 < life <= 901, f"a session of 900 s lives {life} s")
    own = clients.session(answer)
    for node in range(len(world.nodes)):
        s3 = clients.make("s3", node, **own)
        s3.put_object(Bucket="vault", Key=f"dev/{node}", Body=b"body")
        check(s3.get_object(Bucket="vault", Key="dev/0")["Body"].read() == b"body", "another body")
        refused("AccessDenied", "a put outside the role", s3.put_object, Bucket="vault", Key="ops/x", Body=b"x")
        refused("AccessDenied", "a bucket of its own", s3.create_bucket, Bucket=f"anns-{node}")
        who = clients.make("sts", node, **own).get_caller_identity()
        check(who["Arn"].endswith(":assumed-role/*/ci") and who["Account"].startswith("oidc-"), f"{who}")
    url = clients.make("s3", **own).generate_presigned_url("get_object", Params={"Bucket": "vault", "Key": "dev/0"})
    trusted = ssl.create_default_context(cafile=world.ready["ca"])
    check(urllib.request.urlopen(url, context=trusted, timeout=20).read() == b"body", "a presigned URL of a session")
    without = {name: value for name, value in own.items() if name != "aws_session_token"}
    refused("InvalidAccessKeyId", "a session's key without its token", clients.make("s3", **without).list_buckets)
    refused("InvalidClientTokenId", "the same at STS", clients.make("sts", **without).get_caller_identity)
    refused("InvalidToken", "another session's token",
            clients.make("s3", **{**own, "aws_session_token": maker["aws_session_token"]}).list_buckets)
    refused("SignatureDoesNotMatch", "another secret",
            clients.make("s3", **{**own, "aws_secret_access_key": maker["aws_secret_access_key"]}).list_buckets)
    # Narrowed to one of two groups.
    both = issuer.token("zoe", ["devs", "/platform/makers"])
    narrow = clients.make("s3", **clients.session(clients.assume(both, role="arn:aws:iam::hive:role/devs")))
    narrow.put_object(Bucket="vault", Key="dev/zoe", Body=b"x")
    refused("AccessDenied", "beyond the one group", narrow.put_object, Bucket="vault", Key="ops/zoe", Body=b"x")
    refused("AccessDenied", "a group that the user is not in", clients.assume, token, role="arn:aws:iam::hive:role/makers")
    refused("AccessDenied", "a user without groups", clients.assume, issuer.token("eve", ["strangers"]))
    refused("ValidationError", "a managed policy", clients.assume, token, PolicyArns=[{"arn": "arn:aws:iam::aws:policy/AmazonS3FullAccess"}])
    refused("ValidationError", "a role of AWS's", clients.assume, token, role="arn:aws:iam::123456789012:role/admin")
    # A key of a user asks STS, too.
    world.done("user", "create", "olga", "--role", "root", token=world.root)
    lines = world.done("key", "create", "olga", token=world.root).splitlines()
    pair = dict(line.split("=", 1) for line in lines)
    olga = {"aws_access_key_id": pair["AWS_ACCESS_KEY_ID"], "aws_secret_access_key": pair["AWS_SECRET_ACCESS_KEY"]}
    who = clients.make("sts", **olga).get_caller_identity()
    check(who["Arn"].endswith(":user/olga") and who["Account"].startswith("user-"), f"{who}")


def statement(effect, actions, resources, **more):
    return {"Effect": effect, "Action": actions, "Resource": resources, **more}


def session_policies(issuer, clients):
    """A session does what both its user's groups and its own policy allow, on every node."""
    token = issuer.token("ann", ["devs"])

    def bounded(*statements, node=0, of=token):
        policy = json.dumps({"Version": "2012-10-17", "Statement": list(statements)})
        return clients.session(clients.assume(of, node=node, Policy=policy))

    reads = bounded(statement("Allow", ["s3:GetObject"], ["arn:aws:s3:::vault/dev/*"]))
    for node in range(len(clients.world.nodes)):
        s3 = clients.make("s3", node, **reads)
        check(s3.get_object(Bucket="vault", Key="dev/0")["Body"].read() == b"body", "another body")
        refused("AccessDenied", "a put that the policy does not allow", s3.put_object, Bucket="vault", Key="dev/0", Body=b"x")
        refused("AccessDenied", "a delete that it does not allow", s3.delete_object, Bucket="vault", Key="dev/0")
        refused("AccessDenied", "a list of buckets that it does not allow", s3.list_buckets)
    # It gives nothing that the groups do not.
    wide = clients.make("s3", **bounded(statement("Allow", "s3:*", "*"), statement("Deny", "s3:DeleteObject", "*")))
    wide.put_object(Bucket="vault", Key="dev/wide", Body=b"x")
    refused("AccessDenied", "a put outside the role", wide.put_object, Bucket="vault", Key="ops/x", Body=b"x")
    refused("AccessDenied", "what the policy denies", wide.delete_object, Bucket="vault", Key="dev/wide")
    # Ownership is no way around it: mia made the bucket.
    mia = issuer.token("mia", ["/platform/makers"])
    owner = clients.make("s3", **bounded(statement("Allow", ["s3:ListBucket", "s3:ListAllMyBuckets"], "*"), of=mia))
    owner.list_objects_v2(Bucket="vault")
    check([one["Name"] for one in owner.list_buckets()["Buckets"]] == ["vault"], "the buckets of the maker")
    refused("AccessDenied", "the owner's delete", owner.delete_object, Bucket="vault", Key="dev/wide")
    refused("AccessDenied", "a bucket that the policy does not allow", owner.create_bucket, Bucket="another")
    # As long as AWS takes it, and no longer; what is not understood is refused.
    text = json.dumps({"Version": "2012-10-17", "Statement": statement("Allow", "s3:GetObject", "arn:aws:s3:::vault/*")})
    longest = clients.session(clients.assume(token, Policy=text + " " * (2048 - len(text))))
    clients.make("s3", **longest).get_object(Bucket="vault", Key="dev/0")
    names = ["arn:aws:s3:::vault/" + "n" * 900, "arn:aws:s3:::vault/" + "m" * 850]
    full = clients.make("s3", **bounded(statement("Allow", "s3:GetObject", names + ["arn:aws:s3:::vault/dev/*"])))
    full.get_object(Bucket="vault", Key="dev/0")
    refused("PackedPolicyTooLarge", "a long policy", clients.assume, token, Policy=text + " " * (2049 - len(text)))
    for bad in ["{", '{"Version":"2012-10-17","Statement":[]}', text.replace("GetObject", "Fly"), text.replace("Effect", "effect")]:
        refused("MalformedPolicyDocument", f"the policy {bad}", clients.assume, token, Policy=bad)


def send_form(clients, post, file=b"form", drop=()):
    """What a browser sends; the status, and the answer's text."""
    mark = "----hive"
    parts = [f'--{mark}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
             for name, value in post["fields"].items() if name not in drop]
    head = f'--{mark}\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\n'
    body = ("".join(parts) + head).encode() + file + f"\r\n--{mark}--\r\n".encode()
    request = urllib.request.Request(post["url"], data=body, headers={"content-type": f"multipart/form-data; boundary={mark}"})
    trusted = ssl.create_default_context(cafile=clients.world.ready["ca"])
    try:
        with urllib.request.urlopen(request, context=trusted, timeout=20) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as answer:
        return answer.code, answer.read().decode()


def session_forms(issuer, clients):
    """Browser forms that a session has signed."""
    token = issuer.token("ann", ["devs"])
    own = clients.session(clients.assume(token))
    s3 = clients.make("s3", **own)
    post = s3.generate_presigned_post("vault", "dev/form")
    check("x-amz-security-token" in post["fields"], f"{post}")
    status, text = send_form(clients, post)
    check(status == 204, f"a session's form: {status} {text}")
    check(s3.get_object(Bucket="vault", Key="dev/form")["Body"].read() == b"form", "another body by a form")
    status, text = send_form(clients, post, drop=["x-amz-security-token"])
    check(status == 403 and "InvalidAccessKeyId" in text, f"a form without its session's token: {status} {text}")
    post = s3.generate_presigned_post("vault", "ops/form")
    status, text = send_form(clients, post)
    check(status == 403 and "AccessDenied" in text, f"a form outside the role: {status} {text}")
    policy = json.dumps({"Version": "2012-10-17", "Statement": statement("Allow", "s3:GetObject", "*")})
    reads = clients.make("s3", **clients.session(clients.assume(token, Policy=policy)))
    status, text = send_form(clients, reads.generate_presigned_post("vault", "dev/form"))
    check(status == 403 and "AccessDenied" in text, f"a form that the session's policy does not allow: {status} {text}")


def memory_kib(node):
    with open(f"/proc/{node['pid']}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))


def bad(world, issuer, clients):
    tokens = bad_tokens(issuer)
    for what, token, code in tokens:
        refused(code, what, clients.assume, token)
    # Many of them leave nothing behind.
    node = world.nodes[0]
    trusted = ssl.create_default_context(cafile=world.ready["ca"])

    def send(count):
        for at in range(count):
            what, token, _ = tokens[at % len(tokens)]
            form = urllib.parse.urlencode({"Action": "AssumeRoleWithWebIdentity", "Version": "2011-06-15",
                                           "WebIdentityToken": token + str(at)}).encode()
            try:
                urllib.request.urlopen(node["s3"], data=form, context=trusted, timeout=20)
                fail(f"{what} is let through")
            except urllib.error.HTTPError as answer:
                check(answer.code == 400 and len(answer.read()) < LINE_BYTES_MAX, f"{what}: {answer.code}")

    send(60)
    before = memory_kib(node)
    send(300)
    grown = memory_kib(node) - before
    check(grown < GROWTH_KIB_MAX, f"300 bad tokens took {grown} KiB of memory")


def revocation(world, issuer, clients):
    """A group that is gone: its sessions and tokens count for nothing within two seconds, on every node."""
    token = issuer.token("tom", ["temps"])
    world.done("group", "create", "temps", "--issuer", issuer.url, "--role", "writer on bucket/vault/temp/", "--role",
               "writer on kv/default/temp/", token=world.root)
    own = clients.session(clients.assume(token))
    since = time.time()
    for node in range(len(world.nodes)):
        while True:
            try:
                clients.make("s3", node, **own).put_object(Bucket="vault", Key="temp/x", Body=b"x")
                break
            except ClientError as error:
                check(time.time() - since < KNOWN_S, f"node {node + 1} does not know the group: {error}")
    kept = os.path.join(world.home, "tom.jwt")
    world.keep(kept, token)
    world.done("kv", "put", "temp/x", "v", token=kept)
    world.done("group", "delete", "temps", node=2, token=world.root)
    since = time.time()
    for node in range(len(world.nodes)):
        s3 = clients.make("s3", node, **own)
        while True:
            try:
                s3.get_object(Bucket="vault", Key="temp/x")
            except ClientError as error:
                check(error.response["Error"]["Code"] in ("InvalidToken", "AccessDenied"), str(error))
                break
            check(time.time() - since < REVOKED_S, f"node {node + 1} takes a session {REVOKED_S} s after its group was deleted")
        world.refused("PermissionDenied", "kv", "get", "temp/x", node=node, token=kept)


def lost_issuer(world, issuer, clients):
    """An issuer whose keys are garbage, and then one that is gone: what it vouched for continues."""
    good, unknown = issuer.token("ann", ["devs"]), next(token for what, token, _ in bad_tokens(issuer) if what == "unknown kid")
    log = os.path.join(world.home, "data")
    issuer.garbage = True
    since = time.time()
    while not said(log, "no JSON"):
        refused("InvalidIdentityToken", "an unknown kid", clients.assume, unknown)
        check(time.time() - since < ASKED_AGAIN_S, "a node does not say that the issuer's keys are garbage")
        time.sleep(0.5)
    clients.assume(good)
    issuer.stop()
    clients.assume(good)
    refused("InvalidIdentityToken", "an unknown kid of an issuer that is gone", clients.assume, unknown)


def logs(folder):
    for where, _, files in os.walk(folder):
        for name in files:
            if name.endswith(".log"):
                yield os.path.join(where, name)


def said(folder, words):
    return any(words in open(path, errors="replace").read() for path in logs(folder))


def bounded(world):
    for path in [os.path.join(world.home, "dev.log"), *logs(os.path.join(world.home, "data"))]:
        with open(path, "rb") as file:
            for line in file:
                check(len(line) <= LINE_BYTES_MAX, f"{path} has a line of {len(line)} bytes")
                check(b"\x1b[31m" not in line, f"{path} has what the issuer sent as it came")


if __name__ == "__main__":
    main()
