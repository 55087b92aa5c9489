"""This project by its facade and its own worker command."""

from __future__ import annotations

import ours
from django_program import PRIORITIES
from facade_program import FacadeProgram
from measuring import main


class Facade(FacadeProgram):
    name = "tinyjobs (facade)"

    def prepare(self) -> None:
        self.app.setup()

    def enqueue_many(self, indexes: range) -> None:
        self.stamp.enqueue_many([(index,) for index in indexes])

    def load_noops(self, jobs: int) -> None:
        self.noop.enqueue_many([()] * jobs)

    def worker_flags(self) -> list[str]:
        slots = self.arguments.slots
        flag = "--async-concurrency" if self.kind == "coroutine" else "--concurrency"
        return ["worker", "--app", "facade_tasks:app", *([flag, str(slots)] if slots else [])]

    def fill(self, finished: int, delayed: int, priority: int) -> dict[str, int]:
        done = self.noop.enqueue().id
        self.run_one_noop()
        later = self.noop.with_options(delay=9e6, priority=priority).enqueue().id
        spread = {"priority": f"priority + mod(n, {PRIORITIES})"} if self.on_postgres else {}
        with self.reading() as connection:
            done = self.store.sample(connection, ours.JOBS, "id", done)
            ids = self.store.copy(connection, ours.JOBS, "id", done, finished)
            self.store.copy_for(connection, ours.EXECUTIONS, "job_id", done, ids)
            later = self.store.sample(connection, ours.JOBS, "id", later)
            self.store.copy(connection, ours.JOBS, "id", later, delayed, spread)
        return {"finished": finished, "delayed": delayed, "priority": priority}

    def unfinished(self) -> bool:
        with self.reading() as connection:
            return ours.unfinished(self.store, connection)

    def finished(self) -> int | None:
        with self.reading() as connection:
            query = f"SELECT count(*) FROM {ours.JOBS} WHERE status = 'success'"
            return int(connection.execute(query).fetchone()[0])


if __name__ == "__main__":
    main(Facade)
