"""Ask an OpenID provider who a person is: authorization code with PKCE, and an ID token of which all must fit.

Requests and proofs are Authlib's. Only signatures with the provider's own private key count: "none", and HMAC, for
which an attacker could use the public key, are not among the algorithms.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from authlib.integrations.requests_client import OAuth2Session, OAuthError
from authlib.oidc.core import CodeIDToken
from authlib.oidc.discovery import get_well_known_url
from joserfc import jwt
from joserfc.errors import InvalidKeyIdError, JoseError
from joserfc.jwk import KeySet
from joserfc.jws import JWSRegistry
from requests import RequestException

from scaler.model.errors import BadInput, Retry
from scaler.model.units import clean
from tuner.service.access.gate import Forbidden
from tuner.service.access.oidc_attempt import LoginAttempt
from tuner.service.access.oidc_settings import OidcSettings, Person, check_secure

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "Ed25519", "EdDSA")
KEY_TYPES = ("RSA", "EC", "OKP")
TIMEOUT_S = 5.0  # of a request to the provider
FRESH_S = 3600.0  # for which its addresses and keys are believed
RENEW_S = 10.0  # at least between two looks for a key that is not among them
LEEWAY_S = 60  # between the clocks
MAX_DOCUMENT = 1 << 20  # bytes
MAX_NAME, MAX_SUBJECT = 80, 255


class OpenIdProvider:
    """The provider of the settings; for several threads."""

    def __init__(self, settings: OidcSettings, ticks: Callable[[], float] = time.monotonic) -> None:
        self.settings, self.ticks = settings, ticks
        self.turn = threading.Lock()
        self.metadata: dict[str, Any] = {}
        self.keys = KeySet([])
        self.fetched = float("-inf")

    def find_login(self, attempt: LoginAttempt, redirect: str) -> str:
        metadata = self.load()
        with self.connect(redirect) as client:
            url, _ = client.create_authorization_url(
                metadata["authorization_endpoint"], attempt.state, attempt.verifier, nonce=attempt.nonce
            )
        return str(url)

    def identify(self, attempt: LoginAttempt, redirect: str, code: str, now: float) -> Person:
        """Raises Forbidden where it is not certain who it is, and Retry where the provider does not answer."""
        metadata = self.load()
        try:
            with self.connect(redirect) as client:
                client.token_endpoint_auth_method = choose_method(metadata)
                answer = client.fetch_token(
                    metadata["token_endpoint"], grant_type="authorization_code", code=code,
                    code_verifier=attempt.verifier, timeout=TIMEOUT_S, allow_redirects=False,
                )  # fmt: skip
        except RequestException as error:
            raise self.describe_silence(error) from None
        except (OAuthError, ValueError, TypeError) as error:
            why = clean(str(getattr(error, "error", "") or "an answer that is none"), MAX_NAME)
            raise Forbidden(f"{self.settings.name} did not confirm this log-in ({why}); begin it again") from None
        return self.read_person(self.check(answer, attempt.nonce, now))

    def check(self, answer: Mapping[str, Any], nonce: str, now: float) -> Mapping[str, Any]:
        """Claims of the ID token, when signature, issuer, audience, times and nonce are as they must be."""
        own = self.settings
        options: dict[str, Any] = {
            "iss": {"essential": True, "value": own.issuer},
            "aud": {"essential": True, "value": own.client_id},
            "nonce": {"essential": True, "value": nonce},
            **{name: {"essential": True} for name in ("sub", "exp", "iat")},
        }
        expected = {"nonce": nonce, "client_id": own.client_id, "access_token": answer.get("access_token")}
        try:
            token = self.decode(str(answer.get("id_token", "")))
            claims = CodeIDToken(token.claims, token.header, options, expected)
            claims.validate(int(now), LEEWAY_S)
        except (JoseError, ValueError, TypeError, KeyError) as error:
            why = clean(str(error) or type(error).__name__, 2 * MAX_NAME)
            raise Forbidden(f"what {own.name} says of who you are cannot be believed ({why})") from None
        return dict(claims)

    def decode(self, text: str) -> jwt.Token:
        registry = JWSRegistry(algorithms=ALGORITHMS, strict_check_header=False)
        try:
            return jwt.decode(text, self.keys, registry=registry)
        except InvalidKeyIdError:  # a key that the provider has had since
            self.load(RENEW_S)
            return jwt.decode(text, self.keys, registry=registry)

    def read_person(self, claims: Mapping[str, Any]) -> Person:
        own, subject = self.settings, str(claims["sub"])
        if not 0 < len(subject) <= MAX_SUBJECT:
            raise Forbidden(f"{own.name} names nobody: its claim sub must have 1 to {MAX_SUBJECT} characters")
        names = (claims.get(key) for key in (own.name_claim, "email", "name"))
        name = next((clean(one, MAX_NAME).strip() for one in names if isinstance(one, str) and one.strip()), "")
        return Person(own.issuer, subject, name or clean(subject, MAX_NAME), own.find_group(self.read_groups(claims)))

    def read_groups(self, claims: Mapping[str, Any]) -> frozenset[str]:
        found: Any = claims
        path = self.settings.groups_claim
        for key in (path,) if path in claims else path.split("."):
            found = found.get(key) if isinstance(found, Mapping) else None
        listed = [found] if isinstance(found, str) else found
        return frozenset(one for one in listed if isinstance(one, str)) if isinstance(listed, list) else frozenset()

    def load(self, fresh_s: float = FRESH_S) -> dict[str, Any]:
        """The provider's addresses; read anew, with its keys, where they are older than that."""
        with self.turn:
            if self.ticks() - self.fetched > fresh_s:
                metadata = self.fetch(get_well_known_url(self.settings.issuer, external=True))
                if metadata.get("issuer") != self.settings.issuer:
                    said = clean(str(metadata.get("issuer")), 2 * MAX_NAME)
                    raise Retry(f"{self.settings.name} calls itself {said!r}, which is not the issuer of the settings")
                try:
                    for key in ("authorization_endpoint", "token_endpoint", "jwks_uri"):
                        check_secure(metadata.get(key), f"{key} of {self.settings.name}")
                except BadInput as error:
                    raise Retry(str(error)) from None  # not the fault of who logs in
                self.keys = read_keys(self.fetch(metadata["jwks_uri"]))
                self.metadata, self.fetched = metadata, self.ticks()
            return self.metadata

    def fetch(self, url: str) -> dict[str, Any]:
        try:
            with (
                self.connect("") as client,
                client.get(url, withhold_token=True, timeout=TIMEOUT_S, allow_redirects=False, stream=True) as answer,
            ):
                answer.raise_for_status()
                document = json.loads(read_whole(answer.iter_content(1 << 16)))
        except (RequestException, ValueError, RecursionError) as error:
            raise self.describe_silence(error) from None
        if not isinstance(document, dict):
            raise Retry(f"{url} is no document of {self.settings.name}")
        return document

    def connect(self, redirect: str) -> OAuth2Session:
        own = self.settings
        return OAuth2Session(
            own.client_id, own.secret, scope=" ".join(own.request), redirect_uri=redirect, trust_env=False,
            code_challenge_method="S256", verify=True if own.ca_file is None else str(own.ca_file),
        )  # fmt: skip

    def describe_silence(self, error: Exception) -> Retry:
        why = type(error).__name__
        return Retry(f"{self.settings.name} does not answer as it should ({why}); try again, or log in with a token")


def read_whole(pieces: Iterable[bytes]) -> bytes:
    content = b""
    for piece in pieces:
        content += piece
        if len(content) > MAX_DOCUMENT:
            raise ValueError(f"more than {MAX_DOCUMENT} bytes")
    return content


def choose_method(metadata: Mapping[str, Any]) -> str:
    """How the client's secret is sent: as OpenID Connect wants it where the provider does not say."""
    known = metadata.get("token_endpoint_auth_methods_supported")
    by_form = isinstance(known, list) and "client_secret_post" in known and "client_secret_basic" not in known
    return "client_secret_post" if by_form else "client_secret_basic"


def read_keys(document: Mapping[str, Any]) -> KeySet:
    """Public keys that sign; others that a provider lists besides are left out."""
    listed = document.get("keys")
    keys = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    signing = [one for one in keys if one.get("kty") in KEY_TYPES and one.get("use", "sig") == "sig"]
    try:
        return KeySet.import_key_set({"keys": signing})
    except (JoseError, ValueError, TypeError, KeyError) as error:
        raise Retry(f"the provider's keys cannot be read ({type(error).__name__})") from None
