"""The facade: one object for a program's tasks and its store, usable from threads and from event loops.

Every verb comes twice: `get` blocks, `aget` is awaited. The first call connects; nothing is opened before. It knows a
store only by its URL and the protocol, and imports the store's driver when the app is made.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import timedelta
from random import Random
from types import TracebackType
from typing import Any, Protocol, Self, Unpack, cast, overload

from tinyjobs.app.access import StoreAccess, refuse_inside_loop
from tinyjobs.app.checking import Checking
from tinyjobs.app.eager import Eager
from tinyjobs.app.forking import renew_in_children
from tinyjobs.app.hooking import Hooking
from tinyjobs.app.producer import Producer, Recipe
from tinyjobs.app.purging import Purging
from tinyjobs.app.registry import TaskRegistry
from tinyjobs.app.results import JobHandle, Source
from tinyjobs.app.scheduling import Scheduling
from tinyjobs.app.serving import Serving
from tinyjobs.app.settings import AppSettings, refuse_not_built
from tinyjobs.app.steering import Steering
from tinyjobs.app.task import Overrides, Task, TaskDeclaration, parsed_overrides
from tinyjobs.app.timetable import AppTimetable
from tinyjobs.app.working import AppScheduler, AppWorker, Life
from tinyjobs.backends.base import Backend
from tinyjobs.backends.registry import open_backend, scheme_of
from tinyjobs.core.clock import Clock
from tinyjobs.core.codecs.registry import CodecRegistry
from tinyjobs.core.codecs.tagged import JSONCodec
from tinyjobs.core.errors import ConfigurationError, UnsupportedCapabilityError
from tinyjobs.core.firing import MISFIRE_GRACE
from tinyjobs.core.masking import Mask
from tinyjobs.core.options import TaskOptions, check_task_name
from tinyjobs.core.retention import Retention
from tinyjobs.core.schedules import RULE_OPTIONS
from tinyjobs.core.url import shown_url
from tinyjobs.operations.metrics import Metrics
from tinyjobs.operations.telemetry import around
from tinyjobs.runtime.driving import drive
from tinyjobs.runtime.engine import Engine
from tinyjobs.runtime.hooks import Hooks
from tinyjobs.runtime.settings import WorkerSettings
from tinyjobs.runtime.standalone import StandaloneScheduler
from tinyjobs.runtime.worker import Worker, WorkerReport


class TaskDecorator(Protocol):
    """What `@app.task(...)` with options gives."""

    def __call__[**P, R](self, function: Callable[P, R], /) -> Task[P, R]:
        """Register the function."""
        ...


class TinyJobs(Steering, Checking, Scheduling, Purging, Hooking, Serving):
    """An app: `TinyJobs("sqlite:///jobs.db")`. Further keywords are options of the store, such as `prefix=`.

    `clock` and `random` stand in for the machine's, for tests. With `eager` each enqueue runs its own job before it
    returns. `allow_pickle` lets tasks use the pickle codec, which
    runs code found in the store; `refuse_pickle` shuts it out whatever `allow_pickle` says. A result that is encoded
    to more than `max_result_bytes` fails its job. `retention` says for how long ended jobs are kept: seconds or
    timedeltas by status, 0 for ever; or `KEEP_EVERYTHING`. A job whose task no worker knows is looked at again after
    `unknown_task_delay` seconds, doubling up to `unknown_task_max_delay`. `schedules` are schedules by
    name, such as `{"close_day": {"task": "shop.close_day", "cron": "0 3 * * *"}}`; `timezone` is that of schedules
    which name none. `mask` has patterns of the keys whose values the dashboard hides, in place of the usual ones.
    """

    def __init__(
        self,
        url: str,
        *,
        clock: Clock | None = None,
        random: Random | None = None,
        eager: bool = False,
        allow_pickle: bool = False,
        refuse_pickle: bool = False,
        max_result_bytes: int | None = None,
        retention: Retention | Mapping[str, float | timedelta] | None = None,
        schedules: Mapping[str, Mapping[str, Any]] | None = None,
        timezone: str = "UTC",
        mask: Collection[str] | None = None,
        unknown_task_delay: float = 60.0,
        unknown_task_max_delay: float = 3600.0,
        **store_options: Any,
    ) -> None:
        refuse_not_built(store_options)
        self._settings = settings = AppSettings.parse(
            {
                "clock": clock,
                "random": random,
                "eager": eager,
                "allow_pickle": allow_pickle,
                "refuse_pickle": refuse_pickle,
                "max_result_bytes": max_result_bytes,
                "retention": retention,
                "schedules": schedules,
                "timezone": timezone,
                "mask": mask,
                "unknown_task_delay": unknown_task_delay,
                "unknown_task_max_delay": unknown_task_max_delay,
            }
        )
        self._scheme = scheme_of(url)
        self._where = shown_url(url)
        self._codecs = CodecRegistry(allow_pickle=settings.allow_pickle, refuse_pickle=settings.refuse_pickle)
        self._access = StoreAccess(lambda: open_backend(url, clock=settings.clock, **store_options))
        if retention is not None and settings.retention.rules:
            self._require("retention", "TinyJobs: retention: this store deletes no jobs. Leave it out.")
        self._source = Source(access=self._access, codecs=self._codecs, clock=settings.clock, random=settings.random)
        self._life = Life(self._access)
        eager_mode = Eager(self._life, self._engine_over, self._source) if settings.eager else None
        self._producer = Producer(self._source, self._where, eager_mode)
        self._registry = TaskRegistry()
        if settings.schedules:
            self._require("schedules", "TinyJobs: schedules: this store keeps none. Leave it out.")
        self._timetable = AppTimetable(self._registry, self._producer, settings.schedules, settings.timezone)
        #: Counts of this process, for `metrics.render(app.stats())`: one for all workers and drains of the app.
        self.metrics = Metrics()
        self._hooks = Hooks(watchers=[self.metrics])
        renew_in_children(self, TinyJobs._renew_after_fork)

    def _require(self, capability: str, reason: str) -> None:
        if not getattr(self._access.current.store.capabilities, capability):
            raise UnsupportedCapabilityError(reason)

    def __repr__(self) -> str:
        # Without the rest of the URL, which may hold a password.
        return f"<TinyJobs {self._scheme}, {len(self.tasks)} tasks>"

    # --- tasks --------------------------------------------------------------------------------------------------

    @overload
    def task[**P, R](self, function: Callable[P, R], /) -> Task[P, R]: ...

    @overload
    def task(self, /, *, name: str | None = None, **options: Unpack[TaskDeclaration]) -> TaskDecorator: ...

    def task(
        self, function: Callable[..., Any] | None = None, /, *, name: str | None = None, **options: Any
    ) -> Task[..., Any] | TaskDecorator:
        """Register a function: `@app.task`, or `@app.task(max_attempts=5)` with options.

        `name` is what stored jobs call the task, `module.function` unless given; give one to what is to live long, so
        that moving the function does not orphan its jobs. `cron`, `timezone`, `misfire` and `overlap` give it a
        schedule. The other options are those of `TaskOptions`.
        """
        rule = {option: options.pop(option) for option in RULE_OPTIONS if option in options}

        def register(function: Callable[..., Any]) -> Task[..., Any]:
            task = Task(function, name, options, self._producer)
            schedule = self._timetable.of_task(task, rule)
            if task.options.codec != "json" and not self._settings.refuse_pickle:
                self._codecs.require(task.options.codec, f"{task.source}: codec")
            if task.options.result_ttl is not None:
                self._require("result_ttl", f"{task.source}: result_ttl: this store drops no results.")
            if schedule is not None:
                self._require("schedules", f"{task.source}: cron: this store keeps no schedules.")
            self._registry.add(task)
            if schedule is not None:
                self._timetable.add(schedule)
            return task

        return cast(TaskDecorator, register) if function is None else register(function)

    @property
    def tasks(self) -> Mapping[str, Task[..., Any]]:
        """Every registered task by its name; a live view."""
        return self._registry.tasks

    @property
    def timetable(self) -> AppTimetable:
        """The schedules that the program declares."""
        return self._timetable

    @property
    def codec(self) -> JSONCodec:
        """Where the program registers its own types: `register_dataclass`, `register_enum`, `register_type`."""
        return self._codecs.json

    def send(
        self, name: str, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None, **options: Unpack[Overrides]
    ) -> JobHandle:
        """Keep a job for a task that this process need not know. The arguments are not checked against a signature.

        Where the task is registered here, its options hold as in `enqueue`.
        """
        return self._producer.send(self._sent(name, options), args, kwargs)

    async def asend(
        self, name: str, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None, **options: Unpack[Overrides]
    ) -> JobHandle:
        """The same from an event loop."""
        return await self._producer.asend(self._sent(name, options), args, kwargs)

    def _sent(self, name: str, options: Overrides) -> Recipe:
        source = f"app.send({name!r:.300})"
        known = self._registry.find(check_task_name(name, f"{source}: name"))
        return Recipe(
            task=name,
            options=TaskOptions() if known is None else known.options,
            overrides=parsed_overrides(cast("dict[str, Any]", options), source, self._settings.clock.now()),
            check=None,
            source=source,
            instead="await app.asend(…)",
            tx=options.get("tx"),
        )

    # --- running ------------------------------------------------------------------------------------------------

    @property
    def store(self) -> Backend:
        """The store, connected or not. A new one after the app was closed and opened again."""
        return self._access.current.store

    @property
    def mask(self) -> Mask:
        """The keys whose values are hidden from people who look at jobs."""
        return self._settings.mask

    @property
    def where(self) -> str:
        """The store's URL as people may see it, without a password."""
        return self._where

    @property
    def engine(self) -> Engine:
        """What a worker needs of this app."""
        return self._engine_over(self._access.current.for_engine)

    def worker(self, **settings: Any) -> Worker:
        """A worker of this app, for `await worker.run()`, which opens a closed app again.

        Settings are those of `WorkerSettings`.
        """
        parsed = WorkerSettings.parse(settings, "app.worker()")
        return AppWorker(parsed, self._life, self._engine_over, self._timetable)

    def run_worker(self, **settings: Any) -> WorkerReport:
        """Run a worker in this thread until it is told to stop, by a signal where this is the main thread."""
        refuse_inside_loop("await app.worker(…).run()")
        parsed = WorkerSettings.parse(settings, "app.run_worker()")
        worker = AppWorker(parsed, self._life, self._engine_over, self._timetable)
        return drive(worker)

    def scheduler(self, *, misfire_grace: float = MISFIRE_GRACE) -> StandaloneScheduler:
        """A scheduler without a worker, for `await scheduler.run()`, which opens a closed app again."""
        grace = WorkerSettings.parse({"misfire_grace": misfire_grace}, "app.scheduler()").misfire_grace
        return AppScheduler(grace, self._life, self._engine_over, self._timetable)

    def drain(self, queues: Sequence[str] = (), limit: int | None = None) -> int:
        """Run what is due in this thread, one job at a time, until nothing is due or `limit` jobs have run.

        Answers how many ran. Jobs that come due or are enqueued meanwhile run too; a retry waits for its time. Hooks
        run as in a worker. Raises `UnknownTaskError` for a job that no task of this app can run; it stays queued.
        """
        settings = WorkerSettings.parse({"queues": queues}, "app.drain()")
        _check_limit(limit)
        return self._life.drain(self._engine_over, settings.queues, limit, settings.shutdown_timeout)

    def _engine_over(self, store: Backend) -> Engine:
        settings = self._settings
        bounds = (settings.max_result_bytes, store.capabilities.max_payload_bytes)
        return Engine(
            store=store,
            catalogue=self._registry,
            codecs=self._codecs,
            clock=settings.clock,
            random=settings.random,
            hooks=self._hooks,
            tracing=around,
            timetable=self._timetable,
            max_result_bytes=min((size for size in bounds if size is not None), default=None),
            retention=settings.retention,
            unknown_task_delay=settings.unknown_task_delay,
            unknown_task_max_delay=settings.unknown_task_max_delay,
        )

    # --- life ---------------------------------------------------------------------------------------------------

    def setup(self) -> None:
        """Connect, and create the store's tables or check them. The first call of any other verb does it as well."""
        self._access.connect("await app.asetup()")

    async def asetup(self) -> None:
        """The same from an event loop."""
        await self._access.aconnect()

    def start(self) -> None:
        """Like `setup`, and opens an app again that was closed."""
        self._life.open("await app.ready()")

    async def ready(self) -> None:
        """Like `asetup`, and opens an app again that was closed."""
        await self._life.aopen()

    def close(self) -> None:
        """Stop the app's workers, wait for what they run, and let go of the store.

        Later calls raise `AppClosedError` rather than open what nobody would close. Called from inside a job it does
        not wait: the app closes once its workers have ended.
        """
        refuse_inside_loop("await app.aclose()")
        self._life.close()

    async def aclose(self) -> None:
        """The same from an event loop."""
        await self._life.aclose()

    def __enter__(self) -> Self:
        """Connect; blocks may be nested, and the outermost one closes the app."""
        self._life.enter("async with app")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the app, unless an outer block is still using it."""
        if (last := self._life.leave()) is not None:
            self._life.close(last)

    async def __aenter__(self) -> Self:
        """Connect; blocks may be nested, and the outermost one closes the app."""
        await self._life.aenter()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the app, unless an outer block is still using it."""
        if (last := self._life.leave()) is not None:
            await self._life.aclose(last)

    def _renew_after_fork(self) -> None:
        self._access.renew_after_fork()
        self._producer.renew_after_fork()
        self._registry.renew_after_fork()


def _check_limit(limit: object) -> None:
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 0):
        raise ConfigurationError(f"app.drain(): limit: {limit!r} is not a number of jobs.")
