"""A group of outcomes that a store records together, and what becomes of it when the store refuses data in it.

Knows no store: how a group is written is handed in.
"""

from collections.abc import Sequence
from typing import Protocol

from tinyjobs.core.errors import DataRefusedError
from tinyjobs.core.job import ClaimRequest, Recorded
from tinyjobs.core.transitions import Outcome


class _Record(Protocol):
    async def __call__(self, outcomes: Sequence[Outcome], request: ClaimRequest | None) -> Recorded: ...


async def record_group(record: _Record, outcomes: Sequence[Outcome], request: ClaimRequest | None) -> Recorded:
    """Record the group; one whose data is refused is taken apart, so that one bad outcome fails alone."""
    try:
        return await record(outcomes, request)
    except DataRefusedError as error:
        if not outcomes:
            raise
        return await _record_apart(record, outcomes, request, error)


async def _record_apart(
    record: _Record, outcomes: Sequence[Outcome], request: ClaimRequest | None, error: DataRefusedError
) -> Recorded:
    applied = [False] * len(outcomes)
    refused: dict[int, Exception] = {0: error} if len(outcomes) == 1 else {}
    if len(outcomes) > 1:
        for place, outcome in enumerate(outcomes):
            try:
                applied[place] = (await record([outcome], None)).applied[0]
            except DataRefusedError as reason:
                refused[place] = reason
    claimed = (await record((), request)).claimed if request else None
    return Recorded(applied, claimed, refused)
