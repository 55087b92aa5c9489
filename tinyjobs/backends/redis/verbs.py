"""The verbs of the Redis store that need no more than a call of their script.

Knows nothing of connections, wake-ups or lost answers; `backend.py` has those.
"""

from collections.abc import Sequence

from tinyjobs.backends.base import BaseBackend
from tinyjobs.backends.redis import audit, control, firing, purge, watch
from tinyjobs.backends.redis.calls import Caller
from tinyjobs.core.job import Execution, Job, Page, ScheduleMove, ScheduleState, Stats
from tinyjobs.core.status import JobStatus
from tinyjobs.core.watching import Finding, Tally, WorkerSeen


class ScriptVerbs(BaseBackend):
    """What a store with scripts answers about the jobs it has, and does with them. Abstract: it claims nothing."""

    where: str
    _call: Caller

    # --- control ------------------------------------------------------------------------------------------------

    async def cancel(self, job_id: str) -> bool:
        """One script."""
        return bool(await self._call("cancel", id=job_id))

    async def requeue(self, job_id: str) -> bool:
        """One script."""
        requeued = bool(await self._call("requeue", id=job_id))
        if requeued:
            self.nudge()
        return requeued

    async def get(self, job_id: str) -> Job | None:
        """One script."""
        return await control.get(self._call, job_id)

    async def executions(self, job_id: str) -> list[Execution]:
        """One script."""
        return await control.executions(self._call, job_id)

    async def counts_by_status(self) -> dict[str, int]:
        """One script."""
        return await control.counts(self._call)

    async def stats(self) -> Stats:
        """One script, and one for each thousand of jobs that have come due and wait to be let in."""
        return await control.stats(self._call)

    # --- schedules and housekeeping -----------------------------------------------------------------------------

    async def present(self) -> float:
        """One command where the server's clock decides; else the app's own."""
        if (told := self._call.time.now()) is not None:
            return told
        seconds, micros = await self._call.link.command("TIME")
        return int(seconds) + int(micros) / 1e6

    async def schedules(self) -> list[ScheduleState]:
        """A script for each page."""
        return await firing.schedules(self._call)

    async def register_schedules(self, states: Sequence[ScheduleState]) -> None:
        """A script for each page."""
        await firing.register(self._call, states)

    async def save_schedule(self, state: ScheduleState) -> bool:
        """One script."""
        return await firing.save(self._call, state)

    async def delete_schedule(self, name: str) -> bool:
        """One script."""
        return bool(await self._call("delete_schedule", name=name))

    async def fire_schedule(
        self, name: str, *, expected: float, next_run_at: float, jobs: Sequence[Job], error: str | None = None
    ) -> list[Job] | None:
        """One script."""
        move = ScheduleMove(name=name, expected=expected, next_run_at=next_run_at, jobs=jobs, error=error)
        return (await self.fire_schedules([move]))[0]

    async def fire_schedules(self, moves: Sequence[ScheduleMove]) -> list[list[Job] | None]:
        """A script for each page."""
        fired = await firing.fire(self._call, moves)
        if queues := {job.queue for jobs in fired for job in jobs or ()}:
            self.nudge(queues)
        return fired

    async def end_unstarted(self, limit: int = 500) -> list[Job]:
        """One script, and one more for each few megabytes of arguments."""
        return await purge.end_unstarted(self._call, limit)

    async def claim_sweep(self, interval: float) -> bool:
        """One script."""
        return await purge.claim_sweep(self._call, interval)

    async def purge(self, status: JobStatus, older_than: float, limit: int = 500) -> int:
        """One script."""
        return await purge.purge(self._call, status, older_than, limit)

    async def purgeable(self, status: JobStatus, older_than: float) -> int:
        """One script."""
        return await purge.purgeable(self._call, status, older_than)

    async def drop_results(
        self, task: str, older_than: float, *, since: float = 0.0, limit: int = 500
    ) -> tuple[int, float]:
        """One script."""
        return await purge.drop_results(self._call, task, older_than, since=since, limit=limit)

    async def delete(self, job_id: str) -> bool:
        """One script."""
        return await purge.delete(self._call, job_id)

    # --- watching -----------------------------------------------------------------------------------------------

    async def audit(self) -> list[Finding]:
        """One command."""
        return await audit.audit(self._call.link)

    async def beat(self, worker: WorkerSeen) -> None:
        """One script."""
        await watch.beat(self._call, worker)

    async def sign_off(self, worker_id: str) -> None:
        """One script."""
        await watch.sign_off(self._call, worker_id)

    async def workers(self) -> list[WorkerSeen]:
        """One script."""
        return await watch.workers(self._call)

    async def tallies(self, since: float) -> list[Tally]:
        """A script for each four hours, or less where there are many queues."""
        return await watch.tallies(self._call, since)

    async def neighbours(self, job_id: str) -> tuple[str | None, str | None]:
        """One script."""
        return await control.neighbours(self._call, job_id)

    # Last in the class: below it, `list` would name this method where a type is meant.
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
        """A script for each bounded stretch of the index in the order of the page."""
        return await control.list_jobs(
            self._call, status=status, queue=queue, task=task, text=text, limit=limit, cursor=cursor, scan=scan
        )
