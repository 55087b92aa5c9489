"""The layout of a SQL store: its version, who may work on it, and how its tables come to be.

One DDL, in the store's `schema/` folder, is run by `setup()` and by Django's migrations alike. The marks that tell of
it are rows of the meta table.
"""

import logging
import re
from collections.abc import Collection

from tinyjobs.backends.marks import SCHEMA_VERSION, check_version, is_ours, new_marks
from tinyjobs.backends.sql.connection import Connection, Verb
from tinyjobs.backends.sql.statements import Statement, Statements
from tinyjobs.core.errors import ConfigurationError, SchemaMissingError

logger = logging.getLogger("tinyjobs.store")

_PLACE = r'(?:"(?:[^"]|"")*"\.)?'
_MADE = re.compile(rf"CREATE (?:UNIQUE )?(?:TABLE|INDEX) {_PLACE}(\w+)(?: ON {_PLACE}(\w+))?")


async def install(
    connection: Connection,
    statements: Statements,
    where: str,
    *,
    suits: Verb[None] | None = None,
    first: Verb[None] | None = None,
    tables_only: bool = False,
    just_made: Collection[str] = (),
) -> None:
    """Create what the DDL has and the store lacks, once it is sure whose tables these are.

    Safe when many processes start at once. A store laid out by a newer release is left as it is. `suits` is asked
    before the first table is made, and raises where a store should not live. `first` opens the transaction: it keeps
    other processes out, where beginning one does not. `tables_only`: an index that a table lacks which is there
    already is left to the caller. `just_made`: tables that are there because the caller made them a moment ago, in the
    transaction that is open.
    """
    lacking = await _lacking(connection, statements, where, first, just_made)
    if not (_with_new_tables(statements, lacking) if tables_only else lacking):
        return
    async with connection.transaction():
        if first is not None:
            await first(connection)
        # Another process may have been first while this one waited for the lock.
        lacking = await _lacking(connection, statements, where, just_made=just_made)
        is_new = len(lacking) == len(_made(statements))
        if tables_only:
            lacking = _with_new_tables(statements, lacking)
        if is_new and suits is not None:
            await suits(connection)
        if lacking and not is_new:
            logger.warning("%s lacked %s; made again, without what it held.", where, ", ".join(lacking))
        for name, statement in _made(statements).items():
            if name in lacking and name not in just_made:
                await connection.execute(statement)
        if f"{statements.prefix}_tallies" in lacking and not is_new:
            await connection.execute(statements["recount"])
        await write_meta(connection, statements)


async def check(connection: Connection, statements: Statements, where: str) -> None:
    """Raise unless this release can work on the store; never changes it. For stores that `migrate` lays out."""
    if f"{statements.prefix}_jobs" in await _lacking(connection, statements, where):
        raise SchemaMissingError(f"{where} has no {statements.prefix}_jobs table yet. Run `manage.py migrate`.")


async def check_tables(connection: Connection, statements: Statements, where: str) -> None:
    """Raise `SchemaMissingError` where a table is not there that `install` would make; makes none."""
    missing = _with_new_tables(statements, await _lacking(connection, statements, where))
    if len(missing) == len(_made(statements)):
        raise SchemaMissingError(f"{where} holds no tables named {statements.prefix}_….")
    if missing:
        raise SchemaMissingError(f"{where} lacks {', '.join(missing)}.")


async def is_complete(connection: Connection, statements: Statements, where: str) -> bool:
    """Whether nothing is left to be made. Raises where the tables are not ours, as `install` does."""
    return not await _lacking(connection, statements, where)


async def is_newer(connection: Connection, statements: Statements) -> bool:
    """Whether a newer release laid the store out, so that this one does not know each of its indexes."""
    rows: dict[str, str] = dict(await connection.fetch(statements["meta"]))
    version = rows.get("schema_version", "")
    return version.isdecimal() and int(version) > SCHEMA_VERSION


async def write_meta(connection: Connection, statements: Statements) -> None:
    """Add the meta rows that are missing."""
    await connection.many(statements["meta_add"], new_marks())


def meta_ddl(statements: Statements) -> Statement:
    """The statement that creates the meta table."""
    return next(
        entry
        for entry in statements.schema
        if (found := _MADE.match(entry.format)) and found[1] == f"{statements.prefix}_meta"
    )


async def _lacking(
    connection: Connection,
    statements: Statements,
    where: str,
    first: Verb[None] | None = None,
    just_made: Collection[str] = (),
) -> list[str]:
    """The tables and indexes that are not there and that this release may make. Raises when they are not ours."""
    names = {row[0] for row in await connection.fetch(statements["tables"])}.difference(just_made)
    made = _made(statements)
    jobs, meta = f"{statements.prefix}_jobs", f"{statements.prefix}_meta"
    if not names & made.keys():
        return list(made)
    rows: dict[str, str] = {}
    if meta in names:
        try:
            rows = dict(await connection.fetch(statements["meta"]))
        except SchemaMissingError as error:
            raise _foreign(statements.prefix, where) from error
    if rows:
        if not is_ours(rows):
            raise _foreign(statements.prefix, where)
        if check_version(rows, where) > SCHEMA_VERSION:
            return []
    elif jobs in names:
        await _heal_meta(connection, statements, where, first)
        names.add(meta)
    else:
        raise _foreign(statements.prefix, where)
    return [name for name in made if name not in names]


def _made(statements: Statements) -> dict[str, Statement]:
    """The statements of the DDL by the name of the table or index that each makes."""
    return {found[1]: entry for entry in statements.schema if (found := _MADE.match(entry.format))}


def _with_new_tables(statements: Statements, lacking: list[str]) -> list[str]:
    """Without the indexes of tables that are there."""
    tables = {found[1]: found[2] for entry in statements.schema if (found := _MADE.match(entry.format))}
    return [name for name in lacking if tables[name] is None or tables[name] in lacking]


async def _heal_meta(connection: Connection, statements: Statements, where: str, first: Verb[None] | None) -> None:
    """Tables built from the Django models have no meta beside them; write it, if the tables are ours."""
    try:
        await connection.fetch(statements["probe"])
    except SchemaMissingError as error:
        raise _foreign(statements.prefix, where) from error
    async with connection.transaction():
        if first is not None:
            await first(connection)
        names = {row[0] for row in await connection.fetch(statements["tables"])}
        if f"{statements.prefix}_meta" not in names:
            await connection.execute(meta_ddl(statements))
        await write_meta(connection, statements)


def _foreign(prefix: str, where: str) -> ConfigurationError:
    return ConfigurationError(
        f"{where} holds tables named {prefix}_… that this package did not lay out; an older package named tinyjobs "
        f"uses the same names with other columns. Give this store another place, or another prefix=."
    )
