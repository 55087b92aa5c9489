"""The SQL store as the engine sees it: each verb of the protocol, run through the store's runner.

What differs between stores (statements, connections, locks, the driver's errors) is handed in. The same class serves
every kind of connection: `on(runner)` gives a twin of the store that runs its verbs elsewhere, such as inside a
caller's own transaction.
"""

import copy
from collections.abc import Callable, Collection, Coroutine, Sequence
from typing import Any, Protocol, Self

from tinyjobs.backends.base import BaseBackend, Capabilities
from tinyjobs.backends.grouping import record_group
from tinyjobs.backends.sql import consume, control, firing, listing, produce, purge, watching
from tinyjobs.backends.sql.connection import Connection, Runner
from tinyjobs.backends.sql.dialect import Dialect
from tinyjobs.backends.sql.statements import Statements
from tinyjobs.backends.time import StoreTime
from tinyjobs.core.clock import Clock
from tinyjobs.core.job import (
    Claimed,
    ClaimRequest,
    Execution,
    Held,
    Job,
    Page,
    Recorded,
    ScheduleMove,
    ScheduleState,
    Stats,
)
from tinyjobs.core.status import JobStatus
from tinyjobs.core.transitions import Outcome
from tinyjobs.core.watching import Tally, WorkerSeen


class _SqlVerb[**P, T](Protocol):
    def __call__(
        self, dialect: Dialect, connection: Connection, /, *args: P.args, **kwargs: P.kwargs
    ) -> Coroutine[Any, Any, T]: ...


class SqlBackend(BaseBackend):
    """A store behind SQL. `by_server`: its statements know the time, and the server's clock decides."""

    capabilities = Capabilities(
        dedup=True,
        schedules=True,
        retention=True,
        result_ttl=True,
        delete=True,
        workers_seen=True,
        tallies=True,
        search=True,
    )

    def __init__(
        self, dialect: Dialect, runner: Runner, *, clock: Clock | None = None, by_server: bool = False
    ) -> None:
        super().__init__(clock=clock)
        self.dialect = dialect
        self.time = StoreTime(self.clock, by_server)
        self._runner = runner
        self._reaping_since: float | None = None

    def on(self, runner: Runner) -> Self:
        """A twin of this store whose verbs run through `runner`."""
        twin = copy.copy(self)
        twin._runner = runner
        return twin

    @property
    def statements(self) -> Statements:
        """The store's statements by name."""
        return self.dialect.statements

    async def close(self) -> None:
        """Let go of the connections."""
        await self._runner.close()

    async def enqueue(self, job: Job) -> Job:
        """One statement, unless its key is held."""
        kept = await self._write(produce.enqueue, job, self.time.now())
        if not kept.existing:
            await self._added((kept.queue,))
        return kept

    async def enqueue_many(self, jobs: Sequence[Job]) -> list[Job]:
        """One transaction of bounded statements."""
        if not jobs:
            return []
        kept = await self._write(produce.enqueue_many, jobs, self.time.now())
        if queues := {job.queue for job in kept if not job.existing}:
            await self._added(queues)
        return kept

    async def holder(self, key: str) -> Job | None:
        """One read, two where the holder has an expiry."""
        return await self._read(produce.holder, key, self.time)

    async def claim(self, request: ClaimRequest) -> Claimed:
        """A claim without outcomes."""
        recorded = await self.record((), request)
        return recorded.claimed or Claimed()

    async def record(self, outcomes: Sequence[Outcome], request: ClaimRequest | None = None) -> Recorded:
        """One transaction; a group whose data is refused is taken apart, so one bad outcome fails alone."""
        return await record_group(self._record, outcomes, request)

    async def heartbeat(self, held: Sequence[Held], lease: float) -> Collection[Held]:
        """One transaction for all of them."""
        if not held:
            return []
        return await self._write(consume.heartbeat, held, lease, self.time.now())

    async def reap_expired(self, limit: int = 500, own: Callable[[], Collection[Held]] = tuple) -> list[Job]:
        """The instant is read before the lock is waited for: a lease is judged by the time before the wait.

        That of a pass that gave up waiting holds for the next one: what kept this one out kept heartbeats out as well.
        """
        now = self.time.now()
        if now is None or self._reaping_since is None or self._reaping_since > now:
            self._reaping_since = now
        jobs = await self._write(consume.reap, self._reaping_since, limit, own, self.time)
        self._reaping_since = None
        return jobs

    async def next_due(self, queues: Sequence[str] = ()) -> tuple[bool, float | None]:
        """One read."""
        dialect, time = self.dialect, self.time
        return await self._runner.run(lambda connection: dialect.look(connection, queues, time), write=False)

    async def claim_job(self, job_id: str, *, worker_id: str, lease: float) -> Job | None:
        """One job by its id."""
        return await self._write(consume.claim_job, job_id, worker_id, lease, self.time)

    async def cancel(self, job_id: str) -> bool:
        """Two statements in one transaction."""
        return await self._write(control.cancel, job_id, self.time.now())

    async def requeue(self, job_id: str) -> bool:
        """One statement."""
        requeued = await self._write(control.requeue, job_id, self.time.now())
        if requeued:
            await self._added()
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
        return await self._read(control.stats, self.time)

    async def present(self) -> float:
        """One read where a server's clock decides; else the app's own."""
        if (told := self.time.now()) is not None:
            return told
        dialect, time = self.dialect, self.time
        return await self._runner.run(lambda connection: dialect.present(connection, time), write=False)

    async def schedules(self) -> list[ScheduleState]:
        """One read."""
        return await self._read(firing.schedules)

    async def register_schedules(self, states: Sequence[ScheduleState]) -> None:
        """One transaction."""
        if states:
            await self._write(firing.register, states)

    async def save_schedule(self, state: ScheduleState) -> bool:
        """One statement."""
        return await self._write(firing.save, state)

    async def delete_schedule(self, name: str) -> bool:
        """One statement."""
        return await self._write(firing.delete, name)

    async def fire_schedule(
        self, name: str, *, expected: float, next_run_at: float, jobs: Sequence[Job], error: str | None = None
    ) -> list[Job] | None:
        """One transaction."""
        move = ScheduleMove(name=name, expected=expected, next_run_at=next_run_at, jobs=jobs, error=error)
        return (await self.fire_schedules([move]))[0]

    async def fire_schedules(self, moves: Sequence[ScheduleMove]) -> list[list[Job] | None]:
        """One transaction for all of them."""
        if not moves:
            return []
        fired = await self._write(firing.fire, moves, self.time.now())
        if queues := {job.queue for jobs in fired for job in jobs or ()}:
            await self._added(queues)
        return fired

    async def _added(self, queues: Collection[str] = ()) -> None:
        """Jobs of these queues (none named: of any) were written: tell of them. Here, those in this process."""
        self.nudge(queues)

    async def end_unstarted(self, limit: int = 500) -> list[Job]:
        """One read; a transaction where there are any."""
        return await self._write(purge.end_unstarted, limit, self.time)

    async def claim_sweep(self, interval: float) -> bool:
        """One read; one statement where a sweep is due."""
        return await self._write(purge.claim_sweep, interval, self.time)

    async def purge(self, status: JobStatus, older_than: float, limit: int = 500) -> int:
        """One read; a transaction where there are any."""
        return await self._write(purge.purge, status, older_than, limit, self.time)

    async def purgeable(self, status: JobStatus, older_than: float) -> int:
        """One read."""
        return await self._read(purge.purgeable, status, older_than, self.time)

    async def drop_results(
        self, task: str, older_than: float, *, since: float = 0.0, limit: int = 500
    ) -> tuple[int, float]:
        """One read; one statement where there are any."""
        return await self._write(purge.drop_results, task, older_than, since=since, limit=limit, time=self.time)

    async def delete(self, job_id: str) -> bool:
        """One transaction."""
        return await self._write(purge.delete, job_id, self.time.now())

    async def neighbours(self, job_id: str) -> tuple[str | None, str | None]:
        """One read by primary key to either side."""
        return await self._read(control.neighbours, job_id)

    async def beat(self, worker: WorkerSeen) -> None:
        """One statement."""
        await self._write(watching.beat, worker, self.time)

    async def sign_off(self, worker_id: str) -> None:
        """One statement."""
        await self._write(watching.sign_off, worker_id)

    async def workers(self) -> list[WorkerSeen]:
        """One read of a table with a row for each worker."""
        return await self._read(watching.workers, self.time)

    async def tallies(self, since: float) -> list[Tally]:
        """One read."""
        return await self._read(watching.tallies, since)

    async def tidy(self) -> None:
        """Two short writes where there is something to do."""
        await self._write(watching.tidy, self.time)

    async def _record(self, outcomes: Sequence[Outcome], request: ClaimRequest | None) -> Recorded:
        dialect, time = self.dialect, self.time
        return await self._runner.run(
            lambda connection: dialect.record_and_claim(connection, outcomes, request, time), write=True
        )

    async def _write[**P, T](self, verb: _SqlVerb[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._runner.run(lambda connection: verb(self.dialect, connection, *args, **kwargs), write=True)

    async def _read[**P, T](self, verb: _SqlVerb[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._runner.run(lambda connection: verb(self.dialect, connection, *args, **kwargs), write=False)

    async def list(
        self,
        *,
        status: JobStatus | None = None,
        queue: str | None = None,
        task: str | None = None,
        text: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
        scan: int | None = None,
    ) -> Page:
        """One read along an index in the order of the page; several for a text that is sought without a bound."""
        return await self._read(
            listing.list_jobs,
            status=status,
            queue=queue,
            task=task,
            text=text,
            limit=limit,
            cursor=cursor,
            scan=scan,
        )
