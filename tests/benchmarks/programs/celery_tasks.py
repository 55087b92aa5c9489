"""The tasks of the celery program; its worker command finds `app` here by name."""

from __future__ import annotations

import os

from board import join_if_worker, mark
from board import stamp as note
from celery import Celery

join_if_worker()
app = Celery("bench", broker=os.environ["BENCH_STORE"])
app.conf.update(
    task_ignore_result=True,
    broker_connection_retry_on_startup=True,
    # What its guide recommends for many short tasks: 50 to 150 reserved for each slot.
    worker_prefetch_multiplier=128 if os.environ["BENCH_VARIANT"] == "prefork" else 4,
)


@app.task
def noop() -> None:
    mark()


@app.task
def stamp(index: int) -> None:
    note(index)
