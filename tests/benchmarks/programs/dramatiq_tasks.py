"""The actors of the dramatiq program; its worker command finds the broker here."""

from __future__ import annotations

import os

import dramatiq
from board import join_if_worker, mark
from board import stamp as note
from dramatiq.brokers.redis import RedisBroker
from dramatiq.middleware.asyncio import AsyncIO

join_if_worker()
broker = RedisBroker(url=os.environ["BENCH_STORE"])
broker.add_middleware(AsyncIO())
dramatiq.set_broker(broker)


@dramatiq.actor
async def noop_coroutine() -> None:
    mark()


@dramatiq.actor
def noop_thread() -> None:
    mark()


@dramatiq.actor
async def stamp_coroutine(index: int) -> None:
    note(index)


@dramatiq.actor
def stamp_thread(index: int) -> None:
    note(index)
