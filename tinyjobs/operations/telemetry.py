"""Traces by OpenTelemetry: a span for each enqueue and for each attempt, joined by what the job carries.

Nothing of it is imported here before the program itself has done so: whoever has not, has set up no exporter either,
and pays for nothing but a look. Nor does anybody pay for spans that no provider would keep: redis-py, for one, brings
the API along where it is installed. The context of the enqueue goes with the job as W3C Trace Context, in its metadata.
The first attempt is a child of the enqueue; a later one may come days after and begins a trace of its own, which links
to it. Trouble with tracing is logged once and changes nothing for a job.
"""

import json
import logging
import os
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import cache, partial
from types import TracebackType
from typing import Any, Final

from tinyjobs.core.job import Job
from tinyjobs.core.task import Around
from tinyjobs.version import __version__

logger = logging.getLogger("tinyjobs.tracing")

#: Where in a job's metadata the context stands.
KEY: Final = "_trace"
# A tracestate may be as long as others make it; a longer one is left out, as the specification allows.
_LONGEST_STATE = 512
# Whether the environment names a provider. Looked up once: it is asked for every job, and costs ten times the rest.
_IS_NAMED = "OTEL_PYTHON_TRACER_PROVIDER" in os.environ


def is_active() -> bool:
    """Whether the program uses OpenTelemetry: it has imported it, or the environment names a provider."""
    return "opentelemetry.trace" in sys.modules or _IS_NAMED


def sending(jobs: Sequence[Job]) -> AbstractContextManager[Sequence[Job]]:
    """A span around the keeping of these jobs, which are of one task; in the block they carry its context."""
    api = _heard() if jobs else None
    return _Untraced(jobs) if api is None else _Sending(api, jobs)


def around(inner: Around | None) -> Around | None:
    """What goes around a job's run, with a span for it around that."""
    api = _heard()
    return inner if api is None else partial(_Attempt, api, inner)


class _Untraced:
    __slots__ = ("_jobs",)

    def __init__(self, jobs: Sequence[Job]) -> None:
        self._jobs = jobs

    def __enter__(self) -> Sequence[Job]:
        return self._jobs

    def __exit__(self, *_: object) -> None:
        return None


class _Span:
    """A span that is current from its beginning to its end. Never raises."""

    def __init__(self, api: "_Api") -> None:
        self._api = api
        self._span: Any = None
        self._token: Any = None

    def begin(self, name: str, kind: Any, attributes: Mapping[str, Any], context: Any = None, links: Any = ()) -> None:
        """Start it and make it current. Without a `context` it is a child of what is current."""
        try:
            tracer = self._api.tracer()
            self._span = tracer.start_span(name, context=context, kind=kind, attributes=attributes, links=links)
            self._token = self._api.context.attach(self._api.trace.set_span_in_context(self._span))
        except Exception as error:
            _failed(error)

    def end(self, error: BaseException | None) -> None:
        """End it, as failed where there is an error."""
        span, token, self._span, self._token = self._span, self._token, None, None
        # Each by itself: a span whose error cannot be written, as one that has no text, has its end all the same.
        if token is not None:
            with _harmless():
                self._api.context.detach(token)
        if span is None:
            return
        if error is not None:
            with _harmless():
                span.set_status(self._api.failed(error))
                span.record_exception(error)
        with _harmless():
            span.end()

    def carried(self) -> dict[str, str]:
        """Its context as headers of W3C Trace Context; empty where there is none to carry."""
        if self._span is None:
            return {}
        found: dict[str, str] = {}
        try:
            self._api.propagator.inject(found, context=self._api.trace.set_span_in_context(self._span))
        except Exception as error:
            _failed(error)
        if len(found.get("tracestate", "")) > _LONGEST_STATE:
            del found["tracestate"]
        return found


class _Sending:
    """See `sending`."""

    def __init__(self, api: "_Api", jobs: Sequence[Job]) -> None:
        self._api = api
        self._jobs = jobs
        self._span = _Span(api)

    def __enter__(self) -> Sequence[Job]:
        first, count = self._jobs[0], len(self._jobs)
        attributes = _attributes("send", first)
        if count > 1:
            del attributes["messaging.message.id"]
            attributes["messaging.batch.message_count"] = count
        self._span.begin(f"send {first.task}", self._api.trace.SpanKind.PRODUCER, attributes)
        carried = self._span.carried()
        return [replace(job, metadata=_with(job.metadata, carried)) for job in self._jobs] if carried else self._jobs

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._span.end(error)


class _Attempt:
    """One run of a job: see `around`."""

    def __init__(self, api: "_Api", inner: Around | None, job: Job) -> None:
        self._api = api
        self._inner = None if inner is None else inner(job)
        self._job = job
        self._span = _Span(api)

    def __enter__(self) -> None:
        self._begin()
        if self._inner is None:
            return
        try:
            self._inner.__enter__()
        except BaseException as error:
            self._span.end(error)
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        try:
            return None if self._inner is None else self._inner.__exit__(kind, error, traceback)
        finally:
            self._span.end(error)

    def _begin(self) -> None:
        job = self._job
        try:
            parent = self._api.extracted(_carried_by(job))
        except Exception as error:
            _failed(error)
            parent = None
        # Not what is current: a worker inside a web server lives in the span that started it.
        context, links = self._api.context.Context(), []
        if parent is not None and job.attempts <= 1:
            context = parent
        elif parent is not None:
            links = [self._api.trace.Link(self._api.trace.get_current_span(parent).get_span_context())]
        attributes = _attributes("process", job)
        attributes["tinyjobs.attempt"] = job.attempts
        self._span.begin(f"process {job.task}", self._api.trace.SpanKind.CONSUMER, attributes, context, links)


class _Api:
    """What is used of OpenTelemetry's API, imported once the program has."""

    def __init__(self) -> None:
        from opentelemetry import context, trace
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self.context: Any = context
        self.trace: Any = trace
        self.propagator: Any = TraceContextTextMapPropagator()
        self._tracer: tuple[Any, Any] | None = None
        self._nobodys: Any = trace.ProxyTracerProvider

    def is_deaf(self) -> bool:
        """Whether no provider has been set up, so that a span would be nothing to anybody."""
        if _IS_NAMED:
            return False
        # For each job: to ask for the provider reads the environment. Where its place is not known, it is asked for.
        found = getattr(self.trace, "_TRACER_PROVIDER", self)
        return found is None or (found is self and type(self.trace.get_tracer_provider()) is self._nobodys)

    def tracer(self) -> Any:
        """That of the provider in force, which may be set after the first job was sent."""
        provider = self.trace.get_tracer_provider()
        known = self._tracer
        if known is None or known[0] is not provider:
            known = self._tracer = provider, self.trace.get_tracer("tinyjobs", __version__)
        return known[1]

    def extracted(self, carried: Mapping[str, str]) -> Any:
        """The context that a job carries; None where it carries none that can be read."""
        if not carried:
            return None
        context = self.propagator.extract(carried, context=self.context.Context())
        return context if self.trace.get_current_span(context).get_span_context().is_valid else None

    def failed(self, error: BaseException) -> Any:
        """The status of a span that failed with it."""
        return self.trace.Status(self.trace.StatusCode.ERROR, type(error).__name__)


def _heard() -> "_Api | None":
    """The API, where the program uses it and somebody listens."""
    if not is_active():
        return None
    api = _api()
    return None if api is None or api.is_deaf() else api


@cache
def _api() -> _Api | None:
    try:
        return _Api()
    except Exception as error:  # an installation that is broken, or of a release that has other names
        logger.warning("no traces of jobs, since OpenTelemetry's API cannot be used: %s", error)
        return None


@cache
def _tell_once(kind: str) -> None:
    logger.warning("a span of a job was lost (%s). Said once.", kind, exc_info=sys.exception())


@contextmanager
def _harmless() -> Generator[None]:
    try:
        yield
    except Exception as error:
        _failed(error)


def _failed(error: Exception) -> None:
    _tell_once(type(error).__name__)


def _attributes(operation: str, job: Job) -> dict[str, Any]:
    return {
        "messaging.system": "tinyjobs",
        "messaging.operation.type": operation,
        "messaging.operation.name": operation,
        "messaging.destination.name": job.queue,
        "messaging.message.id": job.id,
        "tinyjobs.task": job.task,
    }


def _with(metadata: str | None, carried: Mapping[str, str]) -> str:
    return json.dumps({**({} if metadata is None else json.loads(metadata)), KEY: carried})


def _carried_by(job: Job) -> dict[str, str]:
    """What a job carries, out of a row that anybody may have written."""
    if job.metadata is None or KEY not in job.metadata:
        return {}
    try:
        found = json.loads(job.metadata)[KEY]
    except (ValueError, KeyError, TypeError, RecursionError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {name: value for name, value in found.items() if isinstance(value, str)}
