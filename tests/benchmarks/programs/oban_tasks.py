"""The workers of the oban program, which its command finds by their dotted path."""

from __future__ import annotations

import asyncio

from board import join_if_worker, mark
from board import stamp as note
from oban import job

join_if_worker()


@job()
async def noop_coroutine() -> None:
    mark()


@job()
async def noop_thread() -> None:
    await asyncio.to_thread(mark)


@job()
async def stamp_coroutine(index: int) -> None:
    note(index)


@job()
async def stamp_thread(index: int) -> None:
    await asyncio.to_thread(note, index)
