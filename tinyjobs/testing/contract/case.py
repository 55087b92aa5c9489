"""What the contract's tests stand on: the store under test, its other clients, the clock, and short ways to say things.

Races start behind a barrier: every contender is ready before the first one calls. May use nothing of a store but the
`Backend` protocol, so outcomes are made by `core.transitions` and applied by `record`.
"""

import asyncio
import functools
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from tinyjobs.backends.base import Backend
from tinyjobs.core.clock import Clock, FrozenClock
from tinyjobs.core.ids import IdSource
from tinyjobs.core.job import Claimed, ClaimRequest, Held, Job, Room
from tinyjobs.core.status import ExecutionStatus, JobStatus
from tinyjobs.core.transitions import ExecutionError, Outcome, failed, handed_back, released, succeeded
from tinyjobs.testing.contract.syncface import SyncFace

if TYPE_CHECKING:
    from unittest import IsolatedAsyncioTestCase as _TestCase
else:
    _TestCase = object

ERROR = ExecutionError(error_type="builtins.ValueError", message="no such order", traceback="Traceback: no such order")
type _Test = Callable[[Any], Coroutine[Any, Any, None]]


def needs(capability: str) -> Callable[[_Test], _Test]:
    """Run the test only on a store that declares the capability; elsewhere it is skipped and says so."""

    def mark(test: _Test) -> _Test:
        @functools.wraps(test)
        async def run(case: "ContractCase") -> None:
            if not getattr(case.store.capabilities, capability):
                case.skipTest(f"{type(case._made).__name__} does not declare the capability {capability!r}")
            await test(case)

        return run

    return mark


class ContractCase(_TestCase):
    """One fresh store per test. `self.store` is the face under test; the clock starts still and stays so."""

    #: Whether clients made by `another_client` see the same jobs. Without, one client is raced against itself.
    independent_clients: ClassVar[bool] = True
    #: Whether every verb goes by `store.inline()`, in a thread of its own for each client.
    through_sync_face: ClassVar[bool] = False
    #: How many clients race, and how often.
    racers: ClassVar[int] = 4
    rounds: ClassVar[int] = 6

    clock: FrozenClock
    store: Backend

    async def make_backend(self, clock: Clock) -> Backend:
        """Make a store that is empty and nobody else's. `setup()` and `close()` are called by the suite."""
        raise NotImplementedError("Write make_backend(clock): a fresh, empty store for every test.")

    async def another_client(self, backend: Backend, clock: Clock) -> Backend:
        """Make another client of the same store, with connections of its own."""
        raise NotImplementedError("Write another_client(backend, clock), or set independent_clients = False.")

    async def asyncSetUp(self) -> None:
        """Make the store, through the face that is under test."""
        await super().asyncSetUp()
        self.clock = FrozenClock()
        self._ids = IdSource()
        self._races = 0
        self._made = await self.make_backend(self.clock)
        self.store = await self._ready(self._made)
        self._others: list[Backend] = []

    async def _ready(self, made: Backend) -> Backend:
        self.addAsyncCleanup(made.close)
        face = made
        if self.through_sync_face:
            face = SyncFace.of(made)
            self.addAsyncCleanup(face.close)
        await face.setup()
        return face

    async def clients(self, count: int | None = None) -> list[Backend]:
        """The store and other clients of it, `count` in all (by default as many as race)."""
        count = count or self.racers
        if not self.independent_clients:
            return [self.store] * count
        while len(self._others) < count - 1:
            self._others.append(await self._ready(await self.another_client(self._made, self.clock)))
        return [self.store, *self._others[: count - 1]]

    async def race[T](self, *calls: Coroutine[Any, Any, T]) -> list[T]:
        """Start every call at the same moment; their answers in order.

        On one loop somebody is always first by a hair; who it is goes round from race to race.
        """
        barrier = asyncio.Barrier(len(calls))

        async def run(call: Coroutine[Any, Any, T]) -> T:
            await barrier.wait()
            return await call

        self._races += 1
        turn = self._races % len(calls)
        tasks = {place: asyncio.create_task(run(calls[place])) for place in (*range(turn, len(calls)), *range(turn))}
        await asyncio.gather(*tasks.values())
        return [tasks[place].result() for place in range(len(calls))]

    # --- jobs -----------------------------------------------------------------------------------------------------

    def job(self, **values: Any) -> Job:
        """A job that is due now, with the given fields; newer than every one made before."""
        now = self.clock.now()
        values = {"run_at": now, "created_at": now, "payload": b"{}", "max_attempts": 3, **values}
        return Job(**{"id": self._ids.make(now), "task": "shop.tasks.pack", **values})

    async def put(self, **values: Any) -> Job:
        """Enqueue such a job."""
        return await self.store.enqueue(self.job(**values))

    async def take(self, limit: int = 1, **values: Any) -> list[Job]:
        """Claim up to `limit` jobs; the arguments are those of a `ClaimRequest`, and `by` the client."""
        return (await self.claim(limit, **values)).jobs

    async def claim(self, limit: int = 1, *, by: Backend | None = None, **values: Any) -> Claimed:
        """Claim up to `limit` jobs, with the whole answer."""
        return await (by or self.store).claim(self.request(limit, **values))

    def request(
        self,
        limit: int = 1,
        *,
        worker: str = "worker-1",
        lease: float = 60.0,
        queues: Iterable[str] = (),
        room: Room | None = None,
    ) -> ClaimRequest:
        """What a worker asks for."""
        return ClaimRequest(worker_id=worker, limit=limit, lease=lease, queues=tuple(queues), room=room)

    async def running(self, **values: Any) -> Job:
        """A job that runs under `worker-1`, with a lease of a minute."""
        await self.put(**values)
        return await self.one(self.take())

    async def one(self, taking: Awaitable[Sequence[Job]]) -> Job:
        """The only job of an answer."""
        jobs = await taking
        self.assertEqual(len(jobs), 1, "expected exactly one job")
        return jobs[0]

    async def read(self, job: Job | str) -> Job:
        """The job as it stands in the store."""
        job_id = job if isinstance(job, str) else job.id
        found = await self.store.get(job_id)
        assert found is not None, f"the store has no job {job_id}"
        return found

    # --- outcomes -------------------------------------------------------------------------------------------------

    async def record(self, *outcomes: Outcome, by: Backend | None = None) -> list[bool]:
        """Record a group; for each outcome whether it was applied. None may be refused."""
        recorded = await (by or self.store).record(outcomes)
        self.assertEqual(dict(recorded.refused), {}, "the store refused data it should take")
        return recorded.applied

    async def complete(self, job: Job, result: bytes | None = None, *, by: Backend | None = None) -> bool:
        """Report success."""
        (applied,) = await self.record(succeeded(job, result, self.clock.now()), by=by)
        return applied

    async def fail_job(
        self, job: Job, retry_at: float | None = None, *, error: ExecutionError = ERROR, by: Backend | None = None
    ) -> bool:
        """Report a failed attempt, for good or to be retried."""
        (applied,) = await self.record(failed(job, error, retry_at, self.clock.now()), by=by)
        return applied

    async def release(self, job: Job, delay: float = 0.0, *, by: Backend | None = None) -> bool:
        """Give back a job whose run was cut short."""
        (applied,) = await self.record(released(job, self.clock.now(), delay), by=by)
        return applied

    async def hand_back(self, job: Job, delay: float = 0.0, *, by: Backend | None = None) -> bool:
        """Give back a job that was claimed and never run."""
        (applied,) = await self.record(handed_back(job, self.clock.now(), delay), by=by)
        return applied

    async def holds(self, job: Job, *, by: Backend | None = None, lease: float = 60.0) -> bool:
        """Whether a heartbeat of that claim is answered."""
        held = Held(job.id, job.claims)
        renewed = await (by or self.store).heartbeat([held], lease)
        self.assertLessEqual(set(renewed), {held})
        return held in renewed

    # --- looking --------------------------------------------------------------------------------------------------

    def assert_ids(self, found: Iterable[Job], expected: Iterable[Job], message: str | None = None) -> None:
        """The same jobs in the same order."""
        self.assertEqual([job.id for job in found], [job.id for job in expected], message)

    async def assert_attempts(self, job: Job | str, *expected: tuple[int, int, ExecutionStatus]) -> None:
        """The job's executions, each as (claim, attempt, status), in order."""
        job_id = job if isinstance(job, str) else job.id
        found = await self.store.executions(job_id)
        self.assertEqual([(entry.claim, entry.attempt, entry.status) for entry in found], list(expected))

    async def assert_status(self, job: Job | str, status: JobStatus) -> Job:
        """The job stands there; the job as read."""
        found = await self.read(job)
        self.assertEqual(found.status, status)
        return found

    async def assert_untouched(self, before: Job, what: str = "a stale call") -> None:
        """The job is what it was, to the last field."""
        self.assertEqual(await self.read(before), before, f"{what} changed the job")
