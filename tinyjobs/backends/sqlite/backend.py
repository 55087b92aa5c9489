"""The SQLite store: its options, its two faces, and how it wakes an idle worker.

`sqlite:///relative.db`, `sqlite:////absolute.db`, `sqlite:///file:…?…` for a SQLite URI of one's own, and
`memory://` for a private store in memory. The async face runs on a thread of the store's own; `inline()` runs in the
caller's thread.
"""

import asyncio
import threading
from typing import Any, Self

from tinyjobs.backends.sql.backend import SqlBackend
from tinyjobs.backends.sql.connection import Runner
from tinyjobs.backends.sql.layout import install
from tinyjobs.backends.sql.statements import DEFAULT_PREFIX, Statements
from tinyjobs.backends.sqlite.connection import SqliteConnection, SqliteSettings, library_version
from tinyjobs.backends.sqlite.options import SqliteOptions, check_library, check_path, is_in_memory, parse_url
from tinyjobs.backends.sqlite.runners import OneConnection, StoreThread, ThreadConnections
from tinyjobs.backends.sqlite.watch import FileWatch, Waiters
from tinyjobs.core.clock import Clock, SystemClock
from tinyjobs.core.errors import ConfigurationError

_PACKAGE = "tinyjobs.backends.sqlite"
_SECOND_LOOKS = (0.0, 0.001, 0.004, 0.015)


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
        library = library_version()
        check_library(library)
        options = SqliteOptions.parse(
            prefix=prefix, busy_timeout=busy_timeout, synchronous=synchronous, returning=returning, library=library
        )
        self.path = check_path(path)
        self.in_memory = is_in_memory(path)
        # Waiting for a lock is real time, also for an app whose clock stands still.
        self._settings = SqliteSettings(
            path,
            uri=path.startswith("file:"),
            busy_timeout=options.busy_timeout,
            synchronous=options.synchronous,
        )
        self._setup_lock = threading.Lock()
        self._is_set_up = False
        self._waiters = Waiters()
        self._watch: FileWatch | None = None
        self._seen_version = -1
        shared = OneConnection(self._open()) if self.in_memory else None
        self._inline: Runner = shared or ThreadConnections(self._open)
        super().__init__(
            Statements(_PACKAGE, options.prefix),
            shared or StoreThread(self._open, name=f"tinyjobs-sqlite-{path.rpartition('/')[2]}"),
            clock=clock or SystemClock(),
            returning=options.returning,
        )

    @classmethod
    def from_url(cls, url: str, *, clock: Clock, **options: Any) -> Self:
        """A store from `sqlite:///path` or `memory://`; options may stand in the URL's query as well."""
        path, merged = parse_url(url, options)
        return cls(path, clock=clock, **merged)

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
        if self._watch is not None:
            self._watch.close()
            self._watch = None
        await self._runner.close()
        if self._inline is not self._runner:
            await self._inline.close()

    def nudge(self) -> None:
        """Wake the workers of this process that wait on this store."""
        self._waiters.nudge()

    async def wait_for_jobs(self, timeout: float) -> bool:
        """Wait for a nudge, or for a commit of somebody else's; a commit of our own wakes nobody."""
        loop = asyncio.get_running_loop()
        ends = loop.time() + timeout
        while (left := ends - loop.time()) > 0:
            future: asyncio.Future[bool] = loop.create_future()
            self._waiters.add(future)
            try:
                if self.in_memory:
                    _, pending = await asyncio.wait([future], timeout=left)
                    return not pending
                self._watch = self._watch or FileWatch(self.path)
                changed = await self._watch.wait(future, left)
            finally:
                was_nudged = future not in self._waiters
                self._waiters.discard(future)
            if was_nudged or (changed and await self._others_committed()):
                return True
        return False

    async def _others_committed(self) -> bool:
        # The file is written before the commit can be seen, so a commit may need a second look.
        for pause in _SECOND_LOOKS:
            await asyncio.sleep(pause)
            version = await self._runner.run(_data_version, write=False)
            if version != self._seen_version:
                self._seen_version = version
                return True
        return False

    def hurry(self, deadline: float | None) -> None:
        """End every wait for the write lock by `deadline` (monotonic seconds); None: the busy timeout alone counts."""
        self._settings.deadline = deadline

    def _open(self) -> SqliteConnection:
        connection = SqliteConnection(self._settings)
        connection.prepare(memory=self.in_memory)
        return connection

    async def _install(self, connection: Any) -> None:
        with self._setup_lock:
            await install(connection, self.statements, self.path, suits=self._check_file)

    async def _check_file(self, connection: Any) -> None:
        ((encoding,),) = await connection.fetch(self.statements["encoding"])
        if encoding != "UTF-8":
            raise ConfigurationError(f"{self.path} keeps its texts in {encoding}; jobs need a file in UTF-8.")
        ((is_public,),) = await connection.fetch(self.statements["public_layout"])
        if is_public:
            raise ConfigurationError(
                f"{self.path} is the queue of an older package named tinyjobs, whose jobs this one cannot read and "
                f"would leave standing. Run them with that package, and give this store another file."
            )


async def _data_version(connection: Any) -> int:
    version: int = connection.data_version()
    return version
