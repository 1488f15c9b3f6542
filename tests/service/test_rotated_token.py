"""A token that was rotated and then revoked, as after a leak."""

from __future__ import annotations

from tuner.service.access.token import add_secret, digest, end_token, is_live, rotate_token
from tuner.store.connection import Store
from tuner.store.records import Token
from tuner.store.tokens import find_token

NOW = 1e9


def test_to_revoke_a_token_revokes_the_secrets_it_was_rotated_from(store: Store) -> None:
    """As attacked: the first secret, which had leaked, went on working for a day."""
    with store.begin() as session:
        _, first = add_secret(session, Token("leak", "", "read", "anna", NOW))
        _, other = add_secret(session, Token("leak until further notice", "", "read", "anna", NOW))
        _, second = rotate_token(session, "leak", "anna", NOW, 86_400.0)
    with store.begin() as session:
        tokens = [find_token(session, digest(secret)) for secret in (first, second)]
        assert all(token is not None and is_live(token, NOW + 1.0) for token in tokens)
        end_token(session, "leak", "anna", NOW + 2.0)
    with store.read() as session:
        live = [find_token(session, digest(secret)) for secret in (first, second, other)]
    assert [token is not None and is_live(token, NOW + 3.0) for token in live] == [False, False, True]
