"""The verb that writes how claims ended: a group of outcomes, each applied only while its claim still holds.

Nearly all outcomes are successes that differ only by job and time. Those go by a pair of lean statements; everything
else, and whatever may be stale, by the general pair. Written once; runs inside the caller's transaction.
"""

import json
from collections import defaultdict
from collections.abc import Sequence

from tinyjobs.backends.sql.connection import Connection
from tinyjobs.backends.sql.rows import pack_outcomes
from tinyjobs.backends.sql.statements import Statements
from tinyjobs.core.status import JobStatus
from tinyjobs.core.transitions import Outcome

# Fewer alike than this go with the rest of their group, unless they are the whole of it.
_WORTHWHILE = 4
# Results longer than this are not compared with each other.
_COMPARED = 64

type _Likeness = tuple[int, bytes | None]


async def record(
    statements: Statements,
    connection: Connection,
    outcomes: Sequence[Outcome],
    now: float,
    owner: str | None = None,
) -> list[bool]:
    """Apply the outcomes whose claim still holds, with their executions; which those were.

    Their tallies are those of the workers that had the jobs, or the `owner`'s.
    Of outcomes for one and the same claim the first counts and the others are stale, as if they had come later.
    """
    first: dict[tuple[str, int], int] = {}
    for place, outcome in enumerate(outcomes):
        first.setdefault((outcome.job_id, outcome.claim), place)
    landed: set[int] = set()
    alike, rest = _sort(outcomes, list(first.values()))
    for likeness, places in alike.items():
        if await _record_alike(statements, connection, likeness, [outcomes[place] for place in places]):
            landed.update(places)
        else:
            rest += places
    if rest:
        held = await _record_any(statements, connection, [outcomes[place] for place in rest], now, owner)
        landed.update(rest[number] for number in held)
    return [place in landed for place in range(len(outcomes))]


def _sort(outcomes: Sequence[Outcome], places: Sequence[int]) -> tuple[dict[_Likeness, list[int]], list[int]]:
    """The successes worth a pair of statements by what they have in common, and the rest."""
    alike: defaultdict[_Likeness, list[int]] = defaultdict(list)
    rest: list[int] = []
    for place in places:
        outcome = outcomes[place]
        if outcome.status is JobStatus.SUCCESS and (outcome.result is None or len(outcome.result) <= _COMPARED):
            alike[outcome.claim, outcome.result].append(place)
        else:
            rest.append(place)
    for likeness, found in list(alike.items()):
        if len(found) < min(_WORTHWHILE, len(places)):
            rest += alike.pop(likeness)
    return alike, rest


async def _record_alike(
    statements: Statements, connection: Connection, likeness: _Likeness, outcomes: Sequence[Outcome]
) -> bool:
    """Record successes that share a claim number and a result; False, and nothing done to a job, if one is stale."""
    claim, result = likeness
    ended = json.dumps({outcome.job_id: outcome.finished_at for outcome in outcomes})
    if await connection.execute(statements["record_success_executions"], [ended, claim]) < len(outcomes):
        return False
    await connection.execute(statements["tally_successes"], [ended, claim])
    await connection.execute(statements["record_success_jobs"], [result, ended, claim])
    return True


async def _record_any(
    statements: Statements, connection: Connection, outcomes: Sequence[Outcome], now: float, owner: str | None
) -> set[int]:
    """Record outcomes of every kind; the places of those that were applied."""
    packed, binary_results = pack_outcomes(outcomes)
    # A history row is written for each outcome that may land. When that was all of them, nothing else need be asked.
    if await connection.execute(statements["record_executions"], [packed]) == len(outcomes):
        places = set(range(len(outcomes)))
    else:
        ((held,),) = await connection.fetch(statements["record_held"], [packed])
        places = set(json.loads(held))
    if places:
        await connection.execute(statements["tally_outcomes"], [owner, packed])
        await connection.execute(statements["record_jobs"], [now, now, packed])
        if binary_results:
            await connection.many(statements["record_result"], binary_results)
    return places
