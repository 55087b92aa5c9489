"""`manage.py demo` ends well, leaves nothing running, and notices when something is not as it should be."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import redis

from tests.house.source import ROOT
from tests.servers.postgres import Server

EXAMPLE = ROOT / "example_project"


def start(
    project: Path, var: Path, *command: str, database: str | None = None, jobs: str | None = None
) -> "subprocess.Popen[str]":
    """Start a command of a copy of the project, in a group of its own, so that what is left of it can be told."""
    environment = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    environment["SHOP_VAR"] = str(var)
    if database is not None:
        environment["SHOP_DATABASE"] = database
    if jobs is not None:
        environment["SHOP_REDIS"] = jobs
    return subprocess.Popen(
        [sys.executable, str(project / "manage.py"), *command],
        cwd=var,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@contextmanager
def nothing_left_of(process: "subprocess.Popen[str]") -> Iterator[None]:
    """Fail if the process, or another of its group, still runs at the end of the block, and end what does."""
    try:
        yield
        with pytest.raises(ProcessLookupError):
            os.killpg(process.pid, 0)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def run(
    project: Path,
    var: Path,
    *command: str,
    timeout: float = 120,
    database: str | None = None,
    jobs: str | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end; on SQLite or in the Postgres database of a URL, with jobs in there or in a Redis."""
    process = start(project, var, *command, database=database, jobs=jobs)
    with nothing_left_of(process):
        output, errors = process.communicate(timeout=timeout)
    return subprocess.CompletedProcess(process.args, process.returncode, output, errors)


@pytest.mark.parametrize("address", ["mysql://host/shop", "postgresql://host:port/shop", "postgresql://[host/shop"])
def test_a_wrong_address_ends_with_what_it_has_to_be(tmp_path, address):
    told = run(EXAMPLE, tmp_path, "check", database=address)
    assert told.returncode == 1
    assert told.stderr.splitlines() == [
        "SHOP_DATABASE has to be an address such as postgresql://user:password@host:5432/shop."
    ]


def test_a_server_that_is_not_there_ends_the_demo_without_a_traceback(tmp_path):
    with socket.socket() as nobody_listens:
        nobody_listens.bind(("127.0.0.1", 0))
        port = nobody_listens.getsockname()[1]
        told = run(EXAMPLE, tmp_path, "demo", database=f"postgresql://me@127.0.0.1:{port}/shop")
    assert told.returncode == 1
    assert "Traceback" not in told.stderr
    line = told.stderr.splitlines()[-1]  # Django warns that it cannot connect, too
    assert line.startswith("CommandError: The database cannot be used: ") and "SHOP_DATABASE" in line


def test_the_whole_story(tmp_path):
    assert_all_is_told(run(EXAMPLE, tmp_path, "demo"))


@pytest.fixture
def demo_database(postgres_cluster: Server, postgres_url: str) -> Iterator[str]:
    """The URL of a database, beside which the demo makes one of its own."""
    yield postgres_url
    postgres_cluster.drop_database(f"{urlsplit(postgres_url).path[1:]}_demo")


def test_the_whole_story_on_postgres(tmp_path, demo_database):
    for _ in range(2):
        told = run(EXAMPLE, tmp_path, "demo", database=demo_database)
        assert_all_is_told(told)
    assert "_demo on Postgres" in told.stdout
    assert not list(tmp_path.glob("*.sqlite3"))


def test_the_whole_story_on_redis(tmp_path, redis_url):
    with redis.Redis.from_url(redis_url) as client:
        client.set("{shop}:job:x", "of the shop that somebody tries")
        for deleted in ("0", "[1-9][0-9]*"):
            told = run(EXAMPLE, tmp_path, "demo", jobs=redis_url)
            assert_all_is_told(told)
            assert re.search(f"kept in Redis. Of an earlier demo's keys {deleted} were deleted", told.stdout)
        assert client.get("{shop}:job:x")


def assert_all_is_told(told):
    assert told.returncode == 0, told.stdout + told.stderr
    rows = re.findall(r"^ {2}.{10} (receipt|invoice|export|feed) +(\w+) +(.+)$", told.stdout, re.MULTILINE)
    assert len(rows) == 16
    assert {status for _, status, _ in rows} == {"successful"}
    assert sorted(ran for purpose, _, ran in rows if purpose == "invoice") == ["lost, success"] + ["success"] * 3
    assert [ran for purpose, _, ran in rows if purpose == "export"] == ["failed, failed, success"] * 4
    assert "rolled back: 8." in told.stdout


@pytest.mark.slow
def test_it_can_be_told_again_in_the_same_place_and_touches_nothing_else_there(tmp_path):
    (tmp_path / "mail").mkdir()
    (tmp_path / "notes.txt").write_text("mine")
    for _ in range(2):
        told = run(EXAMPLE, tmp_path, "demo")
        assert told.returncode == 0, told.stdout + told.stderr
    assert (tmp_path / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_it_takes_its_worker_along(tmp_path, number):
    demo = start(EXAMPLE, tmp_path, "demo")
    with nothing_left_of(demo):
        assert demo.stdout is not None
        for line in demo.stdout:
            if line.startswith("  It is process "):
                break
        demo.send_signal(number)
        _, errors = demo.communicate(timeout=60)
        assert demo.returncode == 1
        assert f"Interrupted by {number.name}." in errors


BREAKS = {
    "orders without a transaction": (
        "shop/orders.py",
        "    with transaction.atomic():\n",
        "    if transaction:\n",
        "of an order that was rolled back is in the store",
    ),
    "exports that give up too early": (
        "shop/tasks.py",
        "    max_attempts=5,\n    # Only what",
        "    max_attempts=2,\n    # Only what",
        "reads FAILED, not SUCCESSFUL",
    ),
    "an invoice that is not tried again": (
        "shop/tasks.py",
        "@task(max_attempts=2)",
        "@task(max_attempts=1)",
        "it ran as lost.",
    ),
    "a warehouse that answers at once": (
        "shop/warehouse.py",
        "ANSWERS_AT = 3",
        "ANSWERS_AT = 1",
        "should have run as failed, failed, success; it ran as success.",
    ),
    "receipts that are sent twice": (
        "shop/tasks.py",
        "    message.send()  # the one line",
        "    message.send(), message.send()",
        "2 receipts were mailed",
    ),
    "a worker that does not start": (
        "shop/apps.py",
        "from django.apps import AppConfig\n",
        'import sys\n\nfrom django.apps import AppConfig\n\n"worker" in sys.argv and sys.exit(3)\n',
        "ended with status 3 before",
    ),
}


@pytest.mark.parametrize(
    "name",
    [
        name if place == 0 else pytest.param(name, marks=pytest.mark.slow)  # one of them is enough every day
        for place, name in enumerate(BREAKS)
    ],
)
def test_it_ends_with_an_error_when_something_is_wrong(tmp_path, name):
    file, found, put_in, complaint = BREAKS[name]
    project = tmp_path / "project"
    shutil.copytree(EXAMPLE, project, ignore=shutil.ignore_patterns("var", "__pycache__"))
    text = (project / file).read_text("utf-8")
    assert text.count(found) == 1
    (project / file).write_text(text.replace(found, put_in), "utf-8")
    var = tmp_path / "var"
    var.mkdir()
    told = run(project, var, "demo")
    assert told.returncode == 1, told.stdout + told.stderr
    assert complaint in told.stderr, told.stdout + told.stderr


def test_the_shops_own_tests_pass(tmp_path):
    done = run(EXAMPLE, tmp_path, "test", "shop")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Ran 10 tests" in done.stderr


def test_the_shops_own_tests_pass_on_postgres(tmp_path, postgres_url):
    done = run(EXAMPLE, tmp_path, "test", "shop", "--noinput", database=postgres_url)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Ran 10 tests" in done.stderr


def test_the_shops_own_tests_need_no_redis(tmp_path):
    done = run(EXAMPLE, tmp_path, "test", "shop", jobs="redis://127.0.0.1:1/")
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_migration_is_missing(tmp_path):
    done = run(EXAMPLE, tmp_path, "makemigrations", "--check", "--dry-run")
    assert done.returncode == 0, done.stdout + done.stderr
