"""Whether anything is ready is told by the index of what is, also on a connection with the server's own settings.

A worker's connections let no plan read a table whole; Django's, which the dashboard, a check and a drain use, leave
that to the planner. It expects one job in twenty to be ready, and to meet one soon, whichever way it goes. In truth
they stand at the table's end, or, where the statistics are of a busier hour, there is none.
"""

import json
from collections.abc import Iterator

import pytest

from tests.postgres.filled import Examined
from tests.servers.postgres import Server

pytestmark = pytest.mark.postgres

FILL = """
INSERT INTO tinyjobs_jobs (
    id, task, queue, status, priority, run_at, created_at, finished_at, ready_at, max_attempts, payload
)
SELECT
    lpad(to_hex(n), 12, '0') || '-job', 'shop.tasks.pack', 'mail', CASE WHEN n > 38000 THEN 'queued' ELSE 'success' END,
    0, n, n, CASE WHEN n <= 38000 THEN n END, CASE WHEN n > 38000 THEN n END, 3, '{}'
FROM generate_series(1, 40000) AS n
"""
DRAIN = "UPDATE tinyjobs_jobs SET ready_at = NULL, status = 'success', finished_at = 1 WHERE ready_at IS NOT NULL"
#: Statements that ask whether anything is ready.
LOOKS = {"look": [None], "look_of": [json.dumps(["mail", "other"]), None], "next_due": []}


@pytest.fixture(scope="module")
def busy(postgres_cluster: Server) -> Iterator[Examined]:
    name = postgres_cluster.create_database()
    store = Examined(postgres_cluster.url(name))
    store.connection.execute("ALTER TABLE tinyjobs_jobs SET (autovacuum_enabled = false)")
    store.connection.execute(FILL)
    store.connection.execute("ANALYZE tinyjobs_jobs")
    for setting in ("enable_seqscan", "enable_bitmapscan", "plan_cache_mode", "jit"):
        store.connection.execute(f"RESET {setting}")
    yield store
    store.close()
    postgres_cluster.drop_database(name)


@pytest.mark.parametrize("name", LOOKS)
def test_a_look_while_many_are_ready(name: str, busy: Examined) -> None:
    plan = busy.explain(name, LOOKS[name])
    assert plan.whole_tables() == []
    assert plan.indexes() <= {"ready", "due"} and plan.buffers <= 20


@pytest.mark.parametrize("name", LOOKS)
def test_a_look_after_they_have_run(name: str, busy: Examined) -> None:
    busy.connection.execute(DRAIN)
    plan = busy.explain(name, LOOKS[name])
    assert plan.whole_tables() == []
    assert plan.indexes() <= {"ready", "due"}
