"""The app's own system checks: with a database at hand, and before a deployment.

What every alias is asked by itself is in `taskbackend.aliaschecks`. Nothing here queries, except the checks under the
`database` tag, which Django only runs when it was given databases to look at, and before a deployment the one that asks
stores which are in none of them.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from django.conf import settings as django_settings
from django.core import checks
from django.core.checks import CheckMessage, Tags
from django.db import connections
from django.tasks.exceptions import InvalidTask

from tinyjobs.core.errors import ConfigurationError, SchemaMissingError, TinyJobsError
from tinyjobs.core.inline import finish
from tinyjobs.core.storable import describe_exception
from tinyjobs.core.watching import Finding
from tinyjobs.operations.check import BUDGET
from tinyjobs.operations.timely import timely
from tinyjobs.taskbackend.aliaschecks import make_error, make_warning
from tinyjobs.taskbackend.backend import our_settings
from tinyjobs.taskbackend.checking import look_for_store
from tinyjobs.taskbackend.layout import lacking
from tinyjobs.taskbackend.resolver import import_tasks_modules
from tinyjobs.taskbackend.settings import BackendSettings
from tinyjobs.taskbackend.shared import Shared, shared_for
from tinyjobs.taskbackend.vendors import PREFIX, find_vendor


@checks.register(Tags.database)
def check_tables(databases: Sequence[str] | None = None, **kwargs: Any) -> list[CheckMessage]:
    """Whether the tables of each database that holds jobs are as the DDL makes them."""
    found: list[CheckMessage] = []
    for settings in our_settings():
        alias = settings.database
        if alias is None or alias not in (databases or ()):
            continue
        connection = connections[alias]
        vendor = find_vendor(connection.vendor)
        if vendor is None or f"{PREFIX}_meta" not in connection.introspection.table_names():
            continue  # said elsewhere, or not migrated yet
        missing = lacking(connection, vendor)
        if missing:
            found.append(
                make_warning(
                    "W004",
                    f"DATABASES[{alias!r}] lacks tables or indexes of tinyjobs: {', '.join(missing)}.",
                    "`manage.py migrate` puts them back.",
                )
            )
        found += _audited("W006", f"DATABASES[{alias!r}]", finish(shared_for(settings).engine_store.audit()))
    return found


def _audited(number: str, where: str, findings: Sequence[Finding]) -> list[CheckMessage]:
    # Warnings, since errors would keep `migrate` from running.
    return [
        make_warning(number, f"{where} does not keep all that is promised: {finding.message}", finding.remedy)
        for finding in findings
        if not finding.ok
    ]


@checks.register(Tags.compatibility)
def check_tasks_modules(**kwargs: Any) -> list[CheckMessage]:
    """Whether the tasks modules of the installed apps can be imported, with everything their decorators check."""
    if not our_settings():
        return []
    return [_of_failure(module, error) for module, error in import_tasks_modules()[1].items()]


def _of_failure(module: str, error: BaseException) -> CheckMessage:
    reason = describe_exception(error)
    if isinstance(error, ConfigurationError | InvalidTask):
        return make_error("E008", f"{module}: {reason.message}")
    return make_warning(
        "W005",
        f"{module} cannot be imported: {type(error).__name__}: {reason.message}",
        "Until it can, workers do not know the tasks in it, nor their schedules.",
    )


@checks.register(deploy=True)
def check_deployment(**kwargs: Any) -> list[CheckMessage]:
    """What is right while developing and wrong in production."""
    ours = our_settings()
    found: list[CheckMessage] = [message for settings in ours for message in _in_production(settings)]
    if ours and django_settings.DEBUG:
        found.append(make_warning("W101", "DEBUG is on: workers log their queries and start again on code changes."))
    return found


@checks.register(deploy=True)
def check_stores(**kwargs: Any) -> list[CheckMessage]:
    """How the stores are set up that URLs name, and whether there is anything to run in any."""
    found: list[CheckMessage] = []
    for settings in our_settings():
        shared = shared_for(settings)
        shared.catalogue.discover()
        if not shared.catalogue.names():
            found.append(
                make_warning("W107", f"TASKS[{settings.alias!r}] has no tasks.", "Declare them in tasks.py of an app.")
            )
        if settings.url is not None:
            found += _of_url(settings, shared)
    return found


def _of_url(settings: BackendSettings, shared: Shared) -> list[CheckMessage]:
    kind = ("audit", settings.alias, id(shared))

    def look() -> list[Finding]:
        look_for_store(shared)
        return finish(shared.engine_store.audit())

    try:
        audited = timely(kind, look, BUDGET)
    except SchemaMissingError:
        return []  # nobody has begun to use it, and this does not begin
    except TimeoutError:
        return [make_warning("W106", f"{settings.where} does not answer within {BUDGET:g} s.")]
    except ConfigurationError:
        return []  # said by the check of the alias
    except TinyJobsError as error:
        return [make_warning("W106", f"{settings.where} does not answer: {error}")]
    return _audited("W105", settings.where, audited)


def _in_production(settings: BackendSettings) -> Iterator[CheckMessage]:
    if settings.eager:
        yield make_warning(
            "W102",
            f"{settings.path('eager')} is on: jobs run inside the request that sends them.",
            "Turn it off and start a worker.",
        )
    if settings.url is not None and settings.url.startswith("memory:"):
        yield make_warning(
            "W103",
            f"{settings.path('url')} is {settings.url}: jobs end with the process, and no worker sees them.",
            "Keep jobs in a database.",
        )
    if settings.allow_pickle and not settings.refuse_pickle:
        yield make_warning(
            "W104",
            f"{settings.path('allow_pickle')} is on: who can write to the store can run code in every worker.",
        )
