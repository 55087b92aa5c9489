"""The contract through Django's cursors: on connections of its own, inside a transaction, and with autocommit off."""

import asyncio
import os
import shutil
import tempfile
import unittest
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from tests.contract.test_sqlite import QUICK, empty_store
from tinyjobs.backends.base import Backend
from tinyjobs.backends.sql.backend import SqlBackend
from tinyjobs.backends.sql.connection import Verb
from tinyjobs.core.clock import Clock
from tinyjobs.taskbackend.connection import DjangoRunner
from tinyjobs.taskbackend.vendors import find_vendor
from tinyjobs.testing import BackendContract
from tinyjobs.testing.contract.case import ContractCase
from tinyjobs.testing.contract.control import Control
from tinyjobs.testing.contract.figures import Figures
from tinyjobs.testing.contract.keys import Keys
from tinyjobs.testing.contract.listing import Listing
from tinyjobs.testing.contract.producing import Producing

ALIAS = "contract"


class ProjectRunner(DjangoRunner):
    """Django's connection of the calling thread, as a subclass says; closed with the store."""

    def __init__(self, alias: str, translate: Any) -> None:
        super().__init__(alias, translate)
        self._used: list[BaseDatabaseWrapper] = []

    async def run[T](self, verb: Verb[T], *, write: bool) -> T:
        wrapper = connections[ALIAS]
        if wrapper not in self._used:
            wrapper.inc_thread_sharing()
            self._used.append(wrapper)
            self.prepare(wrapper)
        answer = await super().run(verb, write=write)
        self.after(wrapper)
        return answer

    def prepare(self, wrapper: BaseDatabaseWrapper) -> None:
        """What the project did to the connection before."""

    def after(self, wrapper: BaseDatabaseWrapper) -> None:
        """What the project does after each call."""

    async def close(self) -> None:
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        for wrapper in self._used:
            wrapper.in_atomic_block = False
            wrapper.close()
            wrapper.dec_thread_sharing()
        self._used.clear()


class InsideTransaction(ProjectRunner):
    """As in a TestCase or under ATOMIC_REQUESTS: one transaction around everything. And as under DEBUG: all logged."""

    def prepare(self, wrapper: BaseDatabaseWrapper) -> None:
        wrapper.force_debug_cursor = True
        transaction.atomic(using=ALIAS).__enter__()

    def after(self, wrapper: BaseDatabaseWrapper) -> None:
        assert wrapper.queries_log, "not by Django's cursor"
        wrapper.queries_log.clear()
        assert wrapper.in_atomic_block
        assert not wrapper.needs_rollback, "a verb has spoiled its caller's transaction"
        assert len(wrapper.savepoint_ids) == 0


class AutocommitOff(ProjectRunner):
    """The project commits by hand."""

    def prepare(self, wrapper: BaseDatabaseWrapper) -> None:
        wrapper.set_autocommit(False)

    def after(self, wrapper: BaseDatabaseWrapper) -> None:
        wrapper.commit()


class DjangoStore(SqlBackend):
    """A SQL store over Django's connections."""

    def __init__(self, runner: type[ProjectRunner], clock: Clock) -> None:
        vendor = find_vendor("sqlite")
        assert vendor is not None
        super().__init__(vendor.dialect, runner(ALIAS, vendor.translate), clock=clock, by_server=vendor.by_server)

    def inline(self) -> "DjangoStore":
        return self


@pytest.fixture(autouse=True)
def with_databases(django_db_blocker) -> Iterator[None]:
    with django_db_blocker.unblock():
        yield


class DjangoCase(ContractCase):
    through_sync_face = True
    runner: type[ProjectRunner] = ProjectRunner

    async def make_backend(self, clock: Clock) -> Backend:
        folder = tempfile.mkdtemp(prefix="tinyjobs-contract-", dir=QUICK)
        self.addCleanup(shutil.rmtree, folder)
        path = Path(folder) / "jobs.db"
        path.write_bytes(empty_store())
        settings = connections.settings["default"]
        options = {"transaction_mode": "IMMEDIATE", "timeout": 60}
        connections.settings[ALIAS] = {**settings, "NAME": os.fspath(path), "OPTIONS": options}
        self.addCleanup(connections.settings.pop, ALIAS)
        return DjangoStore(self.runner, clock)

    async def another_client(self, backend: Backend, clock: Clock) -> Backend:
        return DjangoStore(self.runner, clock)


class DjangoCursorTests(DjangoCase, BackendContract, unittest.IsolatedAsyncioTestCase):
    """Connections as a project configures them beside a worker."""


class DjangoTransactionTests(DjangoCase, BackendContract, unittest.IsolatedAsyncioTestCase):
    independent_clients = False
    runner = InsideTransaction


class WhatProjectsCall(Producing, Keys, Control, Listing, Figures):
    """Not a worker's verbs: those have connections of their own, where they may read before they write."""


class DjangoAutocommitOffTests(DjangoCase, WhatProjectsCall, unittest.IsolatedAsyncioTestCase):
    runner = AutocommitOff
