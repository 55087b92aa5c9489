"""The tasks of the procrastinate program; its worker command finds `app` here by name."""

from __future__ import annotations

import os

from board import join_if_worker, mark
from board import stamp as note
from procrastinate import App, PsycopgConnector

join_if_worker()
# A connection for its listener, and enough for the endings of jobs to be written side by side.
app = App(connector=PsycopgConnector(conninfo=os.environ["BENCH_STORE"], min_size=1, max_size=20))


@app.task
async def noop_coroutine() -> None:
    mark()


@app.task
def noop_thread() -> None:
    mark()


@app.task
async def stamp_coroutine(index: int) -> None:
    note(index)


@app.task
def stamp_thread(index: int) -> None:
    note(index)
