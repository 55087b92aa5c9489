"""A connection of its own that subscribes to a store's wake-ups, on the event loop of whoever waits for jobs.

The driver connects and signs in; from then on the socket is read here, as it arrives. So no task waits for an answer
that may never come, no timeout of the client's ends a wait that is meant to be long, and closing takes no time.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from tinyjobs.backends.listening import Listening, Times
from tinyjobs.backends.redis.driver import open_stream
from tinyjobs.backends.redis.errors import translate
from tinyjobs.backends.redis.link import Link
from tinyjobs.backends.redis.replies import InvalidReply, new_replies, packed
from tinyjobs.backends.redis.source import NAME, Source
from tinyjobs.backends.waiters import Waiters
from tinyjobs.core.errors import StoreError, StoreUnavailableError

#: Before what is published to try out whether wake-ups arrive. No queue is named so.
PROBE = "\0probe "
#: Is published for jobs of any queue.
ANY = "*"

# How often a connection that says nothing is asked whether it is still there, and how long it may take to answer.
_CHECK = 15.0
_PATIENCE = 5.0
# How long a wake-up of our own may take to arrive, and when that is tried again after it did not.
_ARRIVAL = 2.0
_DEAF = 60.0
_UNHEARD = (
    ", so an idle worker finds jobs by polling alone. What is published on this server does not reach its subscribers."
)
_FORBIDDEN = ", so an idle worker finds jobs by polling alone: {} The channel is granted by &{}."


class Listener(Listening):
    """See `Listening`. `channel` carries names of queues, or ANY; `link` publishes what it is tried out with."""

    probe_mark = PROBE

    def __init__(self, source: Source, waiters: Waiters, channel: str, link: Link) -> None:
        async def tell(probe: str) -> None:
            await link.command("PUBLISH", channel, probe)

        super().__init__(source.where, waiters, tell, Times(_CHECK, _ARRIVAL, _DEAF), _UNHEARD)
        self._source = source
        self._channel = channel
        self._writer: asyncio.StreamWriter | None = None
        # The kind of answer that is awaited.
        self._expected = b""

    # --- how the server is spoken to ------------------------------------------------------------------------------

    def _is_open(self) -> bool:
        return self._writer is not None

    async def _open(self) -> None:
        self._writer = await open_stream(self._source, f"{NAME}-listener")
        transport = self._writer.transport
        transport.set_protocol(_Ears(self._hear, self._break_once(transport)))
        try:
            await self._ask(b"subscribe", "SUBSCRIBE", self._channel)
            await self._begin()
        except StoreError as error:
            if getattr(error, "code", "") != "NOPERM":
                raise
            self._give_up(_FORBIDDEN.format(error, self._channel))

    async def _check(self) -> None:
        await self._ask(b"pong", "PING")

    async def _ask(self, expected: bytes, *words: str) -> None:
        if self._writer is None:
            return
        self._writer.transport.write(packed(words))
        self._expected = expected
        try:
            await self._within(_PATIENCE)
        except TimeoutError as error:
            raise StoreUnavailableError(
                f"{self._where}: the connection that listens did not answer within {_PATIENCE:g} s."
            ) from error
        finally:
            self._expected = b""

    def _drop(self) -> None:
        super()._drop()
        writer, self._writer = self._writer, None
        if writer is not None and not self.loop.is_closed():
            writer.transport.abort()

    def _translated(self, error: BaseException) -> BaseException:
        return translate(error, self._where)

    # --- what arrives ---------------------------------------------------------------------------------------------

    def _hear(self, reply: Any) -> None:
        if isinstance(reply, Exception):
            self._refused(reply)
            return
        kind, *rest = reply if isinstance(reply, list) else [b""]
        if kind == b"message":
            self._told(bytes(rest[-1]).decode("utf-8", "replace"))
        elif kind == self._expected:
            self._came()

    def _told(self, topic: str) -> None:
        if not topic.startswith(PROBE):
            self._waiters.nudge(() if topic == ANY else (topic,))
        elif topic == self._probe:
            self._probe = ""
            self._came()

    def _refused(self, error: Exception) -> None:
        told = self._translated(error)
        if self._awaited is not None and not self._awaited.done():
            self._awaited.set_exception(told)
        else:
            self._break(error)

    def _break_once(self, transport: asyncio.WriteTransport) -> Callable[[Exception | None], None]:
        def ended(error: Exception | None) -> None:
            if self._writer is not None and self._writer.transport is transport:
                why = f": {error}" if error else ""
                self._break(StoreUnavailableError(f"{self._where}: the connection that listens was lost{why}"))

        return ended


class _Ears(asyncio.Protocol):
    """Takes what arrives apart."""

    def __init__(self, hear: Callable[[Any], None], ended: Callable[[Exception | None], None]) -> None:
        self._hear = hear
        self._ended = ended
        self._replies = new_replies()

    def data_received(self, data: bytes) -> None:
        try:
            for reply in self._replies.feed(data):
                self._hear(reply)
        except InvalidReply as error:
            self._ended(error)

    def connection_lost(self, exc: Exception | None) -> None:
        self._ended(exc)
