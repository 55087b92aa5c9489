"""What the programs on Redis share: their keys are asked by the benchmark's own client, jobs are laid one by one."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING, Any, ClassVar

from measuring import Program

if TYPE_CHECKING:
    from store_redis import RedisStore


class RedisProgram(Program):
    distribution: ClassVar[str]
    store: RedisStore

    def prepare(self) -> None:
        """Most need nothing before the first job."""

    def load_noops(self, jobs: int) -> None:
        for _ in range(jobs):
            self.send_noop()

    def send_noop(self) -> None:
        raise NotImplementedError

    def finished(self) -> int | None:
        return None

    def details(self) -> dict[str, Any]:
        return {"version": version(self.distribution)}

    def length(self, key: str) -> int:
        """How many members a list, hash, sorted set or stream has; 0 for one that is not there."""
        kind: Any = self.store.client.type(key)
        asked = {b"list": "LLEN", b"hash": "HLEN", b"zset": "ZCARD", b"set": "SCARD", b"stream": "XLEN"}.get(kind)
        return 0 if asked is None else int(self.store.client.execute_command(asked, key))
