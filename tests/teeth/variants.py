"""The SQLite store with one thing taken out of it each, that a guarantee stands on.

Each has a URL scheme, by which other processes open it as well once `plugin` has registered the schemes for them.
Nothing here is subtle: what is tried is not the store but whoever looks for faults in one.
"""

import asyncio
import re
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from tinyjobs.backends.sql.claim import claim
from tinyjobs.backends.sql.connection import Connection
from tinyjobs.backends.sql.plain import PlainDialect
from tinyjobs.backends.sql.rows import pack_outcomes
from tinyjobs.backends.sql.statements import Statements, make_statement
from tinyjobs.backends.sqlite.backend import SQLiteBackend
from tinyjobs.backends.time import StoreTime
from tinyjobs.core.clock import Clock
from tinyjobs.core.job import ClaimRequest, Job, Recorded
from tinyjobs.core.transitions import Outcome

#: How long a variant that does in two steps what must be one rests between them, in seconds.
GAP = 0.02


async def rest() -> None:
    """Let others come in between: on an event loop's own time where there is one, else on the thread's."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        time.sleep(GAP)
    else:
        await asyncio.sleep(GAP)


class Variant(SQLiteBackend):
    """With nothing taken out: what shows that the others are found for what they lack."""

    scheme: ClassVar[str]
    #: Tests of the contract that have to fail.
    found_by: ClassVar[tuple[str, ...]] = ()
    #: Patterns in statements, and what stands there instead.
    changes: ClassVar[dict[str, tuple[str, str]]] = {}

    def __init__(self, path: str, **options: Any) -> None:
        super().__init__(path, **options)
        change(self.statements, self.changes)

    @classmethod
    def from_url(cls, url: str, *, clock: Clock, **options: Any) -> "Variant":
        rest_of_it = url.partition("://")[2]
        if rest_of_it == "memory":
            return cls(":memory:", clock=clock, **options)
        return super().from_url(f"sqlite://{rest_of_it}", clock=clock, **options)


def change(statements: Statements, changes: dict[str, tuple[str, str]]) -> None:
    for name, (pattern, instead) in changes.items():
        text, count = re.subn(pattern, instead, statements[name].format)
        assert count, f"the statement {name} is not what it was when this variant was made:\n{text}"
        statements._statements[name] = make_statement(name, text)


_FENCE = (r"[\w.]+claims = (json_extract\(\w+\.value, '\$\[1\]'\)|\w+\.claim|%s)", r"\1 IS NOT NULL")


class Unfenced(Variant):
    """Whoever reports for a job that runs is believed, whichever claim it was."""

    scheme = "unfenced"
    found_by = (
        "test_stale_calls_do_not_touch_the_next_claim",
        "test_a_cancelled_run_does_not_come_back",
        "test_a_worker_cannot_keep_anothers_claim_alive",
    )
    changes = dict.fromkeys(
        (
            "record_executions",
            "record_held",
            "record_jobs",
            "record_success_executions",
            "record_success_jobs",
            "heartbeat",
        ),
        _FENCE,
    )


class TakesBackWhatIsHeld(Variant):
    """The reaper does not look at how long a lease still runs."""

    scheme = "lease-ignored"
    found_by = ("test_a_lease_that_still_runs_is_left_alone", "test_a_heartbeat_lengthens_the_lease")
    changes = {"expired": (r"lease_expires_at < %s", "lease_expires_at < %s + 1e9")}


class TakesNothingBack(Variant):
    """Leases that have run out are left as they are."""

    scheme = "lease-for-ever"
    found_by = ("test_a_lost_job_is_queued_again", "test_recovery_needs_nothing_but_the_job")
    changes = {"expired": (r"lease_expires_at < %s", "lease_expires_at < %s - 1e9")}


class LooksForTheKeyFirst(Variant):
    """Reads who holds a key, and then writes the job if that was nobody."""

    scheme = "key-read-first"
    found_by = ("test_racing_enqueues_of_one_key", "test_racing_bulks_of_the_same_keys")
    changes = {"insert": (r"ON CONFLICT .*", "")}

    async def setup(self) -> None:
        await super().setup()

        async def verb(connection: Connection) -> None:
            # One of the same name that is not unique, or the next setup would find it lacking and make it again.
            index, table = f"{self.statements.prefix}_jobs_key", f"{self.statements.prefix}_jobs"
            await connection.execute(make_statement("drop", f"DROP INDEX IF EXISTS {index}"))
            await connection.execute(make_statement("make", f"CREATE INDEX {index} ON {table} (active_key)"))

        await self._runner.run(verb, write=True)

    async def enqueue(self, job: Job) -> Job:
        return (await self.enqueue_many([job]))[0]

    async def enqueue_many(self, jobs: Sequence[Job]) -> list[Job]:
        found = [None if job.key is None else await self.holder(job.key) for job in jobs]
        if any(job.key is not None for job in jobs):
            await rest()
        kept = await super().enqueue_many([job for job, holder in zip(jobs, found, strict=True) if holder is None])
        left = iter(kept)
        return [next(left) if holder is None else replace(holder, existing=True) for holder in found]


class _InParts(PlainDialect):
    async def record_and_claim(
        self, connection: Connection, outcomes: Sequence[Outcome], request: ClaimRequest | None, time: StoreTime
    ) -> Recorded:
        now = time.told()
        history = make_statement(
            "history", f"INSERT OR REPLACE INTO {self.statements.prefix}_executions VALUES ({', '.join(['%s'] * 9)})"
        )
        applied = []
        for outcome in outcomes:
            packed, binary = pack_outcomes([outcome])
            landed = bool(await connection.execute(self.statements["record_jobs"], [now, now, packed]))
            if landed and binary:
                await connection.many(self.statements["record_result"], binary)
            applied.append(landed)
            if landed and (entry := outcome.execution) is not None:
                await rest()
                times = [entry.started_at, entry.finished_at]
                what = [entry.job_id, entry.claim, entry.attempt, entry.status.value, entry.worker_id]
                await connection.execute(history, [*what, *times, entry.error_type, entry.traceback])
        claimed = None
        if request is not None:
            async with connection.transaction():
                claimed = await claim(self.statements, connection, request, now, returning=self.returning)
        return Recorded(applied, claimed)


class WritesInParts(Variant):
    """An outcome's job and its history, and each outcome of a group, are written one after the other."""

    scheme = "in-parts"
    found_by = ("test_an_outcome_is_seen_whole",)

    def __init__(self, path: str, **options: Any) -> None:
        super().__init__(path, **options)
        self.dialect = _InParts(self.dialect.statements)

    def record_now(self, outcomes: Sequence[Outcome], request: ClaimRequest | None) -> Recorded | None:
        return None


VARIANTS: list[type[Variant]] = [Unfenced, TakesBackWhatIsHeld, TakesNothingBack, LooksForTheKeyFirst, WritesInParts]


def plugin(folder: Path) -> Path:
    """Write what registers the schemes for a Python process that has this folder on its path; the folder."""
    info = folder / "tinyjobs_teeth-1.0.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tinyjobs-teeth\nVersion: 1.0\n")
    lines = [f"{variant.scheme} = {__name__}:{variant.__name__}.from_url" for variant in VARIANTS]
    (info / "entry_points.txt").write_text("\n".join(["[tinyjobs.backends]", *lines, ""]))
    return folder
