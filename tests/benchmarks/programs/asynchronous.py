"""What the programs share whose queue has an asynchronous face only: one event loop, driven from outside."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from measuring import Program


class AsynchronousProgram(Program):
    def load(self) -> None:
        # The same loop that the queue's own worker command runs on, where it has a choice of one.
        try:
            from uvloop import new_event_loop
        except ImportError:
            new_event_loop = asyncio.new_event_loop
        self.runner = asyncio.Runner(loop_factory=new_event_loop)

    def wait_for(self, call: Coroutine[Any, Any, Any]) -> Any:
        return self.runner.run(call)
