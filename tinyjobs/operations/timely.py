"""A look at a store that ends in time, whatever the store does: on a thread of its own, left behind if it must be.

Only one look of a kind is under way. Whoever asks meanwhile gets its answer as well, so that probes which come faster
than a store answers pile up nowhere. One that does not end at all, as over a connection whose other end has gone
without a word, is given up: after a minute at first, then after twice as long each time, so that few are left behind.
"""

import os
import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any

from tinyjobs.core.clock import Clock, SystemClock

#: A look that has not ended after so many seconds gets a successor, and that one has twice as long, up to ten minutes.
GIVEN_UP_AFTER = 60.0
GIVEN_UP_AT_LAST_AFTER = 600.0

_under_way: dict[Hashable, "Look[Any]"] = {}


@dataclass(slots=True)
class Look[T]:
    """A look that has begun. `monotonic` tells the time by which it is given up."""

    monotonic: Callable[[], float]
    began: float
    alone_for: float = GIVEN_UP_AFTER
    #: A fork leaves its thread behind in the parent.
    process: int = field(default_factory=os.getpid)
    ended: threading.Event = field(default_factory=threading.Event)
    answers: list[T] = field(default_factory=list)
    error: BaseException | None = None

    def answer(self, seconds: float) -> T:
        """What it answers, or raises; `TimeoutError` where it has not within so many seconds of its beginning."""
        if not self.ended.wait(max(self.began + seconds - self.monotonic(), 0.0)):
            raise TimeoutError
        if self.error is not None:
            raise self.error
        return self.answers[0]


def timely[T](kind: Hashable, look: Callable[[], T], seconds: float, clock: Clock | None = None) -> T:
    """What `look` answers, or raises; `TimeoutError` where it has not within `seconds` of its beginning."""
    return begin(kind, look, clock).answer(seconds)


def begin[T](kind: Hashable, look: Callable[[], T], clock: Clock | None = None) -> Look[T]:
    """Begin a look, unless one of this kind is under way, and wait for nothing: for whoever waits for several."""
    monotonic = (clock or SystemClock()).monotonic
    now = monotonic()
    found = _under_way.get(kind)
    if found is None or found.ended.is_set() or found.process != os.getpid():
        return _begin(kind, look, Look(monotonic, now))
    if now - found.began > found.alone_for:
        return _begin(kind, look, Look(monotonic, now, min(2 * found.alone_for, GIVEN_UP_AT_LAST_AFTER)))
    return found


def _begin[T](kind: Hashable, look: Callable[[], T], mine: Look[T]) -> Look[T]:
    _under_way[kind] = mine

    def run() -> None:
        try:
            mine.answers.append(look())
        except BaseException as error:
            # Whatever it was belongs to whoever asked.
            mine.error = error
        finally:
            if _under_way.get(kind) is mine:
                _under_way.pop(kind, None)
            mine.ended.set()

    try:
        threading.Thread(target=run, name="tinyjobs-look", daemon=True).start()
    except RuntimeError:
        run()  # no thread is to be had, as at the end of the interpreter
    return mine
