"""The benchmark command. `python -m tests.benchmarks --help` says what it can do."""

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path

from tests.benchmarks import peers, plan, rows_postgres, rows_redis, rows_sqlite, table
from tests.benchmarks.pairs import Outcome, Runner, Sizes
from tests.benchmarks.stores import SQLiteFiles, Store

FULL = Sizes(
    jobs=20_000, bulk=20_000, singles=3_000, samples=40, finished=200_000, delayed=100_000, idle_seconds=20.0, delay=3.0
)
QUICK = Sizes(
    jobs=4_000, bulk=4_000, singles=500, samples=6, finished=20_000, delayed=10_000, idle_seconds=2.0, delay=1.0
)
ROWS = {"sqlite": rows_sqlite.rows, "postgres": rows_postgres.rows, "redis": rows_redis.rows}


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks",
        description="Measures enqueue, bulk enqueue, drain, latency, idle cost and lateness of this project on a "
        "store, and with --peers the same shapes of other job queues, in alternated pairs. Prints a table and keeps it "
        "as Markdown and JSON. Absolute figures drift with the machine; trust the ratios of one run. A drain is timed "
        "from the start of its first job to the moment the store shows all of them finished; starting interpreters "
        "is never counted.",
    )
    parser.add_argument(
        "--store", default="sqlite", choices=sorted(ROWS), help="the store to measure on (default: sqlite)"
    )
    parser.add_argument(
        "--server",
        metavar="URL",
        help="with --store postgres, a server to measure on instead of a private one: that of a superuser, with "
        "pg_stat_statements loaded, and with nothing else to do",
    )
    parser.add_argument(
        "--peers",
        action="store_true",
        help="measure the peers too; makes a pinned virtual environment for each, once, in the cache folder",
    )
    parser.add_argument(
        "--skip", action="append", default=[], metavar="PEER", help="leave this peer out; may be repeated"
    )
    parser.add_argument(
        "--only", default="", metavar="WORDS", help="only rows whose key begins with one of these, by commas"
    )
    parser.add_argument("--list", action="store_true", help="print the keys of the rows and end")
    parser.add_argument("--pairs", type=int, help="alternated pairs for each ratio (default: 5, with --quick 1)")
    parser.add_argument("--quick", action="store_true", help="small sizes and one pair: a look, not a measurement")
    parser.add_argument("--jobs", type=int, help=f"jobs in one drain (default: {FULL.jobs:,})")
    parser.add_argument("--singles", type=int, help=f"jobs in one run of single enqueues (default: {FULL.singles:,})")
    parser.add_argument("--bulk", type=int, help=f"jobs in one bulk call (default: {FULL.bulk:,})")
    parser.add_argument("--samples", type=int, help=f"jobs timed for latency (default: {FULL.samples})")
    parser.add_argument("--finished", type=int, help=f"finished jobs in a filled store (default: {FULL.finished:,})")
    parser.add_argument("--delayed", type=int, help=f"delayed jobs in a filled store (default: {FULL.delayed:,})")
    parser.add_argument(
        "--out", type=Path, help="folder for benchmark.md and benchmark.json (default: in the cache folder)"
    )
    parser.add_argument(
        "--cache", type=Path, default=peers.default_cache(), help="where environments and results are kept"
    )
    parser.add_argument("--scratch", type=Path, help="where SQLite's files are written (default: the system's)")
    parser.add_argument("--strict", action="store_true", help="end with status 1 when a bar is missed")
    return parser.parse_args(arguments)


def chosen(given: argparse.Namespace) -> list[plan.Row]:
    """The rows asked for, without the rivals that are left out."""
    words = [word for word in given.only.split(",") if word]

    def kept(subject: plan.Subject) -> bool:
        return subject.peer is None or (given.peers and subject.peer not in given.skip)

    return [
        replace(row, rivals=tuple(rival for rival in row.rivals if kept(rival.work.subject)))
        for row in ROWS[given.store]()
        if kept(row.work.subject) and (not words or any(row.key.startswith(word) for word in words))
    ]


def sizes(given: argparse.Namespace) -> Sizes:
    """The sizes of the mode, with those that were given by name."""
    named = {name: getattr(given, name) for name in ("jobs", "bulk", "singles", "samples", "finished", "delayed")}
    return replace(
        QUICK if given.quick else FULL, **{name: value for name, value in named.items() if value is not None}
    )


def store_of(given: argparse.Namespace) -> Callable[[Path], Store]:
    """What makes the store to measure on, in a folder of the run's own."""
    if given.store == "sqlite":
        return SQLiteFiles
    # Imported when it is wanted: it needs the driver.
    if given.store == "redis":
        from tests.benchmarks.keyspaces import RedisServers

        return lambda folder: RedisServers()
    from tests.benchmarks.databases import PostgresDatabases

    return lambda folder: PostgresDatabases(given.server)


def measure(rows: list[plan.Row], runner: Runner, pairs: int, tell: Callable[[str], None]) -> Iterator[Outcome]:
    for number, row in enumerate(rows, 1):
        tell(f"row {number} of {len(rows)}: {row.title}")
        yield runner.compare(row, pairs, tell)


def main(arguments: list[str] | None = None) -> int:
    given = parse(arguments)
    rows = chosen(given)
    if given.list:
        print("\n".join(row.key for row in rows))
        return 0
    unknown = sorted(set(given.skip) - set(peers.PINS))
    if unknown or not rows:
        print(f"--skip knows {', '.join(peers.PINS)}; --only must leave a row (see --list).", file=sys.stderr)
        return 2
    works = [work for row in rows for work in (row.work, *(rival.work for rival in row.rivals))]
    wanted = sorted({work.subject.peer for work in works if work.subject.peer})
    pythons = {peer: peers.python_of(peer, given.cache) for peer in wanted}
    pairs = given.pairs or (1 if given.quick else 5)
    size = sizes(given)
    runner = Runner(size, pythons.__getitem__, store_of(given), given.scratch)
    begun = time.monotonic()
    host = table.machine() | runner.store.settings()

    def tell(text: str) -> None:
        print(f"{time.monotonic() - begun:6.0f} s {text}", file=sys.stderr, flush=True)

    out = given.out or given.cache / "results" / datetime.now(UTC).strftime("%Y-%m-%dT%H%M%SZ")
    outcomes: list[Outcome] = []
    told: list[str] = []
    try:
        # Kept after every row: a run takes half an hour, and one that is interrupted has told something too.
        for outcome in measure(rows, runner, pairs, tell):
            outcomes.append(outcome)
            told = table.lines(outcomes, host, runner.runs, {"pairs": pairs, **asdict(size)})
            table.keep(out, told, outcomes, host, runner.runs)
    except KeyboardInterrupt:
        tell(f"interrupted after {len(outcomes)} of {len(rows)} rows")
    finally:
        runner.close()
    print("\n".join(told))
    print(f"\nKept in {out}.", file=sys.stderr)
    if len(outcomes) < len(rows) or any(outcome.failures for outcome in outcomes):
        return 1
    return 1 if given.strict and table.missed(outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
