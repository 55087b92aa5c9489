"""The contract on SQLite: a file and the memory, the claim in one statement and in the older form."""

import os
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from tests.contract.loops import AsyncCase
from tinyjobs.backends.base import Backend
from tinyjobs.backends.registry import open_backend
from tinyjobs.core.clock import Clock, SystemClock
from tinyjobs.core.inline import finish
from tinyjobs.testing import BackendContract

# Hundreds of files are opened and closed; where the memory can hold them, none of that waits for a disk.
QUICK = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


@cache
def empty_store() -> bytes:
    """A store that was just set up, as a file; copying it is much faster than making one for every test."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "empty.db"
        store = open_backend(f"sqlite:///{path}", clock=SystemClock()).inline()
        finish(store.setup())
        finish(store.close())
        return path.read_bytes()


class SQLiteFileTests(BackendContract, AsyncCase):
    options: ClassVar[dict[str, Any]] = {}

    async def make_backend(self, clock: Clock) -> Backend:
        folder = tempfile.mkdtemp(prefix="tinyjobs-contract-", dir=QUICK)
        self.addCleanup(shutil.rmtree, folder)
        self.path = Path(folder) / "jobs.db"
        self.path.write_bytes(empty_store())
        return self.open(clock)

    async def another_client(self, backend: Backend, clock: Clock) -> Backend:
        return self.open(clock)

    def open(self, clock: Clock) -> Backend:
        return open_backend(f"sqlite:///{self.path}", clock=clock, **self.options)


class SQLiteFileSyncTests(SQLiteFileTests):
    through_sync_face = True


class SQLiteOlderFormTests(SQLiteFileTests):
    options: ClassVar[dict[str, Any]] = {"returning": False}


class SQLiteOlderFormSyncTests(SQLiteOlderFormTests):
    through_sync_face = True


class MemoryTests(BackendContract, AsyncCase):
    independent_clients = False

    async def make_backend(self, clock: Clock) -> Backend:
        return open_backend("memory://", clock=clock)


class MemorySyncTests(MemoryTests):
    through_sync_face = True
