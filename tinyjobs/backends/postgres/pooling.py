"""Tells whether something between here and the server hands out its sessions by the transaction.

Then nothing that belongs to a session holds: settings, prepared statements, LISTEN. What would be set for one of our
statements would stay for somebody else's, so such a connection is refused.
"""

from collections.abc import Awaitable, Callable

from tinyjobs.backends.postgres.connection import PostgresConnection
from tinyjobs.backends.sql.connection import Connection, Verb
from tinyjobs.backends.sql.statements import Statement
from tinyjobs.core.errors import ConfigurationError

# Other clients of the pooler may take the session that would give it away; then one of the next rounds tells.
_ROUNDS = 5


async def refuse_transaction_pooling(
    connection: Connection, session: Statement, apart: Callable[[Verb[None]], Awaitable[None]], where: str
) -> None:
    """Raise `ConfigurationError` where two connections share a session, or one changes it.

    `session` asks for the number of the session. `apart` runs a verb on one more connection; it is not called where
    nothing stands in between.
    """
    assert isinstance(connection, PostgresConnection)
    mine = {await _number(connection, session)}
    if mine == {connection.announced}:
        return

    async def compare(other: Connection) -> None:
        others = {await _number(other, session)}
        for _ in range(_ROUNDS):
            if mine & others or len(mine) > 1 or len(others) > 1:
                raise ConfigurationError(
                    f"{where} leads to a pooler in transaction mode, such as PgBouncer with pool_mode = transaction, "
                    f"where settings, prepared statements and LISTEN do not last. Use session pooling, or a direct "
                    f"connection for workers."
                )
            mine.add(await _number(connection, session))
            others.add(await _number(other, session))

    await apart(compare)


async def _number(connection: Connection, session: Statement) -> int:
    ((number,),) = await connection.fetch(session)
    return int(number)
