"""Runs commands side by side, and shows what each wrote in one piece when it has ended.

For `runtests.py`: it imports nothing but the standard library, and knows nothing of stores.
"""

import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import IO

ROOT = Path(__file__).resolve().parents[1]
#: How long a command that was interrupted may take to end.
PATIENCE = 60.0
ENDINGS = (signal.SIGTERM, signal.SIGHUP) if os.name != "nt" else (signal.SIGTERM,)


@dataclass
class Round:
    """A command, what it is called, what its environment has that ours has not, and what its exit codes mean."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    meanings: Mapping[int, str] = field(default_factory=dict)


class Running:
    """A round that runs in a session of its own, so that a Ctrl-C reaches it once, by way of us."""

    def __init__(self, round_: Round, ended: "queue.SimpleQueue[Running]") -> None:
        self.name = round_.name
        self.meanings = {0: "ok", **round_.meanings}
        self.written: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed once it has been shown
        self.began = time.monotonic()
        self.seconds = 0.0
        self.process = subprocess.Popen(
            round_.command,
            cwd=ROOT,
            env={**os.environ, **size_of_the_terminal(), **round_.environment},
            stdin=subprocess.DEVNULL,
            stdout=self.written,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self._ended = ended
        threading.Thread(target=self._wait, name=round_.name, daemon=True).start()

    def _wait(self) -> None:
        self.process.wait()
        self.seconds = time.monotonic() - self.began
        self._ended.put(self)

    def send(self, number: signal.Signals) -> None:
        """To the command and to what it has started."""
        try:
            os.killpg(self.process.pid, number)
        except ProcessLookupError:
            return

    def show(self, ending: str) -> None:
        """Print what it wrote, between two lines that say whose it is."""
        print(f"\n--- {self.name}", flush=True)
        self.written.seek(0)
        shutil.copyfileobj(self.written, sys.stdout.buffer)
        sys.stdout.buffer.flush()
        self.written.close()
        print(f"--- {self.name}: {ending} after {self.seconds:.0f} s", flush=True)


def run_in_turn(rounds: Iterable[Round]) -> dict[str, int]:
    """Run one after the other, in front of whoever has started us. Returns each one's exit code."""
    codes = {}
    for round_ in rounds:
        print(f"\n--- {round_.name}", flush=True)
        codes[round_.name] = subprocess.call(round_.command, cwd=ROOT, env={**os.environ, **round_.environment})
    return codes


def run_side_by_side(rounds: Iterable[Round], at_once: int) -> dict[str, int]:
    """Run so many at a time, in the order given. Returns each one's exit code.

    When we are interrupted or told to end, so are those that run, and what they wrote until then is shown.
    """
    waiting = list(rounds)
    running: list[Running] = []
    ended: queue.SimpleQueue[Running] = queue.SimpleQueue()
    codes: dict[str, int] = {}
    with endings_as_exceptions():
        try:
            while waiting or running:
                while waiting and len(running) < at_once:
                    running.append(Running(waiting.pop(0), ended))
                done = ended.get()
                running.remove(done)
                codes[done.name] = code = done.process.returncode
                done.show(done.meanings.get(code, f"failed with exit code {code}"))
        except BaseException as error:
            end_all(running, signal.SIGINT if isinstance(error, KeyboardInterrupt) else signal.SIGTERM)
            for one in running:
                one.show("was interrupted")
            raise
    return codes


def end_all(running: Sequence[Running], number: signal.Signals) -> None:
    """Hand the signal on and wait; who does not heed it in time is killed, and on another signal all are."""
    try:
        for one in running:
            one.send(number)
        deadline = time.monotonic() + PATIENCE
        for one in running:
            one.process.wait(max(0.0, deadline - time.monotonic()))
    except (KeyboardInterrupt, SystemExit, subprocess.TimeoutExpired):
        pass
    finally:
        for one in running:
            if one.process.poll() is None:
                one.send(signal.SIGKILL)
                one.process.wait()
            one.seconds = time.monotonic() - one.began


@contextmanager
def endings_as_exceptions() -> Iterator[None]:
    """Let a signal that would end us raise `SystemExit` instead, so that nothing of ours stays behind."""

    def end(number: int, frame: FrameType | None) -> None:
        sys.exit(128 + number)

    before = {number: signal.signal(number, end) for number in ENDINGS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def size_of_the_terminal() -> dict[str, str]:
    """Its width for who writes into a file, so that lines are as long as they would be."""
    return {"COLUMNS": str(shutil.get_terminal_size().columns)}
