"""The contract on the store that the documentation gives to authors of stores as a start."""

from typing import Any

from tests.contract.loops import AsyncCase
from tests.contract.template import load
from tinyjobs.backends.base import Backend
from tinyjobs.core.clock import Clock
from tinyjobs.testing import BackendContract

TemplateStore: Any = load().TemplateStore


class TemplateStoreTests(BackendContract, AsyncCase):
    async def make_backend(self, clock: Clock) -> Backend:
        return TemplateStore.from_url("template://", clock=clock)

    async def another_client(self, backend: Backend, clock: Clock) -> Backend:
        assert isinstance(backend, TemplateStore)
        return TemplateStore(backend.data, clock=clock)


class TemplateStoreSyncTests(TemplateStoreTests):
    through_sync_face = True
