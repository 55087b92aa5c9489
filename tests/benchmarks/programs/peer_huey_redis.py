"""huey's Redis store with its own consumer and worker threads.

A worker pops a job off the list and acknowledges nothing, so the drain ends with the last job's end. With the variant
"priority" its store with priorities.
"""

from __future__ import annotations

from typing import ClassVar

from measuring import main
from peer_huey import Huey
from redis_program import RedisProgram


class HueyOnRedis(Huey, RedisProgram):
    name: ClassVar[str] = "huey"
    distribution = "huey"

    def prepare(self) -> None:
        self.tasks.huey.pending_count()

    def load_noops(self, jobs: int) -> None:
        for _ in range(jobs):
            self.tasks.noop()

    def unfinished(self) -> bool:
        return self.tasks.huey.pending_count() > 0


if __name__ == "__main__":
    main(HueyOnRedis)
