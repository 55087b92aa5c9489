"""The app's one way to its store: connected by whoever comes first, reached by blocking calls and by awaits, closed.

A blocking call runs a verb to its end in the caller's thread where the store has a synchronous client, else on the
background loop. An await runs the store's own coroutine, by a hop where the store is bound to a loop. Connecting
happens once, elected among all threads and loops; an error is shared by those who waited, and the next call tries
again.

A signal handler that raises may end a blocking call anywhere. So nothing is noted down on the way that would then
stay: a call is under way for as long as its coroutine says so, and connecting and closing are done `undisturbed`.
"""

import threading
from asyncio import _get_running_loop
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from tinyjobs.app.election import Election
from tinyjobs.app.loop import LoopThread, blocking_twin, closed, hopping_twin, with_inline
from tinyjobs.app.roster import Roster
from tinyjobs.app.undisturbed import undisturbed
from tinyjobs.backends.base import Backend
from tinyjobs.core.clock import SystemClock
from tinyjobs.core.errors import SynchronousCallInsideEventLoopError, UnsupportedCapabilityError
from tinyjobs.core.inline import finish

#: How long a close waits for the calls under way before it cuts them.
PATIENCE = 5.0
_PAUSES = (0.001, 0.002, 0.005, 0.01, 0.02)

_inherited: list["OpenStore"] = []

type Verb[T] = Callable[[Backend], Coroutine[Any, Any, T]]


class OpenStore:
    """One store from its opening to its closing, with the twin for each kind of caller."""

    def __init__(self, store: Backend) -> None:
        self.store = store
        self.is_closed = False
        #: Whether a close was asked for. It goes on, whatever becomes of who asked.
        self.is_leaving = False
        #: Whether the last block that used it seems to have ended. May be taken back, and then says nothing of a close.
        self.is_left = False
        #: Who works on it, for whom a close waits.
        self.roster = Roster()
        #: What a call looks at first: whether its face is connected and the app is open.
        self.takes_blocking = False
        self.takes_awaits = False
        #: The coroutine of every call that has begun, with the thread it was made in.
        self.calls: dict[Coroutine[Any, Any, Any], int] = {}
        #: The thread that waits for the close, whose own calls cannot go on before that.
        self.closed_by: int | None = None
        self._loop = loop = LoopThread()
        is_loop_bound = store.capabilities.loop_bound
        try:
            self.inline, has_client = store.inline(), True
        except UnsupportedCapabilityError:
            self.inline, has_client = blocking_twin(store, loop), False
        self.awaited = hopping_twin(store, loop, self.inline) if is_loop_bound else store
        self._has_client = has_client
        #: For a drain, which may use the store from a loop and threads of its own.
        self.for_engine = self.awaited if has_client or is_loop_bound else with_inline(store, self.inline)
        self.sync_connection = Election(lambda: finish(self.inline.setup()))
        # A store whose client and whose loop's connections are two things has two things to set up.
        is_double = has_client and is_loop_bound
        self.async_connection = Election(lambda: loop.run(store.setup)) if is_double else self.sync_connection
        self.closing = Election(self._close)
        #: Called when it is closed, by who keeps something beside it. They must not raise.
        self.when_closed: list[Callable[[], object]] = []

    @property
    def will_close(self) -> bool:
        """Whether whoever begins now has to close it, or see it closed, before the next is opened."""
        return self.is_leaving or self.is_left

    def refuse_calls(self) -> None:
        """Take no more calls."""
        self.is_closed = True
        self.takes_blocking = self.takes_awaits = False

    def _close(self) -> None:
        self._wait_for_calls(PATIENCE)
        for tell in self.when_closed:
            tell()
        self._loop.close(self.store.close)

    def _wait_for_calls(self, patience: float) -> None:
        clock, pauses = SystemClock(), iter(_PAUSES)
        ends, pause = clock.monotonic() + patience, 0.0
        while any(map(self._is_under_way, self.calls.copy().items())) and clock.monotonic() < ends:
            pause = next(pauses, pause)
            threading.Event().wait(pause)

    def _is_under_way(self, entry: tuple[Any, int]) -> bool:
        call, thread = entry
        return bool(call.cr_suspended or (call.cr_running and thread != self.closed_by))

    @asynccontextmanager
    async def for_worker(self) -> AsyncGenerator[Backend]:
        """The store for a worker on the running event loop: none of its statements goes by way of another loop.

        A store that is bound to a loop gets connections for this one, which are closed with the block.
        """
        if not self.store.capabilities.loop_bound:
            yield self.for_engine
            return
        own = self.store.apart()
        try:
            await own.setup()
            yield own if self._has_client else with_inline(own, self.inline)
        finally:
            await own.close()


class StoreAccess:
    """The current store of an app, and every call to it. Safe from any number of threads and event loops."""

    def __init__(self, open_store: Callable[[], Backend]) -> None:
        self._open_store = open_store
        self._lock = threading.Lock()
        self._current = OpenStore(open_store())

    @property
    def current(self) -> OpenStore:
        """The store as it stands, connected or not."""
        return self._current

    @property
    def joins_cold(self) -> bool:
        """Whether a transaction of the caller's can be joined before the store is connected: see `Capabilities`."""
        return self._current.store.capabilities.joins_cold

    @property
    def is_connected(self) -> bool:
        """Whether some call or worker has set the store up."""
        return self._current.takes_blocking or self._current.takes_awaits

    def run[T](self, instead: str, verb: Verb[T], tx: object | None = None, *, cold: bool = False) -> T:
        """Run a verb in this thread. `instead` names the awaitable for the error inside a running event loop.

        `tx`: a connection of the caller's, to run it on. `cold`: the verb is for a store that was not set up.
        """
        refuse_inside_loop(instead)
        opened = self._current
        if not opened.takes_blocking:
            opened = self._opened() if cold or (tx is not None and self.joins_cold) else self._connect()
        call = None
        try:
            call = verb(opened.inline if tx is None else opened.inline.joined(tx))
            opened.calls[call] = threading.get_ident()
            return finish(call)
        except Exception as error:
            if opened.is_closed:
                raise closed() from error
            raise
        finally:
            if call is not None:
                opened.calls.pop(call, None)
                call.close()  # one that an interrupt kept from beginning

    async def arun[T](self, verb: Verb[T], tx: object | None = None, *, cold: bool = False) -> T:
        """Run a verb from this event loop; with `tx`, on a connection of the caller's that belongs to it."""
        opened = self._current
        if not opened.takes_awaits:
            opened = self._opened() if cold or (tx is not None and self.joins_cold) else await self._aconnect()
        call = None
        try:
            call = verb(opened.awaited if tx is None else opened.store.joined(tx))
            opened.calls[call] = threading.get_ident()
            return await call
        except Exception as error:
            if opened.is_closed:
                raise closed() from error
            raise
        finally:
            if call is not None:
                opened.calls.pop(call, None)

    def connect(self, instead: str) -> OpenStore:
        """Be connected for blocking calls."""
        refuse_inside_loop(instead)
        return self._current if self._current.takes_blocking else self._connect()

    async def aconnect(self) -> OpenStore:
        """Be connected for awaits."""
        return self._current if self._current.takes_awaits else await self._aconnect()

    async def aconnect_worker(self) -> OpenStore:
        """Be connected as far as a worker needs it, which brings connections of its own; opens a closed app again."""
        opened = self.reopen()
        await self._settled(opened, opened.sync_connection)
        opened.takes_blocking = True
        self._refuse_closed(opened)
        return opened

    def reopen(self) -> OpenStore:
        """The current store, a new one if the app was closed. Not connected by this."""
        with self._lock:
            if self._current.is_closed:
                self._current = OpenStore(self._open_store())
            return self._current

    def reopened(self) -> OpenStore:
        """The same for a blocking call, which a signal handler may end anywhere, but not with the lock in hand."""
        return undisturbed(self.reopen) if self._current.is_closed else self._current

    def renew_after_fork(self) -> None:
        """In a forked child: leave what the parent's store has alone, and connect anew when it is needed.

        A store whose connections belong to a loop is replaced by another one. Any other sees to its own connections.
        """
        self._lock = threading.Lock()
        parents = self._current
        # Kept for good: what is collected would be closed, and with it connections that are the parent's.
        _inherited.append(parents)
        # In the child nobody works, and what ends here has no close of the parent's to make.
        parents.roster = Roster()
        is_bound = parents.store.capabilities.loop_bound
        self._current = OpenStore(self._open_store() if is_bound else parents.store)
        if parents.is_closed:
            self._current.refuse_calls()

    def close(self, opened: OpenStore, *, asked_by: int | None) -> None:
        """Refuse new calls and let go of that store, once the calls under way have ended, or have had five seconds.

        `asked_by`: the thread that waits for this, if one does, whose own calls cannot end before.
        """
        opened.closed_by = asked_by
        opened.refuse_calls()
        opened.closing.settle()

    async def aclose(self, opened: OpenStore) -> None:
        """Like `close`, without holding up this event loop."""
        opened.refuse_calls()
        await opened.closing.asettle()

    def _connect(self) -> OpenStore:
        opened = self._opened()
        try:
            opened.sync_connection.settle()
        except Exception as error:
            if opened.is_closed:
                raise closed() from error
            raise
        opened.takes_blocking = True
        self._refuse_closed(opened)
        return opened

    async def _aconnect(self) -> OpenStore:
        opened = self._opened()
        await self._settled(opened, opened.async_connection)
        opened.takes_awaits = True
        self._refuse_closed(opened)
        return opened

    async def _settled(self, opened: OpenStore, connection: Election) -> None:
        try:
            await connection.asettle()
        except Exception as error:
            if opened.is_closed:
                raise closed() from error
            raise

    def _refuse_closed(self, opened: OpenStore) -> None:
        # Looked at after it was said to take calls: whichever of this and a close comes last finds the other.
        if opened.is_closed:
            opened.refuse_calls()
            raise closed()

    def _opened(self) -> OpenStore:
        opened = self._current
        if opened.is_closed:
            raise closed()
        return opened


def refuse_inside_loop(instead: str) -> None:
    """Raise on a thread whose event loop is running, which a blocking call would hold up."""
    if _get_running_loop() is not None:
        raise SynchronousCallInsideEventLoopError(
            f"This call blocks, and the event loop of this thread is running. Use {instead} here."
        )
