"""Jobs as an app hands them out: what was read of a job, with the way back to the app to read it again, to wait for it,
and to decode what its function returned.

Only the facade knows of these. Everything below it, and hooks, deal in plain `Job` records.
"""

import asyncio
import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from threading import Event
from typing import Any, Self

from tinyjobs.app.access import StoreAccess, refuse_inside_loop
from tinyjobs.core.clock import Clock
from tinyjobs.core.codecs.registry import CodecRegistry
from tinyjobs.core.errors import JobNotFoundError, WaitTimeout
from tinyjobs.core.job import Job
from tinyjobs.core.status import JobStatus
from tinyjobs.core.trouble import Backoff
from tinyjobs.runtime.idle import FIRST_POLL
from tinyjobs.runtime.settings import WorkerSettings


class JobHandle:
    """A job as the methods of an app give it. It has the fields of `Job`, as they were read last, but for `result`.

    `record` is that `Job`. Copied or pickled, a handle becomes it.
    """

    __slots__ = ("_source", "record")

    record: Job
    id: str
    task: str
    queue: str
    status: JobStatus
    priority: int
    attempts: int
    max_attempts: int
    hand_backs: int
    claims: int
    run_at: float
    created_at: float
    started_at: float | None
    finished_at: float | None
    lease_expires_at: float | None
    expires_at: float | None
    scheduled_for: float | None
    worker_id: str | None
    key: str | None
    codec: str
    runs_after: str | None
    waiting_on: str | None
    last_error: str | None
    metadata: str | None
    payload: bytes | None
    existing: bool

    def __init__(self, record: Job, source: "Source") -> None:
        self.record = record
        self._source = source

    def __getattr__(self, name: str) -> Any:
        return getattr(self.record, name)

    def refresh(self) -> Self:
        """Read the job again, into this object. Raises `JobNotFoundError` for one that is not there any more.

        What the enqueue told, whether the job was `existing`, stays as it was.
        """
        job_id = self.id
        return self._read(self._source.access.run("await job.arefresh()", lambda store: store.get(job_id)))

    async def arefresh(self) -> Self:
        """The same from an event loop."""
        job_id = self.id
        return self._read(await self._source.access.arun(lambda store: store.get(job_id)))

    def wait(self, timeout: float | None = None) -> Self:
        """Return this object, read again, once the job has ended, well or badly. Looks as often as an idle worker.

        Raises `WaitTimeout` if it has not after `timeout` seconds by the app's clock. For scripts and tests: whoever
        cannot go on without the answer need not have sent a job.
        """
        refuse_inside_loop("await job.awaited(…)")
        waiting = Looks(self._source, timeout)
        while not self.refresh().status.is_final:
            Event().wait(waiting.pause(self))
        return self

    async def awaited(self, timeout: float | None = None) -> Self:
        """The same from an event loop."""
        waiting = Looks(self._source, timeout)
        alarm = waiting.alarm()
        try:
            while not (await self.arefresh()).status.is_final:
                await asyncio.wait([alarm], timeout=waiting.pause(self))
        finally:
            alarm.cancel()
        return self

    def result(self) -> Any:
        """What the function returned, decoded, as of the last reading.

        None as well where nothing is kept: the job has not ended, or not in success; its task does not store results;
        the time of `result_ttl` is over.
        """
        kept = self.record.result
        return None if kept is None else self._source.codecs.get(self.codec).decode(kept)

    def _read(self, found: Job | None) -> Self:
        if found is None:
            raise JobNotFoundError(
                f"The store has no job of the id {self.id!r:.200}: it was deleted since, or the transaction that it "
                f"was sent in has not committed."
            )
        if self.existing:
            found = replace(found, existing=True)
        self.record = found
        return self

    def __eq__(self, other: object) -> bool:
        return self.record == other.record if isinstance(other, JobHandle) else NotImplemented

    def __hash__(self) -> int:
        # Of what stays: a handle that is read again is still found in a set.
        return hash(self.id)

    def __repr__(self) -> str:
        return f"<job {self.id} of {self.task}, {self.status}>"

    def __reduce__(self) -> Any:
        return copy.copy, (self.record,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What a handle needs of its app."""

    access: StoreAccess
    codecs: CodecRegistry
    clock: Clock
    random: Random

    def handle(self, job: Job) -> JobHandle:
        """The job as the app hands it out."""
        return JobHandle(job, self)

    def handles(self, jobs: Sequence[Job]) -> list[JobHandle]:
        """Each of them."""
        return [JobHandle(job, self) for job in jobs]


class Looks:
    """How long to wait between two looks, and when that is enough.

    Looks are a worker's: their pauses are real time and grow. The end goes by the app's clock.
    """

    def __init__(self, source: Source, timeout: float | None) -> None:
        self._source = source
        self._timeout = _checked(timeout)
        self._began = source.clock.monotonic()
        self._looks = Backoff(first=FIRST_POLL, ceiling=WorkerSettings().poll)

    def pause(self, job: JobHandle) -> float:
        """The seconds to the next look. Raises `WaitTimeout` when there is none any more."""
        spread = self._looks.failed() * (0.75 + self._source.random.random() / 2)
        if self._timeout is None:
            return spread
        left = self._began + self._timeout - self._source.clock.monotonic()
        if left <= 0:
            raise WaitTimeout(f"The job {job.id} of {job.task} is still {job.status} after {self._timeout:g} s.")
        return min(spread, left)

    def alarm(self) -> "asyncio.Future[None]":
        """What is done when the time is over, for a clock that is moved by hand; to be cancelled."""
        if self._timeout is None:
            return asyncio.get_running_loop().create_future()
        return asyncio.ensure_future(self._source.clock.sleep(self._timeout))


def _checked(timeout: object) -> float | None:
    if timeout is None:
        return None
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout >= 0 or timeout == math.inf:
        raise ValueError(f"timeout: {timeout!r} is not a number of seconds. Leave it out to wait without an end.")
    return float(timeout)
