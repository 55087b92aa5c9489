"""`task_finished`: told once, after the outcome is recorded, with what `get_result` gives at that moment.

Built from what was recorded; looked up is only a job that had attempts before, or whose times are the store's own and
not this process's, and nothing that nobody hears of. A failure is told while its error is being handled, because
Django's logger writes the traceback it finds in flight. A failed attempt that runs again is no end and is not told.

A worker tells of jobs that its scheduler made in the same way, on the same thread: `task_enqueued`.
"""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from django.db import DatabaseError, connections
from django.dispatch import Signal
from django.tasks import task_backends

from tinyjobs.backends.base import Backend
from tinyjobs.core.errors import JobExpired, TinyJobsError, WorkerLost
from tinyjobs.core.inline import finish
from tinyjobs.core.job import Execution, Job
from tinyjobs.core.logs import facts_of
from tinyjobs.core.status import ExecutionStatus, JobStatus
from tinyjobs.core.storable import describe_exception
from tinyjobs.runtime.hooks import Hooks
from tinyjobs.taskbackend.results import read_executions, result_of, status_of
from tinyjobs.taskbackend.shared import Shared
from tinyjobs.taskbackend.signals import is_heard, is_logged, log_only, send, task_enqueued, task_finished

logger = logging.getLogger("tinyjobs.tasks")


class WhileHeard(list[Callable[..., object]]):
    """Hooks that count as none while nobody would hear them, so that a worker does not even prepare to call them."""

    def __init__(self, signal: Signal, hook: Callable[..., object]) -> None:
        super().__init__([hook])
        self._signal = signal

    def __bool__(self) -> bool:
        return is_heard(self._signal) or is_logged(self._signal)


def tell_enqueued(shared: Shared, job: Job) -> None:
    """Send `task_enqueued` for a job that a schedule or a command has made."""
    if is_heard(task_enqueued) or is_logged(task_enqueued):
        send(task_enqueued, type(task_backends[shared.settings.alias]), result_of(shared, job, []))


class Finished:
    """Tells of the ends of one alias's jobs in the calling thread."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared

    def hooks(self) -> Hooks:
        """For a drain, whose receivers see the caller's transaction."""
        return Hooks(
            on_success=WhileHeard(task_finished, self.success),
            on_failure=[self.failure],
            watchers=[self._shared.metrics],
        )

    def success(self, job: Job, value: object, seconds: float) -> None:
        """A job succeeded."""
        self._tell(self._as_stored(job), None)

    def failure(self, job: Job, error: BaseException, will_retry: bool) -> None:
        """An attempt failed."""
        if will_retry:
            return
        frames, job = error.__traceback__, self._as_stored(job)
        try:
            raise error
        except BaseException:
            self._tell(job, error.with_traceback(frames))

    def _tell(self, job: Job, error: BaseException | None) -> None:
        alias = self._shared.settings.alias
        backend = type(task_backends[alias])
        if is_heard(task_finished):
            send(task_finished, backend, result_of(self._shared, job, self._executions(job, error)))
        elif is_logged(task_finished, failed=error is not None):
            spec = self._shared.catalogue.find(job.task)
            task: Any = getattr(spec and spec.call, "task", None)
            if task is not None:
                log_only(
                    task_finished,
                    backend,
                    job_id=job.id,
                    task=task,
                    status=status_of(job),
                    alias=alias,
                    failed=error is not None,
                )

    def _as_stored(self, job: Job) -> Job:
        if not self._is_to_be_read:
            return job
        try:
            return finish(self._shared.engine_store.get(job.id)) or job
        except (TinyJobsError, DatabaseError) as trouble:
            return _unread(job, trouble)

    @property
    def _is_to_be_read(self) -> bool:
        return is_heard(task_finished) and self._shared.is_timed_by_store

    def _executions(self, job: Job, error: BaseException | None) -> list[Execution]:
        if isinstance(error, JobExpired):
            return []
        if job.claims > 1 or isinstance(error, WorkerLost):
            try:
                return read_executions(self._shared, job)
            except (TinyJobsError, DatabaseError) as trouble:
                text = "the attempts of job %s could not be read for its signal: %s"
                logger.warning(text, job.id, trouble, extra=facts_of(job))
        return [_only_execution(job, error)]


class FinishedInWorker(Finished):
    """The same from a worker's loop: on one thread, in order, its connections closed after each delivery."""

    def __init__(self, shared: Shared, store: Backend) -> None:
        super().__init__(shared)
        self._store = store
        self._thread: ThreadPoolExecutor | None = None

    def hooks(self) -> Hooks:
        """For a worker."""
        return Hooks(
            on_success=WhileHeard(task_finished, self._success),
            on_failure=[self._failure],
            on_fired=WhileHeard(task_enqueued, self._fired),
            watchers=[self._shared.metrics],
        )

    def close(self) -> None:
        """End the thread."""
        if self._thread is not None:
            self._thread.shutdown(wait=False)

    async def _success(self, job: Job, value: object, seconds: float) -> None:
        if is_heard(task_finished):
            await self._apart(self.success, await self._read(job), value, seconds)
        else:
            self.success(job, value, seconds)

    async def _failure(self, job: Job, error: BaseException, will_retry: bool) -> None:
        if not will_retry:
            await self._apart(self.failure, await self._read(job), error, will_retry)

    async def _fired(self, job: Job) -> None:
        await self._apart(tell_enqueued, self._shared, job)

    async def _read(self, job: Job) -> Job:
        try:
            return await self._store.get(job.id) or job if self._is_to_be_read else job
        except TinyJobsError as trouble:
            return _unread(job, trouble)

    def _as_stored(self, job: Job) -> Job:
        return job  # by now it is

    async def _apart(self, tell: Callable[..., None], *arguments: Any) -> None:
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="tinyjobs-signals")
        await asyncio.get_running_loop().run_in_executor(self._thread, _closing, tell, *arguments)


def _unread(job: Job, trouble: Exception) -> Job:
    logger.warning("job %s could not be read for its signal: %s", job.id, trouble, extra=facts_of(job))
    return job


def _closing(tell: Callable[..., None], *arguments: Any) -> None:
    try:
        tell(*arguments)
    finally:
        # Whatever CONN_MAX_AGE says: nothing else uses what the receivers opened here.
        connections.close_all()


def _only_execution(job: Job, error: BaseException | None) -> Execution:
    told = describe_exception(error) if error is not None else None
    status = ExecutionStatus.SUCCESS if job.status is JobStatus.SUCCESS else ExecutionStatus.FAILED
    return Execution(
        job_id=job.id,
        attempt=job.attempts,
        claim=job.claims,
        status=status,
        worker_id=job.worker_id or "",
        started_at=job.started_at or job.created_at,
        finished_at=job.finished_at,
        error_type=told.error_type if told else None,
        traceback=(told.traceback or told.message) if told else None,
    )
