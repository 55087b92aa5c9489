"""Eager sends by the facade. With the variant "floor", a claim and a completion for each job, and nothing else.

The floor goes by the verbs of the store on jobs that stand there already: no enqueue, no task, no hooks, no handle.
"""

from __future__ import annotations

import os
import time

from measuring import Program, main


class Eager(Program):
    name = "tinyjobs, eager"
    shapes = ("enqueue",)

    def load(self) -> None:
        from tinyjobs import TinyJobs
        from tinyjobs.core.inline import finish
        from tinyjobs.core.transitions import succeeded

        self.finish, self.succeeded = finish, succeeded
        self.is_floor = self.arguments.variant == "floor"
        store = os.environ["BENCH_STORE"]
        self.app = TinyJobs(store if "://" in store else f"sqlite:///{store}", eager=not self.is_floor)

        @self.app.task(name="nothing")
        def nothing(index: int) -> None: ...

        self.task = nothing

    def prepare(self) -> None:
        self.app.setup()
        if self.is_floor:
            sent = self.task.enqueue_many([(index,) for index in range(self.arguments.jobs + 100)])
            self.ids = iter([job.id for job in sent])
            self.inline = self.app.store.inline()

    def enqueue(self, index: int) -> None:
        if not self.is_floor:
            self.task.enqueue(index)
            return
        job = self.finish(self.inline.claim_job(next(self.ids), worker_id="floor", lease=60.0))
        self.finish(self.inline.record([self.succeeded(job, None, time.time())]))

    def close(self) -> None:
        self.app.close()


if __name__ == "__main__":
    main(Eager)
