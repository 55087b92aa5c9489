"""Databases of a Postgres server as the store that a run is measured on. Must know no program and no table."""

import psycopg
from psycopg import sql

from tests.servers.postgres import Cluster, Server

# As durable as Postgres comes out of the box, with room for the senders of the commit row.
SETTINGS = {
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "autovacuum": "on",
    "shared_buffers": "128MB",
    "shared_preload_libraries": "pg_stat_statements",
}


class PostgresDatabases:
    """Databases of a private server, made with the plainest collation so that nobody's texts compare dearly.

    A server of somebody else's is used as it is; nothing else may run on it, and its user is a superuser.
    """

    def __init__(self, url: str | None = None) -> None:
        self._server = Cluster(durable=True, settings=SETTINGS) if url is None else Server(url)
        self._current: str | None = None
        self._kept: dict[str, str] = {}

    def fresh(self, template: str | None = None) -> str:
        self._drop_current()
        self._current = self._server.create_database(template=self._kept[template] if template else "template0")
        return self._server.url(self._current)

    def keep(self, template: str) -> None:
        assert self._current is not None
        # As autovacuum would have left tables that were filled in the course of weeks.
        with psycopg.connect(self._server.url(self._current), autocommit=True) as connection:
            connection.execute("VACUUM (ANALYZE)")
        self._kept[template], self._current = self._current, None

    def settings(self) -> dict[str, str]:
        names = ["server_version", "shared_buffers", "fsync", "synchronous_commit", "autovacuum"]
        return {
            name: str(self._server.execute(sql.SQL("SHOW {}").format(sql.Identifier(name)))[0][0]) for name in names
        }

    def close(self) -> None:
        self._drop_current()
        for database in self._kept.values():
            self._server.drop_database(database)
        self._server.close()

    def _drop_current(self) -> None:
        if self._current is not None:
            self._server.drop_database(self._current)
            self._current = None
