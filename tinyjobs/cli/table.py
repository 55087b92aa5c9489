"""What a table of commands is made of, and how argparse is given one. Knows no command."""

import argparse
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any


@dataclass(frozen=True, slots=True)
class Option:
    """One flag or argument; `details` are what argparse is told about it beside its names and its help.

    `is_target`: it says whose jobs are meant, so a command that names its store itself does not take it.
    """

    names: tuple[str, ...]
    help: str
    details: Mapping[str, Any] = field(default_factory=dict)
    is_target: bool = False

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
    names_its_store: bool = False


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
            epilog=_examples(command, program, "" if command.names_its_store else example_suffix),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        _answer_for_itself(place)
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
    place.set_defaults(chosen=command.name, names_its_store=command.names_its_store)
    for option in shared:
        if option.is_target and command.names_its_store:
            continue
        # Of a command with others below it, what is required may stand behind those; whoever parses looks after it.
        changes = {"required": False} if command.children and "required" in option.details else {}
        option.add(place, **changes)


def _answer_for_itself(place: argparse.ArgumentParser) -> None:
    """Have a command refuse what it does not know by itself, with its own usage; argparse would leave it to the top."""
    parse = place.parse_known_args

    def parse_all(*args: Any, **kwargs: Any) -> Any:
        found, unknown = parse(*args, **kwargs)
        if unknown:
            place.error(f"unrecognized arguments: {' '.join(unknown)}{_nearest(place, unknown)}")
        return found, unknown

    place.parse_known_args = parse_all  # type: ignore[method-assign]


def _nearest(place: argparse.ArgumentParser, unknown: Sequence[str]) -> str:
    known = [name for action in place._actions for name in action.option_strings]
    flags = [word.partition("=")[0] for word in unknown if word.startswith("--")]
    found = [name for flag in flags for name in get_close_matches(flag, known, 1)]
    return f" (did you mean {', '.join(found)}?)" if found else ""


def _examples(command: Command, program: str, suffix: str) -> str | None:
    examples = command.examples or tuple(line for child in command.children for line in child.examples)
    return "examples:\n" + "\n".join(f"  {program} {line}{suffix}" for line in examples) if examples else None
