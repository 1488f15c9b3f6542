"""Read the fenced blocks of a page in Markdown, run them in a shell, and parse the commands in them.

The info string of a block of commands says how it is tested: `sh` runs; `sh serve` runs until the service is ready;
`sh long` runs with --long alone; `sh parse` is parsed alone, for it needs a cluster or changes this machine.
`toml file=NAME` is saved for the blocks after it.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click
from click.testing import CliRunner
from markdown_it import MarkdownIt

from tuner.cli import main

RUN, SERVE, LONG, PARSE = "", "serve", "long", "parse"
MODES = (RUN, SERVE, LONG, PARSE)
OF_A_SHELL = set("|&;()<>$`#\n\\*~")
ENDS = {"&&", "||", ";", "|", "(", ")", "&"}
REDIRECTIONS = {">", ">>", "<", "2>"}
TIMEOUT_S = 600.0


@dataclass(frozen=True, slots=True)
class Block:
    language: str
    note: str  # the rest of the info string
    text: str
    line: int  # of the page, from 1

    @property
    def mode(self) -> str:
        return self.note

    @property
    def file(self) -> str | None:
        """The name that a block which is no command is saved under."""
        return self.note.removeprefix("file=") if self.note.startswith("file=") else None


def list_blocks(page: Path) -> list[Block]:
    tokens = MarkdownIt("commonmark").parse(page.read_text(encoding="utf-8"))
    fences = [one for one in tokens if one.type == "fence"]
    parts = [(one, *one.info.partition(" ")[::2]) for one in fences]
    return [Block(language, note, one.content, (one.map or [0])[0] + 1) for one, language, note in parts]


def list_drawings(page: Path) -> list[str]:
    """Indented blocks, which hold no commands."""
    tokens = MarkdownIt("commonmark").parse(page.read_text(encoding="utf-8"))
    return [one.content for one in tokens if one.type == "code_block"]


def list_inline(page: Path) -> Iterator[str]:
    """Commands of ours within sentences and tables."""
    for token in MarkdownIt("commonmark").enable("table").parse(page.read_text(encoding="utf-8")):
        for one in token.children or ():
            if one.type == "code_inline" and re.match(r"tuner \w", one.content):
                yield one.content


def split_commands(text: str) -> Iterator[list[str]]:
    """The words of every command of ours in a shell's text, without redirections."""
    lexer = shlex.shlex(text.replace("\\\n", " ").replace("\n", " ; "), posix=True, punctuation_chars="();<>|&")
    lexer.whitespace_split, lexer.commenters = True, ""
    for words in split_words(lexer):
        if words and Path(words[0]).name == "tuner":
            yield words[1:]


def split_words(lexer: Iterator[str]) -> Iterator[list[str]]:
    words: list[str] = []
    skipped = False
    for word in lexer:
        if word in ENDS:
            yield words
            words = []
        elif word in REDIRECTIONS:
            skipped = True
        elif skipped:
            skipped = False
        else:
            words.append(word)
    yield words


def parse_command(words: list[str], whole: bool = True) -> None:
    """Have click read a command without running it; a fault is raised as click's own.

    `whole`: whether arguments may not be missing, as they may in a sentence.
    """
    command: click.Command = main
    ctx = click.Context(main, info_name="tuner")
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        below = command.get_command(ctx, words[0])
        if below is None:
            raise click.UsageError(f"there is no command {words[0]!r}", ctx)
        ctx, command, words = click.Context(below, ctx, words[0]), below, words[1:]
    if any(word in ("--help", "-h") for word in words):
        return
    values, rest, _ = command.make_parser(ctx).parse_args(list(words))
    if rest and not isinstance(command, click.Group):
        raise click.UsageError(f"too many words: {rest}", ctx)
    for one in command.params:
        given = values.get(one.name or "")
        if whole and one.required and (given is None or given == () or not isinstance(given, str | tuple | list)):
            raise click.MissingParameter(ctx=ctx, param=one)
        if whole and not isinstance(one.type, click.Path):
            for value in given if isinstance(given, tuple | list) else [given] if isinstance(given, str) else []:
                one.type.convert(value, one, ctx)


def make_environment(folder: Path) -> dict[str, str]:
    """A person's, with a data folder of the page's own, and this environment's `tuner`."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    own = {"XDG_DATA_HOME": str(folder / "data"), "PATH": path}
    return {name: value for name, value in os.environ.items() if name != "TUNER_STORE"} | own


def run_block(block: Block, folder: Path) -> None:
    """Run lines of ours alone in this process, which is quick, and all others in a shell; a fault is raised."""
    lines = block.text.rstrip().splitlines()
    if all(line.startswith("tuner ") and not OF_A_SHELL & set(line) for line in lines):
        for line in lines:
            run_line(line, folder, f"line {block.line}: {line}")
    else:
        run_in_shell(block, folder)


def run_line(line: str, folder: Path, where: str) -> None:
    own, before = make_environment(folder), Path.cwd()
    os.chdir(folder)
    try:
        done = CliRunner().invoke(main, shlex.split(line)[1:], env={**own, "TUNER_STORE": None})
    finally:
        os.chdir(before)
    assert done.exit_code == 0, f"{where}\n{done.output}\n{done.exception!r}"


def run_in_shell(block: Block, folder: Path) -> None:
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block.text], cwd=folder, env=make_environment(folder),
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"line {block.line}: {block.text}{done.stdout}\n{done.stderr}"


def serve_block(block: Block, folder: Path) -> None:
    """Run it as printed, but on a free port, until the service is ready; then end it."""
    port = find_free_port()
    text = block.text.replace("tuner serve", f"exec tuner serve --port {port}")
    log = folder / "served.txt"
    with log.open("w") as out:
        started = subprocess.Popen(
            ["bash", "-euo", "pipefail", "-c", text], cwd=folder, env=make_environment(folder),
            stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            wait_until_ready(f"http://127.0.0.1:{port}/readyz", started)
        finally:
            started.send_signal(signal.SIGTERM)
            code = started.wait(TIMEOUT_S)
    assert code == 0, log.read_text()


def find_free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until_ready(url: str, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + TIMEOUT_S
    while time.monotonic() < until and process.poll() is None:
        try:
            urllib.request.urlopen(url, timeout=5.0).close()
            return
        except OSError:
            time.sleep(0.1)
