"""The private cluster itself: what tests rely on, and that nothing of it is left behind."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psycopg
import pytest

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 30.0


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    # Where nobody reaps orphans a dead one stays listed.
    return Path(f"/proc/{pid}/stat").exists() and Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1][1] == "Z"


def eventually(condition) -> bool:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


@pytest.mark.parametrize("turn", ["first", "second"])
def test_each_test_gets_an_empty_database(postgres_url, turn):
    with psycopg.connect(postgres_url) as connection:
        tables = connection.execute("SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace")
        assert tables.fetchall() == []
        connection.execute("CREATE TABLE left_behind ()")


def test_a_database_goes_though_somebody_is_connected(postgres_cluster):
    name = postgres_cluster.create_database()
    with psycopg.connect(postgres_cluster.url(name), autocommit=True) as connection:
        postgres_cluster.drop_database(name)
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        psycopg.connect(postgres_cluster.url(name))


OWNER = """
import sys
from tests.servers.postgres import Cluster
cluster = Cluster()
print(cluster.pid, cluster.folder, flush=True)
sys.stdin.read()
"""


@pytest.mark.postgres
@pytest.mark.parametrize("signalled", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_is_left_when_the_process_that_started_it_is_killed(signalled):
    with subprocess.Popen(
        [sys.executable, "-c", OWNER], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as owner:
        pid, folder = owner.stdout.readline().split()
        assert not gone(int(pid))
        owner.send_signal(signalled)
        owner.wait()
    assert eventually(lambda: gone(int(pid)))
    assert eventually(lambda: not os.path.exists(folder))
