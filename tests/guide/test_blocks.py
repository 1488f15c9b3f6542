"""Every block of README and guide works: commands run as printed, or parse; examples compile and fit the code."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import tomllib
from pathlib import Path
from typing import Any

import click
import pytest

from tests.guide.blocks import (
    LONG,
    MODES,
    RUN,
    SERVE,
    Block,
    list_blocks,
    list_drawings,
    list_inline,
    parse_command,
    run_block,
    serve_block,
    split_commands,
)
from tests.guide.scenes import SCENES
from tests.guide.test_pages import PAGES

BLOCKS = {f"{name}:{one.line}": one for name, path in PAGES.items() for one in list_blocks(path)}
OF_SHELL = {where: one for where, one in BLOCKS.items() if one.language == "sh"}
QUICK = (RUN, SERVE)
OF_PYTHON = {where: one for where, one in BLOCKS.items() if one.language == "python"}


def has_run(name: str, modes: tuple[str, ...]) -> bool:
    return any(one.language == "sh" and one.mode in modes for one in list_blocks(PAGES[name]))


def run_page(name: str, folder: Path, modes: tuple[str, ...]) -> None:
    """The page's blocks in order, in one folder."""
    if name in SCENES:
        SCENES[name](folder)
    for block in list_blocks(PAGES[name]):
        if block.file is not None:
            (folder / block.file).write_text(block.text, encoding="utf-8")
        elif block.language == "sh" and block.mode in modes:
            (serve_block if block.mode == SERVE else run_block)(block, folder)


@pytest.mark.parametrize("name", [name for name in PAGES if has_run(name, QUICK)])
def test_commands_of_a_page_run(name: str, tmp_path: Path) -> None:
    run_page(name, tmp_path, QUICK)


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in PAGES if has_run(name, (LONG,))])
def test_commands_of_a_page_that_take_long_run(name: str, tmp_path: Path) -> None:
    run_page(name, tmp_path, (*QUICK, LONG))


@pytest.mark.parametrize("where", BLOCKS)
def test_a_block_is_of_a_kind_that_is_tested(where: str) -> None:
    block = BLOCKS[where]
    if block.language == "sh":
        assert block.mode in MODES
    elif block.language == "toml":
        assert tomllib.loads(block.text)
        assert block.file
    else:
        assert block.language in ("python", "json")
        assert not block.note


@pytest.mark.parametrize("where", OF_SHELL)
def test_commands_parse(where: str) -> None:
    for words in split_commands(OF_SHELL[where].text):
        parse_command(words)


@pytest.mark.parametrize("name", PAGES)
def test_commands_within_sentences_parse(name: str) -> None:
    for text in list_inline(PAGES[name]):
        for words in split_commands(text):
            parse_command(words, whole=False)


@pytest.mark.parametrize("name", PAGES)
def test_indented_blocks_hold_no_commands(name: str) -> None:
    """They would not be tested; but for the README's test command, which CI reads and runs."""
    for text in list_drawings(PAGES[name]):
        assert ".[test]" in text or not [line for line in text.splitlines() if line.startswith(("tuner ", "$", "pip "))]


@pytest.mark.parametrize("where", [where for where, one in BLOCKS.items() if one.language == "json"])
def test_json_parses(where: str) -> None:
    assert json.loads(BLOCKS[where].text)


def import_names(tree: ast.Module) -> dict[str, Any]:
    """What the imports of an example bring, by the name that it has there."""
    found: dict[str, Any] = {}
    for node in tree.body:
        if isinstance(node, ast.Import):
            found |= {one.asname or one.name: importlib.import_module(one.name) for one in node.names}
        elif isinstance(node, ast.ImportFrom):
            module = importlib.import_module(str(node.module))
            found |= {one.asname or one.name: getattr(module, one.name) for one in node.names}
    return found


def find_called(node: ast.expr, known: dict[str, Any]) -> Any:
    """What a call's name leads to; None where that is no import of the example."""
    if isinstance(node, ast.Name):
        return known.get(node.id)
    if isinstance(node, ast.Attribute):
        owner = find_called(node.value, known)
        return None if owner is None else getattr(owner, node.attr)
    return None


@pytest.mark.parametrize("where", OF_PYTHON)
def test_an_example_in_python_fits_the_code(where: str) -> None:
    """It compiles, its imports are there, and what it calls of them takes these arguments."""
    tree = ast.parse(OF_PYTHON[where].text)
    known, checked = import_names(tree), 0
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and (called := find_called(node.func, known)) is not None:
            inspect.signature(called).bind(*node.args, **{str(one.arg): one.value for one in node.keywords})
            checked += 1
    assert checked


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("tuner tnue shop", "there is no command 'tnue'"),
        ("tuner push shop --whhy x", "No such option"),
        ("tuner push shop one --why x", "is not a valid integer range"),
        ("tuner push", "Missing parameter: app"),
        ("tuner app list shop", "too many words"),
        ("(umask 077; tuner token make a --scope all > file)", "'all' is not one of"),
    ],
)
def test_a_wrong_command_would_be_found(text: str, fault: str) -> None:
    (words,) = split_commands(text)
    with pytest.raises(click.UsageError, match=fault):
        parse_command(words)


def test_a_block_that_fails_says_where(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"line 7: tuner app show shop\nError: there is no database"):
        run_block(Block("sh", RUN, "tuner app show shop\n", 7), tmp_path)
