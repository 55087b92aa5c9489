"""The tasks of the huey program; its consumer finds `huey` here by name."""

from __future__ import annotations

import os

from board import join_if_worker, mark
from board import stamp as note
from huey import SqliteHuey

join_if_worker()
# fsync=False is huey's own faster setting; left out, SQLite syncs the file at every commit.
faster = {"fsync": False} if os.environ.get("BENCH_VARIANT") == "nofsync" else {}
huey = SqliteHuey("bench", filename=os.environ["BENCH_STORE"], **faster)


@huey.task()
def noop() -> None:
    mark()


@huey.task()
def stamp(index: int) -> None:
    note(index)
