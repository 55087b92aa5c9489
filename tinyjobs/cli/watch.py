"""Whether a source file of the program has changed, found out by looking at the folders its modules come from.

Folders of installed packages and of the standard library are left out. A new file in a folder counts as a change too,
so that a module that was missing is noticed when it is written. No service of the system is needed.
"""

import os
import site
import sys
import sysconfig

type Stamp = tuple[int, int]


class SourceWatch:
    """Remembers how the files stood when they were first seen."""

    def __init__(self) -> None:
        self._folders: set[str] = set()
        self._stamps: dict[str, Stamp] = {}
        self.changed()

    def changed(self) -> str | None:
        """The path of a file that changed, came or went. Folders seen for the first time are taken as they are."""
        folders = source_folders()
        stamps: dict[str, Stamp] = {}
        for folder in folders | self._folders:
            stamps |= _stamps_in(folder)
        known = {path for path in stamps if os.path.dirname(path) in self._folders}
        self._stamps |= {path: stamp for path, stamp in stamps.items() if path not in known}
        self._folders |= folders
        for path in sorted(known | self._stamps.keys()):
            if stamps.get(path) != self._stamps.get(path):
                return path
        return None


def source_folders() -> set[str]:
    """The folders that the program's own modules come from, or could come from."""
    files: list[object] = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
    found = {os.path.dirname(os.path.abspath(file)) for file in files if isinstance(file, str)}
    found |= {os.path.abspath(entry) for entry in sys.path}
    installed = _installed()
    return {folder for folder in found if not folder.startswith(installed)}


def _installed() -> tuple[str, ...]:
    folders = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    folders += [*site.getsitepackages(), site.getusersitepackages()]
    return tuple(os.path.abspath(folder) for folder in folders if folder)


def _stamps_in(folder: str) -> dict[str, Stamp]:
    found = {}
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                # Files that begin with a dot are an editor's own.
                if entry.name.endswith(".py") and not entry.name.startswith("."):
                    found[entry.path] = _stamp(entry)
    except OSError:
        # Gone, or not a folder: what was known of it counts as gone as well.
        pass
    return found


def _stamp(entry: "os.DirEntry[str]") -> Stamp:
    try:
        status = entry.stat()
    except OSError:
        return (0, 0)
    return (status.st_mtime_ns, status.st_size)
