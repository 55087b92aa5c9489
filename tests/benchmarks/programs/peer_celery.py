"""celery with its `celery worker` command, without results, gossip, mingle and heartbeat, as for speed.

Its slots are threads of its thread pool. With the variant "prefork" its default pool, with one process for one worker.
"""

from __future__ import annotations

from measuring import main
from redis_program import RedisProgram


class CeleryProgram(RedisProgram):
    name = "celery"
    distribution = "celery"
    kinds = ("thread",)
    shapes = ("enqueue", "drain", "latency", "idle", "lateness")

    def load(self) -> None:
        import celery_tasks

        self.tasks = celery_tasks

    def enqueue(self, index: int) -> None:
        self.tasks.stamp.delay(index)

    def enqueue_delayed(self, index: int, delay: float) -> None:
        self.tasks.stamp.apply_async((index,), countdown=delay)

    def send_noop(self) -> None:
        self.tasks.noop.delay()

    def work(self) -> None:
        prefork = self.arguments.variant == "prefork"
        pool = ["prefork", "--concurrency", "1"] if prefork else ["threads", "--concurrency", str(self._slots)]
        quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel", "WARNING"]
        self.tasks.app.worker_main(["worker", "--pool", *pool, *quiet, "-n", f"worker-{id(self)}@%h"])

    @property
    def _slots(self) -> int:
        return self.arguments.slots or 8

    def unfinished(self) -> bool:
        return self.length("celery") + self.length("unacked") > 0


if __name__ == "__main__":
    main(CeleryProgram)
