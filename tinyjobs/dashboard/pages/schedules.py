"""The schedules, and one of them: when they fire, what their last run was, and what can be done to them."""

from collections.abc import Sequence
from typing import Any

from tinyjobs.core.cron_words import describe
from tinyjobs.core.errors import ConfigurationError, TinyJobsError
from tinyjobs.core.inline import finish
from tinyjobs.core.job import Job, ScheduleState
from tinyjobs.core.schedules import DATA, parsed
from tinyjobs.dashboard.pages.asking import NotThere, Query
from tinyjobs.dashboard.pages.values import arguments, row
from tinyjobs.dashboard.services import Desk
from tinyjobs.runtime.schedules import Overview, new_state, shown_failures
from tinyjobs.runtime.schedules import overview as look
from tinyjobs.runtime.settings import WorkerSettings

_PAGE = 50
_FIRINGS, _MORE_FIRINGS = 3, 10
# Jobs that are looked at for the latest runs, of all schedules and of one.
_LATELY, _SCANNED = 200, 5_000
_RUNS = 20


def schedules(desk: Desk, query: Query) -> dict[str, Any]:
    """The page: the schedules by name, those that the code declares and no scheduler has registered yet included."""
    if not desk.capabilities.schedules:
        return {"now": desk.now(), "schedules": None, "count": 0, "page": 1, "pages": 1, "filters": {"q": None}}
    found, states = _all(desk)
    text = query.text("q")
    if text:
        states = [state for state in states if text.lower() in f"{state.name}\n{state.task}".lower()]
    pages = max(-(-len(states) // _PAGE), 1)
    page = query.number("page", 1, pages)
    shown = states[(page - 1) * _PAGE : page * _PAGE]
    runs = _runs_of_all(desk) if shown else {}
    return {
        "now": found.now,
        "schedules": [{**_row(found, state, _FIRINGS), "runs": _runs_of(state, runs)} for state in shown],
        "count": len(states),
        "page": page,
        "pages": pages,
        "filters": {"q": text},
        "default_zone": desk.target.timetable.default_zone,
        "problems": list(desk.target.timetable.problems()),
        "overdue": [state.name for state in found.overdue][:_PAGE],
    }


def schedule(desk: Desk, query: Query, name: str) -> dict[str, Any]:
    """One schedule, with its latest runs. Raises `NotThere`."""
    if not desk.capabilities.schedules:
        raise NotThere(name)
    found, states = _all(desk)
    state = next((state for state in states if state.name == name), None)
    if state is None:
        raise NotThere(name)
    last = None if state.last_job_id is None else finish(desk.store.get(state.last_job_id))
    veil = desk.veil()
    return {
        **_row(found, state, _MORE_FIRINGS),
        "now": found.now,
        "arguments": arguments(desk, state, veil, whole=query.flag("all")),
        "last_job": None if last is None else row(last),
        "runs": [_run(job) for job in _runs(desk, state)],
    }


def _all(desk: Desk) -> tuple[Overview, list[ScheduleState]]:
    grace = WorkerSettings.parse(desk.target.worker_defaults, "worker").misfire_grace
    found = finish(look(desk.store, desk.target.timetable, grace))
    coming = [new_state(desk.target.timetable, declared, found.now) for declared in found.unregistered]
    return found, sorted([*found.states, *coming], key=lambda state: state.name)


def _row(found: Overview, state: ScheduleState, firings: int) -> dict[str, Any]:
    is_inert = state.name in found.inert
    return {
        "name": state.name,
        "task": state.task,
        "cron": state.cron,
        "words": words(state.cron),
        "timezone": state.timezone,
        "queue": state.queue,
        "priority": state.priority,
        "misfire": state.misfire,
        "overlap": state.overlap,
        "source": state.source,
        "is_data": state.source == DATA,
        "is_paused": state.is_paused,
        "is_overdue": found.is_overdue(state),
        "is_inert": is_inert,
        "unimported": shown_failures(found.unimported) if is_inert and found.unimported else None,
        "is_registered": all(state.name != schedule.name for schedule in found.unregistered),
        "next": found.upcoming(state, firings),
        "last_run_at": state.last_run_at,
        "last_job_id": state.last_job_id,
        "skips": state.skips,
        "error": state.error,
    }


def words(cron: str) -> str | None:
    """The expression in words; None: it cannot be read."""
    try:
        return describe(parsed(cron))
    except ConfigurationError:
        return None


def _runs_of_all(desk: Desk) -> dict[str, list[dict[str, Any]]]:
    """The latest runs that schedules made, oldest first, by the key of their jobs or else by their task; of those among
    the newest jobs.
    """
    runs: dict[str, list[dict[str, Any]]] = {}
    for job in finish(desk.store.list(limit=_LATELY)).jobs:
        found = runs.setdefault(job.key or job.task, [])
        if job.scheduled_for is not None and len(found) < _RUNS:
            found.insert(0, _run(job))
    return runs


def _runs_of(state: ScheduleState, runs: dict[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    # Jobs of a schedule that may overlap have no key, so those of another one of the same task are among them.
    return runs.get(state.task if state.overlap else f"schedule:{state.name}", [])


def _runs(desk: Desk, state: ScheduleState) -> Sequence[Job]:
    """The latest runs of one, newest first."""
    try:
        page = finish(desk.store.list(task=state.task, limit=4 * _RUNS, scan=_SCANNED))
    except TinyJobsError:
        return []
    key = f"schedule:{state.name}"
    return [job for job in page.jobs if job.scheduled_for is not None and job.key in (None, key)][:_RUNS]


def _run(job: Job) -> dict[str, Any]:
    has_run = job.started_at is not None and job.finished_at is not None
    return {
        "id": job.id,
        "status": job.status.value,
        "scheduled_for": job.scheduled_for,
        "seconds": max((job.finished_at or 0.0) - (job.started_at or 0.0), 0.0) if has_run else None,
    }
