"""The tasks of the Django programs, declared with the decorator that the program's documentation tells to use."""

from __future__ import annotations

import os

from board import join_if_worker, mark
from board import stamp as note
from django.utils.module_loading import import_string

join_if_worker()
task = import_string(os.environ["BENCH_TASK"])


@task
async def noop_coroutine() -> None:
    mark()


@task
def noop_thread() -> None:
    mark()


@task
async def stamp_coroutine(index: int) -> None:
    note(index)


@task
def stamp_thread(index: int) -> None:
    note(index)
