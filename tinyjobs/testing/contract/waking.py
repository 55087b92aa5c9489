"""Waking: hints that a job may have become ready. Polling stays the truth, so a store may do without them."""

import asyncio
from collections.abc import Awaitable, Callable

from tinyjobs.core.errors import UnsupportedCapabilityError
from tinyjobs.testing.contract.case import ContractCase


class Waking(ContractCase):
    """`wait_for_jobs`, `nudge` and `hurry`."""

    async def test_waiting_ends_by_itself(self) -> None:
        """With nothing to tell, a wait is over at its time and says so."""
        await self._needs_waiting()
        async with asyncio.timeout(60):
            # A store that has only now begun to listen may say so once: what came before went unheard.
            while await self._wait(0.01):
                continue

    async def test_a_nudge_ends_the_wait(self) -> None:
        """Everybody of this process who waits on the store hears of it."""
        await self._needs_waiting()
        waiting = [asyncio.create_task(self._wait(600)) for _ in range(3)]
        await self._nudge_until_done(waiting)
        self.assertEqual([task.result() for task in waiting], [True] * 3)

    async def test_an_enqueue_of_this_process_ends_the_wait(self) -> None:
        """A job sent through the store, alone or with others, is told to those who wait on it."""
        await self._needs_waiting()
        sending: list[Callable[[], Awaitable[object]]] = [self.put, self._put_two]
        for send in sending:
            waiting = asyncio.create_task(self._wait(600))
            # Nothing says when a store has begun to wait, so jobs are sent until it was told.
            while not waiting.done():
                await send()
                await asyncio.wait([waiting], timeout=0.01)
            self.assertTrue(waiting.result())

    async def test_a_wait_for_some_queues_ends_with_a_job_of_one_of_them(self) -> None:
        """And with a nudge that names no queue. One for others alone may end it as well: it is a hint."""
        await self._needs_waiting()
        sending: list[Callable[[], Awaitable[object]]] = [
            lambda: self.put(queue="mine"),
            lambda: asyncio.to_thread(self._made.nudge, ["other", "mine"]),
            lambda: asyncio.to_thread(self._made.nudge),
        ]
        for send in sending:
            waiting = asyncio.create_task(self._made.wait_for_jobs(600, ["mine", "a third"]))
            while not waiting.done():
                await send()
                await asyncio.wait([waiting], timeout=0.01)
            self.assertTrue(waiting.result())
        self.assertIsInstance(self._made.can_wake(), bool)

    async def test_a_nudge_without_anybody(self) -> None:
        """Is no error, from any thread, and neither is hurrying a store that waits for nothing."""
        self.store.nudge()
        await asyncio.to_thread(self.store.nudge)
        self.store.hurry(0.0)
        await self.put()
        self.store.hurry(None)
        self.assertEqual(len(await self.take()), 1)

    async def _put_two(self) -> None:
        await self.store.enqueue_many([self.job(), self.job()])

    async def _wait(self, timeout: float) -> bool:
        # Always on the loop: whoever has none does not wait this way, but what it sends is heard here.
        return await self._made.wait_for_jobs(timeout)

    async def _needs_waiting(self) -> None:
        try:
            await asyncio.wait_for(self._wait(0), 60)
        except UnsupportedCapabilityError as error:
            self.skipTest(f"this store is polled: {error}")

    async def _nudge_until_done(self, waiting: list[asyncio.Task[bool]]) -> None:
        while True:
            self.store.nudge()
            _, pending = await asyncio.wait(waiting, timeout=0.01)
            if not pending:
                return
