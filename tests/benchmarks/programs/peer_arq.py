"""arq with its `arq` command on uvloop; coroutines alone, ten at a time unless told otherwise.

It looks for jobs every half second. With the variant "restless" every hundredth, which its documentation does not
recommend and which is the best it can do.
"""

from __future__ import annotations

import asyncio
import sys

from asynchronous import AsynchronousProgram
from measuring import main
from redis_program import RedisProgram

LAID_AT_ONCE = 50


class Arq(AsynchronousProgram, RedisProgram):
    name = "arq"
    distribution = "arq"
    kinds = ("coroutine",)
    shapes = ("enqueue", "drain", "latency", "idle", "lateness")

    def load(self) -> None:
        super().load()
        import arq_tasks

        if self.arguments.shape != "work":
            from arq import create_pool

            self.pool = self.wait_for(create_pool(arq_tasks.redis_settings))

    def enqueue(self, index: int) -> None:
        self.wait_for(self.pool.enqueue_job("stamp_coroutine", index))

    def enqueue_delayed(self, index: int, delay: float) -> None:
        self.wait_for(self.pool.enqueue_job("stamp_coroutine", index, _defer_by=delay))

    def load_noops(self, jobs: int) -> None:
        async def lay() -> None:
            for begun in range(0, jobs, LAID_AT_ONCE):
                count = min(LAID_AT_ONCE, jobs - begun)
                await asyncio.gather(*(self.pool.enqueue_job("noop_coroutine") for _ in range(count)))

        self.wait_for(lay())

    def work(self) -> None:
        import uvloop
        from arq.cli import cli as command

        uvloop.install()
        sys.argv = ["arq", "arq_tasks.WorkerSettings", "--custom-log-dict", "arq_tasks.quiet"]
        command()

    def unfinished(self) -> bool:
        """A job is taken off the queue when it ends."""
        return self.length("arq:queue") > 0

    def close(self) -> None:
        self.wait_for(self.pool.aclose())


if __name__ == "__main__":
    main(Arq)
