"""Virtual time, and processes that can be killed or stalled between any two steps.

An event loop whose time stands still while something can run and jumps to the next timer when nothing can. Whatever is
scheduled belongs to the process in whose context that was done: a dead process takes no further step, not even its
clean-up, and a stalled one takes its steps once it goes on. Knows nothing of jobs.
"""

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from enum import Enum
from typing import Any

START = 1_700_000_000.0


class State(Enum):
    RUNNING = "running"
    STALLED = "stalled"
    DEAD = "dead"


class Process:
    """What one process of the world may still do."""

    def __init__(self, name: str, loop: "VirtualLoop") -> None:
        self.name = name
        self.state = State.RUNNING
        self._loop = loop
        #: What it was about to do when it was stopped, in order.
        self._parked: list[_Step] = []

    def start(self, coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run a coroutine as this process. All that it schedules is this process's as well."""
        context = contextvars.copy_context()
        context.run(_process.set, self)
        return self._loop.create_task(coroutine, context=context)

    def call(self, function: Callable[[], object]) -> None:
        """Call a function as this process."""
        context = contextvars.copy_context()
        context.run(_process.set, self)
        context.run(function)

    def kill(self) -> None:
        """From now on it does nothing at all."""
        self.state = State.DEAD

    def bury(self) -> None:
        """Let it take its steps after all, so that its tasks can be cancelled: the world is over."""
        self.state = State.STALLED
        self.go_on()

    def stall(self) -> None:
        """Do nothing until `go_on`."""
        if self.state is State.RUNNING:
            self.state = State.STALLED

    def go_on(self) -> None:
        """Take the steps that were due meanwhile, in their order."""
        if self.state is State.STALLED:
            self.state = State.RUNNING
            parked, self._parked = self._parked, []
            for step in parked:
                self._loop.take_up(step)

    def park(self, step: "_Step") -> None:
        self._parked.append(step)


_process: contextvars.ContextVar[Process | None] = contextvars.ContextVar("process", default=None)


def current_process() -> Process | None:
    """The process whose code runs; None for the world's own."""
    return _process.get()


class _Step:
    """A callback that runs only while its process does."""

    __slots__ = ("args", "callback", "handle", "process")

    def __init__(self, process: Process, callback: Callable[..., object], args: tuple[Any, ...]) -> None:
        self.process = process
        self.callback = callback
        self.args = args
        #: As the code that scheduled it knows it, and may cancel it by.
        self.handle: asyncio.Handle | None = None

    def __call__(self) -> None:
        if self.process.state is not State.RUNNING:
            self.process.park(self)
        elif self.handle is None or not self.handle.cancelled():
            self.callback(*self.args)


class VirtualLoop(asyncio.BaseEventLoop):
    """See the module. Does no input or output; whoever waits for a thread waits for ever, and is told so."""

    def __init__(self) -> None:
        super().__init__()
        self._virtual_now = 0.0
        self._selector = self

    def time(self) -> float:
        return self._virtual_now

    # What the base class asks of a selector and of whoever has one.
    def select(self, timeout: float | None) -> list[Any]:
        if timeout is None:
            raise RuntimeError("nothing will ever happen again in this world")
        self._virtual_now += timeout
        return []

    def _process_events(self, event_list: list[Any]) -> None:
        return None

    def _write_to_self(self) -> None:
        return None

    def call_soon(self, callback: Any, *args: Any, context: contextvars.Context | None = None) -> asyncio.Handle:
        process = _process.get() if context is None else context.get(_process)
        if process is None:
            return super().call_soon(callback, *args, context=context)
        step = _Step(process, callback, args)
        step.handle = super().call_soon(step, context=context)
        return step.handle

    def call_soon_threadsafe(
        self, callback: Any, *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)

    def call_at(
        self, when: float, callback: Any, *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        process = _process.get() if context is None else context.get(_process)
        if process is None:
            return super().call_at(when, callback, *args, context=context)
        step = _Step(process, callback, args)
        handle = super().call_at(when, step, context=context)
        step.handle = handle
        return handle

    def take_up(self, step: _Step) -> None:
        """Run a step that was parked, in its own context."""
        context = getattr(step.handle, "_context", None)
        super().call_soon(step, context=context)


class VirtualClock:
    """The wall clock and the monotonic one of a world. The first can be set; both stand on the loop's time."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self._offset = START

    def now(self) -> float:
        return self._loop.time() + self._offset

    def monotonic(self) -> float:
        return self._loop.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def jump(self, seconds: float) -> None:
        """Set the wall clock forward, or back."""
        self._offset += seconds
