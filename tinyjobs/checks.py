"""System checks: what Django asks every task backend, and what it asks of the app with a database at hand.

Messages name the place in the settings and the remedy. Nothing here queries, except the check under the `database`
tag, which Django only runs when it was given databases to look at.
"""

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from django.apps import apps
from django.conf import settings as django_settings
from django.core import checks
from django.core.checks import CheckMessage, Error, Tags, Warning
from django.db import connections, router
from django.tasks import task_backends
from django.utils.connection import ConnectionDoesNotExist

from tinyjobs.backends.sqlite.backend import SQLiteBackend
from tinyjobs.backends.sqlite.options import file_of, is_in_memory
from tinyjobs.core.errors import TinyJobsError
from tinyjobs.taskbackend.layout import APP, lacking
from tinyjobs.taskbackend.settings import BackendSettings, SettingsProblems, queue_problems
from tinyjobs.taskbackend.shared import check_store_options, open_url, parsed_settings, shared_for, vendor_of
from tinyjobs.taskbackend.vendors import PREFIX, find_vendor

if TYPE_CHECKING:
    from tinyjobs.taskbackend.backend import TinyJobsBackend


def check_alias(backend: "TinyJobsBackend") -> list[CheckMessage]:
    """Everything that can be said about one alias from its settings."""
    alias, params = backend.alias, backend.params
    found: list[CheckMessage] = [_error("E001", problem) for problem in queue_problems(alias, params.get("QUEUES", []))]
    if not apps.is_installed("tinyjobs"):
        found.append(
            _error("E002", f"TASKS[{alias!r}] uses tinyjobs, which is missing from INSTALLED_APPS.", "Add 'tinyjobs'.")
        )
    settings = parsed_settings(alias, params)
    if isinstance(settings, SettingsProblems):
        return found + [_error("E003", problem) for problem in settings.problems]
    store = list(_url_store(settings) if settings.database is None else _database(settings))
    return [*found, *store, *_sharing(settings)]


@checks.register(Tags.database)
def check_tables(databases: Sequence[str] | None = None, **kwargs: Any) -> list[CheckMessage]:
    """Whether the tables of each database that holds jobs are as the DDL makes them."""
    found: list[CheckMessage] = []
    for settings in _our_settings():
        alias = settings.database
        if alias is None or alias not in (databases or ()):
            continue
        connection = connections[alias]
        vendor = find_vendor(connection.vendor)
        if vendor is None or f"{PREFIX}_meta" not in connection.introspection.table_names():
            continue  # said elsewhere, or not migrated yet
        missing = lacking(connection, vendor.statements)
        if missing:
            found.append(
                _warning(
                    "W004",
                    f"DATABASES[{alias!r}] lacks tables or indexes of tinyjobs: {', '.join(missing)}.",
                    "`manage.py migrate` puts them back.",
                )
            )
    return found


@checks.register(deploy=True)
def check_deployment(**kwargs: Any) -> list[CheckMessage]:
    """What is right while developing and wrong in production."""
    ours = list(_our_settings())
    found: list[CheckMessage] = [message for settings in ours for message in _in_production(settings)]
    if ours and django_settings.DEBUG:
        found.append(_warning("W101", "DEBUG is on: workers log their queries and start again on code changes."))
    return found


def _in_production(settings: BackendSettings) -> Iterator[CheckMessage]:
    if settings.eager:
        yield _warning(
            "W102",
            f"{settings.path('eager')} is on: jobs run inside the request that sends them.",
            "Turn it off and start a worker.",
        )
    if settings.url is not None and settings.url.startswith("memory:"):
        yield _warning(
            "W103",
            f"{settings.path('url')} is {settings.url}: jobs end with the process, and no worker sees them.",
            "Keep jobs in a database.",
        )
    if settings.allow_pickle and not settings.refuse_pickle:
        yield _warning(
            "W104",
            f"{settings.path('allow_pickle')} is on: who can write to the store can run code in every worker.",
        )


def _url_store(settings: BackendSettings) -> Iterator[CheckMessage]:
    try:
        open_url(settings, shared_for(settings).clock)
    except TinyJobsError as error:
        yield _error("E003", str(error))


def _database(settings: BackendSettings) -> Iterator[CheckMessage]:
    try:
        vendor = vendor_of(settings)
        check_store_options(settings, vendor)
    except SettingsProblems as several:
        yield from (_error("E003", problem) for problem in several.problems)
        return
    except TinyJobsError as error:
        yield _error("E004", str(error))
        return
    alias = str(settings.database)
    if not router.allow_migrate(alias, APP, model_name="job"):
        yield _error(
            "E005",
            f"{settings.path('database')} is {alias!r}, and a database router keeps the tables of tinyjobs out of it.",
            "Let allow_migrate() answer other than False for the app 'tinyjobs' there, or name another database.",
        )
    if vendor.name == "sqlite":
        yield from _sqlite(settings, alias)
    others = [name for name in connections if name != alias and connections[name].settings_dict["ATOMIC_REQUESTS"]]
    for name in others:
        yield _warning(
            "W002",
            f"DATABASES[{name!r}] has ATOMIC_REQUESTS and jobs are kept in DATABASES[{alias!r}]: a job sent from a "
            f"view is there at once, whether or not the view's transaction is rolled back.",
            f"Keep jobs where the data is, or wrap what must go together in atomic(using={alias!r}).",
        )


def _sqlite(settings: BackendSettings, alias: str) -> Iterator[CheckMessage]:
    options = connections[alias].settings_dict.get("OPTIONS", {})
    if str(options.get("transaction_mode", "")).upper() not in ("IMMEDIATE", "EXCLUSIVE"):
        yield _warning(
            "W001",
            f'DATABASES[{alias!r}] is SQLite without "transaction_mode": "IMMEDIATE" in its OPTIONS: a transaction '
            f'that reads before it writes fails with "database is locked" whenever a worker wrote in between.',
            f"Set DATABASES[{alias!r}]['OPTIONS']['transaction_mode'] = 'IMMEDIATE'.",
        )


def _sharing(settings: BackendSettings) -> Iterator[CheckMessage]:
    """Two aliases on one store would run each other's jobs under the wrong options."""
    for other in _our_settings():
        if other.alias < settings.alias and _place(other) == _place(settings):
            yield _error(
                "E006",
                f"TASKS[{other.alias!r}] and TASKS[{settings.alias!r}] keep their jobs in the same store, "
                f"{settings.where}: workers of one would take the jobs of the other.",
                "Give them different databases, or use queues of one alias.",
            )


def _place(settings: BackendSettings) -> tuple[object, ...]:
    if settings.database is None:
        return _file(settings) or ("url", settings.url, settings.store.get("prefix", PREFIX))
    try:
        connection = connections[settings.database]
    except ConnectionDoesNotExist:
        return ("database", settings.database)
    place = connection.settings_dict
    if connection.vendor == "sqlite":
        name = str(place["NAME"])
        if is_in_memory(name):
            return ("database", settings.database)
        return ("sqlite", os.path.realpath(file_of(name)), PREFIX)
    return ("database", place["ENGINE"], str(place["NAME"]), place.get("HOST"), str(place.get("PORT")))


def _file(settings: BackendSettings) -> tuple[object, ...] | None:
    """The file and the prefix of a store of SQLite, however its URL spells them."""
    try:
        store = shared_for(settings).home
    except TinyJobsError:  # said by the check of that alias
        return None
    if not isinstance(store, SQLiteBackend):
        return None
    if store.in_memory:
        return ("memory", settings.alias)  # each alias has one of its own
    return ("sqlite", os.path.realpath(file_of(store.path)), store.statements.prefix)


def _our_settings() -> Iterator[BackendSettings]:
    from tinyjobs.taskbackend.backend import TinyJobsBackend

    for alias in task_backends:
        try:
            backend = task_backends[alias]
        except Exception:  # said by the check of that alias
            continue
        if isinstance(backend, TinyJobsBackend):
            settings = parsed_settings(alias, backend.params)
            if isinstance(settings, BackendSettings):
                yield settings


def _error(number: str, message: str, hint: str | None = None) -> CheckMessage:
    return Error(message, hint=hint, id=f"tinyjobs.{number}")


def _warning(number: str, message: str, hint: str | None = None) -> CheckMessage:
    return Warning(message, hint=hint, id=f"tinyjobs.{number}")
