"""The contract through Django's cursors: on connections of its own, inside a transaction, and with autocommit off; on
Postgres also with parameters that the server binds, and with connections of Django's pool.
"""

import asyncio
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qsl, unquote, urlsplit

import psycopg
import pytest
from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.postgresql.base import DatabaseWrapper

from tests.contract.loops import AsyncCase
from tests.contract.test_sqlite import QUICK, empty_store
from tests.servers.postgres import Server
from tinyjobs.backends.base import Backend
from tinyjobs.backends.registry import open_backend
from tinyjobs.backends.sql.backend import SqlBackend
from tinyjobs.backends.sql.connection import Verb
from tinyjobs.core.clock import Clock, SystemClock
from tinyjobs.core.errors import DataRefusedError, StoreError
from tinyjobs.core.inline import finish
from tinyjobs.core.job import Job
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
        self.logged = 0

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


class Logged(ProjectRunner):
    """As under DEBUG: every statement goes by a cursor that puts the parameters into a text for the log."""

    def prepare(self, wrapper: BaseDatabaseWrapper) -> None:
        wrapper.force_debug_cursor = True

    def after(self, wrapper: BaseDatabaseWrapper) -> None:
        self.logged += len(wrapper.queries_log)
        wrapper.queries_log.clear()

    def _close(self) -> None:
        assert self.logged or not self._used, "not by Django's cursor"
        super()._close()


class InsideTransaction(Logged):
    """As in a TestCase or under ATOMIC_REQUESTS: one transaction around everything. And as under DEBUG: all logged."""

    def prepare(self, wrapper: BaseDatabaseWrapper) -> None:
        super().prepare(wrapper)
        transaction.atomic(using=ALIAS).__enter__()

    def after(self, wrapper: BaseDatabaseWrapper) -> None:
        super().after(wrapper)
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

    def __init__(self, vendor_name: str, runner: type[ProjectRunner], clock: Clock) -> None:
        vendor = find_vendor(vendor_name)
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
    vendor: ClassVar[str]
    runner: type[ProjectRunner] = ProjectRunner

    def entry(self) -> dict[str, Any]:
        """What DATABASES says of an empty database that is laid out."""
        raise NotImplementedError

    async def make_backend(self, clock: Clock) -> Backend:
        # Django fills in what is not said.
        connections.settings[ALIAS] = {**connections.settings["default"], **self.entry()}
        self.addCleanup(connections.settings.pop, ALIAS)
        return DjangoStore(self.vendor, self.runner, clock)

    async def another_client(self, backend: Backend, clock: Clock) -> Backend:
        return DjangoStore(self.vendor, self.runner, clock)


class SQLiteCase(DjangoCase):
    vendor = "sqlite"

    def entry(self) -> dict[str, Any]:
        folder = tempfile.mkdtemp(prefix="tinyjobs-contract-", dir=QUICK)
        self.addCleanup(shutil.rmtree, folder)
        path = Path(folder) / "jobs.db"
        path.write_bytes(empty_store())
        options = {"transaction_mode": "IMMEDIATE", "timeout": 60}
        return {"ENGINE": "django.db.backends.sqlite3", "NAME": os.fspath(path), "OPTIONS": options}


@pytest.mark.usefixtures("laid_out")
class PostgresCase(DjangoCase):
    vendor = "postgresql"
    options: ClassVar[dict[str, Any]] = {}
    url: ClassVar[str]

    @pytest.fixture(scope="class")
    @classmethod
    def laid_out(cls, postgres_cluster: Server) -> Iterator[None]:
        name = postgres_cluster.create_database()
        cls.url = postgres_cluster.url(name)
        store = open_backend(cls.url, clock=SystemClock()).inline()
        finish(store.setup())
        finish(store.close())
        yield
        postgres_cluster.drop_database(name)

    def entry(self) -> dict[str, Any]:
        with psycopg.connect(self.url) as connection:
            kinds = ("jobs", "executions", "schedules", "limits", "workers", "tallies")
            connection.execute(f"TRUNCATE {', '.join(f'tinyjobs_{kind}' for kind in kinds)}")
        place = urlsplit(self.url)
        return {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": place.path[1:],
            "HOST": unquote(place.hostname or ""),
            "PORT": str(place.port or ""),
            "USER": unquote(place.username or ""),
            "PASSWORD": unquote(place.password or ""),
            "OPTIONS": {**dict(parse_qsl(place.query)), **self.options},
        }


class WhatProjectsCall(Producing, Keys, Control, Listing, Figures):
    """Not a worker's verbs: those have connections of their own, where they may read before they write."""


class DjangoCursorTests(SQLiteCase, BackendContract, AsyncCase):
    """Connections as a project configures them beside a worker."""


class DjangoTransactionTests(SQLiteCase, BackendContract, AsyncCase):
    independent_clients = False
    runner = InsideTransaction


@pytest.mark.slow
class DjangoDebugCursorTests(SQLiteCase, BackendContract, AsyncCase):
    runner = Logged


class DjangoAutocommitOffTests(SQLiteCase, WhatProjectsCall, AsyncCase):
    runner = AutocommitOff


class ErrorsEndTransactions(ContractCase):
    """Whoever has a transaction open on Postgres knows that an error ends it, whatever statement it was."""

    async def test_an_id_is_never_taken_twice(self) -> None:
        there = await self.running()
        await self.assert_refused(there)

    async def test_a_failed_enqueue_leaves_the_store_usable(self) -> None:
        await self.assert_refused(await self.put())

    async def assert_refused(self, there: Job) -> None:
        with self.assertRaises(DataRefusedError):
            await self.store.enqueue(replace(self.job(), id=there.id))
        with self.assertRaisesRegex(StoreError, "transaction is aborted"):
            await self.put()


class PostgresCursorTests(PostgresCase, BackendContract, AsyncCase):
    """As a project has it that sets nothing: the driver writes parameters into the statement."""


class PostgresTransactionTests(ErrorsEndTransactions, PostgresCase, BackendContract, AsyncCase):
    independent_clients = False
    runner = InsideTransaction


class PostgresServerSideBindingTests(PostgresCase, BackendContract, AsyncCase):
    options: ClassVar[dict[str, Any]] = {"server_side_binding": True}


class PostgresServerSideTransactionTests(PostgresTransactionTests):
    options: ClassVar[dict[str, Any]] = {"server_side_binding": True}


@pytest.mark.slow
class PostgresDebugCursorTests(PostgresCase, BackendContract, AsyncCase):
    runner = Logged


class PostgresAutocommitOffTests(ErrorsEndTransactions, PostgresCase, WhatProjectsCall, AsyncCase):
    runner = AutocommitOff


class PostgresPoolTests(PostgresCase, WhatProjectsCall, AsyncCase):
    options: ClassVar[dict[str, Any]] = {"pool": {"min_size": 1, "max_size": 12}}

    @pytest.fixture(autouse=True)
    def without_the_pool(self, laid_out: None) -> Iterator[None]:
        yield
        for pool in [pool for alias, pool in DatabaseWrapper._connection_pools.items() if alias == ALIAS]:
            del DatabaseWrapper._connection_pools[ALIAS]
            pool.close()


class PostgresSerializableTests(PostgresCase, WhatProjectsCall, AsyncCase):
    """A project that raised the isolation level of its connections. Races may be refused, so there are none."""

    independent_clients = False
    options: ClassVar[dict[str, Any]] = {"isolation_level": psycopg.IsolationLevel.SERIALIZABLE}
