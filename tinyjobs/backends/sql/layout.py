"""The layout of a SQL store: its version, who may work on it, and how its tables come to be.

One DDL, in the store's `schema/` folder, is run by `setup()` and by Django's migrations alike. Three rows of the meta
table tell of it: `layout`, our own mark (an older public package of the same name uses the same table names with
other columns); `schema_version`; and `compatible_since`, the oldest version whose code works on the store as it is.
"""

import logging
import re
import secrets

from tinyjobs.backends.sql.connection import Connection, Verb
from tinyjobs.backends.sql.statements import Statement, Statements
from tinyjobs.core.errors import ConfigurationError, NewerStoreError, SchemaMissingError

logger = logging.getLogger("tinyjobs.store")

LAYOUT = "tinyjobs-django"
SCHEMA_VERSION = 1
COMPATIBLE_SINCE = 1
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
) -> None:
    """Create what the DDL has and the store lacks, once it is sure whose tables these are.

    Safe when many processes start at once. A store laid out by a newer release is left as it is. `suits` is asked
    before the first table is made, and raises where a store should not live. `first` opens the transaction: it keeps
    other processes out, where beginning one does not. `tables_only`: an index that a table lacks which is there
    already is left to the caller.
    """
    lacking = await _lacking(connection, statements, where, first)
    if not (_with_new_tables(statements, lacking) if tables_only else lacking):
        return
    async with connection.transaction():
        if first is not None:
            await first(connection)
        # Another process may have been first while this one waited for the lock.
        lacking = await _lacking(connection, statements, where)
        is_new = len(lacking) == len(_made(statements))
        if tables_only:
            lacking = _with_new_tables(statements, lacking)
        if is_new and suits is not None:
            await suits(connection)
        if lacking and not is_new:
            logger.warning("%s lacked %s; made again, without what it held.", where, ", ".join(lacking))
        for name, statement in _made(statements).items():
            if name in lacking:
                await connection.execute(statement)
        await write_meta(connection, statements)


async def check(connection: Connection, statements: Statements, where: str) -> None:
    """Raise unless this release can work on the store; never changes it. For stores that `migrate` lays out."""
    if f"{statements.prefix}_jobs" in await _lacking(connection, statements, where):
        raise SchemaMissingError(f"{where} has no {statements.prefix}_jobs table yet. Run `manage.py migrate`.")


async def is_newer(connection: Connection, statements: Statements) -> bool:
    """Whether a newer release laid the store out, so that this one does not know each of its indexes."""
    rows: dict[str, str] = dict(await connection.fetch(statements["meta"]))
    version = rows.get("schema_version", "")
    return version.isdecimal() and int(version) > SCHEMA_VERSION


def meta_rows() -> list[tuple[str, str]]:
    """What a new meta table says."""
    return [
        ("layout", LAYOUT),
        ("schema_version", str(SCHEMA_VERSION)),
        ("compatible_since", str(COMPATIBLE_SINCE)),
        ("instance", secrets.token_hex(16)),
    ]


async def write_meta(connection: Connection, statements: Statements) -> None:
    """Add the meta rows that are missing."""
    await connection.many(statements["meta_add"], meta_rows())


def meta_ddl(statements: Statements) -> Statement:
    """The statement that creates the meta table."""
    return next(
        entry
        for entry in statements.schema
        if (found := _MADE.match(entry.format)) and found[1] == f"{statements.prefix}_meta"
    )


async def _lacking(
    connection: Connection, statements: Statements, where: str, first: Verb[None] | None = None
) -> list[str]:
    """The tables and indexes that are not there and that this release may make. Raises when they are not ours."""
    names = {row[0] for row in await connection.fetch(statements["tables"])}
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
        if _check_meta(rows, statements.prefix, where) > SCHEMA_VERSION:
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


def _check_meta(meta: dict[str, str], prefix: str, where: str) -> int:
    """The version of the layout, if this release can work on it."""
    if meta.get("layout") != LAYOUT:
        raise _foreign(prefix, where)
    version = _number(meta, "schema_version", where)
    compatible = _number(meta, "compatible_since", where) if "compatible_since" in meta else version
    if version > SCHEMA_VERSION and compatible > SCHEMA_VERSION:
        raise NewerStoreError(
            f"{where} was laid out by a newer tinyjobs (version {version} of the layout, which needs at least "
            f"{compatible}); this release knows {SCHEMA_VERSION}. Upgrade the package in this process."
        )
    return version


def _number(meta: dict[str, str], key: str, where: str) -> int:
    value = meta.get(key, "")
    if not value.isdecimal():
        raise ConfigurationError(
            f"{where}: {key} in the meta table is {value!r}, not a number. Was it changed by hand?"
        )
    return int(value)


def _foreign(prefix: str, where: str) -> ConfigurationError:
    return ConfigurationError(
        f"{where} holds tables named {prefix}_… that this package did not lay out; an older package named tinyjobs "
        f"uses the same names with other columns. Give this store another place, or another prefix=."
    )
