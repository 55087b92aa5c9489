"""Indexes of a Django database that are gone or no good: a check and a worker's start say it, `migrate` builds them."""

import io

import psycopg
import pytest
from django.core.checks import run_checks
from django.core.management import CommandError, call_command
from django.db import transaction

from tests.taskbackend.projects import Project, until
from tests.taskbackend.tables import schema

pytestmark = pytest.mark.postgres

INVALID = "UPDATE pg_index SET indisvalid = false WHERE indexrelid = '{}'::regclass"
KEY_GONE = "ALTER TABLE tinyjobs_executions DROP CONSTRAINT tinyjobs_executions_pkey"


def migrate():
    call_command("migrate", database="scratch", stdout=io.StringIO())


@pytest.fixture
def migrated(scratch, settings):
    settings.TASKS = {"default": {"BACKEND": "tinyjobs.TinyJobsBackend", "OPTIONS": {"database": "scratch"}}}
    migrate()
    return scratch


def said():
    findings = [found for found in run_checks(databases=["scratch"]) if "scratch" in found.msg]
    # How the server as a whole is set up is the matter of another check.
    return [(found.id, found.msg, found.hint) for found in findings if found.id != "tinyjobs.W006"]


def run(connection, *statements):
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


@pytest.mark.parametrize(
    ("done", "lacks"),
    [
        (INVALID.format("tinyjobs_jobs_key"), "tinyjobs_jobs_key (not valid)"),
        (KEY_GONE, "the primary key of tinyjobs_executions"),
        ("DROP INDEX tinyjobs_jobs_due", "tinyjobs_jobs_due"),
        (
            "DROP INDEX tinyjobs_jobs_due; CREATE INDEX tinyjobs_jobs_due ON tinyjobs_jobs (id)",
            "tinyjobs_jobs_due (over id, not due_at, id)",
        ),
    ],
)
def test_the_check_says_it_and_migrate_builds_it(migrated, done, lacks):
    before = schema(migrated)
    assert said() == []
    run(migrated, *done.split("; "))
    assert said() == [
        (
            "tinyjobs.W004",
            f"DATABASES['scratch'] lacks tables or indexes of tinyjobs: {lacks}.",
            "`manage.py migrate` puts them back.",
        )
    ]
    migrate()
    assert said() == []
    assert schema(migrated) == before


def test_inside_a_transaction_migrate_makes_what_is_missing(migrated):
    run(migrated, "DROP INDEX tinyjobs_jobs_due")
    with transaction.atomic(using="scratch"):
        migrate()
    assert said() == []


def test_a_name_that_is_taken_stops_migrate(migrated):
    run(migrated, "DROP INDEX tinyjobs_jobs_key", "CREATE TABLE tinyjobs_jobs_key (id int)")
    with pytest.raises(CommandError, match=r"tinyjobs_jobs_key \(the name is another relation's\)"):
        migrate()
    assert "tinyjobs_jobs_key (the name is another relation's)" in said()[0][1]


def test_a_worker_waits_for_what_it_cannot_do_without(tmp_path, postgres_url):
    project = Project(tmp_path, postgres_url)
    try:
        project.send("count")
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute(KEY_GONE)
        worker = project.start_worker()
        until(lambda: "the primary key of tinyjobs_executions" in project.errors(), "word of it")
        assert "ALTER TABLE tinyjobs_executions ADD PRIMARY KEY (job_id, claim)" in project.errors()
        project.manage("migrate", "--verbosity", "0")
        assert project.run("count").status == "success"
        project.stop(worker)
    finally:
        project.close()


def test_a_worker_starts_without_what_only_makes_it_slower_and_says_so(tmp_path, postgres_url):
    project = Project(tmp_path, postgres_url)
    try:
        project.send("count")  # the app that sends would build it as well
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute(INVALID.format("tinyjobs_jobs_ended"))
        worker = project.start_worker()
        assert project.run("count").status == "success"
        project.stop(worker)
        assert project.errors().count("lacks tinyjobs_jobs_ended (not valid)") == 1
    finally:
        project.close()
