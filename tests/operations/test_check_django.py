"""What Django's own checks and the health check of an alias say of the database that jobs are in."""

import io

import pytest
from django.core.checks import run_checks
from django.core.management import call_command
from django.db import connections

from tests.taskbackend.conftest import scratch, scratch_url  # noqa: F401 - fixtures
from tinyjobs.app.facade import TinyJobs
from tinyjobs.core.watching import Finding
from tinyjobs.taskbackend.backend import backend_of
from tinyjobs.taskbackend.checking import check_health

OURS = "tinyjobs.TinyJobsBackend"
BADLY = Finding(name="free_space", ok=False, message="No room.", remedy="Make room.")
WELL = Finding(name="settings", ok=True, message="As it should be.")

pytestmark = pytest.mark.database


@pytest.fixture
def migrated(scratch, settings):  # noqa: F811
    settings.TASKS = {"default": {"BACKEND": OURS, "OPTIONS": {"database": "scratch"}}}
    call_command("migrate", database="scratch", stdout=io.StringIO())
    return scratch


@pytest.fixture
def badly(monkeypatch):
    async def audit(self):
        return [BADLY, WELL]

    monkeypatch.setattr("tinyjobs.taskbackend.shared.JoinedStore.audit", audit)
    monkeypatch.setattr("tinyjobs.backends.sqlite.backend.SQLiteBackend.audit", audit)


def ids(**options):
    return [(found.id, found.msg, found.hint) for found in run_checks(**options) if found.id in OF_AUDITS]


OF_AUDITS = ("tinyjobs.W006", "tinyjobs.W105", "tinyjobs.W106", "tinyjobs.W107")


def run(connection, *statements):
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def failing(**options):
    return [finding.name for finding in check_health(backend_of("default").shared, **options) if not finding.ok]


@pytest.mark.usefixtures("badly")
def test_an_audit_is_told_when_a_database_is_given(migrated):
    told = "DATABASES['scratch'] does not keep all that is promised: No room."
    assert ids(databases=["scratch"]) == [("tinyjobs.W006", told, "Make room.")]
    assert ids() == []
    assert ids(databases=["default"]) == []
    assert ids(databases=["scratch"], include_deployment_checks=True) == [("tinyjobs.W006", told, "Make room.")]


@pytest.mark.usefixtures("badly")
def test_a_database_without_the_tables_is_not_audited(scratch, settings):  # noqa: F811
    settings.TASKS = {"default": {"BACKEND": OURS, "OPTIONS": {"database": "scratch"}}}
    assert ids(databases=["scratch"]) == []


@pytest.mark.usefixtures("badly")
def test_stores_that_urls_name_are_audited_before_a_deployment(settings, tmp_path):
    url = f"sqlite:///{tmp_path}/jobs.db"
    settings.TASKS = {"default": {"BACKEND": OURS, "OPTIONS": {"url": url}}}
    assert ids(include_deployment_checks=True) == []
    assert list(tmp_path.iterdir()) == [], "what nobody uses yet is not made"
    with TinyJobs(url):
        pass  # made
    assert ids() == []
    ((number, message, hint),) = ids(include_deployment_checks=True)
    assert (number, hint) == ("tinyjobs.W105", "Make room.")
    assert message.endswith("does not keep all that is promised: No room.")


def test_a_store_out_of_reach_before_a_deployment(settings):
    settings.TASKS = {"default": {"BACKEND": OURS, "OPTIONS": {"url": "redis://:s3cr3t@127.0.0.1:1/0"}}}
    ((number, message, _),) = ids(include_deployment_checks=True)
    assert number == "tinyjobs.W106"
    assert "does not answer" in message
    assert "s3cr3t" not in message


def test_no_tasks_before_a_deployment(settings, monkeypatch):
    monkeypatch.setattr("tinyjobs.taskbackend.resolver.import_tasks_modules", lambda: ([], {}))
    settings.TASKS = {"default": {"BACKEND": OURS}}
    assert [number for number, *_ in ids(include_deployment_checks=True)] == ["tinyjobs.W107"]


def test_the_real_audit_of_a_projects_database(migrated):
    """Nothing is asserted of the disk: the line that sums up says what Django's connection runs with."""
    (told,) = [finding for finding in check_health(backend_of("default").shared) if finding.name == "settings"]
    vendor = connections["scratch"].vendor
    assert told.message.startswith("SQLite runs with journal_mode" if vendor == "sqlite" else "Postgres runs with")


def test_sqlite_as_djangos_own_connection_has_it(migrated):
    if migrated.vendor != "sqlite":
        pytest.skip("of SQLite")
    run(migrated, "PRAGMA journal_mode = DELETE")
    migrated.close()
    options = migrated.settings_dict["OPTIONS"]
    options["init_command"] = "PRAGMA synchronous = OFF"
    assert {"journal_mode", "synchronous"} <= set(failing())
    options["init_command"] = "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL"
    assert not {"journal_mode", "synchronous"} & set(failing())


def test_a_postgres_database_that_turns_read_only_or_careless(migrated):
    if migrated.vendor != "postgresql":
        pytest.skip("of Postgres")
    name = migrated.ops.quote_name(migrated.settings_dict["NAME"])
    assert "read_only" not in failing()
    run(migrated, f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    assert "read_only" in failing()
    run(migrated, f"ALTER DATABASE {name} RESET default_transaction_read_only")
    run(migrated, f"ALTER DATABASE {name} SET synchronous_commit = off")
    # What the project's own connections commit, jobs included, is lost in a crash.
    assert "synchronous_commit" in failing()


def test_tables_that_lack_an_index(migrated):
    assert "layout" not in failing(with_layout=True)
    run(migrated, "DROP INDEX tinyjobs_jobs_key")
    # Postgres without it could keep no job with a key, which is found before anything else.
    assert ("store" if migrated.vendor == "postgresql" else "layout") in failing(with_layout=True)
    call_command("migrate", database="scratch", stdout=io.StringIO())
    assert "layout" not in failing(with_layout=True)


def test_a_database_that_was_not_migrated(scratch, settings):  # noqa: F811
    settings.TASKS = {"default": {"BACKEND": OURS, "OPTIONS": {"database": "scratch"}}}
    (found,) = check_health(backend_of("default").shared)
    assert (found.name, found.ok) == ("store", False)
    assert "migrate" in found.message


def test_transactions_that_do_not_begin_by_writing(migrated):
    if migrated.vendor != "sqlite":
        pytest.skip("of SQLite")

    def warned():
        return [finding.name for finding in check_health(backend_of("default").shared) if finding.is_warning]

    assert "transaction_mode" not in warned()
    migrated.settings_dict["OPTIONS"].pop("transaction_mode")
    assert "transaction_mode" in warned()


def test_tasks_that_cannot_be_imported_are_a_warning(migrated, monkeypatch):
    broken = {"shop.tasks": ImportError("no module named spam")}
    monkeypatch.setattr("tinyjobs.taskbackend.resolver.import_tasks_modules", lambda: ([], broken))
    found = [finding for finding in check_health(backend_of("default").shared) if finding.name == "imports"]
    assert [(finding.ok, finding.is_warning) for finding in found] == [(True, True)]
    assert "spam" in found[0].message
