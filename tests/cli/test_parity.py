"""`tinyjobs` and `manage.py tinyjobs` take the same: both parsers are held against each other, option by option.

What may differ is listed here, and nothing else.
"""

import argparse

import pytest
from django.core.management import load_command_class

from tinyjobs.cli.main import make_parser

#: Options of one program alone.
ONLY_OURS = {"--app"}
ONLY_DJANGOS = {"--backend", "--settings", "--pythonpath", "--no-color", "--force-color", "--skip-checks"}
#: What Django's program has read already, before the command, and so keeps if it is not given again behind it.
READ_BEFORE = {"--verbosity", "--traceback"}


def commands(parser: argparse.ArgumentParser, path: tuple[str, ...] = ()):
    """Every command by its path, with its parser."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, place in action.choices.items():
                yield (*path, name), place
                yield from commands(place, (*path, name))


def options(place: argparse.ArgumentParser):
    """What a parser takes, by its name, in all that a person or a program could notice."""
    found = {}
    for action in place._actions:
        if isinstance(action, argparse._SubParsersAction):
            continue
        name = next((flag for flag in action.option_strings if flag.startswith("--")), action.dest)
        found[name] = {
            "kind": type(action),
            "flags": list(action.option_strings),
            "dest": action.dest,
            "nargs": action.nargs,
            "const": action.const,
            "default": action.default,
            "type": action.type,
            "choices": None if action.choices is None else list(action.choices),
            "required": action.required,
            "metavar": action.metavar,
            "help": action.help,
        }
    return found


OURS = dict(commands(make_parser()))
DJANGOS = dict(commands(load_command_class("tinyjobs", "tinyjobs").create_parser("manage.py", "tinyjobs")))


def test_the_commands_are_the_same():
    assert list(OURS) == list(DJANGOS)
    assert ("worker",) in OURS and ("jobs", "list") in OURS


@pytest.mark.parametrize("path", list(OURS), ids=" ".join)
def test_a_command_takes_the_same(path):
    ours, djangos = options(OURS[path]), options(DJANGOS[path])
    assert set(ours) - set(djangos) <= ONLY_OURS
    assert set(djangos) - set(ours) <= ONLY_DJANGOS
    both = [name for name in ours if name in djangos]
    assert both == [name for name in djangos if name in ours], "in the same order"
    for name in both:
        left, right = ours[name], djangos[name]
        if name in READ_BEFORE:
            assert right.pop("default") is argparse.SUPPRESS
            del left["default"]
        assert left == right, name


@pytest.mark.parametrize("path", list(OURS), ids=" ".join)
def test_a_command_is_described_alike(path):
    assert OURS[path].description == DJANGOS[path].description

    def examples(text):
        return (text or "").replace("manage.py tinyjobs", "tinyjobs").replace(" --app myproject:app", "")

    assert examples(OURS[path].epilog) == examples(DJANGOS[path].epilog)


def test_what_sets_the_doors_apart_is_there():
    leaf = ("jobs", "list")
    assert set(options(OURS[leaf])) >= ONLY_OURS
    assert set(options(DJANGOS[leaf])) >= ONLY_DJANGOS
