"""The floor: a loop of one LPUSH for each job through redis-py, and lists of them in one; nothing that a queue adds.

A drain moves each job to a second list, runs it, and takes it away from there: the least that loses nothing.
"""

from __future__ import annotations

from collections.abc import Callable

from measuring import main
from redis_program import RedisProgram

READY, RUNNING = "ready", "running"
# What a job takes at the least: its task, its id, its arguments.
SAMPLE = '{"task": "benchapp.tasks.noop", "id": "0197b2c0-7e57-7000-8000-%012d", "args": [%d]}'
AT_ONCE = 1_000


class BareRedis(RedisProgram):
    name = "bare redis-py"
    distribution = "redis"
    kinds = ("coroutine", "thread")
    shapes = ("enqueue", "bulk", "drain")

    def load(self) -> None:
        """There is nothing to load."""

    def enqueue(self, index: int) -> None:
        self.store.client.lpush(READY, SAMPLE % (index, index))

    def enqueue_many(self, indexes: range) -> None:
        for begun in range(0, len(indexes), AT_ONCE):
            self.store.client.lpush(READY, *(SAMPLE % (one, one) for one in indexes[begun : begun + AT_ONCE]))

    def load_noops(self, jobs: int) -> None:
        self.enqueue_many(range(jobs))

    def work(self) -> None:
        from board import mark

        job: Callable[[], None] = mark
        client = self.store.client
        while True:
            taken = client.blmove(READY, RUNNING, 1, "RIGHT", "LEFT")
            if taken is not None:
                job()
                client.lrem(RUNNING, 1, taken)

    def unfinished(self) -> bool:
        return self.length(READY) + self.length(RUNNING) > 0


if __name__ == "__main__":
    main(BareRedis)
