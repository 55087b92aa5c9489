"""`--reload`: the worker runs in a child process, which is started again when a source file changes.

The parent alone takes signals and passes them on through a pipe, so that a Ctrl-C, which reaches both, counts once. The
child watches the files, and ends by itself when they change: its jobs first run to their end, and a new child is
started only when the old one is gone, so there are never two workers. A child that cannot start waits for the next
change. When the parent is gone, the pipe is closed and the child ends as well.
"""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

from tinyjobs.cli.console import Console
from tinyjobs.cli.outcome import DONE, FORCED, RELOAD, CommandFailed
from tinyjobs.cli.stopping import StopRequest
from tinyjobs.cli.watch import SourceWatch
from tinyjobs.core.errors import ConfigurationError

_VARIABLE = "TINYJOBS_RELOAD_PIPE"
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_PRESS = b"!"
_SECONDS_BETWEEN_LOOKS = 0.5
_PATIENCE = 1.0


def is_possible() -> bool:
    """Whether this system lets a child inherit a pipe."""
    return os.name == "posix"


def is_child() -> bool:
    """Whether this process was started by `supervise`."""
    return _VARIABLE in os.environ


def supervise(console: Console) -> None:
    """Run this process's own command line in a child, again and again, until it ends or a stop is asked for."""
    if not is_possible():
        raise ConfigurationError("--reload needs a POSIX system; restart the worker by hand after a change.")
    _Parent(console, [sys.executable, *sys.orig_argv[1:]]).run()


class _Parent:
    """Starts children, one after another. The first two signals are passed on, the third one kills the child."""

    def __init__(self, console: Console, command: list[str]) -> None:
        self._console = console
        self._command = command
        self._watch = SourceWatch()
        # No Event: a signal may strike the wait for it, and its handler would wait for a lock that this thread holds.
        self._request = StopRequest()
        self._presses = 0
        self._passed_on = 0
        self._child: subprocess.Popen[bytes] | None = None
        self._pipe = -1

    def run(self) -> None:
        self._console.say("Restarts when a source file changes (--no-reload turns that off).")
        before = {number: signal.signal(number, self._press) for number in _SIGNALS}
        try:
            self._run_children()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        if self._presses > 1:
            raise CommandFailed("The worker was told twice to stop, and did not wait for coroutines.", FORCED)

    def _run_children(self) -> None:
        """Until a child ends for good, or a stop was asked for and the child has ended."""
        while True:
            status = self._run_child()
            if self._request.is_asked or status == DONE:
                return
            if status != RELOAD:
                # It did not come so far as to watch the files itself.
                self._console.warn(
                    f"The worker ended with status {status}. It starts again when a source file changes."
                )
                while self._watch.changed() is None:
                    if self._request.wait(_SECONDS_BETWEEN_LOOKS):
                        return
            self._watch = SourceWatch()

    def _run_child(self) -> int:
        theirs, self._pipe = os.pipe()
        try:
            self._child = subprocess.Popen(
                self._command,
                env={**os.environ, _VARIABLE: str(theirs)},
                pass_fds=(theirs,),
                preexec_fn=_ignore_signals,  # noqa: PLW1509 - the parent has no other threads
            )
            if self._request.is_asked:  # by a signal that came before there was a child to tell
                self._tell()
            status = self._child.wait()
        finally:
            self._child = None
            os.close(theirs)
            os.close(self._pipe)
        return status if status >= 0 else 128 - status

    def _press(self, number: int, frame: object) -> None:
        self._presses += 1
        self._request.stop()
        if self._child is not None:
            self._tell()
            if self._presses > 2:
                self._child.kill()

    def _tell(self) -> None:
        while self._passed_on < self._presses:
            self._passed_on += 1
            try:
                os.write(self._pipe, _PRESS)
            except OSError:
                pass  # it has ended meanwhile


def _ignore_signals() -> None:
    # Until the child listens to its pipe, a signal to the whole group must not end it.
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)


class ReloadedChild:
    """The child's side. Made before the program's modules are imported, so that no change is missed."""

    def __init__(self, pipe: int, console: Console) -> None:
        self._console = console
        self._pipe = pipe
        self._watch = SourceWatch()
        self._request = StopRequest()
        self._presses = 0

    @classmethod
    def find(cls, console: Console) -> "ReloadedChild | None":
        """This process as a child of `supervise`, if it is one. Its own children are none."""
        number = os.environ.pop(_VARIABLE, None)
        if number is None:
            return None
        os.set_inheritable(int(number), False)
        return cls(int(number), console)

    def run(self, work: Callable[[StopRequest], None]) -> int:
        """Do the work; the exit status for the parent. What fails waits for a change and is then tried again."""
        for number in _SIGNALS:
            # A handler of Python's, unlike an ignored signal, is not handed on to programs that jobs start.
            signal.signal(number, _leave_it_to_the_parent)
        threading.Thread(target=self._listen, name="tinyjobs-reload-pipe", daemon=True).start()
        threading.Thread(target=self._look, name="tinyjobs-reload-watch", daemon=True).start()
        try:
            work(self._request)
        except (Exception, SystemExit) as error:
            if isinstance(error, CommandFailed) and error.status == FORCED:
                raise
            if not isinstance(error, CommandFailed):
                sys.excepthook(type(error), error, error.__traceback__)
            else:
                self._console.warn(str(error))
            if not self._request.is_asked:
                self._console.warn("The worker starts again when a source file changes.")
            self._request.wait()
        return RELOAD if self._request.for_reload else DONE

    def _look(self) -> None:
        while not self._request.wait(_SECONDS_BETWEEN_LOOKS):
            changed = self._watch.changed()
            if changed is not None:
                self._console.say(f"{os.path.relpath(changed)} changed: starting again once running jobs have ended.")
                self._request.reload()

    def _listen(self) -> None:
        while os.read(self._pipe, 1):
            self._pressed()
        if self._presses > 1:
            os._exit(FORCED)
        self._pressed()

    def _pressed(self) -> None:
        self._presses += 1
        if self._presses == 1:
            self._request.stop()
            return
        answered = threading.Event()
        self._request.force(answered)
        if not answered.wait(_PATIENCE):
            os._exit(FORCED)


def _leave_it_to_the_parent(*_: Any) -> None:
    """Do nothing: the parent got the signal too, or is the one that should have."""
