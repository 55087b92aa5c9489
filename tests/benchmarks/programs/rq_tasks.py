"""The functions of the rq program; its worker imports them by name."""

from __future__ import annotations

from board import join_if_worker, mark
from board import stamp as note

join_if_worker()


def noop() -> None:
    mark()


def stamp(index: int) -> None:
    note(index)
