"""That a worker is to end, and how: asked for by whoever stops it, looked at by its cycle and its shutdown."""

from collections.abc import Callable


class Stop:
    """Whether a stop was asked for, since when, and whether it may wait.

    Plain fields, since a signal handler sets them: an Event's lock could be held by what the signal interrupted.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._asked_at: float | None = None
        #: Coroutines are cut instead of waited for.
        self.is_forced = False

    @property
    def is_asked(self) -> bool:
        """Whether the worker is to end."""
        return self._asked_at is not None

    @property
    def asked_at(self) -> float:
        """When the stop was asked for, in the clock's monotonic seconds; now, when nobody asked."""
        return self._monotonic() if self._asked_at is None else self._asked_at

    def ask(self) -> None:
        """Ask for a clean stop. Callable from any thread, and more than once: the first time counts."""
        if self._asked_at is None:
            self._asked_at = self._monotonic()

    def force(self) -> None:
        """Ask for a stop that does not wait for coroutines. Callable from any thread."""
        self.is_forced = True
        self.ask()

    def clear(self) -> None:
        """The worker has ended; a later run is not affected."""
        self._asked_at = None
        self.is_forced = False
