"""How far along the ready jobs a claim looks when it must keep to a room.

With threads nearly full and coroutine slots free, a claim has to look past plain functions for coroutine tasks. How
far pays depends on what stands in the queue, so it is learnt from what the claims bring, and now and then a claim
looks all the way: nothing behind a long row of the other kind waits longer than that, and no claim's cost grows with
the row.
"""

from collections.abc import Callable
from dataclasses import replace

from tinyjobs.core.job import Claimed, ClaimRequest, Room

_LEAST = 16
# How far past the jobs it may take a claim looks at most, and how often it looks that far at least.
_PAST = 256
_DEEP_EVERY = 0.05


class Lookahead:
    """The memory of one worker's claims."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._ahead = _LEAST
        self._deep_at = float("-inf")
        self._tasks: frozenset[str] = frozenset()
        self._free = 0
        self._found_only_bounded = False

    def bound(self, limit: int, room: Room | None) -> tuple[int, Room | None]:
        """The limit and the room, with its reach, that the next claim is to have."""
        if room is None:
            self._tasks = frozenset()
            return limit, None
        self._tasks, self._free = room.tasks, room.free
        now = self._monotonic()
        if now - self._deep_at >= _DEEP_EVERY:
            self._deep_at = now
            return limit, replace(room, ahead=limit + _PAST)
        if self._found_only_bounded and room.free:
            # Whatever stands first may be taken up to the smaller number of slots: no need to tell the kinds apart.
            return room.free, None
        return limit, replace(room, ahead=min(max(self._ahead, room.free + 1), limit + _PAST))

    def is_worth_it(self, room: Room | None) -> bool:
        """Whether a claim within that room is worth its write right after another: not to look past a full kind."""
        return room is None or room.free > 0 or self._monotonic() - self._deep_at >= _DEEP_EVERY

    def learn(self, request: ClaimRequest, claimed: Claimed) -> bool:
        """Look less far where the row was all of the bounded kind, and twice as far where the claim filled up.

        True: the room is full and nothing else was found, so another claim at once would most likely be for nothing.
        """
        if not self._tasks:
            return False
        taken = len(claimed.jobs)
        bounded = sum(job.task in self._tasks for job in claimed.jobs)
        self._found_only_bounded = taken == bounded and bounded >= self._free
        if self._found_only_bounded:
            self._ahead = max(self._ahead // 2, _LEAST)
        elif taken >= request.limit:
            self._ahead = min(max(self._ahead, taken), request.limit + _LEAST)
        else:
            self._ahead = min(self._ahead * 2, request.limit + _PAST)
        return self._found_only_bounded
