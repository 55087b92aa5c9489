"""A store of Redis with a client beside it, which may do by hand what no call of the store's does."""

from typing import Any

import redis

from tinyjobs.backends.registry import open_backend
from tinyjobs.core.inline import finish
from tinyjobs.core.job import ClaimRequest, Job
from tinyjobs.testing import FrozenClock

LEASE = 30.0


class Handled:
    """The store and the client, on one database."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.clock = FrozenClock()
        self.store: Any = open_backend(url, clock=self.clock).inline()
        finish(self.store.setup())
        self.client = redis.Redis.from_url(url)

    def close(self) -> None:
        self.client.close()
        finish(self.store.close())

    def job(self, number: int, **fields: Any) -> Job:
        """One that is due; its id is of that number."""
        now = self.clock.now()
        return Job(
            id=f"{number:08x}-0000-7000-8000-{number:012x}", task="t", payload=b"[]", max_attempts=3, run_at=now,
            created_at=now, **fields,
        )  # fmt: skip

    def claim(self, limit: int = 9, **how: Any) -> list[Job]:
        return list(finish(self.store.claim(ClaimRequest(worker_id="w", limit=limit, lease=LEASE, **how))).jobs)
