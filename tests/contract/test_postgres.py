"""The contract on Postgres: through the loop's connections, and through the threads'."""

from typing import Any, ClassVar

import pytest

from tests.contract.loops import AsyncCase
from tinyjobs.backends.base import Backend
from tinyjobs.backends.registry import open_backend
from tinyjobs.core.clock import Clock
from tinyjobs.testing import BackendContract

pytestmark = pytest.mark.postgres


@pytest.mark.usefixtures("fresh_database")
class PostgresTests(BackendContract, AsyncCase):
    options: ClassVar[dict[str, Any]] = {}
    url: str

    @pytest.fixture
    def fresh_database(self, postgres_url: str) -> None:
        self.url = postgres_url

    async def make_backend(self, clock: Clock) -> Backend:
        return self.open(clock)

    async def another_client(self, backend: Backend, clock: Clock) -> Backend:
        return self.open(clock)

    def open(self, clock: Clock) -> Backend:
        return open_backend(self.url, clock=clock, **self.options)


class PostgresSyncTests(PostgresTests):
    through_sync_face = True
