"""Replay operators that touch each other only through rates side by side, on threads.

What an operator puts out in a piece of a stretch is all that those downstream need to replay that piece, while it goes
on with the next one. Compiled loops let other threads run; pieces of whole blocks come to the same as the stretch.

Notation: n operators; a stretch has so many pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Event

PIECES = 12
LEAST_SLOTS = 4096  # of a stretch, below which threads are not worth their start

Piece = slice  # of slots, relative to the stretch
Advance = Callable[[int, Piece], None]  # one operator over one piece


def cut_pieces(slots: int, block: int, pieces: int = PIECES) -> list[Piece]:
    """Pieces of whole blocks, as equal as these allow."""
    long = block * max(1, -(-slots // (block * pieces)))
    return [slice(first, min(slots, first + long)) for first in range(0, slots, long)]


def replay_side_by_side(
    advance: Advance, sequence: Sequence[int], feeds: Sequence[Sequence[int]], pieces: Sequence[Piece]
) -> None:
    """Advance every operator over all pieces, each piece after those that feed it; `sequence` is upstream first."""
    done = [[Event() for _ in pieces] for _ in sequence]
    failed = Event()

    def follow(i: int) -> None:
        try:
            for place, piece in enumerate(pieces):
                for j in feeds[i]:
                    done[j][place].wait()
                if failed.is_set():
                    return
                advance(i, piece)
                done[i][place].set()
        except BaseException:
            failed.set()
            raise
        finally:
            for event in done[i]:
                event.set()

    # a thread for each operator, for one that waits holds its thread
    with ThreadPoolExecutor(len(sequence)) as pool:
        for follower in [pool.submit(follow, i) for i in sequence]:
            follower.result()
