"""Say where the operators that were monitored are others than those described: what no name joins is not tuned."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from scaler.model.errors import suggest
from scaler.model.units import join_words, quote

SHOWN = 5  # names in a sentence


def compare_operators(app: str, described: Sequence[str], observed: Collection[str]) -> str | None:
    """The sentence of monitored operators that the description lacks; None where it names them all."""
    unknown = sorted(set(observed) - set(described))
    if not unknown:
        return None
    missing = [name for name in described if name not in observed]
    if not missing:
        return (
            f"the monitoring of {quote(app)} has {list_names(unknown)} besides the operators of its description: what "
            "is not described is not tuned; add it to the description (tuner app add), or leave it"
        )
    near = [f" ({near})" for name in missing if (near := suggest(name, unknown, ""))][:1]
    return (
        f"the monitoring of {quote(app)} has {list_names(unknown)}, where its description has {list_names(missing)}"
        f"{''.join(near)}: only what both name alike is tuned; name the operators in the description as the queries "
        "are named, and store it with: tuner app add"
    )


def list_names(names: Sequence[str]) -> str:
    shown = [quote(name) for name in names[:SHOWN]]
    more = len(names) - len(shown)
    return join_words([*shown, f"{more:,} more"] if more else shown)
