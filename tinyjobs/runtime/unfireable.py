"""Schedules that a scheduler cannot fire: which of them are left alone, and which stop themselves, with a reason.

A row that is kept as data and cannot work stops itself, so that it is told of once and others go on. One whose task is
not known here may be known elsewhere, as during a deploy, and is left to others first. What the code declares never
stops itself: another process may have code that can fire it.
"""

import logging
from collections.abc import Collection
from dataclasses import dataclass

from tinyjobs.core.cron import NEVER
from tinyjobs.core.errors import ConfigurationError, UnknownTaskError
from tinyjobs.core.job import ScheduleState
from tinyjobs.core.schedules import DATA
from tinyjobs.core.storable import storable
from tinyjobs.runtime.engine import Engine

logger = logging.getLogger("tinyjobs.scheduler")

# How long a schedule that failed here is left alone at most, and how long at least others get to fire it.
_QUIET = 60.0
_LONGEST_ERROR = 2_000


@dataclass(slots=True)
class _Failure:
    """Where a schedule stood that could not be fired, since when, and until when it is left alone."""

    expected: float
    since: float
    until: float


class Unfireable:
    """Keeps in mind what one scheduler could not fire."""

    def __init__(self, engine: Engine, loop: str, grace: float) -> None:
        self._engine = engine
        self._loop = loop
        self._pause = min(grace, _QUIET)
        self._patience = max(grace, _QUIET)
        self._failures: dict[str, _Failure] = {}

    def __len__(self) -> int:
        return len(self._failures)

    def keep(self, names: Collection[str]) -> None:
        """Forget every schedule but those."""
        self._failures = {name: failure for name, failure in self._failures.items() if name in names}

    def is_left_alone(self, state: ScheduleState) -> bool:
        """Whether it failed lately. One that has moved since is looked at anew."""
        failure = self._failures.get(state.name)
        if failure is None:
            return False
        if failure.expected != state.next_run_at:
            del self._failures[state.name]
            return False
        return self._engine.clock.monotonic() < failure.until

    async def note(self, state: ScheduleState, task: str, error: Exception) -> None:
        """A schedule could not be fired."""
        if isinstance(error, UnknownTaskError) and state.source == DATA and self._is_left_to_others(state, task):
            return
        self._engine.hooks.report(self._loop, error)
        reason = str(error) if isinstance(error, ConfigurationError) else f"{type(error).__name__}: {error}"
        about = {"schedule": state.name}
        if state.source != DATA:
            self._leave_alone(state)
            logger.error("the schedule %r cannot be fired: %s", state.name, reason, extra=about)
        elif await self._stop(state, reason):
            logger.error("the schedule %r cannot work and has stopped itself: %s", state.name, reason, extra=about)

    def _is_left_to_others(self, state: ScheduleState, task: str) -> bool:
        """False: it was for long enough, and nobody has fired it."""
        before = self._failures.get(state.name)
        if before is None or before.expected != state.next_run_at:
            self._leave_alone(state)
            logger.error(
                "the schedule %r is due, and this process has no task %r: it is left to others, and stops itself if "
                "nobody has fired it in %g s",
                state.name,
                task,
                self._patience,
                extra={"schedule": state.name, "task": task},
            )
            return True
        now = self._engine.clock.monotonic()
        before.until = now + self._pause
        return now - before.since < self._patience

    async def _stop(self, state: ScheduleState, reason: str) -> bool:
        stopped = await self._engine.store.fire_schedule(
            state.name,
            expected=state.next_run_at,
            next_run_at=NEVER,
            jobs=[],
            error=storable(reason, _LONGEST_ERROR),
        )
        return stopped is not None

    def _leave_alone(self, state: ScheduleState) -> None:
        now = self._engine.clock.monotonic()
        self._failures[state.name] = _Failure(state.next_run_at, now, now + self._pause)
