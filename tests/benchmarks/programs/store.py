"""The store under a run, seen from outside the queue that uses it: questions, fillings, the calm before a drain.

It must know nothing of a queue but the names of its tables and columns, and must import in any environment that has
the driver of the store in question.
"""

from __future__ import annotations

import os
import sqlite3
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from store_redis import RedisStore

# As `unfinished` and the fillings use it: both drivers' connections answer to it.
Connection = Any


def store_at(address: str) -> SQLiteStore | PostgresStore | RedisStore:
    """The store that a URL or a path names."""
    if address.startswith("redis://"):
        # Imported when it is wanted: it needs the driver.
        from store_redis import RedisStore

        return RedisStore(address)
    return PostgresStore(address) if address.startswith("postgresql://") else SQLiteStore(Path(address))


class SQLiteStore:
    """A SQLite file."""

    now = "datetime('now')"
    seconds_now = "unixepoch('now')"

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        connection = sqlite3.connect(self.path, isolation_level=None, timeout=30)
        try:
            yield connection
        finally:
            connection.close()

    def version(self) -> dict[str, str]:
        return {"sqlite": sqlite3.sqlite_version}

    def settle(self) -> None:
        """Write out what the filling left to be written, which the first checkpoint would otherwise pay for."""
        os.sync()

    def statements(self) -> None:
        """Counted by servers alone."""

    def busy_seconds(self) -> None:
        """There is no server."""

    def sample(self, connection: Connection, table: str, id_column: str, shown: str) -> Any:
        """The id, as it stands in the table, of the row whose id a queue shows as this text."""
        query = f"SELECT {id_column} FROM {table} WHERE {id_column} IN (?, ?)"
        return connection.execute(query, (shown, shown.replace("-", ""))).fetchone()[0]

    def copy(
        self,
        connection: Connection,
        table: str,
        id_column: str,
        row_id: Any,
        count: int,
        changed: Mapping[str, str] | None = None,
    ) -> list[Any]:
        """Copy one row so many times under new ids, and return these.

        `changed` gives columns an SQL expression over `n`, the number of the copy.
        """
        ids = ids_like(row_id, count)
        self.copy_for(connection, table, id_column, row_id, ids, changed)
        return ids

    def copy_for(
        self,
        connection: Connection,
        table: str,
        column: str,
        row_id: Any,
        ids: list[Any],
        changed: Mapping[str, str] | None = None,
    ) -> None:
        """Copy the rows that have this id in this column for each of the new ids.

        An `INTEGER PRIMARY KEY` that is another column is left to SQLite."""
        found = connection.execute(f"PRAGMA table_info({table})").fetchall()
        is_numbered = sum(1 for *_, key in found if key) == 1
        kept = [
            name
            for _, name, kind, _, _, key in found
            if name != column and not (key and is_numbered and kind.upper() == "INTEGER")
        ]
        values = [(changed or {}).get(name, name) for name in kept]
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(
            f"INSERT INTO {table} ({', '.join([column, *kept])}) "
            f"SELECT ?1, {', '.join(values)} FROM {table}, (SELECT ?2 AS n) WHERE {column} = ?3",
            [(new, number, row_id) for number, new in enumerate(ids)],
        )
        connection.execute("COMMIT")


class PostgresStore:
    """A database of a Postgres server. The URL's user is a superuser, since checkpoints and counters need one."""

    now = "now()"
    seconds_now = "extract(epoch from now())"

    def __init__(self, url: str) -> None:
        self.url = url
        self.database = url.rpartition("/")[2]

    @contextmanager
    def reading(self, database: str | None = None) -> Iterator[Connection]:
        import psycopg

        url = self.url if database is None else f"{self.url.rpartition('/')[0]}/{database}"
        with psycopg.connect(url, autocommit=True, connect_timeout=20) as connection:
            yield connection

    def version(self) -> dict[str, str]:
        with self.reading() as connection:
            return {"postgres": connection.execute("SHOW server_version").fetchone()[0].split()[0]}

    def settle(self) -> None:
        """Write out what the filling left to be written, which the next checkpoint would otherwise pay for."""
        with self.reading() as connection:
            connection.execute("CHECKPOINT")

    def statements(self) -> int:
        """How many statements were sent to this database so far by any session, BEGIN and COMMIT among them."""
        # Asked from another database, so that it does not count itself.
        with self.reading("postgres") as connection:
            connection.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
            query = (
                "SELECT coalesce(sum(calls), 0) FROM pg_stat_statements"
                " WHERE dbid = (SELECT oid FROM pg_database WHERE datname = %s)"
            )
            return int(connection.execute(query, (self.database,)).fetchone()[0])

    def busy_seconds(self) -> None:
        """Not asked: its work is spread over a process for each session."""

    def sample(self, connection: Connection, table: str, id_column: str, shown: str) -> Any:
        query = f"SELECT {id_column} FROM {table} WHERE {id_column}::text = %s"
        return connection.execute(query, (shown,)).fetchone()[0]

    def copy(
        self,
        connection: Connection,
        table: str,
        id_column: str,
        row_id: Any,
        count: int,
        changed: Mapping[str, str] | None = None,
    ) -> list[Any]:
        if not isinstance(row_id, int):
            ids = ids_like(row_id, count)
            self.copy_for(connection, table, id_column, row_id, ids, changed)
            return ids
        # Numbers come from the table's own sequence, or the next job would be given one of them.
        names, values = self._columns(connection, table, id_column, changed)
        query = (
            f"INSERT INTO {table} ({', '.join(names)}) SELECT {', '.join(values)}"
            f" FROM {table}, generate_series(1, %s::int) AS n WHERE {table}.{id_column} = %s RETURNING {id_column}"
        )
        return [new for (new,) in connection.execute(query, (count, row_id)).fetchall()]

    def copy_for(
        self,
        connection: Connection,
        table: str,
        column: str,
        row_id: Any,
        ids: list[Any],
        changed: Mapping[str, str] | None = None,
    ) -> None:
        names, values = self._columns(connection, table, column, changed)
        typed = "SELECT format_type(atttypid, NULL) FROM pg_attribute WHERE attrelid = %s::regclass AND attname = %s"
        (kind,) = connection.execute(typed, (table, column)).fetchone()
        query = (
            f"INSERT INTO {table} ({', '.join([column, *names])}) SELECT {', '.join(['new.id', *values])}"
            f" FROM {table}, unnest(%s::{kind}[]) WITH ORDINALITY AS new(id, n) WHERE {table}.{column} = %s"
        )
        connection.execute(query, (ids, row_id))

    def _columns(
        self, connection: Connection, table: str, without: str, changed: Mapping[str, str] | None
    ) -> tuple[list[str], list[str]]:
        """The columns to copy and what to copy into them; what numbers itself is left to the server."""
        found = connection.execute(
            "SELECT quote_ident(column_name) FROM information_schema.columns"
            " WHERE table_name = %s AND column_name <> %s"
            " AND is_identity = 'NO' AND is_generated = 'NEVER' AND coalesce(column_default, '') NOT LIKE 'nextval(%%'"
            " ORDER BY ordinal_position",
            (table, without),
        ).fetchall()
        names = [name for (name,) in found]
        return names, [(changed or {}).get(name, f"{table}.{name}") for name in names]


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
    if isinstance(example, uuid.UUID):
        return made
    return [str(one) if "-" in text else one.hex for one in made]
