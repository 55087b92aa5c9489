"""A server that goes away and comes back: every job ends once, a worker says so twice, and costs nothing meanwhile."""

import time
from collections import Counter
from collections.abc import Callable

import pytest
from psycopg import sql

from tests.crash.telling import (
    BEGINS,
    ENDS,
    RECOVERY,
    SHORT,
    all_succeeded,
    cut_the_network,
    not_succeeded,
    one_outage_told,
    processor_seconds,
    said,
    seconds_to_a_start,
    tells_twice,
)
from tests.crash.workshop import Workshop, until
from tests.servers.postgres import Cluster
from tests.servers.proxy import Proxy
from tinyjobs.app.facade import TinyJobs

pytestmark = pytest.mark.postgres

#: In most tests a call does not wait for a connection as long as it would by default, and the outage is seen sooner.
SOON = "?pool_timeout=1"


def ends_sessions(cluster: Cluster, database: str) -> bool:
    """False, once every session has been ended: one that was just being opened is there only at the next call."""
    cluster.terminate("tinyjobs%", database=database)
    return False


@pytest.fixture
def database(own_cluster: Cluster) -> str:
    return own_cluster.create_database()


@pytest.fixture
def workshop(own_cluster: Cluster, database: str, open_workshop: Callable[[str], Workshop]) -> Workshop:
    return open_workshop(own_cluster.url(database) + SOON)


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_a_worker_tells_of_a_restart_twice_and_goes_on_at_once(workshop, own_cluster, mode):
    """One at work, whose functions run through the restart, and one that has nothing to do."""
    gate = workshop.folder / "gate"
    held = [workshop.send("hold", str(gate), max_attempts=5) for _ in range(4)]
    settings = {**SHORT, "lease": 30.0}
    workers = [workshop.worker(**settings, queues=[queue]) for queue in ("default", "mail")]
    before = [*held, workshop.send("note", 0, queue="mail")]
    until(lambda: len(workshop.starts()) == 5 and workshop.get(before[-1]).status == "success")
    with one_outage_told(workers):
        own_cluster.stop(mode)
        gate.touch()
        until(lambda: all(BEGINS in worker.errors for worker in workers))
        own_cluster.start()
        later = [workshop.send("note", 0, queue=queue) for queue in ("default", "mail")]
        began = time.monotonic()
        until(lambda: set(later) <= set(workshop.ends()))
        assert time.monotonic() - began < RECOVERY
    until(lambda: all(workshop.get(job).status == "success" for job in (*before, *later)))
    assert Counter(workshop.starts()) == Counter((*before, *later)), (
        "what ended during the outage was kept and recorded"
    )
    assert {job.claims for job in workshop.jobs()} == {1}


@pytest.mark.slow
def test_a_worker_costs_nothing_while_the_server_is_away_and_finds_it_within_a_moment(workshop, own_cluster):
    """However long that was: nothing it waits for grows without bound."""
    jobs = [workshop.send("note", number, delay=0.5) for number in range(20)]
    worker = workshop.worker(**SHORT)
    until(lambda: len(workshop.ends()) == len(jobs))
    with one_outage_told([worker]):
        own_cluster.stop()
        until(lambda: BEGINS in worker.errors)
        used, began = processor_seconds(worker.pid), time.monotonic()
        time.sleep(6.0)
        share = (processor_seconds(worker.pid) - used) / (time.monotonic() - began)
        own_cluster.start()
        assert seconds_to_a_start(workshop) < RECOVERY
    assert share < 0.03, f"{share:.1%} of a processor"


@pytest.mark.slow
def test_a_silent_network_is_told_of_and_survived(own_cluster, database, make_proxy, open_workshop):
    """Bytes are held for a while, on connections that stay: nothing is lost, and nothing runs twice."""
    proxy: Proxy = make_proxy(own_cluster.url(database))
    direct = own_cluster.url(database)
    workshop = open_workshop(proxy.url(direct))
    jobs = [workshop.send("work", number, 0.02, max_attempts=5) for number in range(200)]
    worker = workshop.worker(**SHORT, concurrency=2)
    until(lambda: len(workshop.ends()) > 20)
    for _ in range(3):
        proxy.stall()
        time.sleep(1.0)
        proxy.resume()
        time.sleep(0.3)
    until(lambda: len(workshop.ends()) >= len(jobs))
    until(lambda: all_succeeded(workshop))
    assert Counter(workshop.starts()) == Counter(jobs)
    assert said(worker) == []


#: How long the network is cut for, and how often the rest happens.
CUT, RESTARTS, TERMINATIONS, JOBS = 10.0, 5, 20, 2_000


@pytest.mark.slow
def test_two_thousand_jobs_through_restarts_ended_sessions_and_a_long_cut(
    own_cluster, database, make_proxy, open_workshop
):
    """Each ends once, in success; what runs again had been in flight at one of the blows."""
    proxy: Proxy = make_proxy(own_cluster.url(database))
    workshop = open_workshop(proxy.url(own_cluster.url(database)))
    sender = workshop.app
    workers = [workshop.worker(**SHORT, concurrency=4, async_concurrency=4) for _ in range(2)]
    workshop.wait_until_seen(*workers)
    slots, blows = 2 * (4 + 4), RESTARTS + TERMINATIONS + 1
    batch = -(-JOBS // blows)
    sent: list[str] = []

    def blow(number: int) -> None:
        if number in range(0, blows - 1, blows // RESTARTS):
            own_cluster.restart("fast" if number % 2 else "immediate")
        elif number < blows - 1:
            assert own_cluster.terminate("tinyjobs%", database=database)
        else:
            cut_the_network(proxy, workers, CUT)

    for number in range(blows):
        ended = len(workshop.ends())
        for place in range(len(sent), min(len(sent) + batch, JOBS)):
            task = ("work", "awork")[place % 2]
            sent.append(sender.send(task, (place, 0.02), max_attempts=50).id)
        until(lambda ended=ended: len(workshop.ends()) >= ended + batch // 3, lambda: not_succeeded(workshop))
        blow(number)
        until(lambda: len(set(workshop.ends())) >= len(sent), lambda: not_succeeded(workshop))
        until(lambda: all_succeeded(workshop), lambda: not_succeeded(workshop))

    jobs = {job.id: job for job in workshop.jobs()}
    assert sorted(jobs) == sorted(sent) and len(sent) == JOBS
    runs = Counter(workshop.starts())
    histories = {job_id: workshop.history(job_id) for job_id, job in jobs.items()}
    for job_id, history in histories.items():
        assert history[-1] == "success" and history.count("success") == 1
        assert set(history[:-1]) <= {"lost"}
        assert len(history) == jobs[job_id].claims >= runs[job_id] >= 1
    again = sum(runs.values()) - JOBS
    assert again <= blows * slots
    lines = [line for worker in workers for line in said(worker)]
    assert not [line for line in lines if BEGINS not in line and ENDS not in line and "wake-ups do not" not in line]
    for worker in workers:
        # Once for each blow at most. A worker may meet one only after the next batch has begun.
        until(
            lambda worker=worker: blows >= worker.errors.count(BEGINS) == worker.errors.count(ENDS) >= 1, worker.errors
        )
        assert "psycopg.pool" not in worker.errors and "Traceback" not in worker.errors
    print(
        f"\n{JOBS} jobs, {blows} blows: {again} ran again, {[worker.errors.count(BEGINS) for worker in workers]} told"
    )


def test_a_server_that_takes_no_writes_is_told_of_and_waited_for(workshop, own_cluster):
    gate = workshop.folder / "gate"
    held = workshop.send("hold", str(gate), max_attempts=5)
    worker = workshop.worker(lease=30.0, reap_interval=0.3)
    until(lambda: workshop.starts(held))
    with one_outage_told([worker]):
        own_cluster.set_read_only(True)
        gate.touch()
        until(lambda: BEGINS in worker.errors)
        assert "a standby or read-only" in worker.errors
        time.sleep(1.0)
        own_cluster.set_read_only(False)
    until(lambda: workshop.get(held).status == "success")
    assert workshop.history(held) == ["success"]


def test_a_database_that_is_dropped_and_made_again_is_worked_on_again(workshop, own_cluster, database):
    """Without its tables at first, as before a migration."""
    workshop.send("note", 0)
    worker = workshop.worker(**SHORT)
    until(lambda: workshop.ends())
    own_cluster.drop_database(database)
    until(lambda: BEGINS in worker.errors)
    time.sleep(0.5)
    own_cluster.create_database(name=database)
    time.sleep(0.5)
    fresh = TinyJobs(workshop.url)
    fresh.setup()
    fresh.close()
    later = workshop.send("note", 1)
    until(lambda: workshop.ends(later))
    until(lambda: workshop.get(later).status == "success")
    until(lambda: ENDS in worker.errors)
    # A loop that looks in between finds a database without tables, and says what it lacks.
    assert tells_twice([line for line in said(worker) if ": relation " not in line]), worker.errors


def test_a_password_that_was_changed_and_changed_back(own_cluster, database, open_workshop):
    """Nothing tells of the password, and the worker connects as soon as it may."""
    own_cluster.execute("CREATE ROLE shop LOGIN PASSWORD 'first-secret'")
    own_cluster.execute(sql.SQL("ALTER DATABASE {} OWNER TO shop").format(sql.Identifier(database)))
    rules = own_cluster.folder / "data" / "pg_hba.conf"
    rules.write_text("host all shop 127.0.0.1/32 scram-sha-256\n" + rules.read_text())
    own_cluster.execute("SELECT pg_reload_conf()")
    workshop = open_workshop(own_cluster.url(database).replace("postgres@", "shop:first-secret@", 1) + SOON)
    worker = workshop.worker(**SHORT)
    first = workshop.send("note", 0)
    until(lambda: workshop.ends(first))
    with one_outage_told([worker]):
        own_cluster.execute("ALTER ROLE shop PASSWORD 'second'")
        until(lambda: ends_sessions(own_cluster, database) or BEGINS in worker.errors)
        time.sleep(1.5)
        assert ENDS not in worker.errors
        own_cluster.execute("ALTER ROLE shop PASSWORD 'first-secret'")
        later = workshop.send("note", 1)
        until(lambda: workshop.ends(later))
    assert "secret" not in worker.errors


def test_a_server_that_has_no_connection_left_is_waited_for(own_cluster, database, open_workshop):
    own_cluster.execute("CREATE ROLE shop LOGIN")
    own_cluster.execute(sql.SQL("ALTER DATABASE {} OWNER TO shop").format(sql.Identifier(database)))
    workshop = open_workshop(own_cluster.url(database).replace("postgres@", "shop@", 1) + SOON)
    worker = workshop.worker(**SHORT)
    first = workshop.send("note", 0)
    until(lambda: workshop.ends(first) and workshop.get(first).status == "success")
    with one_outage_told([worker]):
        own_cluster.execute("ALTER ROLE shop CONNECTION LIMIT 0")
        until(lambda: ends_sessions(own_cluster, database) or BEGINS in worker.errors)
        time.sleep(1.5)
        assert ENDS not in worker.errors
        own_cluster.execute("ALTER ROLE shop CONNECTION LIMIT -1")
        later = workshop.send("note", 1)
        until(lambda: workshop.ends(later))
