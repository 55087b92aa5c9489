"""This project by its facade and its own worker command. With the variant "async" jobs are sent from an event loop."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import ours
from django_program import PRIORITIES
from facade_program import FacadeProgram
from measuring import main

FAR = 9e6


class Facade(FacadeProgram):
    name = "tinyjobs (facade)"
    shapes = (*FacadeProgram.shapes, "pressure")

    def load(self) -> None:
        super().load()
        self.runner = asyncio.Runner() if self.arguments.variant == "async" else None

    def prepare(self) -> None:
        self.app.setup()

    def enqueue(self, index: int) -> None:
        if self.runner is None:
            self.stamp.enqueue(index)
        else:
            self.runner.run(self.stamp.aenqueue(index))

    def enqueue_many(self, indexes: range) -> None:
        self.stamp.enqueue_many([(index,) for index in indexes])

    def load_noops(self, jobs: int) -> None:
        self.noop.enqueue_many([()] * jobs)

    def load_due_at_once(self, jobs: int, delay: float) -> None:
        due = datetime.now(UTC) + timedelta(seconds=delay)
        self.noop.with_options(run_at=due).enqueue_many([()] * jobs)

    def worker_flags(self) -> list[str]:
        slots = self.arguments.slots
        flag = "--async-concurrency" if self.kind == "coroutine" else "--concurrency"
        return ["worker", "--app", "facade_tasks:app", *([flag, str(slots)] if slots else [])]

    def fill(self, finished: int, delayed: int, priority: int) -> dict[str, int]:
        filled = {"finished": finished, "delayed": delayed, "priority": priority}
        if self.on_redis:
            self._fill_by_running(finished, delayed, priority)
            return filled
        done = self.noop.enqueue().id
        self.run_noops()
        later = self.noop.with_options(delay=FAR, priority=priority).enqueue().id
        spread = {"priority": f"priority + mod(n, {PRIORITIES})"} if self.on_postgres else {}
        with self.reading() as connection:
            done = self.store.sample(connection, ours.JOBS, "id", done)
            ids = self.store.copy(connection, ours.JOBS, "id", done, finished)
            self.store.copy_for(connection, ours.EXECUTIONS, "job_id", done, ids)
            later = self.store.sample(connection, ours.JOBS, "id", later)
            self.store.copy(connection, ours.JOBS, "id", later, delayed, spread)
        return filled

    def _fill_by_running(self, finished: int, delayed: int, priority: int) -> None:
        """A store that has no rows to copy: the jobs are sent, and run to their end."""
        self.load_noops(finished)
        self.run_noops(finished)
        for step in range(min(PRIORITIES, delayed)):
            later = self.noop.with_options(delay=FAR, priority=priority + step)
            later.enqueue_many([()] * len(range(step, delayed, PRIORITIES)))

    def unfinished(self) -> bool:
        if self.on_redis:
            return ours.unfinished_of(self.app.stats())
        with self.reading() as connection:
            return ours.unfinished(self.store, connection)

    def finished(self) -> int | None:
        if self.on_redis:
            return self.app.stats().by_status.get("success", 0)
        with self.reading() as connection:
            query = f"SELECT count(*) FROM {ours.JOBS} WHERE status = 'success'"
            return int(connection.execute(query).fetchone()[0])

    def close(self) -> None:
        if self.runner is not None:
            self.runner.run(self.app.aclose())
            self.runner.close()


if __name__ == "__main__":
    main(Facade)
