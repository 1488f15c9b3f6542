"""An OpenID provider on loopback: real HTTP, real RSA keys, tokens signed here by `cryptography` alone.

Whoever comes is logged in as `person`. Codes are used once, and bound to client, redirect and PKCE's challenge. A test
says in `claims` and `sign` what the next ID token says, and by what it is signed.
"""

from __future__ import annotations

import base64
import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from tuner.service.access.oidc_settings import OidcSettings, PeopleGroup

CLIENT, SECRET = "tuner", "the client's secret, which no page shows"
GROUPS = (
    PeopleGroup("admins", "read tune push", None),
    PeopleGroup("shop-team", "read push", ("shop",)),
)
ANNA = {"sub": "248289", "preferred_username": "anna", "email": "anna@example.org", "groups": ["staff", "admins"]}
Claims = dict[str, Any]


def encode(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


@dataclass(frozen=True, slots=True)
class SigningKey:
    kid: str
    key: rsa.RSAPrivateKey

    @property
    def jwk(self) -> dict[str, str]:
        numbers = self.key.public_key().public_numbers()
        parts = {"n": numbers.n, "e": numbers.e}
        whole = {name: encode(part.to_bytes((part.bit_length() + 7) // 8, "big")) for name, part in parts.items()}
        return {"kty": "RSA", "use": "sig", "alg": "RS256", "kid": self.kid, **whole}

    def sign(self, claims: Claims) -> str:
        text = write_token({"alg": "RS256", "kid": self.kid, "typ": "JWT"}, claims)
        return f"{text}.{encode(self.key.sign(text.encode(), padding.PKCS1v15(), hashes.SHA256()))}"


def make_key(kid: str) -> SigningKey:
    return SigningKey(kid, rsa.generate_private_key(65537, 2048))


def write_token(header: Claims, claims: Claims) -> str:
    return ".".join(encode(json.dumps(part).encode()) for part in (header, claims))


@dataclass
class Provider:
    key: SigningKey
    person: Claims = field(default_factory=lambda: dict(ANNA))
    claims: Claims = field(default_factory=dict)  # that the next tokens have otherwise; None leaves one out
    sign: Callable[[Claims], str] | None = None  # instead of by the key
    metadata: Claims = field(default_factory=dict)  # that is stated otherwise
    forgiving: bool = False  # takes a code twice
    denies: bool = False
    codes: dict[str, Claims] = field(default_factory=dict)
    asked: list[Claims] = field(default_factory=list)  # of authorization requests
    host: str = "127.0.0.1"
    port: int = 0

    @property
    def issuer(self) -> str:
        return f"http://{self.host}:{self.port}/realms/work"

    @property
    def settings(self) -> OidcSettings:
        return OidcSettings(self.issuer, CLIENT, SECRET, "Example", GROUPS)

    def describe(self) -> Claims:
        own = self.issuer
        return {
            "issuer": own, "authorization_endpoint": f"{own}/authorize", "token_endpoint": f"{own}/token",
            "jwks_uri": f"{own}/keys", "response_types_supported": ["code"], "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["none", "HS256", "RS256"],
            "code_challenge_methods_supported": ["S256"], **self.metadata,
        }  # fmt: skip

    def authorize(self, asked: Claims) -> str:
        """Where the browser goes on to."""
        self.asked.append(asked)
        assert (asked["response_type"], asked["client_id"]) == ("code", CLIENT)
        assert asked["code_challenge_method"] == "S256"
        assert "openid" in asked["scope"].split()
        code = f"code-{len(self.asked)}"
        self.codes[code] = asked
        answer = {"error": "access_denied"} if self.denies else {"code": code}
        return f"{asked['redirect_uri']}?{urlencode({**answer, 'state': asked['state']})}"

    def exchange(self, authorization: str, form: Claims) -> tuple[int, Claims]:
        basic = base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
        if authorization != f"Basic {basic}":
            return 401, {"error": "invalid_client"}
        asked = self.codes.get(form["code"]) if self.forgiving else self.codes.pop(form["code"], None)
        challenge = encode(hashlib.sha256(form.get("code_verifier", "").encode()).digest())
        if asked is None or challenge != asked["code_challenge"] or form["redirect_uri"] != asked["redirect_uri"]:
            return 400, {"error": "invalid_grant"}
        now = int(time.time())
        said = {"iss": self.issuer, "aud": CLIENT, "iat": now, "exp": now + 300, "nonce": asked["nonce"], **self.person}
        claims = {name: value for name, value in {**said, **self.claims}.items() if value is not None}
        token = (self.sign or self.key.sign)(claims)
        return 200, {"access_token": "for nothing here", "token_type": "Bearer", "expires_in": 300, "id_token": token}


class Handler(BaseHTTPRequestHandler):
    provider: Provider

    def log_message(self, *_: Any) -> None:
        pass

    def answer(self, status: int, document: Any = None, location: str = "") -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if location:
            self.send_header("Location", location)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        place = parts.path.removeprefix("/realms/work")
        if place == "/.well-known/openid-configuration":
            self.answer(200, self.provider.describe())
        elif place == "/keys":
            self.answer(200, {"keys": [self.provider.key.jwk, {"kty": "new", "kid": "of another kind"}]})
        elif place == "/authorize":
            self.answer(302, None, self.provider.authorize(read_query(parts.query)))
        else:
            self.answer(404)

    def do_POST(self) -> None:
        form = read_query(self.rfile.read(int(self.headers["Content-Length"])).decode())
        self.answer(*self.provider.exchange(self.headers["Authorization"] or "", form))


def read_query(text: str) -> Claims:
    return {name: values[0] for name, values in parse_qs(text, strict_parsing=True).items()}


@contextmanager
def providing(key: SigningKey, host: str = "127.0.0.1") -> Iterator[Provider]:
    """`host`: as browsers know it, to whom localhost is another site than 127.0.0.1."""
    provider = Provider(key, host=host)
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (Handler,), {"provider": provider}))
    provider.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
