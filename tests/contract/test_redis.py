"""The contract on Redis: through the loop's connections, and through the threads'."""

from typing import Any, ClassVar

import pytest

from tests.contract.loops import AsyncCase
from tinyjobs.backends.base import Backend
from tinyjobs.backends.registry import open_backend
from tinyjobs.core.clock import Clock
from tinyjobs.testing import BackendContract

pytestmark = pytest.mark.redis


@pytest.mark.usefixtures("fresh_database")
class RedisTests(BackendContract, AsyncCase):
    options: ClassVar[dict[str, Any]] = {}
    url: str

    @pytest.fixture
    def fresh_database(self, redis_url: str) -> None:
        self.url = redis_url

    async def make_backend(self, clock: Clock) -> Backend:
        return self.open(clock)

    async def another_client(self, backend: Backend, clock: Clock) -> Backend:
        return self.open(clock)

    def open(self, clock: Clock) -> Backend:
        return open_backend(self.url, clock=clock, **self.options)


class RedisSyncTests(RedisTests):
    through_sync_face = True
