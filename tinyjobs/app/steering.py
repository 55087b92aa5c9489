"""Looking at jobs and steering them, each verb for threads and for event loops. Jobs are named by id or by a `Job`."""

from tinyjobs.app.access import StoreAccess, Verb
from tinyjobs.app.results import JobHandle, Source
from tinyjobs.backends.base import Backend
from tinyjobs.core.errors import ConfigurationError, JobNotFoundError
from tinyjobs.core.job import Execution, Job, Page, Stats
from tinyjobs.core.options import check_queue, check_task_name
from tinyjobs.core.status import JobStatus
from tinyjobs.core.storable import storable
from tinyjobs.core.watching import Tally, WorkerSeen

LONGEST_PAGE = 10_000
LONGEST_SCAN = 1_000_000
_LONGEST_ID = 1_000

#: How a job is named: by its id, or by what an enqueue, a look or a hook gave.
type AnyJob = JobHandle | Job | str


class Steering:
    """The part of an app that asks the store about jobs that are there already."""

    _access: StoreAccess
    _source: Source

    def get(self, job: AnyJob) -> JobHandle | None:
        """The job as it stands now, whole; None if the store has none of that id."""
        job_id = _id(job)
        found = self._access.run("await app.aget(…)", lambda store: store.get(job_id))
        return None if found is None else self._source.handle(found)

    async def aget(self, job: AnyJob) -> JobHandle | None:
        """The same from an event loop."""
        job_id = _id(job)
        found = await self._access.arun(lambda store: store.get(job_id))
        return None if found is None else self._source.handle(found)

    def executions(self, job: AnyJob) -> list[Execution]:
        """The attempts of a job in order, one under way included. An empty list for a job that is not there."""
        job_id = _id(job)
        return self._access.run("await app.aexecutions(…)", lambda store: store.executions(job_id))

    async def aexecutions(self, job: AnyJob) -> list[Execution]:
        """The same from an event loop."""
        job_id = _id(job)
        return await self._access.arun(lambda store: store.executions(job_id))

    def cancel(self, job: AnyJob) -> bool:
        """End a job that has not ended; False if it had. A running attempt is not interrupted, and cannot report.

        Raises `JobNotFoundError` for a job that is not there.
        """
        return self._access.run("await app.acancel(…)", _cancel(_id(job)))

    async def acancel(self, job: AnyJob) -> bool:
        """The same from an event loop."""
        return await self._access.arun(_cancel(_id(job)))

    def retry(self, job: AnyJob) -> bool:
        """Put a failed or cancelled job back with all of its attempts; False in another status, or if its key is taken.

        Raises `JobNotFoundError` for a job that is not there.
        """
        return self._access.run("await app.aretry(…)", _retry(_id(job)))

    async def aretry(self, job: AnyJob) -> bool:
        """The same from an event loop."""
        return await self._access.arun(_retry(_id(job)))

    def delete(self, job: AnyJob) -> bool:
        """Delete a job that has ended, with its history; False if it has not, or if a job that waits for it names it.

        Raises `JobNotFoundError` for a job that is not there.
        """
        return self._access.run("await app.adelete(…)", _delete(_id(job)))

    async def adelete(self, job: AnyJob) -> bool:
        """The same from an event loop."""
        return await self._access.arun(_delete(_id(job)))

    def workers(self) -> list[WorkerSeen]:
        """The workers that are there, and those that were seen within the last hour and did not say that they stopped.

        By when they started. One that was not seen for `SILENT_AFTER` seconds is silent: stopped, cut off or dead.
        """
        return self._access.run("await app.aworkers()", lambda store: store.workers())

    async def aworkers(self) -> list[WorkerSeen]:
        """The same from an event loop."""
        return await self._access.arun(lambda store: store.workers())

    def tallies(self, since: float) -> list[Tally]:
        """What ended from the instant `since` on (unix seconds), at most a day back: by time, then queue.

        Spans of a minute within the last hour, of up to a quarter of an hour before.
        """
        return self._access.run("await app.atallies(…)", lambda store: store.tallies(since))

    async def atallies(self, since: float) -> list[Tally]:
        """The same from an event loop."""
        return await self._access.arun(lambda store: store.tallies(since))

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
        text: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
        scan: int | None = None,
    ) -> Page:
        """A page of jobs, newest first, without arguments and results; `cursor` from a page gives the one after it.

        `text` keeps the jobs in whose id, task or stored arguments it occurs, whatever the case of its letters. With
        `scan` at most so many jobs are looked at: the page may then hold fewer than `limit`, and still have a cursor.
        """
        return self._access.run("await app.alist(…)", _list(status, queue, task, text, limit, cursor, scan))

    async def alist(
        self,
        *,
        status: JobStatus | str | None = None,
        queue: str | None = None,
        task: str | None = None,
        text: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
        scan: int | None = None,
    ) -> Page:
        """The same from an event loop."""
        return await self._access.arun(_list(status, queue, task, text, limit, cursor, scan))


def _id(job: object) -> str:
    named = job.id if isinstance(job, JobHandle | Job) else job
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


def _delete(job_id: str) -> Verb[bool]:
    return _existing(job_id, lambda store: store.delete(job_id))


def _existing(job_id: str, change: Verb[bool]) -> Verb[bool]:
    """The change; a job that it did not touch is looked for, so that a wrong id is not taken for a job that ended."""

    async def verb(store: Backend) -> bool:
        if await change(store):
            return True
        if await store.get(job_id) is None:
            raise JobNotFoundError(f"The store has no job of the id {job_id!r:.200}.")
        return False

    return verb


def _list(
    status: object,
    queue: str | None,
    task: str | None,
    text: object,
    limit: object,
    cursor: str | None,
    scan: object,
) -> Verb[Page]:
    wanted = None if status is None else _status(status)
    if queue is not None:
        check_queue(queue, "app.list(): queue")
    if task is not None:
        check_task_name(task, "app.list(): task")
    if text is not None and not isinstance(text, str):
        raise ConfigurationError(f"app.list(): text: {text!r:.100} is none to look for.")
    if cursor is not None and not isinstance(cursor, str):
        raise ConfigurationError(f"app.list(): cursor: {cursor!r:.100} is none; give the one that a page named.")
    page = _count(limit, "limit", LONGEST_PAGE)
    looked_at = None if scan is None else _count(scan, "scan", LONGEST_SCAN)
    found = None if text is None else text_of_an_id(text)
    after = None if cursor is None else text_of_an_id(cursor)
    return lambda store: store.list(
        status=wanted, queue=queue, task=task, text=found, limit=page, cursor=after, scan=looked_at
    )


def _count(value: object, name: str, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise ConfigurationError(f"app.list(): {name}: {value!r:.100} is not a whole number from 1 to {most}.")
    return value


def _status(value: object) -> JobStatus:
    for status in JobStatus:
        if status == value:
            return status
    raise ConfigurationError(f"app.list(): status: {value!r} is none; there are {', '.join(JobStatus)}.")
