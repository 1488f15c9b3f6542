"""Build links between pages, whatever characters the names hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from urllib.parse import quote, urlencode

Query = Mapping[str, str | Iterable[str]]


def link_application(app: str, query: Query | None = None, part: str = "") -> str:
    """A name that no path can hold goes into the query."""
    if "/" in app or "\\" in app or app.strip(".") == "":
        return join("/applications", {"app": app, **(query or {})}, part)
    return join(f"/applications/{quote(app, safe='', errors='replace')}", query or {}, part)


def link_objective(app: str, version: int) -> str:
    return join(f"/objectives/{version}", {"app": app})


def link_explanation(app: str, operator: str, at: float) -> str:
    return join("/explain", {"app": app, "operator": operator, "at": f"{at:.15g}"})


def link_run(run_id: int, query: Query | None = None, part: str = "") -> str:
    return join(f"/runs/{run_id}", query or {}, part)


def link_trial(trial_id: int) -> str:
    return f"/trials/{trial_id}"


def join(path: str, query: Query, part: str = "") -> str:
    stated = [(k, v) for k, vs in query.items() for v in ([vs] if isinstance(vs, str) else vs) if v != ""]
    asked = f"?{urlencode(stated, errors='replace')}" if stated else ""
    return f"{path}{asked}{f'#{part}' if part else ''}"
