"""Requests and answers that are lost, at every verb: nothing is done twice, and nothing stays with somebody unknown."""

import asyncio
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from tests.redis.consistency import assert_consistent
from tests.redis.losing import LosingLink, losing
from tests.servers.proxy import Proxy
from tinyjobs.backends.redis.backend import RedisBackend
from tinyjobs.backends.registry import open_backend
from tinyjobs.core import transitions
from tinyjobs.core.clock import SystemClock
from tinyjobs.core.errors import StoreError, StoreUnavailableError
from tinyjobs.core.inline import finish
from tinyjobs.core.job import ClaimRequest, Held, Job, ScheduleMove, ScheduleState
from tinyjobs.core.status import JobStatus
from tinyjobs.testing import FrozenClock

LEASE = 60.0
LOSSES = ("request", "answer", "late")


def job(number: int, **fields: Any) -> Job:
    return Job(
        id=f"{number:08}", task="t", payload=b"[]", created_at=1.0, **{"run_at": 1.0, "max_attempts": 3, **fields}
    )


def request(limit: int = 10, worker: str = "w", lease: float = LEASE) -> ClaimRequest:
    return ClaimRequest(worker_id=worker, limit=limit, lease=lease)


class Bench:
    """A store by a losing link, and the same store by a sound one."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.clock = FrozenClock()
        opened = open_backend(url, clock=self.clock)
        assert isinstance(opened, RedisBackend)
        self.opened = opened
        self.store, self.link = losing(opened)
        self.sound = open_backend(url, clock=self.clock).inline()
        finish(self.sound.setup())

    def lost(self, verb: Callable[[], Any], *losses: tuple[str, Any]) -> None:
        """The call fails, since those of its scripts are lost."""
        self.link.losses = list(losses)
        with pytest.raises(StoreUnavailableError):
            finish(verb())
        assert not self.link.losses

    def counts(self) -> dict[str, int]:
        return {status: count for status, count in finish(self.sound.counts_by_status()).items() if count}

    def running(self) -> set[str]:
        return {found.id for found in finish(self.sound.list(status=JobStatus.RUNNING)).jobs}

    def close(self) -> None:
        self.link.losses = []
        assert_consistent(self.url)
        finish(self.opened.inline().close())
        finish(self.sound.close())


@pytest.fixture
def bench(redis_url: str) -> Iterator[Bench]:
    made = Bench(redis_url)
    yield made
    made.close()


# --- sending ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("how", ["enqueue_one", "enqueue", "enqueue_keyed"])
def test_an_enqueue_is_told_of_and_kept_once_at_most(bench, loss, how):
    key = "mine" if how == "enqueue_keyed" else None
    sent = job(1, key=key, **({"run_at": 0.0, "delay": 0.0} if how == "enqueue_one" else {}))
    bench.lost(lambda: bench.store.enqueue(sent), (how, loss))
    finish(bench.link.deliver())
    assert bench.counts() == ({} if loss == "request" else {"queued": 1})
    (kept,) = finish(bench.store.enqueue_many([job(2, key=key)]))
    assert kept.existing is (key is not None and loss != "request")


@pytest.mark.parametrize("loss", LOSSES)
def test_many_are_kept_by_the_thousand_and_the_error_says_how_many_for_certain(bench, loss):
    jobs = [job(number) for number in range(2_500)]
    bench.link.losses = [("enqueue", None), ("enqueue", loss)]
    with pytest.raises(StoreUnavailableError) as caught:
        finish(bench.store.enqueue_many(jobs))
    assert "Of the 2500 jobs of this call the first 1000 are kept." in caught.value.__notes__
    assert bench.counts() == {"queued": 2_000 if loss == "answer" else 1_000}


# --- claiming -----------------------------------------------------------------------------------------------------


def claims(bench: Bench, by: str) -> Callable[[], Any]:
    if by == "claim_job":
        return lambda: bench.store.claim_job(job(0).id, worker_id="w", lease=LEASE)
    return lambda: bench.store.claim(request())


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("by", ["record", "claim_job"])
def test_a_claim_comes_back_without_its_attempt(bench, loss, by):
    finish(bench.store.enqueue_many([job(number) for number in range(3)]))
    bench.lost(claims(bench, by), (by, loss))
    taken = finish(bench.store.claim(request())).jobs
    assert [(found.id, found.attempts) for found in taken] == [(job(number).id, 1) for number in range(3)]
    finish(bench.link.deliver())
    assert bench.running() == {found.id for found in taken}
    assert all(finish(bench.store.record([transitions.succeeded(found, None, 2.0) for found in taken])).applied)
    for found in taken:
        assert [entry.claim for entry in finish(bench.sound.executions(found.id))] == [found.claims]


@pytest.mark.parametrize("by", ["record", "claim_job"])
def test_a_claim_that_arrives_after_the_sweep_takes_nothing_whatever_came_in_between(bench, by):
    """Twice: the first one arrives after another claim of the same worker, and after another sweep."""
    finish(bench.store.enqueue_many([job(number) for number in range(2)]))
    bench.lost(claims(bench, by), (by, "late"))
    bench.lost(lambda: bench.store.claim(request(1)), ("record", "answer"))
    (taken,) = finish(bench.store.claim(request(1))).jobs
    finish(bench.store.record([transitions.handed_back(taken, 2.0)]))
    finish(bench.link.deliver())
    assert bench.running() == set()
    assert len(finish(bench.store.claim(request())).jobs) == 2


@pytest.mark.parametrize("losses", [[("claimed", loss)] for loss in LOSSES] + [[("record", loss)] for loss in LOSSES])
def test_a_sweep_that_is_lost_itself_is_made_again(bench, losses):
    finish(bench.store.enqueue_many([job(number) for number in range(3)]))
    bench.lost(lambda: bench.store.claim(request()), ("record", "answer"))
    bench.lost(lambda: bench.store.claim(request()), *losses)
    taken = finish(bench.store.claim(request())).jobs
    assert [found.attempts for found in taken] == [1, 1, 1]
    finish(bench.link.deliver())
    assert bench.running() == {found.id for found in taken}, "what arrives late is about another claim"
    assert all(finish(bench.store.record([transitions.succeeded(found, None, 2.0) for found in taken])).applied)


def test_of_a_lost_claim_only_what_it_still_holds_is_given_back(bench):
    """Its leases ran out; another took one of the jobs, and the same worker another, by other claims."""
    finish(bench.store.enqueue_many([job(number) for number in range(3)]))
    bench.lost(lambda: bench.store.claim(request()), ("record", "answer"))
    bench.clock.advance(LEASE + 1)
    assert len(finish(bench.sound.reap_expired())) == 3
    (theirs,) = finish(bench.sound.claim(request(1, "other"))).jobs
    (again,) = finish(bench.sound.claim(request(1, "w"))).jobs
    (left,) = finish(bench.store.claim(request())).jobs
    assert {theirs.attempts, again.attempts, left.attempts} == {2}
    assert bench.running() == {theirs.id, again.id, left.id}
    assert finish(bench.store.heartbeat([Held(again.id, again.claims)], LEASE))


@pytest.mark.parametrize("loss", ["request", "answer"])
def test_a_process_that_dies_before_its_sweep_leaves_it_to_the_lease(bench, loss):
    finish(bench.store.enqueue(job(1)))
    bench.lost(lambda: bench.store.claim(request()), ("record", loss))
    bench.clock.advance(LEASE - 1)
    assert finish(bench.sound.reap_expired()) == []
    bench.clock.advance(2)
    reaped = finish(bench.sound.reap_expired())
    assert len(reaped) == (loss == "answer")
    (taken,) = finish(bench.sound.claim(request(worker="other"))).jobs
    assert taken.attempts == (2 if loss == "answer" else 1)


def test_closing_gives_a_lost_claim_back(redis_url):
    bench = Bench(redis_url)
    finish(bench.store.enqueue_many([job(number) for number in range(3)]))
    bench.lost(lambda: bench.store.claim(request()), ("record", "answer"))
    finish(bench.store.close())
    assert bench.counts() == {"queued": 3}
    bench.close()


def test_an_interrupt_in_the_middle_of_a_claim_leaves_nothing_behind(bench):
    """As a Ctrl-C in a drain: the server has carried it out, the caller never sees the answer."""
    finish(bench.store.enqueue(job(1)))
    run = bench.link.run

    async def interrupted(*parts: Any) -> Any:
        await run(*parts)
        raise KeyboardInterrupt

    bench.link.run = interrupted
    with pytest.raises(KeyboardInterrupt):
        finish(bench.store.claim(request()))
    bench.link.run = run
    (taken,) = finish(bench.store.claim(request())).jobs
    assert taken.attempts == 1


# --- recording ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", LOSSES)
def test_an_outcome_is_written_once_and_the_claim_beside_it_comes_back(bench, loss):
    finish(bench.store.enqueue_many([job(number) for number in range(4)]))
    held = finish(bench.store.claim(request(2))).jobs
    outcomes = [transitions.succeeded(found, b"7", 2.0) for found in held]
    bench.lost(lambda: bench.store.record(outcomes, request(1)), ("record", loss))
    recorded = finish(bench.store.record(outcomes, request(1)))
    assert recorded.applied == [loss != "answer"] * 2
    (taken,) = recorded.claimed.jobs
    assert taken.attempts == 1
    finish(bench.link.deliver())
    assert bench.running() == {taken.id}
    assert bench.counts() == {"success": 2, "running": 1, "queued": 1}
    for outcome in outcomes:
        executions = finish(bench.sound.executions(outcome.job_id))
        assert len(executions) == 1 and transitions.has_landed(outcome, executions)


# --- everything else ----------------------------------------------------------------------------------------------


def state(name: str = "s") -> ScheduleState:
    return ScheduleState(name=name, cron="* * * * *", timezone="UTC", next_run_at=60.0, task="t")


def prepared(bench: Bench) -> list[Job]:
    """One job of each kind, and the claims of two that run."""
    finish(bench.sound.enqueue_many([job(number) for number in range(5)]))
    finish(bench.sound.register_schedules([state("kept")]))
    held = finish(bench.sound.claim(request(5))).jobs
    finish(
        bench.sound.record(
            [
                transitions.succeeded(held[2], b"7", bench.clock.now()),
                transitions.failed(
                    held[3], transitions.ExecutionError(error_type="E", message="No"), None, bench.clock.now()
                ),
                transitions.handed_back(held[4], bench.clock.now()),
            ]
        )
    )
    finish(bench.sound.enqueue(job(9, expires_at=bench.clock.now() + 5, run_at=bench.clock.now() + 500)))
    bench.clock.advance(10)
    return held


def of_moves(bench: Bench) -> Any:
    return bench.store.fire_schedules(
        [ScheduleMove(name="kept", expected=60.0, next_run_at=120.0, jobs=[job(77, run_at=60.0)])]
    )


VERBS: dict[str, tuple[str, Callable[[Bench, list[Job]], Any], Callable[[Any], Any], Any, Any]] = {
    # The script, the call, what of its answer is looked at, and that answer of the second call: after the first did
    # not arrive, and after it did.
    "heartbeat": (
        "heartbeat",
        lambda bench, held: bench.store.heartbeat([Held(held[0].id, held[0].claims)], LEASE),
        len,
        1,
        1,
    ),
    "cancel": ("cancel", lambda bench, held: bench.store.cancel(held[0].id), bool, True, False),
    "requeue": ("requeue", lambda bench, held: bench.store.requeue(held[3].id), bool, True, False),
    "end_unstarted": ("end_unstarted", lambda bench, held: bench.store.end_unstarted(), len, 1, 0),
    "purge": ("purge", lambda bench, held: bench.store.purge(JobStatus.SUCCESS, 1.0), int, 1, 0),
    "drop_results": ("drop_results", lambda bench, held: bench.store.drop_results("t", 1.0), lambda a: a[0], 1, 0),
    "claim_sweep": ("claim_sweep", lambda bench, held: bench.store.claim_sweep(60.0), bool, True, False),
    "fire": ("fire", lambda bench, held: of_moves(bench), lambda fired: fired[0] is not None, True, False),
    "register": ("register_schedules", lambda bench, held: bench.store.save_schedule(state()), bool, True, True),
    "delete": ("delete_schedule", lambda bench, held: bench.store.delete_schedule("kept"), bool, True, False),
    "setup": ("setup", lambda bench, held: bench.store.setup(), lambda answer: answer, None, None),
}


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("verb", VERBS.values(), ids=VERBS.keys())
def test_a_verb_can_be_called_again_and_does_its_work_once(bench, verb, loss):
    script, call, seen, fresh, done = verb
    held = prepared(bench)
    bench.lost(lambda: call(bench, held), (script, loss))
    assert seen(finish(call(bench, held))) == (done if loss == "answer" else fresh)
    finish(bench.link.deliver())
    assert_consistent(bench.url)
    if script == "fire":
        assert finish(bench.sound.get(job(77).id)) is not None
        assert [entry.next_run_at for entry in finish(bench.sound.schedules())] == [120.0]


@pytest.mark.parametrize("script", ["expired", "record", "get"])
@pytest.mark.parametrize("loss", LOSSES)
def test_a_reaper_takes_each_lost_job_back_once(bench, script, loss):
    finish(bench.store.enqueue_many([job(number) for number in range(3)]))
    held = finish(bench.sound.claim(request())).jobs
    bench.clock.advance(LEASE + 1)
    bench.lost(lambda: bench.store.reap_expired(), (script, loss))
    finish(bench.store.reap_expired())
    finish(bench.link.deliver())
    for found in held:
        stored = finish(bench.sound.get(found.id))
        assert (stored.status, stored.claims, stored.attempts) == (JobStatus.QUEUED, 1, 1)
        assert [entry.status.value for entry in finish(bench.sound.executions(found.id))] == ["lost"]


# --- by real connections --------------------------------------------------------------------------------------------


@pytest.fixture
def proxy(redis_url: str, make_proxy: Callable[[str], Proxy]) -> Proxy:
    return make_proxy(redis_url)


FACES = ("threads", "loop")
CUTS = [("to_client", 1), ("to_client", 3), ("to_server", 1), ("to_server", 60)]


async def through(store: Any, proxy: Proxy, cut: tuple[str, int]) -> list[Job]:
    """Each verb of a job's way, its connection cut in the middle once, and then called again until it is answered."""
    direction, count = cut

    async def call(verb: Callable[[], Any]) -> Any:
        proxy.cut_after(count, direction)
        with pytest.raises(StoreUnavailableError):
            await verb()
        return await verb()

    for number in range(3):
        await store.get("warm")
        with suppress(StoreError):
            await call(lambda number=number: store.enqueue(job(number)))
    taken = (await call(lambda: store.claim(request()))).jobs
    assert [(found.id, found.attempts) for found in taken] == [(job(number).id, 1) for number in range(3)]
    await call(lambda: store.heartbeat([Held(found.id, found.claims) for found in taken], LEASE))
    outcomes = [transitions.succeeded(found, None, SystemClock().now()) for found in taken]
    recorded = await call(lambda: store.record(outcomes, request()))
    assert recorded.claimed.jobs == []
    for outcome in outcomes:
        assert transitions.has_landed(outcome, await store.executions(outcome.job_id))
    return list(taken)


@pytest.mark.parametrize("cut", CUTS, ids=lambda cut: f"{cut[0]}-{cut[1]}")
@pytest.mark.parametrize("face", FACES)
def test_connections_that_are_cut_in_the_middle(redis_url, proxy, face, cut):
    store: Any = open_backend(proxy.url(redis_url), clock=SystemClock())
    if face == "threads":
        store = store.inline()
        finish(store.setup())
        finish(through(store, proxy, cut))
        finish(store.close())
    else:

        async def go() -> None:
            await store.setup()
            await through(store, proxy, cut)
            await store.close()

        asyncio.run(go())
    assert_consistent(redis_url)


@pytest.mark.parametrize("seed", [1, 2])
def test_calls_that_are_cancelled_at_any_moment_leave_nothing_behind(redis_url, proxy, seed):
    """Two hundred of them, each cancelled after so many steps of the loop, or so long into the wait for the answer."""
    dice = random.Random(seed)
    store = open_backend(proxy.url(redis_url), clock=SystemClock())
    known: dict[str, Job] = {}
    sent = 0

    async def cancelled(verb: Any) -> Any:
        task = asyncio.ensure_future(verb)
        if dice.random() < 0.7:
            for _ in range(dice.randrange(40)):
                await asyncio.sleep(0)
        else:
            await asyncio.sleep(dice.random() * 0.006)
        task.cancel()
        try:
            return await task
        except asyncio.CancelledError:
            return None

    async def go() -> None:
        nonlocal sent
        await store.setup()
        proxy.delay(0.001)
        await store.enqueue_many([job(number) for number in range(400)])
        for number in range(200):
            kind = dice.randrange(3)
            if kind == 0:
                await cancelled(store.enqueue(job(1_000 + number)))
                sent += 1
                continue
            group = list(known.values())[: kind - 1]
            outcomes = [transitions.succeeded(found, None, SystemClock().now()) for found in group]
            recorded = await cancelled(store.record(outcomes, request(2)))
            if recorded is not None:
                for found in group:
                    known.pop(found.id)
                known.update((found.id, found) for found in recorded.claimed.jobs)
        # The next call gives back what the last ones took.
        rest = (await store.record([], request(1))).claimed.jobs
        known.update((found.id, found) for found in rest)

    async def look() -> None:
        running = {found.id for found in (await store.list(status=JobStatus.RUNNING, limit=1_000)).jobs}
        assert running <= set(known)
        counts = await store.counts_by_status()
        assert 400 <= sum(counts.values()) <= 400 + sent
        for found in (await store.list(status=JobStatus.SUCCESS, limit=1_000)).jobs:
            assert [entry.status.value for entry in await store.executions(found.id)] == ["success"]
            assert found.attempts == 1
        await store.close()

    async def whole() -> None:
        await go()
        await look()

    asyncio.run(whole())
    assert_consistent(redis_url)


def test_a_drain_runs_each_job_once_though_answers_are_lost(redis_url, proxy, make_app):
    """The caller sees the outage where a claim met it, and drains again; an outcome is written again by itself."""
    app = make_app(proxy.url(redis_url))
    runs: list[str] = []

    @app.task(name="t")
    def run(name: str) -> None:
        runs.append(name)

    names = [str(number) for number in range(60)]
    app.send("t", ("warm",))
    app.drain()
    direct = make_app(redis_url)
    ids = [direct.send("t", (name,)).id for name in names]
    dice = random.Random(3)
    is_over = threading.Event()

    def cut() -> None:
        while not is_over.wait(0.004):
            proxy.cut_after(dice.randrange(1, 700), dice.choice(["to_client", "to_server"]))

    cutting = threading.Thread(target=cut, daemon=True)
    cutting.start()
    failures = 0

    def drain() -> None:
        nonlocal failures
        while True:
            with suppress(StoreUnavailableError):
                return app.drain()
            failures += 1

    try:
        drain()
    finally:
        is_over.set()
        cutting.join()
    drain()
    assert sorted(runs[1:]) == sorted(names)
    assert failures
    stored = [direct.get(job_id) for job_id in ids]
    assert {(found.status.value, found.attempts) for found in stored} == {("success", 1)}
    assert_consistent(redis_url)


def test_a_losing_link_loses_what_it_is_told(redis_url):
    bench = Bench(redis_url)
    assert isinstance(bench.link, LosingLink)
    bench.lost(lambda: bench.store.enqueue(job(1)), ("enqueue", "late"))
    assert bench.counts() == {}
    finish(bench.link.deliver())
    assert bench.counts() == {"queued": 1}
    bench.close()
