"""A store as its synchronous callers use it: every verb run to its end inside a thread, by `store.inline()`.

It is a `Backend` again, so the same suite runs over it. Each client has a thread of its own and with it, in a store
that keeps a connection per thread, a connection of its own.
"""

import asyncio
import inspect
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast
from unittest import SkipTest

from tinyjobs.backends.base import Backend
from tinyjobs.core.errors import UnsupportedCapabilityError
from tinyjobs.core.inline import finish


class SyncFace:
    """Makes every coroutine of the twin an ordinary call in this client's thread."""

    def __init__(self, twin: Backend) -> None:
        self._twin = twin
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="contract-client")

    @classmethod
    def of(cls, backend: Backend) -> Backend:
        """The face of a store; a store without a synchronous client skips the test."""
        try:
            twin = backend.inline()
        except UnsupportedCapabilityError as error:
            raise SkipTest(f"no synchronous face: {error}") from error
        return cast(Backend, cls(twin))

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._twin, name)
        if not inspect.iscoroutinefunction(member):
            return member

        async def call(*args: Any, **kwargs: Any) -> Any:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._thread, lambda: finish(member(*args, **kwargs)))

        return call

    async def close(self) -> None:
        """End the thread. The store itself is closed by whoever made it."""
        self._thread.shutdown()
