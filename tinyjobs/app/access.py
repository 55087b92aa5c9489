"""The app's one way to its store: connected by whoever comes first, reached by blocking calls and by awaits, closed.

A blocking call runs a verb to its end in the caller's thread where the store has a synchronous client, else on the
background loop. An await runs the store's own coroutine, by a hop where the store is bound to a loop. Connecting
happens once, elected among all threads and loops; an error is shared by those who waited, and the next call tries
again.
"""

import asyncio
import threading
from asyncio import _get_running_loop
from collections.abc import AsyncGenerator, Callable, Coroutine
from concurrent.futures import Future
from contextlib import asynccontextmanager
from typing import Any

from tinyjobs.app.loop import LoopThread, blocking_twin, closed, hopping_twin, with_inline
from tinyjobs.backends.base import Backend
from tinyjobs.core.errors import SynchronousCallInsideEventLoopError, UnsupportedCapabilityError
from tinyjobs.core.inline import finish

_inherited: list["OpenStore"] = []

type Verb[T] = Callable[[Backend], Coroutine[Any, Any, T]]


class OpenStore:
    """One store from its opening to its closing, with the twin for each kind of caller."""

    def __init__(self, store: Backend) -> None:
        self.store = store
        self.is_closed = False
        loop = LoopThread()
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
        self.closing = Election(lambda: loop.close(store.close))

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


class Election:
    """Something to be done once, by one of many callers; the others wait and get the same answer."""

    def __init__(self, work: Callable[[], object]) -> None:
        self._work = work
        self._lock = threading.Lock()
        self._attempt: Future[bool] | None = None
        self.is_done = False

    def settle(self) -> None:
        """Return once the work is done, by this thread or by another one. Raises what the attempt raised."""
        while not self.is_done:
            attempt, is_mine = self._join()
            if is_mine:
                self._try(attempt)
            attempt.result()

    async def asettle(self) -> None:
        """Like `settle`. The work is done on a thread: no loop waits for it, and none that ends takes it along."""
        while not self.is_done:
            attempt, is_mine = self._join()
            if is_mine:
                threading.Thread(target=self._try, args=(attempt,), name="tinyjobs-connect", daemon=True).start()
            await asyncio.wrap_future(attempt)

    def _join(self) -> tuple["Future[bool]", bool]:
        with self._lock:
            attempt = self._attempt
            if attempt is not None:
                return attempt, False
            attempt = self._attempt = Future()
            attempt.set_running_or_notify_cancel()  # from here on no waiter who leaves can cancel it
            return attempt, True

    def _try(self, attempt: "Future[bool]") -> None:
        try:
            self._work()
        except Exception as error:
            self._attempt = None
            attempt.set_exception(error)
        except BaseException:
            # An interrupt is meant for this caller alone; whoever waits tries in its place.
            self._attempt = None
            attempt.set_result(False)
            raise
        else:
            self.is_done = True
            attempt.set_result(True)


class StoreAccess:
    """The current store of an app, and every call to it. Safe from any number of threads and event loops."""

    def __init__(self, open_store: Callable[[], Backend]) -> None:
        self._open_store = open_store
        self._lock = threading.Lock()
        self._current = OpenStore(open_store())
        # What a call looks at first: set only while its face is connected and the app is open.
        self._sync_ready: OpenStore | None = None
        self._async_ready: OpenStore | None = None

    @property
    def current(self) -> OpenStore:
        """The store as it stands, connected or not."""
        return self._current

    def run[T](self, instead: str, verb: Verb[T], tx: object | None = None) -> T:
        """Run a verb in this thread. `instead` names the awaitable for the error inside a running event loop.

        `tx`: a connection of the caller's, to run it on.
        """
        refuse_inside_loop(instead)
        opened = self._sync_ready or self._connect()
        try:
            return finish(verb(opened.inline if tx is None else opened.inline.joined(tx)))
        except Exception as error:
            if opened.is_closed:
                raise closed() from error
            raise

    async def arun[T](self, verb: Verb[T], tx: object | None = None) -> T:
        """Run a verb from this event loop; with `tx`, on a connection of the caller's that belongs to it."""
        opened = self._async_ready or await self._aconnect()
        try:
            return await verb(opened.awaited if tx is None else opened.store.joined(tx))
        except Exception as error:
            if opened.is_closed:
                raise closed() from error
            raise

    def connect(self, instead: str, *, reopen: bool = False) -> OpenStore:
        """Be connected for blocking calls; `reopen` opens a closed app again."""
        refuse_inside_loop(instead)
        if reopen:
            self.reopen()
        return self._sync_ready or self._connect()

    async def aconnect(self, *, reopen: bool = False) -> OpenStore:
        """Be connected for awaits; `reopen` opens a closed app again."""
        if reopen:
            self.reopen()
        return self._async_ready or await self._aconnect()

    async def aconnect_worker(self) -> OpenStore:
        """Be connected as far as a worker needs it, which brings connections of its own; opens a closed app again."""
        opened = self.reopen()
        await self._settled(opened, opened.sync_connection)
        with self._lock:
            if opened.is_closed:
                raise closed()
            self._sync_ready = opened
        return opened

    def reopen(self) -> OpenStore:
        """The current store, a new one if the app was closed. Not connected by this."""
        with self._lock:
            if self._current.is_closed:
                self._current = OpenStore(self._open_store())
            return self._current

    def renew_after_fork(self) -> None:
        """In a forked child: leave what the parent's store has alone, and open another one when it is needed.

        A store that shares nothing over a fork, such as one in memory, stays.
        """
        self._lock = threading.Lock()
        if self._current.store.capabilities.loop_bound:
            # Kept for good: what is collected would be closed, and with it connections that are the parent's.
            _inherited.append(self._current)
            was_closed = self._current.is_closed
            self._current = OpenStore(self._open_store())
            self._current.is_closed = was_closed
            self._sync_ready = self._async_ready = None

    def close(self, instead: str) -> None:
        """Refuse new calls and let go of the store, once the calls under way have ended."""
        refuse_inside_loop(instead)
        self._begin_closing().closing.settle()

    async def aclose(self) -> None:
        """Like `close`, without holding up this event loop."""
        await self._begin_closing().closing.asettle()

    def _begin_closing(self) -> OpenStore:
        with self._lock:
            self._current.is_closed = True
            self._sync_ready = self._async_ready = None
            return self._current

    def _connect(self) -> OpenStore:
        opened = self._opened()
        try:
            opened.sync_connection.settle()
        except Exception as error:
            if opened.is_closed:
                raise closed() from error
            raise
        with self._lock:
            if opened.is_closed:
                raise closed()
            self._sync_ready = opened
        return opened

    async def _aconnect(self) -> OpenStore:
        opened = self._opened()
        await self._settled(opened, opened.async_connection)
        with self._lock:
            if opened.is_closed:
                raise closed()
            self._async_ready = opened
        return opened

    async def _settled(self, opened: OpenStore, connection: Election) -> None:
        try:
            await connection.asettle()
        except Exception as error:
            if opened.is_closed:
                raise closed() from error
            raise

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
