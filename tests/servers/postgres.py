"""A Postgres server as the tests use it: any that a URL names, and private clusters that they may also break.

A test's child processes need nothing of this: they are given a URL.
"""

import os
import secrets
import signal
import threading
import time
from collections.abc import Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any, LiteralString, Self
from urllib.parse import quote, urlsplit, urlunsplit

import psycopg
from psycopg import sql

from tests.servers.processes import (
    PATIENCE,
    MissingProgramError,
    ServerError,
    ServerProcess,
    free_port,
    reachable,
)
from tests.servers.programs import postgres_programs

#: Names the run's server for the tests and the processes they start.
URL_VARIABLE = "TINYJOBS_TEST_POSTGRES"
#: For speed: what is written is never waited for, and the log of changes stays small.
UNSAFE = {"fsync": "off", "full_page_writes": "off", "max_wal_size": "256MB"}
STOPS = {"smart": signal.SIGTERM, "fast": signal.SIGINT, "immediate": signal.SIGQUIT}


class Server:
    """A server somebody runs: databases made and dropped, sessions ended."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._lock = threading.Lock()
        self._connection: psycopg.Connection[tuple[Any, ...]] | None = None
        self._opened_by = 0
        # Other runs may use the same server: databases are told apart by this.
        self._mark = f"tinyjobs_test_{secrets.token_hex(4)}"
        self._made = 0
        self._template: str | None = None

    def url(self, database: str = "postgres") -> str:
        return urlunsplit(urlsplit(self._url)._replace(path=f"/{quote(database, safe='')}"))

    def execute(self, statement: sql.SQL | sql.Composed | LiteralString, values: Sequence[Any] = ()) -> list[Any]:
        """Run one statement as the server's administrator, in autocommit, and return its rows."""
        with self._lock:
            cursor = self._administrator().execute(statement, values or None)
            return cursor.fetchall() if cursor.description else []

    def create_database(self, *, template: str | None = None, name: str | None = None) -> str:
        """Make a database and return its name: an empty one, or a copy of one that nobody is connected to."""
        if name is None:
            self._made += 1
            name = f"{self._mark}_{self._made}"
        source = template or self._empty_template()
        made = sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), sql.Identifier(source))
        self.execute(made + (sql.SQL(" STRATEGY FILE_COPY") if self._copies_files_faster else sql.SQL("")))
        return name

    def drop_database(self, name: str) -> None:
        """Drop a database, whoever is still connected to it."""
        self.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))

    def terminate(self, application_name: str = "%", *, database: str = "%") -> int:
        """End the sessions of clients whose names match (as LIKE does), ours aside. Returns how many were ended.

        All are told before any is waited for: the server looks ten times a second whether one has gone, and meanwhile
        the others would work on.
        """
        rows = self.execute(
            "WITH told AS MATERIALIZED ("
            " SELECT array_agg(pid) AS pids, array_agg(pg_terminate_backend(pid)) AS were_there FROM pg_stat_activity"
            " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
            " AND application_name LIKE %s AND datname LIKE %s"
            ") SELECT was_there, pg_terminate_backend(pid, 10000)"
            " FROM told, unnest(pids, were_there) AS session (pid, was_there)",
            (application_name, database),
        )
        return sum(was_there for was_there, _ in rows)

    def version(self) -> int:
        """The major version, such as 15."""
        return int(self.execute("SHOW server_version_num")[0][0]) // 10_000

    def close(self) -> None:
        """Drop what `create_database` needed, and leave the server as it was found."""
        if self._template is not None:
            template, self._template = self._template, None
            self.execute(sql.SQL("ALTER DATABASE {} IS_TEMPLATE false").format(sql.Identifier(template)))
            self.drop_database(template)
        self._hang_up()

    @cached_property
    def _copies_files_faster(self) -> bool:
        """A copy of files takes a third of the work of one by way of the log, if nothing waits for the disk."""
        return self.version() >= 15 and self.execute("SHOW fsync") == [("off",)]

    def _empty_template(self) -> str:
        """The database that new ones are copied from.

        It collates by ICU's English where the server can: order there is not that of the bytes, so a column without a
        collation of its own shows. Nobody can connect to it, or a copy would have to wait for autovacuum.
        """
        if self._template is None:
            name = f"{self._mark}_template"
            plain = sql.SQL("CREATE DATABASE {} TEMPLATE template0 ENCODING 'UTF8'").format(sql.Identifier(name))
            try:
                self.execute(plain + sql.SQL(" LOCALE_PROVIDER icu ICU_LOCALE 'en'"))
            except psycopg.Error:
                self.execute(plain)
            closed = sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS false IS_TEMPLATE true")
            self.execute(closed.format(sql.Identifier(name)))
            self._template = name
        return self._template

    def _administrator(self) -> psycopg.Connection[tuple[Any, ...]]:
        kept = self._connection
        if kept is not None and self._opened_by == os.getpid():
            try:
                kept.execute("SELECT 1")
                return kept
            except psycopg.OperationalError:
                kept.close()
        self._opened_by = os.getpid()
        self._connection = psycopg.connect(
            self.url("postgres"), autocommit=True, application_name="tests", connect_timeout=20
        )
        return self._connection

    def _hang_up(self) -> None:
        if self._connection is not None and self._opened_by == os.getpid():
            self._connection.close()
        self._connection = None


@cache
def _pristine(programs: Path) -> ServerProcess:
    """A folder with a cluster's data as initdb makes them: copying that is several times as fast as making more."""
    place = ServerProcess("tinyjobs-pg-", in_memory=True)
    try:
        command = [programs / "initdb", "--auth=trust", "--username=postgres"]
        place.run([*command, "--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions", place.folder / "data"])
    except BaseException:
        place.close()
        raise
    return place


class Cluster(Server):
    """A private cluster on 127.0.0.1, started when it is made: may be stopped, killed, restarted on the same port.

    Unless `durable` it never waits for the disk. Killing the server loses nothing even so: what it wrote is in the
    kernel's hands.
    """

    def __init__(
        self,
        *,
        durable: bool = False,
        max_connections: int = 120,
        programs: Path | None = None,
        settings: dict[str, str] | None = None,
    ) -> None:
        found = programs or postgres_programs()
        self._programs = reachable(found.parent) / found.name
        self._process = ServerProcess("tinyjobs-pg-", in_memory=not durable)
        try:
            self._fill()
            self.port = free_port()
            super().__init__(f"postgresql://postgres@127.0.0.1:{self.port}/postgres")
            self._settings = {
                "listen_addresses": "127.0.0.1",
                "unix_socket_directories": str(self._process.folder),
                "max_connections": str(max_connections),
                "shared_buffers": "64MB",
                "dynamic_shared_memory_type": "mmap",  # in the folder, so that a kill leaves none of it behind
                "log_line_prefix": "%m [%p] %q%a ",
                **({} if durable else UNSAFE),
                **(settings or {}),
            }
            self.start()
        except BaseException:
            self._process.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @property
    def folder(self) -> Path:
        """Holds the data, the log and the socket. Gone when the cluster is closed."""
        return self._process.folder

    @property
    def pid(self) -> int:
        """The postmaster."""
        return self._process.pid

    def is_running(self) -> bool:
        return self._process.is_running()

    def socket_url(self, database: str = "postgres") -> str:
        """As `url`, by way of the Unix socket."""
        folder = quote(str(self._process.folder), safe="")
        return f"postgresql://postgres@/{quote(database, safe='')}?host={folder}&port={self.port}"

    def log(self) -> str:
        """What the server has written since its last start."""
        return self._process.written()

    def start(self) -> None:
        """Start it and wait until it takes connections, whatever it has to recover first."""
        options = [part for name, value in self._settings.items() for part in ("-c", f"{name}={value}")]
        deadline = time.monotonic() + PATIENCE
        while True:
            self._process.launch([self._programs / "postgres", "-D", self._data, "-p", str(self.port), *options])
            try:
                self._process.wait_until(self._is_ready, "starting Postgres")
                return
            except ServerError:
                # Sessions that outlived a kill hold the server's memory until they notice.
                if "shared memory block" not in self._process.written() or time.monotonic() > deadline:
                    raise
                self._process.end(signal.SIGQUIT)
                time.sleep(0.1)

    def stop(self, mode: str = "fast") -> None:
        """Shut down: `smart` waits for the clients to leave, `fast` ends their sessions, `immediate` is as a crash."""
        if mode == "smart":
            self._hang_up()
        self._process.end(STOPS[mode])

    def restart(self, mode: str = "fast") -> None:
        self.stop(mode)
        self.start()

    def kill(self) -> None:
        """SIGKILL the postmaster. Its sessions end as soon as they notice."""
        self._process.end(signal.SIGKILL)

    def pause(self) -> None:
        """Freeze the postmaster: new connections are accepted by the kernel and never answered. Sessions go on."""
        self._process.send(signal.SIGSTOP)

    def resume(self) -> None:
        self._process.send(signal.SIGCONT)

    def set_read_only(self, on: bool) -> None:
        """Refuse every write, in sessions that are there and in new ones, as a standby would; or allow them again."""
        value = "on" if on else "off"
        self.execute(sql.SQL("ALTER SYSTEM SET default_transaction_read_only = {}").format(sql.SQL(value)))
        self.execute("SELECT pg_reload_conf()")
        # A session that begins with the new value was begun after the others had been told.
        self._process.wait_until(lambda: self._begins_with("default_transaction_read_only", value), "reloading")

    def close(self) -> None:
        """End it at once and remove its folder."""
        self._hang_up()
        self._process.close()

    @property
    def _data(self) -> Path:
        return self._process.folder / "data"

    def _fill(self) -> None:
        """Make the folder with the data."""
        self._process.run(["cp", "-R", _pristine(self._programs).folder / "data", self._data])

    def _begins_with(self, setting: LiteralString, value: str) -> bool:
        with psycopg.connect(self.url(), autocommit=True) as fresh:
            return fresh.execute(sql.SQL("SHOW {}").format(sql.Identifier(setting))).fetchall() == [(value,)]

    def _is_ready(self) -> bool:
        try:
            lines = (self._data / "postmaster.pid").read_text("ascii").splitlines()
        except OSError:
            return False
        return len(lines) > 7 and lines[0] == str(self._process.pid) and lines[7].strip() == "ready"


class Standby(Cluster):
    """A streaming standby of a private cluster: it has all that was committed there, and only reads until promoted."""

    def __init__(self, primary: Cluster, **options: Any) -> None:
        self._primary = primary
        super().__init__(programs=primary._programs, **options)

    def catch_up(self) -> None:
        """Wait until what the primary has committed by now can be read here."""
        ((place,),) = self._primary.execute("SELECT pg_current_wal_flush_lsn()")
        self._process.wait_until(
            lambda: self.execute("SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn", (place,)) == [(True,)], "catching up"
        )

    def promote(self) -> None:
        """Make it a primary of its own, and wait until it takes writes. The other one had better be stopped before."""
        if self.execute("SELECT pg_promote(true, %s)", (int(PATIENCE),)) != [(True,)]:
            raise ServerError(f"it was not promoted\n{self._process.log_tail()}")

    def _fill(self) -> None:
        program = self._programs / "pg_basebackup"
        if not program.exists():
            raise MissingProgramError(f"no pg_basebackup beside {self._programs / 'postgres'}")
        options = ["-R", "-X", "stream", "--checkpoint=fast", "--no-sync"]
        self._process.run([program, *options, "-d", self._primary.url(), "-D", self._data])
