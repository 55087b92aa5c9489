"""The functions of the arq program; its worker command finds `WorkerSettings` here by name."""

from __future__ import annotations

import os
from typing import Any

from arq.connections import RedisSettings
from board import join_if_worker, mark
from board import stamp as note

join_if_worker()
redis_settings = RedisSettings.from_dsn(os.environ["BENCH_STORE"])
quiet = {"version": 1, "loggers": {"arq": {"level": "WARNING"}}}
slots = int(os.environ["BENCH_SLOTS"])
# Its default reads at most 100 jobs every half second, which is all that it then does.
restless = os.environ["BENCH_VARIANT"] == "restless"


async def noop_coroutine(context: Any) -> None:
    mark()


async def stamp_coroutine(context: Any, index: int) -> None:
    note(index)


class WorkerSettings:
    functions = (noop_coroutine, stamp_coroutine)
    redis_settings = redis_settings
    max_jobs = slots or 10
    poll_delay = 0.01 if restless else 0.5
    log_results = False
