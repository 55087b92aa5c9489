"""Workers in processes of their own, ended by SIGKILL, by SIGTERM, or because the demo itself breaks off."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from django.conf import settings

MANAGE = Path(__file__).resolve().parents[2] / "manage.py"
PAUSE = 0.05


class DemoFailed(Exception):
    """The story cannot go on. The message says where it stopped."""


_asked_to_end: list[int] = []


@contextmanager
def ending_in_order() -> Iterator[None]:
    """SIGINT and SIGTERM are noted, and heeded while a worker is waited for.

    Heeded at any moment, they could come between the start of a process and the line that remembers it.
    """
    _asked_to_end.clear()
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, lambda heard, frame: _asked_to_end.append(heard)) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


class WorkerProcess:
    """A `manage.py tinyjobs worker` of its own. However the block ends, no process is left behind."""

    def __init__(self, name: str, *options: str, **environment: str) -> None:
        self.name = name
        self.log = settings.VAR / f"{name}.log"
        # Without the restart on code changes, which DEBUG turns on: it would put a process between us and the worker.
        self._command = [sys.executable, str(MANAGE), "tinyjobs", "worker", "--no-reload", *options]
        self._environment = {**os.environ, "SHOP_VAR": str(settings.VAR), "PYTHONUNBUFFERED": "1", **environment}
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self._environment
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._running.poll() is None:
            self._running.kill()
            self._running.wait()

    def kill(self) -> int:
        """End it with SIGKILL, which it can neither see nor answer."""
        self._running.kill()
        return self._running.wait()

    def stop(self, patience: float) -> int:
        """Ask it to stop, by SIGTERM, and wait for it; the exit status."""
        self._running.terminate()
        try:
            return self._running.wait(patience)
        except subprocess.TimeoutExpired:
            raise DemoFailed(f"{self.name} did not stop within {patience:g} s. {self._last_words()}") from None

    def wait_until(self, is_so: Callable[[], bool], what: str, patience: float) -> None:
        """Return when it is so. Raises `DemoFailed` when the worker ends before that, or the patience."""
        deadline = time.monotonic() + patience
        while not is_so():
            if _asked_to_end:
                raise DemoFailed(f"Interrupted by {signal.Signals(_asked_to_end[0]).name}.")
            if self._running.poll() is not None:
                status = self._running.returncode
                raise DemoFailed(f"{self.name} ended with status {status} before {what}. {self._last_words()}")
            if time.monotonic() > deadline:
                raise DemoFailed(f"After {patience:g} s still not: {what}. {self._last_words()}")
            time.sleep(PAUSE)

    @property
    def pid(self) -> int:
        return self._running.pid

    @property
    def _running(self) -> "subprocess.Popen[bytes]":
        if self._process is None:
            raise RuntimeError("the worker was not started")
        return self._process

    def _last_words(self) -> str:
        lines = self.log.read_text("utf-8", "replace").splitlines()[-12:]
        return f"Its last words, from {self.log}:\n" + "\n".join(f"    {line}" for line in lines)
