"""Command lines flow in; processes that outlive us, known by number, start and boot, flow out: on Linux, here or there.

A process's number is used again after it has ended; together with the moment at which it started, in ticks since boot,
and the identity of that boot it is not. Nothing is signalled unless all three still fit, checked by the very command
line that signals.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from scaler.model.errors import BadInput, Retry

TIMEOUT_S = 20.0
BOOT = "/proc/sys/kernel/random/boot_id"
STARTED = 19  # which of the numbers after the name in /proc/N/stat tells when it started (proc(5): field 22)


@dataclass(frozen=True, slots=True)
class Process:
    name: str
    node_type: str
    shell: tuple[str, ...]  # takes one command line
    number: int
    started: str  # ticks since boot
    boot: str


@dataclass(frozen=True, slots=True)
class Found:
    """What runs on a machine: (parent, started) by number."""

    boot: str
    table: Mapping[int, tuple[int, str]]

    def __contains__(self, one: Process) -> bool:
        return self.boot == one.boot and self.table.get(one.number, (0, ""))[1] == one.started

    def children(self, one: Process) -> int:
        return sum(parent == one.number for parent, _ in self.table.values()) if one in self else 0


def run_line(shell: Sequence[str], line: str) -> str:
    try:
        told = subprocess.run(
            [*shell, line], stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
            timeout=TIMEOUT_S,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Retry(f"{shlex.join(shell)} did not run a command line: {error}") from None
    if told.returncode != 0:
        raise Retry(f"{shlex.join(shell)} ended with {told.returncode}: {told.stderr.strip()[-300:]}")
    return told.stdout


def find_processes(shell: Sequence[str]) -> Found:
    # Zombies are left out: they have ended, and only wait for whoever started them to hear of it.
    lines = run_line(shell, f"cat {BOOT}; cat /proc/[0-9]*/stat 2>/dev/null; true").splitlines()
    table = {}
    for line in lines[1:]:
        number, _, rest = line.partition(" ")
        fields = rest.rpartition(")")[2].split()
        if number.isdecimal() and len(fields) > STARTED and fields[0] not in "ZX":
            table[int(number)] = (int(fields[1]), fields[STARTED])
    if not lines or not table:
        raise Retry(f"{shlex.join(shell)} cannot tell which processes run; /proc must be there")
    return Found(lines[0].strip(), table)


def start_process(
    folder: Path, name: str, node_type: str, words: Sequence[str], shell: tuple[str, ...],
    environment: Mapping[str, str],
) -> Process:  # fmt: skip
    """In a session of its own, its output to a file in the folder (of its machine), and noted before we go on."""
    for key in environment:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", key):
            raise BadInput(f"{key!r} is no name of an environment variable")
    command = shlex.join(["env", *(f"{key}={value}" for key, value in environment.items()), *words])
    log = shlex.quote(str(folder.absolute() / f"{name}.log"))
    place = shlex.quote(str(folder.absolute()))
    line = (
        f"mkdir -p {place} && {{ setsid {command} </dev/null >>{log} 2>&1 & }} && "
        f"echo $! && cat {BOOT} && cat /proc/$!/stat"
    )
    told = run_line(shell, line).splitlines()
    try:
        number = int(told[0])
        one = Process(name, node_type, shell, number, told[2].rpartition(")")[2].split()[STARTED], told[1].strip())
    except (IndexError, ValueError):
        raise Retry(f"{words[0]} ended as soon as it was started; see {log}") from None
    note(folder, one)
    return one


def signal_process(one: Process, signal: str) -> bool:
    """Whether it was still the same process and got the signal."""
    check = (
        f'[ "$(cat {BOOT})" = {one.boot} ] && '
        f"[ \"$(sed 's/.*) //' /proc/{one.number}/stat | cut -d' ' -f{STARTED + 1})\" = {one.started} ]"
    )
    return "sent" in run_line(one.shell, f"if {check}; then kill -s {signal} {one.number} && echo sent; fi 2>/dev/null")


def note(folder: Path, one: Process) -> None:
    path = folder / f"{one.name}.process.json"
    part = path.with_suffix(".part")
    part.write_text(json.dumps(asdict(one)))
    os.replace(part, path)


def forget(folder: Path, one: Process) -> None:
    (folder / f"{one.name}.process.json").unlink(missing_ok=True)


def recall(folder: Path) -> list[Process]:
    """What was noted; a file that cannot be read is refused, since a worker of ours might run on for ever."""
    known = []
    for path in sorted(folder.glob("*.process.json")):
        try:
            told = json.loads(path.read_text())
            one = Process(**{**told, "shell": tuple(told["shell"])})
            if not re.fullmatch(r"[0-9]+ [0-9a-f-]+", f"{one.started} {one.boot}") or int(one.number) < 2:
                raise ValueError("no process")
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise BadInput(
                f"{path} does not tell of a process ({error}); end that worker, and delete the file"
            ) from None
        known.append(one)
    return known
