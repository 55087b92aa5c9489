"""Traces: which spans there are, how they hang together, and that none of it is there for who does not use it."""

import asyncio
import json
import logging
import os
import subprocess
import sys
import threading

import pytest
from opentelemetry import context, trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from tests.docs.pages import ROOT
from tests.taskbackend.shop import tasks
from tinyjobs import TinyJobs
from tinyjobs.core.inline import finish
from tinyjobs.core.job import Job
from tinyjobs.operations import telemetry
from tinyjobs.taskbackend.backend import backend_of
from tinyjobs.testing import drain


class Spans:
    """What was exported, in the order in which it ended."""

    def __init__(self):
        self.exporter = InMemorySpanExporter()

    def __iter__(self):
        return iter(self.exporter.get_finished_spans())

    def of(self, kind):
        return [span for span in self if span.kind is kind]


@pytest.fixture
def spans(monkeypatch):
    """The spans of this test: a provider of its own, which OpenTelemetry itself lets a process set only once."""
    found = Spans()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(found.exporter))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    yield found
    assert not trace.get_current_span().get_span_context().is_valid, "a span was left current"


@pytest.fixture(params=["thread", "coroutine"])
def work(request, app):
    """A task that begins a span of its own, as instrumented code does; `fails` says how often it fails first."""

    def begin():
        with trace.get_tracer("test").start_as_current_span("inside"):
            fails.append(None)
            if len(fails) <= work.fails:
                raise ValueError("boom")

    if request.param == "thread":

        @app.task(name="work", queue="mail", max_attempts=3, retry_base=0.001)
        def work():
            begin()
    else:

        @app.task(name="work", queue="mail", max_attempts=3, retry_base=0.001)
        async def work():
            await asyncio.sleep(0)
            begin()

    fails: list[None] = []
    work.fails = 0
    return work


@pytest.fixture
def app():
    with TinyJobs("memory://") as app:
        yield app


def run(app):
    while app.stats().queued_by_task:
        app.run_worker(until_empty=True, poll=0.01)


def parent_of(span):
    return None if span.parent is None else span.parent.span_id


def test_an_enqueue_and_its_first_attempt_are_one_trace(app, work, spans):
    with trace.get_tracer("test").start_as_current_span("request") as request:
        job = work.enqueue()
        assert trace.get_current_span() is request
    run(app)
    (send,), (attempt,) = spans.of(SpanKind.PRODUCER), spans.of(SpanKind.CONSUMER)
    inside = next(span for span in spans if span.name == "inside")
    assert parent_of(send) == request.get_span_context().span_id
    assert parent_of(attempt) == send.context.span_id
    assert parent_of(inside) == attempt.context.span_id
    assert attempt.context.trace_id == request.get_span_context().trace_id
    assert (send.name, attempt.name) == ("send work", "process work")
    assert dict(send.attributes) == {
        "messaging.system": "tinyjobs",
        "messaging.operation.type": "send",
        "messaging.operation.name": "send",
        "messaging.destination.name": "mail",
        "messaging.message.id": job.id,
        "tinyjobs.task": "work",
    }
    assert attempt.attributes["tinyjobs.attempt"] == 1
    assert attempt.attributes["messaging.message.id"] == job.id
    assert attempt.status.status_code is StatusCode.UNSET


def test_a_retry_is_a_trace_of_its_own_that_links_to_the_enqueue(app, work, spans):
    work.fails = 1
    work.enqueue()
    run(app)
    (send,), (first, second) = spans.of(SpanKind.PRODUCER), spans.of(SpanKind.CONSUMER)
    assert parent_of(first) == send.context.span_id and not first.links
    assert first.status.status_code is StatusCode.ERROR
    assert [event.name for event in first.events] == ["exception"]
    assert second.parent is None and second.context.trace_id != send.context.trace_id
    assert [link.context.span_id for link in second.links] == [send.context.span_id]
    assert second.attributes["tinyjobs.attempt"] == 2
    assert second.status.status_code is StatusCode.UNSET


def test_many_at_once_are_one_span_with_the_attempts_below_it(app, work, spans):
    assert len(work.enqueue_many([()] * 3)) == 3
    run(app)
    (send,), attempts = spans.of(SpanKind.PRODUCER), spans.of(SpanKind.CONSUMER)
    assert send.attributes["messaging.batch.message_count"] == 3
    assert "messaging.message.id" not in send.attributes
    assert [parent_of(attempt) for attempt in attempts] == [send.context.span_id] * 3


def test_none_at_once_is_no_span(app, work, spans):
    assert work.enqueue_many([]) == []
    assert not list(spans)


@pytest.mark.parametrize("verb", ["aenqueue", "aenqueue_many", "asend"])
def test_awaited_calls_as_well(app, work, spans, verb):
    async def main():
        with trace.get_tracer("test").start_as_current_span("request"):
            if verb == "asend":
                await app.asend("work")
            else:
                await getattr(work, verb)(*([[()]] if verb == "aenqueue_many" else []))
            assert trace.get_current_span().name == "request"

    asyncio.run(main())
    run(app)
    (send,), (attempt,) = spans.of(SpanKind.PRODUCER), spans.of(SpanKind.CONSUMER)
    assert parent_of(attempt) == send.context.span_id


@pytest.mark.parametrize("eager", [True, False])
def test_eager_calls_and_drains(spans, eager):
    with TinyJobs("memory://", eager=eager) as app:

        @app.task(name="work")
        def work():
            pass

        work.enqueue()
        if not eager:
            app.drain()
    (send,), (attempt,) = spans.of(SpanKind.PRODUCER), spans.of(SpanKind.CONSUMER)
    assert parent_of(attempt) == send.context.span_id


def test_a_worker_inside_a_server_takes_nothing_from_the_span_around_it(app, work, spans):
    work.fails = 1
    job = work.enqueue()

    async def main():
        with trace.get_tracer("test").start_as_current_span("server"):
            async with app.serve(poll=0.01):
                await job.awaited(60)

    asyncio.run(main())
    (send,), (first, second) = spans.of(SpanKind.PRODUCER), spans.of(SpanKind.CONSUMER)
    assert parent_of(first) == send.context.span_id
    assert second.parent is None


def test_an_enqueue_that_fails_is_a_span_that_failed(app, work, spans, monkeypatch):
    async def fail(job):
        raise OSError("full")

    monkeypatch.setattr(app._access.current.inline, "enqueue", fail)
    with pytest.raises(OSError, match="full"):
        work.enqueue()
    (send,) = spans.of(SpanKind.PRODUCER)
    assert send.status.status_code is StatusCode.ERROR


def test_an_attempt_that_times_out_is_a_span_that_failed(app, spans):
    @app.task(name="slow", timeout=0.05)
    async def slow():
        await asyncio.Event().wait()

    slow.enqueue()
    run(app)
    (attempt,) = spans.of(SpanKind.CONSUMER)
    assert attempt.status.status_code is StatusCode.ERROR


def test_an_error_whose_text_cannot_be_made_leaves_no_span_without_an_end(app, spans):
    class Unspeakable(Exception):
        def __str__(self):
            raise RuntimeError("no text")

    @app.task(name="fails")
    def fails():
        raise Unspeakable

    telemetry._tell_once.cache_clear()
    fails.enqueue()
    run(app)
    (attempt,) = spans.of(SpanKind.CONSUMER)
    assert attempt.status.status_code is StatusCode.ERROR


@pytest.mark.parametrize(
    "metadata",
    [
        "",
        "no json",
        "[]",
        "5",
        '{"_trace": 5}',
        '{"_trace": {"traceparent": 7}}',
        '{"_trace": {"traceparent": "00-x"}}',
    ],
)
def test_a_job_that_carries_no_context_begins_a_trace(spans, metadata):
    with telemetry.around(None)(Job(id="1", task="work", attempts=1, metadata=metadata)):
        pass
    (attempt,) = spans.of(SpanKind.CONSUMER)
    assert attempt.parent is None and not attempt.links


def test_a_tracestate_that_is_too_long_is_left_out(app, work, spans):
    state = trace.TraceState([(f"k{number}", "v" * 200) for number in range(5)])
    parent = trace.SpanContext(1, 2, True, trace.TraceFlags(1), state)
    token = context.attach(trace.set_span_in_context(trace.NonRecordingSpan(parent)))
    job = work.enqueue()
    context.detach(token)
    carried = json.loads(job.metadata)["_trace"]
    assert set(carried) == {"traceparent"}
    run(app)
    assert len(spans.of(SpanKind.CONSUMER)) == 1


def test_trouble_with_tracing_changes_nothing(app, work, spans, monkeypatch, caplog):
    class Broken:
        def start_span(self, *args, **kwargs):
            raise RuntimeError("a bug")

    telemetry._tell_once.cache_clear()
    monkeypatch.setattr(telemetry._Api, "tracer", lambda self: Broken())
    jobs = [work.enqueue(), work.enqueue()]
    assert jobs[0].metadata is None
    run(app)
    assert [job.refresh().status for job in jobs] == ["success"] * 2
    assert [entry.name for entry in caplog.records if entry.levelno >= logging.WARNING] == ["tinyjobs.tracing"]


# --- Django -----------------------------------------------------------------------------------------------------------


@pytest.mark.django_db
def test_djangos_tasks(spans):
    result = tasks.add.enqueue(1, 2)
    drain()
    (send,), (attempt,) = spans.of(SpanKind.PRODUCER), spans.of(SpanKind.CONSUMER)
    assert parent_of(attempt) == send.context.span_id
    assert attempt.name == f"process {tasks.add.module_path}"
    assert attempt.attributes["messaging.message.id"] == result.id


@pytest.mark.django_db
def test_many_of_djangos_tasks_and_a_time_beside_the_context(spans):
    from datetime import UTC, datetime

    past = datetime(2020, 1, 1, tzinfo=UTC)
    sent = tasks.add.using(run_after=past).enqueue_many([(1, 2), (3, 4)])
    assert {result.task.run_after for result in (tasks.add.get_result(one.id) for one in sent)} == {past}
    drain()
    (send,), attempts = spans.of(SpanKind.PRODUCER), spans.of(SpanKind.CONSUMER)
    assert [parent_of(attempt) for attempt in attempts] == [send.context.span_id] * 2


@pytest.mark.django_db
def test_djangos_signals_are_sent_inside_the_spans(spans):
    from django.tasks.signals import task_finished, task_started

    heard = {}

    def receive(signal, **kwargs):
        heard[signal] = trace.get_current_span().get_span_context().span_id

    task_started.connect(receive)
    task_finished.connect(receive)
    try:
        tasks.add.enqueue(1, 2)
        drain()
    finally:
        task_started.disconnect(receive)
        task_finished.disconnect(receive)
    (attempt,) = spans.of(SpanKind.CONSUMER)
    assert heard[task_started] == attempt.context.span_id
    assert heard[task_finished] != attempt.context.span_id  # after the outcome is recorded


@pytest.mark.django_db(transaction=True)
def test_what_waits_for_a_commit_carries_the_context_of_its_enqueue(spans, settings):
    from django.db import transaction

    options = {"url": "memory://"}
    settings.TASKS = {"default": {"BACKEND": "tinyjobs.TinyJobsBackend", "OPTIONS": options}}
    with transaction.atomic(), trace.get_tracer("test").start_as_current_span("request"):
        result = tasks.add.enqueue(1, 2)
    (send,) = spans.of(SpanKind.PRODUCER)
    job = finish(backend_of("default").shared.store.get(result.id))
    assert f"{send.context.span_id:016x}" in json.loads(job.metadata)["_trace"]["traceparent"]


# --- where it is not used ---------------------------------------------------------------------------------------------


def test_a_program_without_it_never_imports_it(tmp_path):
    """Installed, and such that an import would be noticed."""
    (tmp_path / "opentelemetry").mkdir()
    (tmp_path / "opentelemetry" / "__init__.py").write_text("raise SystemExit('imported')")
    code = """
import sys
import tinyjobs
app = tinyjobs.TinyJobs("memory://")
@app.task
def work():
    pass
with app:
    job = work.enqueue()
    work.enqueue_many([()])
    app.run_worker(until_empty=True, poll=0.01)
    assert job.refresh().status == "success" and job.metadata is None
sys.exit("opentelemetry" in sys.modules)
"""
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    environment.pop("OTEL_PYTHON_TRACER_PROVIDER", None)
    done = subprocess.run([sys.executable, "-c", code], env=environment, timeout=60, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_variable_that_names_a_provider_is_use_enough(monkeypatch):
    monkeypatch.delitem(sys.modules, "opentelemetry.trace")
    assert not telemetry.is_active()
    code = "from tinyjobs.operations.telemetry import is_active; raise SystemExit(not is_active())"
    environment = {**os.environ, "OTEL_PYTHON_TRACER_PROVIDER": "sdk_tracer_provider"}
    assert subprocess.run([sys.executable, "-c", code], env=environment, timeout=60).returncode == 0


@pytest.mark.parametrize("is_hidden", [False, True], ids=["where it is kept", "where that place has another name"])
def test_without_a_provider_no_span_is_begun(app, monkeypatch, is_hidden):
    """As in a program that has the API by some package's grace, and set up nothing."""
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", None)
    if is_hidden:
        monkeypatch.delattr(trace, "_TRACER_PROVIDER")
        monkeypatch.setattr(trace, "get_tracer_provider", trace.ProxyTracerProvider)
    begun = []
    monkeypatch.setattr(telemetry._Span, "begin", lambda self, *_: begun.append(self))
    app.task(name="work")(threading.get_ident)
    job = app.send("work")
    run(app)
    assert (job.refresh().status, job.metadata, begun) == ("success", None, [])


def test_an_installation_that_is_broken_is_told_of_once(app, monkeypatch, caplog):
    telemetry._api.cache_clear()
    monkeypatch.setitem(sys.modules, "opentelemetry.trace.propagation.tracecontext", None)
    try:
        app.task(name="work")(threading.get_ident)
        jobs = [app.send("work"), app.send("work")]
        run(app)
        assert [job.refresh().status for job in jobs] == ["success"] * 2
    finally:
        telemetry._api.cache_clear()
    assert [entry.name for entry in caplog.records if entry.levelno >= logging.WARNING] == ["tinyjobs.tracing"]
