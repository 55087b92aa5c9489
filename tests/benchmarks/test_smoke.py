"""That the benchmark's own programs and its command still work. Nothing here looks at how fast they were."""

import json
import sqlite3
from pathlib import Path

import pytest

from tests.benchmarks import peers, rows_postgres, rows_redis, rows_sqlite
from tests.benchmarks.__main__ import main
from tests.benchmarks.pairs import PROGRAMS, Runner, Sizes
from tests.benchmarks.plan import DJANGO, FACADE, Row, Work
from tests.benchmarks.rows_sqlite import BARE, BARE_TRANSACTION, CLAIMED, EAGER
from tests.benchmarks.stores import SQLiteFiles

TINY = Sizes(jobs=30, bulk=30, singles=30, samples=1, finished=20, delayed=10, idle_seconds=0.1, delay=0.2)
SENT = {"rate", "seconds"}
DRAINED = SENT | {"rate_from_gate", "first_start_ms", "record_tail_ms", "cpu_us_per_job", "runs", "runs_by_worker"}


def no_peers(name: str) -> Path:
    raise AssertionError(f"{name} is not this project's own")


@pytest.mark.parametrize(
    ("work", "keys"),
    [
        (Work(FACADE, "enqueue"), SENT | {"p50_us", "p99_us"}),
        (Work(DJANGO, "enqueue"), SENT | {"p50_us", "p99_us"}),
        (Work(BARE_TRANSACTION, "enqueue"), SENT | {"p50_us", "p99_us"}),
        (Work(EAGER, "enqueue", "thread"), SENT | {"p50_us", "p99_us"}),
        (Work(CLAIMED, "enqueue", "thread"), SENT | {"p50_us", "p99_us"}),
        (Work(FACADE, "bulk"), SENT),
        (Work(DJANGO, "bulk"), SENT),
        (Work(FACADE, "drain", "thread", workers=2), DRAINED),
        (Work(DJANGO, "drain", "coroutine"), DRAINED),
        (Work(FACADE, "drain", filled=True, priority=10), DRAINED),
        (Work(DJANGO, "drain", "thread", filled=True), DRAINED),
        (Work(BARE, "drain"), DRAINED),
        (Work(FACADE, "latency"), {"p50_ms", "p95_ms", "max_ms"}),
        (Work(DJANGO, "lateness", "thread"), {"p50_ms", "max_ms", "min_ms"}),
    ],
    ids=lambda given: f"{given.subject.script}-{given.shape}-{given.kind}" if isinstance(given, Work) else "",
)
def test_a_program_answers_with_its_figures(work: Work, keys: set[str], tmp_path: Path) -> None:
    runner = Runner(TINY, no_peers, SQLiteFiles, tmp_path)
    answer = runner.run(work)
    assert keys <= set(answer)
    if work.shape == "drain":
        # Every job ran once: the figures are of this work and no other.
        assert answer["runs"] == TINY.jobs
    if work.filled:
        assert answer["filled"] == {"finished": TINY.finished, "delayed": TINY.delayed, "priority": work.priority}


@pytest.mark.parametrize(
    "rows", [rows_sqlite.rows(), rows_postgres.rows(), rows_redis.rows()], ids=["sqlite", "postgres", "redis"]
)
def test_every_row_names_programs_that_exist(rows: list[Row]) -> None:
    assert len({row.key for row in rows}) == len(rows)
    for work in [work for row in rows for work in (row.work, *(rival.work for rival in row.rivals))]:
        assert (PROGRAMS / work.subject.script).exists()
        assert work.subject.peer is None or work.subject.peer in peers.PINS


def test_the_command_prints_and_keeps_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ["--quick", "--singles", "20", "--bulk", "20"]
    folders = ["--out", str(tmp_path / "out"), "--scratch", str(tmp_path), "--cache", str(tmp_path / "cache")]
    assert main([*sizes, *folders, "--only", "enqueue-facade,bulk-facade"]) == 0
    table = (tmp_path / "out" / "benchmark.md").read_text()
    assert table in capsys.readouterr().out + "\n"
    assert "Single enqueue by the facade" in table
    assert f"SQLite {sqlite3.sqlite_version}" in table
    kept = json.loads((tmp_path / "out" / "benchmark.json").read_text())
    assert [row["key"] for row in kept["rows"]] == ["enqueue-facade", "bulk-facade"]
    assert {"date", "cpu", "cores", "python", "commit"} <= set(kept["machine"])
