"""streaq with its `streaq run` command on uvloop; sixteen jobs at a time unless told otherwise."""

from __future__ import annotations

import asyncio
import sys

from asynchronous import AsynchronousProgram
from measuring import main
from redis_program import RedisProgram

STREAM = "streaq:default:queues:normal"


class Streaq(AsynchronousProgram, RedisProgram):
    name = "streaq"
    distribution = "streaq"

    def load(self) -> None:
        super().load()
        import streaq_tasks

        self.worker = streaq_tasks.worker
        self.noop = getattr(streaq_tasks, f"noop_{self.kind}")
        self.stamp = getattr(streaq_tasks, f"stamp_{self.kind}")
        if self.arguments.shape != "work":
            self.wait_for(self._open())

    async def _open(self) -> None:
        """Its client is entered and left by one task, which has to live as long as this program sends."""
        opened, self.done = asyncio.Event(), asyncio.Event()

        async def hold() -> None:
            async with self.worker:
                opened.set()
                await self.done.wait()

        self.holder = asyncio.create_task(hold())
        await opened.wait()

    def enqueue(self, index: int) -> None:
        async def send() -> None:
            await self.stamp.enqueue(index)

        self.wait_for(send())

    def enqueue_delayed(self, index: int, delay: float) -> None:
        async def send() -> None:
            await self.stamp.enqueue(index).start(delay=delay)

        self.wait_for(send())

    def enqueue_many(self, indexes: range) -> None:
        self.wait_for(self.worker.enqueue_many([self.stamp.enqueue(index) for index in indexes]))

    def load_noops(self, jobs: int) -> None:
        self.wait_for(self.worker.enqueue_many([self.noop.enqueue() for _ in range(jobs)]))

    def work(self) -> None:
        from streaq.cli import cli as command

        sys.argv = ["streaq", "run", "streaq_tasks:worker"]
        command()

    def unfinished(self) -> bool:
        """A job is taken off the stream when it ends."""
        return self.length(STREAM) > 0

    def close(self) -> None:
        async def leave() -> None:
            self.done.set()
            await self.holder

        self.wait_for(leave())


if __name__ == "__main__":
    main(Streaq)
