"""A bench for the runtime's tests: an engine over a real store, tasks in a dict, and short ways to say things."""

import asyncio
import inspect
import threading
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any

import pytest

from tinyjobs.backends.base import Backend
from tinyjobs.backends.sqlite.backend import SQLiteBackend
from tinyjobs.core.clock import Clock, FrozenClock, SystemClock
from tinyjobs.core.codecs.registry import CodecRegistry
from tinyjobs.core.ids import IdSource
from tinyjobs.core.inline import finish
from tinyjobs.core.job import Execution, Job
from tinyjobs.core.options import TaskOptions
from tinyjobs.core.task import TaskSpec
from tinyjobs.runtime.engine import Engine
from tinyjobs.runtime.hooks import Hooks
from tinyjobs.runtime.settings import WorkerSettings
from tinyjobs.runtime.worker import Worker, WorkerReport

#: For what must happen: long enough for a slow machine, and reached only by a test that fails.
PATIENCE = 60.0


class Tasks(dict[str, TaskSpec]):
    """A catalogue that is a dict."""

    def find(self, name: str) -> TaskSpec | None:
        return self.get(name)

    def names(self) -> frozenset[str]:
        return frozenset(self)

    def thread_names(self) -> frozenset[str]:
        return frozenset(name for name, spec in self.items() if not spec.is_coroutine)


class Bench:
    """One store, its tasks, and an engine over them."""

    def __init__(self, store: Backend, clock: Clock, **engine: Any) -> None:
        self.store = store
        self.clock = clock
        self.tasks = Tasks()
        self.hooks = Hooks()
        self._ids = IdSource()
        self._options = engine
        self.codecs = CodecRegistry()
        self.random = Random(1)
        finish(store.inline().setup())

    def engine(self, store: Any = None, **options: Any) -> Engine:
        values = {"random": self.random, "codecs": self.codecs, "hooks": self.hooks, "clock": self.clock}
        return Engine(store=store or self.store, catalogue=self.tasks, **(values | self._options | options))

    def task(self, name: str, function: Callable[..., Any], **options: Any) -> TaskSpec:
        spec = TaskSpec.of(name, function, TaskOptions.parse(options, name))
        self.tasks[name] = spec
        return spec

    def job(self, task: str, *args: Any, **values: Any) -> Job:
        now = self.clock.now()
        known = self.tasks.get(task)
        values.setdefault("max_attempts", known.options.max_attempts if known else 1)
        values.setdefault("payload", self.codecs.get("json").encode_call(args, {}))
        return Job(**{"id": self._ids.make(now), "task": task, "run_at": now, "created_at": now, **values})

    def put(self, task: str, *args: Any, **values: Any) -> str:
        return finish(self.store.inline().enqueue(self.job(task, *args, **values))).id

    def put_many(self, task: str, count: int, **values: Any) -> list[str]:
        jobs = [self.job(task, number, **values) for number in range(count)]
        return [job.id for job in finish(self.store.inline().enqueue_many(jobs))]

    def get(self, job_id: str) -> Job:
        job = finish(self.store.inline().get(job_id))
        assert job is not None
        return job

    def status(self, *job_ids: str) -> list[str]:
        return [self.get(job_id).status.value for job_id in job_ids]

    def executions(self, job_id: str) -> list[Execution]:
        return finish(self.store.inline().executions(job_id))

    def history(self, job_id: str) -> list[str]:
        return [entry.status.value for entry in self.executions(job_id)]

    def counts(self) -> dict[str, int]:
        return {status: count for status, count in finish(self.store.inline().counts_by_status()).items() if count}

    def result(self, job_id: str) -> Any:
        job = self.get(job_id)
        return None if job.result is None else self.codecs.get(job.codec).decode(job.result)

    def worker(self, *, store: Any = None, engine: dict[str, Any] | None = None, **settings: Any) -> Worker:
        settings = {"handle_signals": False, "poll": 0.05, "shutdown_timeout": 5.0, **settings}
        return Worker(self.engine(store, **(engine or {})), WorkerSettings(**settings))

    def run(self, **settings: Any) -> WorkerReport:
        """Work until nothing is due or running."""
        return asyncio.run(asyncio.wait_for(self.worker(until_empty=True, **settings).run(), PATIENCE))


@pytest.fixture
def stores() -> Iterator[list[Backend]]:
    opened: list[Backend] = []
    yield opened
    for store in opened:
        asyncio.run(store.close())


@pytest.fixture
def make_bench(stores: list[Backend], tmp_path) -> Callable[..., Bench]:
    """Makes benches: `kind` is "memory" or "file"; benches on one file share it."""

    def make(kind: str = "memory", *, clock: Clock | None = None, name: str = "jobs.db", **options: Any) -> Bench:
        clock = clock or SystemClock()
        store = SQLiteBackend(":memory:" if kind == "memory" else str(tmp_path / name), clock=clock)
        stores.append(store)
        return Bench(store, clock, **options)

    return make


@pytest.fixture(params=["memory", "file"])
def bench(request: pytest.FixtureRequest, make_bench: Callable[..., Bench]) -> Bench:
    """A bench on a store in memory, and one on a file."""
    return make_bench(request.param)


@pytest.fixture
def frozen() -> FrozenClock:
    return FrozenClock()


class Wrapped:
    """A store whose verbs can be made to fail or wait, on whatever face they are used.

    `before[verb](*args)` runs first and `after[verb](answer)` on the answer; both may be coroutine functions where
    the verb is awaited on a loop, and what `after` returns is the answer unless it is None.
    """

    def __init__(self, store: Any, before: dict[str, Callable[..., Any]] | None = None) -> None:
        self._store = store
        self.before: dict[str, Callable[..., Any]] = {} if before is None else before
        self.after: dict[str, Callable[..., Any]] = {}
        self.calls: list[str] = []

    def inline(self) -> "Wrapped":
        twin = Wrapped(self._store.inline(), self.before)
        twin.calls, twin.after = self.calls, self.after
        return twin

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self._store, name)
        if not inspect.iscoroutinefunction(verb):
            return verb

        async def noted(*args: Any, **kwargs: Any) -> Any:
            self.calls.append(name)
            if name in self.before:
                await _awaited(self.before[name](*args, **kwargs))
            answer = await verb(*args, **kwargs)
            if name in self.after:
                changed = await _awaited(self.after[name](answer))
                return answer if changed is None else changed
            return answer

        return noted


async def _awaited(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


async def eventually(condition: Callable[[], Any], what: str = "") -> None:
    """Wait for what no sync point tells of."""
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.005)


def wait_all(events: Sequence[threading.Event]) -> None:
    for event in events:
        assert event.wait(PATIENCE)


@pytest.fixture(params=["sync", "async"])
def hook_without_end(request: pytest.FixtureRequest, bench: "Bench") -> Iterator[threading.Event]:
    """A success hook of the bench that does not return by itself. The event says that it has begun."""
    begun, go_on = threading.Event(), threading.Event()

    async def for_ever(*_: object) -> None:
        begun.set()
        await asyncio.Event().wait()

    def for_long(*_: object) -> None:
        begun.set()
        go_on.wait(PATIENCE)

    bench.hooks.on_success.append(for_ever if request.param == "async" else for_long)
    yield begun
    go_on.set()
