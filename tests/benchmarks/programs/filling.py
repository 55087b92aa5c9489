"""Fills a store's file with old rows, whatever its tables look like: a real row is copied under new ids.

The queue itself writes the one row to copy (a job that it really ran, a job that it really delayed), so the copies
stand in every index where such rows stand. It must know nothing of a queue but the names of its table and id column.
"""

from __future__ import annotations

import os
import sqlite3
import uuid
from typing import Any


def copy_row(connection: sqlite3.Connection, table: str, id_column: str, row_id: Any, ids: list[Any]) -> None:
    """Copies one row under each of these ids. An `INTEGER PRIMARY KEY` other than the id is left to SQLite."""
    found = connection.execute(f"PRAGMA table_info({table})").fetchall()
    is_numbered = sum(1 for *_, key in found if key) == 1
    columns = [
        name
        for _, name, kind, _, _, key in found
        if name == id_column or not (key and is_numbered and kind.upper() == "INTEGER")
    ]
    kept = [name for name in columns if name != id_column]
    connection.execute("BEGIN IMMEDIATE")
    connection.executemany(
        f"INSERT INTO {table} ({', '.join([id_column, *kept])}) "
        f"SELECT ?, {', '.join(kept)} FROM {table} WHERE {id_column} = ? LIMIT 1",
        [(new, row_id) for new in ids],
    )
    connection.execute("COMMIT")


def ids_like(example: Any, count: int) -> list[Any]:
    """New ids of the example's shape: an integer to number on from, or a UUID, with or without hyphens.

    They are made in rising order behind the example's own first eight digits, as rows that came in over time would be
    where ids carry a time."""
    if isinstance(example, int):
        return [example + number for number in range(1, count + 1)]
    text = str(example)
    head = text.replace("-", "")[:8]
    made = [
        uuid.UUID(hex=f"{head}{number:08x}{noise.hex()}")
        for number, noise in ((number, os.urandom(8)) for number in range(1, count + 1))
    ]
    return [str(one) if "-" in text else one.hex for one in made]
