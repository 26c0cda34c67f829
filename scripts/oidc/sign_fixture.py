"""Makes crates/edge-node/testdata/oidc_rsa.json: tokens by an RSA key that is thrown away, and the public half.

Run by hand: python3 scripts/oidc/sign_fixture.py > crates/edge-node/testdata/oidc_rsa.json"""

import base64
import json

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

NOW = 1_800_000_000
HASHES = {"256": hashes.SHA256(), "384": hashes.SHA384(), "512": hashes.SHA512()}


def text(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def number(value):
    return text(value.to_bytes((value.bit_length() + 7) // 8, "big"))


def main():
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    public = key.public_key().public_numbers()
    jwks = {"keys": [{"kty": "RSA", "kid": "rsa", "use": "sig", "n": number(public.n), "e": number(public.e)}]}
    claims = {"iss": "https://corp.example/realm", "aud": "hive", "sub": "ann", "exp": NOW + 600, "iat": NOW}
    tokens = {}
    for family in ["RS", "PS"]:
        for bits, digest in HASHES.items():
            head = {"alg": family + bits, "kid": "rsa"}
            message = ".".join(text(json.dumps(part).encode()) for part in (head, claims))
            pad = padding.PKCS1v15() if family == "RS" else padding.PSS(padding.MGF1(digest), digest.digest_size)
            tokens[family + bits] = message + "." + text(key.sign(message.encode(), pad, digest))
    print(json.dumps({"jwks": jwks, "tokens": tokens}, indent=1))


main()
