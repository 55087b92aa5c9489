"""The health check of one alias of `TASKS`: for the command, the health page, and whoever else asks.

It looks on a thread of its own, with connections of its own that it closes, so that a database which does not answer
holds nobody up; inside a transaction, as every TestCase has one, on the connection that has it.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping

from django.db import connections

from tinyjobs.backends.sql import layout
from tinyjobs.core.errors import SchemaMissingError, StoreError
from tinyjobs.core.inline import finish
from tinyjobs.core.sentences import say
from tinyjobs.core.watching import Finding
from tinyjobs.operations.check import (
    BUDGET,
    Seen,
    check_max_wait,
    in_order,
    judged,
    look,
    not_there,
    out_of_reach,
    too_slow,
)
from tinyjobs.operations.timely import begin
from tinyjobs.taskbackend.connection import DjangoConnection
from tinyjobs.taskbackend.layout import lacking
from tinyjobs.taskbackend.shared import Shared


def check_health(
    shared: Shared, *, max_wait: float | None = None, store_warnings: bool = False, with_layout: bool = False
) -> list[Finding]:
    """See `operations.check.check`; within five seconds. `with_layout` also holds the tables against the DDL.

    The project's tasks modules are imported if they were not. Raises `ConfigurationError` for settings that are wrong.
    """
    return begin_health(shared, max_wait=max_wait, store_warnings=store_warnings, with_layout=with_layout)()


def begin_health(
    shared: Shared, *, max_wait: float | None = None, store_warnings: bool = False, with_layout: bool = False
) -> Callable[[], list[Finding]]:
    """Begin what `check_health` does; calling the answer waits for it. So several stores are waited for together."""
    check_max_wait(max_wait, "max_wait")
    _ = shared.home  # what is wrong with the settings is raised here, which no store could tell of
    failures = shared.catalogue.discover()
    # One look for all who ask, whatever they allow: anybody may ask, and would else pile up threads.
    answer = _begin(shared, ("health", with_layout), lambda: _look(shared, with_layout=with_layout))
    return lambda: _findings(shared, answer, failures, max_wait, store_warnings=store_warnings)


def _findings(
    shared: Shared,
    answer: Callable[[], tuple[Seen, list[Finding]]],
    failures: Mapping[str, BaseException],
    max_wait: float | None,
    *,
    store_warnings: bool,
) -> list[Finding]:
    try:
        seen, of_database = answer()
    except TimeoutError:
        return [too_slow()]
    except SchemaMissingError as error:
        found = [not_there(str(error), *_remedy(shared))]
    except StoreError as error:
        found = [out_of_reach(str(error))]
    else:
        told = judged(seen, shared.catalogue, shared.timetable, max_wait, store_warnings=store_warnings)
        found = [*told, *of_database]
    return in_order([*found, *(_of_module(module, error) for module, error in failures.items())])


def of_project(shared: Shared) -> Iterator[Finding]:
    """What there is to say of the project whatever its store holds, as far as that is known already."""
    yield from _transaction_mode(shared)
    for module, error in shared.timetable.unimported.items():
        yield _of_module(module, error)


def within_budget[T](shared: Shared, kind: Hashable, ask: Callable[[], T]) -> T:
    """What `ask` answers, or raises; `TimeoutError` after five seconds. One look of a kind is under way at a time."""
    return _begin(shared, kind, ask)()


def _begin[T](shared: Shared, kind: Hashable, ask: Callable[[], T]) -> Callable[[], T]:
    """Begin to ask; calling the answer waits for what is found. Inside a transaction that call is what asks."""

    def ask_apart() -> T:
        try:
            return ask()
        finally:
            connections.close_all()  # this thread's

    if _is_inside_transaction(shared):
        return ask
    look = begin((kind, shared.settings.alias, id(shared)), ask_apart)
    return lambda: look.answer(BUDGET)


def check_layout(shared: Shared) -> None:
    """Raise `SchemaMissingError` while the tables are not there, `NewerStoreError` for ones of a later release.

    Those of a Django database come from `migrate`; those of another store are made if need be.
    """
    vendor, alias = shared.vendor, shared.settings.database
    if vendor is None or alias is None:
        finish(shared.store.setup())
        return
    connection = DjangoConnection(connections[alias], vendor.translate)
    finish(layout.check(connection, vendor.statements, shared.settings.where))
    if vendor.indexes is not None:
        finish(vendor.indexes.check(connection, vendor.statements, shared.settings.where))


def look_for_store(shared: Shared) -> None:
    """Raise `SchemaMissingError` where the store is not there; makes none, neither a file nor tables."""
    vendor, alias = shared.vendor, shared.settings.database
    if vendor is None or alias is None:
        finish(shared.home.inline().check_layout())
    else:
        vendor.look_for_file(connections[alias].settings_dict["NAME"], shared.settings.where)


def _remedy(shared: Shared) -> tuple[str, ...]:
    alias = shared.settings.database
    return () if alias is None else (f"Or correct DATABASES[{alias!r}] if it names another place.",)


def _look(shared: Shared, *, with_layout: bool) -> tuple[Seen, list[Finding]]:
    """What the store answered, and what there is to say of the Django database it is in. Raises `StoreError`."""
    look_for_store(shared)
    check_layout(shared)
    seen = finish(look(shared.engine_store))
    return seen, [*(_layout(shared) if with_layout else ()), *_transaction_mode(shared)]


def _layout(shared: Shared) -> Iterator[Finding]:
    vendor, alias = shared.vendor, shared.settings.database
    if vendor is None or alias is None:
        return
    missing = lacking(connections[alias], vendor)
    if missing:
        yield Finding(
            name="layout",
            ok=False,
            message=say(
                "Tables or indexes are missing or not as they should be: %(missing)s.", missing=", ".join(missing)
            ),
            remedy=say("`manage.py migrate` puts them back."),
        )
    else:
        yield Finding(name="layout", ok=True, message=say("Tables and indexes are as they should be."))


def _transaction_mode(shared: Shared) -> Iterator[Finding]:
    alias = shared.settings.database
    if alias is None or connections[alias].vendor != "sqlite":
        return
    mode = str(connections[alias].settings_dict.get("OPTIONS", {}).get("transaction_mode", ""))
    if mode.upper() in ("IMMEDIATE", "EXCLUSIVE"):
        return
    yield Finding(
        name="transaction_mode",
        ok=True,
        is_warning=True,
        message=say(
            'Transactions of this project that read before they write fail with "database is locked" whenever a worker '
            "wrote in between."
        ),
        remedy=say("Set DATABASES[%(alias)s]['OPTIONS']['transaction_mode'] = 'IMMEDIATE'.", alias=repr(alias)),
    )


def _of_module(module: str, error: BaseException) -> Finding:
    return Finding(
        name="imports",
        ok=True,
        is_warning=True,
        message=say(
            "%(module)s cannot be imported: %(error)s", module=module, error=f"{type(error).__name__}: {error}"
        ),
        remedy=say("Until it can, workers do not know the tasks in it, nor their schedules."),
    )


def _is_inside_transaction(shared: Shared) -> bool:
    alias = shared.settings.database
    return alias is not None and connections[alias].in_atomic_block
