"""Runs one round inside the environment made for it, and writes what happened as JSON.

Started as a script, by its path, with `round.json` of the round's folder as its only argument. Assumes a folder that
holds Django's package `tasks`, edited; imports nothing of this repository but the installed tinyjobs.
"""

import faulthandler
import json
import os
import sys
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit


def settings_for(folder: Path, declared_on: str, in_file: bool, server: str | None) -> dict[str, object]:
    """A project with the sample tasks and tinyjobs in it, on the database settings that the docs recommend."""
    return {
        "SECRET_KEY": "of a test run",
        "USE_TZ": True,
        "INSTALLED_APPS": ["tinyjobs", "tasks"],
        "DEFAULT_AUTO_FIELD": "django.db.models.BigAutoField",
        "DATABASES": {"default": postgres(server) if server and not is_redis(server) else sqlite(folder, in_file)},
        "TASKS": {"default": {"BACKEND": declared_on}},
    }


def is_redis(server: str) -> bool:
    return server.partition(":")[0] in ("redis", "rediss", "unix", "valkey", "valkeys")


def keep_jobs_in(url: str, waits_for_commit: bool) -> None:
    """Have every alias of ours keep its jobs there, since Django's tests write settings without options."""
    from tinyjobs.taskbackend import shared

    parse = shared.parse_options

    def parse_more(alias: str, options: object) -> object:
        return parse(alias, {"url": url, "enqueue_on_commit": waits_for_commit, **options})

    shared.parse_options = parse_more


def sqlite(folder: Path, in_file: bool) -> dict[str, object]:
    database = str(folder / "jobs.sqlite3") if in_file else ":memory:"
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": database,
        "TEST": {"NAME": database},
        "OPTIONS": {"transaction_mode": "IMMEDIATE", "timeout": 20},
    }


def postgres(server: str) -> dict[str, object]:
    """A database of this process's own on the server. The test runner makes and drops it."""
    place = urlsplit(server)
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": "postgres",
        "HOST": unquote(place.hostname or ""),
        "PORT": str(place.port or ""),
        "USER": unquote(place.username or ""),
        "PASSWORD": unquote(place.password or ""),
        "OPTIONS": dict(parse_qsl(place.query)),
        "TEST": {"NAME": f"tinyjobs_django_suite_{os.getpid()}"},
    }


def run(
    folder: Path,
    *,
    declared_on: str,
    in_file: bool,
    server: str | None,
    waits_for_commit: bool,
    apps: bool,
    labels: list[str],
    verbosity: int,
) -> dict[str, object]:
    """Run the tests of the labels; ids of subtests are folded into their test's."""
    sys.path[0] = str(folder)  # in the place of the script's own folder, whose modules are none of the tests' business

    import django
    from django.conf import settings

    chosen = settings_for(folder, declared_on, in_file, server)
    if not apps:
        chosen["INSTALLED_APPS"] = []
    settings.configure(**chosen)
    django.setup()
    jobs = None
    if server and is_redis(server):
        import redis

        keep_jobs_in(server, waits_for_commit)
        jobs = redis.Redis.from_url(server)

    import unittest

    from django.test.runner import DiscoverRunner

    class Listing(unittest.TextTestResult):
        """A result that remembers which tests were started."""

        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self.started: list[str] = []

        def startTest(self, test):
            self.started.append(test.id())
            if jobs is not None:  # what a test's end does for a database
                jobs.flushdb()
            super().startTest(test)

    class Runner(DiscoverRunner):
        """Django's runner, for one result that can be read afterwards."""

        seen: Listing

        def get_resultclass(self):
            return Listing

        def suite_result(self, suite, result, **kwargs):
            self.seen = result
            return super().suite_result(suite, result, **kwargs)

    runner = Runner(verbosity=verbosity, interactive=False)
    runner.run_tests(labels)
    seen = runner.seen
    failed = [getattr(test, "test_case", test).id() for test, _ in (*seen.failures, *seen.errors)]
    return {
        "django": django.get_version(),
        "started": seen.started,
        "failed": failed + [test.id() for test in seen.unexpectedSuccesses],
        "skipped": {test.id(): reason for test, reason in seen.skipped},
    }


if __name__ == "__main__":
    file = Path(sys.argv[1])
    order = json.loads(file.read_text())
    # A round that hangs says where, in every thread, and ends.
    faulthandler.dump_traceback_later(order.pop("seconds"), exit=True)
    outcome = run(file.parent, **order)
    (file.parent / "outcome.json").write_text(json.dumps(outcome, indent=1))
