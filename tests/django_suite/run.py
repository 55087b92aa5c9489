"""Run Django's own tests of its tasks framework against this checkout.

    python tests/django_suite/run.py [--django 6.0|6.1|both] [--round NAME] [--store sqlite|postgres|redis]

Fetches Django's source distribution, takes `tests/tasks` out of it, edits a copy for each round (see rounds.py) and
runs it in an environment with that Django and this checkout. Nothing of Django's is kept in the repository. The exit
status is 1 when a test failed, when an edit did not find its place, or when a round did not run exactly the number of
tests that releases.py expects of it.

On Postgres the databases are made on the server that TINYJOBS_TEST_POSTGRES names, or else on a private one; that takes
psycopg in the environment that runs this. On Redis the project's database is SQLite, and jobs are in an empty database
of the server that TINYJOBS_TEST_REDIS names, or else of a private one; that takes redis.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.django_suite.environment import CHECKOUT, CannotPrepare, cache_folder, python_for, tests_of
from tests.django_suite.outcome import Outcome, judge
from tests.django_suite.releases import RELEASES, Release
from tests.django_suite.rewriting import PatchDoesNotApply, apply
from tests.django_suite.rounds import Round, rounds

HERE = Path(__file__).resolve().parent
SECONDS_PER_ROUND = 240


def main(arguments: list[str] | None = None) -> int:
    names = [round_.name for round_ in rounds("6.1")]
    parser = argparse.ArgumentParser(description="Run Django's own tests of its tasks framework against this checkout.")
    parser.add_argument("--django", choices=[*RELEASES, "both"], default="both", help="which series (default: both)")
    parser.add_argument("--round", choices=names, action="append", help="only this round; may be repeated")
    parser.add_argument("--store", choices=["sqlite", "postgres", "redis"], default="sqlite", help="of the jobs")
    parser.add_argument("--cache", type=Path, default=CHECKOUT / ".cache" / "django_suite", help="where to keep things")
    parser.add_argument("--verbosity", type=int, default=1, choices=[0, 1, 2, 3], help="as in manage.py test")
    options = parser.parse_args(arguments)

    series = list(RELEASES) if options.django == "both" else [options.django]
    try:
        cache = cache_folder(options.cache.resolve())
        with server(options.store) as url:
            outcomes = [
                outcome
                for release in map(RELEASES.__getitem__, series)
                for outcome in run_release(release, cache, options.round or names, options.verbosity, url)
            ]
    except (CannotPrepare, PatchDoesNotApply) as error:
        print(f"\nStopped: {error}", file=sys.stderr)
        return 1
    return report(outcomes)


@contextmanager
def server(store: str) -> Iterator[str | None]:
    """The URL of the Postgres server or of the Redis database to run on; None: each round has a SQLite database."""
    if store == "sqlite":
        yield None
        return
    # What these need a run on SQLite does not.
    if store == "redis":
        from tests.servers.redis import URL_VARIABLE as REDIS
        from tests.servers.redis import RedisServer, Server

        with closing(Server(os.environ[REDIS]) if REDIS in os.environ else RedisServer()) as redis:
            number = redis.create_database()
            try:
                yield redis.url(number)
            finally:
                redis.drop_database(number)
        return
    from tests.servers.postgres import URL_VARIABLE, Cluster

    if URL_VARIABLE in os.environ:
        yield os.environ[URL_VARIABLE]
        return
    with Cluster() as cluster:
        yield cluster.url()


def run_release(release: Release, cache: Path, names: list[str], verbosity: int, url: str | None) -> list[Outcome]:
    """Edit all rounds first, so that an edit that no longer fits is known before anything runs."""
    python = python_for(release, cache)
    source = tests_of(release, cache, python)
    chosen = [round_ for round_ in rounds(release.series) if round_.name in names]
    folders = [lay_out(round_, source, cache / "rounds" / release.series / round_.name) for round_ in chosen]
    return [
        run_round(release, round_, folder, python, verbosity, url)
        for round_, folder in zip(chosen, folders, strict=True)
    ]


def lay_out(round_: Round, source: Path, folder: Path) -> Path:
    """Write the round's package `tasks`: Django's sample tasks as they are, its test files edited, ours beside them."""
    shutil.rmtree(folder, ignore_errors=True)
    package = folder / "tasks"
    package.mkdir(parents=True)
    for name in ("__init__.py", "tasks.py"):
        shutil.copy(source / name, package)
    for name, edits in round_.edits.items():
        edited = apply(
            edits, (source / name).read_text(), f"{round_.name}: Django's {source.parts[-3]}/tests/tasks/{name}"
        )
        (package / name).write_text(edited)
    shutil.copy(HERE / "restated" / f"{round_.running}.py", package / "running.py")
    for name in round_.restated:
        shutil.copy(HERE / "restated" / f"{name}.py", package / f"test_restated_{name}.py")
    return folder


def run_round(release: Release, round_: Round, folder: Path, python: Path, verbosity: int, url: str | None) -> Outcome:
    labels = [f"tasks.{name.removesuffix('.py')}" for name in round_.edits]
    labels += [f"tasks.test_restated_{name}" for name in round_.restated]
    order = folder / "round.json"
    order.write_text(
        json.dumps(
            {
                "declared_on": round_.declared_on,
                "apps": round_.name != "control",
                "in_file": round_.in_file,
                "waits_for_commit": round_.waits_for_commit,
                "server": url,
                "labels": labels,
                "seconds": SECONDS_PER_ROUND,
                "verbosity": verbosity,
            }
        )
    )
    where = "" if url is None else f" (on {url.partition(':')[0]})"
    print(f"\n== Django {release.version}, {round_.name}: {round_.about}{where}", flush=True)
    command = [str(python), "-X", "dev", str(HERE / "child.py"), str(order)]
    status = subprocess.run(command, cwd=folder, check=False).returncode
    trouble = f"its process ended with status {status}" if status else None
    answer = folder / "outcome.json"
    seen = json.loads(answer.read_text()) if answer.exists() else None
    return judge(release, round_.name, seen, trouble)


def report(outcomes: list[Outcome]) -> int:
    """Say what ran, what did not and why; the last line is the sum."""
    print("\n== Summary")
    for outcome in outcomes:
        print(outcome)
    reasons = sorted({line for outcome in outcomes for line in outcome.skips})
    if reasons:
        print("\nSkipped, and why:", *(f"  {line}" for line in reasons), sep="\n")
    complaints = [f"  {outcome.name}: {line}" for outcome in outcomes for line in outcome.complaints]
    if complaints:
        print("\nNot as it should be:", *complaints, sep="\n")
    ran, failed, skipped = (
        sum(len(part) for part in parts)
        for parts in zip(*((outcome.passed, outcome.failed, outcome.skipped) for outcome in outcomes), strict=True)
    )
    print(f"\n{ran} passed, {failed} failed, {skipped} skipped")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
