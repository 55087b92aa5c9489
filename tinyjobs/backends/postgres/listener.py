"""A connection of its own that listens for notifications, on the event loop of whoever waits for jobs.

It speaks to libpq directly, so nothing it does has to be cancelled at the server, and closing it never waits. With
`connection.py`, `errors.py` and the pools the only place that imports the driver.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import psycopg
from psycopg import pq

from tinyjobs.backends.listening import Listening, Times
from tinyjobs.backends.postgres.errors import translate
from tinyjobs.backends.postgres.notifying import ANY, PROBE
from tinyjobs.backends.postgres.source import Source
from tinyjobs.backends.waiters import Waiters
from tinyjobs.core.errors import StoreUnavailableError

# How often a connection that says nothing is asked whether it is still there, and how long it may take to answer.
_CHECK = 15.0
_PATIENCE = 5.0
# How long a notification of our own may take to arrive, and when that is tried again after it did not.
_ARRIVAL = 2.0
_DEAF = 60.0
_UNHEARD = (
    ", as behind a pooler in transaction mode, so an idle worker finds jobs by polling alone. Use session pooling, or "
    "a direct connection for workers."
)
_BAD = (pq.ExecStatus.FATAL_ERROR, pq.ExecStatus.BAD_RESPONSE)


class Listener(Listening):
    """See `Listening`.

    `channel` asks the store for the name of its channel, and `tell` has it send a notification with a topic, both by
    another connection.
    """

    probe_mark = PROBE

    def __init__(
        self,
        source: Source,
        waiters: Waiters,
        channel: Callable[[], Awaitable[str]],
        tell: Callable[[str], Awaitable[None]],
    ) -> None:
        super().__init__(source.where, waiters, tell, Times(_CHECK, _ARRIVAL, _DEAF), _UNHEARD)
        self._source = source
        self._channel = channel
        self._raw: psycopg.AsyncConnection[Any] | None = None
        self._descriptor = -1

    # --- how the server is spoken to ------------------------------------------------------------------------------

    def _is_open(self) -> bool:
        return self._raw is not None

    async def _open(self) -> None:
        channel = await self._channel()
        keywords = self._source.connect_keywords()
        keywords["application_name"] = f"{keywords['application_name']} listener"
        raw = await psycopg.AsyncConnection.connect(**keywords, autocommit=True)
        self._raw, self._descriptor = raw, raw.pgconn.socket
        self.loop.add_reader(self._descriptor, self._read)
        for text in (*self._source.prelude, f'LISTEN "{channel}"'):
            await self._ask(raw, text)
        await self._begin()

    async def _check(self) -> None:
        if self._raw is not None:
            await self._ask(self._raw, "SELECT 1")

    def _translated(self, error: BaseException) -> BaseException:
        return translate(error, self._where)

    def _drop(self) -> None:
        super()._drop()
        raw, self._raw = self._raw, None
        if raw is None:
            return
        if not self.loop.is_closed():
            self.loop.remove_reader(self._descriptor)
        raw.pgconn.finish()

    async def _ask(self, raw: "psycopg.AsyncConnection[Any]", text: str) -> None:
        raw.pgconn.send_query(text.encode())
        # So few bytes go out at once.
        raw.pgconn.flush()
        try:
            await self._within(_PATIENCE)
        except TimeoutError as error:
            raise StoreUnavailableError(
                f"{self._source.where}: the connection that listens did not answer within {_PATIENCE:g} s."
            ) from error

    # --- what arrives -------------------------------------------------------------------------------------------

    def _read(self) -> None:
        if self._raw is None:
            return
        pgconn = self._raw.pgconn
        try:
            pgconn.consume_input()
            self._read_answer(pgconn)
            while (note := pgconn.notifies()) is not None:
                self._hear(note.extra.decode("ascii", "replace"))
            if pgconn.status != pq.ConnStatus.OK:
                raise psycopg.OperationalError(pgconn.get_error_message() or "the connection that listens was lost")
        except psycopg.Error as error:
            self._break(error)

    def _read_answer(self, pgconn: Any) -> None:
        while self._awaited is not None and not self._probe and not pgconn.is_busy():
            result = pgconn.get_result()
            if result is None:
                self._came()
                return
            if result.status in _BAD:
                raise psycopg.OperationalError(result.get_error_message())

    def _hear(self, topic: str) -> None:
        if not topic.startswith(PROBE):
            self._waiters.nudge(() if topic == ANY else (topic,))
        elif topic == self._probe:
            self._probe = ""
            self._came()
