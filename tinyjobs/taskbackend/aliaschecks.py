"""What the check framework is told about one alias of `TASKS`, from its settings alone: no query is made.

Messages name the place in the settings and the remedy. Knows no task backend: it is handed what one was made from.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from django.apps import apps
from django.core.checks import CheckMessage, Error, Warning
from django.db import connections, router
from django.utils.connection import ConnectionDoesNotExist

from tinyjobs.backends.base import Backend
from tinyjobs.backends.registry import POSTGRES, REDIS, scheme_of
from tinyjobs.backends.sqlite.backend import SQLiteBackend
from tinyjobs.backends.sqlite.options import file_of, is_in_memory
from tinyjobs.core.errors import TinyJobsError
from tinyjobs.taskbackend.layout import APP
from tinyjobs.taskbackend.settings import BackendSettings, SettingsProblems, queue_problems
from tinyjobs.taskbackend.shared import check_store_options, open_url, parsed_settings, shared_for, vendor_of
from tinyjobs.taskbackend.vendors import PREFIX

# Spellings of this machine.
_HERE = ("localhost", "127.0.0.1", "::1")


def check_alias(alias: str, params: Mapping[str, Any], ours: Iterable[BackendSettings]) -> list[CheckMessage]:
    """Everything that can be said about one alias from its settings, and those of all of `ours`."""
    found: list[CheckMessage] = [
        make_error("E001", problem) for problem in queue_problems(alias, params.get("QUEUES", []))
    ]
    if not apps.is_installed("tinyjobs"):
        found.append(
            make_error(
                "E002", f"TASKS[{alias!r}] uses tinyjobs, which is missing from INSTALLED_APPS.", "Add 'tinyjobs'."
            )
        )
    settings = parsed_settings(alias, params)
    if isinstance(settings, SettingsProblems):
        return found + [make_error("E003", problem) for problem in settings.problems]
    store = list(_url_store(settings) if settings.database is None else _database(settings))
    found += [*store, *_sharing(settings, ours)]
    if any(message.id == "tinyjobs.E003" for message in store):
        return found  # each schedule would repeat it
    shared = shared_for(settings)
    shared.catalogue.discover()  # for schedules of decorators; a module that fails is told of once for all aliases
    return found + [make_error("E007", problem) for problem in shared.timetable.problems()]


def _url_store(settings: BackendSettings) -> Iterator[CheckMessage]:
    try:
        open_url(settings, shared_for(settings).clock)
    except SettingsProblems as several:
        yield from (make_error("E003", problem) for problem in several.problems)
    except TinyJobsError as error:
        yield make_error("E003", str(error))


def _database(settings: BackendSettings) -> Iterator[CheckMessage]:
    try:
        vendor = vendor_of(settings)
        check_store_options(settings, vendor)
    except SettingsProblems as several:
        yield from (make_error("E003", problem) for problem in several.problems)
        return
    except TinyJobsError as error:
        yield make_error("E004", str(error))
        return
    alias = str(settings.database)
    if not router.allow_migrate(alias, APP, model_name="job"):
        yield make_error(
            "E005",
            f"{settings.path('database')} is {alias!r}, and a database router keeps the tables of tinyjobs out of it.",
            "Let allow_migrate() answer other than False for the app 'tinyjobs' there, or name another database.",
        )
    if vendor.name == "sqlite":
        yield from _sqlite(settings, alias)
    missing = vendor.missing_for_workers(connections[alias])
    if missing is not None:
        yield make_warning("W003", f"DATABASES[{alias!r}] cannot be served by a worker: {missing[0]}.", missing[1])
    others = [name for name in connections if name != alias and connections[name].settings_dict["ATOMIC_REQUESTS"]]
    for name in others:
        yield make_warning(
            "W002",
            f"DATABASES[{name!r}] has ATOMIC_REQUESTS and jobs are kept in DATABASES[{alias!r}]: a job sent from a "
            f"view is there at once, whether or not the view's transaction is rolled back.",
            f"Keep jobs where the data is, or wrap what must go together in atomic(using={alias!r}).",
        )


def _sqlite(settings: BackendSettings, alias: str) -> Iterator[CheckMessage]:
    options = connections[alias].settings_dict.get("OPTIONS", {})
    if str(options.get("transaction_mode", "")).upper() not in ("IMMEDIATE", "EXCLUSIVE"):
        yield make_warning(
            "W001",
            f'DATABASES[{alias!r}] is SQLite without "transaction_mode": "IMMEDIATE" in its OPTIONS: a transaction '
            f'that reads before it writes fails with "database is locked" whenever a worker wrote in between.',
            f"Set DATABASES[{alias!r}]['OPTIONS']['transaction_mode'] = 'IMMEDIATE'.",
        )


def _sharing(settings: BackendSettings, ours: Iterable[BackendSettings]) -> Iterator[CheckMessage]:
    """Two aliases on one store would run each other's jobs under the wrong options."""
    for other in ours:
        if other.alias < settings.alias and _place(other) == _place(settings):
            yield make_error(
                "E006",
                f"TASKS[{other.alias!r}] and TASKS[{settings.alias!r}] keep their jobs in the same store, "
                f"{settings.where}: workers of one would take the jobs of the other.",
                "Give them different databases, or use queues of one alias.",
            )


def _place(settings: BackendSettings) -> tuple[object, ...]:
    """What two spellings of one store have in common, as far as the settings tell."""
    if settings.database is None:
        return _place_of_url(settings)
    try:
        connection = connections[settings.database]
    except ConnectionDoesNotExist:
        return ("database", settings.database)
    place = connection.settings_dict
    name = str(place["NAME"])
    if connection.vendor == "postgresql":
        options = place["OPTIONS"]
        return _server(place["HOST"], place["PORT"], name or options.get("service"), PREFIX, options.get("options"))
    if connection.vendor == "sqlite" and not is_in_memory(name):
        return ("sqlite", os.path.realpath(file_of(name)), PREFIX)
    return ("database", settings.database)


def _place_of_url(settings: BackendSettings) -> tuple[object, ...]:
    url = str(settings.url)
    try:
        store: Backend | None = shared_for(settings).home
        if scheme_of(url) in POSTGRES:
            return _place_in_postgres(settings)
        if scheme_of(url) in REDIS:
            return _place_in_redis(settings)
    except TinyJobsError:  # said by the check of that alias
        store = None
    if not isinstance(store, SQLiteBackend):
        return ("url", url, settings.store.get("prefix", PREFIX))
    if store.in_memory:
        return ("memory", settings.alias)  # each alias has one of its own
    return ("sqlite", os.path.realpath(file_of(store.path)), store.statements.prefix)


# What the next two import needs the driver of that store, which a project without such a store may not have.


def _place_in_postgres(settings: BackendSettings) -> tuple[object, ...]:
    from tinyjobs.backends.postgres.options import parse_url

    keywords, options = parse_url(str(settings.url), settings.store)
    name = keywords.get("dbname") or keywords.get("service")
    schema = options.schema or keywords.get("options")
    return _server(keywords.get("host"), keywords.get("port"), name, options.prefix, schema)


def _place_in_redis(settings: BackendSettings) -> tuple[object, ...]:
    from tinyjobs.backends.redis.options import parse_url

    address, options = parse_url(str(settings.url), settings.store)
    told = address.keywords
    if address.kind == "unix":
        server: tuple[object, ...] = (os.path.realpath(told["path"]),)
    else:
        host = str(told.get("host", "localhost")).lower()
        server = ("localhost" if host in _HERE else host, told.get("port", 6379))
    return ("redis", *server, told.get("db", 0), options.prefix)


def _server(host: object, port: object, name: object, prefix: str, schema: object) -> tuple[object, ...]:
    return ("postgresql", host or "", str(port or 5432), name, prefix, schema)


def make_error(number: str, message: str, hint: str | None = None) -> CheckMessage:
    """An error under a number of ours, such as `E001`."""
    return Error(message, hint=hint, id=f"tinyjobs.{number}")


def make_warning(number: str, message: str, hint: str | None = None) -> CheckMessage:
    """A warning under a number of ours, such as `W001`."""
    return Warning(message, hint=hint, id=f"tinyjobs.{number}")
