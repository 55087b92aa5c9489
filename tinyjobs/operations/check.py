"""The health check: the figures of a store, its workers and its settings, turned into a verdict.

`tinyjobs check`, `app.check()`, Django's health page and the dashboard all ask here. It only reads, and takes a few
reads whatever the store holds. Findings are values; what becomes of them is the caller's business.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace

from tinyjobs.backends.base import Backend
from tinyjobs.core.errors import ConfigurationError, SchemaMissingError, StoreError
from tinyjobs.core.job import ScheduleState, Stats
from tinyjobs.core.schedules import Timetable
from tinyjobs.core.sentences import say
from tinyjobs.core.task import Catalogue
from tinyjobs.core.watching import Finding, WorkerSeen
from tinyjobs.operations.presence import LATE_AFTER, Presence, named

#: A check that takes longer has failed, in seconds: whoever probes does not wait for a store that does not answer.
BUDGET = 5.0
#: What to do about a store that is not there, where a URL names it.
MAKE_IT = "Start a worker or call setup(), which make what is missing; or correct the URL if it names another place."


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a store answered. `workers` is None where it keeps none."""

    stats: Stats
    schedules: Sequence[ScheduleState] = ()
    workers: Sequence[WorkerSeen] | None = None
    audited: Sequence[Finding] = field(default=())


async def check(
    store: Backend,
    catalogue: Catalogue,
    *,
    timetable: Timetable | None = None,
    max_wait: float | None = None,
    store_warnings: bool = False,
) -> list[Finding]:
    """Every finding, those that fail first, then warnings, then what is in order. `is_healthy` gives the verdict.

    `max_wait`: for how many seconds a due job may wait. `store_warnings` lets what the store's own settings lack pass
    with a warning. The tasks have to be imported before. A store that cannot be reached is a finding as well; raises
    `ConfigurationError` for what is no trouble of the store's.
    """
    check_max_wait(max_wait, "max_wait")
    try:
        seen = await look(store)
    except SchemaMissingError as error:
        return [not_there(str(error))]
    except StoreError as error:
        return [out_of_reach(str(error))]
    return in_order(judged(seen, catalogue, timetable, max_wait, store_warnings=store_warnings))


async def look(store: Backend) -> Seen:
    """Ask the store; raises `StoreError`."""
    can = store.capabilities
    return Seen(
        stats=await store.stats(),
        schedules=await store.schedules() if can.schedules else (),
        workers=await store.workers() if can.workers_seen else None,
        audited=await store.audit(),
    )


def judged(
    seen: Seen, catalogue: Catalogue, timetable: Timetable | None, max_wait: float | None, *, store_warnings: bool
) -> Iterator[Finding]:
    """What there is to say of what was seen."""
    yield _tasks(catalogue)
    yield _unknown(seen.stats, catalogue)
    yield _leases(seen.stats)
    yield from _waiting(seen.stats, max_wait)
    declared = {} if timetable is None else timetable.declared()
    active = [state for state in seen.schedules if not state.is_paused]
    if seen.schedules:
        yield _overdue(active, seen.stats.now)
        yield from _stopped(seen.schedules)
    if seen.workers is not None:
        known = {state.name for state in seen.schedules}
        has_schedules = bool(active) or any(name not in known for name in declared)
        yield from Presence(seen.stats, seen.workers).findings(has_schedules=has_schedules)
    yield from map(as_warning, seen.audited) if store_warnings else seen.audited


def is_healthy(findings: Iterable[Finding]) -> bool:
    """The verdict: whether none of them fails."""
    return all(finding.ok for finding in findings)


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """Those that fail first, then warnings, then the rest; otherwise as they came."""
    return sorted(findings, key=lambda finding: (finding.ok, not finding.is_warning))


def as_warning(finding: Finding) -> Finding:
    """The same, but it fails nothing."""
    return finding if finding.ok else replace(finding, ok=True, is_warning=True)


def as_json(finding: Finding) -> dict[str, object]:
    """A finding for programs to read."""
    return {field.name: getattr(finding, field.name) for field in fields(finding)}


def out_of_reach(reason: str) -> Finding:
    """The only finding where the store does not answer."""
    return Finding(
        name="store",
        ok=False,
        message=f"The store does not answer: {reason.rstrip('.')}.",
        remedy="Look whether its server runs and can be reached from here.",
    )


def not_there(reason: str, remedy: str = MAKE_IT) -> Finding:
    """The only finding where the store is not there. It is not made by looking: the place may be mistyped."""
    return Finding(name="store", ok=False, message=reason, remedy=remedy)


def too_slow() -> Finding:
    """The only finding where the store has not answered in time."""
    return out_of_reach(f"there was nothing within {BUDGET:g} s.")


def check_max_wait(value: object, source: str) -> None:
    """Raise `ConfigurationError` unless it is None or a number of seconds that is not negative."""
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        raise ConfigurationError(f"{source}: {value!r:.100} is not a number of seconds from 0 on.")


# --- the jobs ---------------------------------------------------------------------------------------------------


def _tasks(catalogue: Catalogue) -> Finding:
    count = len(catalogue.names())
    if count:
        message = say("1 task is registered.") if count == 1 else say("%(count)s tasks are registered.", count=count)
        return Finding(name="tasks", ok=True, message=message)
    return Finding(
        name="tasks",
        ok=False,
        message=say("No tasks are registered, so a worker could run nothing."),
        remedy=say(
            "Import the modules that declare them: --import MODULE on the command line, tasks.py in a Django app."
        ),
    )


def _unknown(stats: Stats, catalogue: Catalogue) -> Finding:
    unknown = {
        f"{task} ({count})": count for task, count in stats.queued_by_task.items() if catalogue.find(task) is None
    }
    if not unknown:
        return Finding(name="unknown_tasks", ok=True, message=say("Every queued job has a task that is registered."))
    return Finding(
        name="unknown_tasks",
        ok=False,
        message=say("Queued jobs name tasks that are not registered here: %(tasks)s.", tasks=named(unknown)),
        remedy=say(
            "Import the modules that declare them: --import MODULE on the command line, tasks.py in a Django app. "
            "If a task is gone for good, cancel its jobs."
        ),
    )


def _leases(stats: Stats) -> Finding:
    count = stats.expired_leases
    if not count:
        return Finding(name="leases", ok=True, message=say("No running job is past its lease."))
    if count == 1:
        message = say("1 running job is past its lease: whoever had them died or hangs.")
    else:
        message = say("%(count)s running jobs are past their lease: whoever had them died or hangs.", count=count)
    return Finding(
        name="leases",
        ok=False,
        message=message,
        remedy=say(
            "A worker that runs takes them back within seconds. If none does, start one; if it happens again and "
            "again, look at why workers die."
        ),
    )


def _waiting(stats: Stats, max_wait: float | None) -> Iterator[Finding]:
    waits = {
        queue.name: max(stats.now - queue.oldest_due, 0.0) for queue in stats.queues if queue.oldest_due is not None
    }
    late = {name: wait for name, wait in waits.items() if max_wait is not None and wait > max_wait}
    for name, wait in late.items():
        yield Finding(
            name="waiting",
            ok=False,
            message=say(
                "The oldest due job of the queue %(queue)s has waited %(seconds)s s; %(allowed)s s are allowed.",
                queue=name,
                seconds=f"{wait:.0f}",
                allowed=f"{max_wait:g}",
            ),
            remedy=say("Start more workers for this queue, or find out what its jobs wait for."),
        )
    if not late:
        longest = max(waits.values(), default=None)
        if longest is None:
            message = say("No job is due.")
        else:
            message = say("The oldest due job has waited %(seconds)s s.", seconds=f"{longest:.0f}")
        yield Finding(name="waiting", ok=True, message=message)


# --- the schedules ----------------------------------------------------------------------------------------------


def _overdue(active: Sequence[ScheduleState], now: float) -> Finding:
    overdue = {state.name: now - state.next_run_at for state in active if now - state.next_run_at > LATE_AFTER}
    if not overdue:
        return Finding(name="schedules", ok=True, message=say("No schedule is overdue."))
    late, names = f"{max(overdue.values()):.0f}", named(overdue)
    if len(overdue) == 1:
        message = say("1 schedule is overdue by up to %(seconds)s s: %(schedules)s.", seconds=late, schedules=names)
    else:
        message = say(
            "%(count)s schedules are overdue by up to %(seconds)s s: %(schedules)s.",
            count=len(overdue),
            seconds=late,
            schedules=names,
        )
    return Finding(
        name="schedules",
        ok=False,
        message=message,
        remedy=say(
            "Nothing fires them. Start a worker without --no-scheduler, or the command `scheduler`. One that the "
            "code no longer declares is deleted with `schedules delete NAME`."
        ),
    )


def _stopped(states: Sequence[ScheduleState]) -> Iterator[Finding]:
    stopped = {state.name: state.error for state in states if state.error}
    if stopped:
        first = min(stopped)
        yield Finding(
            name="stopped_schedules",
            ok=True,
            is_warning=True,
            message=say(
                "Schedules have stopped themselves: %(schedules)s. %(first)s: %(error)s",
                schedules=named(stopped),
                first=first,
                error=stopped[first],
            ),
            remedy=say("Mend the cause, then resume them with `schedules resume NAME`."),
        )
