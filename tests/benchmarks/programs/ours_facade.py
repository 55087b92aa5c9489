"""This project by its facade and its own worker command."""

from __future__ import annotations

import ours
from facade_program import FacadeProgram
from filling import copy_row, ids_like
from measuring import Workers, main


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
        self.noop.enqueue()
        with Workers(self, 1) as workers:
            workers.board.open_gate()
            workers.wait(lambda: workers.board.count() >= 1 and not self.unfinished(), "did not run the sample job")
        later = self.noop.with_options(delay=9e6, priority=priority).enqueue()
        with self.reading() as connection:
            (done,) = connection.execute(f"SELECT id FROM {ours.JOBS} WHERE status = 'success'").fetchone()
            ids = ids_like(done, finished)
            copy_row(connection, ours.JOBS, "id", done, ids)
            copy_row(connection, ours.EXECUTIONS, "job_id", done, ids)
            copy_row(connection, ours.JOBS, "id", later.id, ids_like(later.id, delayed))
        return {"finished": finished, "delayed": delayed, "priority": priority}

    def unfinished(self) -> bool:
        with self.reading() as connection:
            return ours.unfinished(connection)


if __name__ == "__main__":
    main(Facade)
