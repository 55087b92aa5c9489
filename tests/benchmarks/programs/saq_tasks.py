"""The functions of the saq program; its worker finds `settings` here by name."""

from __future__ import annotations

import os
from typing import Any

from board import join_if_worker, mark
from board import stamp as note
from saq import Queue

join_if_worker()
queue = Queue.from_url(os.environ["BENCH_STORE"])


async def noop_coroutine(context: Any) -> None:
    mark()


def noop_thread(context: Any) -> None:
    mark()


async def stamp_coroutine(context: Any, *, index: int) -> None:
    note(index)


def stamp_thread(context: Any, *, index: int) -> None:
    note(index)


settings = {
    "queue": queue,
    "functions": [noop_coroutine, noop_thread, stamp_coroutine, stamp_thread],
    "concurrency": int(os.environ["BENCH_SLOTS"]) or 10,
}
