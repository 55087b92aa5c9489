"""The counters that jobs leave behind, the store's gauges, and the text of both, read by Prometheus' own parser."""

import asyncio
import contextlib
import os
import re
import threading
import time
from dataclasses import replace

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.docs.pages import ROOT, blocks, tables
from tests.runtime.conftest import eventually
from tinyjobs.app.facade import TinyJobs
from tinyjobs.core.clock import FrozenClock
from tinyjobs.core.inline import finish
from tinyjobs.core.job import ClaimRequest, Job, QueueStats, Stats
from tinyjobs.operations.metrics import MOST_NAMES, OTHER, Metrics
from tinyjobs.runtime.hooks import HookRunner
from tinyjobs.runtime.settings import WorkerSettings
from tinyjobs.runtime.upkeep import Upkeep
from tinyjobs.version import __version__


def read(text: str) -> dict[tuple[str, ...], float]:
    """Each sample by its name and the values of its labels. Raises for text that Prometheus would not take."""
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            key = (sample.name, *sample.labels.values())
            assert key not in found, key
            found[key] = sample.value
    return found


@pytest.fixture
def app():
    with TinyJobs("memory://") as app:
        yield app


def job(task: str = "shop.mail", claim: int = 1, name: str = "1") -> Job:
    return Job(id=name, task=task, claims=claim)


# --- what is counted --------------------------------------------------------------------------------------------------


def test_a_worker_counts_successes_failures_and_retries(app):
    @app.task(name="good")
    def good():
        pass

    @app.task(name="good.async")
    async def good_async():
        pass

    @app.task(name="bad", max_attempts=2, retry_base=0.001)
    def bad():
        raise ValueError

    good.enqueue_many([()] * 3)
    good_async.enqueue()
    bad.enqueue()
    while app.stats().queued_by_task:
        app.run_worker(until_empty=True, poll=0.01)
    samples = read(app.metrics.render())
    assert samples["tinyjobs_info", __version__] == 1
    assert samples["tinyjobs_jobs_total", "good", "success"] == 3
    assert samples["tinyjobs_jobs_total", "good.async", "success"] == 1
    assert samples["tinyjobs_jobs_total", "bad", "retry"] == 1
    assert samples["tinyjobs_jobs_total", "bad", "failure"] == 1
    assert samples["tinyjobs_job_duration_seconds_count", "good"] == 3
    assert ("tinyjobs_job_duration_seconds_count", "bad") not in samples
    assert {samples["tinyjobs_jobs_running", task] for task in ("good", "good.async", "bad")} == {0}


@pytest.mark.parametrize("eager", [False, True])
def test_a_drain_and_an_eager_call_count_as_well(eager):
    with TinyJobs("memory://", eager=eager) as app:

        @app.task(name="good")
        def good():
            running.append(read(app.metrics.render())["tinyjobs_jobs_running", "good"])

        @app.task(name="bad")
        def bad():
            raise ValueError

        running = []
        good.enqueue()
        bad.enqueue()
        if not eager:
            app.drain()
        samples = read(app.metrics.render())
    assert running == [1]
    assert samples["tinyjobs_jobs_total", "good", "success"] == 1
    assert samples["tinyjobs_jobs_total", "bad", "failure"] == 1
    assert samples["tinyjobs_jobs_running", "good"] == samples["tinyjobs_jobs_running", "bad"] == 0


def test_what_expired_and_what_lost_its_worker():
    clock = FrozenClock()
    with TinyJobs("memory://", clock=clock) as app:

        @app.task(name="late", expires=10)
        def late():
            pass

        @app.task(name="lost", max_attempts=2)
        def lost():
            pass

        lost.enqueue()
        store = app.store.inline()
        finish(store.claim(ClaimRequest(worker_id="gone", limit=1, lease=5)))
        late.enqueue()
        clock.advance(60)

        async def look():
            engine = app.engine
            upkeep = Upkeep(engine, WorkerSettings(), HookRunner(), list)
            await upkeep.reap()
            await upkeep.end_unstarted()

        asyncio.run(look())
        samples = read(app.metrics.render())
    assert samples["tinyjobs_jobs_total", "late", "expired"] == 1
    assert samples["tinyjobs_jobs_total", "lost", "retry"] == 1


def test_a_job_claimed_after_its_expiry_counts_as_expired():
    clock = FrozenClock()
    with TinyJobs("memory://", clock=clock) as app:

        @app.task(name="late", expires=10)
        def late():
            pass

        late.enqueue()
        late.enqueue()
        clock.advance(60)
        app.drain(limit=1)
        assert read(app.metrics.render())["tinyjobs_jobs_total", "late", "expired"] == 2


def test_two_workers_of_an_app_share_one_collector(app):
    @app.task(name="wait")
    async def wait():
        seen.append(read(app.metrics.render())["tinyjobs_jobs_running", "wait"])
        if len(seen) == 2:
            both.set()
        await both.wait()

    seen = []

    async def main():
        nonlocal both
        both = asyncio.Event()
        workers = [app.worker(async_concurrency=1, concurrency=1, poll=0.01, handle_signals=False) for _ in range(2)]
        runs = [asyncio.ensure_future(worker.run()) for worker in workers]
        await wait.aenqueue_many([(), ()])
        await eventually(lambda: read(app.metrics.render()).get(("tinyjobs_jobs_total", "wait", "success")) == 2)
        for worker in workers:
            worker.stop()
        await asyncio.gather(*runs)

    both = None
    asyncio.run(main())
    assert max(seen) == 2
    assert read(app.metrics.render())["tinyjobs_jobs_running", "wait"] == 0


def test_an_attempt_that_is_cut_or_left_behind_no_longer_runs(app):
    gate, is_inside = threading.Event(), threading.Event()

    @app.task(name="stuck")
    def stuck():
        is_inside.set()
        gate.wait()

    @app.task(name="endless")
    async def endless():
        await asyncio.Event().wait()

    def running():
        samples = read(app.metrics.render())
        return [samples.get(("tinyjobs_jobs_running", name)) for name in ("stuck", "endless")]

    async def main():
        worker = app.worker(poll=0.01, handle_signals=False, shutdown_timeout=0.1)
        run = asyncio.ensure_future(worker.run())
        await stuck.aenqueue()
        await endless.aenqueue()
        # One that no thread has taken up would go back.
        await eventually(lambda: is_inside.is_set() and running() == [1, 1])
        worker.stop()
        await eventually(lambda: running() == [1, 0])  # the thread is waited for, whatever it takes
        gate.set()
        await run

    asyncio.run(main())
    assert running() == [0, 0]


def test_a_coroutine_that_will_not_end_is_left_behind_and_no_longer_counted(app):
    @app.task(name="stubborn")
    async def stubborn():
        is_inside.append(True)
        while not may_end:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(0.01)

    is_inside: list[bool] = []
    may_end: list[bool] = []

    async def main():
        worker = app.worker(poll=0.01, handle_signals=False, shutdown_timeout=0.1)
        run = asyncio.ensure_future(worker.run())
        await stubborn.aenqueue()
        await eventually(lambda: is_inside)
        assert read(app.metrics.render())["tinyjobs_jobs_running", "stubborn"] == 1
        worker.stop()
        await run
        may_end.append(True)

    asyncio.run(main())
    assert read(app.metrics.render()).get(("tinyjobs_jobs_running", "stubborn"), 0) == 0


def test_an_end_without_a_start_and_a_second_end_change_nothing():
    metrics = Metrics()
    metrics.ended(job(name="0"))
    metrics.began(job())
    metrics.began(job(claim=2))
    metrics.ended(job())
    metrics.ended(job())
    assert read(metrics.render())["tinyjobs_jobs_running", "shop.mail"] == 1
    metrics.ended(job(claim=2))
    assert read(metrics.render())["tinyjobs_jobs_running", "shop.mail"] == 0


def test_the_histogram_adds_up():
    metrics = Metrics()
    for seconds in (0.001, 0.005, 0.3, 10_000):
        metrics.succeeded(job(), seconds)
    samples = read(metrics.render())
    bucket = "tinyjobs_job_duration_seconds_bucket", "shop.mail"
    assert [samples[(*bucket, bound)] for bound in ("0.005", "0.25", "0.5", "3600", "+Inf")] == [2, 2, 3, 3, 4]
    assert samples["tinyjobs_job_duration_seconds_sum", "shop.mail"] == pytest.approx(10_000.306)


class GivesWay(dict):
    """Lets another thread run between the reading of a count and its writing, as it may happen at any time."""

    def get(self, *args):
        value = super().get(*args)
        time.sleep(0)
        return value


def test_threads_lose_no_count():
    metrics = Metrics()
    metrics._counts = GivesWay()

    def count(number):
        for _ in range(2_000):
            metrics.succeeded(job(f"task {number % 3}"), 0.1)

    threads = [threading.Thread(target=count, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    samples = read(metrics.render())
    assert [samples["tinyjobs_jobs_total", f"task {number}", "success"] for number in range(3)] == [4_000] * 3


def test_a_watcher_that_raises_changes_nothing(app, caplog):
    class Broken:
        def began(self, job):
            raise ValueError("a bug")

        ended = began

        def succeeded(self, job, seconds):
            raise ValueError("a bug")

    app._hooks.watchers.append(Broken())

    @app.task(name="good", store_result=True)
    def good():
        return 1

    sent = good.enqueue()
    app.run_worker(until_empty=True, poll=0.01)
    assert sent.refresh().result() == 1
    assert {record.name for record in caplog.records} == {"tinyjobs.hooks"}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_begins_anew():
    metrics = Metrics()
    metrics.succeeded(job(), 1.0)
    held, go = threading.Event(), threading.Event()

    def hold():
        with metrics._lock:
            held.set()
            go.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    child = os.fork()
    if child == 0:
        try:
            metrics.succeeded(job(), 1.0)
            count = read(metrics.render())["tinyjobs_jobs_total", "shop.mail", "success"]
            os._exit(0 if count == 1 else 1)
        finally:
            os._exit(2)
    go.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


# --- bounds and escapes -----------------------------------------------------------------------------------------------


def test_however_many_tasks_there_are_the_labels_are_bounded():
    metrics = Metrics()
    for number in range(MOST_NAMES + 50):
        metrics.began(job(f"made up {number}", name=str(number)))
        metrics.succeeded(job(f"made up {number}"), 0.1)
        metrics.failed(job(f"made up {number}"), ValueError(), True)
    samples = read(metrics.render())
    assert len({key[1] for key in samples if key[0] == "tinyjobs_jobs_total"}) == MOST_NAMES + 1
    assert samples["tinyjobs_jobs_total", OTHER, "success"] == samples["tinyjobs_jobs_total", OTHER, "retry"] == 50
    assert samples["tinyjobs_jobs_running", OTHER] == samples["tinyjobs_job_duration_seconds_count", OTHER] == 50
    assert len(metrics._counts) == 2 * (MOST_NAMES + 1)  # memory as well


def test_however_many_queues_there_are_the_labels_are_bounded():
    many = [
        QueueStats(name=f"q{number:05}", ready=1, delayed=2, oldest_due=1_000.0 - number)
        for number in range(MOST_NAMES + 20)
    ]
    stats = Stats(now=1_000.0, queues=many, queued_by_task={f"t{number:05}": 3 for number in range(MOST_NAMES + 20)})
    samples = read(Metrics().render(stats))
    assert len({key[1] for key in samples if key[0] == "tinyjobs_store_oldest_due_seconds"}) == MOST_NAMES + 1
    assert samples["tinyjobs_store_jobs", OTHER, "queued"] == 60
    assert samples["tinyjobs_store_due_jobs", OTHER] == 20
    assert samples["tinyjobs_store_queued_jobs", OTHER] == 60
    # Of durations the longest says something, their sum would not.
    assert samples["tinyjobs_store_oldest_due_seconds", OTHER] == MOST_NAMES + 19


@pytest.mark.parametrize("name", ['a"b', "a\\b", "a\nb", "a\\nb", 'x"} 1\ntinyjobs_forged{a="', "ß€😀", "a\rb\tc", ""])
def test_names_are_escaped(name):
    metrics = Metrics()
    metrics.succeeded(job(name), 0.1)
    samples = read(metrics.render(Stats(now=0.0, queues=[QueueStats(name=name, ready=1)], queued_by_task={name: 1})))
    assert samples["tinyjobs_jobs_total", name, "success"] == 1
    assert samples["tinyjobs_store_due_jobs", name] == 1
    assert not any(key[0] == "tinyjobs_forged" for key in samples)


def test_half_a_surrogate_pair_can_be_sent():
    metrics = Metrics()
    metrics.succeeded(job("a\ud800b"), 0.1)
    assert read(metrics.render().encode().decode())["tinyjobs_jobs_total", "a?b", "success"] == 1


# --- the store's gauges -----------------------------------------------------------------------------------------------


def test_the_stores_gauges():
    clock = FrozenClock()
    with TinyJobs("memory://", clock=clock) as app:

        @app.task(name="mail", queue="mail")
        def mail():
            pass

        @app.task(name="bad")
        def bad():
            raise ValueError

        mail.enqueue_many([()] * 2)
        mail.with_options(delay=60).enqueue()
        bad.enqueue()
        app.drain(queues=["default"])
        clock.advance(30)
        samples = read(app.metrics.render(app.stats()))
        assert asyncio.run(app.astats()).queues == app.stats().queues
    assert samples["tinyjobs_store_up",] == 1
    assert samples["tinyjobs_store_jobs", "mail", "queued"] == 3
    assert samples["tinyjobs_store_jobs", "mail", "running"] == 0
    assert samples["tinyjobs_store_due_jobs", "mail"] == 2
    assert samples["tinyjobs_store_ended_jobs", "failed"] == 1
    assert samples["tinyjobs_store_queued_jobs", "mail"] == 3
    assert samples["tinyjobs_store_oldest_due_seconds", "mail"] == 30
    assert samples["tinyjobs_store_expired_leases",] == 0


def test_a_queue_in_which_nothing_is_due_waits_for_no_time():
    stats = Stats(now=50.0, queues=[QueueStats(name="a", running=1), QueueStats(name="b", ready=1, oldest_due=60.0)])
    samples = read(Metrics().render(stats))
    # A due job may seem to come from the future, by another clock.
    assert [samples["tinyjobs_store_oldest_due_seconds", name] for name in "ab"] == [0, 0]


def test_a_store_that_did_not_answer_costs_its_gauges_alone():
    metrics = Metrics()
    metrics.succeeded(job(), 0.1)
    samples = read(metrics.render(None, asked=True))
    assert samples["tinyjobs_store_up",] == 0
    assert samples["tinyjobs_jobs_total", "shop.mail", "success"] == 1
    assert not any(key[0].startswith("tinyjobs_store_") and key[0] != "tinyjobs_store_up" for key in samples)
    assert "tinyjobs_store" not in metrics.render()


def test_every_family_says_what_it_is():
    stats = replace(Stats(now=0.0), queues=[QueueStats(name="a")], queued_by_task={"t": 1})
    for family in text_string_to_metric_families(Metrics().render(stats)):
        assert family.documentation and family.type in ("gauge", "counter", "histogram"), family.name


# --- what the documentation says of it -------------------------------------------------------------------------------

PAGE = "docs/how-to/metrics.md"


def families():
    stats = Stats(now=0.0, queues=[QueueStats(name="mail")], queued_by_task={"t": 1})
    metrics = Metrics()
    metrics.succeeded(job(), 0.1)
    found = {}
    for family in text_string_to_metric_families(metrics.render(stats)):
        name = f"{family.name}_total" if family.type == "counter" else family.name
        found[name] = {label for sample in family.samples for label in sample.labels} - {"le"}
    return found


def test_the_table_has_every_metric_with_its_labels():
    rows = tables(PAGE)["Metrics"]
    told = {row[0].strip("`"): set(re.findall(r"`(\w+)`", row[1])) for row in rows}
    assert told == families()
    assert f"There are {MOST_NAMES} names of tasks and {MOST_NAMES} of queues" in (ROOT / PAGE).read_text("utf-8")


def test_the_examples_ask_for_what_there_is():
    known = families()
    documents = [yaml.safe_load(block.text) for block in blocks(PAGE) if block.language == "yaml"]
    scaled = next(document for document in documents if document.get("kind") == "ScaledObject")
    (trigger,) = scaled["spec"]["triggers"]
    assert scaled["apiVersion"].startswith("keda.sh/") and trigger["type"] == "prometheus"
    assert set(trigger["metadata"]) >= {"serverAddress", "query", "threshold"}
    assert all(isinstance(value, str) for value in trigger["metadata"].values())  # as the API takes them
    assert "tinyjobs_store_oldest_due_seconds" in trigger["metadata"]["query"]
    rules = [rule for document in documents for group in document.get("groups", ()) for rule in group["rules"]]
    queries = [trigger["metadata"]["query"], *(rule["expr"] for rule in rules)]
    assert len(queries) > 3
    for query in queries:
        (name,) = re.findall(r"tinyjobs_\w+", query)
        assert name in known, query
        assert set(re.findall(r"(\w+)=\"", query)) | set(re.findall(r"by \((\w+)\)", query)) <= known[name], query
