"""A whole store of jobs in one module, to be copied by whoever writes another.

It keeps jobs in this process's memory, passes the contract suite, and does everything in the plainest way: each verb
is a few lines over dictionaries, under one lock. A store for a real database replaces the dictionaries by rows and the
lock by a transaction, and keeps the shape. What every verb promises is in `tinyjobs.backends.base.Backend`.
"""

import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from tinyjobs.backends.base import Backend, BaseBackend, Capabilities
from tinyjobs.core import transitions
from tinyjobs.core.clock import Clock
from tinyjobs.core.errors import DataRefusedError, refuse_unknown
from tinyjobs.core.job import (
    Claimed,
    ClaimRequest,
    Execution,
    Held,
    Job,
    Page,
    QueueStats,
    Recorded,
    ScheduleState,
    Stats,
)
from tinyjobs.core.status import ACTIVE, ExecutionStatus, JobStatus
from tinyjobs.core.transitions import Outcome
from tinyjobs.core.watching import FORGOTTEN_AFTER, Tally, WorkerSeen, add_up

RUNNING, QUEUED = JobStatus.RUNNING, JobStatus.QUEUED


@dataclass
class Data:
    """What clients of one store share: for a database this is the database."""

    jobs: dict[str, Job] = field(default_factory=dict)
    executions: dict[str, dict[int, Execution]] = field(default_factory=lambda: defaultdict(dict))
    schedules: dict[str, ScheduleState] = field(default_factory=dict)
    workers: dict[str, WorkerSeen] = field(default_factory=dict)
    tallies: list[Tally] = field(default_factory=list)
    lock: threading.RLock = field(default_factory=threading.RLock)


class TemplateStore(BaseBackend):
    """Jobs in this process's memory; gone with it."""

    # Name what the store can do beyond the defaults. What is not named is refused with a clear message.
    capabilities = Capabilities(dedup=True, schedules=True, delete=True, workers_seen=True, tallies=True, search=True)

    def __init__(self, data: Data | None = None, *, clock: Clock | None = None) -> None:
        super().__init__(clock=clock)
        self.data = data or Data()

    @classmethod
    def from_url(cls, url: str, *, clock: Clock, **options: Any) -> Self:
        """What the entry point names: `template = "your_package:TemplateStore.from_url"`."""
        refuse_unknown(options, frozenset(), f"the store URL {url!r}")
        return cls(clock=clock)

    def inline(self) -> Backend:
        """Nothing here ever waits for an event loop, so synchronous callers may use the store as it is.

        A store that cannot say so leaves this method out, and its callers go through an event loop.
        """
        return self

    # --- producing ------------------------------------------------------------------------------------------------

    async def enqueue_many(self, jobs: Sequence[Job]) -> list[Job]:
        """Decide everything first, then write: all or none."""
        with self.data.lock:
            holders = {job.key: job for job in self.data.jobs.values() if job.key and job.status in ACTIVE}
            new: dict[str, Job] = {}
            answers = []
            for job in jobs:
                holder = holders.get(job.key) if job.key else None
                if holder is None:
                    if job.id in self.data.jobs or job.id in new:
                        raise DataRefusedError(f"There is a job {job.id} already.")
                    new[job.id] = job
                    if job.key:
                        holders[job.key] = job
                answers.append(replace(holder, existing=True) if holder else job)
            self.data.jobs.update(new)
            return answers

    # --- consuming ------------------------------------------------------------------------------------------------

    async def claim(self, request: ClaimRequest) -> Claimed:
        """The first due jobs in queue order. This store has no index to keep small, so nothing needs letting in."""
        now = self.clock.now()
        with self.data.lock:
            due = [
                job
                for job in self.data.jobs.values()
                if job.status is QUEUED and job.run_at <= now and (not request.queues or job.queue in request.queues)
            ]
            due.sort(key=lambda job: (-job.priority, job.run_at, job.id))
            taken: list[Job] = []
            space = request.room.free if request.room else 0
            for job in due:
                if len(taken) >= request.limit:
                    break
                if request.room and job.task in request.room.tasks:
                    if space == 0:
                        continue
                    space -= 1
                taken.append(self._start(job, request.worker_id, now + request.lease))
            _, next_due = await self.next_due()
            return Claimed(taken, next_due)

    async def claim_job(self, job_id: str, *, worker_id: str, lease: float) -> Job | None:
        """The same step for one job."""
        now = self.clock.now()
        with self.data.lock:
            job = self.data.jobs.get(job_id)
            if job is None or job.status is not QUEUED or job.run_at > now:
                return None
            return self._start(job, worker_id, now + lease)

    async def record(self, outcomes: Sequence[Outcome], request: ClaimRequest | None = None) -> Recorded:
        """Apply what still holds; the claim sees what the outcomes left."""
        with self.data.lock:
            applied = [self._apply(outcome) for outcome in outcomes]
            return Recorded(applied, await self.claim(request) if request else None)

    async def heartbeat(self, held: Sequence[Held], lease: float) -> Collection[Held]:
        """Renew what is still held."""
        until = self.clock.now() + lease
        with self.data.lock:
            renewed = [entry for entry in held if self._holder(entry.job_id, entry.claim)]
            for entry in renewed:
                self._change(entry.job_id, lease_expires_at=until)
            return renewed

    async def reap_expired(self, limit: int = 500, own: Callable[[], Collection[Held]] = tuple) -> list[Job]:
        """A lost claim ends by the same step as a reported one, so it can never overtake one."""
        now = self.clock.now()
        with self.data.lock:
            expired = [job for job in self.data.jobs.values() if (job.lease_expires_at or now) < now]
            reaped = transitions.left_behind(expired, own)[:limit]
            for job in reaped:
                self._apply(transitions.lost(job, now))
            return [self.data.jobs[job.id] for job in reaped]

    async def next_due(self, queues: Sequence[str] = ()) -> tuple[bool, float | None]:
        """Looks, and changes nothing."""
        now = self.clock.now()
        with self.data.lock:
            queued = [job for job in self.data.jobs.values() if job.status is QUEUED]
            ready = any(job.run_at <= now and (not queues or job.queue in queues) for job in queued)
            return ready, min((job.run_at for job in queued if job.run_at > now), default=None)

    def _start(self, job: Job, worker_id: str, lease_expires_at: float) -> Job:
        return self._change(
            job.id,
            status=RUNNING,
            attempts=job.attempts + 1,
            claims=job.claims + 1,
            worker_id=worker_id,
            started_at=self.clock.now(),
            lease_expires_at=lease_expires_at,
        )

    def _holder(self, job_id: str, claim: int) -> Job | None:
        """The job, if it runs under that very claim. Every change a worker makes passes through here."""
        job = self.data.jobs.get(job_id)
        return job if job and job.status is RUNNING and job.claims == claim else None

    def _apply(self, outcome: Outcome) -> bool:
        job = self._holder(outcome.job_id, outcome.claim)
        if job is None:
            return False
        if outcome.execution:
            self.data.executions[job.id][job.claims] = outcome.execution
        self._tally(job, outcome.ended_as, outcome.status, outcome.ended_at)
        self._change(
            job.id,
            status=outcome.status,
            attempts=outcome.attempts,
            hand_backs=outcome.hand_backs,
            run_at=outcome.run_at,
            started_at=outcome.started_at,
            finished_at=outcome.finished_at,
            lease_expires_at=None,
            worker_id=None if outcome.status is QUEUED else job.worker_id,
            result=outcome.result,
            last_error=outcome.last_error,
        )
        return True

    def _change(self, job_id: str, **values: Any) -> Job:
        job = self.data.jobs[job_id] = replace(self.data.jobs[job_id], **values)
        return job

    # --- control --------------------------------------------------------------------------------------------------

    async def cancel(self, job_id: str) -> bool:
        """A running attempt is marked; its worker will be refused."""
        now = self.clock.now()
        with self.data.lock:
            job = self.data.jobs.get(job_id)
            if job is None or not transitions.can_cancel(job.status):
                return False
            if job.status is RUNNING:
                execution = replace(_under_way(job), status=ExecutionStatus.CANCELLED, finished_at=now)
                self.data.executions[job.id][job.claims] = execution
            self._change(job_id, status=JobStatus.CANCELLED, finished_at=now, lease_expires_at=None)
            self._tally(job, None, JobStatus.CANCELLED, now)
            return True

    async def requeue(self, job_id: str) -> bool:
        """Back in the queue, unless the job is active, ended well, or lost its key to another."""
        with self.data.lock:
            job = self.data.jobs.get(job_id)
            if job is None or not transitions.can_retry(job.status):
                return False
            if job.key and any(other.key == job.key and other.status in ACTIVE for other in self.data.jobs.values()):
                return False
            self._change(
                job_id,
                status=QUEUED,
                attempts=0,
                hand_backs=0,
                run_at=transitions.retried_run_at(job, self.clock.now()),
                expires_at=transitions.retried_expiry(job, self.clock.now()),
                started_at=None,
                finished_at=None,
                worker_id=None,
                result=None,
            )
            return True

    async def delete(self, job_id: str) -> bool:
        """With its history, once it has ended."""
        with self.data.lock:
            job = self.data.jobs.get(job_id)
            if job is None or job.status in ACTIVE:
                return False
            del self.data.jobs[job_id]
            self.data.executions.pop(job_id, None)
            return True

    async def get(self, job_id: str) -> Job | None:
        """The job whole."""
        with self.data.lock:
            return self.data.jobs.get(job_id)

    async def executions(self, job_id: str) -> list[Execution]:
        """The attempts that ended, then the one under way."""
        with self.data.lock:
            ended = self.data.executions.get(job_id, {})
            job = self.data.jobs.get(job_id)
            running = [_under_way(job)] if job and job.status is RUNNING else []
            return [*(ended[claim] for claim in sorted(ended)), *running]

    async def counts_by_status(self) -> dict[str, int]:
        """By the plain name of the status."""
        with self.data.lock:
            return dict(Counter(job.status.value for job in self.data.jobs.values()))

    async def stats(self) -> Stats:
        """Figures of live jobs."""
        now = self.clock.now()
        with self.data.lock:
            queued = [job for job in self.data.jobs.values() if job.status is QUEUED]
            running = [job for job in self.data.jobs.values() if job.status is RUNNING]
            queues = []
            for name in sorted({job.queue for job in [*queued, *running]}):
                due = [job.run_at for job in queued if job.queue == name and job.run_at <= now]
                delayed = sum(job.queue == name and job.run_at > now for job in queued)
                active = sum(job.queue == name for job in running)
                oldest = min(due, default=None)
                queues.append(QueueStats(name=name, ready=len(due), delayed=delayed, running=active, oldest_due=oldest))
            return Stats(
                now=now,
                queues=queues,
                by_status=await self.counts_by_status(),
                queued_by_task=Counter(job.task for job in queued),
                expired_leases=sum((job.lease_expires_at or now) < now for job in running),
                next_due=(await self.next_due())[1],
            )

    # --- watching -------------------------------------------------------------------------------------------------

    async def beat(self, worker: WorkerSeen) -> None:
        """In place of what it told before."""
        with self.data.lock:
            self.data.workers[worker.worker_id] = replace(worker, seen_at=self.clock.now())

    async def sign_off(self, worker_id: str) -> None:
        """Gone, if it was there."""
        with self.data.lock:
            self.data.workers.pop(worker_id, None)

    async def workers(self) -> list[WorkerSeen]:
        """The oldest first, without those that have been silent for long."""
        with self.data.lock:
            since = self.clock.now() - FORGOTTEN_AFTER
            there = [worker for worker in self.data.workers.values() if worker.seen_at > since]
            return sorted(there, key=lambda worker: (worker.started_at, worker.worker_id))

    async def tallies(self, since: float) -> list[Tally]:
        """One was kept for each end; they are summed here. A store for real keeps sums, or it grows without bound."""
        with self.data.lock:
            found = [tally for tally in self.data.tallies if tally.start + tally.seconds > since]
            return add_up(found, 0.0, 60.0)

    def _tally(self, job: Job, ended_as: ExecutionStatus | None, status: JobStatus, at: float | None) -> None:
        """Count the end of a job, or of an attempt. What was given back is the end of neither."""
        if at is None:
            at = self.clock.now()
        spent = {}
        if ended_as not in (None, ExecutionStatus.CANCELLED):
            began = at if job.started_at is None else job.started_at
            waited, ran = max(began - job.run_at, 0.0), max(at - began, 0.0)
            spent = {"waited": waited, "longest_wait": waited, "ran": ran, "longest_run": ran}
        is_success, is_cancelled = ended_as is ExecutionStatus.SUCCESS, status is JobStatus.CANCELLED
        if spent or is_cancelled:
            self.data.tallies.append(
                Tally(
                    start=at - at % 60.0,
                    seconds=60.0,
                    queue=job.queue,
                    succeeded=int(is_success),
                    unsuccessful=int(bool(spent) and not is_success),
                    cancelled=int(is_cancelled),
                    **spent,
                )
            )

    # --- schedules ------------------------------------------------------------------------------------------------

    async def schedules(self) -> list[ScheduleState]:
        """By name."""
        with self.data.lock:
            return [self.data.schedules[name] for name in sorted(self.data.schedules)]

    async def register_schedules(self, states: Sequence[ScheduleState]) -> None:
        """A stored time stays unless the rule changed."""
        with self.data.lock:
            for state in states:
                known = self.data.schedules.get(state.name)
                if known is not None:
                    state = replace(
                        state, last_run_at=known.last_run_at, last_job_id=known.last_job_id, skips=known.skips
                    )
                    if (known.cron, known.timezone, known.error) == (state.cron, state.timezone, None):
                        state = replace(state, next_run_at=known.next_run_at)
                self.data.schedules[state.name] = state

    async def save_schedule(self, state: ScheduleState) -> bool:
        """What the code declares stays as it is."""
        with self.data.lock:
            known = self.data.schedules.get(state.name)
            if known is not None and known.source == "code":
                return False
            await self.register_schedules([replace(state, source="data")])
            return True

    async def delete_schedule(self, name: str) -> bool:
        """Its jobs stay."""
        with self.data.lock:
            return self.data.schedules.pop(name, None) is not None

    async def fire_schedule(
        self, name: str, *, expected: float, next_run_at: float, jobs: Sequence[Job], error: str | None = None
    ) -> list[Job] | None:
        """The jobs first: when they are refused, the schedule has not moved."""
        with self.data.lock:
            state = self.data.schedules.get(name)
            if state is None or state.next_run_at != expected:
                return None
            kept = await self.enqueue_many(jobs)
            made = [job for job in kept if not job.existing]
            state = replace(state, next_run_at=next_run_at, error=error, skips=state.skips + len(kept) - len(made))
            if made:
                state = replace(state, last_run_at=self.clock.now(), last_job_id=made[-1].id)
            self.data.schedules[name] = state
            return kept

    # --- listing: last, since below it `list` would name this method where a type is meant --------------------------

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
        """Ids sort by age, so the last id that was looked at is where the next page begins."""
        with self.data.lock:
            ids = sorted((job_id for job_id in self.data.jobs if cursor is None or job_id < cursor), reverse=True)
            found: list[Job] = []
            for number, job_id in enumerate(ids):
                job = self.data.jobs[job_id]
                if number == scan:
                    return Page(found, ids[number - 1])
                if (
                    status in (None, job.status)
                    and queue in (None, job.queue)
                    and task in (None, job.task)
                    and (not text or _has(job, text))
                ):
                    if len(found) == limit:
                        return Page(found, found[-1].id)
                    found.append(replace(job, payload=None, result=None))
            return Page(found)

    async def neighbours(self, job_id: str) -> tuple[str | None, str | None]:
        """The newer and the older."""
        with self.data.lock:
            newer = min((other for other in self.data.jobs if other > job_id), default=None)
            return newer, max((other for other in self.data.jobs if other < job_id), default=None)


def _has(job: Job, text: str) -> bool:
    """Whether the text occurs in the job, byte by byte, so that no arguments have to be readable."""
    wanted = text.encode(errors="surrogatepass").lower()
    return any(wanted in where.lower() for where in (job.id.encode(), job.task.encode(), job.payload or b""))


def _under_way(job: Job) -> Execution:
    return Execution(
        job_id=job.id,
        attempt=job.attempts,
        claim=job.claims,
        status=ExecutionStatus.RUNNING,
        worker_id=job.worker_id or "",
        started_at=job.started_at or 0.0,
    )
