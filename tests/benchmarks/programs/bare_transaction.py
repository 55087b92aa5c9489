"""The floor under an enqueue by the facade on SQLite: the same INSERT between `BEGIN IMMEDIATE` and `COMMIT`.

The same table with its indexes, the values that an enqueue wrote, one connection with the settings of the store's own;
no options, no codec, no id to be made, no wake-up, no handle.
"""

from __future__ import annotations

import sqlite3

from measuring import main
from ours import JOBS
from ours_facade import Facade
from store import ids_like


class BareTransaction(Facade):
    name = "bare BEGIN IMMEDIATE, INSERT, COMMIT"
    shapes = ("enqueue",)

    def prepare(self) -> None:
        super().prepare()
        sample = self.stamp.enqueue(0).id
        self.statement = self.app.store.statements["insert"].qmark
        self.app.close()
        connection = self.connection = sqlite3.connect(self.store.path, isolation_level=None)
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA foreign_keys = ON")
        written = self.statement.partition("(")[2].partition(")")[0]
        (row,) = connection.execute(f"SELECT {written} FROM {JOBS} WHERE id = ?", [sample])
        self.row = list(row)
        # Made beforehand: an enqueue's own id costs it something, the floor's costs nothing.
        self.ids = iter(ids_like(sample, self.arguments.jobs + 100))

    def enqueue(self, index: int) -> None:
        self.row[0] = next(self.ids)
        self.connection.execute("BEGIN IMMEDIATE")
        self.connection.execute(self.statement, self.row)
        self.connection.execute("COMMIT")

    def close(self) -> None:
        self.connection.close()


if __name__ == "__main__":
    main(BareTransaction)
