"""The tasks of the streaq program; its worker command finds `worker` here by name."""

from __future__ import annotations

import os

from board import join_if_worker, mark
from board import stamp as note
from streaq import Worker

join_if_worker()
slots = int(os.environ["BENCH_SLOTS"])
worker = Worker(
    redis_url=os.environ["BENCH_STORE"],
    anyio_kwargs={"use_uvloop": True},
    **({"concurrency": slots} if slots else {}),
)


@worker.task(silent=True)
async def noop_coroutine() -> None:
    mark()


@worker.task(silent=True)
def noop_thread() -> None:
    mark()


@worker.task(silent=True)
async def stamp_coroutine(index: int) -> None:
    note(index)


@worker.task(silent=True)
def stamp_thread(index: int) -> None:
    note(index)
