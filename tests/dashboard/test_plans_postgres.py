"""What a page costs a large store on Postgres: as many statements as in a small one, and none that walks through it.

The plans are the server's own, of the statements as Django sent them, run once more to see what they read.
"""

from dataclasses import dataclass

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tests.benchmarks.dashboard import fill, pages
from tests.postgres.filled import Plan
from tinyjobs.dashboard.pages.jobs import PAGE, SCANNED

pytestmark = [pytest.mark.postgres, pytest.mark.django_db(transaction=True)]

SMALL, LARGE = 8_000, 60_000
#: What a walk could go through. The other tables are as small as the number of workers, schedules and quarter hours.
GROWING = ("tinyjobs_jobs", "tinyjobs_executions")
#: Indexes of what has not ended: as long as the work that is left to do, however much was done.
LIVE = {"ready", "due", "running", "held", "waiting", "lapse", "key"}
#: A page and one more of it, or as many as a search looks at and one more.
MOST_READ = SCANNED + 1
#: Statements of any page, those of the admin included; a search reads each job that it shows once more.
MOST = 20
SHOWS_FIFTY = "job/?q=%22user%22"
#: One that is too old to be found is read by its id, which a search by an id does beside.
BY_ID = "job/?q=ID"


@dataclass(frozen=True)
class Asked:
    """What a page asked the database."""

    statements: list[str]

    @property
    def ours(self) -> list[str]:
        """Those about our tables."""
        return [sql for sql in self.statements if "tinyjobs_" in sql]


def asked(client, page):
    with CaptureQueriesContext(connection) as captured:
        answer = client.get(f"/admin/tinyjobs/{page}")
    assert answer.status_code == 200
    return Asked([query["sql"] for query in captured])


def all_pages(job_id):
    """The benchmark's, and the forms. Beside each what it is called, whatever the job's id."""
    found = [*pages(job_id), "job/?status=running", "job/?status=cancelled", "schedule/?q=07"]
    found += ["schedule/add/", "schedule/schedule-07/edit/", f"job/?q={job_id}"]
    return {page.replace(job_id, "ID"): page for page in found}


def empty():
    with connection.cursor() as cursor:
        names = [name for name in connection.introspection.table_names(cursor) if name.startswith("tinyjobs_")]
        kept = [name for name in names if name != "tinyjobs_meta"]
        cursor.execute(f"TRUNCATE {', '.join(kept)}")


def explained(sql):
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON, TIMING OFF) {sql}")
        ((answer,),) = cursor.fetchall()
    return Plan.of(answer[0])


def walks(plan, most=MOST_READ):
    """What a plan reads of a table that grows, beyond what a page may."""
    found = []
    for node in plan.nodes:
        index = node.get("Index Name", "")
        if "Scan" not in node["Node Type"] or not (node.get("Relation Name") in GROWING or index.startswith(GROWING)):
            continue
        removed = sum(node.get(f"Rows Removed by {why}", 0) for why in ("Filter", "Index Recheck"))
        read = (node["Actual Rows"] + removed) * node["Actual Loops"]
        is_of_live = index.removeprefix("tinyjobs_jobs_") in LIVE
        is_judged_below = node["Node Type"] == "Bitmap Heap Scan"  # by the index that it was told by
        if not is_judged_below and (not index or (read > most and not is_of_live)):
            found.append((node["Node Type"], index or node["Relation Name"], read))
    return found


def walks_of(made):
    """By the statement: pages that make it, and what it reads."""
    bad = {}
    for name, page in made.items():
        for sql in page.ours:
            assert sql.lstrip().startswith(("SELECT", "WITH", "--")), f"{name} does more than look: {sql}"
            if sql not in bad and (found := walks(explained(sql))):
                bad[sql] = name, found
    return bad


def test_pages_ask_the_same_of_a_large_store_and_read_little_of_it(admin):
    admin.get("/admin/tinyjobs/")  # what is asked once a process
    numbers = []
    for size in (SMALL, LARGE):
        empty()
        job_id = fill(size)
        made = {name: asked(admin, page) for name, page in all_pages(job_id).items()}
        numbers.append({name: len(page.statements) for name, page in made.items()})
    few, many = numbers
    assert many[BY_ID] == few[BY_ID] + 1
    assert {**many, BY_ID: 0} == {**few, BY_ID: 0}
    assert {name for name, number in many.items() if number > MOST} == {SHOWS_FIFTY}
    assert many[SHOWS_FIFTY] <= MOST + PAGE
    assert walks_of(made) == {}
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")
    assert walks_of(made) == {}


def test_the_search_for_walks_finds_each_kind(admin):
    fill(SMALL)
    for sql in (
        "SELECT count(*) FROM tinyjobs_jobs WHERE task = 'no.such.task'",
        "SELECT * FROM tinyjobs_executions WHERE status = 'no such status'",
    ):
        assert [index for _, index, _ in walks(explained(sql))] == [sql.split()[3]]
    newest = "SELECT id, task FROM tinyjobs_jobs ORDER BY id DESC LIMIT 5000"
    by_index = f"SELECT id FROM ({newest}) AS newest WHERE task = 'no.such.task'"
    assert not walks(explained(by_index))
    assert walks(explained(by_index), most=4_000)
