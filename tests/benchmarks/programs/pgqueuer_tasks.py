"""The entrypoints of the pgqueuer program; its worker finds `main` here by name."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
from board import join_if_worker, mark
from board import stamp as note
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.models import Job

join_if_worker()


@asynccontextmanager
async def main() -> AsyncIterator[PgQueuer]:
    connection = await asyncpg.connect(os.environ["BENCH_STORE"])
    queue = PgQueuer(AsyncpgDriver(connection))
    if os.environ["BENCH_KIND"] == "coroutine":

        @queue.entrypoint("noop_coroutine")
        async def noop_coroutine(job: Job) -> None:
            mark()

        @queue.entrypoint("stamp_coroutine")
        async def stamp_coroutine(job: Job) -> None:
            note(int(job.payload or b"0"))
    else:

        @queue.entrypoint("noop_thread")
        async def noop_thread(job: Job) -> None:
            await asyncio.to_thread(mark)

        @queue.entrypoint("stamp_thread")
        async def stamp_thread(job: Job) -> None:
            await asyncio.to_thread(note, int(job.payload or b"0"))

    try:
        yield queue
    finally:
        await connection.close()
