"""A private PgBouncer in front of a server, in session or transaction mode."""

import signal
import socket
from pathlib import Path
from typing import Any, Literal, Self
from urllib.parse import quote, urlsplit

import psycopg

from tests.servers.processes import ServerProcess, free_port
from tests.servers.programs import pgbouncer_program


class PgBouncer:
    """Takes connections to any database of one server, with that server's user, and keeps `pool_size` of its own."""

    def __init__(
        self,
        server_url: str,
        *,
        mode: Literal["session", "transaction"] = "session",
        pool_size: int = 20,
        settings: dict[str, str] | None = None,
    ) -> None:
        program = pgbouncer_program()
        server = urlsplit(server_url)
        self.port = free_port()
        self._user = server.username or "postgres"
        self._process = ServerProcess("tinyjobs-bouncer-")
        target = {"host": server.hostname, "port": server.port, "user": self._user, "password": server.password}
        values = {
            "listen_addr": "127.0.0.1",
            "listen_port": str(self.port),
            "unix_socket_dir": str(self._process.folder),
            # Like trust, for whoever asks; the user is the one that the entry names.
            "auth_type": "any",
            "pool_mode": mode,
            "default_pool_size": str(pool_size),
            "max_client_conn": "200",
            **(settings or {}),
        }
        lines = ["[databases]", "* = " + " ".join(f"{name}={value}" for name, value in target.items() if value)]
        lines += ["[pgbouncer]", *(f"{name} = {value}" for name, value in values.items())]
        self._configuration.write_text("\n".join(lines) + "\n")
        try:
            self._process.own(self._configuration)
            self._process.launch([program, self._configuration])
            self._process.wait_until(self._is_ready, "starting PgBouncer")
        except BaseException:
            self._process.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @property
    def pid(self) -> int:
        return self._process.pid

    def url(self, database: str) -> str:
        return f"postgresql://{quote(self._user)}@127.0.0.1:{self.port}/{quote(database, safe='')}"

    def show(self, what: str) -> list[dict[str, Any]]:
        """What PgBouncer's console says to SHOW pools, clients, servers, stats and the like."""
        with psycopg.connect(self.url("pgbouncer"), autocommit=True, cursor_factory=psycopg.ClientCursor) as console:
            cursor = console.execute(f"SHOW {what}".encode())
            names = [column.name for column in cursor.description or ()]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def restart(self) -> None:
        """Drop every connection at once and come back on the same port."""
        self.stop()
        self.start()

    def stop(self) -> None:
        """Drop every connection at once."""
        self._process.end(signal.SIGTERM)

    def start(self) -> None:
        """Come back after `stop`, on the same port."""
        self._process.launch([pgbouncer_program(), self._configuration])
        self._process.wait_until(self._is_ready, "starting PgBouncer")

    def log(self) -> str:
        """What it has written since its last start."""
        return self._process.written()

    def close(self) -> None:
        self._process.close()

    @property
    def _configuration(self) -> Path:
        return self._process.folder / "pgbouncer.ini"

    def _is_ready(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0
