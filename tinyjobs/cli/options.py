"""The table of commands and their options, and how argparse is given it.

Both doors parse this table: the program `tinyjobs` and Django's `manage.py tinyjobs`. They differ in a few options of
their own, such as the one that says whose jobs are meant. A value is checked while it is parsed, by the same code that
checks it in a call or a settings file.
"""

import argparse
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tinyjobs.app.steering import LONGEST_PAGE, text_of_an_id
from tinyjobs.core.errors import TinyJobsError
from tinyjobs.core.options import check_queue, check_task_name
from tinyjobs.core.retention import FINAL_STATUSES, check_age
from tinyjobs.core.status import JobStatus
from tinyjobs.runtime.settings import WorkerSettings

_DEFAULTS = WorkerSettings()
_UNITS = {"s": 1.0, "min": 60.0, "h": 3_600.0, "d": 86_400.0, "w": 604_800.0}

type Convert = Callable[[str], Any]


@dataclass(frozen=True, slots=True)
class Option:
    """One flag or argument; `details` are what argparse is told about it beside its names and its help."""

    names: tuple[str, ...]
    help: str
    details: Mapping[str, Any] = field(default_factory=dict)

    def add(self, parser: argparse.ArgumentParser, **changes: Any) -> None:
        """Have a parser take it."""
        parser.add_argument(*self.names, help=self.help.replace("%", "%%"), **{**self.details, **changes})


@dataclass(frozen=True, slots=True)
class Command:
    """One command; `name` is its whole path, such as `jobs list`. With options of its own it does something itself."""

    name: str
    help: str
    options: tuple[Option, ...] = ()
    examples: tuple[str, ...] = ()
    children: tuple["Command", ...] = ()


def add_commands(
    parser: argparse.ArgumentParser,
    commands: Sequence[Command],
    program: str,
    shared: Iterable[Option] = (),
    *,
    example_suffix: str = "",
    dest: str = "command",
    required: bool = True,
) -> None:
    """Add the commands to a parser. Each takes the `shared` options too; `program` begins the examples."""
    shared = tuple(shared)
    places = parser.add_subparsers(dest=dest, required=required, metavar=dest.upper(), title=f"{dest}s")
    for command in commands:
        place = places.add_parser(
            command.name.split()[-1],
            help=command.help,
            description=command.help,
            epilog=_examples(command, program, example_suffix),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        acts = not command.children or bool(command.options)
        if command.children:
            add_commands(
                place,
                command.children,
                program,
                shared,
                example_suffix=example_suffix,
                dest="action",
                required=not acts,
            )
        if acts:
            _add_options(place, command, shared)


def _add_options(place: argparse.ArgumentParser, command: Command, shared: Iterable[Option]) -> None:
    for option in command.options:
        option.add(place)
    place.set_defaults(chosen=command.name)
    for option in shared:
        # Of a command with others below it, what is required may stand behind those; whoever parses looks after it.
        changes = {"required": False} if command.children and "required" in option.details else {}
        option.add(place, **changes)


def _examples(command: Command, program: str, suffix: str) -> str | None:
    examples = command.examples or tuple(line for child in command.children for line in child.examples)
    return "examples:\n" + "\n".join(f"  {program} {line}{suffix}" for line in examples) if examples else None


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
    ),
    ("worker", "worker --queues mail,receipts --concurrency 4", "worker --until-empty"),
)

JOBS = Command(
    "jobs",
    "Look at jobs, run failed ones again, cancel others.",
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
    "Show the store in figures: jobs by status, queue and task, and expired leases.",
    (JSON,),
    ("stats", "stats --json"),
)

COMMANDS = (WORKER, SCHEDULER, JOBS, SCHEDULES, PURGE, QUEUES, STATS)
