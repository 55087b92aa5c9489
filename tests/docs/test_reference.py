"""The tables of the reference hold what the code has: every name, every default, and nothing else."""

import dataclasses
import inspect
import re
from pathlib import Path

import pytest

import tinyjobs
from tests.docs.pages import DOCS, ROOT, all_pages, blocks, first_codes, tables
from tinyjobs.app.facade import TinyJobs
from tinyjobs.app.results import JobHandle
from tinyjobs.app.task import Overrides, TaskDeclaration
from tinyjobs.backends.postgres.options import PostgresOptions
from tinyjobs.backends.redis.options import RedisOptions, takes
from tinyjobs.backends.sqlite.backend import SQLiteBackend
from tinyjobs.cli.main import make_parser
from tinyjobs.cli.options import COMMANDS
from tinyjobs.cli.table import Command
from tinyjobs.core import errors
from tinyjobs.core.job import Job
from tinyjobs.core.options import NOT_BUILT, TaskOptions
from tinyjobs.core.schedules import RULE_OPTIONS
from tinyjobs.core.status import ExecutionStatus, JobStatus
from tinyjobs.runtime.settings import WorkerSettings
from tinyjobs.taskbackend import settings as backend_settings
from tinyjobs.taskbackend.decorator import RESERVED
from tinyjobs.taskbackend.results import JobResult
from tinyjobs.taskbackend.settings import BackendSettings
from tinyjobs.taskbackend.task import TASK_OPTIONS, Task

PACKAGE = ROOT / "tinyjobs"
SETTINGS = tables("docs/reference/settings.md")
TASKS = tables("docs/reference/tasks.md")
FACADE = tables("docs/reference/facade.md")
COMMAND_TABLES = tables("docs/reference/commands.md")
STATUSES = tables("docs/reference/statuses.md")
CHECKS = tables("docs/reference/checks.md")


def defaults_in(rows):
    """Name and default of each row whose second cell is code."""
    return {first_codes([row])[0]: row[1].strip("`") for row in rows}


def defaults_of(cls, names):
    found = {}
    for field in dataclasses.fields(cls):
        if field.name in names:
            is_made = field.default is dataclasses.MISSING
            value = field.default_factory() if is_made else field.default
            found[field.name] = repr(value).replace("<class 'Exception'>", "Exception")
    return found


def test_the_options_of_an_alias():
    places = defaults_in(SETTINGS["Where jobs are kept"] + SETTINGS["Sending and running"])
    assert places == defaults_of(BackendSettings, backend_settings.KNOWN - backend_settings.WORKER_OPTIONS)
    assert defaults_in(SETTINGS["Workers"]) == defaults_of(WorkerSettings, backend_settings.WORKER_OPTIONS)
    assert set(places) | set(defaults_in(SETTINGS["Workers"])) == backend_settings.KNOWN


def test_the_settings_shown_are_right():
    namespace = {}
    exec(blocks("docs/reference/settings.md")[0].text, namespace)
    parsed = backend_settings.parse("default", namespace["TASKS"]["default"]["OPTIONS"])
    assert parsed.worker and parsed.tasks
    assert not backend_settings.queue_problems("default", namespace["TASKS"]["default"]["QUEUES"])


def test_what_the_settings_may_say_of_a_task():
    assert set(first_codes(SETTINGS["Options of tasks"])) == backend_settings.TASK_CHANGES


def test_the_options_of_the_sqlite_store():
    given = inspect.signature(SQLiteBackend.__init__).parameters
    expected = {name: repr(given[name].default) for name in given if name not in ("self", "path", "clock")}
    assert defaults_in(SETTINGS["Options of the SQLite store"]) == expected


def test_the_options_of_the_postgres_store():
    expected = defaults_of(PostgresOptions, {field.name for field in dataclasses.fields(PostgresOptions)})
    assert defaults_in(SETTINGS["Options of the Postgres store"]) == expected


def test_the_options_of_the_redis_store():
    expected = defaults_of(RedisOptions, {field.name for field in dataclasses.fields(RedisOptions)})
    assert defaults_in(SETTINGS["Options of the Redis store"]) == expected
    connection = set(first_codes(SETTINGS["Settings of a connection to Redis"]))
    known = {name for kind in ("tcp", "tls", "unix") for name in takes(kind) if not name.startswith("ssl_")}
    assert connection == (known | {"ssl_*"}) - {"host", "port", "path"}


def test_names_of_later_versions_are_listed():
    told = (DOCS / "reference" / "tasks.md").read_text("utf-8")
    refused = re.search(r"refused: (.+?)\. `", told, re.DOTALL)
    assert refused and set(re.findall(r"`(\w+)`", refused[1])) == set(NOT_BUILT)
    assert all(f"`{name}`" in told for name in RESERVED)


def test_the_options_of_a_task():
    assert defaults_in(TASKS["Options of a task"]) == defaults_of(Task, TASK_OPTIONS)
    own = {field.name for field in dataclasses.fields(Task)} - TASK_OPTIONS - {"func", "run_after"}
    assert defaults_in(TASKS["Django's own options of a task"]) == defaults_of(Task, own)


def test_what_using_takes():
    given = inspect.signature(Task.using).parameters
    expected = {name for name in given if given[name].kind is inspect.Parameter.KEYWORD_ONLY}
    assert set(first_codes(TASKS["What one enqueue overrides"])) == expected


def test_sending_and_results():
    assert all(callable(getattr(Task, name)) for name in first_codes(TASKS["Sending"]))
    told = set(first_codes(TASKS["Results"]))
    public = {field.name for field in dataclasses.fields(JobResult) if not field.name.startswith("_")}
    assert told >= public - {"task", "backend"}
    assert all(name in public or hasattr(JobResult, name) for name in told)


def test_the_facade():
    given = inspect.signature(TinyJobs.__init__).parameters
    keywords = {name: repr(given[name].default) for name in given if given[name].kind is inspect.Parameter.KEYWORD_ONLY}
    assert defaults_in(FACADE["The app"]) == keywords
    declared = defaults_in(FACADE["Options of app.task"])
    assert declared == defaults_of(TaskOptions, {field.name for field in dataclasses.fields(TaskOptions)})
    rule = defaults_in(FACADE["A schedule of app.task"])
    assert tuple(rule) == RULE_OPTIONS
    assert set(declared) | set(rule) == set(TaskDeclaration.__annotations__)
    assert set(first_codes(FACADE["Options of with_options"])) == set(Overrides.__annotations__)


def test_the_methods_of_the_facade():
    told = {code for row in FACADE["Methods"] for cell in row[:2] for code in re.findall(r"`(\w+)`", cell)}
    public = {
        name
        for cls in TinyJobs.__mro__
        for name, value in vars(cls).items()
        if inspect.isfunction(value) and not name.startswith("_")
    }
    assert told == public


def test_the_methods_of_a_job():
    told = {code for row in FACADE["Jobs"] for cell in row[:2] for code in re.findall(r"`(\w+)`", cell)}
    methods = {name for name, value in vars(JobHandle).items() if inspect.isfunction(value)}
    assert told == {name for name in methods if not name.startswith("_")}
    fields = {field.name for field in dataclasses.fields(Job)} - {"result", "delay", "expires_in"}
    assert set(JobHandle.__annotations__) == fields | {"record"}


def leaves(commands):
    for command in commands:
        yield from leaves(command.children)
        if command.options or not command.children:
            yield command


def long_names(option):
    return next((name for name in option.names if name.startswith("--")), option.names[0])


@pytest.mark.parametrize("command", list(leaves(COMMANDS)), ids=lambda command: command.name)
def test_the_flags_of_a_command(command: Command):
    assert first_codes(COMMAND_TABLES[command.name]) == [long_names(option) for option in command.options]


def test_every_command_is_there():
    told = set(COMMAND_TABLES) - {"Every command of manage.py tinyjobs", "Every command of tinyjobs", "Exit statuses"}
    assert told == {command.name for command in leaves(COMMANDS)}


def test_the_defaults_of_the_workers_flags():
    for flag, default in ((first_codes([row])[0], row[1]) for row in COMMAND_TABLES["worker"]):
        name = flag.removeprefix("--").replace("-", "_")
        if default.replace(".", "").isdigit():
            assert float(default) == getattr(WorkerSettings(), name)


def test_the_flags_that_every_command_takes():
    from tinyjobs.cli import main
    from tinyjobs.management.commands import tinyjobs as management

    program = [long_names(option) for option in main._SHARED]
    assert first_codes(COMMAND_TABLES["Every command of tinyjobs"]) == program
    own = {long_names(management._BACKEND), "--verbosity", "--log-format"}
    assert set(first_codes(COMMAND_TABLES["Every command of manage.py tinyjobs"])) == own


def test_every_command_line_in_the_docs_is_one():
    """Not only those that run: also the ones in unit files, Dockerfiles and sentences."""
    from django.core.management import load_command_class

    django = load_command_class("tinyjobs", "tinyjobs").create_parser("manage.py", "tinyjobs")
    seen = 0
    for page in all_pages():
        text = (ROOT / page).read_text("utf-8")
        for line in re.findall(r"manage\.py tinyjobs ([^`\n;|)]+)", text):
            words = line.split("#")[0].rstrip(" :,.").split()
            known = {command.name.split()[0] for command in COMMANDS}
            if words and words[0] in known and len(words) > 1 and words[1] != ",":
                django.parse_args([word for word in words if word != "--help"])
                seen += 1
        for line in re.findall(r"python -m tinyjobs ([^`\n]+)", text):
            make_parser().parse_args(line.split())
            seen += 1
    assert seen > 10


def test_exit_statuses():
    from tinyjobs.cli import outcome

    known = {str(status) for status in (outcome.DONE, outcome.FAILED, outcome.MISUSED, outcome.FORCED)}
    assert set(first_codes(COMMAND_TABLES["Exit statuses"])) == known
    assert set(first_codes(tables("docs/how-to/workers.md")["Stopping"])) == known


def test_statuses():
    assert first_codes(STATUSES["Statuses of a job"]) == [status.value for status in JobStatus]
    assert first_codes(STATUSES["Statuses of an attempt"]) == [status.value for status in ExecutionStatus]


def test_how_a_jobs_status_reads_in_django():
    from tinyjobs.taskbackend.results import _STATUSES

    told = {first_codes([row])[0]: row[1].strip("`") for row in STATUSES["Statuses of a job"]}
    assert told == {ours.value: djangos.value for ours, djangos in _STATUSES.items()}


def test_exceptions():
    public = {name for name in dir(errors) if inspect.isclass(getattr(errors, name)) and name in tinyjobs.__all__}
    assert set(first_codes(STATUSES["Exceptions"])) == public
    assert set(first_codes(STATUSES["What a task may raise"])) == {"Retry", "Abandon"}


def test_checks():
    told = {code.removeprefix("tinyjobs.") for code in first_codes(CHECKS["Checks"])}
    source = "".join(
        path.read_text("utf-8") for path in [PACKAGE / "checks.py", *(PACKAGE / "taskbackend").glob("*.py")]
    )
    assert told == set(re.findall(r'"([EW]\d{3})"', source))


def test_loggers():
    named = {
        name
        for path in PACKAGE.rglob("*.py")
        for name in re.findall(r'getLogger\("(tinyjobs[\w.]*)"\)', path.read_text("utf-8"))
    }
    assert set(first_codes(CHECKS["Loggers"])) == named


def test_the_schema_in_the_architecture():
    ddl = (PACKAGE / "backends" / "sqlite" / "schema" / "0001.sql").read_text("utf-8")
    made = {
        name: re.findall(r"^    ([a-z_]+) [A-Z]", body, re.MULTILINE)
        for name, body in re.findall(r"CREATE TABLE \{prefix\}_(\w+) \((.*?)\n\)", ddl, re.DOTALL)
    }
    told = tables("docs/architecture.md")
    for name, columns in made.items():
        rows = told[f"tinyjobs_{name}"]
        assert [code for row in rows for code in re.findall(r"`(\w+)`", row[0])] == columns, name


def test_fragments_of_the_template_store_are_in_it():
    template = (DOCS / "how-to" / "template_store.py").read_text("utf-8")
    shown = next(block.text for block in blocks("docs/how-to/write_a_store.md") if block.file is None)
    body = shown.partition("\n\n\n")[2].strip()
    assert body in template


def test_every_page_is_in_the_navigation():
    navigation = (ROOT / ".mkdocs.yml").read_text("utf-8")
    pages = [Path(page).relative_to("docs").as_posix() for page in all_pages() if page.startswith("docs/")]
    assert [page for page in pages if f": {page}\n" not in navigation] == []


def test_the_site_builds_without_a_warning(tmp_path):
    import subprocess
    import sys

    pytest.importorskip("mkdocs", reason="mkdocs is in the group docs, which this environment has not got")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-f", str(ROOT / ".mkdocs.yml"), "-d"]
    done = subprocess.run([*command, str(tmp_path / "site")], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
