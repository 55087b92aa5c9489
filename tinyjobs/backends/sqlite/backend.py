"""The SQLite store: its options, its two faces, and how it wakes an idle worker.

`sqlite:///relative.db`, `sqlite:////absolute.db`, `sqlite:///file:…?…` for a SQLite URI of one's own, and
`memory://` for a private store in memory. The async face runs on a thread of the store's own; `inline()` runs in the
caller's thread.
"""

import asyncio
import threading
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Self, cast

from tinyjobs.backends.base import Backend
from tinyjobs.backends.sql.backend import SqlBackend
from tinyjobs.backends.sql.connection import Connection, Runner
from tinyjobs.backends.sql.layout import install
from tinyjobs.backends.sql.plain import PlainDialect
from tinyjobs.backends.sql.statements import DEFAULT_PREFIX, Statements
from tinyjobs.backends.sqlite import forks
from tinyjobs.backends.sqlite.audit import audit
from tinyjobs.backends.sqlite.connection import SqliteConnection, SqliteSettings, library_version
from tinyjobs.backends.sqlite.joining import Joining
from tinyjobs.backends.sqlite.looking import look_for_tables
from tinyjobs.backends.sqlite.options import SqliteOptions, check_library, check_path, file_of, is_in_memory, parse_url
from tinyjobs.backends.sqlite.runners import OneConnection, StoreThread, ThreadConnections
from tinyjobs.backends.sqlite.watch import FileWatch
from tinyjobs.backends.waiters import Waiter, Waiters
from tinyjobs.core.clock import Clock, SystemClock
from tinyjobs.core.errors import ConfigurationError, DataRefusedError, StoreBusyError, UnsupportedCapabilityError
from tinyjobs.core.job import ClaimRequest, Recorded
from tinyjobs.core.transitions import Outcome
from tinyjobs.core.watching import Finding

_PACKAGE = "tinyjobs.backends.sqlite"
# How long after a hint the change counter is read again, and after that: a commit may have to reach the disk first.
_SECOND_LOOKS = (0.001, 0.004, 0.015, 0.06, 0.25)


class SQLiteBackend(SqlBackend):
    """Jobs in a SQLite file, or in memory.

    Options: `prefix` of the tables; `busy_timeout`, seconds to wait for the write lock (5); `synchronous`, NORMAL or
    FULL (with FULL also a power cut loses nothing); `returning`, False to use the claim for SQLite before 3.35.
    """

    capabilities = replace(SqlBackend.capabilities, transactional_enqueue=True, joins_cold=True)

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
        self.path = path = check_path(path)
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
        forks.renew_in_children(self._waiters)
        self._watches: dict[asyncio.AbstractEventLoop, FileWatch] = {}
        self.returning = options.returning
        shared = OneConnection(self._open()) if self.in_memory else None
        self._inline: Runner = shared or ThreadConnections(self._open)
        self._own = shared or StoreThread(self._open, name=f"tinyjobs-sqlite-{path.rpartition('/')[2]}")
        dialect = PlainDialect(Statements(_PACKAGE, options.prefix), returning=options.returning)
        self._suits = partial(_check_file, dialect.statements, path)
        self._joining = Joining(dialect.statements, self._settings, self._suits)
        super().__init__(dialect, self._own, clock=clock or SystemClock())
        if self.in_memory:
            self.capabilities = SqlBackend.capabilities

    @classmethod
    def from_url(cls, url: str, *, clock: Clock, **options: Any) -> Self:
        """A store from `sqlite:///path` or `memory://`; options may stand in the URL's query as well."""
        path, merged = parse_url(url, options)
        return cls(path, clock=clock, **merged)

    async def setup(self) -> None:
        """Create the tables, or check that this release can work on those that are there."""
        if not self._is_set_up:
            await self._runner.run(self._install, write=True)
            self._is_set_up = self._joining.is_laid_out = True

    async def check_layout(self) -> None:
        """On a short connection of its own, which makes no file and leaves the one that is there as it is."""
        if self.in_memory or self._joining.is_laid_out:
            return
        if self._runner is self._inline:
            look_for_tables(self._settings, self.statements)
        else:
            await asyncio.to_thread(look_for_tables, self._settings, self.statements)

    def inline(self) -> Self:
        """The twin for synchronous callers: every thread its own connection, nothing suspends."""
        return self.on(self._inline)

    def joined(self, tx: object) -> Backend:
        """See `Backend.joined`. Takes a `sqlite3` connection for either kind of call; nothing is awaited on it."""
        if self.in_memory:
            raise UnsupportedCapabilityError("a store in memory is its own, which no connection of yours can reach")
        return self._joining.store(tx, self.dialect, self.clock)

    async def audit(self) -> list[Finding]:
        """One read of two pragmas; the mount table and the free space."""
        return await self._runner.run(lambda connection: audit(connection, self.statements, self.path), write=False)

    def record_now(self, outcomes: Sequence[Outcome], request: ClaimRequest | None) -> Recorded | None:
        """On the store's own connection, when neither it nor the file's lock is in use."""

        async def verb(connection: Connection) -> Recorded:
            return await self.dialect.record_and_claim(connection, outcomes, request, self.time)

        try:
            return self._own.run_now(verb)
        except (StoreBusyError, DataRefusedError):
            return None

    async def close(self) -> None:
        """Close every connection, also those of other threads."""
        for watch in list(self._watches.values()):
            watch.close()
        self._watches.clear()
        self._waiters.nudge()
        await self._runner.close()
        if self._inline is not self._runner:
            await self._inline.close()

    def nudge(self, queues: Collection[str] = ()) -> None:
        """Wake the workers of this process that wait on this store."""
        self._waiters.nudge(queues)

    async def wait_for_jobs(self, timeout: float, queues: Sequence[str] = ()) -> bool:
        """Wait for a nudge, or for a commit of somebody else's; a commit of our own wakes nobody.

        What happened since the same task waited last counts as well.
        """
        waiter = self._waiters.mine(queues)
        if self.in_memory:
            return await self._told(waiter, timeout)
        watch = self._watches.get(waiter.loop) or self._open_watch(waiter.loop)
        watch.join()
        try:
            return await self._told(waiter, timeout)
        finally:
            watch.leave()

    def _open_watch(self, loop: asyncio.AbstractEventLoop) -> FileWatch:
        for other in [other for other in self._watches if other.is_closed()]:
            self._watches.pop(other).close()
        watch = self._watches[loop] = FileWatch(file_of(self.path), partial(self._hint, loop))
        return watch

    def _hint(self, loop: asyncio.AbstractEventLoop) -> None:
        for waiter in self._waiters.on(loop):
            waiter.hint()

    async def _told(self, waiter: Waiter, timeout: float) -> bool:
        ends = waiter.loop.time() + timeout
        pauses: list[float] = []
        must_look = False
        while True:
            if waiter.is_nudged:
                waiter.is_nudged = False
                return True
            if waiter.is_hinted:
                waiter.is_hinted, must_look, pauses = False, True, list(_SECOND_LOOKS)
            if must_look and await self._others_committed(waiter):
                return True
            left = ends - waiter.loop.time()
            if left <= 0:
                return False
            # The file is written before the commit can be seen, so a commit may need a second look, or a fifth.
            must_look = bool(pauses)
            await waiter.wait(min(left, pauses.pop(0) if pauses else left))

    async def _others_committed(self, waiter: Waiter) -> bool:
        before, waiter.version = waiter.version, await self._runner.run(_data_version, write=False)
        return waiter.version != before

    def hurry(self, deadline: float | None) -> None:
        """End every wait for the write lock by `deadline` (monotonic seconds); None: the busy timeout alone counts."""
        self._settings.deadline = deadline

    def _open(self) -> SqliteConnection:
        return SqliteConnection(self._settings, memory=self.in_memory)

    async def _install(self, connection: Connection) -> None:
        with self._setup_lock:
            await install(connection, self.statements, self.path, suits=self._suits)


async def _check_file(statements: Statements, path: str, connection: Connection) -> None:
    ((encoding,),) = await connection.fetch(statements["encoding"])
    if encoding != "UTF-8":
        raise ConfigurationError(f"{path} keeps its texts in {encoding}; jobs need a file in UTF-8.")
    ((is_public,),) = await connection.fetch(statements["public_layout"])
    if is_public:
        raise ConfigurationError(
            f"{path} is the queue of an older package named tinyjobs, whose jobs this one cannot read and "
            f"would leave standing. Run them with that package, and give this store another file."
        )


async def _data_version(connection: Connection) -> int:
    # Only the runners of this store are asked, and theirs are of this kind.
    return cast(SqliteConnection, connection).data_version()
