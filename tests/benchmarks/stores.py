"""The store that a run is measured on: a fresh one for every program, or a copy of one that was filled before.

Knows files; must know no program, no table and no driver. `databases` has the other kind.
"""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Protocol


class Store(Protocol):
    """What a run needs of a store."""

    def fresh(self, template: str | None = None) -> str:
        """The address of an empty store, or of a copy of the named one. The one of the run before is gone then."""

    def keep(self, template: str) -> None:
        """Keep the present store under that name. Nobody may have it open."""

    def settings(self) -> dict[str, str]:
        """What about it is worth a line in the table."""

    def close(self) -> None: ...


class SQLiteFiles:
    """Files in a folder, WAL files beside them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._current = folder / "store" / "jobs.db"

    def fresh(self, template: str | None = None) -> str:
        shutil.rmtree(self._current.parent, ignore_errors=True)
        self._current.parent.mkdir()
        if template is not None:
            _copy_file(self._folder / template, self._current)
        return str(self._current)

    def keep(self, template: str) -> None:
        _copy_file(self._current, self._folder / template)

    def settings(self) -> dict[str, str]:
        return {}

    def close(self) -> None:
        """The folder is the runner's."""


def _copy_file(source: Path, target: Path) -> None:
    """By SQLite itself: what stands in the file's WAL belongs to it."""
    with closing(sqlite3.connect(source)) as one, closing(sqlite3.connect(target, timeout=30)) as other:
        one.backup(other)
