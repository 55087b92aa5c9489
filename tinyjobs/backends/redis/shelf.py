"""Who has which of a bounded number of connections, and who is next. Knows neither threads nor loops nor connections.

A connection that came back last goes out first, so that those that are not needed grow old. Whoever waits is served in
order. Nothing here waits or locks: `threadlink` holds a lock around it, `looplink` is alone on its loop.
"""

from collections import deque
from typing import Any, Protocol


class Ticket[W](Protocol):
    """Somebody who waits."""

    def serve(self, wire: W | None) -> bool:
        """Hand over a connection, or with None the leave to open one. False: it has stopped waiting."""
        ...


class Shelf[W, T: Ticket[Any]]:
    """Connections up to a number. `held` counts those that are open or being opened, also the idle ones."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.held = 0
        self.idle: deque[tuple[W, float]] = deque()
        self.waiting: deque[T] = deque()

    def take(self) -> W | None:
        """The connection used last; None: there is none."""
        return self.idle.pop()[0] if self.idle else None

    def may_open(self) -> bool:
        """Whether one more may be opened; it then counts as held."""
        if self.held >= self.most:
            return False
        self.held += 1
        return True

    def put(self, wire: W, now: float) -> None:
        """Give one back: to whoever has waited longest, else to the idle ones."""
        if not self._serve(wire):
            self.idle.append((wire, now))

    def lost(self) -> None:
        """One that was held is no more. Whoever has waited longest may open another."""
        if not self._serve(None):
            self.held -= 1

    def older_than(self, instant: float) -> list[W]:
        """Take out the idle ones that came back before then; they are no longer held."""
        old: list[W] = []
        while self.idle and self.idle[0][1] < instant:
            old.append(self.idle.popleft()[0])
        self.held -= len(old)
        return old

    def empty(self) -> list[W]:
        """Take out all that are idle; they are no longer held. Leave to open goes to those who wait."""
        idle = [wire for wire, _ in self.idle]
        self.idle.clear()
        for _ in idle:
            self.lost()
        return idle

    def end(self) -> list[W]:
        """Take out all that are idle, and have those who wait look up."""
        idle = self.empty()
        while self.waiting:
            self.waiting.popleft().serve(None)
        return idle

    def _serve(self, wire: W | None) -> bool:
        while self.waiting:
            if self.waiting.popleft().serve(wire):
                return True
        return False
