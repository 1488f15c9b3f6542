"""One attempt to log in at a provider, which only the browser that began it can end.

The browser keeps a random secret in a cookie; state, nonce and PKCE's verifier are derived from it, from when it began
and from where to go after. So the service remembers nothing of attempts, any of several services can end one, and what
another site made up fits no cookie.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
import secrets
from dataclasses import dataclass

ATTEMPT_S = 600.0  # seconds that it takes at most
MAX_ONWARD = 1500  # characters: a cookie has 4,096 bytes
FORM = re.compile(r"([A-Za-z0-9_-]{43})\.([0-9]{1,12})\.([A-Za-z0-9_=-]*)")


@dataclass(frozen=True, slots=True)
class LoginAttempt:
    secret: str
    begun: int  # seconds since 1970
    onward: str  # a path of this service

    def derive(self, what: str) -> str:
        """Of 64 hexadecimal digits, as PKCE allows for its verifier (RFC 7636, 4.1)."""
        return hmac.new(self.secret.encode(), f"{what} {self.begun} {self.onward}".encode(), "sha256").hexdigest()

    @property
    def state(self) -> str:
        return self.derive("state")

    @property
    def nonce(self) -> str:
        return self.derive("nonce")

    @property
    def verifier(self) -> str:
        return self.derive("verifier")

    def write(self) -> str:
        """For the cookie."""
        return f"{self.secret}.{self.begun}.{base64.urlsafe_b64encode(self.onward.encode()).decode()}"

    def is_answered_by(self, state: str, now: float) -> bool:
        """Whether the state is this attempt's, and in time."""
        return hmac.compare_digest(state.encode(), self.state.encode()) and 0.0 <= now - self.begun <= ATTEMPT_S


def begin_attempt(onward: str, now: float) -> LoginAttempt:
    return LoginAttempt(secrets.token_urlsafe(32), int(now), onward if len(onward) <= MAX_ONWARD else "/")


def read_attempt(text: str | None) -> LoginAttempt | None:
    """What `write` wrote; None of anything else."""
    found = FORM.fullmatch(text or "")
    if found is None:
        return None
    try:
        onward = base64.urlsafe_b64decode(found[3]).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None
    return LoginAttempt(found[1], int(found[2]), onward)
