"""The jobs of the chancy program, and its app, which the worker command finds here by name."""

from __future__ import annotations

import logging
import os

from board import join_if_worker, mark
from board import stamp as note
from chancy import Chancy, job

join_if_worker()
log = logging.getLogger("chancy")
# It tells of every job at INFO.
log.setLevel(logging.WARNING)
app = Chancy(os.environ["BENCH_STORE"], log=log)


@job()
async def noop_coroutine() -> None:
    mark()


@job()
def noop_thread() -> None:
    mark()


@job()
async def stamp_coroutine(index: int) -> None:
    note(index)


@job()
def stamp_thread(index: int) -> None:
    note(index)
