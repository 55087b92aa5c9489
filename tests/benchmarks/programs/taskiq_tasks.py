"""The tasks of the taskiq program; its worker finds `broker` here by name."""

from __future__ import annotations

import os

from board import join_if_worker, mark
from board import stamp as note
from taskiq_redis import ListQueueBroker, RedisStreamBroker

join_if_worker()
kind = RedisStreamBroker if os.environ["BENCH_VARIANT"] == "stream" else ListQueueBroker
broker = kind(os.environ["BENCH_STORE"])


@broker.task
async def noop_coroutine() -> None:
    mark()


@broker.task
def noop_thread() -> None:
    mark()


@broker.task
async def stamp_coroutine(index: int) -> None:
    note(index)


@broker.task
def stamp_thread(index: int) -> None:
    note(index)
