"""SQLite stores with one fault each, found by `verify` and its workers as any plugin is: by the scheme of the URL.

The folder of this file on PYTHONPATH is all it takes, since the `.dist-info` beside it names the entry points.
"""

import itertools
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any, Self

from tinyjobs.backends.sql.claim import claim
from tinyjobs.backends.sql.connection import Connection
from tinyjobs.backends.sql.plain import PlainDialect
from tinyjobs.backends.sql.record import record
from tinyjobs.backends.sql.statements import make_statement
from tinyjobs.backends.sqlite.backend import SQLiteBackend
from tinyjobs.backends.time import StoreTime
from tinyjobs.core.clock import Clock
from tinyjobs.core.job import ClaimRequest, Held, Job, Recorded
from tinyjobs.core.transitions import Outcome

#: Seconds between looking and writing, or between two commits, for the faults that are races.
BETWEEN = 0.01


class SoundStore(SQLiteBackend):
    """No fault: what shows that the others fail for theirs."""

    @classmethod
    def from_url(cls, url: str, *, clock: Clock, **options: Any) -> Self:
        return super().from_url(f"sqlite://{url.partition('://')[2]}", clock=clock, **options)

    def record_now(self, outcomes: Sequence[Outcome], request: ClaimRequest | None) -> Recorded | None:
        return None  # every group goes by `record`, which the faults are in

    async def _change(self, statement: str, *values: Any) -> None:
        text = statement.replace("jobs", "tinyjobs_jobs").replace("executions", "tinyjobs_executions")
        await self._runner.run(lambda connection: connection.execute(make_statement("fault", text), values), write=True)


class UnfencedStore(SoundStore):
    """Takes an outcome for whichever claim the job is under by now."""

    async def record(self, outcomes: Sequence[Outcome], request: ClaimRequest | None = None) -> Recorded:
        current = [await self.get(outcome.job_id) for outcome in outcomes]
        outcomes = [
            replace(outcome, claim=job.claims) if job else outcome
            for outcome, job in zip(outcomes, current, strict=True)
        ]
        return await super().record(outcomes, request)


class ImpatientStore(SoundStore):
    """Takes back whatever runs, whether its lease has run out or not."""

    async def reap_expired(self, limit: int = 500, own: Callable[[], Collection[Held]] = tuple) -> list[Job]:
        await self._change("UPDATE jobs SET lease_expires_at = 0 WHERE lease_expires_at IS NOT NULL")
        return await super().reap_expired(limit, own)


class NegligentStore(SoundStore):
    """Takes nothing back, however long ago a lease ran out."""

    async def reap_expired(self, limit: int = 500, own: Callable[[], Collection[Held]] = tuple) -> list[Job]:
        return []

    async def heartbeat(self, held: Sequence[Held], lease: float) -> Collection[Held]:
        return held


class TwofoldStore(SoundStore):
    """Looks for the holder of a key, and then writes, with nothing that keeps others out between the two."""

    async def enqueue(self, job: Job) -> Job:
        if job.key is None:
            return await super().enqueue(job)
        held_by = make_statement(
            "fault", "SELECT id FROM tinyjobs_jobs WHERE dedup_key = %s AND finished_at IS NULL LIMIT 1"
        )
        found = await self._runner.run(lambda connection: connection.fetch(held_by, (job.key,)), write=False)
        if found:
            return replace(job, id=found[0][0], existing=True)
        time.sleep(BETWEEN)
        await super().enqueue(replace(job, key=None))
        await self._change("UPDATE jobs SET dedup_key = %s WHERE id = %s", job.key, job.id)
        return job


class PiecemealStore(SoundStore):
    """Commits each statement of a group for itself: first the histories, then what becomes of the jobs."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.dialect = PiecemealDialect(self.dialect.statements, returning=self.returning)


class _Slow:
    """A connection that rests after each write."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    async def execute(self, statement: Any, parameters: Any = ()) -> int:
        changed = await self._connection.execute(statement, parameters)
        time.sleep(BETWEEN)
        return changed


class PiecemealDialect(PlainDialect):
    """Between the commits others come in, as they do where each is a trip across a network."""

    async def record_and_claim(
        self, connection: Connection, outcomes: Sequence[Outcome], request: ClaimRequest | None, store_time: StoreTime
    ) -> Recorded:
        applied = await record(self.statements, _Slow(connection), outcomes, store_time.told()) if outcomes else []
        claimed = None
        if request is not None:
            claimed = await claim(self.statements, connection, request, store_time.told(), returning=self.returning)
        return Recorded(applied, claimed)


class ForgetfulStore(SoundStore):
    """Acknowledges every tenth job without a key and does not keep it. Counted, since chance may well spare them all.

    One that the run waits for, as it does for a probe, is kept: to miss that takes the time to settle.
    """

    _sent = itertools.count(1)

    async def enqueue(self, job: Job) -> Job:
        is_awaited = b"true" in (job.payload or b"")
        if job.key is None and not is_awaited and next(self._sent) % 10 == 0:
            return job
        return await super().enqueue(job)
