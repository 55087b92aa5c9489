"""What a run works with: the store, a queue of its own, a ledger, a sender and workers; gone with its `with` block."""

import secrets
import tempfile
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from tinyjobs.core.clock import Clock
from tinyjobs.core.errors import ConfigurationError
from tinyjobs.operations.verify import store
from tinyjobs.operations.verify.fleet import Fleet
from tinyjobs.operations.verify.ledger import Ledger, LedgerError
from tinyjobs.operations.verify.sending import Sender
from tinyjobs.operations.verify.settings import VerifySettings
from tinyjobs.operations.verify.surroundings import Surroundings
from tinyjobs.operations.verify.tasks import OVER, make_app

_LOOKS = 0.1
#: Bounds a hang: processes may take long to start on a busy machine, which proves nothing about the store.
_STARTING = 120.0


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is. Seconds, and numbers of jobs and of stopped workers; `phase` is a word for people."""

    phase: str
    elapsed: float
    sent: int
    done: int
    stops: int


type Tell = Callable[[Progress], None]
#: Waits so many seconds, and answers whether the run is to be cut short.
type Pause = Callable[[float], bool]


class Bench:
    """See the module. Nothing is connected or started before it is asked for."""

    def __init__(
        self, url: str, options: Mapping[str, Any], settings: VerifySettings, clock: Clock, pause: Pause, tell: Tell
    ) -> None:
        store.check_platform()
        store.check_url(url)
        self.settings = settings
        self.clock = clock
        self.was_cut_short = False
        self.stops = 0
        self.queue = f"verify-{secrets.token_hex(6)}"
        self._pause = pause
        self._tell = tell
        self._began = self._next_look = clock.monotonic()
        self._stack = ExitStack()
        folder = self._make_folder()
        self.app, task = make_app(url, options, self.ledger, "verifier", threading.Event())
        self._stack.callback(self.app.close)

        def surroundings(token: str) -> Surroundings:
            return Surroundings(url=url, options=options, ledger=self.ledger.path, token=token)

        self.fleet = Fleet(surroundings, self.queue, settings, folder / "log", clock)
        self._stack.callback(self.fleet.end_at_once)
        self.sender = Sender(task, self.queue, clock, with_keys=self.app.store.capabilities.dedup)
        self._stack.callback(self.sender.close)

    def _make_folder(self) -> Path:
        """A folder with a new ledger in it. Raises `ConfigurationError` where there is no room for one."""
        try:
            folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="tinyjobs-verify-")))
            self.ledger = Ledger(folder / "ledger.db")
            self.ledger.create()
        except (OSError, LedgerError) as error:
            self._stack.close()
            raise ConfigurationError(
                f"No ledger can be kept in the temporary directory: {error}. Make room there, or set TMPDIR to a "
                f"folder with room."
            ) from error
        return folder

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._stack.close()

    def start_workers(self) -> bool:
        """Start them, send a job a second, and return once one has run (True): processes take their time to start."""
        for _ in range(self.settings.workers):
            self.fleet.start()
        next_send = self.clock.monotonic()

        def has_run_or_cannot() -> bool:
            nonlocal next_send
            if self.clock.monotonic() >= next_send:
                next_send += 1.0
                self.sender.send()
            return bool(self.ledger.tokens()) or not self.fleet.is_alive()

        self.wait("starting", has_run_or_cannot, _STARTING)
        return bool(self.ledger.tokens())

    def stop_workers(self) -> None:
        """End all of them, and what their jobs wait for."""
        with suppress(LedgerError):
            self.ledger.tell(OVER)
        self.fleet.stop_all()
        with suppress(LedgerError):
            self.fleet.look(self.ledger.tokens())
        self.fleet.end_at_once()

    def wait(self, phase: str, ready: Callable[[], bool], patience: float) -> bool:
        """Return once it is so (True), or `patience` seconds are over, or the run is cut short."""
        deadline = self.clock.monotonic() + patience
        while not ready():
            if self.was_cut_short or self.clock.monotonic() > deadline:
                return False
            self.rest(phase, _LOOKS)
        return True

    def rest(self, phase: str, seconds: float) -> None:
        """Look after the workers, tell how far the run is, and wait so long."""
        now = self.clock.monotonic()
        if now >= self._next_look:
            self._next_look = now + _LOOKS
            self.fleet.look(self.ledger.tokens())
            done = self.ledger.count_applied()
            self._tell(Progress(phase, now - self._began, len(self.sender.sent.ids), done, self.stops))
        if self._pause(max(seconds, 0.0)):
            self.was_cut_short = True
