"""The tables in a Django database: made by the migration, completed after every `migrate`.

Both run the store's own DDL, so there is one text that says what a table looks like. A project that tests without
migrations has tables made from the models; those are replaced while they are empty and no other table points to them,
and what the models cannot say (the meta table, storage details) is added. Never changes how the database keeps its
journal.
"""

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

from django.core.management import CommandError
from django.db import DatabaseError, connections, router, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.operations.base import Operation
from django.db.migrations.recorder import MigrationRecorder
from django.db.migrations.state import ProjectState

from tinyjobs.backends.marks import new_marks
from tinyjobs.backends.sql import layout
from tinyjobs.backends.sql.statements import Statement, Statements
from tinyjobs.core.errors import SchemaMissingError, TinyJobsError
from tinyjobs.core.inline import finish
from tinyjobs.taskbackend.connection import DjangoConnection
from tinyjobs.taskbackend.vendors import PREFIX, Vendor, find_vendor, supported

APP = "tinyjobs"
_FIRST_MIGRATION = (APP, "0001_initial")
_MADE = re.compile(r"CREATE (?:UNIQUE )?(TABLE|INDEX) (\w+)(?: ON (\w+))?")


class InstallLayout(Operation):
    """Runs file `number` of the store's DDL. On a database that no store supports it does nothing."""

    reversible = True
    reduces_to_sql = True

    def __init__(self, number: str) -> None:
        self.number = number

    def state_forwards(self, app_label: str, state: ProjectState) -> None:
        """The models are told by the operations beside this one."""

    def database_forwards(
        self,
        app_label: str,
        schema_editor: BaseDatabaseSchemaEditor,
        from_state: ProjectState,
        to_state: ProjectState,
    ) -> None:
        """Create the tables, unless they are there already because another program shares the database."""
        vendor = _vendor_here(schema_editor.connection)
        if vendor is None:
            return
        if not schema_editor.collect_sql and _is_laid_out(schema_editor.connection, vendor):
            return
        for statement in _statements_of(vendor.statements, self.number):
            schema_editor.execute(statement.format)
        for row in new_marks():
            schema_editor.execute(vendor.statements["meta_add"].format, row)

    def database_backwards(
        self,
        app_label: str,
        schema_editor: BaseDatabaseSchemaEditor,
        from_state: ProjectState,
        to_state: ProjectState,
    ) -> None:
        """Drop the tables, and with them every job."""
        vendor = _vendor_here(schema_editor.connection)
        if vendor is None:
            return
        for kind, name, _ in map(_made_by, reversed(_statements_of(vendor.statements, self.number))):
            if kind == "TABLE":
                schema_editor.execute(f"DROP TABLE IF EXISTS {name}")

    def describe(self) -> str:
        """For the output of `migrate --plan`."""
        return f"Run the store's own DDL, file {self.number}"


def complete_layout(
    *, using: str, verbosity: int = 1, stdout: Any = None, plan: Sequence[Any] = (), **_signal: Any
) -> None:
    """After `migrate`: install what the DDL has and the database lacks. Receives `post_migrate`."""
    connection = connections[using]
    if not router.allow_migrate(using, APP, model_name="job"):
        return
    vendor = find_vendor(connection.vendor)
    if vendor is None:
        is_first = any(migration.app_label == APP and not backwards for migration, backwards in plan)
        if is_first and verbosity >= 1 and stdout is not None:
            stdout.write(
                f"tinyjobs: no tables were made in DATABASES[{using!r}]: {connection.vendor} cannot hold jobs in this "
                f"release (what can: {supported()}). Keep jobs elsewhere with TASKS[...]['OPTIONS']['url']."
            )
        return
    if not _is_wanted(connection):
        return
    _mend(connection, vendor)
    with transaction.atomic(using=using):
        _complete(connection, vendor.statements)


def lacking(connection: BaseDatabaseWrapper, vendor: Vendor) -> list[str]:
    """The tables and indexes that the DDL makes and the database does not have, or has and cannot use."""
    absent = [name for _, name, _ in _absent(connection, vendor.statements)]
    if vendor.indexes is None:
        return absent
    faults = finish(vendor.indexes.find(DjangoConnection(connection, vendor.translate), vendor.statements))
    return [*absent, *(text for text in map(str, faults) if text not in absent)]


def _mend(connection: BaseDatabaseWrapper, vendor: Vendor) -> None:
    """Build again what the tables lack or what is no good, while jobs go on: on a connection of its own.

    Inside a transaction nothing can be built in that way; what is missing is then made there.
    """
    if vendor.indexes is None or connection.in_atomic_block or f"{PREFIX}_meta" not in _tables(connection):
        return
    if not finish(vendor.indexes.find(DjangoConnection(connection, vendor.translate), vendor.statements)):
        return
    apart = connections.create_connection(connection.alias)
    try:
        where = f"DATABASES[{connection.alias!r}]"
        finish(vendor.indexes.mend(DjangoConnection(apart, vendor.translate), vendor.statements, where))
    except TinyJobsError as error:
        raise CommandError(str(error)) from error
    finally:
        apart.close()


def _complete(connection: BaseDatabaseWrapper, statements: Statements) -> None:
    tables = _tables(connection)
    with connection.cursor() as cursor:
        if f"{PREFIX}_meta" not in tables:
            # Made from the models, if at all. An empty table loses nothing by being made again as it should be.
            for kind, name, _ in map(_made_by, statements.schema):
                if kind == "TABLE" and name in tables and _is_empty(cursor, name):
                    _drop(connection, cursor, name)
        absent = {name for _, name, _ in _absent(connection, statements)}
        for statement in statements.schema:
            if _made_by(statement)[1] in absent:
                cursor.execute(statement.format, ())
        if f"{PREFIX}_tallies" in absent:
            cursor.execute(statements["recount"].format, ())
        cursor.execute(statements["meta"].format, ())
        known = {key for key, _ in cursor.fetchall()}
        for row in new_marks():
            if row[0] not in known:
                cursor.execute(statements["meta_add"].format, row)


def _vendor_here(connection: BaseDatabaseWrapper) -> Vendor | None:
    if not router.allow_migrate(connection.alias, APP, model_name="job"):
        return None
    return find_vendor(connection.vendor)


def _is_laid_out(connection: BaseDatabaseWrapper, vendor: Vendor) -> bool:
    """Whether the tables are there and ours. Raises `ConfigurationError` for somebody else's under our names."""
    try:
        where = f"DATABASES[{connection.alias!r}]"
        finish(layout.check(DjangoConnection(connection, vendor.translate), vendor.statements, where))
    except SchemaMissingError:
        return False
    return True


def _is_wanted(connection: BaseDatabaseWrapper) -> bool:
    """Whether our migration stands applied, or the project uses none; after `migrate tinyjobs zero` neither is so."""
    module, _ = MigrationLoader.migrations_module(APP)
    return module is None or _FIRST_MIGRATION in MigrationRecorder(connection).applied_migrations()


def _absent(connection: BaseDatabaseWrapper, statements: Statements) -> Iterable[tuple[str, str, str]]:
    tables = _tables(connection)
    indexes: dict[str, set[str]] = {}
    with connection.cursor() as cursor:
        for kind, name, table in map(_made_by, statements.schema):
            if kind == "INDEX" and table in tables and table not in indexes:
                indexes[table] = set(connection.introspection.get_constraints(cursor, table))
            if name not in (tables if kind == "TABLE" else indexes.get(table, set())):
                yield kind, name, table


def _tables(connection: BaseDatabaseWrapper) -> set[str]:
    return set(connection.introspection.table_names())


def _is_empty(cursor: Any, table: str) -> bool:
    cursor.execute(f"SELECT 1 FROM {table} LIMIT 1")
    return cursor.fetchone() is None


def _drop(connection: BaseDatabaseWrapper, cursor: Any, table: str) -> None:
    """Drop a table, unless another one of the project's points to it: then it stays as the models have it."""
    with suppress(DatabaseError), transaction.atomic(using=connection.alias):
        cursor.execute(f"DROP TABLE {table}")


def _statements_of(statements: Statements, number: str) -> list[Statement]:
    return [statement for statement in statements.schema if statement.name == f"schema {number}"]


def _made_by(statement: Statement) -> tuple[str, str, str]:
    found = _MADE.match(statement.format)
    if found is None:
        return ("", "", "")
    kind, name, table = found.groups()
    return kind, name, table or ""
