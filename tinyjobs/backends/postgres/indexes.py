"""What the indexes and primary keys of a store have to be, which are not, and how they are built while jobs go on.

A database keeps an index that could not be built to its end, or that somebody made by hand under our name, and nobody
notices before a key is taken twice or a claim reads the whole table. The DDL says what is meant. Knows no driver.
"""

import logging
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tinyjobs.backends.sql.connection import Connection
from tinyjobs.backends.sql.layout import is_newer
from tinyjobs.backends.sql.statements import Statements, make_statement
from tinyjobs.core.errors import ConfigurationError, SchemaMissingError, StoreBusyError, StoreError

logger = logging.getLogger("tinyjobs.store")

#: For how many seconds a build waits for whoever is in its way, and a process for another one that builds.
PATIENCE = 30.0
# Seconds between two looks whether another process is done.
_PAUSE = 0.25
# Jobs that a message names at most.
_NAMED = 20
# SQLSTATEs: a lock was not to be had in time, two rows are the same to a unique index, the role may not.
_LOCKED, _CLASH, _FORBIDDEN = "55P03", "23505", "42501"

_PLACE = r'((?:"(?:[^"]|"")*"\.)?)'
_INDEX = re.compile(rf"CREATE (UNIQUE )?INDEX (\w+) ON {_PLACE}(\w+) \(([^)]*)\)")
_TABLE = re.compile(rf"CREATE TABLE {_PLACE}(\w+) \(")
_KEY = re.compile(r"^ +(?:PRIMARY KEY \(([^)]*)\)|(\w+) .*\bPRIMARY KEY\b)", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    """An index, or a primary key, whose name is the database's choice. `place` is the schema with its dot, if named."""

    name: str
    table: str
    place: str
    columns: str
    is_unique: bool
    is_key: bool
    create: str


@dataclass(frozen=True, slots=True)
class _Found:
    name: str
    kind: str
    table: str | None
    is_valid: bool
    is_unique: bool
    is_key: bool
    columns: str


@dataclass(frozen=True, slots=True)
class Fault:
    """An index or a primary key that is not as it should be. `blocks`: it is in the way and not ours to drop."""

    wanted: _Wanted
    found: _Found | None
    reason: str
    blocks: bool = False

    def __str__(self) -> str:
        name = f"the primary key of {self.wanted.table}" if self.wanted.is_key else self.wanted.name
        return f"{name} ({self.reason})" if self.found else name

    @property
    def is_essential(self) -> bool:
        """Whether jobs cannot do without. Without another one they are only slower."""
        return self.wanted.is_unique

    def statements(self) -> list[str]:
        """What builds it, each in autocommit. A primary key in one plain step: claims cannot run without it at all."""
        wanted = self.wanted
        if wanted.is_key:
            return [wanted.create] if self.found is None else [f"REINDEX INDEX {wanted.place}{self.found.name}"]
        drop = [f"DROP INDEX CONCURRENTLY {wanted.place}{wanted.name}"] if self.found else []
        return [*drop, wanted.create.replace(" INDEX ", " INDEX CONCURRENTLY ", 1)]


async def find(connection: Connection, statements: Statements) -> list[Fault]:
    """What is not as this release's DDL has it, of the tables that are there. One read of the catalog, no lock.

    A store laid out by a newer release has indexes of its own.
    """
    if await is_newer(connection, statements):
        return []
    wanted = _wanted_of(statements)
    names, tables = [each.name for each in wanted if each.name], sorted({each.table for each in wanted})
    rows = await connection.fetch(statements["indexes"], [[*names, *tables], tables])
    found = [_Found(*row) for row in rows]
    relations = {each.name: each for each in found}
    keys = {each.table: each for each in found if each.is_key}
    compared = (
        _compare(each, keys.get(each.table) if each.is_key else relations.get(each.name))
        for each in wanted
        if each.table in relations
    )
    return sorted((fault for fault in compared if fault is not None), key=lambda fault: not fault.is_essential)


async def check(connection: Connection, statements: Statements, where: str) -> list[Fault]:
    """The faults that only make jobs slower. Raises `SchemaMissingError` for those that they cannot do without.

    For a store that `migrate` lays out, and that somebody who only works on it leaves as it is.
    """
    faults = await find(connection, statements)
    if essential := [fault for fault in faults if fault.is_essential]:
        raise SchemaMissingError(
            f"{where} lacks {_listed(essential)}. `manage.py migrate` builds it again, or say so yourself: "
            f"{_told(essential)}"
        )
    return faults


def warn_of(faults: Sequence[Fault], where: str, remedy: str) -> None:
    """Say once what makes jobs slower."""
    if faults:
        logger.warning("%s lacks %s. Jobs run without, only more slowly. %s", where, _listed(faults), remedy)


async def mend(connection: Connection, statements: Statements, where: str) -> None:
    """Build what is missing, not valid or of another kind, while jobs go on. One process does it, the others wait.

    On a connection of its own in autocommit, whose settings it changes. Every wait for somebody else is bounded. What
    only makes jobs slower is left for the next time with a warning; raises where they cannot do without.
    """
    faults = await find(connection, statements)
    if not faults:
        return
    if blocking := [fault for fault in faults if fault.blocks]:
        raise ConfigurationError(
            f"{where}: tinyjobs cannot have its {_listed(blocking)}. Drop or rename what stands there, and try again."
        )
    await connection.fetch(statements["index_patience"], [str(round(PATIENCE * 1000))])
    is_ours = await _locked(connection, statements)
    try:
        # Whoever was first has done it by now, as a rule.
        faults = await find(connection, statements)
        if is_ours:
            await _build(connection, statements, where, faults)
        elif essential := [fault for fault in faults if fault.is_essential]:
            raise StoreBusyError(
                f"{where} lacks {_listed(essential)}, and another process is still building after {PATIENCE:g} s. "
                f"Try again when it is done."
            )
        else:
            warn_of(faults, where, "Another process is building.")
    finally:
        if is_ours:
            await connection.fetch(statements["index_unlock"])


async def _locked(connection: Connection, statements: Statements) -> bool:
    for _ in range(max(1, round(PATIENCE / _PAUSE))):
        ((has_lock,),) = await connection.fetch(statements["index_lock"])
        if has_lock:
            return True
        await connection.fetch(statements["index_pause"], [_PAUSE])
    return False


async def _build(connection: Connection, statements: Statements, where: str, faults: Sequence[Fault]) -> None:
    left: list[Fault] = []
    reason = ""
    for fault in faults:
        if reason and not fault.is_essential:
            # What the first one waited for in vain is still there.
            left.append(fault)
            continue
        try:
            for text in fault.statements():
                await connection.execute(make_statement("build", text))
        except StoreError as error:
            if fault.is_essential:
                raise await _refusal(connection, statements, where, fault, error) from error
            left.append(fault)
            reason = await _reason(connection, statements, error)
        else:
            logger.warning("%s lacked %s; built again.", where, fault)
    warn_of(left, where, f"The next setup tries again: {reason}")


async def _refusal(
    connection: Connection, statements: Statements, where: str, fault: Fault, error: StoreError
) -> Exception:
    """Why setup cannot go on without this one, and what to do about it."""
    state = getattr(error, "sqlstate", None)
    lacks = f"{where} lacks {fault}"
    if state == _CLASH and not fault.wanted.is_key:
        clashes = await connection.fetch(statements["key_clashes"], [_NAMED])
        named = "; ".join(f"{key!r}: {job} beside {first}" for key, job, first in clashes)
        later = ", ".join(f"'{job}'" for _, job, _ in clashes)
        jobs = f"{fault.wanted.place}{fault.wanted.table}".replace("%%", "%")
        return ConfigurationError(
            f"{lacks}, and meanwhile several active jobs have got the same key: {named}. Only one of each may keep it. "
            f"Let the others go without and try again: UPDATE {jobs} SET active_key = NULL WHERE id IN "
            f"({later})"
        )
    reason = await _reason(connection, statements, error)
    if state == _LOCKED:
        return StoreBusyError(f"{lacks}. {reason} Or say so yourself: {_told([fault])}")
    if state == _FORBIDDEN:
        return ConfigurationError(f"{lacks}. {reason} Let the tables' owner say: {_told([fault])}")
    return StoreError(f"{lacks}, and it cannot be built. {reason}")


async def _reason(connection: Connection, statements: Statements, error: StoreError) -> str:
    if getattr(error, "sqlstate", None) != _LOCKED:
        return f"{error}."
    sessions = [
        f"{pid} ({', '.join(filter(None, [role, application]))})"
        for pid, role, application in await connection.fetch(statements["oldest_sessions"])
    ]
    return (
        f"It was not built, since transactions that others have open did not end within {PATIENCE:g} s; the oldest are "
        f"of the sessions {', '.join(sessions) or '(gone by now)'}. End them and try again."
    )


def _wanted_of(statements: Statements) -> list[_Wanted]:
    return [wanted for statement in statements.schema if (wanted := _wanted(statement.format)) is not None]


def _wanted(ddl: str) -> _Wanted | None:
    if index := _INDEX.match(ddl):
        unique, name, place, table, columns = index.groups()
        return _Wanted(
            name=name, table=table, place=place, columns=columns.replace(" DESC", ""), is_unique=bool(unique),
            is_key=False, create=ddl,
        )  # fmt: skip
    if (made := _TABLE.match(ddl)) and (key := _KEY.search(ddl)):
        place, table = made.groups()
        columns = key[1] or key[2]
        create = f"ALTER TABLE {place}{table} ADD PRIMARY KEY ({columns})"
        return _Wanted(name="", table=table, place=place, columns=columns, is_unique=True, is_key=True, create=create)
    return None


def _compare(wanted: _Wanted, found: _Found | None) -> Fault | None:
    if found is None:
        return Fault(wanted, None, "missing")
    if found.table is None:
        return Fault(wanted, found, "the name is another relation's", blocks=True)
    if found.table != wanted.table:
        return Fault(wanted, found, f"the name is that of an index of {found.table}", blocks=True)
    if found.columns != wanted.columns:
        # Whoever made another key of a whole table meant it, and others may point to it.
        return Fault(wanted, found, f"over {found.columns}, not {wanted.columns}", blocks=wanted.is_key)
    if found.is_unique != wanted.is_unique:
        return Fault(wanted, found, "unique" if found.is_unique else "not unique")
    return None if found.is_valid else Fault(wanted, found, "not valid")


def _listed(faults: Iterable[Fault]) -> str:
    return ", ".join(map(str, faults))


def _told(faults: Iterable[Fault]) -> str:
    return "; ".join(text for fault in faults for text in fault.statements()).replace("%%", "%")
