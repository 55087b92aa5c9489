"""The seam between the engine and a store: the `Backend` protocol, what a store can do, and the defaults.

Every method is a coroutine. A store writes the verbs of `BaseBackend` marked abstract; everything that can be said in
terms of those has a default there, which a store overrides where it can do better in one round trip or transaction.
Nothing here may know a driver, a task function or an executor.

Verbs every store must honour, and their guarantees, are held by `tinyjobs.testing.BackendContract`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast, runtime_checkable

from tinyjobs.backends.housekeeping import HousekeepingVerbs, KeepsEverything
from tinyjobs.backends.schedules import KeepsNoSchedules, ScheduleVerbs, unsupported
from tinyjobs.backends.watching import KeepsNoWatch, WatchingVerbs
from tinyjobs.core.clock import Clock, SystemClock
from tinyjobs.core.job import (
    Claimed,
    ClaimRequest,
    Execution,
    Held,
    Job,
    Page,
    Recorded,
    Stats,
)
from tinyjobs.core.status import ExecutionStatus, JobStatus
from tinyjobs.core.transitions import ExecutionError, Outcome, failed, handed_back, released, succeeded


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a store can do. A store names only what differs, so a capability added later leaves it as it was.

    `transactional_enqueue`: it takes `tx=`, a transaction of the caller's to write jobs in; with `joins_cold` also
    before it was set up. `max_payload_bytes`: of the encoded arguments of a job, and of its result.
    """

    priority: bool = True
    delayed: bool = True
    dedup: bool = False
    transactional_enqueue: bool = False
    joins_cold: bool = False
    retention: bool = False
    schedules: bool = False
    max_payload_bytes: int | None = None
    loop_bound: bool = False
    result_ttl: bool = False
    limits: bool = False
    after: bool = False
    delete: bool = False
    workers_seen: bool = False
    tallies: bool = False
    search: bool = False


@runtime_checkable
class Backend(ScheduleVerbs, HousekeepingVerbs, WatchingVerbs, Protocol):
    """A store of jobs, as everything above this floor sees it."""

    capabilities: Capabilities
    clock: Clock

    async def setup(self) -> None:
        """Make the store ready: create or check its layout. Raises `NewerStoreError` for one too new."""
        ...

    async def close(self) -> None:
        """Let go of every connection. Safe to call twice."""
        ...

    def inline(self) -> "Backend":
        """A twin whose coroutines never suspend, for synchronous callers: `finish(store.inline().get(id))`.

        Each thread gets a connection of its own. A store without a synchronous client raises
        `UnsupportedCapabilityError`, and its callers go through an event loop instead.
        """
        ...

    def apart(self) -> "Backend":
        """The same store for an event loop of the caller's own, with connections of its own where those are bound to
        a loop; to be set up and closed by the caller. Otherwise the store itself.
        """
        ...

    def joined(self, tx: object) -> "Backend":
        """The store as seen from a transaction of the caller's: a twin that enqueues on the connection `tx`.

        Of the `inline()` twin it takes a connection for blocking calls, else one that is awaited. Raises
        `UnsupportedCapabilityError` for a store that cannot (`Capabilities.transactional_enqueue`), and
        `ConfigurationError` for a connection that is none of that kind; its verbs do for one to another store.
        """
        ...

    async def enqueue(self, job: Job) -> Job:
        """Keep the job; or give back the active job that holds its key, with `existing` set."""
        ...

    async def enqueue_many(self, jobs: Sequence[Job]) -> list[Job]:
        """Keep all of the jobs or none, answers in order. Jobs sharing a key become the first of them."""
        ...

    async def holder(self, key: str) -> Job | None:
        """The active job that holds a key, or None: nobody does, or the store cannot say."""
        ...

    async def claim(self, request: ClaimRequest) -> Claimed:
        """Hand due jobs to one worker, atomically: no job to two claims, none before its time."""
        ...

    async def record(self, outcomes: Sequence[Outcome], request: ClaimRequest | None = None) -> Recorded:
        """Apply each outcome whose claim still holds, and make the claim, in one transaction if the store has them."""
        ...

    def record_now(self, outcomes: Sequence[Outcome], request: ClaimRequest | None) -> Recorded | None:
        """The same in the calling thread, if that takes no waiting at all; None: nothing was done, use `record`.

        For a worker whose event loop has nothing else to do: it saves the way to another thread and back.
        """
        ...

    async def heartbeat(self, held: Sequence[Held], lease: float) -> Collection[Held]:
        """Lengthen the leases still held to `lease` seconds from now; the ones it renewed."""
        ...

    async def reap_expired(self, limit: int = 500, own: Callable[[], Collection[Held]] = tuple) -> list[Job]:
        """Take back jobs whose lease ran out; each as it stands afterwards (queued again, or failed for good).

        `own`: the claims that the caller holds itself, on any thread. It is asked once the jobs are found, and what it
        names is left alone: a process that was suspended may find them, awake again, before it renews them.
        """
        ...

    async def next_due(self, queues: Sequence[str] = ()) -> tuple[bool, float | None]:
        """Look without writing: whether a job of `queues` (none named: of any) is ready, and when the next one is due.

        The time is that of the next delayed job of any queue, since whoever claims lets them all in.
        """
        ...

    def hurry(self, deadline: float | None) -> None:
        """Give up waiting for locks or connections by `deadline` (the clock's monotonic seconds); None: as usual."""
        ...

    async def wait_for_jobs(self, timeout: float, queues: Sequence[str] = ()) -> bool:
        """Wait until a job of `queues` (none named: of any) may have been added; False: nothing in `timeout` seconds.

        The time is real time. A hint: polling stays the truth, and it may come for nothing. May raise
        `UnsupportedCapabilityError`; the worker then only polls.
        """
        ...

    def can_wake(self) -> bool:
        """Whether every job that is sent is told to `wait_for_jobs`, as far as is known at this moment.

        An idle worker then looks more rarely. False where that is not known for sure.
        """
        ...

    def claims_freely(self) -> bool:
        """Whether a claim that finds nothing costs others no more than a look: a woken worker then claims at once."""
        ...

    def nudge(self, queues: Collection[str] = ()) -> None:
        """Tell waiters in this process that jobs of `queues` (none named: of any) were added. From any thread."""
        ...

    async def claim_job(self, job_id: str, *, worker_id: str, lease: float) -> Job | None:
        """Claim this one job for `lease` seconds if it is queued and due, else None."""
        ...

    async def cancel(self, job_id: str) -> bool:
        """End the job if it has not ended; False if it had, or is not there. A running attempt is not interrupted."""
        ...

    async def requeue(self, job_id: str) -> bool:
        """Put a failed or cancelled job back, its attempts reset; False if it may not be, or its key is taken."""
        ...

    async def get(self, job_id: str) -> Job | None:
        """The job whole, or None."""
        ...

    async def executions(self, job_id: str) -> list[Execution]:
        """The attempts of a job in order, a running one included."""
        ...

    async def counts_by_status(self) -> dict[str, int]:
        """How many jobs there are of each status."""
        ...

    async def stats(self) -> Stats:
        """The store in figures."""
        ...

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
        """A page of jobs, newest first, without their large columns. Pages are keyed, so depth costs nothing.

        `text` keeps the jobs in whose id, task or encoded arguments it occurs, letters of either case alike; a store
        that does not declare `search` refuses it. At most `scan` jobs are looked at for a page: then it may hold fewer
        than `limit` and yet have a cursor to go on from, so that a rare task costs no walk through everything.
        """
        ...


class BaseBackend(KeepsNoSchedules, KeepsEverything, KeepsNoWatch, ABC):
    """What a store inherits: the abstract verbs are the ones it must write."""

    capabilities: Capabilities = Capabilities()

    def __init__(self, *, clock: Clock | None = None) -> None:
        self.clock: Clock = clock or SystemClock()

    # --- life ---------------------------------------------------------------------------------------------------

    async def setup(self) -> None:
        """Nothing to prepare by default."""

    async def close(self) -> None:
        """Nothing to let go of by default."""

    def inline(self) -> Backend:
        """No synchronous client by default."""
        raise unsupported(self, "synchronous calls in the caller's thread")

    def apart(self) -> Backend:
        """The store itself: nothing is bound to a loop by default."""
        return cast(Backend, self)

    def joined(self, tx: object) -> Backend:
        """Not possible by default."""
        raise unsupported(self, "joining a transaction of yours (tx=)")

    # --- producing ----------------------------------------------------------------------------------------------

    @abstractmethod
    async def enqueue_many(self, jobs: Sequence[Job]) -> list[Job]:
        """See `Backend.enqueue_many`."""

    async def enqueue(self, job: Job) -> Job:
        """One job, as a group of one."""
        return (await self.enqueue_many([job]))[0]

    async def holder(self, key: str) -> Job | None:
        """Unknown by default: an enqueue finds out."""
        return None

    # --- consuming ----------------------------------------------------------------------------------------------

    @abstractmethod
    async def claim(self, request: ClaimRequest) -> Claimed:
        """See `Backend.claim`."""

    @abstractmethod
    async def record(self, outcomes: Sequence[Outcome], request: ClaimRequest | None = None) -> Recorded:
        """See `Backend.record`."""

    def record_now(self, outcomes: Sequence[Outcome], request: ClaimRequest | None) -> Recorded | None:
        """Never possible by default."""
        return None

    @abstractmethod
    async def heartbeat(self, held: Sequence[Held], lease: float) -> Collection[Held]:
        """See `Backend.heartbeat`."""

    @abstractmethod
    async def reap_expired(self, limit: int = 500, own: Callable[[], Collection[Held]] = tuple) -> list[Job]:
        """See `Backend.reap_expired`."""

    @abstractmethod
    async def next_due(self, queues: Sequence[str] = ()) -> tuple[bool, float | None]:
        """See `Backend.next_due`."""

    def hurry(self, deadline: float | None) -> None:
        """Nothing to hurry by default."""

    async def wait_for_jobs(self, timeout: float, queues: Sequence[str] = ()) -> bool:
        """No wake-ups by default: the worker polls."""
        raise unsupported(self, "wake-ups")

    def can_wake(self) -> bool:
        """Not to be relied on by default."""
        return False

    def claims_freely(self) -> bool:
        """Not by default: a look comes first."""
        return False

    def nudge(self, queues: Collection[str] = ()) -> None:
        """Nobody to wake by default."""

    @abstractmethod
    async def claim_job(self, job_id: str, *, worker_id: str, lease: float) -> Job | None:
        """See `Backend.claim_job`."""

    async def complete(self, job: Job, result: bytes | None = None) -> bool:
        """Record success; False when the claim no longer holds."""
        return await self._record_one(succeeded(job, result, self.clock.now()))

    async def fail(
        self,
        job: Job,
        error: ExecutionError,
        retry_at: float | None = None,
        status: ExecutionStatus = ExecutionStatus.FAILED,
    ) -> bool:
        """Record a failed attempt, to run again at `retry_at` or for good; False when the claim no longer holds."""
        return await self._record_one(failed(job, error, retry_at, self.clock.now(), status))

    async def release(self, job: Job, delay: float = 0.0) -> bool:
        """Put back a job whose run was cut short on purpose; the attempt is not used."""
        return await self._record_one(released(job, self.clock.now(), delay))

    async def release_many(self, jobs: Sequence[Job]) -> int:
        """Put back many at once; how many were still held."""
        now = self.clock.now()
        return sum((await self.record([released(job, now) for job in jobs])).applied)

    async def hand_back(self, job: Job, delay: float = 0.0) -> bool:
        """Undo a claim that never became a run."""
        return await self._record_one(handed_back(job, self.clock.now(), delay))

    async def _record_one(self, outcome: Outcome) -> bool:
        recorded = await self.record([outcome])
        if 0 in recorded.refused:
            raise recorded.refused[0]
        return recorded.applied[0]

    # --- control ------------------------------------------------------------------------------------------------

    @abstractmethod
    async def cancel(self, job_id: str) -> bool:
        """See `Backend.cancel`."""

    @abstractmethod
    async def requeue(self, job_id: str) -> bool:
        """See `Backend.requeue`."""

    @abstractmethod
    async def get(self, job_id: str) -> Job | None:
        """See `Backend.get`."""

    @abstractmethod
    async def executions(self, job_id: str) -> list[Execution]:
        """See `Backend.executions`."""

    @abstractmethod
    async def counts_by_status(self) -> dict[str, int]:
        """See `Backend.counts_by_status`."""

    @abstractmethod
    async def stats(self) -> Stats:
        """See `Backend.stats`."""

    # Last in the class: below it, `list` would name this method where a type is meant.
    @abstractmethod
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
        """See `Backend.list`."""


class BackendFactory(Protocol):
    """What an entry point of the group `tinyjobs.backends` names.

    Makes a store from its URL, the app's clock, and the options given beside the URL.
    """

    def __call__(self, url: str, *, clock: Clock, **options: Any) -> Backend:
        """The store, not yet connected."""
        ...
