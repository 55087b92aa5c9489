"""The program `tinyjobs`, also `python -m tinyjobs`: the commands over a `TinyJobs` app. Needs no Django."""

import argparse
import signal
import sys
import traceback
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any

from tinyjobs.cli.commands import perform, reloads, runs_long
from tinyjobs.cli.console import Console, occupy_standard_streams, process_console, settle_streams
from tinyjobs.cli.options import COMMANDS, LOG_FORMAT
from tinyjobs.cli.outcome import CommandFailed
from tinyjobs.cli.sink import never_waiting
from tinyjobs.cli.table import Option, add_commands
from tinyjobs.cli.target import find_app
from tinyjobs.version import __version__

_EXAMPLES = """\
examples:
  tinyjobs worker --app myproject:app
  tinyjobs worker --app myproject:app --import "myproject.jobs.*" --queues mail,receipts
  tinyjobs jobs list --app myproject:app --status failed
  tinyjobs COMMAND --help

A project with Django uses `python manage.py tinyjobs` instead.
"""

_SHARED = (
    Option(
        ("--app",),
        "the TinyJobs app, as the module and the name of it there",
        {"metavar": "MODULE:NAME", "required": True},
        is_target=True,
    ),
    Option(
        ("-v", "--verbosity"),
        "0: errors and warnings alone, 1: as usual (default), 2: also the tasks and a line for each job",
        {"type": int, "choices": range(4), "default": 1},
    ),
    Option(("--traceback",), "show where an error came from", {"action": "store_true"}),
    LOG_FORMAT,
)


def make_parser() -> argparse.ArgumentParser:
    """The program's parser."""
    parser = argparse.ArgumentParser(
        prog="tinyjobs",
        description="Run and steer the jobs of a TinyJobs app.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"tinyjobs {__version__}")
    add_commands(parser, COMMANDS, "tinyjobs", _SHARED, example_suffix=" --app myproject:app")
    return parser


def main(argv: Sequence[str] | None = None, *, owns_process: bool = False) -> int:
    """Do what the command line says; the exit status. Exits by itself for `--help` and a wrong command line."""
    parser = make_parser()
    options: dict[str, Any] = vars(parser.parse_args(argv))
    if options.get("app") is None and not options.get("names_its_store"):
        parser.error("the following arguments are required: --app")
    console = process_console(options["verbosity"])
    # One that lists jobs may well wait for the pager that shows them.
    with never_waiting(console) if runs_long(options) else nullcontext(console) as console:
        return _main(options, console, owns_process=owns_process)


def _main(options: Mapping[str, Any], console: Console, *, owns_process: bool) -> int:
    try:
        return perform(
            options,
            lambda: find_app(options["app"]),
            console,
            reload=reloads(options, by_default=False, owns_process=owns_process),
            owns_process=owns_process,
            takes_root=owns_process,
        )
    except CommandFailed as error:
        if options["traceback"]:
            for line in traceback.format_exception(error):
                console.warn(line.rstrip())
        console.warn(f"tinyjobs: {error}")
        return error.status


def run() -> None:
    """The program as a process of its own."""
    occupy_standard_streams()
    try:
        status = main(owns_process=True)
    except KeyboardInterrupt:
        # By the signal itself: whoever started this, as a shell with a loop, has to learn that it was interrupted.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        settle_streams()
        signal.raise_signal(signal.SIGINT)
        raise
    finally:
        settle_streams()
    sys.exit(status)
