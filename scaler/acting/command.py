"""Run a program of the user's for each target, and another (or the same) to count replicas.

    argv = ["kubectl-scale", "{verb}", "{operator}-{node_type}", "{replicas}", "{key}"]

Placeholders: {verb} ("scale" or "deployed"), {application}, {operator}, {key}, and {node_type} with {replicas}. With
the last two the program is run once for each node type; without, once, and it reads the whole order as JSON from its
standard input, as it may always do:

    {"verb": "scale", "application": "orders", "operator": "count", "target": {"small": 2}, "key": "5f2a..."}

It exits with 0 when it took the order (replicas may come later). 2, 64, 65, 77 and 78 (usage, data, no permission,
configuration), and a program that cannot be started, mean that the order is refused: it is not sent again. Any other
code, a signal and a timeout mean that it is sent again, with the same key. Run with {verb} "deployed" (or another argv)
it writes `{"small": 2}` to its standard output; an argv for each node type, or without {verb}, needs that other one.
"""

from __future__ import annotations

import json
import logging
import os
import re
import selectors
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from scaler.acting.actuator import Calls, Room, TargetOrder, read_replicas
from scaler.model.errors import BadInput, Retry

LOG = logging.getLogger("scaler.agent")
KNOWN = ("verb", "application", "operator", "node_type", "replicas", "key")
EACH_TYPE = ("{node_type}", "{replicas}")
REFUSED = (2, 64, 65, 77, 78)
MAX_OUTPUT = 64 << 10  # bytes that are read of what a program writes
MAX_MESSAGE = 300
ADD = 'add deployed=["/opt/count-replicas", "{operator}"], a program that writes {"small": 2}'
PLACEHOLDER = re.compile(r"\{(\w+)\}")


class Command:
    """`deployed`: the argv that counts replicas, where it is not `argv` with another {verb}."""

    def __init__(
        self, app: str, argv: Sequence[str], deployed: Sequence[str] | None = None, timeout: float = 30.0,
        pause: float = 1.0,
    ) -> None:  # fmt: skip
        self.app, self.argv, self.timeout = app, check_argv("argv", argv), timeout
        each = any(mark in word for word in self.argv for mark in EACH_TYPE)
        whole = "{verb}" in " ".join(self.argv) and not each
        self.query = check_argv("deployed", deployed) if deployed else self.argv if whole else None
        if self.query and any(mark in word for word in self.query for mark in EACH_TYPE):
            raise BadInput("deployed tells all node types at once; leave {node_type} and {replicas} out of it")
        if not timeout > 0:
            raise BadInput(f"timeout is {timeout:g}; it is a number of seconds above 0")
        if not self.can_count:
            LOG.warning("%s cannot tell what is deployed, and without that no replicas change; %s", self.argv[0], ADD)
        self.calls = Calls(app, self.send, pause)

    @property
    def can_count(self) -> bool:
        """Whether there is an argv that counts replicas; without one `deployed` is always None."""
        return self.query is not None

    def prepare(self) -> None:
        pass

    def check_room(self, operator: str, more: Mapping[str, int]) -> Room:
        return self.calls.check_room(operator, more)

    def apply(self, operator: str, target: Mapping[str, int]) -> None:
        self.calls.put(operator, target)

    def close(self) -> None:
        self.calls.close()

    def find_starts(self, operator: str) -> Mapping[str, Sequence[float]] | None:  # noqa: ARG002
        return None

    def deployed(self, operator: str) -> Mapping[str, int] | None:
        if self.query is None:
            return None
        order = TargetOrder(self.app, operator, {}, "")
        try:
            return read_replicas(json.loads(self.run(self.query, order, "deployed", {})))
        except (BadInput, Retry) as error:
            LOG.warning("%s", error)
            return None
        except (ValueError, RecursionError):
            return None

    def send(self, order: TargetOrder) -> None:
        if any(mark in word for word in self.argv for mark in EACH_TYPE):
            for node_type, replicas in order.target.items():
                self.run(self.argv, order, "scale", {"node_type": node_type, "replicas": str(replicas)})
        else:
            self.run(self.argv, order, "scale", {})

    def run(self, argv: Sequence[str], order: TargetOrder, verb: str, more: Mapping[str, str]) -> bytes:
        """Run the program; what it wrote, if it exited with 0."""
        values = {"verb": verb, "application": order.app, "operator": order.operator, "key": order.key, **more}
        words = fill_argv(argv, values)
        code, out, err = run_bounded(words, json.dumps(order.document(verb)).encode(), self.timeout)
        if code == 0:
            return out
        stated = " ".join(err.decode(errors="replace").split())[-MAX_MESSAGE:]
        what = f"{words[0]} for operator {order.operator!r}"
        if code is None:
            raise Retry(f"{what} did not end in {self.timeout:g} s and was killed")
        sentence = f"{what} exited with {code}" + (f": {stated}" if stated else "")
        raise BadInput(f"{sentence}; the order is refused") if code in REFUSED else Retry(sentence)


def fill_argv(argv: Sequence[str], values: Mapping[str, str]) -> list[str]:
    """The argv with its placeholders filled; refused where a name would become an option of the program."""
    words: list[str] = []
    for word in argv:
        filled = PLACEHOLDER.sub(lambda found: values.get(found[1], found[0]), word)
        if filled.startswith("-") and not word.startswith("-") and "--" not in words:
            raise BadInput(
                f"{filled!r} for {word} would be an option of {argv[0]}; put '--' before it in argv, or "
                f"write --option={word}"
            )
        words.append(filled)
    return words


def check_argv(name: str, argv: Any) -> list[str]:
    if isinstance(argv, str) or not argv or not all(isinstance(word, str) for word in argv):
        raise BadInput(f'{name} must be a list of words, like ["scale", "{{operator}}"], for no shell is started')
    for word in argv:
        for found in PLACEHOLDER.findall(word):
            if found not in KNOWN:
                raise BadInput(f"{name} has {{{found}}}; known are {', '.join(f'{{{one}}}' for one in KNOWN)}")
    return list(argv)


def run_bounded(argv: Sequence[str], document: bytes, timeout: float) -> tuple[int | None, bytes, bytes]:
    """Run a program; exit code (None: killed at the timeout), and the first bytes of its output and of its errors."""
    with tempfile.TemporaryFile() as source:
        source.write(document)
        source.seek(0)
        try:
            program = subprocess.Popen(
                argv, stdin=source, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
            )
        except (OSError, ValueError) as error:
            raise BadInput(f"{argv[0]} cannot be started: {getattr(error, 'strerror', None) or error}") from None
    try:
        out, err = read_pipes(program, time.monotonic() + timeout)
        return program.poll(), out, err
    finally:
        kill_group(program)
        for pipe in (program.stdout, program.stderr):
            if pipe is not None:
                pipe.close()


def read_pipes(program: subprocess.Popen[bytes], deadline: float) -> tuple[bytes, bytes]:
    """Read until the program has ended, or the deadline; what exceeds MAX_OUTPUT is dropped."""
    assert program.stdout is not None
    assert program.stderr is not None
    kept = {program.stdout.fileno(): bytearray(), program.stderr.fileno(): bytearray()}
    order = list(kept)
    with selectors.DefaultSelector() as selector:
        for pipe in order:
            selector.register(pipe, selectors.EVENT_READ)
        while time.monotonic() < deadline:
            ended = program.poll() is not None
            ready = selector.select(0.0 if ended else min(0.05, max(0.0, deadline - time.monotonic())))
            if ended and not ready:
                break  # what it left running may hold the pipes open, and is not waited for
            if not selector.get_map():
                time.sleep(0.01)
            for key, _ in ready:
                piece = os.read(key.fd, 1 << 16)
                if not piece:
                    selector.unregister(key.fd)
                kept[key.fd] += piece[: max(0, MAX_OUTPUT - len(kept[key.fd]))]
    return bytes(kept[order[0]]), bytes(kept[order[1]])


def kill_group(program: subprocess.Popen[bytes]) -> None:
    """Kill the program, which leads a group of its own, if it has not ended."""
    if program.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(program.pid, signal.SIGKILL)
        program.wait()
