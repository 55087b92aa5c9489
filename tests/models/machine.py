"""Verbs in any order on the model and on stores side by side, by one clock: all answer alike.

A store that differs from the model is shown with both answers. Each example begins with stores that are empty.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from tests.models.model import Model
from tinyjobs.core import transitions
from tinyjobs.core.clock import Clock
from tinyjobs.core.errors import DataRefusedError
from tinyjobs.core.inline import finish
from tinyjobs.core.job import Claimed, ClaimRequest, Held, Job, Recorded, Room, ScheduleMove, ScheduleState, Stats
from tinyjobs.core.status import JobStatus
from tinyjobs.core.transitions import ExecutionError, Outcome
from tinyjobs.core.watching import Tally, WorkerSeen
from tinyjobs.testing import FrozenClock

QUEUES, TASKS, KEYS = ("a", "b", "c|d"), ("t", "u"), ("k", "l")
WORKERS = ("w1", "w2")
FINAL = (JobStatus.SUCCESS, JobStatus.FAILED, JobStatus.CANCELLED)
ERROR = ExecutionError(error_type="builtins.ValueError", message="No", traceback="…")
SEVERAL = 500

queues = st.sampled_from(QUEUES)
some_queues = st.sampled_from([(), ("a",), ("b", "a"), QUEUES, ("none",)])
rooms = st.none() | st.builds(Room, tasks=st.just(frozenset({"t"})), free=st.integers(0, 2))
leases = st.sampled_from([5.0, 20.0])
requests = st.builds(
    ClaimRequest,
    worker_id=st.sampled_from(WORKERS),
    limit=st.integers(1, 4),
    lease=leases,
    queues=some_queues,
    room=rooms,
    let_in=st.sampled_from([True, True, False]),
)
calls = st.fixed_dictionaries(
    {
        "task": st.sampled_from(TASKS),
        "queue": queues,
        "priority": st.integers(-1, 2),
        "key": st.none() | st.sampled_from(KEYS),
        "max_attempts": st.integers(1, 3),
        "payload": st.binary(max_size=4),
    }
)
waits = st.sampled_from([None, None, 0.0, -3.0, 4.0, 30.0])
expiries = st.sampled_from([None, None, None, -1.0, 3.0, 12.0])
kinds = st.sampled_from(
    ["success", "result", "retry", "retry later", "failed", "back", "back later", "released", "lost"]
)


class SideBySide(RuleBasedStateMachine):
    """Keeps every claim there ever was, so that outcomes also come too late, and twice."""

    #: By name, what opens a store, which has to be empty, and what is looked at after each step.
    openers: ClassVar[dict[str, Callable[[Clock], Any]]] = {}
    looks: ClassVar[tuple[Callable[[], None], ...]] = ()

    def __init__(self) -> None:
        super().__init__()
        self.clock = FrozenClock()
        self.numbers = itertools.count()
        self.stores: dict[str, Any] = {"the model": Model(clock=self.clock)}
        self.stores |= {name: opened(self.clock).inline() for name, opened in self.openers.items()}
        self.ids: list[str] = []
        self.claims: list[Job] = []
        self.all(lambda store: store.setup())

    def teardown(self) -> None:
        self.see(self.ids)
        for store in self.stores.values():
            finish(store.close())

    def all(self, verb: Callable[[Any], Any], seen: Callable[[Any], Any] = lambda answer: answer) -> Any:
        """Do it on each, hold the answers against the model's, and return that."""
        answers = {name: _tried(verb, store) for name, store in self.stores.items()}
        expected = answers.pop("the model")
        for name, answer in answers.items():
            pair = [one if isinstance(one, type) else seen(one) for one in (expected, answer)]
            assert pair[0] == pair[1], f"the model: {pair[0]}\n{name}: {pair[1]}"
        return None if isinstance(expected, type) else expected

    def job(self, call: dict[str, Any], wait: float | None, expires: float | None) -> Job:
        now = self.clock.now()
        if expires is not None and expires < 0.0:
            call = {**call, "key": None}
        number = next(self.numbers)
        job = Job(id=f"{number:08x}-0000-7000-8000-{number:012x}", run_at=now + (wait or 0.0), created_at=now, **call)
        if wait is not None and wait >= 0.0:
            job = replace(job, delay=wait)
        if expires is not None:
            job = replace(job, expires_at=now + expires + max(wait or 0.0, 0.0))
        return job

    # --- verbs ---

    @rule(seconds=st.sampled_from([0.25, 1.0, 4.0, 25.0]))
    def time_goes_by(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule(made=st.lists(st.tuples(calls, waits, expiries), min_size=1, max_size=4))
    def enqueue(self, made: Sequence[tuple[dict[str, Any], float | None, float | None]]) -> None:
        jobs = [self.job(*parts) for parts in made]
        kept = self.all(lambda store: store.enqueue_many(jobs))
        self.ids += [job.id for job in kept if not job.existing]

    @precondition(lambda self: self.ids)
    @rule(data=st.data(), call=calls)
    def enqueue_one_whose_id_is_taken(self, data: Any, call: dict[str, Any]) -> None:
        call = {**call, "key": None}
        taken = replace(self.job(call, None, None), id=data.draw(st.sampled_from(self.ids)))
        if self.all(lambda store: store.get(taken.id)) is None:
            return  # it was purged
        before = self.job(call, None, None)
        jobs = data.draw(st.sampled_from([[taken], [before, taken]]))
        assert self.all(lambda store: store.enqueue_many(jobs)) is None

    @rule(key=st.sampled_from(KEYS))
    def who_holds(self, key: str) -> None:
        self.all(lambda store: store.holder(key))

    @rule(request=requests)
    def claim(self, request: ClaimRequest) -> None:
        self.claims += self.all(lambda store: store.claim(request), lambda claimed: _claimed(claimed, request)).jobs

    @precondition(lambda self: self.ids)
    @rule(data=st.data(), lease=leases)
    def claim_one(self, data: Any, lease: float) -> None:
        job_id = data.draw(st.sampled_from(self.ids))
        job = self.all(lambda store: store.claim_job(job_id, worker_id="w3", lease=lease))
        if job is not None:
            self.claims.append(job)

    @precondition(lambda self: self.claims)
    @rule(data=st.data(), request=st.none() | requests)
    def record(self, data: Any, request: ClaimRequest | None) -> None:
        jobs = data.draw(st.lists(st.sampled_from(self.claims[-12:]), min_size=1, max_size=4))
        outcomes = [self.outcome(job, data.draw(kinds)) for job in jobs]
        recorded = self.all(
            lambda store: store.record(outcomes, request), lambda recorded: _recorded(recorded, request)
        )
        if recorded.claimed is not None:
            self.claims += recorded.claimed.jobs

    def outcome(self, job: Job, kind: str) -> Outcome:
        now = self.clock.now()
        if transitions.has_expired(job):
            return transitions.expired(job, now)
        made: dict[str, Callable[[], Outcome]] = {
            "success": lambda: transitions.succeeded(job, None, now),
            "result": lambda: transitions.succeeded(job, b"7", now - 0.125),
            "retry": lambda: transitions.failed(job, ERROR, now, now),
            "retry later": lambda: transitions.failed(job, ERROR, now + 6.0, now),
            "failed": lambda: transitions.failed(job, ERROR, None, now),
            "back": lambda: transitions.handed_back(job, now),
            "back later": lambda: transitions.handed_back(job, now, 2.0),
            "released": lambda: transitions.released(job, now),
            "lost": lambda: transitions.lost(job, now),
        }
        return made[kind]()

    @precondition(lambda self: self.claims)
    @rule(data=st.data(), lease=leases)
    def heartbeat(self, data: Any, lease: float) -> None:
        jobs = data.draw(st.lists(st.sampled_from(self.claims[-12:]), min_size=1, max_size=4, unique_by=_claim))
        held = [Held(*_claim(job)) for job in jobs]
        self.all(lambda store: store.heartbeat(held, lease), lambda renewed: sorted(map(_held, renewed)))

    @rule()
    def reap(self) -> None:
        self.all(lambda store: store.reap_expired(SEVERAL), _by_id)

    @rule()
    def end_unstarted(self) -> None:
        self.all(lambda store: store.end_unstarted(SEVERAL), _by_id)

    @precondition(lambda self: self.ids)
    @rule(data=st.data())
    def cancel(self, data: Any) -> None:
        job_id = data.draw(st.sampled_from(self.ids))
        self.all(lambda store: store.cancel(job_id))

    @precondition(lambda self: self.ids)
    @rule(data=st.data())
    def requeue(self, data: Any) -> None:
        job_id = data.draw(st.sampled_from(self.ids))
        self.all(lambda store: store.requeue(job_id))

    @precondition(lambda self: self.ids)
    @rule(data=st.data())
    def delete(self, data: Any) -> None:
        job_id = data.draw(st.sampled_from(self.ids))
        self.all(lambda store: store.delete(job_id))

    @precondition(lambda self: self.ids)
    @rule(data=st.data())
    def who_stands_beside(self, data: Any) -> None:
        job_id = data.draw(st.sampled_from(self.ids))
        self.all(lambda store: store.neighbours(job_id))

    @rule(worker_id=st.sampled_from(WORKERS), running=st.integers(0, 3), ends=st.booleans())
    def beat(self, worker_id: str, running: int, ends: bool) -> None:
        seen = WorkerSeen(
            worker_id=worker_id, host="h", pid=7, version="1", started_at=self.clock.now() - 5.0, running=running
        )
        self.all(lambda store: store.sign_off(worker_id) if ends else store.beat(seen))

    @rule(status=st.sampled_from(FINAL), age=st.sampled_from([0.0, 2.0, 20.0]))
    def purge(self, status: JobStatus, age: float) -> None:
        self.all(lambda store: store.purgeable(status, age))
        self.all(lambda store: store.purge(status, age, SEVERAL))

    @rule(task=st.sampled_from(TASKS), age=st.sampled_from([0.0, 2.0, 20.0]))
    def drop_results(self, task: str, age: float) -> None:
        self.all(lambda store: store.drop_results(task, age))

    @rule(interval=st.sampled_from([1.0, 60.0]))
    def sweep(self, interval: float) -> None:
        self.all(lambda store: store.claim_sweep(interval))

    @rule(
        name=st.sampled_from(["one", "two"]),
        cron=st.sampled_from(["0 * * * *", "5 * * * *"]),
        source=st.sampled_from(["code", "data"]),
        payload=st.none() | st.just(b"[1]"),
        after=st.sampled_from([0.0, 10.0]),
    )
    def declare(self, name: str, cron: str, source: str, payload: bytes | None, after: float) -> None:
        state = ScheduleState(
            name=name,
            cron=cron,
            timezone="UTC",
            next_run_at=self.clock.now() + after,
            task="t",
            payload=payload,
            source=source,
        )
        if source == "data":
            self.all(lambda store: store.save_schedule(state))
        else:
            self.all(lambda store: store.register_schedules([state]))

    @rule(name=st.sampled_from(["one", "two"]))
    def forget(self, name: str) -> None:
        self.all(lambda store: store.delete_schedule(name))

    @rule(
        name=st.sampled_from(["one", "two", "none"]),
        made=st.lists(st.tuples(calls, waits, expiries), max_size=2),
        is_late=st.booleans(),
        error=st.sampled_from([None, None, "It cannot be read."]),
    )
    def fire(self, name: str, made: Sequence[Any], is_late: bool, error: str | None) -> None:
        stands = {state.name: state.next_run_at for state in finish(self.stores["the model"].schedules())}
        expected = stands.get(name, 1.0) - is_late
        jobs = [self.job(*parts) for parts in made] if error is None else []
        move = ScheduleMove(name=name, expected=expected, next_run_at=expected + 30.0, jobs=jobs, error=error)
        (fired,) = self.all(lambda store: store.fire_schedules([move]))
        self.ids += [job.id for job in fired or () if not job.existing]

    # --- what can be seen ---

    def see(self, ids: Sequence[str]) -> None:
        for job_id in ids:
            self.all(lambda store, job_id=job_id: store.get(job_id))
            self.all(lambda store, job_id=job_id: store.executions(job_id))

    @invariant()
    def jobs_and_figures_are_alike(self) -> None:
        self.see(self.ids[-2:])
        self.all(lambda store: store.list(limit=1_000))
        self.all(lambda store: store.counts_by_status())
        self.all(lambda store: store.stats(), _figures)
        for names in ((), ("a",)):
            self.all(lambda store, names=names: store.next_due(names))
        self.all(lambda store: store.schedules())
        self.all(lambda store: store.workers())
        self.all(lambda store: store.tallies(self.clock.now() - 300.0), _rounded)

    @invariant()
    def each_store_is_whole(self) -> None:
        for look in self.looks:
            look()

    @rule(
        status=st.none() | st.sampled_from(list(JobStatus)),
        queue=st.none() | queues,
        task=st.none() | st.sampled_from(TASKS),
        text=st.none() | st.sampled_from(["T", "0003-", "c|d"]),
        limit=st.sampled_from([1, 3, 100]),
    )
    def look_through(
        self, status: JobStatus | None, queue: str | None, task: str | None, text: str | None, limit: int
    ) -> None:
        cursor: str | None = None
        while True:
            page = self.all(
                lambda store, cursor=cursor: store.list(
                    status=status, queue=queue, task=task, text=text, limit=limit, cursor=cursor
                )
            )
            cursor = page.cursor
            if cursor is None:
                return


def _tried(verb: Callable[[Any], Any], store: Any) -> Any:
    """The answer, or the error's type where the store refuses the data."""
    try:
        return finish(verb(store))
    except DataRefusedError as error:
        return type(error)


def _claim(job: Job) -> tuple[str, int]:
    return job.id, job.claims


def _held(held: Held) -> tuple[str, int]:
    return held.job_id, held.claim


def _by_id(jobs: Sequence[Job]) -> list[Job]:
    return sorted(jobs, key=lambda job: job.id)


def _figures(stats: Stats) -> Any:
    queues = {queue.name: queue for queue in stats.queues}
    return stats.now, queues, stats.by_status, stats.queued_by_task, stats.expired_leases, stats.next_due


def _claimed(claimed: Claimed, request: ClaimRequest) -> Claimed:
    """A claim that was filled is followed by another, so what it tells of the next time is left to the store."""
    return Claimed(claimed.jobs) if len(claimed.jobs) >= request.limit else claimed


def _recorded(recorded: Recorded, request: ClaimRequest | None) -> Recorded:
    if recorded.claimed is None or request is None:
        return recorded
    return replace(recorded, claimed=_claimed(recorded.claimed, request))


def _rounded(tallies: Sequence[Tally]) -> list[Tally]:
    """Their sums to the millisecond: each store adds them up in an order of its own."""
    names = ("waited", "ran", "longest_wait", "longest_run")
    return [replace(one, **{name: round(getattr(one, name), 3) for name in names}) for one in tallies]


def run_examples(
    openers: dict[str, Callable[[Clock], Any]],
    count: int,
    steps: int,
    *looks: Callable[[], None],
) -> None:
    """Let so many examples of so many steps be made up for these stores."""
    machine = type("SideBySide", (SideBySide,), {"openers": openers, "looks": looks})
    options = settings(
        max_examples=count,
        stateful_step_count=steps,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        database=None,
        report_multiple_bugs=False,
    )
    run_state_machine_as_test(machine, settings=options)
