"""The store that a worker opens in a project's Postgres database: connections of its own, made as Django makes its.

The alias's settings are read anew for each connection, so a password that changes, a test database's name and an
engine that asks for a token each time all hold. What decides how statements are sent and read, and the isolation
level, is the store's own and not the project's.
"""

from collections.abc import Mapping
from typing import Any

from django.db import connections

from tinyjobs.backends.postgres import indexes
from tinyjobs.backends.postgres.backend import PostgresBackend
from tinyjobs.backends.postgres.options import PostgresOptions, libpq_only
from tinyjobs.backends.sql import layout
from tinyjobs.backends.sql.connection import Connection
from tinyjobs.core.clock import Clock


class MigratedPostgres(PostgresBackend):
    """The Postgres database of a Django project: its tables come from `migrate`, so `setup` only checks them."""

    async def _install(self, connection: Connection) -> None:
        await self._place(connection)
        await layout.check(connection, self.statements, self.where)
        slowing = await indexes.check(connection, self.statements, self.where)
        indexes.warn_of(slowing, self.where, "`manage.py migrate` builds it again.")


def open_migrated(alias: str, clock: Clock, options: PostgresOptions) -> MigratedPostgres:
    """The store in an alias of DATABASES. Opens nothing before it is first used."""
    role = connections[alias].settings_dict["OPTIONS"].get("assume_role")
    return MigratedPostgres(
        lambda: _keywords(alias),
        where=f"DATABASES[{alias!r}]",
        clock=clock,
        options=options,
        prelude=() if not role else (f"SET ROLE {_literal(str(role))}",),
    )


def _keywords(alias: str) -> Mapping[str, Any]:
    # A wrapper of its own, since this may be any thread, and the engine's way of saying how it connects.
    return libpq_only(connections.create_connection(alias).get_connection_params())


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
