"""Search, filter and sort the applications of the overview, as its address says."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from scaler.model.errors import BadInput
from tuner.service.page.address import check_choice, check_text, join
from tuner.service.page.overview_page import ApplicationLine, gather_line
from tuner.store.applications import list_applications
from tuner.store.connection import Session

APPLICATIONS_PER_PAGE = 20
MAX_SORTED = 100  # applications that are looked at to filter or sort by anything but the name
SHOWN: dict[str, tuple[str, Callable[[ApplicationLine], bool]]] = {  # what is shown, by its word in the link
    "": ("all", lambda _: True),
    "violations": ("with more violations than allowed", lambda line: line.late),
    "rollout": ("with a roll-out on its way", lambda line: line.moving),
    "silent": ("with silent agents", lambda line: line.silent),
    "doubtful": ("with a doubtful surrogate", lambda line: line.doubted),
}
SORTS: dict[str, tuple[str, Callable[[ApplicationLine], Any]]] = {  # what is not known comes last
    "": ("application", lambda line: line.application),
    "violations": ("violations, of slots", lambda line: rank(line.observed, "violations")),
    "price": ("price per hour", lambda line: rank(line.observed, "price")),
    "rollout": ("roll-out", lambda line: line.stage.word),
    "surrogate": ("surrogate", lambda line: rank(line.surrogate, "error")),
    "agents": ("agents alive", lambda line: -line.alive / max(1, len(line.operators))),
    "event": ("last event", lambda line: math.inf if line.event is None else -line.event.time),
}
GREATEST_FIRST = ("violations", "price", "surrogate")


@dataclass(frozen=True, slots=True)
class OverviewOrder:
    """Which applications, in which order; `after` which name a page by name begins."""

    search: str = ""
    show: str = ""
    sort: str = ""
    turned: bool = False
    after: str = ""

    @property
    def by_name(self) -> bool:
        """Whether pages can be cut before anything is known of the applications but their names."""
        return not self.show and not self.sort and not self.turned

    @property
    def query(self) -> dict[str, str]:
        way = "turned" * self.turned
        return {"search": self.search, "show": self.show, "sort": self.sort, "way": way, "after": self.after}

    @property
    def heads(self) -> list[tuple[str, str, str]]:
        """Label, link and, where the list is sorted by it, direction of each column."""
        return [(label, self.link(sort=word, turned=self.sort == word and not self.turned, after=""),
                 self.find_direction(word)) for word, (label, _) in SORTS.items()]  # fmt: skip

    def find_direction(self, word: str) -> str:
        if word != self.sort:
            return ""
        return "descending" if (word in GREATEST_FIRST) != self.turned else "ascending"

    def link(self, **changed: Any) -> str:
        return join("/", replace(self, **changed).query)

    def matches(self, name: str) -> bool:
        return self.search.casefold() in name.casefold()

    def arrange(self, lines: Iterable[ApplicationLine]) -> list[ApplicationLine]:
        """Those that are shown, in their order; equal ones by name."""
        chosen = sorted(filter(SHOWN[self.show][1], lines), key=lambda line: line.application)
        return sorted(chosen, key=SORTS[self.sort][1], reverse=self.turned)


def rank(record: object, name: str) -> float:
    """A place by this figure: the greatest first, what is not known last."""
    value = getattr(record, name, None)
    return math.inf if value is None else -float(value)


def read_overview_order(query: Mapping[str, str]) -> OverviewOrder:
    way = query.get("way", "")
    if way not in ("", "turned"):
        raise BadInput(f"way is {way[:40]!r}, and must be turned or left out")
    return OverviewOrder(
        check_text(query.get("search", "").strip()),
        check_choice("show", query.get("show", ""), SHOWN),
        check_choice("sort", query.get("sort", ""), SORTS),
        way == "turned",
        check_text(query.get("after", "")),
    )


def count_lines(lines: Sequence[ApplicationLine]) -> list[tuple[str, str, int]]:
    """Word, label and number of those that need attention."""
    return [(word, label, sum(map(fits, lines))) for word, (label, fits) in SHOWN.items() if word]


def gather_overview(
    session: Session, now: float, order: OverviewOrder, applications: Container[str] | None = None
) -> dict[str, Any]:
    """A page of these applications, and how many of them need attention."""
    every = list_applications(session)
    mine = [each for each in every if applications is None or each.application in applications]
    found = [each for each in mine if order.matches(each.application)]
    ahead = [each for each in found if each.application > order.after or not order.after] if order.by_name else found
    most = APPLICATIONS_PER_PAGE if order.by_name else MAX_SORTED
    lines = [gather_line(session, each, now) for each in ahead[:most]]
    return {
        "lines": order.arrange(lines),
        "order": order,
        "counts": count_lines(lines),
        "total": len(mine),
        "found": len(found),
        "looked_at": len(lines),
        "onward": order.link(after=lines[-1].application) if order.by_name and len(ahead) > most else None,
        "first": order.link(after="") if order.after else None,
        "shown": [(word, label) for word, (label, _) in SHOWN.items()],
    }
