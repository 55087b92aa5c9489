"""What the jobs of a run did, told by themselves: a SQLite file that all of its workers and the verifier write.

A number in `applied` is the side effect of a job, and INSERT OR IGNORE the idempotency that is asked of every task: it
stands there once however often the job ran. Each run of the function has a row of its own in `runs`. Knows nothing of
the store under test.
"""

import sqlite3
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tinyjobs.core.errors import TinyJobsError

_TABLES = """
CREATE TABLE IF NOT EXISTS applied (number INTEGER PRIMARY KEY);
CREATE TABLE IF NOT EXISTS workers (token TEXT PRIMARY KEY);
CREATE TABLE IF NOT EXISTS runs (
    run INTEGER PRIMARY KEY, number INTEGER NOT NULL, job_id TEXT NOT NULL, claim INTEGER NOT NULL,
    token TEXT NOT NULL, has_ended INTEGER NOT NULL DEFAULT 0);
CREATE INDEX IF NOT EXISTS runs_of_a_number ON runs (number);
CREATE TABLE IF NOT EXISTS told (word TEXT PRIMARY KEY);
"""
_PATIENCE = 60.0


class LedgerError(TinyJobsError):
    """The ledger cannot be read or written, so a run can prove nothing; the store under test has no part in that."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run of the function: under which claim of which job, and in which worker, by its token."""

    run: int
    number: int
    job_id: str
    claim: int
    token: str
    has_ended: bool


class Ledger:
    """The file at `path`. Every thread has a connection of its own; each write is a transaction of its own.

    Its methods raise `LedgerError`.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._local = threading.local()

    def create(self) -> None:
        """Make the tables."""
        with self._connection() as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.executescript(_TABLES)

    def begin(self, number: int, job_id: str, claim: int, token: str) -> int:
        """Note down that a run begins, and that its worker works; the run."""
        with self._connection() as connection, connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("INSERT OR IGNORE INTO workers VALUES (?)", (token,))
            return int(
                connection.execute(
                    "INSERT INTO runs (number, job_id, claim, token) VALUES (?, ?, ?, ?) RETURNING run",
                    (number, job_id, claim, token),
                ).fetchone()[0]
            )

    def apply(self, number: int, run: int) -> None:
        """The side effect, and the end of the run."""
        with self._connection() as connection, connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("INSERT OR IGNORE INTO applied VALUES (?)", (number,))
            connection.execute("UPDATE runs SET has_ended = 1 WHERE run = ?", (run,))

    def tell(self, word: str) -> None:
        """Say something to the jobs that wait for it."""
        with self._connection() as connection:
            connection.execute("INSERT OR IGNORE INTO told VALUES (?)", (word,))

    def has_told(self, *words: str) -> bool:
        """Whether one of these was said."""
        places = ", ".join("?" * len(words))
        return bool(self._fetch(f"SELECT 1 FROM told WHERE word IN ({places}) LIMIT 1", words))

    def tokens(self) -> frozenset[str]:
        """Of which workers a job has run."""
        return frozenset(token for (token,) in self._fetch("SELECT token FROM workers"))

    def applied(self) -> frozenset[int]:
        """The numbers whose side effect has happened."""
        return frozenset(number for (number,) in self._fetch("SELECT number FROM applied"))

    def count_applied(self) -> int:
        """How many there are."""
        return int(self._fetch("SELECT count(*) FROM applied")[0][0])

    def runs(self, number: int | None = None) -> list[Run]:
        """The runs of one number, or all of them, in the order in which they began."""
        where, values = ("", ()) if number is None else (" WHERE number = ?", (number,))
        rows = self._fetch(f"SELECT run, number, job_id, claim, token, has_ended FROM runs{where} ORDER BY run", values)
        return [Run(run, number, job, claim, token, bool(ended)) for run, number, job, claim, token, ended in rows]

    def _fetch(self, statement: str, values: Sequence[object] = ()) -> list[Any]:
        with self._connection() as connection:
            return connection.execute(statement, values).fetchall()

    @contextmanager
    def _connection(self) -> Generator[sqlite3.Connection]:
        """This thread's. What goes wrong with it in the block is a `LedgerError`."""
        try:
            yield self._opened()
        except sqlite3.Error as error:
            raise LedgerError(f"the ledger {self.path} cannot be used: {error}") from error

    def _opened(self) -> sqlite3.Connection:
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = sqlite3.connect(self.path, timeout=_PATIENCE, isolation_level=None)
            # What is lost in a power cut is lost with the whole run.
            connection.execute("PRAGMA synchronous = OFF")
            self._local.connection = connection
        return connection
