"""`manage.py tinyjobs`: the commands of the table in `cli.options` over one alias of `TASKS`."""

import sys
from argparse import SUPPRESS
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, TextIO

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from tinyjobs.cli.commands import perform, reloads, runs_long
from tinyjobs.cli.console import Console, occupy_standard_streams, settle_streams
from tinyjobs.cli.options import COMMANDS, LOG_FORMAT
from tinyjobs.cli.outcome import CommandFailed, failure
from tinyjobs.cli.reload import is_child
from tinyjobs.cli.sink import never_waiting
from tinyjobs.cli.table import Option, add_commands
from tinyjobs.core.errors import TinyJobsError
from tinyjobs.management.stores import store_of
from tinyjobs.management.target import AliasTarget, check_alias, default_alias

# Read where the parser of `manage.py tinyjobs` has read them already, or else has its defaults for them.
_UNLESS_GIVEN: dict[str, Any] = {"default": SUPPRESS}
_BACKEND = Option(
    ("--backend",),
    "the alias in TASKS whose jobs are meant (default: the one that uses tinyjobs)",
    {"metavar": "ALIAS", "dest": "backend"},
    is_target=True,
)
_DJANGO = (
    Option(
        ("-v", "--verbosity"),
        "0: errors and warnings alone, 1: as usual (default), 2: also the tasks and a line for each job",
        {"type": int, "choices": range(4)},
    ),
    Option(("--settings",), "the Python path of a settings module", {"metavar": "MODULE"}),
    Option(("--pythonpath",), "a folder to look for modules in", {"metavar": "FOLDER"}),
    Option(("--traceback",), "show where an error came from", {"action": "store_true"}),
    Option(("--no-color",), "no colours", {"action": "store_true"}),
    Option(("--force-color",), "colours also where the output is no terminal", {"action": "store_true"}),
    Option(("--skip-checks",), "do not run the system checks first", {"action": "store_true"}),
)


class Command(BaseCommand):
    """Runs workers, and looks at and steers jobs. Usable from `call_command`, where it raises `CommandError`."""

    help = "Run and steer the background jobs of this project."
    _called_from_command_line: bool = False

    def add_arguments(self, parser: CommandParser) -> None:
        """Give the parser the commands. Django's own options may stand behind them as well."""
        _BACKEND.add(parser)
        shared = [replace(option, details={**option.details, **_UNLESS_GIVEN}) for option in (_BACKEND, *_DJANGO)]
        add_commands(parser, COMMANDS, "manage.py tinyjobs", [*shared, LOG_FORMAT])

    def execute(self, *args: Any, **options: Any) -> str | None:
        """Run the checks, but not in a process that only starts another one, which runs them."""
        if self._is_supervisor(options):
            options["skip_checks"] = True
        return super().execute(*args, **options)

    def handle(self, *args: Any, **options: Any) -> None:
        """Do what was chosen."""
        if self._owns_process:
            occupy_standard_streams()
        console = self._console(options["verbosity"])
        try:
            with never_waiting(console) if runs_long(options) else nullcontext(console) as console:
                status = self._handle(options, console)
        finally:
            if self._owns_process:
                settle_streams()
        if status:
            sys.exit(status)

    def _handle(self, options: dict[str, Any], console: Console) -> int:
        try:
            if options["backend"] is not None:
                check_alias(options["backend"])  # before a reload would wait for the settings to have it
            return perform(
                options,
                lambda: AliasTarget(options["backend"] or default_alias()),
                console,
                reload=self._reloads(options),
                owns_process=self._owns_process,
                find_store=store_of,
            )
        except CommandFailed as error:
            raise CommandError(str(error), returncode=error.status) from error.__cause__
        except TinyJobsError as error:
            ending = failure(error)
            raise CommandError(str(ending), returncode=ending.status) from error

    @property
    def _owns_process(self) -> bool:
        # A program may also hand its own list to `execute_from_command_line`, and keeps its signals then.
        return self._called_from_command_line and "tinyjobs" in sys.argv[1:]

    def _reloads(self, options: dict[str, Any]) -> bool:
        return reloads(options, by_default=settings.DEBUG, owns_process=self._owns_process)

    def _is_supervisor(self, options: dict[str, Any]) -> bool:
        try:
            return self._reloads(options) and not is_child()
        except CommandFailed:
            return False  # said when it is handled

    def _console(self, verbosity: int) -> Console:
        def to_stdout(text: str) -> None:
            self.stdout.write(text)
            self.stdout.flush()

        def to_stderr(text: str) -> None:
            self.stderr.write(text, lambda line: line)
            self.stderr.flush()

        style = self.style
        return Console(
            to_stdout,
            to_stderr,
            verbosity=verbosity,
            warning=style.WARNING,
            heading=style.MIGRATE_HEADING,
            streams=(_stream_of(self.stdout), _stream_of(self.stderr)),
        )


def _stream_of(wrapper: Any) -> TextIO | None:
    """What one of Django's wrappers around an output writes to."""
    return getattr(wrapper, "_out", None)
