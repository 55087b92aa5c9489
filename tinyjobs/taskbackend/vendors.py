"""Which kinds of Django database can hold jobs: the statements for each, and how its driver's errors are told apart.

A database whose vendor is not listed here cannot be a store; `migrate` leaves it alone. Opens nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from tinyjobs.backends.sql.statements import DEFAULT_PREFIX, Statements
from tinyjobs.backends.sqlite import connection as sqlite_connection
from tinyjobs.backends.sqlite import errors as sqlite_errors
from tinyjobs.backends.sqlite import options as sqlite_options

#: The prefix of the tables in a Django database: the one that the models describe.
PREFIX = DEFAULT_PREFIX


@dataclass(frozen=True, slots=True)
class Vendor:
    """One kind of database. `options` are the store's own, for the connections that a worker opens beside Django's."""

    name: str
    package: str
    translate: Callable[[BaseException, str], BaseException]
    returning: bool
    options: frozenset[str]

    @property
    def statements(self) -> Statements:
        """The store's statements for the tables in a Django database."""
        return _statements(self.package)


_VENDORS = {
    "sqlite": Vendor(
        name="sqlite",
        package="tinyjobs.backends.sqlite",
        translate=sqlite_errors.translate,
        returning=sqlite_connection.library_version() >= sqlite_options.RETURNING_VERSION,
        options=frozenset({"busy_timeout", "synchronous", "returning"}),
    ),
}


def find_vendor(name: str) -> Vendor | None:
    """The store for a value of `connection.vendor`, or None when no store supports it."""
    return _VENDORS.get(name)


def supported() -> str:
    """The vendors there are, for a message."""
    return ", ".join(sorted(_VENDORS))


@cache
def _statements(package: str) -> Statements:
    return Statements(package, PREFIX)
