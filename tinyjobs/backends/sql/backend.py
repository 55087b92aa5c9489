"""The SQL store as the engine sees it: each verb of the protocol, run through the store's runner.

What differs between stores (statements, connections, locks, the driver's errors) is handed in. The same class serves
every kind of connection: `on(runner)` gives a twin of the store that runs its verbs elsewhere, such as inside a
caller's own transaction.
"""

import copy
from collections.abc import Collection, Coroutine, Sequence
from typing import Any, Protocol, Self

from tinyjobs.backends.base import BaseBackend, Capabilities
from tinyjobs.backends.sql import consume, control, firing, produce
from tinyjobs.backends.sql.connection import Connection, Runner
from tinyjobs.backends.sql.statements import Statements
from tinyjobs.core.clock import Clock
from tinyjobs.core.errors import DataRefusedError
from tinyjobs.core.job import Claimed, ClaimRequest, Execution, Held, Job, Page, Recorded, ScheduleState, Stats
from tinyjobs.core.status import JobStatus
from tinyjobs.core.transitions import Outcome


class _SqlVerb[**P, T](Protocol):
    def __call__(
        self, statements: Statements, connection: Connection, /, *args: P.args, **kwargs: P.kwargs
    ) -> Coroutine[Any, Any, T]: ...


class SqlBackend(BaseBackend):
    """A store behind SQL. `returning` False uses the claim for engines that cannot answer rows from an update."""

    capabilities = Capabilities(dedup=True, transactional_enqueue=True, schedules=True)

    def __init__(
        self, statements: Statements, runner: Runner, *, clock: Clock | None = None, returning: bool = True
    ) -> None:
        super().__init__(clock=clock)
        self.statements = statements
        self.returning = returning
        self._runner = runner
        self._reaping_since: float | None = None

    def on(self, runner: Runner) -> Self:
        """A twin of this store whose verbs run through `runner`."""
        twin = copy.copy(self)
        twin._runner = runner
        return twin

    async def close(self) -> None:
        """Let go of the connections."""
        await self._runner.close()

    async def enqueue(self, job: Job) -> Job:
        """One statement, unless its key is held."""
        kept = await self._write(produce.enqueue, job, self.clock.now())
        self.nudge()
        return kept

    async def enqueue_many(self, jobs: Sequence[Job]) -> list[Job]:
        """One transaction of bounded statements."""
        if not jobs:
            return []
        kept = await self._write(produce.enqueue_many, jobs, self.clock.now())
        self.nudge()
        return kept

    async def holder(self, key: str) -> Job | None:
        """One read."""
        return await self._read(produce.holder, key)

    async def claim(self, request: ClaimRequest) -> Claimed:
        """A claim without outcomes."""
        recorded = await self.record((), request)
        return recorded.claimed or Claimed()

    async def record(self, outcomes: Sequence[Outcome], request: ClaimRequest | None = None) -> Recorded:
        """One transaction; a group whose data is refused is taken apart, so one bad outcome fails alone."""
        try:
            return await self._record(outcomes, request)
        except DataRefusedError as error:
            if not outcomes:
                raise
            return await self._record_apart(outcomes, request, error)

    async def heartbeat(self, held: Sequence[Held], lease: float) -> Collection[Held]:
        """One transaction for all of them."""
        if not held:
            return []
        return await self._write(consume.heartbeat, held, self.clock.now() + lease)

    async def reap_expired(self, limit: int = 500) -> list[Job]:
        """The instant is read before the lock is waited for: a lease is judged by the time before the wait.

        That of a pass that gave up waiting holds for the next one: what kept this one out kept heartbeats out as well.
        """
        now = self.clock.now()
        if self._reaping_since is None or self._reaping_since > now:
            self._reaping_since = now
        jobs = await self._write(consume.reap, self._reaping_since, limit, now)
        self._reaping_since = None
        return jobs

    async def next_due(self, queues: Sequence[str] = ()) -> tuple[bool, float | None]:
        """One read."""
        return await self._read(consume.look, queues)

    async def claim_job(self, job_id: str, *, worker_id: str, lease: float) -> Job | None:
        """One job by its id."""
        return await self._write(consume.claim_job, job_id, worker_id, lease, self.clock)

    async def cancel(self, job_id: str) -> bool:
        """Two statements in one transaction."""
        return await self._write(control.cancel, job_id, self.clock.now())

    async def requeue(self, job_id: str) -> bool:
        """One statement."""
        requeued = await self._write(control.requeue, job_id, self.clock.now())
        self.nudge()
        return requeued

    async def get(self, job_id: str) -> Job | None:
        """One read by primary key."""
        return await self._read(control.get, job_id)

    async def executions(self, job_id: str) -> list[Execution]:
        """Two reads by primary key."""
        return await self._read(control.executions, job_id)

    async def counts_by_status(self) -> dict[str, int]:
        """One read."""
        return await self._read(control.counts)

    async def stats(self) -> Stats:
        """Five reads."""
        return await self._read(control.stats, self.clock.now())

    async def schedules(self) -> list[ScheduleState]:
        """One read."""
        return await self._read(firing.schedules)

    async def register_schedules(self, states: Sequence[ScheduleState]) -> None:
        """One transaction."""
        if states:
            await self._write(firing.register, states)

    async def fire_schedule(
        self, name: str, *, expected: float, next_run_at: float, jobs: Sequence[Job]
    ) -> list[Job] | None:
        """One transaction."""
        fired = await self._write(
            firing.fire, name, expected=expected, next_run_at=next_run_at, jobs=jobs, now=self.clock.now()
        )
        self.nudge()
        return fired

    async def _record(self, outcomes: Sequence[Outcome], request: ClaimRequest | None) -> Recorded:
        return await self._write(consume.record_and_claim, outcomes, request, self.clock, returning=self.returning)

    async def _record_apart(
        self, outcomes: Sequence[Outcome], request: ClaimRequest | None, error: DataRefusedError
    ) -> Recorded:
        applied = [False] * len(outcomes)
        refused: dict[int, Exception] = {0: error} if len(outcomes) == 1 else {}
        if len(outcomes) > 1:
            for place, outcome in enumerate(outcomes):
                try:
                    applied[place] = (await self._record([outcome], None)).applied[0]
                except DataRefusedError as reason:
                    refused[place] = reason
        claimed = await self.claim(request) if request else None
        return Recorded(applied, claimed, refused)

    async def _write[**P, T](self, verb: _SqlVerb[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._runner.run(lambda connection: verb(self.statements, connection, *args, **kwargs), write=True)

    async def _read[**P, T](self, verb: _SqlVerb[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._runner.run(
            lambda connection: verb(self.statements, connection, *args, **kwargs), write=False
        )

    async def list(
        self,
        *,
        status: JobStatus | None = None,
        queue: str | None = None,
        task: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Page:
        """One read along an index in the order of the page."""
        return await self._read(control.list_jobs, status=status, queue=queue, task=task, limit=limit, cursor=cursor)
