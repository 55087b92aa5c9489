"""saq with its `saq` command, on uvloop; ten jobs at a time unless told otherwise. Plain functions run in threads."""

from __future__ import annotations

import asyncio
import sys
import time

from asynchronous import AsynchronousProgram
from measuring import main
from redis_program import RedisProgram

# It lets no more through at once.
LAID_AT_ONCE = 20


class Saq(AsynchronousProgram, RedisProgram):
    name = "saq"
    distribution = "saq"
    shapes = ("enqueue", "drain", "latency", "idle", "lateness")

    def load(self) -> None:
        super().load()
        import saq_tasks

        self.queue = saq_tasks.queue
        self.noop, self.stamp = f"noop_{self.kind}", f"stamp_{self.kind}"

    def enqueue(self, index: int) -> None:
        self.wait_for(self.queue.enqueue(self.stamp, index=index))

    def enqueue_delayed(self, index: int, delay: float) -> None:
        self.wait_for(self.queue.enqueue(self.stamp, index=index, scheduled=time.time() + delay))

    def load_noops(self, jobs: int) -> None:
        async def lay() -> None:
            for begun in range(0, jobs, LAID_AT_ONCE):
                count = min(LAID_AT_ONCE, jobs - begun)
                await asyncio.gather(*(self.queue.enqueue(self.noop) for _ in range(count)))

        self.wait_for(lay())

    def work(self) -> None:
        import uvloop
        from saq.__main__ import main as command

        uvloop.install()
        sys.argv = ["saq", "saq_tasks.settings", "--quiet"]
        command()

    def unfinished(self) -> bool:
        return self.length("saq:default:incomplete") > 0

    def close(self) -> None:
        self.wait_for(self.queue.disconnect())


if __name__ == "__main__":
    main(Saq)
