"""Read who may log in by OpenID Connect: the provider, and what each group of people may do.

issuer = "https://login.example.org/realms/work"      # as the provider itself writes it
client_id = "tuner"
secret_file = "oidc.secret"                           # owner-only; or the variable TUNER_OIDC_SECRET
name = "Example"                                      # on the page: Log in with Example

[[group]]                                             # the first one that a person is in counts
name = "stream-admins"
scopes = ["read", "tune", "push"]
all_applications = true

[[group]]
name = "shop-team"
scopes = ["read"]
applications = ["shop"]
"""

from __future__ import annotations

import stat
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from scaler.model.errors import BadInput
from sim.toml_table import FLAG, TABLES, TEXT, TEXTS, Kind, Table, check_table, name_item, read_toml
from tuner.service.access.oidc_attempt import LoginAttempt
from tuner.service.access.token import join_scopes
from tuner.store.applications import check_application_name

SECRET_VARIABLE = "TUNER_OIDC_SECRET"
KINDS: dict[str, Kind] = {
    "issuer": TEXT, "client_id": TEXT, "secret_file": TEXT, "name": TEXT, "groups_claim": TEXT, "name_claim": TEXT,
    "request": TEXTS, "ca_file": TEXT, "group": TABLES,
}  # fmt: skip
GROUP_KINDS: dict[str, Kind] = {"name": TEXT, "scopes": TEXTS, "applications": TEXTS, "all_applications": FLAG}
OTHERS = 0o077  # permissions of a file for others than its owner


@dataclass(frozen=True, slots=True)
class PeopleGroup:
    """What people may do whom the provider says to be in this group."""

    name: str
    scopes: str  # separated by spaces
    applications: tuple[str, ...] | None  # None: all of them


@dataclass(frozen=True, slots=True)
class OidcSettings:
    issuer: str
    client_id: str
    secret: str = field(repr=False)
    name: str
    groups: tuple[PeopleGroup, ...]
    groups_claim: str = "groups"  # a claim of the ID token; "realm_access.roles": one within another
    name_claim: str = "preferred_username"
    request: tuple[str, ...] = ("openid", "profile", "email")  # scopes of OAuth that the provider is asked for
    ca_file: Path | None = None  # certificates to trust instead of the usual ones

    def find_group(self, names: frozenset[str]) -> PeopleGroup | None:
        """The first one in the order of the settings: rights of several are not added up."""
        return next((group for group in self.groups if group.name in names), None)


@dataclass(frozen=True, slots=True)
class Person:
    """Who logged in, as the provider says."""

    issuer: str
    subject: str  # which alone stays the same
    name: str
    group: PeopleGroup | None  # None: in none of the groups that may do anything


class IdentityProvider(Protocol):
    """Where people log in; both functions ask over the network, and wait."""

    settings: OidcSettings

    def find_login(self, attempt: LoginAttempt, redirect: str) -> str:
        """Where to send the browser."""

    def identify(self, attempt: LoginAttempt, redirect: str, code: str, now: float) -> Person:
        """Who came back with this code."""


def read_oidc_settings(path: Path, variable: str | None) -> OidcSettings:
    """`variable`: the client's secret, where the environment has it."""
    table = read_toml(path)
    check_table(table, KINDS, lambda key: f"{path}: {key}", ("issuer", "client_id", "group"))
    host = urlsplit(table["issuer"]).hostname
    check_secure(table["issuer"], f"{path}: issuer")
    groups = tuple(read_group(path, one, number) for number, one in enumerate(table["group"], 1))
    if not groups:
        raise BadInput(f"{path}: group is empty, so that nobody could log in; head each group with [[group]]")
    folder = path.parent
    given: dict[str, Any] = {key: table[key] for key in ("groups_claim", "name_claim") if key in table}
    if "request" in table:
        given["request"] = tuple(dict.fromkeys(("openid", *table["request"])))
    if "ca_file" in table:
        given["ca_file"] = folder / table["ca_file"]
        if not given["ca_file"].is_file():
            raise BadInput(f"{path}: ca_file is {given['ca_file']}, and there is no such file")
    secret = read_secret(path, table.get("secret_file"), variable)
    name = table.get("name", host)
    return OidcSettings(table["issuer"], table["client_id"], secret, name, groups, **given)


def read_group(path: Path, table: Table, number: int) -> PeopleGroup:
    place = f"{path}: {name_item('group', table, number)}"
    check_table(table, GROUP_KINDS, lambda key: f"{place}: {key}", ("name", "scopes"))
    named, every = table.get("applications", []), table.get("all_applications", False)
    if bool(named) is every:
        raise BadInput(f'{place} needs either applications = ["NAME"] or all_applications = true')
    if "read" not in table["scopes"]:
        raise BadInput(f'{place}: scopes must have "read", without which nobody sees a page')
    try:
        for app in named:
            check_application_name(app)
        return PeopleGroup(table["name"], join_scopes(table["scopes"]), None if every else tuple(sorted(set(named))))
    except BadInput as error:
        raise BadInput(f"{place}: {error}") from None


def read_secret(path: Path, named: str | None, variable: str | None) -> str:
    if (named is None) is (not variable):
        given = "neither is given" if named is None else "both are given"
        raise BadInput(f"{path}: the client's secret comes from secret_file or from {SECRET_VARIABLE}, and {given}")
    if named is None:
        return str(variable).strip()
    file = path.parent / named
    try:
        if stat.S_IMODE(file.stat().st_mode) & OTHERS:
            raise BadInput(f"{file} can be read by others; make it its owner's alone: chmod 600 {file}")
        secret = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path}: secret_file {file} cannot be read ({error})") from None
    if not secret:
        raise BadInput(f"{file} is empty; write the client's secret into it")
    return secret


def check_secure(url: object, place: str) -> str:
    """Refuse what is not https, except on this machine: who listens on the way could log in as anybody."""
    try:
        parts = urlsplit(url if isinstance(url, str) else "")
        secure = parts.scheme == "https" or (parts.scheme == "http" and is_local(parts.hostname or ""))
        whole = bool(parts.hostname) and parts.username is None and not parts.fragment
    except ValueError:
        secure = whole = False
    if not secure or not whole:
        raise BadInput(f"{place} is {url!r}, and must be an https address (http is for loopback alone)")
    return str(url)


def is_local(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
