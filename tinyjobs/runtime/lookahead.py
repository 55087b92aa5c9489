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

    def bound(self, room: Room, limit: int) -> Room:
        """The room with the reach that the next claim is to have."""
        now = self._monotonic()
        if now - self._deep_at >= _DEEP_EVERY:
            self._deep_at = now
            return replace(room, ahead=limit + _PAST)
        return replace(room, ahead=min(max(self._ahead, room.free + 1), limit + _PAST))

    def is_worth_it(self, room: Room | None) -> bool:
        """Whether a claim within that room is worth its write right after another: not to look past a full kind."""
        return room is None or room.free > 0 or self._monotonic() - self._deep_at >= _DEEP_EVERY

    def learn(self, request: ClaimRequest, claimed: Claimed) -> bool:
        """Look less far where the row was all of the bounded kind, and twice as far where the claim filled up.

        True: the room is full and nothing else was found, so another claim at once would most likely be for nothing.
        """
        room = request.room
        if room is None:
            return False
        bounded = sum(job.task in room.tasks for job in claimed.jobs)
        if bounded >= room.free and len(claimed.jobs) == bounded:
            self._ahead = max(self._ahead // 2, _LEAST)
            return True
        self._ahead = max(min(self._ahead * 2, request.limit + _PAST), len(claimed.jobs))
        return False
