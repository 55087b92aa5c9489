"""How a store's connections are made and set up, for how long a call waits for one, and what is said when none comes.

Knows no pool. Shared by all connections of one store.
"""

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg

from tinyjobs.backends.postgres.options import PostgresOptions
from tinyjobs.backends.postgres.states import message_of
from tinyjobs.core.clock import Clock
from tinyjobs.core.errors import StoreBusyError, StoreError, StoreUnavailableError

_NAME = "tinyjobs"
# What a call that is told to hurry may still take.
_LEAST = 0.5


@dataclass(slots=True, kw_only=True)
class Source:
    """How connections are made. `keywords` is called for each, since a password may have changed meanwhile."""

    keywords: Callable[[], Mapping[str, Any]]
    options: PostgresOptions
    where: str
    clock: Clock
    #: Statements for a new connection beside the settings, such as one that takes on a role.
    prelude: tuple[str, ...] = ()
    #: Until when a call may wait (clock.monotonic); None: as long as it usually does.
    deadline: float | None = None
    #: Whether our tables are named with their schema, so that no other one has to be searched.
    is_placed: bool = False
    #: Why the latest connection could not be opened; None: it was.
    refusal: psycopg.Error | None = None

    def connect_keywords(self) -> dict[str, Any]:
        """The keywords for a new connection."""
        wait = max(2, min(5, round(self.options.pool_timeout)))
        return {
            "application_name": _NAME,
            "client_encoding": "UTF8",
            "connect_timeout": wait,
            "keepalives": 1,
            "keepalives_idle": 15,
            "keepalives_interval": 5,
            "keepalives_count": 3,
            "tcp_user_timeout": 60_000,
            **self.keywords(),
        }

    @contextmanager
    def noting(self) -> Generator[None]:
        """Around the opening of a connection: remember why it failed, if it did."""
        try:
            yield
        except psycopg.Error as error:
            self.refusal = error
            raise
        self.refusal = None

    def settings(self) -> tuple[str, list[Any]]:
        """The one statement that sets a new connection up, and its parameters."""
        timeout = self.options.statement_timeout
        wanted: dict[str, str] = {
            "default_transaction_isolation": "read committed",
            "statement_timeout": "0" if timeout is None else f"{round(timeout * 1000)}",
            "idle_in_transaction_session_timeout": "60000",
            "jit": "off",
            # A plan made anew for every claim costs more than the claim.
            "plan_cache_mode": "force_generic_plan",
            "enable_seqscan": "off",
            "enable_bitmapscan": "off",
        }
        if self.is_placed:
            wanted["search_path"] = "pg_catalog, pg_temp"
        calls = ", ".join("pg_catalog.set_config(%s, %s, false)" for _ in wanted)
        raised = (
            "pg_catalog.set_config('synchronous_commit', CASE pg_catalog.current_setting('synchronous_commit') "
            "WHEN 'off' THEN 'on' ELSE pg_catalog.current_setting('synchronous_commit') END, false)"
        )
        return f"SELECT {raised}, {calls}", [part for pair in wanted.items() for part in pair]

    def left(self) -> float | None:
        """For how many seconds a call may go on that was told to hurry; None: nobody is in a hurry."""
        return None if self.deadline is None else max(self.deadline - self.clock.monotonic(), _LEAST)

    def patience(self) -> float:
        """For how many seconds a call may wait for a connection now."""
        left = self.left()
        return self.options.pool_timeout if left is None else min(self.options.pool_timeout, left)

    def none_left(self, error: BaseException, in_use: int) -> StoreError:
        """The error of a call that got no connection in time, while so many were in use."""
        if in_use >= self.options.max_connections:
            text = (
                f"{self.where}: all {self.options.max_connections} connections were in use for "
                f"{self.options.pool_timeout:g} s. Raise max_connections, or run fewer calls at once."
            )
            told: StoreError = StoreBusyError(text)
        else:
            reason = "none was opened in time" if self.refusal is None else message_of(self.refusal)
            told = StoreUnavailableError(f"{self.where}: no connection could be opened: {reason}")
        told.__cause__ = error
        return told
