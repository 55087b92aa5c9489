"""The scheduler: makes jobs of schedules whose time has come.

Every worker has one, and there is no leader: each firing is a compare and swap in the store, so any number of
schedulers make one job of it, and losing is nothing to speak of. The state is the row. A scheduler that is killed
leaves either a fired schedule or one that is still due, and the next one to look goes on from there.

The store's clock decides what is due. Between two passes a scheduler sleeps until the earliest next time, so a pass
that fires nothing is two reads. It knows what is declared through the timetable, and schedules kept as data from their
rows.
"""

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from math import inf
from typing import NamedTuple

from tinyjobs.core.cron import zone_of
from tinyjobs.core.errors import ConfigurationError, DataRefusedError, SchemaMissingError
from tinyjobs.core.firing import MISFIRE_GRACE, Firing, Misfire, firing_due
from tinyjobs.core.ids import IdSource
from tinyjobs.core.job import Job, ScheduleMove, ScheduleState
from tinyjobs.core.schedules import DATA, Schedule, Timetable, parsed
from tinyjobs.core.sight import out_of_sight
from tinyjobs.core.trouble import Backoff, Trouble, is_final, kind_of, log_failure
from tinyjobs.runtime.engine import Engine
from tinyjobs.runtime.hooks import HookRunner
from tinyjobs.runtime.schedules import new_state
from tinyjobs.runtime.settings import WorkerSettings
from tinyjobs.runtime.unfireable import Unfireable

logger = logging.getLogger("tinyjobs.scheduler")

_LOOP = "scheduler"
_LONGEST_SLEEP = 30.0
_SHORTEST_SLEEP = 0.001
# Jobs in one transaction, or schedules that get none. A larger one would hold SQLite's write lock for longer than a
# worker should wait.
_BATCH = 200
# After so many rows the loop is given a turn: others live on it.
_STRIDE = 200
# How often trouble that lasts is told of again.
_QUIET = 60.0


class _Due(NamedTuple):
    """A schedule, where it stands, and what that asks for now."""

    schedule: Schedule
    state: ScheduleState
    firing: Firing


class Scheduler:
    """Fires the schedules of an engine's store. `fired` and `skipped` count the jobs made, and held off by the last."""

    def __init__(
        self, engine: Engine, timetable: Timetable, grace: float = MISFIRE_GRACE, hooks: HookRunner | None = None
    ) -> None:
        self._engine = engine
        self._hooks = HookRunner() if hooks is None else hooks
        self._timetable = timetable
        self._grace = grace
        # Whatever is made or moved elsewhere is seen well within the grace.
        self._longest_sleep = min(_LONGEST_SLEEP, max(grace / 2, 1.0))
        self._ids = IdSource()
        # What has been held against the store, by name: from then on others may change it.
        self._registered_names: set[str] = set()
        self._declared: Mapping[str, Schedule] = {}
        self._unfireable = Unfireable(engine, _LOOP, grace)
        # Rows that were read, as they were, with what they say.
        self._read: dict[str, tuple[ScheduleState, Schedule]] = {}
        self._trouble = Backoff()
        # Passes in a row in which others were first everywhere.
        self._lost = Backoff(first=0.01, ceiling=0.5)
        self._told_at = -inf
        self._is_ending = False
        #: When the last whole pass was, by the clock that decides in the store; None before the first.
        self.passed_at: float | None = None
        self.fired = 0
        self.skipped = 0

    async def run(self) -> None:
        """Pass after pass until cancelled. One that fails is told of and tried again; raises what no pass can mend."""
        for problem in self._timetable.problems():
            logger.error("a schedule cannot be fired: %s", problem)
        while True:
            try:
                seconds = await self._whole_tick()
            except Exception as error:
                if is_final(error):
                    raise
                seconds = self._failed(error)
            else:
                failures = self._trouble.succeeded()
                if not self._engine.outage.over(_LOOP) and failures > 1:
                    logger.info("schedules are fired again")
            await self._engine.clock.sleep(seconds)

    async def told(self, timeout: float | None = None) -> None:
        """Wait until the hooks have been told of every job that was made, `timeout` seconds at most."""
        await self._hooks.close(timeout)

    async def _whole_tick(self) -> float:
        """A pass that is not cut off in the middle of a firing: what it has made would not be told of."""
        tick = out_of_sight(asyncio.get_running_loop().create_task(self.tick()))
        try:
            return await asyncio.shield(tick)
        except asyncio.CancelledError:
            self._is_ending = True
            with suppress(Exception):
                await tick
            raise

    async def tick(self) -> float:
        """Fire what is due; for how many seconds there is nothing more to do. 0: look again at once."""
        monotonic = self._engine.clock.monotonic
        began = monotonic()
        store = self._engine.store
        now = await store.present()
        self._declared = self._timetable.declared()
        states = await self._registered(await store.schedules(), now)
        self._forget_all_but(states)
        due: list[_Due] = []
        soonest = inf
        for place, state in enumerate(states):
            await self._give_way(place)
            schedule = await self._readable(state)
            if schedule is None:
                continue
            firing = self._firing(schedule, state, now)
            if firing is None:
                soonest = min(soonest, state.next_run_at)
            elif not self._unfireable.is_left_alone(state):
                due.append(_Due(schedule, state, firing))
        won = await self._fire(due, now)
        self.passed_at = now
        if won == 0:
            # Whoever was first has moved them by then, or keeps them locked for as long as its transaction is open.
            return self._lost.failed()
        self._lost.succeeded()
        if won:
            return 0.0
        return max(min(soonest - now - (monotonic() - began), self._longest_sleep), _SHORTEST_SLEEP)

    # --- what there is to fire ----------------------------------------------------------------------------------

    async def _registered(self, states: list[ScheduleState], now: float) -> list[ScheduleState]:
        """Register what is declared: when it is first seen, if it differs from what is stored, later if it is gone."""
        stored = {state.name: state for state in states}
        changed = []
        for place, (name, schedule) in enumerate(self._declared.items()):
            await self._give_way(place)
            known = stored.get(name)
            if known is not None and name in self._registered_names and known.source != DATA:
                continue
            state = new_state(self._timetable, schedule, now)
            if known is not None and known.source == DATA:
                logger.warning(
                    "the schedule %r is declared in the code (%s), which wins over the one kept as data",
                    name,
                    schedule.source,
                    extra={"schedule": name},
                )
            if known is None or not _is_same(known, state):
                changed.append(state)
        if changed:
            await self._engine.store.register_schedules(changed)
            states = await self._engine.store.schedules()
        self._registered_names.update(self._declared)
        return states

    def _forget_all_but(self, states: Sequence[ScheduleState]) -> None:
        if max(len(self._read), len(self._unfireable)) > len(states):
            names = {state.name for state in states}
            self._read = {name: kept for name, kept in self._read.items() if name in names}
            self._unfireable.keep(names)

    async def _readable(self, state: ScheduleState) -> Schedule | None:
        """The schedule that a row stands for; None: it is not to be fired from here."""
        declared = self._declared.get(state.name)
        if declared is not None:
            return declared
        if state.source != DATA or state.is_paused:
            return None  # what is declared elsewhere, or nowhere any more, is not ours
        row = replace(state, next_run_at=0.0, last_run_at=None, last_job_id=None, skips=0)
        kept = self._read.get(state.name)
        if kept is None or kept[0] != row:
            try:
                kept = self._read[state.name] = row, Schedule.read(state, self._engine.codecs)
            except Exception as error:
                await self._unfireable.note(state, state.task, error)
                return None
        return kept[1]

    def _firing(self, schedule: Schedule, state: ScheduleState, now: float) -> Firing | None:
        # The row says when, since it has the latest registration: during a deploy the old code follows the new rule.
        try:
            cron, zone = parsed(state.cron), zone_of(state.timezone)
        except ConfigurationError:
            cron, zone = schedule.rule.cron, schedule.rule.zone
        return firing_due(state.next_run_at, now, cron, zone, schedule.rule.misfire, self._grace)

    # --- firing -------------------------------------------------------------------------------------------------

    async def _fire(self, due: Sequence[_Due], now: float) -> int | None:
        """Fire them in batches, beginning anywhere, so that schedulers which wake together do not all want the same.

        Where most of a batch was somebody else's, the rest is looked at anew. How many were moved; None: no job could
        be made of any of them.
        """
        start = self._engine.random.randrange(len(due)) if len(due) > _BATCH else 0
        won: int | None = None
        for batch in _batches([*due[start:], *due[:start]]):
            if self._is_ending:
                break
            moves = [(one, move) for one in batch if (move := await self._move(one, now)) is not None]
            if not moves:
                continue
            fired = await self._write(moves)
            won = (won or 0) + len(fired) - fired.count(None)
            for (mine, _), jobs in zip(moves, fired, strict=True):
                if jobs is not None:
                    self._note(mine, jobs)
            if fired.count(None) > len(fired) / 2:
                break
        return won

    async def _move(self, due: _Due, now: float) -> ScheduleMove | None:
        """What to tell the store; None: no job can be made of it here."""
        state, firing = due.state, due.firing
        try:
            jobs = self._jobs(due.schedule, firing.instants, now)
        except Exception as error:
            await self._unfireable.note(state, due.schedule.task, error)
            return None
        return ScheduleMove(name=state.name, expected=state.next_run_at, next_run_at=firing.next_run_at, jobs=jobs)

    def _jobs(self, schedule: Schedule, instants: Sequence[float], now: float) -> list[Job]:
        """A job for each instant, due since then."""
        if not instants:
            return []
        job = self._timetable.job(schedule)
        return [
            replace(
                job,
                id=job_id,
                run_at=instant,
                delay=None,
                created_at=now,
                scheduled_for=instant,
                key=schedule.key or job.key,
            )
            for job_id, instant in zip(self._ids.make_many(now, len(instants)), instants, strict=True)
        ]

    async def _write(self, moves: Sequence[tuple[_Due, ScheduleMove]]) -> list[list[Job] | None]:
        """Fire them in one transaction; where the store refuses the data of one, one after the other."""
        store = self._engine.store
        try:
            return await store.fire_schedules([move for _, move in moves])
        except DataRefusedError:
            fired: list[list[Job] | None] = []
        for due, move in moves:
            try:
                fired += await store.fire_schedules([move])
            except DataRefusedError as error:
                fired.append(None)
                await self._unfireable.note(due.state, due.schedule.task, error)
        return fired

    def _note(self, due: _Due, jobs: Sequence[Job]) -> None:
        name = due.state.name
        about = {"schedule": name}
        made = 0
        for job in jobs:
            if not job.existing:
                made += 1
                self._hooks.add(self._engine.hooks.on_fired, job)
        self.fired += made
        self.skipped += len(jobs) - made
        if len(jobs) > made:
            logger.debug("the schedule %r made no job: its last one is still active", name, extra=about)
        if due.firing.missed_since is not None:
            catches_up = made and due.schedule.rule.misfire is Misfire.RUN_ONCE
            logger.info(
                "the schedule %r missed firings since %s; %s",
                name,
                datetime.fromtimestamp(due.firing.missed_since, due.schedule.rule.zone),
                "one job stands for them" if catches_up else "they are skipped",
                extra=about,
            )
        elif not due.firing.instants:
            text = "the schedule %r stood too late, as after a clock that stepped back, and was moved"
            logger.info(text, name, extra=about)

    async def _give_way(self, place: int) -> None:
        if place % _STRIDE == _STRIDE - 1:
            await self._engine.clock.sleep(0)

    def _failed(self, error: Exception) -> float:
        """Tell of a failing pass, and again each minute it lasts, louder; how long to wait."""
        self._engine.hooks.report(_LOOP, error)
        now = self._engine.clock.monotonic()
        # Where a table is gone, jobs may go on: that is no outage, and nobody else tells of it.
        is_missing = isinstance(error, SchemaMissingError)
        is_first, is_outage = self._trouble.failures == 0, kind_of(error) is Trouble.OUTAGE and not is_missing
        if is_first:
            self._told_at = now
        if is_outage and not is_first:
            # The first may be about a connection that has died since the last pass; loops that never rest know better.
            self._engine.outage.met(_LOOP, error)
        if is_first and is_missing:
            logger.error("schedules cannot be fired, trying again: %s", error)
        elif is_first and not is_outage:
            log_failure(logger, error, "schedules cannot be fired, trying again: %s")
        elif now - self._told_at >= _QUIET:
            logger.error("schedules still cannot be fired: %s", error)
            self._told_at = now
        return self._trouble.failed()


def scheduler_beside(engine: Engine, settings: WorkerSettings, hooks: HookRunner) -> Scheduler | None:
    """What fires schedules beside a worker; None: it is not to, or has none, or its store keeps none."""
    timetable = engine.timetable
    if timetable is None or not settings.fires_schedules or not engine.store.capabilities.schedules:
        return None
    return Scheduler(engine, timetable, settings.misfire_grace, hooks)


def _batches(due: Sequence[_Due]) -> Iterator[list[_Due]]:
    """As many as go into one transaction. After an outage one schedule may ask for many jobs."""
    batch: list[_Due] = []
    size = 0
    for one in due:
        batch.append(one)
        size += max(len(one.firing.instants), 1)
        if size >= _BATCH:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _is_same(stored: ScheduleState, declared: ScheduleState) -> bool:
    """Whether registering would change nothing."""
    kept = replace(
        declared,
        next_run_at=stored.next_run_at,
        last_run_at=stored.last_run_at,
        last_job_id=stored.last_job_id,
        skips=stored.skips,
    )
    return kept == stored
