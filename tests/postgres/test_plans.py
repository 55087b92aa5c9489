"""Plans on a large store: a claim costs the same whatever else the table holds, and nothing reads a table whole."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.postgres.filled import FILL, FILL_READY, QUEUES, Examined
from tests.servers.postgres import Server

pytestmark = pytest.mark.postgres

KEY, READY, DUE, RUNNING, HELD, WAITING = "pkey", "ready", "due", "running", "held", "waiting"
ENDED, QUEUE, UNSUCCESSFUL, ACTIVE, LAPSE = "ended", "by_queue", "unsuccessful", "key", "lapse"
LATE, NOW = 5e9, 1e9
ONE, THREE, ALL = json.dumps(QUEUES[:1]), json.dumps(QUEUES), None
ID, RUN, OLD = "000000000001-now", "000000000001-run", "000000000001-old"
PAGE = ["~", None, None, None, None, 101]
IDS = ",".join(f"{n:012x}-run" for n in range(1, 101))
ALIKE: list[Any] = [NOW, IDS, ",".join(["1"] * 100), ",".join(["1000.5"] * 100), None]
ANY: list[Any] = [
    NOW,
    json.dumps(
        [
            [f"{n:012x}-run", 1, "failed", 1, 0, 1000.0, 1001.0, None, "No", "failed", 1001.0, "ValueError", "Trace"]
            for n in range(1, 101)
        ]
    ),
    None,
]
# What a bounded look is asked: from where, how many rows and one more, what else they have to be, and how many fit.
SCAN: list[Any] = ["~", 1_001, 1_000, None, None, None, b"nowhere", 101]


def claim(queues: str | None, limit: int = 100) -> list[Any]:
    return [queues, limit, False, "worker-1", 60.0]


def room(queues: str | None, limit: int = 100, free: int = 8) -> list[Any]:
    return [queues, limit, False, json.dumps(["shop.tasks.pack"]), 512, free, "worker-1", 60.0]


#: Every statement that reads or changes jobs, with its parameters and the indexes it is meant to go by. No other may
#: appear, and no table may be read from end to end.
MEANT: dict[str, tuple[list[Any], set[str]]] = {
    "claim": ([None, *claim(ALL)], {KEY, READY, DUE}),
    "room": ([None, *room(ALL)], {KEY, READY, DUE}),
    "alike": ([None, *ALIKE], {KEY, DUE}),
    "alike_claim": ([None, *ALIKE, *claim(THREE)], {KEY, READY, DUE}),
    "alike_room": ([None, *ALIKE, *room(THREE)], {KEY, READY, DUE}),
    "any": ([None, *ANY], {KEY, DUE}),
    "any_claim": ([None, *ANY, *claim(ONE)], {KEY, READY, DUE}),
    "any_room": ([None, *ANY, *room(ONE)], {KEY, READY, DUE}),
    "let_in": ([LATE, 500], {KEY, DUE}),
    "look": ([None], {READY, DUE}),
    "look_of": ([THREE, None], {READY, DUE}),
    "next_due": ([], {READY, DUE}),
    "claim_one": (["worker-1", None, None, 60.0, ID, None], {KEY}),
    "heartbeat": ([None, 60.0, json.dumps([[RUN, 1]])], {KEY}),
    "record_held": ([json.dumps([[RUN, 1]])], {KEY}),
    "record_result": ([b"\0", RUN, 1], {KEY}),
    "expired": ([NOW, 100], {RUNNING}),
    "expired_count": ([NOW], {RUNNING}),
    "by_ids": ([json.dumps([RUN, ID])], {KEY}),
    "get": ([ID], {KEY}),
    "set_aside": ([None, "spoilt", ID], {KEY}),
    "cancel": ([None, ID], {KEY}),
    "requeue": ([None, ID], {KEY, UNSUCCESSFUL}),
    "requeue_lock": ([ID], {KEY, UNSUCCESSFUL}),
    "requeue_reserve": ([ID], {KEY}),
    "requeue_unreserve": ([ID], {KEY}),
    "holders": ([json.dumps(["order:1"])], {ACTIVE}),
    "counts": ([], {READY, DUE, RUNNING, HELD, WAITING}),
    "queue_stats": ([NOW], {READY, DUE, RUNNING, HELD, WAITING}),
    "queued_tasks": ([], {READY, DUE, HELD}),
    "list_all": (PAGE, {KEY}),
    "list_success": (PAGE, {KEY}),
    "list_failed": (PAGE, {UNSUCCESSFUL}),
    "list_cancelled": (PAGE, {UNSUCCESSFUL}),
    "list_running": (PAGE, {RUNNING}),
    "list_held": (PAGE, {KEY, HELD}),
    "list_waiting": (PAGE, {KEY, WAITING}),
    "list_queued": (PAGE, {KEY, READY, DUE}),
    "unstarted": ([LATE, 500], {LAPSE}),
    "unstarted_end": ([None, json.dumps([ID]), "Expired"], {KEY}),
    "purge_pick": (["success", LATE, 500], {ENDED, WAITING}),
    "purge_count": (
        [
            "success",
            NOW / 1e6,
        ],
        {ENDED, WAITING},
    ),
    "purge_jobs": ([json.dumps([ID]), None], {KEY}),
    "delete_pick": ([OLD], {KEY, WAITING}),
    "tally_set_aside": ([ID, None], {KEY}),
    "neighbours": ([OLD, OLD], {KEY}),
    "scan_all": (SCAN, {KEY}),
    "scan_queue": (["mail", *SCAN], {KEY, QUEUE}),
    "scan_failed": (SCAN, {KEY, UNSUCCESSFUL}),
    "scan_cancelled": (SCAN, {KEY, UNSUCCESSFUL}),
    "scan_running": (SCAN, {KEY, RUNNING}),
    "scan_held": (SCAN, {KEY, HELD}),
    "scan_waiting": (SCAN, {KEY, WAITING}),
    "scan_queued": (SCAN, {KEY, READY, DUE}),
    "results_pick": ([0.0, NOW / 1e6, "shop.tasks.pack", 500], {ENDED}),
    "results_drop": ([json.dumps([ID])], {KEY}),
    "list_queue": (["mail", "~", None, None, 101], {QUEUE}),
}


@pytest.fixture(scope="module")
def examined(postgres_cluster: Server) -> Iterator[dict[str, Examined]]:
    """A store with ready jobs alone, and a large one with as many."""
    names = [postgres_cluster.create_database() for _ in range(2)]
    small, large = (Examined(postgres_cluster.url(name)) for name in names)
    large.connection.execute(FILL)
    for store in (small, large):
        store.connection.execute(FILL_READY)
    yield {"small": small, "large": large}
    for name, store in zip(names, (small, large), strict=True):
        store.close()
        postgres_cluster.drop_database(name)


@pytest.fixture(scope="module", params=["before ANALYZE", "after ANALYZE"])
def stores(request: pytest.FixtureRequest, examined: dict[str, Examined]) -> dict[str, Examined]:
    for store in examined.values():
        if request.param == "after ANALYZE":
            store.connection.execute("VACUUM ANALYZE tinyjobs_jobs")
    return examined


@pytest.mark.parametrize("name", MEANT)
def test_a_statement_goes_by_its_indexes(name: str, stores: dict[str, Examined]) -> None:
    parameters, meant = MEANT[name]
    plan = stores["large"].explain(name, parameters)
    assert plan.indexes() <= meant
    assert plan.whole_tables() == []


def test_every_statement_on_jobs_has_its_meant_indexes(examined: dict[str, Examined]) -> None:
    statements = examined["small"].statements
    on_jobs = {name for name in statements.names() if "tinyjobs_jobs" in statements[name].format}
    inserts = {name for name in on_jobs if name.startswith("insert")}
    # One reads no row, the others are for a store that has lost an index or a table.
    assert on_jobs - inserts - {"probe", "key_clashes", "recount"} == set(MEANT)


@pytest.mark.parametrize("queues", [ONE, THREE, ALL], ids=["one queue", "three queues", "all queues"])
@pytest.mark.parametrize("form", ["claim", "room"])
def test_a_claim_costs_the_same_in_a_large_store(form: str, queues: str | None, stores: dict[str, Examined]) -> None:
    asked = {"claim": claim, "room": room}[form](queues, 20)
    for store in stores.values():
        # What the other tests tried and undid is still in the pages and in the indexes, until somebody comes for it.
        store.connection.execute("VACUUM (INDEX_CLEANUP ON) tinyjobs_jobs")
    small, large = (stores[size].explain(form, [None, *asked]) for size in ("small", "large"))
    # The trees of a large table's indexes are a level or two deeper, at each of the jobs taken.
    assert large.buffers <= small.buffers * 1.6 + 40, (small.buffers, large.buffers)
    assert large.most_rows_sorted() <= 20 * len(QUEUES)


def test_a_claim_that_finds_nothing_reads_next_to_nothing(stores: dict[str, Examined]) -> None:
    plan = stores["large"].explain("claim", [None, *claim(json.dumps(["quiet"]))])
    assert plan.buffers <= 12
