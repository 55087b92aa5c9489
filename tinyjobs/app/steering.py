"""Looking at jobs and steering them, each verb for threads and for event loops. Jobs are named by id or by a `Job`."""

from tinyjobs.app.access import StoreAccess, Verb
from tinyjobs.backends.base import Backend
from tinyjobs.core.errors import ConfigurationError, JobNotFoundError
from tinyjobs.core.job import Execution, Job, Page, Stats
from tinyjobs.core.options import check_queue, check_task_name
from tinyjobs.core.status import JobStatus
from tinyjobs.core.storable import storable

LONGEST_PAGE = 10_000
_LONGEST_ID = 1_000


class Steering:
    """The part of an app that asks the store about jobs that are there already."""

    _access: StoreAccess

    def get(self, job: Job | str) -> Job | None:
        """The job as it stands now, whole; None if the store has none of that id."""
        job_id = _id(job)
        return self._access.run("await app.aget(…)", lambda store: store.get(job_id))

    async def aget(self, job: Job | str) -> Job | None:
        """The same from an event loop."""
        job_id = _id(job)
        return await self._access.arun(lambda store: store.get(job_id))

    def executions(self, job: Job | str) -> list[Execution]:
        """The attempts of a job in order, one under way included. An empty list for a job that is not there."""
        job_id = _id(job)
        return self._access.run("await app.aexecutions(…)", lambda store: store.executions(job_id))

    async def aexecutions(self, job: Job | str) -> list[Execution]:
        """The same from an event loop."""
        job_id = _id(job)
        return await self._access.arun(lambda store: store.executions(job_id))

    def cancel(self, job: Job | str) -> bool:
        """End a job that has not ended; False if it had. A running attempt is not interrupted, and cannot report.

        Raises `JobNotFoundError` for a job that is not there.
        """
        return self._access.run("await app.acancel(…)", _cancel(_id(job)))

    async def acancel(self, job: Job | str) -> bool:
        """The same from an event loop."""
        return await self._access.arun(_cancel(_id(job)))

    def retry(self, job: Job | str) -> bool:
        """Put a failed or cancelled job back with all of its attempts; False in another status, or if its key is taken.

        Raises `JobNotFoundError` for a job that is not there.
        """
        return self._access.run("await app.aretry(…)", _retry(_id(job)))

    async def aretry(self, job: Job | str) -> bool:
        """The same from an event loop."""
        return await self._access.arun(_retry(_id(job)))

    def stats(self) -> Stats:
        """The store in figures: its queues, its statuses, what is overdue."""
        return self._access.run("await app.astats()", lambda store: store.stats())

    async def astats(self) -> Stats:
        """The same from an event loop."""
        return await self._access.arun(lambda store: store.stats())

    # Last in the class: below it, `list` would name this method where a type is meant.
    def list(
        self,
        *,
        status: JobStatus | str | None = None,
        queue: str | None = None,
        task: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Page:
        """A page of jobs, newest first, without arguments and results; `cursor` from a page gives the one after it."""
        return self._access.run("await app.alist(…)", _list(status, queue, task, limit, cursor))

    async def alist(
        self,
        *,
        status: JobStatus | str | None = None,
        queue: str | None = None,
        task: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Page:
        """The same from an event loop."""
        return await self._access.arun(_list(status, queue, task, limit, cursor))


def _id(job: object) -> str:
    named = job.id if isinstance(job, Job) else job
    if not isinstance(named, str):
        raise TypeError(f"A job is named by its id or by a Job, not by {named!r:.100}.")
    return text_of_an_id(named)


def text_of_an_id(text: str) -> str:
    """The text, or where no store could even look for it, a text that is no job's id either."""
    return storable(text, _LONGEST_ID)


def _cancel(job_id: str) -> Verb[bool]:
    return _existing(job_id, lambda store: store.cancel(job_id))


def _retry(job_id: str) -> Verb[bool]:
    return _existing(job_id, lambda store: store.requeue(job_id))


def _existing(job_id: str, change: Verb[bool]) -> Verb[bool]:
    """The change; a job that it did not touch is looked for, so that a wrong id is not taken for a job that ended."""

    async def verb(store: Backend) -> bool:
        if await change(store):
            return True
        if await store.get(job_id) is None:
            raise JobNotFoundError(f"The store has no job of the id {job_id!r:.200}.")
        return False

    return verb


def _list(status: object, queue: str | None, task: str | None, limit: object, cursor: str | None) -> Verb[Page]:
    wanted = None if status is None else _status(status)
    if queue is not None:
        check_queue(queue, "app.list(): queue")
    if task is not None:
        check_task_name(task, "app.list(): task")
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= LONGEST_PAGE:
        raise ConfigurationError(f"app.list(): limit: {limit!r} is not a whole number from 1 to {LONGEST_PAGE}.")
    if cursor is not None and not isinstance(cursor, str):
        raise ConfigurationError(f"app.list(): cursor: {cursor!r:.100} is none; give the one that a page named.")
    page, after = limit, None if cursor is None else text_of_an_id(cursor)
    return lambda store: store.list(status=wanted, queue=queue, task=task, limit=page, cursor=after)


def _status(value: object) -> JobStatus:
    for status in JobStatus:
        if status == value:
            return status
    raise ConfigurationError(f"app.list(): status: {value!r} is none; there are {', '.join(JobStatus)}.")
