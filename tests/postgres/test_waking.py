"""LISTEN and NOTIFY: idle workers hear of jobs at once, and what goes wrong with it costs latency and never a job."""

import asyncio
import logging
import os
import statistics
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from tests.runtime.conftest import PATIENCE, Bench, Wrapped, eventually
from tests.runtime.test_scheduler import Table
from tests.runtime.test_wakeups import NEVER, hush
from tinyjobs.backends.postgres import listener as listener_module
from tinyjobs.backends.postgres.listener import Listener
from tinyjobs.backends.postgres.notifying import ANY, WINDOW, topic_of
from tinyjobs.backends.registry import open_backend
from tinyjobs.core.clock import SystemClock
from tinyjobs.core.errors import ConfigurationError, StoreUnavailableError
from tinyjobs.core.inline import finish
from tinyjobs.core.options import check_queue
from tinyjobs.core.transitions import released

pytestmark = pytest.mark.postgres

LISTENERS = "tinyjobs listener"


@pytest.fixture
def make_bench(postgres_url):
    """Makes benches on the test's database, each with a client of its own; the loop's side is closed by the test."""
    made = []

    def make(url=postgres_url, **options):
        clock = SystemClock()
        made.append(Bench(open_backend(url, clock=clock, **options), clock))
        return made[-1]

    yield make
    for bench in made:
        asyncio.run(bench.store.close())


@pytest.fixture
def bench(make_bench):
    return make_bench()


@pytest.fixture
def other(make_bench, bench):
    """Another client of the same store."""
    return make_bench()


def listening(server):
    """The sessions that listen, by their process number."""
    rows = server.execute("SELECT pid FROM pg_stat_activity WHERE application_name = %s", (LISTENERS,))
    return {pid for (pid,) in rows}


def run(main, *stores, patience=2 * PATIENCE):
    """Run the coroutine, and close the stores on its loop."""

    async def whole():
        try:
            return await asyncio.wait_for(main, patience)
        finally:
            for store in stores:
                await store.close()

    return asyncio.run(whole())


async def hearing(store, *queues):
    """Return once the store's wake-ups are known to arrive and nothing is left to tell."""
    async with asyncio.timeout(PATIENCE):
        while not store.can_wake():
            await store.wait_for_jobs(0.02, queues)
        while await store.wait_for_jobs(0.05, queues):
            pass


async def with_idle_worker(bench, body, *, store=None, **settings):
    """Run `body(worker)` beside a worker that nothing but a wake-up leads to a look, unless `poll` says otherwise."""
    worker = bench.worker(store=store, **{"poll": NEVER, **settings})
    running = asyncio.create_task(worker.run())
    try:
        await eventually(bench.store.can_wake)
        if worker.settings.poll == NEVER:
            await hush(worker)
        return await asyncio.wait_for(body(worker), PATIENCE)
    finally:
        worker.stop()
        await running


def in_another_process(url, program):
    """Run the program over its own app, in a process of its own."""
    start = f"""
        import time
        from tinyjobs.app.facade import TinyJobs
        app = TinyJobs({url!r})
    """
    text = textwrap.dedent(start) + textwrap.dedent(program) + "\napp.close()\n"
    return asyncio.create_subprocess_exec(sys.executable, "-c", text)


class Heard:
    """Everything that is notified in a database, with its channel."""

    def __init__(self, url, store):
        self._raw = psycopg.connect(url, autocommit=True)
        self.channel = self._raw.execute(store.statements["channel"].format).fetchone()[0]
        self._raw.execute(f'LISTEN "{self.channel}"')

    def topics(self, seconds=0.3):
        return [note.payload for note in self._raw.notifies(timeout=seconds) if note.payload[:1] != "?"]

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self._raw.close()


@pytest.fixture
def heard(postgres_url, bench):
    with Heard(postgres_url, bench.store) as heard:
        yield heard


# --- who is woken -----------------------------------------------------------------------------------------------------


def test_a_job_of_another_process_starts_though_polling_is_an_hour_away(bench, postgres_url):
    ran = threading.Event()
    bench.task("note", ran.set)

    async def body(worker):
        for _ in range(3):
            process = await in_another_process(postgres_url, "app.send('note')")
            assert await process.wait() == 0
            assert await asyncio.to_thread(ran.wait, PATIENCE)
            ran.clear()
            await hush(worker)

    run(with_idle_worker(bench, body), bench.store)


def test_every_worker_of_every_process_hears_of_a_job(bench, other):
    """Two workers over one store on one loop and one over another: each queue's jobs reach whoever serves it."""
    ran = {queue: threading.Event() for queue in "abc"}
    for each in (bench, other):
        each.task("note", lambda queue: ran[queue].set())

    async def main():
        workers = [bench.worker(poll=NEVER, queues=(queue,)) for queue in "ab"]
        workers.append(other.worker(poll=NEVER, queues=("c",)))
        running = [asyncio.create_task(worker.run()) for worker in workers]
        await eventually(lambda: bench.store.can_wake() and other.store.can_wake())
        for queue in "abccba":
            for worker in workers:
                await hush(worker)
            ran[queue].clear()
            await asyncio.to_thread(bench.put, "note", queue, queue=queue)
            assert await asyncio.to_thread(ran[queue].wait, PATIENCE), queue
        for worker in workers:
            worker.stop()
        await asyncio.gather(*running)

    run(main(), bench.store, other.store)


def test_a_worker_does_not_look_for_the_jobs_of_a_busy_neighbour(bench, other):
    store = Wrapped(bench.store)

    async def body(worker):
        store.calls.clear()
        for _ in range(20):
            await asyncio.to_thread(other.put, "note", queue="neighbour")
            await asyncio.sleep(WINDOW)
        assert store.calls.count("next_due") == 0
        await asyncio.to_thread(other.put, "note", queue="mine")
        await eventually(lambda: store.calls.count("next_due") > 0)

    run(with_idle_worker(bench, body, store=store, queues=("mine",)), bench.store)


def test_a_delayed_job_of_another_process_starts_at_its_time(bench, postgres_url):
    """The worker learns of the time when the job is sent, or with its looks an hour apart it would never be found."""
    ran = threading.Event()
    bench.task("note", ran.set)

    async def body(worker):
        for _ in range(3):
            await hush(worker)
            ran.clear()
            process = await in_another_process(postgres_url, "app.send('note', delay=0.6)")
            assert await process.wait() == 0
            assert await asyncio.to_thread(ran.wait, PATIENCE)
        return (await bench.store.list()).jobs

    jobs = run(with_idle_worker(bench, body), bench.store)
    late = sorted(job.started_at - job.run_at for job in jobs)
    assert late[0] >= 0 and late[1] < 1.0, late  # a busy machine may be slower once


def test_a_job_that_came_right_behind_one_that_was_told_is_found(bench, make_bench):
    """No notification goes out for it, by the rule of one in 50 ms: the woken worker keeps looking for a while."""
    silent = make_bench(notify=False)
    ran = [threading.Event() for _ in range(2)]
    bench.task("note", lambda number: ran[number].set())

    async def body(worker):
        await asyncio.to_thread(bench.put, "note", 0)
        assert await asyncio.to_thread(ran[0].wait, PATIENCE)
        # The worker has found it and nothing more: its next waits are as long as ever but for the wake-up.
        await asyncio.sleep(0.03)
        await asyncio.to_thread(silent.put, "note", 1)
        assert await asyncio.to_thread(ran[1].wait, 0.5)

    run(with_idle_worker(bench, body), bench.store)


def test_a_worker_that_was_woken_for_nothing_looks_on_for_a_while(bench, make_bench):
    silent = make_bench(notify=False)
    store = Wrapped(bench.store)
    ran = threading.Event()
    bench.task("note", ran.set)

    async def body(worker):
        store.calls.clear()
        bench.store.nudge()
        await eventually(lambda: "next_due" in store.calls)
        await asyncio.sleep(0.04)
        await asyncio.to_thread(silent.put, "note")
        assert await asyncio.to_thread(ran.wait, 0.5)

    run(with_idle_worker(bench, body, store=store), bench.store)


def test_what_a_stopping_worker_puts_back_is_told_to_the_others(bench, other, heard):
    bench.task("note", lambda: None)

    async def main():
        bench.put("note")
        claimed = await bench.store.claim(bench_request())
        await hearing(other.store)
        heard.topics()
        await bench.store.record([released(job, time.time()) for job in claimed.jobs])
        assert await other.store.wait_for_jobs(PATIENCE)

    run(main(), bench.store, other.store)
    assert heard.topics() == [ANY]


def bench_request():
    from tinyjobs.core.job import ClaimRequest

    return ClaimRequest(worker_id="w", limit=1, lease=60.0)


def test_a_requeued_job_wakes(bench, other):
    async def main():
        job = bench.put("note")
        await bench.store.cancel(job)
        await hearing(other.store)
        assert await bench.store.requeue(job)
        assert await other.store.wait_for_jobs(PATIENCE)

    run(main(), bench.store, other.store)


# --- what is sent -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("face", ["threads", "loop"])
def test_a_burst_is_told_once_in_fifty_milliseconds(bench, heard, face):
    jobs = [bench.job("note") for _ in range(300)]

    async def send():
        for job in jobs:
            await bench.store.enqueue(job)

    began = time.monotonic()
    if face == "loop":
        run(send(), bench.store)
    else:
        for job in jobs:
            finish(bench.store.inline().enqueue(job))
    took = time.monotonic() - began
    told = heard.topics()
    assert set(told) == {topic_of("default")}
    assert 1 <= len(told) <= took / WINDOW + 1


def test_each_queue_is_told_of_by_itself_and_a_group_at_once(bench, heard):
    finish(bench.store.inline().enqueue_many([bench.job("note", queue=queue) for queue in "aabbc"]))
    assert sorted(heard.topics()) == sorted(map(topic_of, "abc"))


def test_nothing_is_told_of_a_job_that_was_there(bench, heard):
    bench.put("note", key="once")
    assert len(heard.topics()) == 1
    bench.put("note", key="once")
    finish(bench.store.inline().enqueue_many([bench.job("note", key="once")]))
    assert heard.topics() == []


NAMES = [
    *("n" * length for length in (43, 57, 58, 63, 64, 128, 255)),
    "é" * 32, "two words", "it's", '"quoted"', "a:b", "{}", "100%", "%s", "\U0001f680", "شغل", "?", "-- x", ";",
]  # fmt: skip


def test_no_name_of_a_queue_ever_travels_and_every_one_is_woken(bench, other, heard):
    async def main():
        for name in NAMES:
            assert check_queue(name, "queue") == name
            await hearing(bench.store, name)
            await asyncio.to_thread(other.put, "note", queue=name)
            assert await bench.store.wait_for_jobs(PATIENCE, [name]), name

    run(main(), bench.store)
    told = heard.topics()
    assert len(told) == len(NAMES) == len(set(told))
    assert all(len(topic) == 16 and topic.isalnum() and topic.isascii() for topic in told)
    assert len(heard.channel) <= 63 and heard.channel.removeprefix("tinyjobs_").isalnum()


def test_two_stores_of_one_database_do_not_hear_each_other(bench, make_bench, postgres_url):
    apart = make_bench(prefix="another")
    with Heard(postgres_url, bench.store) as mine, Heard(postgres_url, apart.store) as theirs:
        assert mine.channel != theirs.channel
        apart.put("note")
        assert len(theirs.topics()) == 1
        assert mine.topics() == []


def test_without_notify_nothing_is_sent_and_nobody_listens(make_bench, heard, postgres_cluster):
    silent = make_bench(notify=False)

    async def main():
        before = listening(postgres_cluster)
        assert not await silent.store.wait_for_jobs(0.1)
        assert listening(postgres_cluster) <= before
        assert not silent.store.can_wake()
        silent.put("note")
        assert await silent.store.wait_for_jobs(PATIENCE)  # in this process it is told all the same

    run(main(), silent.store)
    assert heard.topics() == []


def test_a_store_inside_a_callers_transaction_tells_nobody(bench, heard):
    """Its job cannot be seen yet, and the notification would hold up everybody else's commits."""

    class Callers:
        async def run(self, verb, *, write):
            return await bench.store.inline()._runner.run(verb, write=write)

    joined = bench.store.on(Callers())
    finish(joined.enqueue(bench.job("note")))
    finish(joined.enqueue_many([bench.job("note")]))
    assert heard.topics() == []
    assert bench.counts() == {"queued": 2}


def test_a_notification_that_fails_is_no_error(bench, caplog, postgres_url):
    with psycopg.connect(postgres_url, autocommit=True) as raw:
        raw.execute("REVOKE ALL ON tinyjobs_meta FROM PUBLIC")
        raw.execute("ALTER TABLE tinyjobs_meta RENAME TO away")
    with caplog.at_level(logging.DEBUG, "tinyjobs"):
        bench.put("note")
    assert bench.counts() == {"queued": 1}
    assert "no notification was sent" in caplog.text
    assert not [record for record in caplog.records if record.levelno > logging.DEBUG]


# --- trouble ----------------------------------------------------------------------------------------------------------


def test_a_listener_that_was_ended_costs_latency_and_comes_back(own_cluster, caplog):
    """Its session is ended and a job sent at once, then another: the first within one poll, the second at once.

    On a busy machine one round in five may be slower than that.
    """
    rounds = 5
    bench = Bench(open_backend(own_cluster.url(), clock=SystemClock()), SystemClock())
    store = Wrapped(bench.store)
    starts = asyncio.Queue()
    first, back, second = [], [], []

    async def note():
        starts.put_nowait(time.monotonic())

    bench.task("note", note)

    async def seconds_to_start():
        began = time.monotonic()
        await asyncio.to_thread(bench.put, "note")
        return await asyncio.wait_for(starts.get(), PATIENCE) - began

    async def main():
        worker = bench.worker(store=store, poll=0.5)
        running = asyncio.create_task(worker.run())
        await eventually(bench.store.can_wake)
        # Idle for good, so that looks are as far apart as they get.
        await eventually(lambda: worker._parts.idler._delay >= 2.0)
        caplog.clear()
        for number in range(rounds):
            store.calls.clear()
            assert own_cluster.terminate(LISTENERS) == 1
            ended = time.monotonic()
            first.append(await seconds_to_start())
            await eventually(bench.store.can_wake)
            back.append(time.monotonic() - ended)
            assert store.calls.count("wait_for_jobs") <= 20  # it does not turn in circles
            await asyncio.sleep(2 * WINDOW)
            second.append(await seconds_to_start())
            await eventually(lambda number=number: len(caplog.records) > number)
        worker.stop()
        await running
        return worker.settings.poll

    with caplog.at_level(logging.INFO, "tinyjobs"):
        poll = run(main(), bench.store)
    assert statistics.median(first) < poll, first
    assert statistics.median(back) < 1.0, back
    assert statistics.median(second) < poll, second
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == rounds and all("wake-ups were interrupted and arrive again" in text for text in told), told


def test_a_server_that_is_away_is_told_of_by_the_looks_and_not_by_the_listener_too(own_cluster, caplog):
    bench = Bench(open_backend(own_cluster.url(), clock=SystemClock()), SystemClock())
    ran = threading.Event()
    bench.task("note", ran.set)

    async def main():
        worker = bench.worker(poll=0.2)
        running = asyncio.create_task(worker.run())
        await eventually(bench.store.can_wake)
        caplog.clear()
        await asyncio.to_thread(own_cluster.stop)
        await eventually(lambda: "the store is out of reach" in caplog.text)
        await asyncio.sleep(1.0)
        await asyncio.to_thread(own_cluster.start)
        await eventually(bench.store.can_wake)
        await asyncio.to_thread(bench.put, "note")
        assert await asyncio.to_thread(ran.wait, PATIENCE)
        await eventually(lambda: "the store answers again" in caplog.text)
        worker.stop()
        await running

    with caplog.at_level(logging.INFO, "tinyjobs"):
        run(main(), bench.store)
    told = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(told) == 2 and "is out of reach" in told[0] and "answers again" in told[1], told


def test_a_listener_that_cannot_come_back_is_told_of_once(bench, by_proxy, caplog):
    """The store answers, the listener alone does not: the worker says that it polls."""
    ran = threading.Event()
    bench.task("note", ran.set)

    async def main():
        worker = bench.worker(poll=0.2)
        running = asyncio.create_task(worker.run())
        await eventually(bench.store.can_wake)
        by_proxy.refuse()
        by_proxy.cut()
        await eventually(lambda: "wake-ups do not arrive" in caplog.text)
        await asyncio.to_thread(bench.put, "note")
        assert await asyncio.to_thread(ran.wait, PATIENCE)
        await asyncio.sleep(2.5)
        by_proxy.accept()
        await eventually(lambda: "wake-ups arrive again" in caplog.text)
        worker.stop()
        await running

    with caplog.at_level(logging.INFO, "tinyjobs"):
        run(main(), bench.store)
    assert caplog.text.count("wake-ups do not arrive") == caplog.text.count("wake-ups arrive again") == 1


def test_what_was_sent_while_nobody_listened_is_found_at_the_reopening(bench, other, postgres_cluster):
    async def main():
        before = listening(postgres_cluster)
        await hearing(bench.store)
        (pid,) = listening(postgres_cluster) - before
        postgres_cluster.execute("SELECT pg_terminate_backend(%s, 10000)", (pid,))
        await asyncio.to_thread(other.put, "note")
        with pytest.raises(StoreUnavailableError, match=r"terminat|closed"):
            await bench.store.wait_for_jobs(PATIENCE)
        assert not bench.store.can_wake()
        assert await bench.store.wait_for_jobs(PATIENCE)  # the reopening wakes
        await hearing(bench.store)

    run(main(), bench.store)


@pytest.fixture
def by_proxy(bench, make_proxy, postgres_url, make_bench, monkeypatch):
    """A proxy before the listener of `bench`, and before nothing else of it."""
    proxy = make_proxy(postgres_url)
    distant = make_bench(proxy.url(postgres_url))
    asyncio.run(distant.store.close())

    def listener(source, waiters, channel, tell):
        return Listener(distant.store._source, waiters, channel, tell)

    monkeypatch.setattr("tinyjobs.backends.postgres.backend.Listener", listener)
    return proxy


def test_a_half_open_listener_is_found_out_and_opened_again(bench, other, by_proxy, monkeypatch):
    """Nothing arrives and nothing fails: only asking it tells."""
    monkeypatch.setattr(listener_module, "_CHECK", 0.3)
    monkeypatch.setattr(listener_module, "_PATIENCE", 0.3)

    async def main():
        await hearing(bench.store)
        by_proxy.swallow()
        began = time.monotonic()
        with pytest.raises(StoreUnavailableError, match="did not answer"):
            await bench.store.wait_for_jobs(PATIENCE)
        assert time.monotonic() - began < PATIENCE / 3
        assert not bench.store.can_wake()
        by_proxy.restore()
        assert await bench.store.wait_for_jobs(PATIENCE)
        await hearing(bench.store)
        await asyncio.to_thread(other.put, "note")
        assert await bench.store.wait_for_jobs(PATIENCE)

    run(main(), bench.store)


def test_a_half_open_listener_loses_no_job(bench, other, by_proxy):
    """As long as it is believed to be alive, polling finds what is sent."""
    ran = threading.Event()
    bench.task("note", ran.set)

    async def body(worker):
        by_proxy.swallow()
        await asyncio.to_thread(other.put, "note")
        assert await asyncio.to_thread(ran.wait, PATIENCE / 2)
        assert bench.store.can_wake()  # nothing was noticed yet

    run(with_idle_worker(bench, body, poll=0.2), bench.store)


def test_whatever_keeps_the_listener_from_opening_is_told_to_who_waits(bench, monkeypatch):
    """Also what is none of the driver's errors, such as that of a project's engine that asks for a token."""

    async def main():
        await bench.store.setup()
        with monkeypatch.context() as patched:
            patched.setattr(psycopg.AsyncConnection, "connect", no_token)
            with pytest.raises(StoreUnavailableError, match="no token"):
                await bench.store.wait_for_jobs(PATIENCE)
        assert await bench.store.wait_for_jobs(PATIENCE)
        await hearing(bench.store)

    async def no_token(**keywords):
        raise RuntimeError("no token")

    async def whole():
        await bench.store.stats()  # the pool has its connection
        await main()

    run(whole(), bench.store)


def test_a_check_is_one_statement_in_fifteen_seconds():
    assert listener_module._CHECK == 15.0


@pytest.mark.parametrize("state", ["stall", "swallow"])
def test_closing_while_the_listener_connects_ends_at_once(bench, by_proxy, state):
    async def main():
        getattr(by_proxy, state)()
        before = by_proxy.accepted
        waiting = asyncio.create_task(bench.store.wait_for_jobs(PATIENCE))
        await eventually(lambda: by_proxy.accepted > before)
        await bench.store.close()
        assert await waiting  # nobody is left waiting
        by_proxy.resume()
        by_proxy.restore()
        await eventually(lambda: asyncio.all_tasks() == {asyncio.current_task()})

    began = time.monotonic()
    asyncio.run(main())
    assert time.monotonic() - began < PATIENCE / 3


def test_closing_while_listen_has_no_answer_ends_at_once(bench, postgres_cluster, monkeypatch):
    """The connection stands and the statement is on its way."""
    before = listening(postgres_cluster)
    asked = asyncio.Event()

    async def no_answer(listener, seconds):
        asked.set()
        await asyncio.sleep(NEVER)

    monkeypatch.setattr(Listener, "_within", no_answer)

    async def main():
        waiting = asyncio.create_task(bench.store.wait_for_jobs(PATIENCE))
        await asyncio.wait_for(asked.wait(), PATIENCE)
        listener = bench.store._listener
        assert len(listening(postgres_cluster) - before) == 1
        began = time.monotonic()
        await bench.store.close()
        await waiting
        await eventually(lambda: listening(postgres_cluster) <= before)
        assert time.monotonic() - began < PATIENCE / 3
        await eventually(lambda: listener._work is None)

    run(main())


def test_a_listener_whose_loop_has_ended_can_be_closed_from_another(bench, postgres_cluster):
    before = listening(postgres_cluster)

    async def main():
        await hearing(bench.store)
        await bench.store._own.close()  # its connections are closed on their own loop
        return listening(postgres_cluster) - before

    (pid,) = asyncio.run(main())
    listener = bench.store._listener
    asyncio.run(bench.store.close())
    deadline = time.monotonic() + PATIENCE
    while pid in listening(postgres_cluster):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert not listener.is_usable


def test_a_forked_child_leaves_the_parents_listener_alone(bench):
    """The child sends a job and closes the store; the parent hears of the job on the connection it had."""

    async def main():
        await hearing(bench.store)
        listener = bench.store._listener
        raw = listener._raw
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                finish(bench.store.inline().enqueue(bench.job("note")))
                assert not listener.is_usable
                finish(listener.close())
                code = 0
            finally:
                os._exit(code)
        _, status = await asyncio.to_thread(os.waitpid, pid, 0)
        assert status == 0
        assert await bench.store.wait_for_jobs(PATIENCE)
        assert bench.store._listener is listener and listener._raw is raw

    run(main(), bench.store)


# --- poolers ----------------------------------------------------------------------------------------------------------


def test_a_pooler_in_session_mode_just_works(make_pgbouncer, make_bench, postgres_url):
    bouncer = make_pgbouncer(mode="session")
    url = bouncer.url(postgres_url.rpartition("/")[2])
    bench = make_bench(url)
    ran = threading.Event()
    bench.task("note", ran.set)

    async def body(worker):
        for _ in range(3):
            process = await in_another_process(url, "app.send('note')")
            assert await process.wait() == 0
            assert await asyncio.to_thread(ran.wait, PATIENCE)
            ran.clear()
            await hush(worker)

    run(with_idle_worker(bench, body), bench.store)


@pytest.mark.parametrize("mode", ["transaction", "statement"])
@pytest.mark.parametrize("round_robin", ["0", "1"])
def test_a_pooler_in_transaction_mode_is_refused_with_the_remedy(
    make_pgbouncer, bench, postgres_url, mode, round_robin
):
    bouncer = make_pgbouncer(mode=mode, pool_size=4, settings={"server_round_robin": round_robin})
    url = bouncer.url(postgres_url.rpartition("/")[2])
    remedy = "session pooling, or a direct connection for workers"
    for _ in range(5):
        store = open_backend(url, clock=SystemClock())
        with pytest.raises(ConfigurationError, match=remedy):
            finish(store.inline().setup())
        with pytest.raises(ConfigurationError, match=remedy):
            run(store.setup(), store)


def test_a_busy_pooler_in_transaction_mode_is_refused_as_well(make_pgbouncer, bench, postgres_url):
    """Other clients take the sessions in between."""
    bouncer = make_pgbouncer(mode="transaction", pool_size=4)
    url = bouncer.url(postgres_url.rpartition("/")[2])
    done = threading.Event()

    def work():
        with psycopg.connect(url, autocommit=True, prepare_threshold=None) as raw:
            while not done.is_set():
                raw.execute("SELECT pg_sleep(0.001)")

    others = [threading.Thread(target=work) for _ in range(8)]
    for thread in others:
        thread.start()
    try:
        for _ in range(20):
            with pytest.raises(ConfigurationError, match="transaction mode"):
                finish(open_backend(url, clock=SystemClock()).inline().setup())
    finally:
        done.set()
        for thread in others:
            thread.join()


def test_notifications_that_do_not_arrive_are_told_once_and_the_worker_polls(bench, make_bench, caplog, monkeypatch):
    """What a pooler does that could not be told for one: here the notifications of the store go astray."""
    monkeypatch.setattr(listener_module, "_ARRIVAL", 0.2)
    monkeypatch.setattr(listener_module, "_DEAF", 0.5)
    tell = bench.store._tell
    ran = threading.Event()
    bench.task("note", ran.set)
    is_astray = [True]

    async def tell_or_not(topics):
        if not is_astray[0]:
            await tell(topics)

    bench.store._tell = tell_or_not

    async def main():
        worker = bench.worker(poll=0.2)
        running = asyncio.create_task(worker.run())
        await eventually(lambda: "notifications do not arrive" in caplog.text)
        assert not bench.store.can_wake()
        await eventually(lambda: worker._parts.idler._delay == 0.2)
        await asyncio.to_thread(make_bench(notify=False).put, "note")
        assert await asyncio.to_thread(ran.wait, PATIENCE)
        await asyncio.sleep(2.0)  # two or three more tries say nothing
        is_astray[0] = False
        await eventually(bench.store.can_wake)
        worker.stop()
        await running

    with caplog.at_level(logging.INFO, "tinyjobs"):
        run(main(), bench.store)
    assert caplog.text.count("notifications do not arrive") == 1
    assert caplog.text.count("notifications arrive, and wake idle workers") == 1


# --- what it costs ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_an_idle_worker_makes_at_most_one_statement_a_second(make_cluster):
    """Everything of it counted by the server's log: looks, the reaper, the listener's check, BEGIN and COMMIT.

    With schedules for more than the half minute that a scheduler sleeps at most. Both cases at the same time, each on a
    server of its own.
    """
    cases = [(make_cluster(settings={"log_statement": "all"}), *case) for case in ((0, 20), (3, 40))]
    with ThreadPoolExecutor(len(cases)) as pool:
        counts = list(pool.map(lambda case: statements_of_an_idle_worker(*case), cases))
    for (counted, of_scheduler), (_, schedules, seconds) in zip(counts, cases, strict=True):
        assert 5 <= counted <= seconds
        assert (of_scheduler > 0) is (schedules > 0)


def statements_of_an_idle_worker(cluster, schedules, seconds):
    """How many it makes in that time, and how often schedules are named in them."""
    bench = Bench(open_backend(cluster.url(), clock=SystemClock()), SystemClock())

    async def main():
        bench.task("note", lambda: None)
        table = Table(bench, {f"s{number}": {"cron": "0 0 1 1 *"} for number in range(schedules)})
        worker = bench.worker(poll=0.5, reap_interval=15.0, engine={"timetable": table} if schedules else None)
        running = asyncio.create_task(worker.run())
        await eventually(bench.store.can_wake)
        await eventually(lambda: worker._parts.idler._delay >= 2.0)
        before = statements(cluster), cluster.log().count("tinyjobs_schedules")
        await asyncio.sleep(seconds)
        counted = statements(cluster) - before[0], cluster.log().count("tinyjobs_schedules") - before[1]
        worker.stop()
        await running
        return counted

    return run(main(), bench.store, patience=2 * PATIENCE + seconds)


def statements(cluster):
    return sum(
        "tinyjobs" in line and ("statement: " in line or "execute " in line) for line in cluster.log().splitlines()
    )
