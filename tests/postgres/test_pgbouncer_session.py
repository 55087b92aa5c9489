"""A PgBouncer in session mode before the server: the main verbs, a worker that drains, and its own restart."""

from collections.abc import Callable

import pytest

from tests.crash.workshop import Workshop, until
from tests.postgres.test_outages import BEGINS, RECOVERY, all_succeeded, one_outage_told, said, seconds_to_a_start
from tests.servers.pgbouncer import PgBouncer
from tests.servers.postgres import Server

pytestmark = pytest.mark.postgres


@pytest.fixture
def pooler(make_pgbouncer: Callable[..., PgBouncer]) -> PgBouncer:
    return make_pgbouncer(mode="session", pool_size=12)


@pytest.fixture
def workshop(
    pooler: PgBouncer, postgres_cluster: Server, postgres_url: str, open_workshop: Callable[[str], Workshop]
) -> Workshop:
    return open_workshop(pooler.url(postgres_url.rpartition("/")[2]) + "?pool_timeout=1")


def test_the_main_verbs_go_through_it(workshop):
    app = workshop.app

    @app.task(name="note")
    def note(number: int) -> None: ...

    @app.task(name="fails_once", max_attempts=1)
    def fails() -> None:
        raise ValueError

    job = workshop.send("note", 1, key="one", priority=5)
    assert workshop.send("note", 2, key="one") == job
    failing = workshop.send("fails_once", max_attempts=1, delay=0.0)
    late = workshop.send("note", 3, delay=3_600.0)
    assert app.cancel(late) and not app.cancel(late)
    assert app.drain() == 2
    assert workshop.history(job) == ["success"] and workshop.history(failing) == ["failed"]
    assert app.retry(failing)
    assert workshop.get(failing).status == "queued"
    stats = app.stats()
    assert (stats.by_status["success"], stats.by_status["queued"], stats.by_status["cancelled"]) == (1, 1, 1)
    assert {found.id for found in workshop.jobs()} == {job, failing, late}


def test_a_worker_drains_a_thousand_jobs_and_survives_its_restart(workshop, pooler):
    ids = [workshop.send(("note", "anote")[number % 2], number, max_attempts=5) for number in range(1_000)]
    worker = workshop.worker(lease=30.0, reap_interval=0.5)
    until(lambda: len(workshop.ends()) == len(ids) and all_succeeded(workshop))
    assert sorted(workshop.starts()) == sorted(ids)
    assert said(worker) == []
    assert {server["application_name"] for server in pooler.show("servers")} >= {"tinyjobs"}
    gate = workshop.folder / "gate"
    held = workshop.send("hold", str(gate), max_attempts=5)
    until(lambda: workshop.starts(held))
    with one_outage_told([worker]):
        pooler.stop()
        gate.touch()
        until(lambda: BEGINS in worker.errors)
        pooler.start()
        assert seconds_to_a_start(workshop) < RECOVERY
    until(lambda: all_succeeded(workshop))
    assert workshop.history(held) == ["success"]
