"""`manage.py tinyjobs worker` on Postgres: connections that the server ends or tasks leave."""

import json

import psycopg
import pytest

from tests.taskbackend.projects import Project, until

pytestmark = pytest.mark.postgres
POOL = {"pool": {"min_size": 1, "max_size": 3, "timeout": 10}}


@pytest.fixture
def make_project(tmp_path, postgres_url):
    made = []

    def make(**settings):
        made.append(Project(tmp_path, postgres_url, **settings))
        return made[-1]

    yield make
    for project in made:
        project.close()


def end_sessions(project):
    """End every connection of the tasks, at work or idle; how many there were."""
    sessions = project.sessions()
    with psycopg.connect(project.url, autocommit=True) as connection:
        for pid in sessions:
            connection.execute("SELECT pg_terminate_backend(%s, 10000)", [pid])
    return len(sessions)


@pytest.mark.parametrize(
    "database",
    [
        pytest.param({"CONN_MAX_AGE": None, "CONN_HEALTH_CHECKS": False}, id="kept"),
        pytest.param({"CONN_MAX_AGE": None, "CONN_HEALTH_CHECKS": True}, id="kept-checked", marks=pytest.mark.slow),
        pytest.param({"CONN_MAX_AGE": 0, "CONN_HEALTH_CHECKS": False}, id="closed", marks=pytest.mark.slow),
        pytest.param({"OPTIONS": POOL, "CONN_HEALTH_CHECKS": False}, id="pool", marks=pytest.mark.slow),
        pytest.param({"OPTIONS": POOL, "CONN_HEALTH_CHECKS": True}, id="pool-checked", marks=pytest.mark.slow),
    ],
)
def test_connections_that_the_server_ends(make_project, database):
    project = make_project(database=database)
    worker = project.start_worker("--concurrency", "1", "--async-concurrency", "1")
    for task in ("backend", "abackend"):
        seen = set()
        for _ in range(4):
            seen.add(told(project.run(task)))
            assert end_sessions(project) >= 1
        assert len(seen) == 4, "the server did not end the connection"
    for task, after in (("end_own_connection", "backend"), ("aend_own_connection", "abackend")):
        for _ in range(2):
            assert project.run(task).status == "failed"
            assert told(project.run(after))
    project.stop(worker)


def told(job):
    assert job.status == "success", job.last_error
    return json.loads(job.record.result)


@pytest.mark.parametrize("database", [{"CONN_MAX_AGE": None}, {"OPTIONS": POOL}], ids=["kept", "pool"])
def test_connections_of_the_tasks_are_bounded_and_go_with_the_worker(make_project, postgres_cluster, database):
    project = make_project(database=database)
    jobs = [project.send(("backend", "abackend")[number % 2]) for number in range(200)]
    worker = project.start_worker("--concurrency", "3", "--async-concurrency", "5")
    most = 0

    def are_done():
        nonlocal most
        most = max(most, len(project.sessions()))
        return not any(project.app.list(status=status, limit=1).jobs for status in OPEN)

    until(are_done, "the end of the jobs")
    assert {project.app.get(job).status for job in jobs} == {"success"}
    # Of each thread and each coroutine slot one, and one of the thread that started the worker.
    assert 1 <= most <= 3 + 5 + 1
    project.stop(worker)
    project.app.close()
    assert project.sessions() == []
    with psycopg.connect(postgres_cluster.url(), autocommit=True) as connection:
        connection.execute(f'DROP DATABASE "{project.name}"')


SPOILING = (
    "SET search_path TO nowhere",
    "set role pg_read_all_settings",
    "SELECT set_config('search_path', 'nowhere', false)",
    "SELECT pg_advisory_lock(4711)",
    "CREATE TEMP TABLE tinyjobs_jobs (id text)",
    "SET lock_timeout = '1ms'",
)


@pytest.mark.parametrize("database", [{"CONN_MAX_AGE": None}, {"OPTIONS": POOL}], ids=["kept", "pool"])
def test_what_a_job_does_to_its_session_ends_with_it(make_project, database):
    project = make_project(database=database)
    worker = project.start_worker("--concurrency", "1", "--async-concurrency", "1")
    for statement in SPOILING:
        for spoiling, next_one, pid in (("spoil", "count", "backend"), ("aspoil", "acount", "abackend")):
            spoilt = told(project.run(spoiling, statement))
            # As many as a pool may have sessions, since it hands them out in turn.
            for _ in range(POOL["pool"]["max_size"]):
                assert told(project.run(next_one)) > 0, statement
                assert told(project.run(pid)) != spoilt, statement
    with psycopg.connect(project.url) as connection:
        assert connection.execute("SELECT pg_try_advisory_lock(4711)").fetchone() == (True,)
    project.stop(worker)


OPEN = ("queued", "running", "held", "waiting")
