"""Importing what the command line names: modules by name or pattern, and the app of a program.

A module that fails to import, or that calls `exit()` while it is imported, is told of and does not keep the others from
being imported. Knows nothing of what the modules hold.
"""

import importlib
import importlib.util
import pkgutil
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from types import ModuleType

from tinyjobs.core.errors import ConfigurationError

type Failures = dict[str, BaseException]


def import_all(patterns: Sequence[str]) -> tuple[list[ModuleType], Failures]:
    """Import every module that the patterns name: the modules, and those that could not be, each with its error.

    `shop.*` are the modules and packages directly in `shop`, `shop.*.tasks` the module `tasks` in each of those.
    Raises `ConfigurationError` for a pattern that names nothing.
    """
    failures: Failures = {}
    modules: list[ModuleType] = []
    for pattern in patterns:
        found = list(_modules(pattern, failures))
        modules += [module for name in found if (module := import_one(name, failures)) is not None]
        if not found and not any(pattern.startswith(f"{name}.") for name in failures):
            raise ConfigurationError(
                f"--import {pattern}: there is no such module. It is looked for in the current folder and in what is "
                f"installed, as `import` does."
            )
    return modules, failures


def import_one(name: str, failures: Failures) -> ModuleType | None:
    """The module, or None and its error among the failures. An interrupt is let through."""
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:
        failures[name] = error
        return None


def told(error: BaseException) -> str:
    """In a sentence why an import failed."""
    if isinstance(error, SystemExit):
        return f"it called exit({error.code!r})"
    return f"{type(error).__name__}: {error}"


def _modules(pattern: str, failures: Failures) -> Iterator[str]:
    parts = pattern.split(".")
    if not all(part.replace("*", "x").isidentifier() for part in parts) or "*" in parts[0]:
        raise ConfigurationError(
            f"--import {pattern}: that is neither a module, such as shop.tasks, nor a pattern that begins with a "
            f"package, such as shop.*"
        )
    yield from _below(parts[0], parts[1:], failures)


def _below(name: str, rest: Sequence[str], failures: Failures) -> Iterator[str]:
    """The modules that `rest` names below the module `name`."""
    if not rest:
        if name in failures or _is_there(name, failures):
            yield name
        return
    head, *tail = rest
    if "*" not in head:
        yield from _below(f"{name}.{head}", tail, failures)
        return
    package = import_one(name, failures) if _is_there(name, failures) else None
    for entry in pkgutil.iter_modules(getattr(package, "__path__", ())):
        if fnmatchcase(entry.name, head) and entry.name != "__main__":
            yield from _below(f"{name}.{entry.name}", tail, failures)


def _is_there(name: str, failures: Failures) -> bool:
    """Whether there is such a module; imports the packages around it."""
    try:
        return importlib.util.find_spec(name) is not None
    except (Exception, SystemExit) as error:
        is_absent = isinstance(error, ModuleNotFoundError) and f"{name}.".startswith(f"{error.name}.")
        if not is_absent:
            failures[name.rpartition(".")[0] or name] = error
        return False
