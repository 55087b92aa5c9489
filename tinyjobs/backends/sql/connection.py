"""What a SQL verb needs of a connection, and who decides which connection a verb runs on.

Behind `Connection` stand a driver's own connection, a caller's, or a framework's. A verb never knows which. Only an
asynchronous driver's connection suspends; over the others a verb runs to its end in one call.
"""

from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from tinyjobs.backends.sql.statements import Statement

type Row = tuple[Any, ...]
type Parameters = Sequence[Any]


class Connection(Protocol):
    """One connection, used by one caller at a time."""

    async def fetch(self, statement: Statement, parameters: Parameters = ()) -> list[Row]:
        """Every row the statement answers, as tuples."""
        ...

    async def execute(self, statement: Statement, parameters: Parameters = ()) -> int:
        """Run a statement that answers no rows; how many rows it changed."""
        ...

    async def many(self, statement: Statement, rows: Sequence[Parameters]) -> int:
        """Run a statement once per row of parameters; how many rows were changed in all."""
        ...

    def transaction(self) -> AbstractAsyncContextManager[None]:
        """All or nothing for the block. Inside a transaction of the caller's it is a savepoint."""
        ...


type Verb[T] = Callable[[Connection], Coroutine[Any, Any, T]]


class Runner(Protocol):
    """Finds a connection for a verb and runs it there: in this thread, on the store's thread, or in a pool."""

    async def run[T](self, verb: Verb[T], *, write: bool) -> T:
        """Run the verb. `write` says it will change rows, so the runner may take a lock up front."""
        ...

    async def close(self) -> None:
        """Let go of the runner's connections."""
        ...
