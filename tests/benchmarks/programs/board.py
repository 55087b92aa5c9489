"""A page of memory that the measuring process and its workers share.

Every program's no-op job does the same thing: it marks the board. So the clock that times a drain is the same for all
programs and none of them is asked to report on itself. It may assume one machine (CLOCK_MONOTONIC is one clock for all
its processes) and must not know any job queue: it runs unchanged in every peer's environment.
"""

from __future__ import annotations

import mmap
import os
import threading
import time
from pathlib import Path

SLOTS = 64
STAMPS = 4096
_GATE = 0
_FIRST_SLOT = 8
_SLOT_SIZE = 8
_FIRST_STAMP = _FIRST_SLOT + SLOTS * _SLOT_SIZE
_CELLS = _FIRST_STAMP + STAMPS
_READY, _COUNT, _STARTED, _LAST = range(4)


class Board:
    """Doubles in a mapped file: a gate, four cells for each worker, and one stamp for each job that is timed alone."""

    def __init__(self, path: Path) -> None:
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), _CELLS * 8)
        self.cells = memoryview(self._map).cast("d")

    @classmethod
    def create(cls, path: Path) -> Board:
        path.write_bytes(b"\0" * (_CELLS * 8))
        return cls(path)

    # What the measuring process does.

    def ready(self) -> int:
        return sum(1 for slot in range(SLOTS) if self.cells[_cell(slot, _READY)])

    def open_gate(self) -> float:
        now = time.monotonic()
        self.cells[_GATE] = now
        return now

    def count(self) -> int:
        return int(sum(self.cells[_cell(slot, _COUNT)] for slot in range(SLOTS)))

    def counts(self, slots: int) -> list[int]:
        return [int(self.cells[_cell(slot, _COUNT)]) for slot in range(slots)]

    def started(self) -> float:
        """When the first job of all started; 0.0 when none has."""
        return min((t for slot in range(SLOTS) if (t := self.cells[_cell(slot, _STARTED)])), default=0.0)

    def last(self) -> float:
        return float(max(self.cells[_cell(slot, _LAST)] for slot in range(SLOTS)))

    def stamp_of(self, index: int) -> float:
        return float(self.cells[_FIRST_STAMP + index])

    # What a worker does.

    def wait_at_gate(self, slot: int) -> None:
        self.cells[_cell(slot, _READY)] = 1.0
        while not self.cells[_GATE]:
            time.sleep(0.0005)


def _cell(slot: int, which: int) -> int:
    return _FIRST_SLOT + slot * _SLOT_SIZE + which


_lock = threading.Lock()
_board: Board | None = None
_base = 0


def join(folder: Path, slot: int) -> Board:
    """Makes this process worker number `slot` of the board in that folder; `mark` and `stamp` write there then."""
    global _board, _base
    _board = Board(folder / "board")
    _base = _cell(slot, 0)
    return _board


def mark() -> None:
    """The body of every no-op job. It must not have run in a process that joined no board: that would time nothing."""
    assert _board is not None
    cells = _board.cells
    now = time.monotonic()
    with _lock:
        count = cells[_base + _COUNT]
        if not count:
            cells[_base + _STARTED] = now
        cells[_base + _COUNT] = count + 1
        cells[_base + _LAST] = now


def stamp(index: int) -> None:
    """Notes when the job with this number started, the first time that it does."""
    assert _board is not None
    cell = _FIRST_STAMP + index % STAMPS
    if not _board.cells[cell]:
        _board.cells[cell] = time.monotonic()
    mark()


def join_if_worker() -> None:
    """Joins the board when the environment says that this process is a worker; task modules call it as they load."""
    slot = os.environ.get("BENCH_SLOT")
    if slot is not None and _board is None:
        join(Path(os.environ["BENCH_FOLDER"]), int(slot))
