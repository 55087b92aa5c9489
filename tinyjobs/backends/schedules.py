"""The part of the seam that is about schedules: the verbs, and what a store has that keeps none."""

from collections.abc import Sequence
from typing import Protocol

from tinyjobs.core.clock import Clock
from tinyjobs.core.errors import UnsupportedCapabilityError
from tinyjobs.core.job import Job, ScheduleMove, ScheduleState


class ScheduleVerbs(Protocol):
    """What a store that declares `schedules` does for a scheduler."""

    async def present(self) -> float:
        """The instant it is by the clock that decides, in unix seconds: the store's own, where it has one."""
        ...

    async def schedules(self) -> list[ScheduleState]:
        """Every schedule known to the store, by name."""
        ...

    async def register_schedules(self, states: Sequence[ScheduleState]) -> None:
        """Add schedules or change them. What they did last is kept, and so is the stored next time, unless the cron or
        the time zone changed or an error had stopped the schedule.
        """
        ...

    async def save_schedule(self, state: ScheduleState) -> bool:
        """The same for one schedule whose source is "data"; False, and nothing done: the code declares that name."""
        ...

    async def delete_schedule(self, name: str) -> bool:
        """Forget a schedule; False if there is none of that name. Its jobs stay."""
        ...

    async def fire_schedule(
        self, name: str, *, expected: float, next_run_at: float, jobs: Sequence[Job], error: str | None = None
    ) -> list[Job] | None:
        """Move the schedule on and keep its jobs, only if it still stands at `expected`; None: another was first.

        Both instants are unix seconds. `error` is kept with the schedule, or cleared.
        """
        ...

    async def fire_schedules(self, moves: Sequence[ScheduleMove]) -> list[list[Job] | None]:
        """Do that to many, an answer for each in order, in one transaction if the store has them.

        A schedule that somebody else is just moving may count as one where another was first. Raises what the store
        answers to any of the jobs; then nothing was done, or, without transactions, only a part.
        """
        ...


class KeepsNoSchedules:
    """The defaults."""

    clock: Clock

    async def present(self) -> float:
        """The app's clock, by default."""
        return self.clock.now()

    async def schedules(self) -> list[ScheduleState]:
        """None, for a store that keeps no schedules."""
        return []

    async def register_schedules(self, states: Sequence[ScheduleState]) -> None:
        """Refused by a store that keeps no schedules."""
        if states:
            raise unsupported(self, "schedules")

    async def save_schedule(self, state: ScheduleState) -> bool:
        """Refused by a store that keeps no schedules."""
        raise unsupported(self, "schedules")

    async def delete_schedule(self, name: str) -> bool:
        """Refused by a store that keeps no schedules."""
        raise unsupported(self, "schedules")

    async def fire_schedule(
        self, name: str, *, expected: float, next_run_at: float, jobs: Sequence[Job], error: str | None = None
    ) -> list[Job] | None:
        """Refused by a store that keeps no schedules."""
        raise unsupported(self, "schedules")

    async def fire_schedules(self, moves: Sequence[ScheduleMove]) -> list[list[Job] | None]:
        """One after the other."""
        return [
            await self.fire_schedule(
                move.name, expected=move.expected, next_run_at=move.next_run_at, jobs=move.jobs, error=move.error
            )
            for move in moves
        ]


def unsupported(backend: object, what: str) -> Exception:
    """The error for what a store cannot do."""
    return UnsupportedCapabilityError(f"{type(backend).__name__} does not support {what}.")
