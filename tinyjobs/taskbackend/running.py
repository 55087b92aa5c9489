"""What runs in the place of a Django task's function: it gives the function its context and sends `task_started`.

Called by an executor in the thread, or the asyncio task, that runs the job; the running job is in the context. What
becomes of the return value or the error is the runtime's business.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from asgiref.sync import sync_to_async
from django.tasks import TaskContext, TaskResultStatus, task_backends

from tinyjobs.core.context import running_job
from tinyjobs.core.job import Job
from tinyjobs.taskbackend.signals import is_heard, log_only, send, task_started
from tinyjobs.taskbackend.typed import AnyTask


@dataclass(frozen=True, slots=True)
class TaskCall:
    """The call of one task under one alias."""

    task: AnyTask
    alias: str

    @staticmethod
    def of(task: AnyTask, alias: str, *, is_coroutine: bool) -> "TaskCall":
        """The call that fits the function."""
        return (CoroutineCall if is_coroutine else TaskCall)(task, alias)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run a plain function."""
        job = _job()
        if self._wants_result():
            result = self._result(job, args, kwargs)
            if self.task.takes_context:
                return self.task.func(TaskContext(task_result=result), *args, **kwargs)
        else:
            self._log(job)
        return self.task.func(*args, **kwargs)

    def _wants_result(self) -> bool:
        return self.task.takes_context or is_heard(task_started)

    def _result(self, job: Job, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        backend: Any = task_backends[self.alias]
        result = backend.running_result(job, args, kwargs)
        send(task_started, type(backend), result)
        return result

    def _log(self, job: Job) -> None:
        status = TaskResultStatus.RUNNING
        log_only(task_started, TaskCall, job_id=job.id, task=self.task, status=status, alias=self.alias)


class CoroutineCall(TaskCall):
    """The call of an `async def` task. What may ask the database or block runs in the job's own thread."""

    __slots__ = ()

    async def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run a coroutine function."""
        job = _job()
        if self._wants_result():
            result = await sync_to_async(self._result, thread_sensitive=True)(job, args, kwargs)
            if self.task.takes_context:
                return await self.task.func(TaskContext(task_result=result), *args, **kwargs)
        else:
            self._log(job)
        return await self.task.func(*args, **kwargs)


def _job() -> Job:
    job = running_job.get()
    if job is None:
        raise RuntimeError("A task call was made outside of a running job.")
    return job
