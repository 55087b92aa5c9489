"""The layout of a SQL store: its version, who may work on it, and how its tables come to be.

One DDL, in the store's `schema/` folder, is run by `setup()` and by Django's migrations alike. Three rows of the meta
table tell of it: `layout`, our own mark (an older public package of the same name uses the same table names with
other columns); `schema_version`; and `compatible_since`, the oldest version whose code works on the store as it is.
"""

import secrets

from tinyjobs.backends.sql.connection import Connection
from tinyjobs.backends.sql.statements import Statement, Statements, make_statement
from tinyjobs.core.errors import ConfigurationError, NewerStoreError, SchemaMissingError

LAYOUT = "tinyjobs-django"
SCHEMA_VERSION = 1
COMPATIBLE_SINCE = 1


async def install(connection: Connection, statements: Statements, where: str) -> None:
    """Create the tables where there are none, else check them. Safe when many processes start at once."""
    if await _is_current(connection, statements, where):
        return
    async with connection.transaction():
        # Another process may have been first while this one waited for the lock.
        if not await _is_current(connection, statements, where):
            for statement in statements.schema:
                await connection.execute(statement)
            await write_meta(connection, statements)


async def check(connection: Connection, statements: Statements, where: str) -> None:
    """Raise unless this release can work on the store; never changes it. For stores that `migrate` lays out."""
    if not await _is_current(connection, statements, where):
        raise SchemaMissingError(f"{where} has no {statements.prefix}_jobs table yet. Run `manage.py migrate`.")


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
    return next(entry for entry in statements.schema if f"CREATE TABLE {statements.prefix}_meta" in entry.format)


async def _is_current(connection: Connection, statements: Statements, where: str) -> bool:
    names = {row[0] for row in await connection.fetch(statements["tables"])}
    has_jobs = f"{statements.prefix}_jobs" in names
    if f"{statements.prefix}_meta" not in names:
        if has_jobs:
            await _heal_meta(connection, statements, where)
        return has_jobs
    meta: dict[str, str] = dict(await connection.fetch(statements["meta"]))
    if not meta and has_jobs:
        await _heal_meta(connection, statements, where)
        return True
    _check_meta(meta, statements.prefix, where)
    return has_jobs


async def _heal_meta(connection: Connection, statements: Statements, where: str) -> None:
    """Tables built from the Django models have no meta beside them; write it, if the tables are ours."""
    probe = make_statement("probe", f"SELECT ready_at, active_key FROM {statements.prefix}_jobs LIMIT 0")
    try:
        await connection.fetch(probe)
    except SchemaMissingError as error:
        raise _foreign(statements.prefix, where) from error
    async with connection.transaction():
        names = {row[0] for row in await connection.fetch(statements["tables"])}
        if f"{statements.prefix}_meta" not in names:
            await connection.execute(meta_ddl(statements))
        await write_meta(connection, statements)


def _check_meta(meta: dict[str, str], prefix: str, where: str) -> None:
    if meta.get("layout") != LAYOUT:
        raise _foreign(prefix, where)
    version, compatible = int(meta["schema_version"]), int(meta.get("compatible_since", meta["schema_version"]))
    if version > SCHEMA_VERSION and compatible > SCHEMA_VERSION:
        raise NewerStoreError(
            f"{where} was laid out by a newer tinyjobs (version {version} of the layout, which needs at least "
            f"{compatible}); this release knows {SCHEMA_VERSION}. Upgrade the package in this process."
        )


def _foreign(prefix: str, where: str) -> ConfigurationError:
    return ConfigurationError(
        f"{where} holds tables named {prefix}_… that this package did not lay out; an older package named tinyjobs "
        f"uses the same names with other columns. Give this store another file, or another prefix=."
    )
