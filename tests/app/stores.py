"""Stores of the kinds that the bundled ones are not: without a synchronous client, and bound to one event loop."""

import asyncio
import threading
from collections.abc import Collection, Sequence
from typing import Any

from tinyjobs.backends.base import Backend, Capabilities
from tinyjobs.backends.sqlite.backend import SQLiteBackend
from tinyjobs.core.clock import Clock
from tinyjobs.core.errors import UnsupportedCapabilityError

VERBS = {"setup", "close", "enqueue", "enqueue_many", "get", "list", "cancel", "requeue", "executions", "stats"}
VERBS |= {"claim", "record", "heartbeat", "reap_expired", "next_due", "claim_job", "counts_by_status"}


class LoopOnly:
    """A memory store that can only be awaited, and that notes on which loop and thread each verb ran."""

    capabilities = Capabilities(dedup=True)

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._real = SQLiteBackend(":memory:", clock=clock)
        self.loops: list[asyncio.AbstractEventLoop] = []
        self.threads: set[str] = set()
        self.calls: list[str] = []

    @classmethod
    def from_url(cls, url: str, *, clock: Clock, **options: Any) -> "LoopOnly":
        return cls(clock)

    def inline(self) -> Backend:
        raise UnsupportedCapabilityError("no synchronous client")

    def nudge(self, queues: Collection[str] = ()) -> None:
        pass

    async def wait_for_jobs(self, timeout: float, queues: Sequence[str] = ()) -> bool:
        raise UnsupportedCapabilityError("no wake-ups")

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self._real, name)
        if name not in VERBS:
            return verb

        async def noted(*args: Any, **kwargs: Any) -> Any:
            loop = asyncio.get_running_loop()
            if loop not in self.loops:
                self.loops.append(loop)
            self.threads.add(threading.current_thread().name)
            self.calls.append(name)
            await asyncio.sleep(0)  # suspends, as a network does
            return await verb(*args, **kwargs)

        return noted


class LoopBound(LoopOnly):
    """Its connections belong to one loop: a verb from any other is an error, as with a real pool."""

    capabilities = Capabilities(dedup=True, loop_bound=True)

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.apart_ones: list[LoopBound] = []

    def apart(self) -> "LoopBound":
        other = _LoopBoundApart(self.clock)
        other._real = self._real
        self.apart_ones.append(other)
        return other


class _LoopBoundApart(LoopBound):
    """The same store on another loop. What it shares is not its to close."""

    async def close(self) -> None:
        self.calls.append("close")


class Meagre(LoopOnly):
    """A store that can do hardly anything beside keeping small jobs in order."""

    capabilities = Capabilities(priority=False, delayed=False, max_payload_bytes=40)
