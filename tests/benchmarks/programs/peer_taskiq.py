"""taskiq-redis with its `taskiq worker` command on uvloop, one worker process, without a result backend.

By default its list, which a worker pops from: nothing is acknowledged. With the variant "stream" its Redis stream: each
job is acknowledged. A delayed job needs its scheduler, a program more; that is not measured.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from asynchronous import AsynchronousProgram
from measuring import main
from redis_program import RedisProgram

# So many jobs are on their way at once while the queue is laid.
LAID_AT_ONCE = 50


class TaskIq(AsynchronousProgram, RedisProgram):
    name = "taskiq-redis"
    distribution = "taskiq-redis"
    shapes = ("enqueue", "drain", "latency", "idle")

    def load(self) -> None:
        super().load()
        import taskiq_tasks

        self.broker = taskiq_tasks.broker
        self.noop = getattr(taskiq_tasks, f"noop_{self.kind}")
        self.stamp = getattr(taskiq_tasks, f"stamp_{self.kind}")
        if self.arguments.shape != "work":
            self.wait_for(self.broker.startup())

    def enqueue(self, index: int) -> None:
        self.wait_for(self.stamp.kiq(index))

    def load_noops(self, jobs: int) -> None:
        async def lay() -> None:
            for begun in range(0, jobs, LAID_AT_ONCE):
                await asyncio.gather(*(self.noop.kiq() for _ in range(min(LAID_AT_ONCE, jobs - begun))))

        self.wait_for(lay())

    def work(self) -> None:
        from taskiq.__main__ import main as command

        slots = self.arguments.slots
        bounds = ["--max-async-tasks", str(slots)] if slots else []
        bounds += ["--max-threadpool-threads", str(slots)] if slots and self.kind == "thread" else []
        sys.argv = ["taskiq", "worker", "taskiq_tasks:broker", "--workers", "1", "--log-level", "WARNING", *bounds]
        command()

    def unfinished(self) -> bool:
        if self.arguments.variant != "stream":
            return self.length("taskiq") > 0
        groups: list[Any] = self.store.client.xinfo_groups("taskiq")
        return any(group["pending"] or group["lag"] for group in groups)

    def close(self) -> None:
        self.wait_for(self.broker.shutdown())


if __name__ == "__main__":
    main(TaskIq)
