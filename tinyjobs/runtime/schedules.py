"""What people do to schedules: keep one as data, pause, resume and delete it, and ask when it fires next.

Coroutines over a store's verbs and a program's timetable, which the faces run in their own way. Each change is a
compare and swap, so a scheduler that fires at the same moment is never written over.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tinyjobs.backends.base import Backend
from tinyjobs.core.codecs.registry import CodecRegistry
from tinyjobs.core.cron import NEVER, zone_of
from tinyjobs.core.errors import ConfigurationError, ScheduleNotFoundError, StoreBusyError, TinyJobsError
from tinyjobs.core.firing import MISFIRE_GRACE
from tinyjobs.core.job import Job, ScheduleState
from tinyjobs.core.schedules import DATA, Schedule, Timetable, parsed
from tinyjobs.core.sentences import say
from tinyjobs.core.storable import describe_exception

# A scheduler moves a row once a minute at most; who loses this often meets something else.
_TRIES = 100
# A scheduler sleeps half a minute at most; a firing that much later than the grace has nobody to make it.
_LONGEST_SLEEP = 30.0


def upcoming(state: ScheduleState, now: float, count: int) -> list[float]:
    """When it fires next; nothing for a paused one and for one whose rule cannot be read."""
    if state.is_paused:
        return []
    try:
        cron, zone = parsed(state.cron), zone_of(state.timezone)
    except ConfigurationError:
        return []
    later = cron.upcoming(max(state.next_run_at, now), zone, count)
    return [state.next_run_at, *later][:count]


async def save(store: Backend, timetable: Timetable, name: str, given: Mapping[str, Any], source: str) -> ScheduleState:
    """Add or change a schedule that is kept as data. Refused is whatever a declaration would be refused for."""
    schedule = Schedule.parse(name, given, source, timetable.default_zone)
    if name in timetable.declared():
        raise ConfigurationError(_declared(name, source))
    job = timetable.job(schedule)
    next_run_at = schedule.rule.cron.next_after(await store.present(), schedule.rule.zone)
    if not await store.save_schedule(schedule.state(job, next_run_at, DATA)):
        raise ConfigurationError(_declared(name, source))
    return await find(store, timetable, name)


async def delete(store: Backend, timetable: Timetable, name: str) -> None:
    """Forget a schedule that no code declares any more, or that is kept as data."""
    if name in timetable.declared():
        raise ConfigurationError(
            say(
                "The schedule %(name)s is declared in the code (%(source)s), which would bring it back. Take it out "
                "there, or pause it.",
                name=repr(name),
                source=timetable.declared()[name].source,
            )
        )
    if timetable.unimported and (await find(store, timetable, name)).source != DATA:
        raise ConfigurationError(
            say(
                "The schedule %(name)s may still be declared in what could not be imported here, %(modules)s, so it is "
                "kept. Mend that first, then ask again.",
                name=repr(name),
                modules=shown_failures(timetable.unimported),
            )
        )
    if not await store.delete_schedule(name):
        raise _unknown(name)


async def pause(store: Backend, timetable: Timetable, name: str) -> ScheduleState:
    """Have it fire no more until it is resumed. Restarts and deploys leave it paused; a changed rule does not."""
    for _ in range(_TRIES):
        state = await find(store, timetable, name)
        if state.is_paused or await _move(store, state, NEVER):
            return await find(store, timetable, name)
    raise _contended(name)


async def resume(store: Backend, timetable: Timetable, name: str) -> ScheduleState:
    """Have a paused one fire again, from its next time on; one that is not paused stays as it is.

    Its rule is that of the code, where this program declares it.
    """
    for _ in range(_TRIES):
        state = await find(store, timetable, name)
        if not state.is_paused:
            return state
        declared = timetable.declared().get(name)
        if declared is not None and declared.rule.when != (state.cron, state.timezone):
            # A rule that has changed begins at its next time, as where a scheduler registers it.
            await store.register_schedules([new_state(timetable, declared, await store.present())])
            continue
        try:
            cron, zone = parsed(state.cron), zone_of(state.timezone)
        except ConfigurationError as error:
            raise ConfigurationError(f"The schedule {name!r} cannot be resumed: {error}") from error
        next_run_at = cron.next_after(await store.present(), zone)
        if next_run_at >= NEVER or await _move(store, state, next_run_at):
            return await find(store, timetable, name)
    raise _contended(name)


async def run_now(store: Backend, timetable: Timetable, codecs: CodecRegistry, name: str) -> Job:
    """Make a job of it now, by an ordinary enqueue with the schedule's key. Its own next time stays as it is.

    Without overlap an active job of the schedule is the answer, with `existing` set.
    """
    schedule = await read(store, timetable, codecs, name)
    job = timetable.job(schedule)
    return await store.enqueue(replace(job, key=schedule.key or job.key))


async def read(store: Backend, timetable: Timetable, codecs: CodecRegistry, name: str) -> Schedule:
    """The schedule of that name as this program declares it, or as the store keeps it."""
    declared = timetable.declared().get(name)
    if declared is not None:
        return declared
    return Schedule.read(await find(store, timetable, name), codecs)


async def find(store: Backend, timetable: Timetable, name: str) -> ScheduleState:
    """The schedule as the store has it. One that is declared and that no scheduler has registered yet is registered.

    Raises `ScheduleNotFoundError`.
    """
    declared = timetable.declared().get(name)
    for state in await store.schedules():
        if state.name == name:
            return state
    if declared is None:
        raise _unknown(name)
    await store.register_schedules([new_state(timetable, declared, await store.present())])
    return next(state for state in await store.schedules() if state.name == name)


def new_state(timetable: Timetable, declared: Schedule, now: float) -> ScheduleState:
    """What is registered of a declared schedule: it begins at its next time after `now`."""
    return declared.state(timetable.job(declared), declared.rule.cron.next_after(now, declared.rule.zone))


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """The schedules of a program and its store at the instant `now`: those stored, those declared and not yet stored.

    `inert` names stored ones that are not data and that this code does not declare: it does not fire them. With
    `unimported` modules it may be that those do. `grace`: by how many seconds a firing may be late.
    """

    now: float
    states: list[ScheduleState]
    unregistered: list[Schedule]
    inert: frozenset[str]
    unimported: Mapping[str, BaseException] = field(default_factory=dict)
    grace: float = MISFIRE_GRACE

    @property
    def overdue(self) -> list[ScheduleState]:
        """Those that should have fired long ago: no scheduler is at work."""
        return [state for state in self.states if self.is_overdue(state)]

    def is_overdue(self, state: ScheduleState) -> bool:
        """Whether no scheduler can be at work: the schedule should have fired long ago, as far as those go."""
        latest = max(self.grace, MISFIRE_GRACE) + _LONGEST_SLEEP
        return state.name not in self.inert and state.next_run_at < self.now - latest

    def upcoming(self, state: ScheduleState, count: int) -> list[float]:
        """When it fires next; nothing for one that nobody fires."""
        return [] if state.name in self.inert else upcoming(state, self.now, count)

    @property
    def active(self) -> int:
        """How many there are to fire."""
        stored = [state for state in self.states if state.name not in self.inert and not state.is_paused]
        return len(stored) + len(self.unregistered)


async def overview(store: Backend, timetable: Timetable, grace: float = MISFIRE_GRACE) -> Overview:
    """Look at all of them. `grace` is that of the schedulers, where it is known."""
    declared = timetable.declared()
    states = await store.schedules()
    known = {state.name for state in states}
    return Overview(
        now=await store.present(),
        states=states,
        unregistered=[schedule for name, schedule in sorted(declared.items()) if name not in known],
        inert=frozenset(state.name for state in states if state.source != DATA and state.name not in declared),
        unimported=timetable.unimported,
        grace=grace,
    )


def shown_failures(unimported: Mapping[str, BaseException]) -> str:
    """The modules that could not be imported, each with the reason."""
    return ", ".join(f"{name} ({_reason(error)})" for name, error in sorted(unimported.items()))


def _reason(error: BaseException) -> str:
    return f"{type(error).__name__}: {describe_exception(error).message}"


async def _move(store: Backend, state: ScheduleState, next_run_at: float) -> bool:
    moved = await store.fire_schedule(state.name, expected=state.next_run_at, next_run_at=next_run_at, jobs=[])
    return moved is not None


def _declared(name: str, source: str) -> str:
    return say(
        "%(source)s: the code declares a schedule %(name)s, or once did. Choose another name, or delete that first.",
        source=source,
        name=repr(name),
    )


def _unknown(name: str) -> TinyJobsError:
    return ScheduleNotFoundError(say("There is no schedule %(name)s.", name=f"{name!r:.300}"))


def _contended(name: str) -> TinyJobsError:
    return StoreBusyError(
        say(
            "The schedule %(name)s was moved by others %(tries)s times in a row. Try again.",
            name=repr(name),
            tries=_TRIES,
        )
    )
