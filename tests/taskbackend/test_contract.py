"""The contract of a store, held through Django's cursors: the verbs are the same, the connection is the framework's."""

import shutil
import tempfile
import unittest
from functools import cache
from pathlib import Path
from unittest import mock

import pytest
from django.db import DEFAULT_DB_ALIAS, connections

from tests.contract.test_sqlite import QUICK, empty_store
from tinyjobs.taskbackend.connection import DjangoRunner
from tinyjobs.taskbackend.shared import JoinedStore
from tinyjobs.taskbackend.vendors import find_vendor
from tinyjobs.testing import BackendContract

ALIAS = "contract"


@cache
def vendor():
    return find_vendor("sqlite")


class Tracked(DjangoRunner):
    """Remembers the connections it used, so that they can be closed when their threads are gone."""

    used: set = set()

    async def run(self, verb, *, write):
        self.used.add(connections[ALIAS])
        return await super().run(verb, write=write)


class ThroughDjangoTests(BackendContract, unittest.IsolatedAsyncioTestCase):
    through_sync_face = True

    @pytest.fixture(autouse=True)
    def database(self, django_db_blocker):
        folder = Path(tempfile.mkdtemp(prefix="tinyjobs-contract-", dir=QUICK))
        path = folder / "jobs.db"
        path.write_bytes(empty_store())
        entry = {**connections[DEFAULT_DB_ALIAS].settings_dict, "NAME": str(path)}
        connections.settings[ALIAS] = entry
        with django_db_blocker.unblock():
            yield
            for used in Tracked.used:
                used.inc_thread_sharing()
                used.close()
            Tracked.used.clear()
        del connections.settings[ALIAS]
        shutil.rmtree(folder)

    async def make_backend(self, clock):
        runner = Tracked(ALIAS, vendor().translate)
        return JoinedStore(vendor().dialect, runner, clock=clock, by_server=vendor().by_server)

    async def another_client(self, backend, clock):
        return await self.make_backend(clock)


@pytest.mark.slow
class ThroughDjangosDebugCursorTests(ThroughDjangoTests):
    """With DEBUG every statement goes by a cursor that puts the parameters into a text for the log."""

    @pytest.fixture(autouse=True)
    def debug(self, database):
        with mock.patch("django.db.backends.base.base.BaseDatabaseWrapper.queries_logged", True):
            yield
