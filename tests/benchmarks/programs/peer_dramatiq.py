"""dramatiq with its `dramatiq` command and one worker process; its slots are threads, eight unless told otherwise.

A coroutine runs on one event loop beside them, while a thread waits for it.
"""

from __future__ import annotations

import sys

from measuring import main
from redis_program import RedisProgram


class Dramatiq(RedisProgram):
    name = "dramatiq"
    distribution = "dramatiq"
    shapes = ("enqueue", "drain", "latency", "idle", "lateness")

    def load(self) -> None:
        import dramatiq_tasks

        self.noop = getattr(dramatiq_tasks, f"noop_{self.kind}")
        self.stamp = getattr(dramatiq_tasks, f"stamp_{self.kind}")

    def enqueue(self, index: int) -> None:
        self.stamp.send(index)

    def enqueue_delayed(self, index: int, delay: float) -> None:
        self.stamp.send_with_options(args=(index,), delay=int(1000 * delay))

    def send_noop(self) -> None:
        self.noop.send()

    def work(self) -> None:
        from dramatiq.cli import main as command
        from dramatiq.cli import make_argument_parser

        threads = str(self.arguments.slots or 8)
        given = ["dramatiq_tasks", "--processes", "1", "--threads", threads, "--skip-logging"]
        command(make_argument_parser().parse_args(given))

    def unfinished(self) -> bool:
        """A message stays in this hash until it is acknowledged."""
        return self.length("dramatiq:default.msgs") > 0


if __name__ == "__main__":
    sys.exit(main(Dramatiq))
