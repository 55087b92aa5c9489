"""The tables in a Django database: what migrate makes, what the models say of it, and what a project without has."""

import io
import os
import subprocess
import sys

import pytest
from django.core.checks import run_checks
from django.core.management import call_command
from django.db import connection, models, router
from django.db.migrations import Migration
from django.test import TransactionTestCase, override_settings

from tests.taskbackend.shop import tasks
from tests.taskbackend.tables import made_by_ddl, names_in, schema
from tinyjobs.backends.registry import open_backend
from tinyjobs.core.clock import SystemClock
from tinyjobs.core.errors import ConfigurationError
from tinyjobs.core.inline import finish
from tinyjobs.models import Execution, Job, Limit, Schedule, Tally, Worker
from tinyjobs.taskbackend import layout
from tinyjobs.testing import drain

MODELS = (Job, Execution, Schedule, Limit, Worker, Tally)
KINDS = {
    "sqlite": {
        models.CharField: "TEXT",
        models.TextField: "TEXT",
        models.FloatField: "REAL",
        models.BigIntegerField: "INTEGER",
        models.IntegerField: "INTEGER",
        models.BooleanField: "INTEGER",
        models.BinaryField: "BLOB",
        models.ForeignKey: "TEXT",
    },
    "postgresql": {
        models.CharField: "text",
        models.TextField: "text",
        models.FloatField: "double precision",
        models.BigIntegerField: "bigint",
        models.IntegerField: "integer",
        models.BooleanField: "boolean",
        models.BinaryField: "bytea",
        models.ForeignKey: "text",
    },
}
# What the models say for other stores, and what is a store's own: how it finds leases that have run out.
NOT_THERE = {"sqlite": set(), "postgresql": {"tinyjobs_jobs_lease"}}
ITS_OWN = {"sqlite": set(), "postgresql": {"tinyjobs_jobs_running"}}


class InstalledTests(TransactionTestCase):
    """With migrations and without them the tables end up the same."""

    @pytest.mark.sqlite
    def test_the_tables_are_those_of_the_ddl(self):
        self.assertEqual(schema(connection), made_by_ddl(connection))

    @pytest.mark.postgres
    def test_the_tables_are_as_the_ddl_means_them(self):
        made = schema(connection)
        self.assertEqual(made.keys() - set(made_by_ddl(connection)), {name for name in made if name.endswith("_pkey")})
        kind, options, _, told, constraints = made["tinyjobs_jobs"]
        self.assertEqual((kind, constraints), ("r", ["PRIMARY KEY (id)"]))
        self.assertIn("fillfactor=85", options)
        self.assertIn("autovacuum_vacuum_scale_factor=0.02", options)
        collated = {column.split()[0] for column in told if " text C " in column or column.endswith(" text C")}
        self.assertLessEqual({"id", "task", "queue", "status", "active_key", "worker_id", "waiting_on"}, collated)
        partial = {name for name, (_, _, text, *_) in made.items() if text and " WHERE " in text}
        hot = {"ready", "due", "running", "waiting", "held", "key", "ended", "unsuccessful"}
        self.assertLessEqual({f"tinyjobs_jobs_{name}" for name in hot}, partial)
        self.assertFalse([name for name, (_, _, text, *_) in made.items() if text and "lease_expires_at" in text])

    def test_the_meta_table_tells_the_layout(self):
        with connection.cursor() as cursor:
            cursor.execute("SELECT key, value FROM tinyjobs_meta", ())
            meta = dict(cursor.fetchall())
        self.assertEqual((meta["layout"], meta["schema_version"]), ("tinyjobs-django", "1"))

    def test_the_models_describe_the_columns(self):
        for model in MODELS:
            with self.subTest(model=model.__name__), connection.cursor() as cursor:
                real = columns(cursor, model._meta.db_table)
                kinds = KINDS[connection.vendor]
                fields = [field for field in model._meta.local_fields if field.column is not None]
                told = {
                    field.column: (
                        next(kinds[kind] for kind in type(field).__mro__ if kind in kinds),
                        not field.null,
                    )
                    for field in fields
                }
                self.assertEqual(told, real)

    def test_the_models_describe_the_primary_keys(self):
        for model in MODELS:
            with self.subTest(model=model.__name__), connection.cursor() as cursor:
                found = connection.introspection.get_constraints(cursor, model._meta.db_table)
                (key,) = (entry["columns"] for entry in found.values() if entry["primary_key"])
                self.assertEqual([field.column for field in model._meta.pk_fields], key)

    def test_the_models_describe_the_indexes(self):
        by_ddl = {name: bare(sql) for name, sql in made_by_ddl(connection).items() if " INDEX " in sql}
        by_models = indexes_made_from_models()
        not_there, its_own = NOT_THERE[connection.vendor], ITS_OWN[connection.vendor]

        self.assertEqual((not_there - by_models.keys(), its_own - by_ddl.keys()), (set(), set()))
        self.assertEqual(
            {name: sql for name, sql in by_models.items() if name not in not_there},
            {name: sql for name, sql in by_ddl.items() if name not in its_own},
        )

    @override_settings(MIGRATION_MODULES={})
    def test_no_migration_is_missing(self):
        call_command("makemigrations", "tinyjobs", check=True, dry_run=True, verbosity=0)

    def test_the_models_can_be_read(self):
        result = tasks.add.enqueue(1)
        job = Job.objects.get(pk=result.id)
        Execution.objects.create(job=job, claim=1, attempt=1, status="success", worker_id="w", started_at=1.0)

        self.assertEqual(job.executions.get().pk, (job.id, 1))
        self.assertIn("add", str(job))
        job.delete()
        self.assertEqual(Execution.objects.count(), 0)


def columns(cursor, table):
    """The type of each column, and whether it must have a value."""
    if connection.vendor == "sqlite":
        cursor.execute(f"SELECT name, type, \"notnull\" FROM pragma_table_info('{table}')", ())
    else:
        cursor.execute(
            "SELECT attname, format_type(atttypid, atttypmod), attnotnull FROM pg_attribute"
            " WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped",
            [table],
        )
    return {name: (kind, bool(notnull)) for name, kind, notnull in cursor.fetchall()}


def indexes_made_from_models():
    editor = connection.schema_editor(collect_sql=True)
    return {
        index.name: bare(str(index.create_sql(model, editor)))
        for model in MODELS
        for index in (*model._meta.indexes, *model._meta.constraints)
    }


def bare(sql):
    """The statement without quotes, and without the parentheses that Django puts around some conditions."""
    head, where, condition = sql.replace('"', "").partition(" WHERE ")
    return head + where + condition.strip("()")


def migrate(*args, **options):
    output = io.StringIO()
    call_command("migrate", *args, database="scratch", stdout=output, **options)
    return output.getvalue()


@pytest.mark.database
def test_migrate_there_and_back(scratch):
    migrate("tinyjobs")
    assert names_in(scratch) >= set(made_by_ddl(scratch))
    migrate("tinyjobs", "zero")
    assert names_in(scratch) == set()
    migrate("tinyjobs")
    assert names_in(scratch) >= set(made_by_ddl(scratch))


@pytest.mark.postgres
def test_with_migrations_and_without_the_tables_are_those_that_the_store_makes(scratch, scratch_url, settings):
    migrate("tinyjobs")
    migrated = schema(scratch)
    migrate("tinyjobs", "zero")
    settings.MIGRATION_MODULES = {"tinyjobs": None}
    migrate(run_syncdb=True)
    synced = schema(scratch)
    settings.MIGRATION_MODULES = {}
    migrate("tinyjobs", "zero")
    with scratch.cursor() as cursor:
        for table in [name for name, (kind, *_) in schema(scratch).items() if kind == "r"]:
            cursor.execute(f"DROP TABLE {table}")
    store = open_backend(scratch_url, clock=SystemClock()).inline()
    finish(store.setup())
    finish(store.close())

    assert migrated == synced == schema(scratch)


@pytest.mark.database
def test_without_migrations_a_table_that_others_point_to_stays(scratch, settings):
    settings.MIGRATION_MODULES = {"tinyjobs": None}
    with scratch.schema_editor() as editor:
        for model in MODELS:
            editor.create_model(model)
        editor.execute("CREATE TABLE shop_review (job_id varchar(36) NOT NULL REFERENCES tinyjobs_jobs (id))")
    migrate(run_syncdb=True)
    assert names_in(scratch) >= set(made_by_ddl(scratch))

    settings.TASKS = {"default": {"BACKEND": "tinyjobs.TinyJobsBackend", "OPTIONS": {"database": "scratch"}}}
    tasks.add.using(key="k").enqueue(1, 2)
    result = tasks.add.using(key="k").enqueue(1, 2)
    assert result.existing
    assert drain() == 1
    with scratch.cursor() as cursor:
        cursor.execute("INSERT INTO shop_review VALUES (%s)", [result.id])


@pytest.mark.sqlite
@pytest.mark.database
def test_migrate_leaves_the_journal_as_it_is(scratch):
    scratch.settings_dict["OPTIONS"] = {}
    migrate("tinyjobs")
    with scratch.cursor() as cursor:
        cursor.execute("PRAGMA journal_mode")
        assert cursor.fetchone() == ("delete",)


@pytest.mark.database
def test_tables_that_another_program_laid_out_are_taken_over(scratch, scratch_url):
    store = open_backend(scratch_url, clock=SystemClock()).inline()
    finish(store.setup())
    finish(store.close())
    tables = schema(scratch)

    migrate("tinyjobs")
    assert schema(scratch) == tables
    assert names_in(scratch) >= set(made_by_ddl(scratch))


@pytest.mark.database
def test_tables_of_another_package_are_refused(scratch):
    with scratch.cursor() as cursor:
        cursor.execute("CREATE TABLE tinyjobs_meta (key TEXT PRIMARY KEY, value TEXT)")
        cursor.execute("CREATE TABLE tinyjobs_jobs (id TEXT)")
        cursor.execute("INSERT INTO tinyjobs_meta VALUES ('schema_version', '3')")
    with pytest.raises(ConfigurationError, match="did not lay out"):
        migrate("tinyjobs")


@pytest.mark.database
def test_a_lost_index_is_reported_and_put_back_by_migrate(scratch, settings):
    migrate("tinyjobs")
    settings.TASKS = {"default": {"BACKEND": "tinyjobs.TinyJobsBackend", "OPTIONS": {"database": "scratch"}}}
    with scratch.cursor() as cursor:
        cursor.execute("DROP INDEX tinyjobs_jobs_key")

    assert [found.id for found in run_checks(databases=["scratch"]) if "tinyjobs_jobs_key" in found.msg] == [
        "tinyjobs.W004"
    ]
    migrate()
    assert not [found for found in run_checks(databases=["scratch"]) if "tinyjobs_jobs_key" in found.msg]


@pytest.mark.database
def test_a_lost_meta_table_heals(scratch):
    migrate("tinyjobs")
    with scratch.cursor() as cursor:
        cursor.execute("DROP TABLE tinyjobs_meta")
    migrate("tinyjobs")
    assert "tinyjobs_meta" in names_in(scratch)


@pytest.mark.database
def test_lost_tallies_are_counted_anew(scratch):
    migrate("tinyjobs")
    with scratch.cursor() as cursor:
        cursor.execute("DROP TABLE tinyjobs_tallies")
        cursor.execute(
            "INSERT INTO tinyjobs_jobs (id, task, queue, status, run_at, created_at, finished_at, payload)"
            " VALUES ('a', 't', 'q', 'failed', 1, 1, 2, ''), ('b', 't', 'q', 'queued', 1, 1, NULL, '')"
        )
    for _ in range(2):
        migrate("tinyjobs")
        with scratch.cursor() as cursor:
            cursor.execute("SELECT success, failed, cancelled FROM tinyjobs_tallies")
            assert cursor.fetchall() == [(0, 1, 0)]


@pytest.mark.database
def test_without_migrations_empty_tables_are_replaced_and_full_ones_completed(scratch, settings):
    settings.MIGRATION_MODULES = {"tinyjobs": None}
    with scratch.schema_editor() as editor:
        for model in MODELS:
            editor.create_model(model)
    with scratch.cursor() as cursor:
        cursor.execute("DROP INDEX tinyjobs_jobs_by_queue")
        cursor.execute("INSERT INTO tinyjobs_limits (task) VALUES ('kept')")
    migrate(run_syncdb=True)

    with scratch.cursor() as cursor:
        cursor.execute("SELECT task, last_at FROM tinyjobs_limits")
        assert cursor.fetchall() == [("kept", 0.0)]
    made = schema(scratch)
    settings.MIGRATION_MODULES = {}
    with scratch.cursor() as cursor:
        cursor.execute("DELETE FROM tinyjobs_limits")
        cursor.execute("DROP TABLE tinyjobs_meta")
    migrate(fake=True)
    migrate()
    expected = schema(scratch)
    different = {name for name in expected if made.get(name) != expected[name]}
    assert "tinyjobs_limits" in different
    assert different <= {"tinyjobs_limits", "tinyjobs_limits_pkey"}


@pytest.mark.database
def test_without_migrations_plain_migrate_is_enough(scratch, settings):
    settings.MIGRATION_MODULES = {"tinyjobs": None}
    migrate()
    assert names_in(scratch) >= set(made_by_ddl(scratch))


@pytest.mark.database
def test_a_router_keeps_the_tables_out(scratch, settings):
    class NotThere:
        def allow_migrate(self, db, app_label, **hints):
            return False if app_label == "tinyjobs" else None

    settings.DATABASE_ROUTERS = [NotThere()]
    migrate("tinyjobs")
    assert names_in(scratch) == set()


@pytest.mark.database
def test_our_router_keeps_them_where_the_jobs_are(scratch, settings):
    settings.DATABASE_ROUTERS = ["tinyjobs.taskbackend.router.JobsRouter"]
    migrate("tinyjobs")
    assert names_in(scratch) == set()

    ours = "tinyjobs.TinyJobsBackend"
    settings.TASKS = {
        "default": {"BACKEND": ours},
        "second": {"BACKEND": ours, "OPTIONS": {"database": "scratch"}},
        "elsewhere": {"BACKEND": "django.tasks.backends.dummy.DummyBackend"},
    }
    migrate("tinyjobs")  # although the first run was noted as done
    assert names_in(scratch) >= set(made_by_ddl(scratch))
    assert Job.objects.all().db == "default"  # with two databases it has no opinion

    settings.TASKS = {"default": {"BACKEND": ours, "OPTIONS": {"url": "memory://"}}}
    assert router.allow_migrate("scratch", "tinyjobs", model_name="job")
    assert router.allow_migrate("scratch", "shop")


@pytest.mark.database
def test_a_database_no_store_supports_is_left_alone_and_told_of(scratch, monkeypatch):
    monkeypatch.setattr(type(scratch), "vendor", "mysql")
    migrate("tinyjobs")
    # What it says is asked for directly: pytest-django silences `migrate` in a run without migrations.
    said = io.StringIO()
    layout.complete_layout(using="scratch", stdout=said, plan=[(Migration("0001_initial", "tinyjobs"), False)])
    assert "mysql cannot hold jobs" in said.getvalue()
    monkeypatch.undo()
    assert names_in(scratch) == set()


@pytest.mark.database
def test_the_statements_can_be_read_beforehand(scratch):
    output = io.StringIO()
    call_command("sqlmigrate", "tinyjobs", "0001", database="scratch", stdout=output)
    assert "CREATE TABLE tinyjobs_jobs" in output.getvalue()
    assert "'tinyjobs-django'" in output.getvalue()


@pytest.mark.database
def test_nothing_is_asked_of_the_database_when_the_app_loads():
    code = (
        "import django; from django.db.backends.base.base import BaseDatabaseWrapper as W\n"
        "def refuse(self): raise AssertionError('a connection was opened')\n"
        "W.ensure_connection = refuse\n"
        "django.setup()\nimport tests.taskbackend.shop.tasks, tinyjobs.models\n"
    )
    subprocess.run(
        [sys.executable, "-c", code], check=True, env={**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings.tools"}
    )
