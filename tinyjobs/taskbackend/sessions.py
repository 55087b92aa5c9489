"""Notices when a job changes the session of its connection in a way that would outlast it: settings, roles, locks.

Such a connection is closed after the job instead of kept for the next one, as the end of a request would do. Seen is
what goes through Django's cursors, by how a statement begins, so nothing is asked of the database.
"""

import re
from collections.abc import Callable
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper

# What ends with the transaction anyway is left out.
_CHANGES = re.compile(
    r"\s*(?:SET\s+(?!LOCAL\b|TRANSACTION\b|CONSTRAINTS\b)|(?:RESET|LISTEN|PREPARE|LOAD)\b|CREATE\s+TEMP)", re.IGNORECASE
)
_CALLS = ("set_config", "pg_advisory_lock", "pg_try_advisory_lock")


class SessionWatch:
    """An execute wrapper of one connection. `has_changed`: since it was made, or since `forget`."""

    __slots__ = ("has_changed",)

    def __init__(self) -> None:
        self.has_changed = False

    def __call__(self, execute: Callable[..., Any], sql: Any, params: Any, many: bool, context: dict[str, Any]) -> Any:
        """See Django's database instrumentation."""
        if not self.has_changed and changes_session(sql):
            self.has_changed = True
        return execute(sql, params, many, context)


def changes_session(sql: object) -> bool:
    """Whether what the statement does to the session lasts longer than its transaction."""
    text = sql if isinstance(sql, str) else _text(sql)
    return _CHANGES.match(text) is not None or any(call in text for call in _CALLS)


def _text(sql: Any) -> str:
    if isinstance(sql, bytes):
        return sql.decode(errors="replace")
    try:
        return str(sql.as_string(None))  # composed by psycopg's own means
    except Exception:
        return str(sql)


def watch(connection: BaseDatabaseWrapper) -> None:
    """Watch the connection from here on; once is enough."""
    if _watch_of(connection) is None:
        connection.execute_wrappers.insert(0, SessionWatch())


def has_changed(connection: BaseDatabaseWrapper) -> bool:
    """Whether a job has changed the session, and begin anew."""
    found = _watch_of(connection)
    if found is None or not found.has_changed:
        return False
    found.has_changed = False
    return True


def _watch_of(connection: BaseDatabaseWrapper) -> SessionWatch | None:
    wrappers = connection.execute_wrappers
    # Where it was put: what a project adds and takes away stands behind it.
    first = wrappers[0] if wrappers else None
    return first if isinstance(first, SessionWatch) else None
