"""A large store and its plans: what a statement would read in it, told by the server itself."""

import itertools
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import psycopg

from tinyjobs.backends.postgres.backend import PostgresBackend
from tinyjobs.backends.registry import open_backend
from tinyjobs.core.clock import SystemClock
from tinyjobs.core.inline import finish

FINISHED, DELAYED, RUNNING, READY = 200_000, 100_000, 50_000, 600
QUEUES = ("default", "mail", "video")
PRIORITIES = 1_000

#: Everything but ready jobs, and above all of those delayed ones of every higher priority.
FILL = f"""
INSERT INTO tinyjobs_jobs (
    id, task, queue, status, priority, attempts, max_attempts, claims, run_at, created_at, started_at, finished_at,
    due_at, lease_expires_at, worker_id, payload, result, expires_at, lapses_at
)
SELECT
    lpad(to_hex(n), 12, '0') || '-old', 'shop.tasks.pack', 'queue-' || n % 3, 'success', 0, 1, 3, 1,
    1000 + n, 1000 + n, 1000 + n, 1001 + n, NULL::float8, NULL::float8, 'worker-0', '{{}}'::bytea,
    'null'::bytea, NULL::float8, NULL::float8
FROM generate_series(1, {FINISHED}) AS n
UNION ALL
SELECT
    lpad(to_hex(n), 12, '0') || '-due', 'shop.tasks.pack', (ARRAY['default', 'mail', 'video'])[1 + n % 3], 'queued',
    1 + n % {PRIORITIES}, 0, 3, 0, 4e9 + n, 1000, NULL, NULL, 4e9 + n, NULL, NULL, '{{}}', NULL,
    CASE WHEN n % 10 = 0 THEN 3e9 + n END, CASE WHEN n % 10 = 0 THEN 3e9 + n END
FROM generate_series(1, {DELAYED}) AS n
UNION ALL
SELECT
    lpad(to_hex(n), 12, '0') || '-run', 'shop.tasks.pack', (ARRAY['default', 'mail', 'video'])[1 + n % 3], 'running',
    n % {PRIORITIES}, 1, 3, 1, 1000, 1000, 1000, NULL, NULL, 4e9, 'worker-0', '{{}}', NULL, NULL, NULL
FROM generate_series(1, {RUNNING}) AS n;
"""
FILL_READY = f"""
INSERT INTO tinyjobs_jobs (id, task, queue, status, priority, run_at, created_at, ready_at, max_attempts, payload)
SELECT
    lpad(to_hex(n), 12, '0') || '-now', 'shop.tasks.pack', (ARRAY['default', 'mail', 'video'])[1 + n % 3], 'queued',
    0, 1000 + n, 1000 + n, 1000 + n, 3, '{{}}'
FROM generate_series(1, {READY}) AS n
"""


@dataclass(frozen=True)
class Plan:
    """What the server says it did for a statement."""

    nodes: list[dict[str, Any]]
    buffers: int

    @classmethod
    def of(cls, explained: dict[str, Any]) -> Self:
        top = explained["Plan"]
        return cls(list(_walk(top)), top["Shared Hit Blocks"] + top["Shared Read Blocks"])

    def indexes(self) -> set[str]:
        """The indexes of the jobs it went by, without the prefix."""
        names = {node["Index Name"] for node in self.nodes if "Index Name" in node}
        return {name.removeprefix("tinyjobs_jobs_") for name in names if name.startswith("tinyjobs_jobs_")}

    def whole_tables(self) -> list[str]:
        """The tables that were read from end to end, but for the one of tallies, which is kept small."""
        names = [node["Relation Name"] for node in self.nodes if node["Node Type"] in ("Seq Scan", "Bitmap Heap Scan")]
        return [name for name in names if name != "tinyjobs_tallies"]

    def most_rows_sorted(self) -> int:
        sorts = [node["Actual Rows"] for node in self.nodes if "Sort" in node["Node Type"]]
        return max(sorts, default=0)


class Examined:
    """One store, and what its statements cost there. Everything is undone."""

    def __init__(self, url: str) -> None:
        self.url = url
        store = open_backend(url, clock=SystemClock())
        assert isinstance(store, PostgresBackend)
        inline = store.inline()
        finish(inline.setup())
        finish(store.close())
        self.statements = store.statements
        self.connection = psycopg.connect(url, autocommit=True, cursor_factory=psycopg.ClientCursor)
        text, parameters = store._source.settings()
        self.connection.execute(text, parameters)
        self.connection.execute("SET search_path = public")
        self._numbers = itertools.count()

    def close(self) -> None:
        self.connection.close()

    def explain(self, name: str, parameters: Sequence[Any]) -> Plan:
        """Run the statement by the plan that serves any parameters, as a worker's connection does, and undo it."""
        numbers = itertools.count(1)
        text = re.sub(r"%s", lambda _: f"${next(numbers)}", self.statements[name].format).replace("%%", "%")
        prepared = f"examined_{next(self._numbers)}"
        given = ", ".join(["%s"] * len(parameters))
        with self.connection.transaction(force_rollback=True):
            self.connection.execute(f"PREPARE {prepared} AS {text}")
            explain = f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON, TIMING OFF) EXECUTE {prepared}({given})"
            ((answer,),) = self.connection.execute(explain if parameters else explain[:-2], parameters).fetchall()
            self.connection.execute(f"DEALLOCATE {prepared}")
        explained = answer if isinstance(answer, list) else json.loads(answer)
        return Plan.of(explained[0])


def _walk(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for child in node.get("Plans", ()):
        yield from _walk(child)
