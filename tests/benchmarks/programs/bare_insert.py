"""The floor under an enqueue in Django: the row that this project's `enqueue` wrote, inserted by one statement.

The same table with its indexes, the same connection of Django's, one cursor for each row as Django code would have it;
no options, no codec, no wake-up, no result object.
"""

from __future__ import annotations

from measuring import main
from ours_django import Django
from store import ids_like


class BareInsert(Django):
    name = "bare INSERT through Django"
    shapes = ("enqueue",)
    kinds = ("coroutine",)

    def prepare(self) -> None:
        from django.db import connection

        super().prepare()
        sample = self.stamp.enqueue(0).id
        self.connection = connection
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT * FROM {self.table} WHERE id = %s", [sample])
            names = [column.name if hasattr(column, "name") else column[0] for column in cursor.description]
            (row,) = cursor.fetchall()
        self.row = dict(zip(names, row, strict=True))
        # Made beforehand: an enqueue's own id costs it something, the floor's costs nothing.
        self.ids = iter(ids_like(sample, self.arguments.jobs + 100))
        marks = ", ".join(["%s"] * len(names))
        self.statement = f"INSERT INTO {self.table} ({', '.join(names)}) VALUES ({marks})"

    def enqueue(self, index: int) -> None:
        self.row["id"] = next(self.ids)
        with self.connection.cursor() as cursor:
            cursor.execute(self.statement, list(self.row.values()))


if __name__ == "__main__":
    main(BareInsert)
