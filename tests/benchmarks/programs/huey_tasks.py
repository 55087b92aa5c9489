"""The tasks of the huey program; its consumer finds `huey` here by name."""

from __future__ import annotations

import os

from board import join_if_worker, mark
from board import stamp as note
from huey import PriorityRedisHuey, RedisHuey, SqliteHuey

join_if_worker()
store, variant = os.environ["BENCH_STORE"], os.environ.get("BENCH_VARIANT")
if store.startswith("redis://"):
    huey = (PriorityRedisHuey if variant == "priority" else RedisHuey)("bench", url=store)
else:
    # fsync=False is huey's own faster setting; left out, SQLite syncs the file at every commit.
    huey = SqliteHuey("bench", filename=store, **({"fsync": False} if variant == "nofsync" else {}))


@huey.task()
def noop() -> None:
    mark()


@huey.task()
def stamp(index: int) -> None:
    note(index)
