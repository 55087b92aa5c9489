"""The workers of a run: started, stopped one after the other, suspended, and never left behind.

Each is a `tinyjobs worker` in a session of its own, so that a Ctrl-C reaches the verifier alone, and ends by itself
when the verifier is gone. Safe to use from several threads.
"""

import os
import secrets
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from tinyjobs.core.clock import Clock
from tinyjobs.operations.verify.settings import SHUTDOWN_TIMEOUT, STOP_PATIENCE, VerifySettings
from tinyjobs.operations.verify.surroundings import Surroundings

APP = "tinyjobs.operations.verify.app:app"
_LOOKS = 0.02
_TAIL = 4_000
#: Suspends the process that it is given, and lets it go on when its standard input ends, be it because we were killed.
HOLDER = """
import os, signal, sys
worker = int(sys.argv[1])
os.kill(worker, signal.SIGSTOP)
try:
    os.write(1, b".")
    os.read(0, 1)
except OSError:
    pass
os.kill(worker, signal.SIGCONT)
"""


@dataclass(eq=False)
class WorkerProcess:
    """One worker. `stopped_by` and `stopped_at` (monotonic) are set once it was told to end, `status` when it has."""

    token: str
    process: subprocess.Popen[bytes]
    stopped_by: signal.Signals | None = None
    stopped_at: float = 0.0
    is_reserved: bool = False
    status: int | None = None

    @property
    def pid(self) -> int:
        """Its process id, which stands in its worker id too."""
        return self.process.pid

    def holds(self, worker_ids: Collection[str]) -> bool:
        """Whether one of these ids, as running jobs have them, is this worker's."""
        return any(f":{self.pid}:" in worker_id for worker_id in worker_ids)


@dataclass(frozen=True, slots=True)
class Ends:
    """How the workers ended, counted; `problems` says in words what was wrong."""

    terminated: int = 0
    killed: int = 0
    unexpected: int = 0
    problems: tuple[str, ...] = ()


@dataclass
class Fleet:
    """The workers over one store and one queue. `log` takes what they write."""

    surroundings: Callable[[str], Surroundings]
    queue: str
    settings: VerifySettings
    log: Path
    clock: Clock
    workers: list[WorkerProcess] = field(default_factory=list)
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _problems: list[str] = field(default_factory=list)
    _stops: list[signal.Signals] = field(default_factory=list)

    def start(self) -> WorkerProcess:
        """Start one more."""
        token = secrets.token_hex(8)
        with self._lock, self.log.open("ab") as log:
            process = subprocess.Popen(
                self._command(),
                env=self.surroundings(token).environment(os.environ) | {"PYTHONUNBUFFERED": "1"},
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            worker = WorkerProcess(token, process)
            self.workers.append(worker)
            return worker

    def _command(self) -> list[str]:
        settings = self.settings
        return [
            *(sys.executable, "-m", "tinyjobs", "worker", "--app", APP, "--queues", self.queue, "--no-scheduler"),
            *("--lease", f"{settings.lease:g}", "--reap-interval", f"{settings.reap_interval:g}"),
            *("--shutdown-timeout", f"{SHUTDOWN_TIMEOUT:g}"),
        ]

    def stop_one(self, tokens: Collection[str], holders: Callable[[], Collection[str]]) -> WorkerProcess | None:
        """Stop the oldest that may be stopped, by SIGTERM and SIGKILL in turn, and start another in its place.

        Only one that has run a job, as `tokens` tell; by SIGKILL only one that holds a running job, whose worker ids
        `holders` tells. None: there was none.
        """
        number = signal.SIGKILL if len(self._stops) % 2 else signal.SIGTERM
        holding = holders() if number is signal.SIGKILL else ()
        with self._lock:
            for worker in self.workers:
                if not self._is_free(worker) or worker.token not in tokens:
                    continue
                if number is signal.SIGTERM or worker.holds(holding):
                    self._stops.append(number)
                    self._signal(worker, number)
                    self.start()
                    return worker
        return None

    def reserve(self, token: str) -> WorkerProcess | None:
        """Keep the worker of that token from being stopped, and start another beside it. None: it is on its way out."""
        with self._lock:
            for worker in self.workers:
                if worker.token == token and self._is_free(worker):
                    worker.is_reserved = True
                    self.start()
                    return worker
        return None

    def retire(self, worker: WorkerProcess) -> bool:
        """Stop a reserved one by SIGTERM, and wait until it has ended (True)."""
        with self._lock:
            if worker.process.poll() is None:
                self._signal(worker, signal.SIGTERM)
        return self._wait(lambda: self._has_ended(worker))

    def stop_all(self) -> None:
        """Stop those that are left by SIGTERM, and wait for them."""
        with self._lock:
            for worker in self.workers:
                if worker.stopped_by is None and worker.process.poll() is None:
                    self._signal(worker, signal.SIGTERM)
        self._wait(lambda: all(self._has_ended(worker) for worker in self.workers))

    def end_at_once(self) -> None:
        """Kill whatever is left. For every way out of a run."""
        for worker in self.workers:
            if worker.process.poll() is None:
                worker.process.kill()
            worker.process.wait()
            if worker.process.stdin is not None:
                worker.process.stdin.close()

    def look(self, tokens: Collection[str]) -> bool:
        """Note down who has ended, and kill who does not end; a dead one is replaced. False if one is not as it should.

        `tokens` tells who has run a job: one that had not may have been told to stop before it could listen.
        """
        with self._lock:
            before = len(self._problems)
            for worker in [worker for worker in self.workers if worker.status is None]:
                status = worker.process.poll()
                if status is not None:
                    self._note_end(worker, status, tokens)
                elif worker.stopped_by is signal.SIGTERM and self._is_overdue(worker):
                    self._problems.append(
                        f"a worker did not stop within {STOP_PATIENCE:g} s of its SIGTERM and was killed"
                    )
                    worker.status = -signal.SIGKILL
                    worker.process.kill()
            return len(self._problems) == before

    def is_alive(self) -> bool:
        """Whether a worker runs that was not told to stop."""
        with self._lock:
            return any(self._is_free(worker) for worker in self.workers)

    def ends(self) -> Ends:
        """How they ended. Those stopped at the end of the run are not counted as stops."""
        with self._lock:
            unexpected = sum(worker.stopped_by is None and worker.status is not None for worker in self.workers)
            terminated, killed = (self._stops.count(number) for number in (signal.SIGTERM, signal.SIGKILL))
            return Ends(terminated, killed, unexpected, tuple(self._problems))

    def log_tail(self) -> str:
        """The end of what the workers wrote."""
        try:
            return self.log.read_bytes()[-_TAIL:].decode("utf-8", "replace")
        except OSError:
            return ""

    def _is_free(self, worker: WorkerProcess) -> bool:
        return worker.stopped_by is None and not worker.is_reserved and worker.process.poll() is None

    def _signal(self, worker: WorkerProcess, number: signal.Signals) -> None:
        worker.stopped_by, worker.stopped_at = number, self.clock.monotonic()
        worker.process.send_signal(number)

    def _is_overdue(self, worker: WorkerProcess) -> bool:
        return self.clock.monotonic() - worker.stopped_at > STOP_PATIENCE

    def _has_ended(self, worker: WorkerProcess) -> bool:
        return worker.process.poll() is not None

    def _note_end(self, worker: WorkerProcess, status: int, tokens: Collection[str]) -> None:
        worker.status = status
        if worker.stopped_by is None:
            self._problems.append(f"a worker ended by itself, with the status {status}")
            # One that never ran a job would do the same again.
            if worker.token in tokens:
                self.start()
        elif worker.stopped_by is signal.SIGTERM and status != 0 and worker.token in tokens:
            self._problems.append(f"a worker did not stop cleanly on SIGTERM: it ended with the status {status}")

    def _wait(self, ready: Callable[[], bool]) -> bool:
        deadline = self.clock.monotonic() + STOP_PATIENCE
        pause = threading.Event()
        while not ready():
            if self.clock.monotonic() > deadline:
                return False
            pause.wait(_LOOKS)
        return True


class Suspension:
    """A worker stopped in the middle of what it does, until `resume`; or until this process is gone."""

    def __init__(self, worker: WorkerProcess) -> None:
        self._holder = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", HOLDER, str(worker.pid)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        _end_of(self._holder.stdout).read(1)

    def resume(self) -> None:
        """Let it go on. Harmless the second time."""
        _end_of(self._holder.stdin).close()
        self._holder.wait()
        _end_of(self._holder.stdout).close()


def _end_of(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None
    return pipe
