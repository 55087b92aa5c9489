"""`schedules`: what fires when, and stopping, resuming, running and forgetting single schedules."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from tinyjobs.cli.console import Console, jsonable, plain, shown_seconds, shown_time
from tinyjobs.cli.target import Target
from tinyjobs.core.cron import zone_of
from tinyjobs.core.cron_words import describe
from tinyjobs.core.errors import ConfigurationError, TinyJobsError
from tinyjobs.core.inline import finish
from tinyjobs.core.job import ScheduleState
from tinyjobs.core.schedules import DATA, Schedule, parsed
from tinyjobs.runtime import schedules
from tinyjobs.runtime.schedules import Overview, shown_failures
from tinyjobs.runtime.settings import WorkerSettings

type Options = Mapping[str, Any]

_FIRINGS = 3


def list_schedules(target: Target, options: Options, console: Console) -> None:
    """Print every schedule with its next firings, in its own time zone."""
    found = overview_of(target)
    coming = [_as_state(schedule, found.now) for schedule in found.unregistered]
    if options["as_json"]:
        console.json([_as_dict(target, found, state) for state in (*found.states, *coming)])
    elif found.states or coming:
        for state in found.states:
            _print_one(state, found, console)
        for state in coming:
            _print_one(state, found, console, "no scheduler has run since it was declared")
        default = target.timetable.default_zone or "no zone and does not fire"
        console.say(f"Times are in each schedule's own zone; one that names none has {default}.")
    else:
        console.say("No schedules.")
    for problem in target.timetable.problems():
        console.warn(problem)
    if warning := nobody_fires(found):
        console.warn(warning)


def overview_of(target: Target) -> Overview:
    """The schedules, late by the grace that the program's settings give its workers."""
    grace = WorkerSettings.parse(target.worker_defaults, "worker").misfire_grace
    return finish(schedules.overview(target.store, target.timetable, grace))


def nobody_fires(found: Overview) -> str | None:
    """A sentence, if schedules should have fired by now and did not."""
    if not found.overdue:
        return None
    oldest = min(found.overdue, key=lambda state: state.next_run_at)
    late = shown_seconds(found.now - oldest.next_run_at)
    return (
        f"Nobody fires schedules: {oldest.name!r} is {late} late. A worker does it, unless it was started with "
        f"--no-scheduler or --until-empty; `scheduler` does nothing else."
    )


def pause_schedules(target: Target, options: Options, console: Console) -> None:
    """Have schedules fire no more."""
    _each(target, options, console, lambda name: _moved(finish(schedules.pause(target.store, target.timetable, name))))


def resume_schedules(target: Target, options: Options, console: Console) -> None:
    """Have paused schedules fire again."""
    _each(target, options, console, lambda name: _moved(finish(schedules.resume(target.store, target.timetable, name))))


def run_schedules(target: Target, options: Options, console: Console) -> None:
    """Make a job of each schedule now."""

    def run(name: str) -> dict[str, object]:
        job = finish(schedules.run_now(target.store, target.timetable, target.codecs, name))
        if not job.existing:
            target.announce(job)
        told = "has a job that has not ended" if job.existing else "made a job"
        return {"job": job.id, "existing": job.existing, "told": f"{told}: {job.id}"}

    _each(target, options, console, run)


def delete_schedules(target: Target, options: Options, console: Console) -> None:
    """Forget schedules."""

    def delete(name: str) -> dict[str, object]:
        finish(schedules.delete(target.store, target.timetable, name))
        return {"deleted": True, "told": "is forgotten"}

    _each(target, options, console, delete)


def _each(target: Target, options: Options, console: Console, act: Callable[[str], dict[str, object]]) -> None:
    """Act on every name; one that fails does not keep the others from being acted on, but fails the command."""
    failed: list[TinyJobsError] = []
    done = []
    for name in options["names"]:
        try:
            answer = act(name)
        except TinyJobsError as error:
            failed.append(error)
            continue
        told = answer.pop("told")
        done.append({"name": name, **answer})
        if not options["as_json"]:
            console.line(f"{plain(name)} {told}.")
    if options["as_json"]:
        console.json(done)
    if failed:
        *others, last = failed
        for other in others:
            console.warn(str(other))
        raise last


def _moved(state: ScheduleState) -> dict[str, object]:
    if state.is_paused:
        return {"paused": True, "next_run_at": None, "told": "is paused"}
    told = f"fires next at {_local(state, state.next_run_at)}"
    return {"paused": False, "next_run_at": state.next_run_at, "told": told}


def _print_one(state: ScheduleState, found: Overview, console: Console, note: str | None = None) -> None:
    console.line(plain(state.name) + ("" if state.name == state.task else f"  ({plain(state.task)})"))
    console.line(f"  when:  {plain(state.cron)}  {_words(state)}, {plain(state.timezone)}")
    console.line(f"  next:  {_next(state, found)}")
    last = "-" if state.last_run_at is None else f"{_local(state, state.last_run_at)}, job {plain(state.last_job_id)}"
    skips = f", {state.skips} held off by a job that had not ended" if state.skips else ""
    console.line(f"  last:  {last}{skips}")
    for line in (note, *_notes(state, found)):
        if line:
            console.line(f"  note:  {plain(line)}")


def _next(state: ScheduleState, found: Overview) -> str:
    if state.is_paused:
        return "paused"
    if state.name in found.inert:
        return "-, since nobody is known to fire it" if found.unimported else "-, since nobody fires it"
    return ", ".join(_local(state, instant) for instant in found.upcoming(state, _FIRINGS)) or "-"


def _notes(state: ScheduleState, found: Overview) -> list[str]:
    notes = []
    if state.error is not None:
        notes.append(f"stopped itself: {state.error}")
    if state.name in found.inert and found.unimported:
        notes.append(f"it may be declared in what could not be imported, {shown_failures(found.unimported)}")
    elif state.name in found.inert:
        notes.append("the code has it no more, so it does not fire; `schedules delete` forgets it")
    elif found.is_overdue(state):
        notes.append(f"{shown_seconds(found.now - state.next_run_at)} late")
    if state.source == DATA:
        notes.append("kept as data")
    return notes


def _is_in_code(state: ScheduleState, found: Overview) -> bool | None:
    """None: that is not known, since not all of the code could be imported."""
    if state.name in found.inert and found.unimported:
        return None
    return state.source != DATA and state.name not in found.inert


def _words(state: ScheduleState) -> str:
    try:
        return describe(parsed(state.cron))
    except ConfigurationError:
        return "cannot be read"


def _local(state: ScheduleState, instant: float) -> str:
    """An instant in the schedule's own zone, with what that is ahead of UTC."""
    try:
        return f"{datetime.fromtimestamp(instant, zone_of(state.timezone)):%a %Y-%m-%d %H:%M:%S%z}"
    except (ConfigurationError, OverflowError, ValueError, OSError):
        return shown_time(instant) or "-"


def _as_state(schedule: Schedule, now: float) -> ScheduleState:
    rule = schedule.rule
    return ScheduleState(
        name=schedule.name,
        cron=rule.cron.text,
        timezone=rule.timezone,
        next_run_at=rule.cron.next_after(now, rule.zone),
        task=schedule.task,
        queue=schedule.queue,
        priority=schedule.priority,
        misfire=str(rule.misfire),
        overlap=rule.overlap,
    )


def _as_dict(target: Target, found: Overview, state: ScheduleState) -> dict[str, object]:
    args, kwargs = _arguments(target, state)
    return {
        "name": state.name,
        "task": state.task,
        "args": args,
        "kwargs": kwargs,
        "cron": state.cron,
        "words": _words(state),
        "timezone": state.timezone,
        "misfire": state.misfire,
        "overlap": state.overlap,
        "queue": state.queue,
        "priority": state.priority,
        "source": state.source,
        "paused": state.is_paused,
        "overdue": found.is_overdue(state),
        "in_code": _is_in_code(state, found),
        "registered": any(state is stored for stored in found.states),
        "next": found.upcoming(state, _FIRINGS),
        "last_run_at": state.last_run_at,
        "last_job_id": state.last_job_id,
        "skips": state.skips,
        "error": state.error,
    }


def _arguments(target: Target, state: ScheduleState) -> tuple[object, object]:
    declared = target.timetable.declared().get(state.name)
    if declared is not None:
        return [jsonable(value) for value in declared.args], {k: jsonable(v) for k, v in declared.kwargs.items()}
    if state.payload is None:
        return [], {}
    try:
        args, kwargs = target.codecs.get(state.codec).decode_call(state.payload)
    except TinyJobsError:
        return None, None
    return [jsonable(value) for value in args], {k: jsonable(v) for k, v in kwargs.items()}
