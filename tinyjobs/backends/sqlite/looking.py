"""Whether the file of a store and its tables are there, found out without making any of it.

A connection of the store's own would make a file that is missing, and switch one that is there to WAL. Who only looks
does neither: the path may be mistyped, and the file somebody else's.
"""

import os
from dataclasses import replace

from tinyjobs.backends.sql import layout
from tinyjobs.backends.sql.connection import Connection
from tinyjobs.backends.sql.statements import Statements
from tinyjobs.backends.sqlite.connection import SqliteConnection, SqliteSettings
from tinyjobs.backends.sqlite.options import existing_only, file_of, is_in_memory
from tinyjobs.core.errors import SchemaMissingError
from tinyjobs.core.inline import finish


def look_for_file(path: str) -> None:
    """Raise `SchemaMissingError` where a connection to this database would make its file."""
    if not is_in_memory(path) and not os.path.exists(file_of(path)):
        raise SchemaMissingError(f"There is no file {file_of(path)}.")


def look_for_tables(settings: SqliteSettings, statements: Statements) -> None:
    """Raise `SchemaMissingError` where the file, or a table of the store, is not there. Waits for locks as usual."""
    look_for_file(settings.path)
    looking = replace(settings, path=existing_only(settings.path), uri=True, keeps_journal=True)

    async def look(connection: Connection) -> None:
        await layout.check_tables(connection, statements, settings.path)

    connection = SqliteConnection(looking)
    try:
        finish(connection.perform(look))
    finally:
        connection.close()
