"""Every command that clients send to a private Redis during a block, without those that scripts call."""

import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.servers.redis import RedisServer


@contextmanager
def watching(server: RedisServer) -> Iterator[list[str]]:
    """The list is whole when the block has ended: the first word of each command, in order."""
    end = uuid.uuid4().hex
    commands: list[str] = []
    client: Any = server.client()
    with client, client.monitor() as monitor:

        def listen() -> None:
            for entry in monitor.listen():
                words = entry["command"].split()
                if end in entry["command"]:
                    return
                if entry["client_type"] != "lua":
                    commands.append(words[0].upper())

        listening = threading.Thread(target=listen, daemon=True)
        listening.start()
        yield commands
        server.execute("ECHO", end)
        listening.join(30)
        assert not listening.is_alive()
