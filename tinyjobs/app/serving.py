"""An app inside a web server: opened with it, closed with it, and with a worker on the server's own event loop.

The server owns the process: nothing here touches signals or their wake-up descriptor, and leaving the block is the
worker's SIGTERM. Knows of ASGI only the shape of a lifespan, and imports no framework.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Self

from tinyjobs.core.errors import ConfigurationError
from tinyjobs.core.options import check_flag
from tinyjobs.core.sight import out_of_sight
from tinyjobs.runtime.hooks import Hooks
from tinyjobs.runtime.settings import WorkerSettings
from tinyjobs.runtime.worker import Worker, WorkerReport

logger = logging.getLogger("tinyjobs.worker")

#: How error hooks are told that an embedded worker has died.
SERVE = "serve"


class Serving:
    """The part of `TinyJobs` for whoever has an event loop already, such as a web server."""

    _hooks: Hooks

    def worker(self, **settings: Any) -> Worker:
        """A worker of this app."""
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        """Open the app."""
        raise NotImplementedError

    async def __aexit__(self, *exc: Any) -> None:
        """Close it."""
        raise NotImplementedError

    def serve(self, worker: bool = True, **settings: Any) -> AbstractAsyncContextManager[Self]:
        """`async with app.serve(concurrency=4): ...` opens the app and runs a worker on this event loop.

        Settings are those of `WorkerSettings`; `worker=False` only opens the app. Entering raises what keeps the app
        or the worker from beginning. Leaving stops the worker as SIGTERM would: running jobs have `shutdown_timeout`
        seconds, then coroutines are cut and given back, and functions in threads are waited for. Then the app closes.
        Cancelled while it waits, it cuts them at once.

        A worker that dies meanwhile is logged as an error, told to the `on_error` hooks as `"serve"`, and leaving the
        block raises what it died of. The block itself goes on: whether the server should is the program's to say.
        """
        return self._serving(_parsed(worker, settings, "app.serve()"))

    def lifespan(
        self, *, worker: bool = True, **settings: Any
    ) -> Callable[[object], AbstractAsyncContextManager[None]]:
        """The same in the shape that Starlette and FastAPI take: `FastAPI(lifespan=app.lifespan())`."""
        parsed = _parsed(worker, settings, "app.lifespan()")

        @asynccontextmanager
        async def lifespan(_: object) -> AsyncGenerator[None]:
            async with self._serving(parsed):
                yield

        return lifespan

    @asynccontextmanager
    async def _serving(self, settings: Mapping[str, Any] | None) -> AsyncGenerator[Self]:
        async with self:
            if settings is None:
                yield self
                return
            embedded = _Embedded(self.worker(**settings), self._hooks)
            await embedded.begin()
            try:
                yield self
            except BaseException:
                await embedded.end()
                raise
            await embedded.end()
            embedded.raise_cause()


class _Embedded:
    """One worker on a loop that it does not own."""

    def __init__(self, worker: Worker, hooks: Hooks) -> None:
        self._worker = worker
        self._hooks = hooks
        self._is_leaving = False
        self._has_begun = asyncio.Event()
        worker.began = self._has_begun.set
        # Out of sight of the jobs: one that cancels every task of the loop does not mean its worker.
        self._task: asyncio.Task[WorkerReport] = out_of_sight(asyncio.get_running_loop().create_task(worker.run()))
        self._task.add_done_callback(self._ended)

    async def begin(self) -> None:
        """Return once the worker works; raise what kept it from it."""
        beginning = out_of_sight(asyncio.get_running_loop().create_task(self._has_begun.wait()))
        try:
            await asyncio.wait((self._task, beginning), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            await self.end()
            raise
        finally:
            beginning.cancel()
        if not self._has_begun.is_set():
            await self._task

    async def end(self) -> None:
        """Stop the worker and wait for its end; a cancellation meanwhile makes it end without waiting for jobs."""
        self._is_leaving = True
        self._worker.stop()
        if not self._has_begun.is_set():
            self._task.cancel()  # it connects, and has nothing to give back
        cancelled: asyncio.CancelledError | None = None
        while not self._task.done():
            try:
                await asyncio.wait((self._task,))
            except asyncio.CancelledError as error:
                cancelled = error
                self._worker.force()
        if cancelled is not None:
            raise cancelled

    def raise_cause(self) -> None:
        """Raise what the worker died of, if it did."""
        self._task.result()

    def _ended(self, task: "asyncio.Task[WorkerReport]") -> None:
        if task.cancelled():
            return
        error = task.exception()
        if not self._has_begun.is_set():
            return  # whoever waits for its beginning is told
        if error is not None:
            logger.error("the worker inside this server has ended, and its jobs wait: %s", error, exc_info=error)
            self._hooks.report(SERVE, error)
        elif not self._is_leaving:
            logger.warning("the worker inside this server was stopped; the server goes on without one")


def _parsed(worker: bool, settings: Mapping[str, Any], source: str) -> Mapping[str, Any] | None:
    check_flag(worker, f"{source}: worker")
    WorkerSettings.parse(settings, source)
    if settings.get("handle_signals"):
        raise ConfigurationError(f"{source}: handle_signals: signals belong to the server; leave it out.")
    if settings.get("until_empty"):
        raise ConfigurationError(f"{source}: until_empty: a worker inside a server ends with it; leave it out.")
    if worker:
        return {**settings, "handle_signals": False}
    if settings:
        raise ConfigurationError(f"{source}: {', '.join(sorted(settings))}: worker=False runs no worker to set.")
    return None
