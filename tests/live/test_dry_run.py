"""What would have been, and what is."""

from __future__ import annotations

from collections.abc import Mapping

from scaler.acting.dry_run import DryRun


class Real:
    """Two small replicas that never change; it writes down what it is asked."""

    def __init__(self) -> None:
        self.asked: list[Mapping[str, int]] = []
        self.closed = False

    def deployed(self, operator: str) -> Mapping[str, int] | None:
        return {"small": 2} if operator == "count" else None

    def room(self, operator: str, node_type: str) -> str | None:
        return f"no {node_type} for {operator}"

    def ask(self, operator: str, target: Mapping[str, int]) -> None:
        self.asked.append(target)

    def close(self) -> None:
        self.closed = True


def test_targets_are_remembered_and_nothing_is_changed() -> None:
    real = Real()
    dry = DryRun(real)
    assert dry.asked("count") is None
    target = {"small": 3}
    dry.ask("count", target)
    target["small"] = 4
    assert dry.asked("count") == {"small": 3}
    assert dry.deployed("count") == {"small": 2}
    assert dry.deployed("split") is None
    assert dry.room("count", "small") == "no small for count"
    dry.close()
    assert real.asked == []
    assert real.closed


def test_with_nothing_behind_it_what_is_deployed_is_unknown_and_not_zero() -> None:
    dry = DryRun()
    dry.ask("count", {"small": 3})
    assert dry.deployed("count") is None
    assert dry.room("count", "small") is None
    dry.close()
