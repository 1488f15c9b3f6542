"""The house stays in order: names with one meaning, summaries first, functions that fit a screen."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PRODUCT = ("scaler", "sim", "tuner")
FILES = sorted(path for room in PRODUCT for path in (ROOT / room).rglob("*.py") if "__pycache__" not in path.parts)
MAX_WORDS, MAX_LINES, MAX_PARAMETERS = 20, 70, 12
IN_OUT = re.compile(r"\bin;.*\bout\b|\bflows? in\b.*\bflows? out\b")
Function = ast.FunctionDef | ast.AsyncFunctionDef


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def functions() -> Iterator[tuple[str, Function]]:
    for path in FILES:
        for node in ast.walk(parse(path)):
            if isinstance(node, Function):
                yield f"{path.relative_to(ROOT)}:{node.lineno} {node.name}", node


def first_line(path: Path) -> str:
    return (ast.get_docstring(parse(path)) or "").split("\n\n")[0].replace("\n", " ")


def test_each_class_name_has_one_meaning() -> None:
    classes = (n.name for path in FILES for n in ast.walk(parse(path)) if isinstance(n, ast.ClassDef))
    counts = Counter(name for name in classes if name != "State")  # the state of a policy, in each policy's file
    assert [name for name, count in counts.items() if count > 1] == []


def test_few_file_names_have_several_meanings() -> None:
    counts = Counter(path.stem for path in FILES if path.stem not in ("__init__", "__main__"))
    assert len([name for name, count in counts.items() if count > 1]) <= 15


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_opens_with_one_short_summary(path: Path) -> None:
    summary = first_line(path)
    assert summary
    assert not IN_OUT.search(summary)
    first = re.split(r"(?<=[.:;])\s", summary)[0]
    assert len(first.split()) <= MAX_WORDS, first


def test_functions_fit_a_screen() -> None:
    long = [where for where, node in functions() if (node.end_lineno or 0) - node.lineno + 1 > MAX_LINES]
    assert long == []


def test_functions_take_few_parameters() -> None:
    many = [w for w, node in functions() if len(node.args.args) + len(node.args.kwonlyargs) > MAX_PARAMETERS]
    assert many == []


def test_every_package_is_in_the_wheel() -> None:
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]["packages"]
    folders = {".".join(path.parent.relative_to(ROOT).parts) for path in FILES}
    assert set(listed) == folders | {"tuner.store.migrations", "tuner.store.migrations.versions"}
