"""How a worker opens a project's Postgres: as the project does, with what the settings say at that moment."""

import asyncio
from contextlib import contextmanager

import psycopg
import pytest
from django.core.management import call_command
from django.db import transaction
from django.tasks.exceptions import TaskResultDoesNotExist
from django.test import override_settings
from psycopg import sql

from tests.crash.wrong_clocks import ShiftedClock
from tests.taskbackend.shop import tasks
from tests.taskbackend.tables import names_in
from tests.taskbackend.tokens.base import DatabaseWrapper as TokenWrapper
from tinyjobs.backends.sql.statements import make_statement
from tinyjobs.core.clock import SystemClock
from tinyjobs.core.errors import ConfigurationError, SchemaMissingError
from tinyjobs.core.inline import finish
from tinyjobs.core.job import ClaimRequest, Job
from tinyjobs.models import Job as JobModel
from tinyjobs.runtime.driving import drive
from tinyjobs.runtime.settings import WorkerSettings
from tinyjobs.taskbackend.backend import backend_of
from tinyjobs.taskbackend.shared import use_clock
from tinyjobs.taskbackend.working import open_store, open_worker

pytestmark = pytest.mark.postgres


@contextmanager
def jobs_in(alias, **options):
    options = {"database": alias, **options}
    with override_settings(TASKS={"default": {"BACKEND": "tinyjobs.TinyJobsBackend", "OPTIONS": options}}):
        yield backend_of("default").shared


def ask(question, *, alias="scratch", times=1, **options):
    """What the worker's own connections answer."""

    async def run(store):
        try:
            await store.setup()
            statement = make_statement("question", question)
            answers = [
                await store._runner.run(lambda connection: connection.fetch(statement), write=False)
                for _ in range(times)
            ]
            return [answer[0] for answer in answers]
        finally:
            await store.close()

    with jobs_in(alias, **options) as shared:
        return asyncio.run(run(open_store(shared)))


def migrate():
    call_command("migrate", "tinyjobs", database="scratch", verbosity=0)


APPLICATION_NAME = make_statement("name", "SELECT current_setting('application_name')")
SESSION = """
    SELECT current_setting('transaction_isolation'), current_setting('application_name'), current_setting('jit'),
        current_setting('search_path'), current_database(), current_user
"""


def test_how_django_sends_statements_is_not_how_a_worker_does(scratch, monkeypatch):
    migrate()
    scratch.close()
    changes = {
        "pool": {"min_size": 1, "max_size": 2},
        "server_side_binding": True,
        "isolation_level": psycopg.IsolationLevel.SERIALIZABLE,
        "prepare_threshold": 1,
        "cursor_factory": psycopg.ClientCursor,
        "application_name": "the shop's",
    }
    monkeypatch.setitem(scratch.settings_dict, "OPTIONS", changes)
    ((isolation, name, jit, path, database, _),) = ask(SESSION)

    assert (isolation, name, jit) == ("read committed", "the shop's", "off")
    assert path == "pg_catalog, pg_temp"
    assert database == scratch.settings_dict["NAME"]


def test_before_migrate_the_worker_says_what_is_missing(scratch):
    with pytest.raises(SchemaMissingError, match="migrate"):
        ask(SESSION)
    assert names_in(scratch) == set()
    migrate()
    assert ask(SESSION)


@pytest.fixture
def role(scratch, postgres_cluster):
    name = f"o'hara {scratch.settings_dict['NAME']}"
    quoted = sql.Identifier(name)
    postgres_cluster.execute(sql.SQL("CREATE ROLE {}").format(quoted))
    yield name
    scratch.close()
    with psycopg.connect(postgres_cluster.url(scratch.settings_dict["NAME"]), autocommit=True) as connection:
        connection.execute(sql.SQL("DROP OWNED BY {}").format(quoted))
    postgres_cluster.execute(sql.SQL("DROP ROLE {}").format(quoted))


def test_a_role_is_taken_on(scratch, role):
    migrate()
    with scratch.cursor() as cursor:
        quoted = scratch.ops.quote_name(role)
        for statement in (
            f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {quoted}",
            f"GRANT USAGE ON SCHEMA public TO {quoted}",
        ):
            cursor.execute(statement)
    scratch.settings_dict["OPTIONS"] = {"assume_role": role}

    ((*_, user),) = ask(SESSION)
    assert user == role


def test_services_and_password_files(scratch, tmp_path, monkeypatch):
    migrate()
    place = scratch.settings_dict
    (tmp_path / "services").write_text(
        f"[shop]\nhost={place['HOST']}\nport={place['PORT']}\nuser={place['USER']}\ndbname={place['NAME']}\n"
    )
    monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / "services"))
    name = place["NAME"]
    place.update(NAME="", HOST="", PORT="", USER="", PASSWORD="")
    place["OPTIONS"] = {"service": "shop", "passfile": str(tmp_path / "passwords")}

    ((*_, database, _),) = ask(SESSION)
    assert database == name


def test_another_engine_is_asked_at_each_connect(scratch):
    migrate()
    scratch.settings_dict["ENGINE"] = "tests.taskbackend.tokens"
    TokenWrapper.asked = 0

    async def run(store):
        try:
            await store.setup()
            meet = asyncio.Barrier(2)

            async def name(connection):
                ((told,),) = await connection.fetch(
                    make_statement("name", "SELECT current_setting('application_name')")
                )
                await meet.wait()  # so that each has a connection of its own
                return told

            return await asyncio.gather(*(store._runner.run(name, write=False) for _ in range(2)))
        finally:
            await store.close()

    with jobs_in("scratch") as shared:
        names = asyncio.run(asyncio.wait_for(run(open_store(shared)), 20))
    assert len(set(names)) == 2
    assert set(names) <= {f"token {number}" for number in range(1, TokenWrapper.asked + 1)}


def test_settings_that_change_hold_for_the_next_connection(scratch):
    migrate()
    place = scratch.settings_dict

    async def run(store):
        try:
            place["OPTIONS"]["application_name"] = "before"
            await store.setup()
            place["OPTIONS"]["application_name"] = "after"
            return await store._runner.run(lambda connection: connection.fetch(APPLICATION_NAME), write=False)
        finally:
            await store.close()

    with jobs_in("scratch") as shared:
        assert asyncio.run(run(open_store(shared))) == [("after",)]


def test_a_driver_that_runs_no_worker_is_refused_and_can_send(scratch, monkeypatch):
    class psycopg2:
        pass

    migrate()
    monkeypatch.setattr(type(scratch), "Database", psycopg2)
    with jobs_in("scratch") as shared:
        with pytest.raises(ConfigurationError, match=r"psycopg2.*psycopg\[binary,pool\]"):
            open_store(shared)
        result = tasks.add.enqueue(1, 2)
        assert JobModel.objects.using("scratch").get().pk == result.id


def test_the_options_reach_the_store(scratch):
    migrate()
    ((timeout,),) = ask("SELECT current_setting('statement_timeout')", statement_timeout=7, max_connections=2)
    assert timeout == "7s"
    with jobs_in("scratch", min_connections=2, max_connections=3, pool_timeout=2, notify=False) as shared:
        options = open_store(shared).options
    assert (options.min_connections, options.max_connections, options.pool_timeout, options.notify) == (2, 3, 2, False)


def test_the_tables_are_where_the_search_path_says(scratch, postgres_url):
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA shop")
    scratch.settings_dict["OPTIONS"] = {"options": "-c search_path=shop,public"}
    migrate()
    with psycopg.connect(postgres_url) as connection:
        found = connection.execute("SELECT schemaname FROM pg_tables WHERE tablename = 'tinyjobs_jobs'").fetchall()
    assert found == [("shop",)]

    with jobs_in("scratch"):
        result = tasks.add.enqueue(1, 2)
        with open_worker(settings=WorkerSettings(until_empty=True, handle_signals=False)) as worker:
            assert drive(worker).succeeded == 1
        result.refresh()
        assert result.return_value == 3


def test_a_job_that_outlives_the_transaction_it_was_sent_in(scratch, postgres_url):
    migrate()
    ours = "tinyjobs.TinyJobsBackend"
    now = {"url": f"{postgres_url}?prefix=at_once", "enqueue_on_commit": False}
    both = {
        "default": {"BACKEND": ours, "OPTIONS": {"database": "scratch"}},
        "now": {"BACKEND": ours, "OPTIONS": now},
    }
    with override_settings(TASKS=both):
        with pytest.raises(ZeroDivisionError), transaction.atomic(using="scratch"):
            gone = tasks.add.enqueue(1)
            kept = tasks.add.using(backend="now").enqueue(2)
            raise ZeroDivisionError
        with pytest.raises(TaskResultDoesNotExist):
            tasks.add.get_result(gone.id)
        assert tasks.add.using(backend="now").get_result(kept.id).args == [2]
        with open_worker("now", WorkerSettings(until_empty=True, handle_signals=False)) as worker:
            assert drive(worker).succeeded == 1
        finish(backend_of("now").shared.home.inline().close())


@pytest.mark.parametrize("by", [600.0, -600.0])
def test_a_host_whose_clock_is_wrong_sends_jobs_that_are_due_at_once(scratch, by):
    migrate()
    use_clock(ShiftedClock(by))
    try:
        with jobs_in("scratch"):
            tasks.add.enqueue(1)
            tasks.add.using(key="k").enqueue(2)
            tasks.add.enqueue_many([(3,), (4,)])
    finally:
        use_clock(None)

    async def take(store):
        try:
            await store.setup()
            return (await store.claim(ClaimRequest(worker_id="w", limit=9, lease=60.0))).jobs
        finally:
            await store.close()

    with jobs_in("scratch") as shared:
        jobs: list[Job] = asyncio.run(take(open_store(shared)))
    assert len(jobs) == 4
    assert all(abs(job.run_at - SystemClock().now()) < 60 for job in jobs)
