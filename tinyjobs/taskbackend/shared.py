"""What all backend instances of one alias share: the store, the codecs, the catalogue of tasks.

Django makes a backend instance per thread and context, so everything that is costly or holds state lives here, once
per alias, made at first use and kept until the settings change. Safe to use from any thread.
"""

import threading
from collections.abc import Callable, Collection, Coroutine, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

from django.core.signals import setting_changed
from django.db import connections
from django.tasks.exceptions import InvalidTaskBackend
from django.utils.connection import ConnectionDoesNotExist

from tinyjobs.backends.base import Backend
from tinyjobs.backends.registry import open_backend
from tinyjobs.backends.sql.backend import SqlBackend
from tinyjobs.backends.sql.connection import Connection
from tinyjobs.backends.time import StoreTime
from tinyjobs.core.clock import Clock
from tinyjobs.core.codecs.registry import CodecRegistry
from tinyjobs.core.errors import ConfigurationError
from tinyjobs.core.ids import IdSource
from tinyjobs.core.inline import finish
from tinyjobs.core.signature import CallCheck
from tinyjobs.core.watching import Finding
from tinyjobs.operations.metrics import Metrics
from tinyjobs.taskbackend.clock import current_clock, set_clock
from tinyjobs.taskbackend.connection import DjangoRunner, Translate
from tinyjobs.taskbackend.notifying import Notifier
from tinyjobs.taskbackend.resolver import DjangoCatalogue
from tinyjobs.taskbackend.settings import BackendSettings, SettingsProblems, option_path, unknown_option
from tinyjobs.taskbackend.settings import parse as parse_options
from tinyjobs.taskbackend.values import codec
from tinyjobs.taskbackend.vendors import Vendor, find_vendor, supported

if TYPE_CHECKING:
    from tinyjobs.taskbackend.timetable import DjangoTimetable

_lock = threading.RLock()
_shared: dict[str, "Shared"] = {}
_parsed: dict[str, tuple[object, BackendSettings | SettingsProblems]] = {}


class JoinedStore(SqlBackend):
    """The store in a Django database as callers in a thread use it: on that thread's own connection."""

    #: Who is told of jobs that were added; None where the workers of such a database cannot be told.
    notifier: Notifier | None = None
    #: How that database is set up; by whoever makes the store.
    auditing: Callable[[Connection], Coroutine[Any, Any, list[Finding]]]

    async def audit(self) -> list[Finding]:
        """One read, as Django's connection has the database."""
        return await self._runner.run(self.auditing, write=False)

    def inline(self) -> Self:
        """It never suspends as it is."""
        return self

    async def _added(self, queues: Collection[str] = ()) -> None:
        if self.notifier is not None:
            self.notifier.added(queues)


@dataclass(eq=False)
class Shared:
    """One alias at work. `store` runs in the calling thread and never suspends."""

    settings: BackendSettings
    clock: Clock
    ids: IdSource = field(default_factory=IdSource)
    #: The paths of functions whose tasks a worker would find.
    paths: dict[Any, str] = field(default_factory=dict)
    #: The checks of calls, by function and whether it takes a context.
    call_checks: dict[tuple[Any, bool], CallCheck] = field(default_factory=dict)
    #: Made from settings that no longer hold: whoever kept it asks again.
    is_stale: bool = False
    #: What this process counts of the alias's jobs.
    metrics: Metrics = field(default_factory=Metrics)
    _home: Backend | None = None

    @cached_property
    def vendor(self) -> Vendor | None:
        """The kind of the Django database jobs are in; None for a store of its own."""
        return None if self.settings.database is None else vendor_of(self.settings)

    @property
    def home(self) -> Backend:
        """The store itself; for a Django database what runs on Django's connections. One, whoever asks first."""
        if self._home is None:
            with _lock:
                if self._home is None:
                    self._home = self._open()
        return self._home

    def _open(self) -> Backend:
        settings = self.settings
        if settings.database is None:
            return open_url(settings, self.clock)
        vendor = vendor_of(settings)
        check_store_options(settings, vendor)
        return self._joined(settings.database, vendor, None)

    @cached_property
    def store(self) -> Backend:
        """The store for calls made in this thread. One that a URL names is laid out at its first use."""
        if self.settings.database is not None:
            return self.home
        store = self.home.inline()
        finish(store.setup())
        return store

    @cached_property
    def engine_store(self) -> Backend:
        """The same for the engine's own loops, which tell kinds of trouble apart by the store's errors."""
        vendor = self.vendor
        if self.settings.database is None or vendor is None:
            return self.store
        return self._joined(self.settings.database, vendor, vendor.translate)

    @property
    def is_timed_by_store(self) -> bool:
        """Whether times are the store's own, which no process here knows before it reads them."""
        time = getattr(self.home, "time", None)
        return isinstance(time, StoreTime) and time.now() is None

    def _joined(self, alias: str, vendor: Vendor, translate: Translate | None) -> JoinedStore:
        runner = DjangoRunner(alias, translate)
        store = JoinedStore(vendor.dialect, runner, clock=self.clock, by_server=vendor.by_server)
        store.notifier = self._notifier
        store.auditing = lambda connection: vendor.audit(
            connection, vendor.statements, str(connections[alias].settings_dict["NAME"])
        )
        return store

    @cached_property
    def _notifier(self) -> Notifier | None:
        database, vendor = self.settings.database, self.vendor
        announce = None if vendor is None or vendor.announcer is None else vendor.announcer(self.settings.store)
        return None if database is None or announce is None else Notifier(database, announce)

    @cached_property
    def codecs(self) -> CodecRegistry:
        """How arguments and results are encoded."""
        settings = self.settings
        return CodecRegistry(allow_pickle=settings.allow_pickle, refuse_pickle=settings.refuse_pickle, json=codec)

    @cached_property
    def catalogue(self) -> DjangoCatalogue:
        """The project's tasks."""
        return DjangoCatalogue(self.settings)

    @cached_property
    def timetable(self) -> "DjangoTimetable":
        """The project's schedules."""
        from tinyjobs.taskbackend.timetable import DjangoTimetable  # it makes jobs, which takes all of this

        return DjangoTimetable(self)


def parsed_settings(alias: str, params: Mapping[str, Any]) -> BackendSettings | SettingsProblems:
    """The settings of an alias, or what is wrong with them. Parsed once, not once per thread."""
    kept = _parsed.get(alias)
    if kept is not None and kept[0] is params:
        return kept[1]
    found: BackendSettings | SettingsProblems
    try:
        found = parse_options(alias, params.get("OPTIONS", {}))
    except SettingsProblems as problems:
        found = problems
    _parsed[alias] = (params, found)
    return found


def shared_for(settings: BackendSettings) -> Shared:
    """The shared parts of an alias, the same ones for the same settings."""
    found = _shared.get(settings.alias)
    if found is not None and found.settings is settings:
        return found
    with _lock:
        found = _shared.get(settings.alias)
        if found is None or found.settings != settings:
            if found is not None:
                found.is_stale = True
            found = _shared[settings.alias] = Shared(settings, current_clock())
        return found


def vendor_of(settings: BackendSettings) -> Vendor:
    """The vendor of the database that an alias names; raises when there is no such database or no store for it."""
    path = option_path(settings.alias, "database")
    try:
        name = connections[str(settings.database)].vendor
    except ConnectionDoesNotExist as error:
        raise ConfigurationError(f"{path}: DATABASES has no {settings.database!r}.") from error
    vendor = find_vendor(name)
    if vendor is None:
        raise ConfigurationError(
            f"{path}: DATABASES[{settings.database!r}] is {name}, which cannot hold jobs in this release. What can: "
            f"{supported()}. Keep jobs in another database of DATABASES, or set {option_path(settings.alias, 'url')}."
        )
    return vendor


def check_store_options(settings: BackendSettings, vendor: Vendor) -> None:
    """Refuse options that neither tinyjobs nor the store of that database knows, and values they cannot have."""
    problems = []
    for name, value in settings.store.items():
        if name not in vendor.options:
            problems.append(unknown_option(settings.alias, name, vendor.options))
            continue
        try:
            vendor.check({name: value})
        except ConfigurationError as error:
            problems.append(_with_path(settings, error, name))
    if not problems:
        try:
            vendor.check_all(settings.store)
        except ConfigurationError as error:
            problems.append(_with_path(settings, error, str(error).partition(": ")[0]))
    if problems:
        raise SettingsProblems(problems)


def _with_path(settings: BackendSettings, error: ConfigurationError, name: str) -> str:
    return f"{settings.path(name)}: {str(error).removeprefix(f'{name}: ')}"


def open_url(settings: BackendSettings, clock: Clock) -> Backend:
    """The store that a URL names, not yet connected. Raises `SettingsProblems`, which tells what is wrong and where."""
    try:
        return open_backend(str(settings.url), clock=clock, **settings.store)
    except ConfigurationError as error:
        told = _complaints(settings, clock) or [f"{settings.path('url')}: {error}"]
        raise SettingsProblems(told) from error


def _complaints(settings: BackendSettings, clock: Clock) -> list[str]:
    """What is wrong with each option beside a URL that is right by itself."""

    def complaint(**option: Any) -> ConfigurationError | None:
        try:
            open_backend(str(settings.url), clock=clock, **option)
        except ConfigurationError as error:
            return error
        return None

    if complaint() is not None:
        return []
    told = {name: complaint(**{name: value}) for name, value in settings.store.items()}
    return [_with_path(settings, error, name) for name, error in told.items() if error is not None]


def usable(alias: str, params: Mapping[str, Any]) -> Shared:
    """The shared parts of an alias whose settings are right; else `InvalidTaskBackend` with all that is wrong."""
    settings = parsed_settings(alias, params)
    if isinstance(settings, SettingsProblems):
        raise InvalidTaskBackend(str(settings)) from settings
    return shared_for(settings)


def use_clock(clock: Clock | None) -> None:
    """Have every alias tell time by `clock` (None: by the machine's) from here on. For tests."""
    set_clock(clock)
    forget()


def forget(**_signal: Any) -> None:
    """Drop what was made from settings that no longer hold."""
    with _lock:
        for kept in _shared.values():
            kept.is_stale = True
        _shared.clear()
        _parsed.clear()


def _on_setting_changed(*, setting: str, **_signal: Any) -> None:
    if setting in ("TASKS", "DATABASES", "INSTALLED_APPS", "USE_TZ", "TIME_ZONE"):
        forget()


setting_changed.connect(_on_setting_changed, dispatch_uid="tinyjobs.shared")
