"""What the check says of a store that is not there, such as one whose place is mistyped; and that it makes none."""

import asyncio
import json
import sqlite3

import psycopg
import pytest
import redis
from django.db import connections
from django.urls import include, path

from tests.cli.conftest import migrated, program, project, start  # noqa: F401 - fixtures
from tests.servers.apps import apps_on
from tinyjobs import TinyJobs
from tinyjobs.core.watching import Finding
from tinyjobs.operations.check import is_healthy

OURS = "tinyjobs.TinyJobsBackend"
URL = "/tinyjobs/health/"
urlpatterns = [path("tinyjobs/", include("tinyjobs.urls"))]
AWAY = "from tinyjobs import TinyJobs\napp = TinyJobs({url!r})\n@app.task\ndef note(): pass\n"


def inside(folder):
    """Every file of a folder with what it holds."""
    return {file.relative_to(folder): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


@pytest.fixture(params=["check", "acheck"])
def checked(request):
    """Checks an app by either face."""

    def check(app: TinyJobs) -> list[Finding]:
        return app.check() if request.param == "check" else asyncio.run(app.acheck())

    return check


@pytest.fixture
def make():
    with apps_on("memory://") as make:

        def with_a_task(url, **options):
            app = make(url, **options)
            app.task(name="note")(lambda: None)
            return app

        yield with_a_task


def the_only(found) -> str:
    (finding,) = found
    assert (finding.name, finding.ok) == ("store", False)
    assert "Start a worker" in finding.remedy and "correct the URL" in finding.remedy
    return finding.message


# --- files ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spelling", ["sqlite:///{}", "sqlite:///file:{}", "sqlite:///file:{}?mode=rwc"])
def test_a_file_that_is_not_there(checked, make, tmp_path, spelling):
    place = tmp_path / "jbos.db"
    app = make(spelling.format(place))
    for _ in range(2):
        assert str(place) in the_only(checked(app))
    assert inside(tmp_path) == {}


def test_a_folder_that_is_not_there(checked, make, tmp_path):
    assert str(tmp_path / "srv" / "jobs.db") in the_only(checked(make(f"sqlite:///{tmp_path}/srv/jobs.db")))
    assert list(tmp_path.iterdir()) == []


def test_an_empty_file_stays_empty(checked, make, tmp_path):
    place = tmp_path / "jobs.db"
    place.touch()
    assert str(place) in the_only(checked(make(f"sqlite:///{place}")))
    assert inside(tmp_path) == {place.relative_to(tmp_path): b""}


def test_a_database_of_somebody_elses_stays_as_it_is(checked, make, tmp_path):
    place = tmp_path / "shop.db"
    with sqlite3.connect(place) as shop:
        shop.execute("CREATE TABLE orders (number int)")
    shop.close()
    before = inside(tmp_path)
    assert str(place) in the_only(checked(make(f"sqlite:///{place}")))
    assert inside(tmp_path) == before


def test_a_store_that_has_lost_a_table(checked, make, tmp_path):
    place = tmp_path / "jobs.db"
    make(f"sqlite:///{place}").setup()
    with sqlite3.connect(place) as raw:
        raw.execute("DROP TABLE tinyjobs_limits")
    raw.close()
    assert "tinyjobs_limits" in the_only(checked(make(f"sqlite:///{place}")))


def test_the_prefix_is_a_part_of_the_place(checked, make, tmp_path):
    url = f"sqlite:///{tmp_path}/jobs.db"
    make(url, prefix="shop").setup()
    assert "tinyjobs_" in the_only(checked(make(url)))
    assert "store" not in {finding.name for finding in checked(make(url, prefix="shop"))}


def test_what_was_not_there_can_be_made_and_checked_by_the_same_app(checked, make, tmp_path):
    app = make(f"sqlite:///{tmp_path}/jobs.db")
    the_only(checked(app))
    app.tasks["note"].enqueue()
    assert "store" not in {finding.name for finding in checked(app)}
    assert app.stats().by_status["queued"] == 1


def test_a_store_that_is_there_is_checked_by_an_app_that_was_not_connected(checked, make, tmp_path):
    url = f"sqlite:///{tmp_path}/jobs.db"
    make(url).tasks["note"].enqueue()
    assert {finding.name for finding in checked(make(url))} >= {"tasks", "waiting", "workers", "settings"}


def test_a_store_in_memory_is_there(checked, make):
    assert is_healthy(checked(make("memory://")))


# --- servers ----------------------------------------------------------------------------------------------------


def test_a_postgres_database_without_tables(checked, make, postgres_url):
    app = make(postgres_url)
    assert "no tables" in the_only(checked(app))
    other = make(f"{postgres_url}?schema=jobs")
    assert "no tables" in the_only(checked(other))
    with psycopg.connect(postgres_url) as raw:
        tables = raw.execute("SELECT relname FROM pg_class WHERE relname LIKE 'tinyjobs%'").fetchall()
        schemas = raw.execute("SELECT nspname FROM pg_namespace WHERE nspname = 'jobs'").fetchall()
    assert tables == schemas == []
    app.tasks["note"].enqueue()
    assert "store" not in {finding.name for finding in checked(make(postgres_url))}


def test_a_redis_database_without_keys(checked, make, redis_url):
    app = make(redis_url)
    assert "no keys" in the_only(checked(app))
    with redis.Redis.from_url(redis_url) as raw:
        assert raw.dbsize() == 0
        app.tasks["note"].enqueue()
        assert "store" not in {finding.name for finding in checked(make(redis_url))}
        raw.delete("{tinyjobs}:meta")
    assert "store" not in {finding.name for finding in checked(make(redis_url))}, "emptied under a program that goes on"


# --- the commands -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [(), ("--json",), ("--store-warnings", "-v", "0")])
def test_the_program_names_the_path_and_the_remedy(program, options):  # noqa: F811
    program.write("away.py", AWAY.format(url="sqlite:///jbos.db"))
    before = inside(program.folder)
    status, output = program.run("check", *options, app="away:app")
    assert status == 1, output
    if "--json" in options:
        told = json.loads(output)
        assert told["ok"] is False
        (finding,) = told["findings"]
        line = f"{finding['message']} {finding['remedy']}"
    else:
        (line,) = output.splitlines()
        assert line.startswith("FAIL  store: ")
    assert f"{program.folder}/jbos.db" in line
    assert "Start a worker" in line
    assert inside(program.folder) == before


@pytest.mark.parametrize("options", [(), ("--json",)])
@pytest.mark.parametrize("kind", ["database", "url"])
def test_the_command_of_a_project_does_as_well(project, kind, options):  # noqa: F811
    if kind == "url":
        given = {"url": f"sqlite:///{project.folder}/jbos.db"}
        project.configure(tasks={"default": {"BACKEND": OURS, "QUEUES": [], "OPTIONS": given}})
    before = inside(project.folder)
    status, output = project.run("tinyjobs", "check", *options)
    assert status == 1, output
    told = json.loads(output) if options else {}
    line = f"{told['findings'][0]['message']} {told['findings'][0]['remedy']}" if told else output.splitlines()[0]
    assert ("jbos.db" if kind == "url" else "db.sqlite3") in line
    assert ("Start a worker" if kind == "url" else "manage.py migrate") in line
    assert inside(project.folder) == before
    assert project.run("check", "--deploy")[0] == 0
    assert inside(project.folder) == before


# --- the page ---------------------------------------------------------------------------------------------------


@pytest.mark.django_db
@pytest.mark.urls(__name__)
def test_the_page_answers_503(client, settings, tmp_path):
    url = f"sqlite:///{tmp_path}/jbos.db"
    settings.TASKS = {"default": {"BACKEND": OURS, "OPTIONS": {"url": url, "monitoring_token": "a-token-of-length"}}}
    answer = client.get(URL, headers={"Authorization": "Bearer a-token-of-length"})
    assert answer.status_code == 503
    assert f"{tmp_path}/jbos.db" in answer.content.decode()
    assert inside(tmp_path) == {}
    with TinyJobs(url) as app:
        app.setup()
    answer = client.get(f"{URL}?store_warnings=1")
    assert answer.status_code == 200


@pytest.fixture
def mistyped(tmp_path, django_db_setup, django_db_blocker):
    """An alias of DATABASES whose file is not there, in a folder that is."""
    connections.settings["mistyped"] = {
        **connections["default"].settings_dict,
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": tmp_path / "jbos.db",
        "OPTIONS": {},
    }
    with django_db_blocker.unblock():
        yield "mistyped"
        connections["mistyped"].close()
    del connections["mistyped"], connections.settings["mistyped"]


@pytest.mark.database
@pytest.mark.urls(__name__)
def test_the_page_makes_no_file_of_a_mistyped_database(client, settings, tmp_path, mistyped):
    settings.TASKS = {"default": {"BACKEND": OURS, "OPTIONS": {"database": mistyped}}}
    assert client.get(URL).status_code == 503
    assert inside(tmp_path) == {}
