"""The table of commands and their options.

Both doors parse this table: the program `tinyjobs` and Django's `manage.py tinyjobs`. They differ in a few options of
their own, such as the one that says whose jobs are meant. A value is checked while it is parsed, by the same code that
checks it in a call or a settings file.
"""

import argparse
import re
from collections.abc import Callable
from typing import Any

from tinyjobs.app.steering import LONGEST_PAGE, text_of_an_id
from tinyjobs.cli.table import Command, Option
from tinyjobs.core.errors import TinyJobsError
from tinyjobs.core.options import check_queue, check_task_name
from tinyjobs.core.retention import FINAL_STATUSES, check_age
from tinyjobs.core.status import JobStatus
from tinyjobs.runtime.settings import WorkerSettings

_DEFAULTS = WorkerSettings()
METRICS_HOST = "127.0.0.1"
_UNITS = {"s": 1.0, "min": 60.0, "h": 3_600.0, "d": 86_400.0, "w": 604_800.0}

type Convert = Callable[[str], Any]


def queue_names(text: str) -> tuple[str, ...]:
    """The names in `mail,receipts`."""
    return tuple(_queue(name.strip()) for name in text.split(","))


def _checked(check: Callable[[], Any], source: str) -> Any:
    try:
        return check()
    except TinyJobsError as error:
        # argparse says itself which option it is about.
        raise argparse.ArgumentTypeError(str(error).removeprefix(f"{source}: ")) from error


def _setting(name: str, convert: type[int] | type[float]) -> Convert:
    """How the text of a worker's setting becomes its value."""
    kind = "whole number" if convert is int else "number of seconds"

    def parse(text: str) -> Any:
        try:
            value = convert(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not a {kind}") from None
        settings = _checked(lambda: WorkerSettings.parse({name: value}, "option"), f"option: {name}")
        return getattr(settings, name)

    return parse


def _page_size(text: str) -> int:
    try:
        limit = int(text)
    except ValueError:
        limit = 0
    if not 1 <= limit <= LONGEST_PAGE:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 to {LONGEST_PAGE}")
    return limit


def age_in_seconds(text: str) -> float:
    """The seconds in `90`, `90s`, `30min`, `12h`, `7d` or `2w`."""
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) ?(s|min|h|d|w)?", text.strip())
    if found is None:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a length of time from 0 up; write for example 90 (seconds), 30min, 12h, 7d or 2w"
        )
    return float(_checked(lambda: check_age(float(found[1]) * _UNITS[found[2] or "s"], "age"), "age"))


def _port(text: str) -> int:
    if not text.isdecimal() or not 0 <= int(text) <= 65_535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port, a whole number from 0 to 65535")
    return int(text)


def _queue(text: str) -> Any:
    return _checked(lambda: check_queue(text, "queue"), "queue")


def _task(text: str) -> Any:
    return _checked(lambda: check_task_name(text, "task"), "task")


def _knob(flag: str, convert: type[int] | type[float], what: str) -> Option:
    name = flag.removeprefix("--").replace("-", "_")
    details = {"type": _setting(name, convert), "metavar": "N" if convert is int else "SECONDS"}
    return Option((flag,), f"{what} (default: {getattr(_DEFAULTS, name):g})", details)


IMPORT = Option(
    ("--import",),
    "import these modules as well, so that their tasks are known; * stands for any name (may be given several times)",
    {"dest": "imports", "action": "append", "metavar": "MODULE", "default": None},
)
LOG_FORMAT = Option(
    ("--log-format",),
    "how the log is written: text for people (default), json for programs, one object per line",
    {"choices": ("text", "json"), "default": None},
)
JSON = Option(("--json",), "print JSON, for programs", {"action": "store_true", "dest": "as_json"})
_IDS = Option(("ids",), "the job's id, as a listing shows it", {"type": text_of_an_id, "metavar": "ID", "nargs": "+"})

_RELOAD = Option(
    ("--reload",),
    "start again when a source file changes, once running jobs have ended",
    {"action": argparse.BooleanOptionalAction, "default": None},
)
_GRACE = _knob("--misfire-grace", float, "how late a firing may be and still be on time")

WORKER = Command(
    "worker",
    "Run jobs until told to stop. The first Ctrl-C or SIGTERM lets running jobs end, the second does not wait.",
    (
        Option(
            ("--queues",),
            "serve only these queues, as in mail,receipts; priority and age decide between them (default: every queue)",
            {"type": queue_names, "action": "extend", "metavar": "NAMES", "default": None},
        ),
        _knob("--concurrency", int, "threads for plain functions"),
        _knob("--async-concurrency", int, "coroutines at once"),
        _knob("--lease", float, "how long a job stays with a worker that no longer answers"),
        _knob("--reap-interval", float, "how often jobs of vanished workers are looked for"),
        _knob("--poll", float, "the longest wait between two looks when idle"),
        _knob("--shutdown-timeout", float, "how long a stop waits for running coroutines"),
        _knob("--stall", float, "how long leases are renewed while the event loop is blocked"),
        Option(
            ("--scheduler",),
            "fire schedules as well (default); --no-scheduler leaves them to others",
            {"action": argparse.BooleanOptionalAction, "default": None},
        ),
        _GRACE,
        IMPORT,
        Option(
            ("--until-empty",),
            "end when nothing is due or running, and say how many jobs wait for later",
            {"action": "store_true"},
        ),
        _RELOAD,
        Option(
            ("--metrics-port",),
            "serve metrics for Prometheus there, at /metrics; 0 is any free port",
            {"type": _port, "metavar": "PORT", "default": None},
        ),
        Option(
            ("--metrics-host",),
            f"the address for it (default: {METRICS_HOST}, for this machine alone)",
            {"metavar": "HOST", "default": METRICS_HOST},
        ),
    ),
    ("worker", "worker --queues mail,receipts --concurrency 4", "worker --until-empty"),
)

JOBS = Command(
    "jobs",
    "Look at jobs, run failed ones again, cancel or delete others.",
    children=(
        Command(
            "jobs list",
            "List jobs, newest first.",
            (
                Option(
                    ("--status",),
                    "only jobs of this status",
                    {"choices": [status.value for status in JobStatus]},
                ),
                Option(("--queue",), "only jobs of this queue", {"type": _queue, "metavar": "NAME"}),
                Option(("--task",), "only jobs of this task", {"type": _task, "metavar": "NAME"}),
                Option(
                    ("--search",),
                    "only jobs with this text in their id, task or arguments, among 10,000 at a time",
                    {"type": text_of_an_id, "metavar": "TEXT", "default": None},
                ),
                Option(
                    ("--limit",),
                    f"how many, 1 to {LONGEST_PAGE} (default: 50)",
                    {"type": _page_size, "default": 50, "metavar": "N"},
                ),
                Option(("--cursor",), "go on where a page ended", {"type": text_of_an_id, "metavar": "CURSOR"}),
                JSON,
            ),
            ("jobs list --status failed", "jobs list --queue mail --limit 10 --json"),
        ),
        Command(
            "jobs show",
            "Show one job with its arguments, its attempts and their tracebacks.",
            (Option(("id",), "the job's id, as a listing shows it", {"type": text_of_an_id, "metavar": "ID"}), JSON),
            ("jobs show 0199c7e2-8d1f-7a34-9c55-0d9f2a6b7e01",),
        ),
        Command(
            "jobs retry",
            "Put failed or cancelled jobs back in the queue, with all of their attempts.",
            (_IDS, JSON),
            ("jobs retry 0199c7e2-8d1f-7a34-9c55-0d9f2a6b7e01",),
        ),
        Command(
            "jobs cancel",
            "End jobs that have not ended. What a running one does is not interrupted, but no longer counts.",
            (_IDS, JSON),
            ("jobs cancel 0199c7e2-8d1f-7a34-9c55-0d9f2a6b7e01",),
        ),
        Command(
            "jobs delete",
            "Delete jobs that have ended, with their history, before the retention does.",
            (_IDS, JSON),
            ("jobs delete 0199c7e2-8d1f-7a34-9c55-0d9f2a6b7e01",),
        ),
    ),
)

PURGE = Command(
    "purge",
    "Delete jobs that ended long ago, with their history. Workers do this by themselves, as the retention says.",
    (
        Option(
            ("--status",),
            "only jobs of this status (may be given several times; default: every status in which a job has ended)",
            {
                "choices": [status.value for status in FINAL_STATUSES],
                "action": "append",
                "dest": "statuses",
                "default": None,
            },
        ),
        Option(
            ("--older-than",),
            "those that ended so long ago, as in 12h, 7d or a number of seconds (default: what the retention says)",
            {"type": age_in_seconds, "metavar": "AGE", "default": None},
        ),
        Option(("--dry-run",), "delete nothing, and say how many would go", {"action": "store_true"}),
        JSON,
    ),
    ("purge --dry-run", "purge --status success --older-than 12h"),
)

SCHEDULER = Command(
    "scheduler",
    "Fire schedules and run no jobs, until told to stop. Every worker fires them as well, unless it is told not to.",
    (_GRACE, IMPORT, _RELOAD),
    ("scheduler",),
)

_NAMES = Option(("names",), "the schedule's name", {"type": text_of_an_id, "metavar": "NAME", "nargs": "+"})


def _of_schedules(action: str, help: str) -> Command:
    return Command(f"schedules {action}", help, (_NAMES, JSON, IMPORT), (f"schedules {action} shop.tasks.close_day",))


SCHEDULES = Command(
    "schedules",
    "List schedules with their next firings; pause, resume, run or forget single ones.",
    (JSON, IMPORT),
    ("schedules", "schedules --json"),
    (
        _of_schedules("pause", "Have schedules fire no more until they are resumed."),
        _of_schedules("resume", "Have paused schedules fire again, from their next time on."),
        _of_schedules("run", "Make a job of a schedule now. Its own next time stays as it is."),
        _of_schedules("delete", "Forget schedules that are kept as data, or that the code has dropped."),
    ),
)

QUEUES = Command(
    "queues",
    "Show what stands in each queue: due, running, held and delayed jobs, and how long the oldest due one waits.",
    (JSON,),
    ("queues", "queues --json"),
)
STATS = Command(
    "stats",
    "Show the store in figures: jobs by status, queue and task, workers, and expired leases.",
    (JSON,),
    ("stats", "stats --json"),
)

CHECK = Command(
    "check",
    "Check that all is well, and exit with 1 if it is not: jobs, schedules, workers, and how the store is set up.",
    (
        Option(
            ("--max-wait",),
            "fail when a due job of any queue has waited longer, as in 90 (seconds), 5min or 1h (default: no limit)",
            {"type": age_in_seconds, "metavar": "TIME", "default": None},
        ),
        Option(
            ("--store-warnings",),
            "only warn of how the store is set up, as while developing",
            {"action": "store_true"},
        ),
        IMPORT,
        JSON,
    ),
    ("check", "check --max-wait 5min", "check --store-warnings --json"),
)


def _number(convert: type[int] | type[float]) -> Convert:
    """A number, whose bounds are looked at where it is used."""

    def parse(text: str) -> Any:
        try:
            return convert(text.removesuffix("s") if convert is float else text)
        except ValueError:
            kind = "whole number" if convert is int else "number, of seconds where it is a time"
            raise argparse.ArgumentTypeError(f"{text!r} is not a {kind}") from None

    return parse


def _of_a_run(flag: str, what: str, default: str, convert: type[int] | type[float] = float) -> Option:
    metavar = "N" if flag in ("--rate", "--workers") else "SECONDS"
    return Option((flag,), f"{what} (default: {default})", {"type": _number(convert), "metavar": metavar})


VERIFY = Command(
    "verify",
    "Prove on a store of your own that killed workers lose no jobs. The store must hold none, and has no default.",
    (
        Option(
            ("store",),
            "the store, named in full, as in redis://localhost:6379/9",
            {"metavar": "URL", "nargs": "?", "default": None},
        ),
        _of_a_run("--duration", "for how long jobs are sent", "30"),
        _of_a_run("--rate", "jobs a second", "50"),
        _of_a_run("--workers", "how many run at a time", "3", int),
        _of_a_run("--kill-every", "the time from one stop of a worker to the next", "5"),
        _of_a_run("--settle", "how long the last jobs may take", "60, or twice the lease if that is more"),
        _of_a_run("--lease", "the lease of the workers", "5"),
        Option(("--keep",), "leave the jobs of the run in the store", {"action": "store_true"}),
        Option(
            ("--faults",),
            "in place of a URL: start a store, and stop, cut off, stall, slow down, lock or fill that as well",
            {"choices": ["sqlite", "postgres", "redis"], "default": None},
        ),
        Option(
            ("--only",),
            "with --faults: only these, as in crash,stall, and no run without faults before them",
            {"type": lambda text: text.split(","), "metavar": "NAMES", "default": None},
        ),
        JSON,
    ),
    (
        "verify sqlite:///scratch.db",
        "verify redis://localhost:6379/9 --duration 60 --kill-every 3",
        "verify --faults postgres",
    ),
    names_its_store=True,
)

DASHBOARD = Command(
    "dashboard",
    "Serve the dashboard by itself, without a login, until told to stop. In a project it is in the admin as well.",
    (
        Option(
            ("--host",),
            "the address to listen on (default: 127.0.0.1, which only this machine reaches)",
            {"metavar": "HOST", "default": "127.0.0.1"},
        ),
        Option(
            ("--port",),
            "the port; 0 takes any that is free (default: 8070)",
            {"type": _port, "metavar": "PORT", "default": 8070},
        ),
        Option(
            ("--allowed-host",),
            "a name by which a proxy or a browser may ask for it, beside those of the loopback (may be given several "
            "times)",
            {"action": "append", "dest": "hosts", "metavar": "NAME", "default": None},
        ),
        IMPORT,
    ),
    ("dashboard", "dashboard --port 8080", "dashboard --host 0.0.0.0 --allowed-host jobs.example.com"),
)

COMMANDS = (WORKER, SCHEDULER, JOBS, SCHEDULES, PURGE, QUEUES, STATS, CHECK, VERIFY, DASHBOARD)
