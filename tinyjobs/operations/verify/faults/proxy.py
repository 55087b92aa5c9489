"""A proxy on loopback before a server's Unix socket, which cuts, holds up or slows what passes from one moment to the
next. Runs on an event loop in a thread of its own; its controls may be called from any thread.
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

from tinyjobs.core.clock import SystemClock

_CHUNK = 65_536
_PATIENCE = 60.0


class Proxy:
    """Listens on `port` for as long as it is open, whether there is a server behind it or not."""

    def __init__(self, target: Path) -> None:
        self._target = target
        self._clock = SystemClock()
        self._delay = 0.0
        self._links: set[asyncio.StreamWriter] = set()
        self._serving: set[asyncio.Task[None] | None] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="verify-proxy", daemon=True)
        self._thread.start()
        self._flows = asyncio.Event()
        self._flows.set()
        self._server = asyncio.run_coroutine_threadsafe(
            asyncio.start_server(self._serve, "127.0.0.1", 0), self._loop
        ).result(_PATIENCE)
        self.port: int = self._server.sockets[0].getsockname()[1]

    def cut(self) -> None:
        """Break every connection there is. New ones are accepted."""
        self._call(self._abort_all)

    def stall(self) -> None:
        """Hold everything up: connections stay and are accepted, and nothing arrives, until `resume`."""
        self._call(self._flows.clear)

    def resume(self) -> None:
        """Let everything pass again, what was held up first."""
        self._call(self._flows.set)

    def delay(self, seconds: float) -> None:
        """From now on everything arrives so much later, in both directions."""
        self._call(lambda: setattr(self, "_delay", seconds))

    def close(self) -> None:
        """Break every connection and end."""
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(_PATIENCE)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_PATIENCE)

    def _abort_all(self) -> None:
        for writer in list(self._links):
            writer.transport.abort()

    async def _end(self) -> None:
        self._server.close()
        self._abort_all()
        self._flows.set()
        served = [task for task in self._serving if task is not None]
        for task in served:
            task.cancel()
        await asyncio.gather(*served, return_exceptions=True)

    def _call(self, function: Callable[[], object]) -> None:
        done: Future[None] = Future()

        def run() -> None:
            function()
            done.set_result(None)

        self._loop.call_soon_threadsafe(run)
        done.result(_PATIENCE)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        self._serving.add(task)
        try:
            await self._link(reader, writer)
        finally:
            self._serving.discard(task)

    async def _link(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._links.add(writer)
        try:
            there, back = await asyncio.open_unix_connection(str(self._target))
        except OSError:
            self._links.discard(writer)
            writer.transport.abort()
            return
        self._links.add(back)
        try:
            await asyncio.gather(self._pump(reader, back), self._pump(there, writer))
        finally:
            for end in (writer, back):
                self._links.discard(end)
                end.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(_CHUNK):
                await self._flows.wait()
                if self._delay:
                    await self._clock.sleep(self._delay)
                writer.write(data)
                await writer.drain()
            writer.write_eof()
        except (OSError, RuntimeError):
            writer.transport.abort()
