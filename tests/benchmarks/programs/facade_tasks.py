"""The tasks of the programs that have the facade `TinyJobs(url)`: this project and the public engine of the same name.

The worker command finds `app` here by name. Which of the two packages is imported is the environment's affair.
"""

from __future__ import annotations

import os

from board import join_if_worker, mark, stamp

from tinyjobs import TinyJobs

join_if_worker()
store = os.environ["BENCH_STORE"]
app = TinyJobs(store if "://" in store else f"sqlite:///{store}")


@app.task
async def noop_coroutine() -> None:
    mark()


@app.task
def noop_thread() -> None:
    mark()


@app.task
async def stamp_coroutine(index: int) -> None:
    stamp(index)


@app.task
def stamp_thread(index: int) -> None:
    stamp(index)
