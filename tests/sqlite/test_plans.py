"""Query plans on a large store: each statement takes the way that was meant for it, whatever the planner knows.

A statement that reads rows it does not need is fast on a small store and ruins a large one, so this is asserted by
name: through which index, and that nothing is sorted that could be read in order.
"""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

import pytest

from tinyjobs.backends.sqlite.backend import SQLiteBackend

KEY, READY, DUE, LEASE = "PRIMARY KEY", "ready", "due", "lease"
HELD, WAITING, ENDED, QUEUE, UNSUCCESSFUL, ACTIVE = "held", "waiting", "ended", "by_queue", "unsuccessful", "key"
LAPSE = "lapse"

#: Every statement that reads or changes jobs, with the indexes it is meant to go by. No other may appear.
MEANT = {
    "by_ids": {KEY},
    "cancel": {KEY},
    "set_aside": {KEY},
    "cancel_execution": {KEY},
    "claim": {KEY, READY},
    "claim_one": {KEY},
    "claim_pick": {KEY, READY},
    "claim_room": {KEY, READY},
    "claim_room_pick": {KEY, READY},
    "claim_take": {KEY},
    "counts": {READY, DUE, LEASE, HELD, WAITING},
    "expired": {LEASE},
    "expired_count": {LEASE},
    "get": {KEY},
    "heartbeat": {KEY},
    "holders": {ACTIVE},
    "let_in": {KEY, DUE},
    "list_all": {KEY},
    "list_cancelled": {UNSUCCESSFUL},
    "list_failed": {UNSUCCESSFUL},
    "list_held": {KEY, HELD},
    "list_queue": {QUEUE},
    "list_queued": {KEY, READY, DUE},
    "list_running": {KEY, LEASE},
    "list_success": {KEY},
    "list_waiting": {KEY, WAITING},
    "neighbours": {KEY},
    "next_due": {READY, DUE},
    "next_due_of": {READY, DUE},
    "purge_count": {ENDED, WAITING},
    "purge_jobs": {KEY},
    "purge_pick": {ENDED, WAITING},
    "queue_stats": {READY, DUE, LEASE, HELD, WAITING},
    "queued_tasks": {KEY, READY, DUE, HELD},
    "recount": {ENDED},
    "record_executions": {KEY},
    "record_held": {KEY},
    "record_jobs": {KEY},
    "record_result": {KEY},
    "record_success_executions": {KEY},
    "record_success_jobs": {KEY},
    "requeue": {KEY},
    "results_drop": {KEY},
    "results_pick": {ENDED},
    "scan_all": {KEY},
    "scan_cancelled": {KEY, UNSUCCESSFUL},
    "scan_failed": {KEY, UNSUCCESSFUL},
    "scan_held": {KEY, HELD},
    "scan_queue": {KEY, QUEUE},
    "scan_queued": {KEY, READY, DUE},
    "scan_running": {KEY, LEASE},
    "scan_waiting": {KEY, WAITING},
    "tally_cancel": {KEY},
    "tally_delete": {KEY, WAITING},
    "tally_outcomes": {KEY},
    "tally_purge": {KEY},
    "tally_requeue": {KEY, ACTIVE},
    "tally_set_aside": {KEY},
    "tally_successes": {KEY},
    "tally_unstarted": {KEY},
    "unstarted": {LAPSE},
    "unstarted_end": {KEY},
}
ELSEWHERE = {
    "executions",
    "meta",
    "meta_add",
    "take_lock",
    "schedule_advance",
    "schedule_delete",
    "schedule_fired",
    "schedule_register",
    "schedule_skipped",
    "schedules",
}
ELSEWHERE |= {"purge_executions", "sweep_claim", "sweep_recent"}
ELSEWHERE |= {"encoding", "insert", "public_layout", "tables"}
ELSEWHERE |= {"audit", "beat", "sign_off", "workers", "workers_forget", "workers_silent"}
ELSEWHERE |= {"fold_add", "fold_pick", "fold_remove", "tallies"}
#: Those that walk a partial index from one end to the other, because every live row of its kind counts or is asked.
MAY_SCAN = {"counts", "queue_stats", "queued_tasks", "list_queued", "list_held", "next_due", "scan_queued", "scan_held"}
#: And one that is for a store that has lost a table.
MAY_SCAN |= {"recount"}
#: Those that sort: the merged heads of the queues, or groups, or what a bounded look has found.
MAY_SORT = {"claim", "claim_pick", "claim_room", "claim_room_pick", "queue_stats", "queued_tasks"}
MAY_SORT |= {"recount", *(name for name in MEANT if name.startswith(("scan_", "tally_")))}

ACCESS = re.compile(
    r"(SCAN|SEARCH) (?:TABLE )?(\w+)(?: AS \w+)?(?: USING (?:COVERING )?(?:INDEX tinyjobs_jobs_(\w+)|(PRIMARY KEY)))?"
)


@dataclass(frozen=True)
class Step:
    number: int
    parent: int
    detail: str

    def access(self, jobs: set[str]) -> tuple[str, str | None] | None:
        """How the jobs table is read here: scanned or searched, and by which index."""
        found = ACCESS.match(self.detail)
        if found is None or found[2] not in jobs:
            return None
        return found[1], found[3] or found[4]


def aliases(sql: str) -> set[str]:
    """The names under which a statement speaks of the jobs table."""
    return {"tinyjobs_jobs", *re.findall(r"tinyjobs_jobs AS (\w+)", sql)}


def plan(path, sql: str) -> list[Step]:
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute(f"EXPLAIN QUERY PLAN {sql}", [None] * sql.count("?")).fetchall()
    return [Step(number, parent, detail) for number, parent, _, detail in rows]


def statements() -> SQLiteBackend:
    return SQLiteBackend(":memory:")


def test_every_statement_is_accounted_for():
    # The probe of the layout reads no row.
    assert set(statements().statements.names()) - {"probe"} == MEANT.keys() | ELSEWHERE
    for name in ELSEWHERE:
        assert "FROM tinyjobs_jobs" not in statements().statements[name].qmark
        assert "UPDATE tinyjobs_jobs" not in statements().statements[name].qmark


@pytest.mark.parametrize("name", MEANT)
def test_the_way_a_statement_takes(large_file, name):
    sql = statements().statements[name].qmark
    steps = plan(large_file, sql)
    accesses = [access for step in steps if (access := step.access(aliases(sql)))]
    whole = "\n".join(step.detail for step in steps)
    assert accesses, whole
    assert {index for _, index in accesses} == MEANT[name], whole
    scans = {index for kind, index in accesses if kind == "SCAN"}
    assert not scans & {KEY, QUEUE}, f"a walk through the whole table:\n{whole}"
    assert name in MAY_SCAN or not scans, f"a walk through an index:\n{whole}"


@pytest.mark.parametrize("name", MEANT)
def test_nothing_is_sorted_that_stands_in_order(large_file, name):
    sql = statements().statements[name].qmark
    steps = plan(large_file, sql)
    whole = "\n".join(step.detail for step in steps)
    sorts = [step for step in steps if "TEMP B-TREE FOR" in step.detail]
    assert name in MAY_SORT or not sorts, whole
    if name.startswith("claim"):
        for step in sorts:
            beside = [other.access(aliases(sql)) for other in steps if other.parent == step.parent]
            assert ("SEARCH", READY) not in beside, f"the ready jobs of a queue are sorted:\n{whole}"
            assert ("SCAN", READY) not in beside, f"the ready jobs are sorted:\n{whole}"


@pytest.mark.parametrize("name", [name for name in MEANT if name.startswith("scan_")])
def test_a_bounded_look_reads_its_rows_in_order(large_file, name):
    """Only what it found is sorted: the rows that are looked at come in the order of the page."""
    steps = plan(large_file, statements().statements[name].qmark)
    (looked,) = (step for step in steps if step.detail in ("MATERIALIZE looked", "CO-ROUTINE looked"))
    below = [step.detail for step in steps if step.parent == looked.number]
    assert not [detail for detail in below if "TEMP B-TREE FOR ORDER BY" in detail], below


def test_a_key_is_looked_up_when_a_job_is_sent(large_file):
    """The unique index decides, not a search: `insert` has no plan beyond it."""
    sql = statements().statements["insert"].qmark
    assert [step.detail for step in plan(large_file, sql) if step.access(aliases(sql))] == []
    with closing(sqlite3.connect(large_file)) as connection:
        indexes = list(unique_indexes(connection))
    assert indexes == [("tinyjobs_jobs_key", "active_key")]


def unique_indexes(connection: sqlite3.Connection) -> Iterator[tuple[str, str]]:
    for _, name, is_unique, origin, _ in connection.execute("PRAGMA index_list(tinyjobs_jobs)").fetchall():
        if is_unique and origin == "c":
            ((_, _, column),) = connection.execute(f"PRAGMA index_info({name})").fetchall()
            yield name, column


def test_one_index_holds_every_job(large_file):
    """The one that lists a queue. Every further one would be paid for by each enqueue and grow with the history."""
    with closing(sqlite3.connect(large_file)) as connection:
        full = {
            name.removeprefix("tinyjobs_jobs_")
            for _, name, _, origin, is_partial in connection.execute("PRAGMA index_list(tinyjobs_jobs)").fetchall()
            if origin == "c" and not is_partial
        }
    assert full == {"by_queue"}
