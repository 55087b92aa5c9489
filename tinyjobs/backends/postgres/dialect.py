"""What Postgres says in one statement: record a group, write its history and claim what comes next; many inserts.

A worker's turn is one statement in autocommit, so one round trip and one commit. Only results that are not text, and
delayed jobs that have come due, take more.
"""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from tinyjobs.backends.sql.claim import LET_IN, sound_jobs
from tinyjobs.backends.sql.connection import Connection, Row
from tinyjobs.backends.sql.rows import as_json, pack_outcomes
from tinyjobs.backends.sql.statements import Statement, Statements
from tinyjobs.backends.time import Now, StoreTime
from tinyjobs.core.errors import StoreError
from tinyjobs.core.job import Claimed, ClaimRequest, Job, Recorded, ScheduleMove, queue_order
from tinyjobs.core.status import JobStatus
from tinyjobs.core.transitions import EXPIRED, Outcome

# Bytes of payloads in one statement at most, far below what the server takes as one value.
_BATCH_BYTES = 64 * 2**20
# Longer results are not put in the group's JSON, which the server reads once for each column.
_LONGEST = 100_000
# Results longer than this are not compared with each other.
_COMPARED = 64


class PostgresDialect:
    """See `Dialect`."""

    def __init__(self, statements: Statements) -> None:
        self.statements = statements

    def __getitem__(self, name: str) -> Statement:
        """A statement by its name."""
        return self.statements[name]

    # --- producing ----------------------------------------------------------------------------------------------

    async def insert(self, connection: Connection, job: Job, now: Now) -> bool:
        """One statement."""
        if now is None and _is_plain(job):
            plain = (
                job.id, job.task, job.queue, job.priority, job.max_attempts, job.created_at, job.codec, job.metadata,
                job.payload,
            )  # fmt: skip
            return bool(await connection.execute(self["insert_now"], plain))
        row = (
            job.id, job.task, job.queue, job.status.value, job.priority, job.max_attempts, job.delay, job.run_at,
            job.created_at, job.expires_in, job.expires_at, job.scheduled_for, job.key, job.codec, job.metadata,
            job.payload, now,
        )  # fmt: skip
        return bool(await connection.execute(self["insert"], row))

    async def insert_many(self, connection: Connection, jobs: Sequence[Job], now: Now) -> int:
        """A few statements: what a run of jobs has in common is given once, and no value grows without bound."""
        done = 0
        for batch in _batches(jobs):
            for key, run in groupby(batch, _shared):
                alike = list(run)
                if key is None:
                    columns: list[Any] = [list(column) for column in zip(*map(_mixed, alike), strict=True)]
                    done += await connection.execute(self["insert_mixed"], [now, *columns])
                else:
                    ids, payloads = [job.id for job in alike], [job.payload for job in alike]
                    done += await connection.execute(self["insert_many"], [*key, now, ids, payloads])
        return done

    async def cancel(self, connection: Connection, job_id: str, now: Now) -> bool:
        """One statement."""
        return bool(await connection.execute(self["cancel"], [now, job_id]))

    async def requeue(self, connection: Connection, job_id: str, now: Now) -> bool:
        """Three more statements for a job with a key, which must be had before the job may be changed."""
        async with connection.transaction():
            found = await connection.fetch(self["requeue_lock"], [job_id])
            if not found:
                return False
            if found[0][0]:
                if not await connection.execute(self["requeue_reserve"], [job_id]):
                    return False
                await connection.execute(self["requeue_unreserve"], [job_id])
            return bool(await connection.execute(self["requeue"], [now, job_id]))

    async def delete(self, connection: Connection, job_id: str, now: Now) -> bool:
        """The job is locked first, so that all of its executions are seen."""
        async with connection.transaction():
            if not await connection.fetch(self["delete_pick"], [job_id]):
                return False
            return bool(await self.purge(connection, [job_id], now))

    async def purge(self, connection: Connection, ids: Sequence[str], now: Now) -> int:
        """Two statements. The jobs are locked already."""
        packed = as_json(ids)
        await connection.execute(self["purge_executions"], [packed])
        return await connection.execute(self["purge_jobs"], [packed, now])

    async def end_unstarted(self, connection: Connection, ids: Sequence[str], now: Now) -> int:
        """One statement."""
        return await connection.execute(self["unstarted_end"], [now, as_json(ids), EXPIRED])

    async def fold(self, connection: Connection, now: Now) -> None:
        """One statement."""
        await connection.execute(self["fold"], [now])

    # --- consuming ----------------------------------------------------------------------------------------------

    async def record(self, connection: Connection, outcomes: Sequence[Outcome], time: StoreTime) -> list[bool]:
        """One statement, in the caller's transaction."""
        owner = min(outcome.job_id for outcome in outcomes) if outcomes else None
        return (await self._turn(connection, outcomes, None, time, owner)).applied

    async def record_and_claim(
        self, connection: Connection, outcomes: Sequence[Outcome], request: ClaimRequest | None, time: StoreTime
    ) -> Recorded:
        """One statement; a claim that found delayed jobs due lets them in and claims again."""
        return await self._turn(connection, outcomes, request, time)

    async def look(self, connection: Connection, queues: Sequence[str], time: StoreTime) -> tuple[bool, float | None]:
        """One read."""
        if queues:
            rows = await connection.fetch(self["look_of"], [as_json(queues), time.now()])
        else:
            rows = await connection.fetch(self["look"], [time.now()])
        ((ready, due_at, present),) = rows
        return ready, time.on_callers_clock(due_at, present)

    async def present(self, connection: Connection, time: StoreTime) -> float:
        """One read."""
        ((present,),) = await connection.fetch(self["present"], [time.now()])
        return float(present)

    async def advance(self, connection: Connection, moves: Sequence[ScheduleMove]) -> list[bool]:
        """One statement. Of several, those in somebody else's hands are left to them; a single one is waited for."""
        if len(moves) == 1:
            (move,) = moves
            row = [move.next_run_at, move.error, move.name, move.expected]
            return [bool(await connection.execute(self["schedule_advance"], row))]
        rows = [(move.name, move.expected, move.next_run_at, move.error) for move in moves]
        columns = [list(column) for column in zip(*rows, strict=True)]
        moved = {name for (name,) in await connection.fetch(self["schedule_advance_many"], columns)}
        return [move.name in moved for move in moves]

    async def _turn(
        self,
        connection: Connection,
        outcomes: Sequence[Outcome],
        request: ClaimRequest | None,
        time: StoreTime,
        owner: str | None = None,
    ) -> Recorded:
        first: dict[tuple[str, int], int] = {}
        for place, outcome in enumerate(outcomes):
            first.setdefault((outcome.job_id, outcome.claim), place)
        places = list(first.values())
        form, packed, binary = _pack([outcomes[place] for place in places], time, owner)
        # A claim in the same statement would not see what the group puts back.
        is_apart = bool(binary) or any(outcome.status is JobStatus.QUEUED for outcome in outcomes)
        claimed, is_due = None, False
        if binary:
            async with connection.transaction():
                landed, _, _ = await self._say(connection, form, packed, None, time)
                await connection.many(self["record_result"], binary)
        else:
            landed, claimed, is_due = await self._say(connection, form, packed, None if is_apart else request, time)
        if request is not None and (is_apart or is_due):
            try:
                claimed = await (self._claim if is_apart else self._let_in_and_claim)(connection, request, time)
            except StoreError:
                # What ended is recorded by now; the next turn claims, and meets the same trouble if it lasts.
                if not outcomes:
                    raise
                claimed = None
        applied = [False] * len(outcomes)
        for number in range(len(places)) if landed is None else (place - 1 for place in landed):
            applied[places[number]] = True
        return Recorded(applied, claimed)

    async def _claim(self, connection: Connection, request: ClaimRequest, time: StoreTime) -> Claimed | None:
        _, claimed, is_due = await self._say(connection, "", [], request, time)
        return await self._let_in_and_claim(connection, request, time) if is_due else claimed

    async def _let_in_and_claim(self, connection: Connection, request: ClaimRequest, time: StoreTime) -> Claimed | None:
        await connection.execute(self["let_in"], [time.now(), LET_IN])
        _, claimed, _ = await self._say(connection, "", [], request, time, has_let_in=True)
        return claimed

    async def _say(
        self,
        connection: Connection,
        form: str,
        packed: Sequence[Any],
        request: ClaimRequest | None,
        time: StoreTime,
        *,
        has_let_in: bool = False,
    ) -> tuple[list[int] | None, Claimed | None, bool]:
        """One statement: which outcomes landed (None: all), what was claimed, and whether delayed jobs are due."""
        if request is None:
            if not form:
                return None, None, False
            ((landed, _, _),) = await connection.fetch(self[form], [time.now(), *packed])
            return landed, None, False
        kind, asked = _asked(request, has_let_in or not request.let_in)
        name = f"{form}_{kind}" if form else kind
        rows = await connection.fetch(self[name], [time.now(), *packed, *asked])
        landed, present, due_at = rows[0][:3]
        is_due = due_at is not None and due_at <= present and not has_let_in and request.let_in
        jobs = await self._jobs(connection, [row[3:] for row in rows if row[3] is not None])
        return landed, Claimed(jobs, time.on_callers_clock(due_at, present)), is_due

    async def _jobs(self, connection: Connection, rows: Sequence[Row]) -> list[Job]:
        jobs, _ = await sound_jobs(self.statements, connection, rows, None)
        jobs.sort(key=queue_order)
        return jobs


def _pack(
    outcomes: Sequence[Outcome], time: StoreTime, owner: str | None
) -> tuple[str, list[Any], list[tuple[bytes, str, int]]]:
    """The form of the statement for a group, its parameters, and the results that travel beside it."""
    if not outcomes:
        return "", [], []
    result = outcomes[0].result
    if (
        owner is None
        and (result is None or len(result) <= _COMPARED)
        and all(
            outcome.status is JobStatus.SUCCESS and outcome.result == result and "," not in outcome.job_id
            for outcome in outcomes
        )
    ):
        ids = ",".join([outcome.job_id for outcome in outcomes])
        claims = ",".join([str(outcome.claim) for outcome in outcomes])
        instants = ",".join([repr(outcome.finished_at) for outcome in outcomes])
        return "alike", [time.told(), ids, claims, instants, result], []
    packed, binary = pack_outcomes(outcomes, longest=_LONGEST)
    return "any", [time.told(), packed, owner], binary


def _asked(request: ClaimRequest, has_let_in: bool) -> tuple[str, list[Any]]:
    asked: list[Any] = [as_json(request.queues) if request.queues else None, request.limit, has_let_in]
    lease = [request.worker_id, request.lease]
    if request.room is None or request.room.free >= request.limit:
        return "claim", [*asked, *lease]
    return "room", [*asked, as_json(sorted(request.room.tasks)), request.room.ahead, request.room.free, *lease]


def _is_plain(job: Job) -> bool:
    """Whether a job is due at once and has nothing that most jobs have not."""
    return (
        job.delay == 0.0
        and job.key is None
        and job.status is JobStatus.QUEUED
        and job.expires_in is None
        and job.expires_at is None
        and job.scheduled_for is None
    )


def _shared(job: Job) -> tuple[Any, ...] | None:
    """What a job has in common with others of its kind; None for one with a key, which nothing else has."""
    if job.key is not None:
        return None
    return (
        job.task, job.queue, job.status.value, job.priority, job.max_attempts, job.delay, job.run_at, job.created_at,
        job.expires_in, job.expires_at, job.scheduled_for, job.codec, job.metadata,
    )  # fmt: skip


def _mixed(job: Job) -> tuple[Any, ...]:
    return (
        job.id, job.task, job.queue, job.status.value, job.priority, job.max_attempts, job.delay, job.run_at,
        job.created_at, job.expires_in, job.expires_at, job.scheduled_for, job.key, job.codec, job.metadata,
        job.payload,
    )  # fmt: skip


def _batches(jobs: Sequence[Job]) -> list[list[Job]]:
    batches: list[list[Job]] = [[]]
    size = 0
    for job in jobs:
        size += len(job.payload or b"")
        if size > _BATCH_BYTES and batches[-1]:
            batches.append([])
            size = len(job.payload or b"")
        batches[-1].append(job)
    return batches
