"""Which kinds of Django database can hold jobs: the statements for each, how its driver's errors are told apart, and
how a worker opens it with connections of its own.

A database whose vendor is not listed here cannot be a store; `migrate` leaves it alone. What a vendor needs, its
driver above all, is imported when a project turns out to have such a database.
"""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, Protocol

from django.db.backends.base.base import BaseDatabaseWrapper

from tinyjobs.backends.base import Backend
from tinyjobs.backends.sql.connection import Connection
from tinyjobs.backends.sql.dialect import Dialect
from tinyjobs.backends.sql.statements import DEFAULT_PREFIX, Statements
from tinyjobs.core.clock import Clock
from tinyjobs.core.watching import Finding
from tinyjobs.taskbackend.notifying import Announce

#: The prefix of the tables in a Django database: the one that the models describe.
PREFIX = DEFAULT_PREFIX

# By `connection.vendor`, which engines of third parties share with Django's own: the module with its VENDOR.
_MODULES = {
    "postgresql": "tinyjobs.taskbackend.postgres",
    "sqlite": "tinyjobs.taskbackend.sqlite",
}


class Indexes(Protocol):
    """Looks after a store's indexes, where a database may keep one that is no good."""

    async def find(self, connection: Connection, statements: Statements) -> Sequence[object]:
        """What is not as the DDL has it; each one's text tells what it is."""
        ...

    async def check(self, connection: Connection, statements: Statements, where: str) -> Sequence[object]:
        """The same, unless jobs cannot do without: then it raises `SchemaMissingError` with the remedy."""
        ...

    async def mend(self, connection: Connection, statements: Statements, where: str) -> None:
        """Build what is lacking, on a connection of its own in autocommit."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Vendor:
    """One kind of database. `options` are the store's own, for the connections that a worker opens beside Django's."""

    name: str
    translate: Callable[[BaseException, str], BaseException]
    #: Made at first use, since most projects have one kind of database.
    make_dialect: Callable[[], Dialect]
    #: Whether the database's clock decides, not this machine's.
    by_server: bool
    options: frozenset[str]
    #: Raises `ConfigurationError` for values that those options cannot have, each by itself.
    check: Callable[[Mapping[str, Any]], object]
    #: The same for what they cannot have together.
    check_all: Callable[[Mapping[str, Any]], object]
    #: From an alias of DATABASES, the clock, and the store's own options.
    open: Callable[[str, Clock, Mapping[str, Any]], Backend]
    #: From a connection, the statements and the database's NAME: how it is set up, against what the guarantees need.
    audit: Callable[[Connection, Statements, str], Coroutine[Any, Any, list[Finding]]]
    #: From NAME, and how messages call the database: raises `SchemaMissingError` where to connect would make its file.
    look_for_file: Callable[[object, str], None] = lambda name, where: None
    #: Why no worker can open the database of this connection, and what to do about it; None where one can.
    missing_for_workers: Callable[[BaseDatabaseWrapper], tuple[str, str] | None] = lambda connection: None
    #: From the store's own options, how workers are told of jobs; None where they are not, or find out themselves.
    announcer: Callable[[Mapping[str, Any]], Announce | None] | None = None
    #: None where an index that is there is as it was made.
    indexes: Indexes | None = None

    @property
    def dialect(self) -> Dialect:
        """The store's own way of saying things, for the tables in a Django database."""
        return _dialect(self.make_dialect)

    @property
    def statements(self) -> Statements:
        """Its statements."""
        return self.dialect.statements


@cache
def find_vendor(name: str) -> Vendor | None:
    """The store for a value of `connection.vendor`, or None when no store supports it."""
    module = _MODULES.get(name)
    if module is None:
        return None
    vendor: Vendor = import_module(module).VENDOR
    return vendor


def supported() -> str:
    """The vendors there are, for a message."""
    return ", ".join(sorted(_MODULES))


@cache
def _dialect(make: Callable[[], Dialect]) -> Dialect:
    return make()
