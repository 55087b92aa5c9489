"""The SQLite store: its options, its two faces, and how it wakes an idle worker.

`sqlite:///relative.db`, `sqlite:////absolute.db`, `sqlite:///file:…?…` for a SQLite URI of one's own, and
`memory://` for a private store in memory. The async face runs on a thread of the store's own; `inline()` runs in the
caller's thread.
"""

import threading
from typing import Any, Self
from urllib.parse import parse_qsl, unquote, urlsplit

from tinyjobs.backends.sql.backend import SqlBackend
from tinyjobs.backends.sql.connection import Runner
from tinyjobs.backends.sql.layout import install
from tinyjobs.backends.sql.statements import DEFAULT_PREFIX, Statements
from tinyjobs.backends.sqlite.connection import (
    OLDEST_VERSION,
    RETURNING_VERSION,
    OneConnection,
    SqliteConnection,
    SqliteSettings,
    StoreThread,
    ThreadConnections,
    library_version,
)
from tinyjobs.core.clock import Clock, SystemClock
from tinyjobs.core.errors import ConfigurationError, refuse_unknown

OPTIONS = frozenset({"prefix", "busy_timeout", "synchronous", "returning"})
_PACKAGE = "tinyjobs.backends.sqlite"
_SYNCHRONOUS = ("NORMAL", "FULL", "EXTRA")


class SQLiteBackend(SqlBackend):
    """Jobs in a SQLite file, or in memory.

    Options: `prefix` of the tables; `busy_timeout`, seconds to wait for the write lock (5); `synchronous`, NORMAL or
    FULL (with FULL also a power cut loses nothing); `returning`, False to use the claim for SQLite before 3.35.
    """

    def __init__(
        self,
        path: str,
        *,
        clock: Clock | None = None,
        prefix: str = DEFAULT_PREFIX,
        busy_timeout: float = 5.0,
        synchronous: str = "NORMAL",
        returning: bool | None = None,
    ) -> None:
        _check_library()
        clock = clock or SystemClock()
        self.path = path
        self.in_memory = path == ":memory:"
        # Waiting for a lock is real time, also for an app whose clock stands still.
        self._settings = SqliteSettings(
            path,
            uri=path.startswith("file:"),
            busy_timeout=_seconds(busy_timeout, "busy_timeout"),
            synchronous=_one_of(synchronous, _SYNCHRONOUS, "synchronous"),
        )
        self._setup_lock = threading.Lock()
        self._is_set_up = False
        shared = OneConnection(self._open()) if self.in_memory else None
        self._inline: Runner = shared or ThreadConnections(self._open)
        super().__init__(
            Statements(_PACKAGE, prefix),
            shared or StoreThread(self._open, name=f"tinyjobs-sqlite-{path.rpartition('/')[2]}"),
            clock=clock,
            returning=library_version() >= RETURNING_VERSION if returning is None else bool(returning),
        )

    @classmethod
    def from_url(cls, url: str, *, clock: Clock, **options: Any) -> Self:
        """A store from `sqlite:///path` or `memory://`; options may stand in the URL's query as well."""
        parts = urlsplit(url)
        shown = f"the store URL {url!r}"
        if parts.scheme == "memory":
            path = ":memory:"
        elif parts.netloc:
            raise ConfigurationError(f"{shown} names the host {parts.netloc!r}. Write sqlite:///file with three slashes.")
        else:
            path = unquote(parts.path).removeprefix("/")
        in_query: dict[str, Any] = {} if path.startswith("file:") else dict(parse_qsl(parts.query))
        if path.startswith("file:") and parts.query:
            path = f"{path}?{parts.query}"
        if not path:
            raise ConfigurationError(f"{shown} names no file. Write for example sqlite:///jobs.db.")
        refuse_unknown({**in_query, **options}, OPTIONS, shown)
        return cls(path, clock=clock, **{**in_query, **options})

    async def setup(self) -> None:
        """Create the tables, or check that this release can work on those that are there."""
        if not self._is_set_up:
            await self._runner.run(self._install, write=True)
            self._is_set_up = True

    def inline(self) -> Self:
        """The twin for synchronous callers: every thread its own connection, nothing suspends."""
        return self.on(self._inline)

    async def close(self) -> None:
        """Close every connection, also those of other threads."""
        await self._runner.close()
        if self._inline is not self._runner:
            await self._inline.close()

    def hurry(self, deadline: float | None) -> None:
        """End every wait for the write lock by `deadline` (monotonic seconds); None: the busy timeout alone counts."""
        self._settings.deadline = deadline

    def _open(self) -> SqliteConnection:
        connection = SqliteConnection(self._settings)
        connection.prepare(memory=self.in_memory)
        return connection

    async def _install(self, connection: Any) -> None:
        with self._setup_lock:
            await install(connection, self.statements, self.path)


def _check_library() -> None:
    if library_version() < OLDEST_VERSION:
        wanted, found = (".".join(map(str, version)) for version in (OLDEST_VERSION, library_version()))
        raise ConfigurationError(f"SQLite {found} is too old: tinyjobs needs {wanted} or newer in this Python.")


def _seconds(value: object, name: str) -> float:
    try:
        seconds = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        seconds = -1.0
    if not 0 <= seconds < 86_400:
        raise ConfigurationError(f"{name}: {value!r} is not a number of seconds from 0 to 86400.")
    return seconds


def _one_of(value: object, allowed: tuple[str, ...], name: str) -> str:
    if not isinstance(value, str) or value.upper() not in allowed:
        raise ConfigurationError(f"{name}: {value!r} is not one of {', '.join(allowed)}.")
    return value.upper()
