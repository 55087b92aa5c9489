"""The private cluster itself: what tests rely on, and that nothing of it is left behind."""

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import closing, suppress
from pathlib import Path

import psycopg
import pytest

from tests.servers.fixtures import skipping_what_is_missing
from tests.servers.postgres import Standby
from tests.servers.processes import ServerError, make_folder, reachable
from tests.servers.programs import postgres_programs

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 30.0


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    # Where nobody reaps orphans a dead one stays listed.
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] == "Z"


def eventually(condition) -> bool:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def connect(url, **options):
    return closing(psycopg.connect(url, autocommit=True, **options))


def value(connection, statement):
    return connection.execute(statement).fetchone()[0]


def lose(connection):
    """See the session end, which it does as soon as it notices that the server is gone."""
    with pytest.raises(psycopg.OperationalError):
        while True:
            connection.execute("SELECT 1")


@pytest.mark.parametrize("turn", ["first", "second"])
def test_each_test_gets_an_empty_database(postgres_url, turn):
    with connect(postgres_url) as connection:
        tables = connection.execute("SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace")
        assert tables.fetchall() == []
        connection.execute("CREATE TABLE left_behind ()")


def test_the_order_of_texts_is_not_that_of_their_bytes(postgres_url):
    """Or a column of the store that has no collation of its own would never show."""
    with connect(postgres_url) as connection:
        if not value(connection, "SELECT count(*) FROM pg_collation WHERE collprovider = 'i'"):
            pytest.skip("this server was built without ICU")
        assert value(connection, "SELECT 'a' < 'B'")
        assert not value(connection, "SELECT 'a' < 'B' COLLATE \"C\"")


def test_a_database_is_copied_and_dropped_though_somebody_is_connected(postgres_cluster, postgres_url):
    with connect(postgres_url) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 7 AS number")
    name = postgres_cluster.create_database(template=postgres_url.rpartition("/")[2])
    with connect(postgres_cluster.url(name)) as connection:
        assert value(connection, "SELECT number FROM kept") == 7
        postgres_cluster.drop_database(name)
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        psycopg.connect(postgres_cluster.url(name))


def test_sessions_are_ended_by_the_name_of_their_application(postgres_cluster, postgres_url):
    name = postgres_url.rpartition("/")[2]
    with (
        connect(postgres_url, application_name="tinyjobs worker") as worker,
        connect(postgres_url, application_name="other") as other,
    ):
        assert postgres_cluster.terminate("tinyjobs%", database=name) == 1
        with pytest.raises(psycopg.OperationalError):
            worker.execute("SELECT 1")
        assert value(other, "SELECT 1") == 1


@pytest.mark.parametrize("end", ["fast", "immediate", "kill"])
def test_what_was_committed_survives_a_stop_and_a_kill_on_the_same_port(own_cluster, end):
    url = own_cluster.url()
    with connect(url) as connection:
        connection.execute("CREATE TABLE kept AS SELECT generate_series(1, 1000) AS number")
        if end == "kill":
            own_cluster.kill()
        else:
            own_cluster.stop(end)
        assert not own_cluster.is_running()
        lose(connection)
        with pytest.raises(psycopg.OperationalError, match="refused"):
            psycopg.connect(url)
    own_cluster.start()
    for way in (url, own_cluster.socket_url()):
        with connect(way) as connection:
            assert value(connection, "SELECT count(*) FROM kept") == 1000


def test_a_start_waits_for_sessions_that_outlived_a_kill(own_cluster):
    """A session that computes notices late that its server is gone."""
    with connect(own_cluster.url(), application_name="busy") as busy:
        session = value(busy, "SELECT pg_backend_pid()")

        def compute():
            with suppress(psycopg.OperationalError):
                busy.execute("SELECT count(*) FROM generate_series(1, 3000000) AS a(n) WHERE sqrt(n) < 0")
            lose(busy)

        computing = threading.Thread(target=compute)
        computing.start()
        running = "SELECT state = 'active' FROM pg_stat_activity WHERE application_name = 'busy'"
        assert eventually(lambda: own_cluster.execute(running) == [(True,)])
        own_cluster.kill()
        own_cluster.start()
        assert gone(session)
        computing.join(PATIENCE)
        assert not computing.is_alive()
    assert own_cluster.execute("SELECT 1") == [(1,)]


def test_a_smart_stop_waits_for_who_is_connected(own_cluster):
    connection = psycopg.connect(own_cluster.url(), autocommit=True)
    stopping = threading.Thread(target=own_cluster.stop, args=("smart",))
    stopping.start()
    stopping.join(0.2)
    assert stopping.is_alive() and value(connection, "SELECT 1") == 1
    connection.close()
    stopping.join(PATIENCE)
    assert not own_cluster.is_running()


def test_a_server_that_only_reads(own_cluster):
    with connect(own_cluster.url()) as connection:
        connection.execute("CREATE TABLE numbers (number int)")
        own_cluster.set_read_only(True)
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            connection.execute("INSERT INTO numbers VALUES (1)")
        own_cluster.set_read_only(False)
        connection.execute("INSERT INTO numbers VALUES (1)")


def test_a_standby_follows_and_only_reads_until_it_is_promoted(own_cluster):
    with connect(own_cluster.url()) as connection:
        connection.execute("CREATE TABLE numbers (number int)")
        with skipping_what_is_missing():
            standby = Standby(own_cluster)
        with standby:
            connection.execute("INSERT INTO numbers VALUES (1)")
            standby.catch_up()
            with connect(standby.url()) as reader:
                assert value(reader, "SELECT number FROM numbers") == 1
                with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
                    reader.execute("INSERT INTO numbers VALUES (2)")
                standby.promote()
                reader.execute("INSERT INTO numbers VALUES (2)")
            assert value(connection, "SELECT count(*) FROM numbers") == 1
    assert not standby.folder.exists()
    assert own_cluster.execute("SELECT count(*) FROM pg_stat_replication") == [(0,)]


def test_a_paused_server_answers_nobody_new_and_goes_on(own_cluster):
    with connect(own_cluster.url()) as connection:
        own_cluster.pause()
        with pytest.raises(psycopg.errors.ConnectionTimeout):
            psycopg.connect(own_cluster.url(), connect_timeout=2)
        assert value(connection, "SELECT 1") == 1
        own_cluster.resume()
    with connect(own_cluster.url()) as connection:
        assert value(connection, "SELECT 1") == 1


def test_a_durable_cluster_waits_for_the_disk(make_cluster):
    durable = make_cluster(durable=True, max_connections=17, settings={"work_mem": "5MB"})
    shown = [durable.execute(f"SHOW {name}") for name in ("fsync", "full_page_writes", "max_connections", "work_mem")]
    assert shown == [[("on",)], [("on",)], [("17",)], [("5MB",)]]


def test_it_does_not_run_as_root(own_cluster):
    owner = (
        os.stat(f"/proc/{own_cluster.pid}").st_uid if os.path.exists("/proc") else os.stat(own_cluster.folder).st_uid
    )
    assert owner != 0


def test_a_cluster_that_cannot_start_says_why_and_leaves_nothing(make_cluster, monkeypatch):
    made = []

    def make_and_remember(prefix, **options):
        made.append(make_folder(prefix, **options))
        return made[-1]

    monkeypatch.setattr("tests.servers.processes.make_folder", make_and_remember)
    with pytest.raises(ServerError, match="no_such_setting"):
        make_cluster(settings={"no_such_setting": "1"})
    assert [folder.exists() for folder in made].count(False) == 1  # the data it was copied from stays


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, whose folders the server's user cannot enter")
def test_programs_in_a_folder_of_roots_are_copied(make_cluster, tmp_path):
    programs = postgres_programs()
    tree = tmp_path / "server"
    (tree / programs.name).mkdir(parents=True)
    for program in programs.iterdir():
        (tree / programs.name / program.name).symlink_to(program)
    tmp_path.chmod(0o700)
    cluster = make_cluster(programs=tree / programs.name)
    assert cluster.execute("SELECT 1") == [(1,)]
    assert reachable(tree) != tree


OWNER = """
import sys
from tests.servers.postgres import Cluster
cluster = Cluster()
print(cluster.pid, cluster.folder, flush=True)
sys.stdin.read()
"""
SESSION = """
import sys
def test_it(own_cluster):
    print("", own_cluster.pid, own_cluster.folder, file=sys.__stdout__, flush=True)
    own_cluster.pause()
    sys.__stdin__.read()
"""
PYTEST = [
    "-m",
    "pytest",
    "-q",
    "-s",
    "-p",
    "no:cacheprovider",
    "-p",
    "tests.servers.fixtures",
    "--import-mode=importlib",
]


@pytest.mark.postgres
@pytest.mark.parametrize("signalled", [signal.SIGKILL, signal.SIGTERM, None])
@pytest.mark.parametrize("program", ["owner", "pytest"])
def test_nothing_is_left_when_the_process_that_started_it_ends(program, signalled, tmp_path):
    (tmp_path / "test_it.py").write_text(SESSION)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    arguments = ["-c", OWNER] if program == "owner" else [*PYTEST, str(tmp_path)]
    environment = {name: set_to for name, set_to in os.environ.items() if not name.startswith(("PYTEST", "DJANGO"))}
    with subprocess.Popen(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as owner:
        while len(words := owner.stdout.readline().split()) != 2:
            assert owner.poll() is None, owner.stdout.read()
        pid, folder = int(words[0]), words[1]
        assert not gone(pid) and os.path.exists(folder)
        if signalled is None:
            owner.stdin.close()
        else:
            owner.send_signal(signalled)
        owner.wait(PATIENCE)
    assert eventually(lambda: gone(pid))
    assert eventually(lambda: not os.path.exists(folder))
