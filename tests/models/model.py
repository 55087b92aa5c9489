"""What a store must be, in dictionaries and the pure transitions: the template store, and what it leaves out.

That is: where a delayed job stands until a claim lets it in, expiry, retention. Plain and slow; one caller at a time.
"""

from collections.abc import Sequence
from dataclasses import replace

from tests.contract.template import load
from tinyjobs.core import transitions
from tinyjobs.core.clock import Clock
from tinyjobs.core.job import Claimed, ClaimRequest, Job, Stats, queue_order
from tinyjobs.core.status import ACTIVE, JobStatus
from tinyjobs.core.transitions import EXPIRED, Outcome

QUEUED = JobStatus.QUEUED
#: What one claim lets in at most is more than a model ever holds.
_TemplateStore = load().TemplateStore


class Model(_TemplateStore):  # type: ignore[misc, valid-type]
    def __init__(self, *, clock: Clock) -> None:
        super().__init__(clock=clock)
        #: The queued jobs that no claim takes before one has let them in.
        self.delayed: set[str] = set()
        self._swept_at: float | None = None

    # --- where a queued job stands ----------------------------------------------------------------------------------

    def _stand(self, job_id: str) -> None:
        job = self.data.jobs[job_id]
        self.delayed.discard(job_id)
        if job.status is QUEUED and job.run_at > self.clock.now():
            self.delayed.add(job_id)

    def _ready(self, queues: Sequence[str] = ()) -> list[Job]:
        return [
            job
            for job in self.data.jobs.values()
            if job.status is QUEUED and job.id not in self.delayed and (not queues or job.queue in queues)
        ]

    async def next_due(self, queues: Sequence[str] = ()) -> tuple[bool, float | None]:
        delayed = [self.data.jobs[job_id].run_at for job_id in self.delayed]
        return bool(self._ready(queues)), min(delayed, default=None)

    # --- producing --------------------------------------------------------------------------------------------------

    async def enqueue_many(self, jobs: Sequence[Job]) -> list[Job]:
        now = self.clock.now()
        for job in jobs:
            if job.key is not None and (held := self._holder_of(job.key)) and self._has_lapsed(held, now):
                self._lapse(held, now)
        kept: list[Job] = await super().enqueue_many(jobs)
        for job in kept:
            if not job.existing:
                self._stand(job.id)
        return kept

    async def holder(self, key: str) -> Job | None:
        held = self._holder_of(key)
        return None if held is None or self._has_lapsed(held, self.clock.now()) else held

    def _holder_of(self, key: str) -> Job | None:
        return next((job for job in self.data.jobs.values() if job.key == key and job.status in ACTIVE), None)

    # --- consuming --------------------------------------------------------------------------------------------------

    async def claim(self, request: ClaimRequest) -> Claimed:
        if request.let_in:
            now = self.clock.now()
            self.delayed = {job_id for job_id in self.delayed if self.data.jobs[job_id].run_at > now}
        taken: list[Job] = []
        space = request.room.free if request.room else 0
        for job in sorted(self._ready(request.queues), key=queue_order)[: None if request.room else request.limit]:
            is_roomy = request.room is not None and job.task in request.room.tasks
            if len(taken) < request.limit and not (is_roomy and space == 0):
                space -= is_roomy
                taken.append(self._start(job, request.worker_id, self.clock.now() + request.lease))
        filled = len(taken) >= request.limit > 0
        return Claimed(taken, None if filled else (await self.next_due())[1])

    async def claim_job(self, job_id: str, *, worker_id: str, lease: float) -> Job | None:
        job: Job | None = await super().claim_job(job_id, worker_id=worker_id, lease=lease)
        self.delayed.discard(job_id if job else "")
        return job

    def _apply(self, outcome: Outcome) -> bool:
        applied: bool = super()._apply(outcome)
        if applied:
            self._stand(outcome.job_id)
        return applied

    # --- control ----------------------------------------------------------------------------------------------------

    async def cancel(self, job_id: str) -> bool:
        cancelled: bool = await super().cancel(job_id)
        self.delayed.discard(job_id if cancelled else "")
        return cancelled

    async def requeue(self, job_id: str) -> bool:
        requeued: bool = await super().requeue(job_id)
        if requeued:
            self._stand(job_id)
        return requeued

    async def counts_by_status(self) -> dict[str, int]:
        found = {status.value: 0 for status in JobStatus}
        return {**found, **await super().counts_by_status()}

    async def stats(self) -> Stats:
        stats: Stats = await super().stats()
        return replace(stats, next_due=(await self.next_due())[1])

    # --- housekeeping -----------------------------------------------------------------------------------------------

    def _has_lapsed(self, job: Job, now: float) -> bool:
        return transitions.may_expire(job) and job.expires_at is not None and job.expires_at <= now

    def _lapse(self, job: Job, now: float) -> Job:
        self.delayed.discard(job.id)
        self._tally(job, None, JobStatus.CANCELLED, now)
        return self._change(job.id, status=JobStatus.CANCELLED, finished_at=now, last_error=EXPIRED)  # type: ignore[no-any-return]

    async def end_unstarted(self, limit: int = 500) -> list[Job]:
        now = self.clock.now()
        late = [job for job in self.data.jobs.values() if self._has_lapsed(job, now)]
        late.sort(key=lambda job: (job.expires_at, job.id))
        return [self._lapse(job, now) for job in late[:limit]]

    async def claim_sweep(self, interval: float) -> bool:
        now = self.clock.now()
        if self._swept_at is not None and abs(now - self._swept_at) < interval:
            return False
        self._swept_at = now
        return True

    def _old(self, status: JobStatus, older_than: float) -> list[Job]:
        ended_by = self.clock.now() - older_than
        old = [job for job in self.data.jobs.values() if job.status is status and (job.finished_at or 0.0) <= ended_by]
        return sorted(old, key=lambda job: job.finished_at or 0.0)

    async def purgeable(self, status: JobStatus, older_than: float) -> int:
        return len(self._old(status, older_than))

    async def purge(self, status: JobStatus, older_than: float, limit: int = 500) -> int:
        old = self._old(status, older_than)[:limit]
        for job in old:
            await self.delete(job.id)
        return len(old)

    async def drop_results(
        self, task: str, older_than: float, *, since: float = 0.0, limit: int = 500
    ) -> tuple[int, float]:
        ended_by = self.clock.now() - older_than
        found = [
            job
            for job in self._old(JobStatus.SUCCESS, older_than)
            if job.task == task and job.result is not None and (job.finished_at or 0.0) >= since
        ]
        for job in found[:limit]:
            self._change(job.id, result=None)
        return len(found[:limit]), ended_by if len(found) < limit else found[limit - 1].finished_at or 0.0
