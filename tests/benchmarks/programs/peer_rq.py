"""rq with its `rq worker` command, one job at a time. By default it forks for each job; with the variant "simple" its
`SimpleWorker`, which does not. A delayed job needs a scheduler beside it; that is not measured.
"""

from __future__ import annotations

import sys

from measuring import main
from redis_program import RedisProgram


class RQ(RedisProgram):
    name = "rq"
    distribution = "rq"
    kinds = ("thread",)
    shapes = ("enqueue", "bulk", "drain", "latency", "idle")

    def load(self) -> None:
        import rq_tasks
        from rq import Queue

        self.tasks = rq_tasks
        self.queue = Queue(connection=self.store.client)

    def enqueue(self, index: int) -> None:
        self.queue.enqueue(self.tasks.stamp, index)

    def enqueue_many(self, indexes: range) -> None:
        self.queue.enqueue_many([self.queue.prepare_data(self.tasks.stamp, (index,)) for index in indexes])

    def load_noops(self, jobs: int) -> None:
        self.queue.enqueue_many([self.queue.prepare_data(self.tasks.noop) for _ in range(jobs)])

    def work(self) -> None:
        from rq.cli import main as command

        kind = "rq.SimpleWorker" if self.arguments.variant == "simple" else "rq.Worker"
        sys.argv = ["rq", "worker", "--quiet", "--worker-class", kind]
        sys.argv += ["--url", self.arguments.store, "default"]
        command()

    def unfinished(self) -> bool:
        return bool(self.queue.count or self.queue.started_job_registry.count)

    def finished(self) -> int | None:
        return int(self.queue.finished_job_registry.count)


if __name__ == "__main__":
    main(RQ)
