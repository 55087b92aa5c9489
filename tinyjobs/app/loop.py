"""One event loop on a thread of its own, started when it is first needed, and twins of a store that run there.

For two kinds of store: one without a synchronous client, whose verbs a blocking caller waits for, and one whose
connections belong to one loop (`Capabilities.loop_bound`), which every other loop reaches by a hop. Knows nothing of
tasks, and of a store only its protocol.
"""

import asyncio
import inspect
import os
import threading
import weakref
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import CancelledError, Future
from typing import Any, cast

from tinyjobs.app.election import told
from tinyjobs.app.undisturbed import undisturbed
from tinyjobs.backends.base import Backend, BaseBackend
from tinyjobs.core.errors import AppClosedError
from tinyjobs.core.sight import every_task

_VERBS = frozenset(
    name
    for protocol in (*Backend.__mro__, *BaseBackend.__mro__)
    for name, member in vars(protocol).items()
    if inspect.iscoroutinefunction(member) and not name.startswith("_")
)

type Call[T] = Callable[[], Coroutine[Any, Any, T]]


class LoopThread:
    """The loop. A call is a function that makes a coroutine, so that one refused leaves no coroutine behind."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._pending: set[Future[Any]] = set()
        self._is_closed = False

    def run[T](self, call: Call[T]) -> T:
        """Run the call there and wait for its answer here. An interrupt ends the wait, and the call goes on."""
        return undisturbed(lambda: self._result_of(call))

    async def arun[T](self, call: Call[T]) -> T:
        """Run the call there and await its answer; cancelling the caller cancels the call."""
        future = self._submit(call)
        try:
            return await told(future)
        except CancelledError:
            raise _cut() from None
        finally:
            future.cancel()

    def _result_of[T](self, call: Call[T]) -> T:
        try:
            return self._submit(call).result()
        except CancelledError:
            raise _cut() from None

    def close(self, last: Call[object]) -> None:
        """Refuse new calls, cut those under way, run `last` and end the thread. Blocks."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            pending = set(self._pending)
            try:
                loop = self._loop or self._start()
            except AppClosedError:
                _run_here(last)
                return
        try:
            for call in pending:
                call.cancel()
            asyncio.run_coroutine_threadsafe(last(), loop).result()
        finally:
            loop.call_soon_threadsafe(loop.stop)
            if self._thread is not None:
                self._thread.join()

    def _submit[T](self, call: Call[T]) -> "Future[T]":
        with self._lock:
            if self._is_closed:
                raise closed()
            loop = self._loop or self._start()
            future = asyncio.run_coroutine_threadsafe(call(), loop)
            self._pending.add(future)
        future.add_done_callback(self._pending.discard)
        return future

    def _start(self) -> asyncio.AbstractEventLoop:
        self._loop = loop = asyncio.new_event_loop()
        # The thread holds the loop alone, so that an app nobody uses any more can be collected and its loop stopped.
        self._thread = threading.Thread(target=_serve, args=(loop,), name="tinyjobs-loop", daemon=True)
        try:
            self._thread.start()
        except RuntimeError as error:
            self._loop = self._thread = None
            loop.close()
            raise AppClosedError(
                "Python starts no more threads, as when the program ends, and this store needs one; use it before."
            ) from error
        weakref.finalize(self, _stop, loop, os.getpid())
        return loop


def closed() -> AppClosedError:
    """The answer to a call of an app that was closed."""
    return AppClosedError("The app was closed; start() or ready() opens it again.")


def blocking_twin(store: Backend, loop: LoopThread) -> Backend:
    """A twin whose coroutines block the calling thread and so never suspend: what `Backend.inline` promises."""

    async def call(verb: Call[Any]) -> Any:
        return loop.run(verb)

    return cast(Backend, _Twin(store, call))


def hopping_twin(store: Backend, loop: LoopThread, inline: Backend | None = None) -> Backend:
    """A twin for any event loop, whose coroutines run on the loop the store belongs to."""
    return cast(Backend, _Twin(store, loop.arun, inline))


def with_inline(store: Backend, inline: Backend) -> Backend:
    """The store itself, with a twin for synchronous callers that it does not have of its own."""
    return cast(Backend, _Twin(store, None, inline))


class _Twin:
    """A store seen through another way of calling its verbs; everything else is answered by the store itself."""

    def __init__(
        self, store: Backend, call: Callable[[Call[Any]], Awaitable[Any]] | None, inline: Backend | None = None
    ) -> None:
        self._store = store
        self._call = call
        self._inline = inline

    def inline(self) -> Backend:
        return self._inline or cast(Backend, self)

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._store, name)
        call = self._call
        if call is None or name not in _VERBS:
            return member

        async def elsewhere(*args: Any, **kwargs: Any) -> Any:
            return await call(lambda: member(*args, **kwargs))

        return elsewhere


def _cut() -> AppClosedError:
    return AppClosedError("The app was closed while this call was under way; whether it took effect is not known.")


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        tasks = every_task(loop)
        for task in tasks:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


def _run_here(last: Call[object]) -> None:
    """Run it on a loop in this thread, where no thread can be had. A loop that runs here waits meanwhile."""
    outer = asyncio._get_running_loop()
    asyncio._set_running_loop(None)
    loop = asyncio.new_event_loop()
    try:
        loop.run_until_complete(last())
    finally:
        loop.close()
        asyncio._set_running_loop(outer)


def _stop(loop: asyncio.AbstractEventLoop, process: int) -> None:
    if os.getpid() == process and not loop.is_closed():
        loop.call_soon_threadsafe(loop.stop)
